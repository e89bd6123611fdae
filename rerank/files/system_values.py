"""One system's values per query, and what of a file is read; the readers share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from metrics.arrays import Floats
from rerank.errors import InputError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", ".pq")


@dataclass(frozen=True)
class SystemValues:
    """One system's values: query_ids in byte order, measure -> (n,) float64, NaN where it failed.

    name: the model that the file names, or the file. clusters: label of each query, or None.
    """

    name: str
    path: Path
    query_ids: tuple[str, ...]
    values: Mapping[str, Floats]
    clusters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Selection:
    """What of a file is read. measures: all where empty. task: needed where a file has several.

    clusters: the field that holds the cluster of a query, or "".
    """

    measures: tuple[str, ...] = ()
    task: str = ""
    clusters: str = ""


def task_of(path: Path, tasks: Sequence[str], selection: Selection) -> str:
    """The task to read; InputError where there are several to choose from, or not the asked one."""
    known = list(dict.fromkeys(tasks))
    if selection.task and selection.task not in known:
        raise InputError(f"{path}: no task '{selection.task}'; it has {', '.join(known) or 'none'}")
    if not selection.task and len(known) > 1:
        raise InputError(
            f"{path} holds {len(known)} tasks ({', '.join(known)}); choose one with --task"
        )
    return selection.task or (known[0] if known else "")


def file_name(path: Path) -> str:
    """The file's name without its kind."""
    name = path.name.removesuffix(".gz")
    return next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)

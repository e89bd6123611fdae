"""Values per query as files, whoever wrote them: JSONL, a query a line, or long-form Parquet.

JSONL: `{"query_id": "q1", "nDCG@10": 0.5, "RR": null, "error": "Timeout"}`; every field of numbers
is a measure, null or a missing field is a failure. Parquet: query_id, measure, value and perhaps
task and model, as `query_metrics` (rerank/schemas.py) and `rerank score-run --to` have it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rerank.errors import InputError
from rerank.files.file_kinds import ID_OF_QUERY, kind_of
from rerank.files.formats import json_lines, text_field
from rerank.files.system_values import Selection, SystemValues, file_name, task_of
from rerank.files.value_tables import parquet_values

# fields of a JSONL row that are never a measure
DESCRIBING = (*ID_OF_QUERY, "task", "model", "error", "attributes")


def read_systems(paths: Sequence[Path], selection: Selection) -> list[SystemValues]:
    """The systems of all files in order; a name that two files use is told apart by the file."""
    twice = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice; a file compared with itself says nothing")
    systems = [system for path in paths for system in read_values(path, selection)]
    names = Counter(system.name for system in systems)
    return [
        replace(system, name=f"{system.path}:{system.name}") if names[system.name] > 1 else system
        for system in systems
    ]


def read_values(path: Path, selection: Selection) -> list[SystemValues]:
    """The systems of one file, one a model. InputError names file, line and field."""
    read = parquet_values if kind_of(path) == "parquet" else _jsonl_values
    systems = read(path, selection)
    if not systems:
        raise InputError(f"{path} holds no value; give a file with a query a line")
    return systems


def _jsonl_values(path: Path, selection: Selection) -> list[SystemValues]:
    rows = list(json_lines(path))
    tasks = [str(row.get("task") or "") for _, row in rows]
    task = task_of(path, tasks, selection)
    rows = [pair for pair, name in zip(rows, tasks, strict=True) if name == task]
    measures = _measures(path, rows, selection)
    models: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {}
    for line, row in rows:
        where = f"{path}, line {line}"
        model = text_field(row, ("model",), where) if row.get("model") else file_name(path)
        query = text_field(row, ID_OF_QUERY, where)
        mine = models.setdefault(model, {})
        if query in mine:
            raise InputError(
                f"{path}, lines {mine[query][0]} and {line}: query '{query}' occurs twice; keep one"
            )
        _check_error(row, measures, where)
        mine[query] = line, row
    return [_system(model, path, found, measures, selection) for model, found in models.items()]


def _system(
    name: str,
    path: Path,
    rows: Mapping[str, tuple[int, dict[str, Any]]],
    measures: Sequence[str],
    selection: Selection,
) -> SystemValues:
    queries = tuple(sorted(rows))
    labels = None
    if selection.clusters:
        labels = tuple(_cluster(path, *rows[query], selection.clusters) for query in queries)
    return SystemValues(
        name=name,
        path=path,
        query_ids=queries,
        values={
            measure: np.array([_value(rows[query][1].get(measure)) for query in queries])
            for measure in measures
        },
        clusters=labels,
    )


def _measures(
    path: Path, rows: Sequence[tuple[int, dict[str, Any]]], selection: Selection
) -> list[str]:
    """The chosen measures, or every field of numbers; fields of texts describe the query."""
    fields = list(dict.fromkeys(name for _, row in rows for name in row))
    candidates = [name for name in fields if name not in (*DESCRIBING, selection.clusters)]
    found = [name for name in candidates if _is_measure([row.get(name) for _, row in rows])]
    for name in selection.measures:
        if name not in candidates:
            raise InputError(f"{path}: no measure '{name}'; it has {', '.join(found) or 'none'}")
    chosen = list(selection.measures) or found
    if rows and not chosen:
        raise InputError(f"{path}: no field holds numbers; a measure is a field of its own")
    for line, row in rows:
        for name in chosen:
            _check_number(row.get(name), f"{path}, line {line}, field '{name}'")
    return chosen


def _is_measure(values: Sequence[Any]) -> bool:
    """Whether any value is a number, or none is anything but null."""
    written = [value for value in values if value is not None]
    return not written or any(_is_number(value) for value in written)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_number(value: Any, where: str) -> None:
    if value is None:
        return
    if not _is_number(value):
        raise InputError(f"{where}: {value!r:.60} is no number; write null where it failed")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond float64
        finite = False
    if not finite:
        raise InputError(f"{where}: {value!r:.60} is not finite; write null where it failed")


def _check_error(row: Mapping[str, Any], measures: Sequence[str], where: str) -> None:
    """A row with an error and a value everywhere contradicts itself: which of them failed?"""
    if row.get("error") and all(row.get(name) is not None for name in measures):
        raise InputError(
            f"{where}, field 'error': the row has an error and all its values; write null for what "
            "failed, or remove the error"
        )


def _cluster(path: Path, line: int, row: Mapping[str, Any], field: str) -> str:
    described = row.get("attributes")
    found = row.get(field, described.get(field) if isinstance(described, dict) else None)
    if not isinstance(found, str | int) or isinstance(found, bool):
        raise InputError(
            f"{path}, line {line}, field '{field}': {found!r:.60} is no cluster; give every "
            "query a label, a text or a whole number"
        )
    return str(found)


def _value(value: float | None) -> float:
    return math.nan if value is None else float(value)

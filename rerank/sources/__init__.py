"""Where a task comes from: files, frozen candidates, or the Hugging Face hub. `SOURCES` lists them.

A source reads; it decides nothing. Texts are kept byte for byte: no Unicode normalisation, no
strip. A document with a title is `title + " " + text`, the BEIR reading for rerankers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from rerank.errors import ConfigError, unknown_name
from rerank.sources.collection import Candidate, Collection, Query
from rerank.sources.expected import check_counts, counts_of, expected_counts
from rerank.sources.files import (
    file_digest,
    merge_judgments,
    qrels_file,
    read_beir,
    read_corpus,
    read_frozen_jsonl,
    read_queries,
    read_trec,
    run_file,
)
from rerank.sources.hub import read_hub
from rerank.tasks import TaskSpec

__all__ = [
    "SOURCES",
    "Candidate",
    "Collection",
    "Query",
    "file_digest",
    "load_collection",
    "merge_judgments",
    "qrels_file",
    "read_beir",
    "read_corpus",
    "read_frozen_jsonl",
    "read_hub",
    "read_queries",
    "read_trec",
    "run_file",
]

SOURCES: dict[str, Callable[[TaskSpec], Collection]] = {
    "beir": read_beir,
    "trec": read_trec,
    "frozen_jsonl": read_frozen_jsonl,
    "hub": read_hub,
}


# keys that other sources would pass over, so that other data were read than was meant
HUB_ONLY = (
    *("dataset", "layout", "subset", "splits", "qrels_dataset", "qrels_revision", "topics"),
)
_DEFAULTS = {field.name: field.default for field in fields(TaskSpec)}
EXCLUDING = ("beir", "trec", "hub")  # sources that honour ignore_identical_ids


def load_collection(spec: TaskSpec) -> Collection:
    """Read the source that the task names, and count it.

    ConfigError lists the known sources; InputError says which expected count differs.
    """
    if spec.source not in SOURCES:
        raise unknown_name("source", spec.source, SOURCES)
    _refuse_unread_keys(spec)
    expected_counts(spec)  # a wrong file is told before anything is read
    collection = SOURCES[spec.source](spec)
    splits = spec.splits if spec.source == "hub" else ()  # the hub's reader has counted these
    whole = {key: value for key, value in spec.expected.items() if key not in splits}
    check_counts(replace(spec, expected=whole), {"": counts_of(collection)})
    return collection


def _refuse_unread_keys(spec: TaskSpec) -> None:
    unread: tuple[str, ...] = () if spec.source == "hub" else HUB_ONLY
    unread += () if spec.source in EXCLUDING else ("ignore_identical_ids",)
    for key in unread:
        if getattr(spec, key) != _DEFAULTS[key]:
            raise ConfigError(
                f"task '{spec.name}': source {spec.source} does not read {key}; remove it, or use "
                "source: hub (split: NAME chooses qrels/NAME.tsv of a BEIR folder)"
            )

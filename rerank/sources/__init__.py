"""Where a task comes from: files, frozen candidates, or the Hugging Face hub. `SOURCES` lists them.

A source reads; it decides nothing. Texts are kept byte for byte: no Unicode normalisation, no
strip. A document with a title is `title + " " + text`, the BEIR reading for rerankers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rerank.errors import unknown_name
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


def load_collection(spec: TaskSpec) -> Collection:
    """Read the source that the task names, and count it.

    ConfigError lists the known sources; InputError says which expected count differs.
    """
    if spec.source not in SOURCES:
        raise unknown_name("source", spec.source, SOURCES)
    expected_counts(spec)  # a wrong file is told before anything is read
    collection = SOURCES[spec.source](spec)
    splits = spec.splits if spec.source == "hub" else ()  # the hub's reader has counted these
    whole = {key: value for key, value in spec.expected.items() if key not in splits}
    check_counts(replace(spec, expected=whole), {"": counts_of(collection)})
    return collection

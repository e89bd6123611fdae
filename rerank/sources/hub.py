"""Tasks of the Hugging Face hub: read by `datasets` at a pinned commit, splits pooled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rerank.errors import ConfigError, InputError, unknown_name
from rerank.files.formats import Judgment, RunRow
from rerank.files.run_files import read_run
from rerank.fingerprint import sha256_bytes, sha256_rows
from rerank.sources.collection import Candidate, Collection, Query
from rerank.sources.expected import Counts, check_counts
from rerank.sources.files import by_query, run_file
from rerank.sources.hub_location import locate
from rerank.sources.hub_tables import HubTables
from rerank.sources.layouts import LAYOUTS, SplitData
from rerank.tasks import TaskSpec


@dataclass(frozen=True)
class Part:
    """The judged queries of one split, with all that concerns them."""

    queries: dict[str, Query]
    judgments: list[Judgment]
    lists: dict[str, list[str]] | None
    excluded: Mapping[str, frozenset[str]]


def read_hub(spec: TaskSpec) -> Collection:
    """A data set of the hub, from a folder or cache laid out like it or from the hub itself.

    Queries without a judgment are left out, as MTEB does. Of several splits the queries are
    pooled with an attribute `split`; the splits must be of one size and share their corpus, so
    that the pooled mean is the mean of the splits' means, which MTEB reports. Raises ConfigError
    for a task file that is wrong, InputError for data that are.
    """
    _check(spec)
    located = locate(spec.dataset, spec.revision, beside=Path(spec.folder), task=spec.name)
    hub = HubTables(located, spec.name)
    read = {split: LAYOUTS[spec.layout](hub, spec, split) for split in spec.splits}
    corpus = next(iter(read.values())).corpus
    if any(data.corpus.by_id != corpus.by_id for data in read.values()):
        raise InputError(
            f"task '{spec.name}': the corpora of splits {', '.join(spec.splits)} differ; "
            "make one task a split"
        )
    parts = {split: _judged(data) for split, data in read.items()}
    documents = corpus.by_id
    check_counts(
        replace(spec, expected={key: spec.expected[key] for key in parts if key in spec.expected}),
        {split: _counts(part, len(documents)) for split, part in parts.items()},
    )
    whole = pooled(parts, spec.name)
    return Collection(
        queries=whole.queries,
        documents=documents,
        judgments=whole.judgments,
        candidates=None if whole.lists is None else _candidates(whole.lists, documents, spec),
        run=_run(spec),
        excluded=_excluded(whole, documents, spec),
        digests=_digests(whole, documents),
        notes={
            "null_documents": corpus.nulls,
            "repeated_documents": corpus.repeated,
            "dataset": {"read_from": located.kind, "commit": located.commit},
            "queries_without_judgment": sum(len(data.queries) for data in read.values())
            - len(whole.queries),
        },
    )


def _check(spec: TaskSpec) -> None:
    if spec.layout not in LAYOUTS:
        raise unknown_name(f"layout of task '{spec.name}'", spec.layout, LAYOUTS)
    if not spec.splits or len(set(spec.splits)) != len(spec.splits):
        raise ConfigError(
            f"task '{spec.name}': source hub needs splits: [NAME], each once, not "
            f"{list(spec.splits)}"
        )
    if (spec.topics or spec.qrels) and (spec.layout != "mteb" or len(spec.splits) > 1):
        raise ConfigError(
            f"task '{spec.name}': files of topics and qrels need layout mteb and one split"
        )


def _judged(data: SplitData) -> Part:
    """The queries that have a judgment, in the data set's order."""
    judged = {row.query_id for row in data.judgments}
    queries = {key: query for key, query in data.queries.items() if key in judged}
    return Part(
        queries=queries,
        judgments=data.judgments,
        lists=None if data.lists is None else {key: data.lists.get(key, []) for key in queries},
        excluded={key: data.excluded[key] for key in queries if key in data.excluded},
    )


def _counts(part: Part, documents: int) -> Counts:
    lists = part.lists
    return Counts.of(
        part.judgments,
        documents=documents,
        candidates=None if lists is None else sum(map(len, lists.values())),
    )


def pooled(parts: Mapping[str, Part], task: str) -> Part:
    """One part of all splits; ids get the prefix SPLIT/ where two splits share one.

    InputError for splits of different sizes: the pooled mean would weigh them differently from
    MTEB, which averages the splits' means.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    sizes = {split: len({row.query_id for row in part.judgments}) for split, part in parts.items()}
    if len(set(sizes.values())) > 1:
        counted = ", ".join(f"{split} {size:,}" for split, size in sizes.items())
        raise InputError(
            f"task '{task}': splits of different sizes ({counted} queries) cannot be pooled as "
            "MTEB averages them; make one task a split"
        )
    ids = [key for part in parts.values() for key in part.queries]
    prefixed = len(set(ids)) < len(ids)
    named = [_named(part, split, f"{split}/" if prefixed else "") for split, part in parts.items()]
    lists = [part.lists for part in named if part.lists is not None]
    if lists and len(lists) != len(named):
        raise InputError(f"task '{task}': only some of its splits bring candidates")
    return Part(
        queries=_joined(part.queries for part in named),
        judgments=[row for part in named for row in part.judgments],
        lists=_joined(lists) if lists else None,
        excluded=_joined(part.excluded for part in named),
    )


def _named(part: Part, split: str, prefix: str) -> Part:
    return Part(
        queries={
            prefix + key: replace(
                query,
                query_id=prefix + key,
                attributes=dict(sorted({**query.attributes, "split": split}.items())),
            )
            for key, query in part.queries.items()
        },
        judgments=[replace(row, query_id=prefix + row.query_id) for row in part.judgments],
        lists=part.lists and {prefix + key: ids for key, ids in part.lists.items()},
        excluded={prefix + key: ids for key, ids in part.excluded.items()},
    )


def _joined(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for mapping in mappings for key, value in mapping.items()}


def _candidates(
    lists: Mapping[str, list[str]], documents: Mapping[str, str], spec: TaskSpec
) -> dict[str, list[Candidate]]:
    """The data set's candidates, all of them, in an order that says nothing.

    Their position is no rank: sets that were made from positives and negatives hold the positives
    first, and their ids may say which is which. So a query's candidates are ranked by the digest
    of their texts, then by id.
    """
    missing = next(
        ((q, doc) for q, ids in lists.items() for doc in ids if doc not in documents), None
    )
    if missing is not None:
        raise InputError(
            f"task '{spec.name}': query '{missing[0]}' lists document '{missing[1]}', which the "
            "corpus does not hold; check subset and splits in the task's YAML"
        )
    return {
        query_id: [
            Candidate(doc_id, documents[doc_id], rank, None)
            for rank, doc_id in enumerate(
                sorted(ids, key=lambda doc: (sha256_bytes(documents[doc].encode()), doc)), 1
            )
        ]
        for query_id, ids in lists.items()
    }


def _run(spec: TaskSpec) -> dict[str, list[RunRow]] | None:
    return by_query(read_run(run_file(spec))) if spec.first_stage == "run" else None


def _excluded(
    whole: Part, documents: Mapping[str, str], spec: TaskSpec
) -> dict[str, frozenset[str]]:
    """What may not be offered: the layout's exclusions and, if asked for, the query's own id."""
    own = {
        key: frozenset({key})
        for key in whole.queries
        if spec.ignore_identical_ids and key in documents
    }
    both = {**whole.excluded, **own}
    return {key: frozenset({*whole.excluded.get(key, ()), *own.get(key, ())}) for key in both}


def _digests(whole: Part, documents: Mapping[str, str]) -> dict[str, str]:
    """Digests of what was read, equal wherever the data set was read from."""
    found = {
        "documents": sha256_rows(documents.items()),
        "queries": sha256_rows((query.query_id, query.text) for query in whole.queries.values()),
        "judgments": sha256_rows((row.query_id, row.doc_id, row.grade) for row in whole.judgments),
    }
    if whole.lists is not None:
        found["candidates"] = _sets_digest(whole.lists)
    if whole.excluded:
        found["excluded"] = _sets_digest(whole.excluded)
    return found


def _sets_digest(sets: Mapping[str, Iterable[str]]) -> str:
    return sha256_rows((str(len(row)), *row) for row in ([key, *sorted(sets[key])] for key in sets))

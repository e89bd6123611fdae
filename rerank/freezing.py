"""Freeze: a task's source becomes candidate shards, queries, judgments, and a manifest.

The manifest is written last, so its existence means the freeze is complete. The same inputs give
the same content, the same fingerprint and, with one Parquet writer, the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from rerank.errors import ConfigError, InputError, unknown_name
from rerank.files.formats import Judgment, RunRow
from rerank.fingerprint import canonical, fingerprint, sha256_bytes
from rerank.frozen import (
    CANDIDATES,
    FrozenTask,
    Shard,
    content_digest,
    find_frozen,
    frozen_key,
    remember,
)
from rerank.retrieval import BM25Index
from rerank.schemas import table_of
from rerank.sources import Candidate, Collection, Query, load_collection
from rerank.store import Store, parquet_bytes
from rerank.tasks import TaskSpec

FREEZING_VERSION = 1  # raised when the same source would give other candidates
ROW_GROUP = 4096  # rows; bounds the memory of a reader that streams a shard
# what a task file says without changing a candidate, a judgment or a query
CIRCUMSTANCE = ("folder", "title", "description", "language", "licence", "shard_pairs")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One candidate row before it is frozen."""

    candidate: Candidate
    injected: bool


def freeze(spec: TaskSpec, store: Store, progress: Progress = lambda message: None) -> FrozenTask:
    """The frozen task of `spec`, built if the store does not hold it yet.

    Raises InputError for a source that is wrong and ConfigError for a spec that is.
    """
    check_spec(spec)
    progress(f"{spec.name}: reading the source")
    collection = load_collection(spec)
    recipe = {
        "spec": spec_identity(spec),
        "sources": dict(sorted(collection.digests.items())),
        "freezing_version": FREEZING_VERSION,
    }
    known = find_frozen(store, spec.name, recipe=fingerprint(recipe))
    if known is not None:
        progress(f"{spec.name}: already frozen as {known.fingerprint}")
        remember(store, known)
        return known
    queries = evaluated_queries(collection, spec)
    progress(f"{spec.name}: choosing candidates for {len(queries):,} queries")
    rows = dict(candidate_rows(collection, queries, spec))
    return _write(spec, store, recipe, collection, queries, rows)


def check_spec(spec: TaskSpec) -> None:
    """ConfigError for a value that no task can have."""
    if spec.first_stage not in FIRST_STAGES:
        raise unknown_name("first stage", spec.first_stage, FIRST_STAGES)
    if spec.depth < 1 or spec.shard_pairs < 1:
        raise ConfigError(f"task '{spec.name}': depth and shard_pairs must be at least 1")


def spec_identity(spec: TaskSpec) -> dict[str, Any]:
    """The part of a task file that can change a candidate list, a judgment or a query."""
    everything = asdict(spec)
    kept = {key: everything[key] for key in sorted(everything) if key not in CIRCUMSTANCE}
    identity: dict[str, Any] = canonical(kept)  # as it reads back from the manifest
    return identity


def evaluated_queries(collection: Collection, spec: TaskSpec) -> dict[str, Query]:
    """The queries with a judgment (all of them where the source brings candidates), by id bytes.

    InputError where a judged query has no text: leaving it out would change every mean.
    """
    judged = {row.query_id for row in collection.judgments}
    missing = sorted(judged - collection.queries.keys())
    if missing:
        raise InputError(
            f"task '{spec.name}': {len(missing)} judged queries have no text, first '{missing[0]}';"
            " add them to the queries file or remove their judgments"
        )
    chosen = collection.queries if collection.candidates is not None else judged
    if not judged:
        raise InputError(f"task '{spec.name}': no query is judged; check qrels and split")
    return {key: collection.queries[key] for key in sorted(chosen, key=str.encode)}


def candidate_rows(
    collection: Collection, queries: dict[str, Query], spec: TaskSpec
) -> Iterator[tuple[str, list[Row]]]:
    """(query id, candidate rows in rank order) for every query."""
    gold = gold_documents(collection.judgments)
    choose = FIRST_STAGES[spec.first_stage] if collection.candidates is None else _given
    offered = choose(collection, queries, spec, gold)
    for query_id in queries:
        yield query_id, offered(query_id)


Chooser = Callable[[str], list[Row]]


def _bm25(
    collection: Collection, queries: dict[str, Query], spec: TaskSpec, gold: Mapping[str, set[str]]
) -> Chooser:
    index = BM25Index(
        collection.documents,
        analyzer_name=spec.analyzer,
        method=spec.method,
        k1=spec.k1,
        b=spec.b,
    )
    documents = collection.documents

    def choose(query_id: str) -> list[Row]:
        wanted = gold.get(query_id, set()) if spec.inject_gold else set()
        found = index.search(queries[query_id].text, spec.depth + len(wanted))
        scored = dict(zip(found.doc_ids, found.scores.tolist(), strict=True))
        extra = {
            doc_id: float(found.all_scores[index.position[doc_id]])
            for doc_id in wanted
            if doc_id in index.position and doc_id not in scored
        }
        return _with_gold(scored, extra, wanted, documents, spec.depth)

    return choose


def _imported_run(
    collection: Collection, queries: dict[str, Query], spec: TaskSpec, gold: Mapping[str, set[str]]
) -> Chooser:
    documents, run = collection.documents, collection.run or {}

    def choose(query_id: str) -> list[Row]:
        wanted = gold.get(query_id, set()) if spec.inject_gold else set()
        ordered = _best_first(run.get(query_id, []))
        scored: dict[str, float | None] = {row.doc_id: row.score for row in ordered}
        unknown = [doc_id for doc_id in scored if doc_id not in documents]
        if unknown:
            raise InputError(
                f"task '{spec.name}': the run lists document '{unknown[0]}' for query "
                f"'{query_id}', which the corpus does not hold; use the run's own corpus"
            )
        extra: dict[str, float | None] = dict.fromkeys(
            sorted(wanted & documents.keys() - scored.keys(), key=str.encode, reverse=True)
        )
        return _with_gold(scored, extra, wanted, documents, spec.depth)

    return choose


def _best_first(rows: list[RunRow]) -> list[RunRow]:
    """Score descending, then document id descending by UTF-8 bytes (trec_eval's rule)."""
    by_id = sorted(rows, key=lambda row: row.doc_id.encode("utf-8"), reverse=True)
    return sorted(by_id, key=lambda row: -row.score)


def _given(
    collection: Collection, queries: dict[str, Query], spec: TaskSpec, gold: Mapping[str, set[str]]
) -> Chooser:
    if spec.inject_gold:
        raise ConfigError(
            f"task '{spec.name}': inject_gold needs a corpus; frozen candidates are kept as given"
        )
    lists = collection.candidates or {}
    return lambda query_id: [Row(candidate, injected=False) for candidate in lists[query_id]]


def _with_gold(
    scored: Mapping[str, float | None],
    extra: Mapping[str, float | None],
    wanted: set[str],
    documents: Mapping[str, str],
    depth: int,
) -> list[Row]:
    """The top `depth` that are not gold, with the gold where its own score puts it.

    `scored` is best first. A gold document that the first stage did not retrieve stands last,
    behind everything it did retrieve, so candidate order never favours an injected document.
    Without injection `wanted` is empty and this is the plain top `depth`.
    """
    plain = set(list(scored)[:depth])
    others = [doc_id for doc_id in scored if doc_id not in wanted][:depth]
    kept = set(others) | wanted
    order = [doc_id for doc_id in scored if doc_id in kept]
    order += sorted(extra, key=lambda doc_id: (extra[doc_id] or 0.0, doc_id.encode()), reverse=True)
    return [
        Row(
            Candidate(doc_id, documents[doc_id], rank, scored.get(doc_id, extra.get(doc_id))),
            injected=doc_id in wanted and doc_id not in plain,
        )
        for rank, doc_id in enumerate(order, 1)
    ]


def gold_documents(judgments: list[Judgment]) -> dict[str, set[str]]:
    """Query id -> ids of its relevant (grade at least 1) documents."""
    gold: dict[str, set[str]] = {}
    for row in judgments:
        if row.grade >= 1:
            gold.setdefault(row.query_id, set()).add(row.doc_id)
    return gold


def _write(
    spec: TaskSpec,
    store: Store,
    recipe: dict[str, Any],
    collection: Collection,
    queries: dict[str, Query],
    rows: dict[str, list[Row]],
) -> FrozenTask:
    judgments = sorted(
        collection.judgments, key=lambda row: (row.query_id.encode(), row.doc_id.encode())
    )
    shards, tables = _shards(queries, rows, spec.shard_pairs)
    side = {"queries": queries_table(queries), "judgments": judgments_table(judgments)}
    contents = {name: content_digest(table) for name, table in side.items()}
    identity = {
        "recipe": recipe,
        "candidates": [content_digest(table) for table in tables],
        **contents,
    }
    print_ = fingerprint(identity)
    folder = frozen_key(spec.name, print_)
    files: dict[str, str] = {}
    for name, table in side.items():
        files[f"{name}.parquet"] = sha256_bytes(
            store.write_table(f"{folder}/{name}.parquet", table)
        )
    for shard, table in zip(shards, tables, strict=True):
        data = parquet_bytes(table, row_group_size=ROW_GROUP)
        store.write(f"{folder}/{shard['file']}", data)
        shard["sha256"] = sha256_bytes(data)
    manifest = {
        "task": spec.name,
        "fingerprint": print_,
        "recipe_fingerprint": fingerprint(recipe),
        "identity": identity,
        "shards": shards,
        "files": files,
        "counts": _counts(collection, queries, rows, judgments),
        "notes": collection.notes,
        "about": {
            key: str(getattr(spec, key)) for key in ("title", "description", "language", "licence")
        },
    }
    store.write_json(f"{folder}/manifest.json", manifest)
    task = FrozenTask(store, folder, manifest)
    remember(store, task)
    return task


def _shards(
    queries: dict[str, Query], rows: dict[str, list[Row]], pairs: int
) -> tuple[list[dict[str, Any]], list[pa.Table]]:
    """Shards of whole queries, each closed once it holds `pairs` rows."""
    shards: list[dict[str, Any]] = []
    tables: list[pa.Table] = []
    batch: list[str] = []
    waiting = 0
    ids = list(queries)
    for position, query_id in enumerate(ids):
        batch.append(query_id)
        waiting += len(rows[query_id])
        if waiting and (waiting >= pairs or position == len(ids) - 1):
            table = candidates_table(batch, queries, rows)
            shards.append(_shard_facts(len(shards), table, batch, rows))
            tables.append(table)
            batch, waiting = [], 0
    return shards, tables


def _shard_facts(
    number: int, table: pa.Table, batch: list[str], rows: dict[str, list[Row]]
) -> dict[str, Any]:
    shard = Shard(
        number=number,
        file=f"{CANDIDATES}/{number:05d}.parquet",
        rows=table.num_rows,
        queries=sum(1 for query_id in batch if rows[query_id]),
        characters=sum(len(row.candidate.text) for query_id in batch for row in rows[query_id]),
        content=content_digest(table),
        sha256="",
    )
    return asdict(shard)


def candidates_table(
    batch: list[str], queries: dict[str, Query], rows: dict[str, list[Row]]
) -> pa.Table:
    """The candidate rows of some queries, as the schema has them."""
    pairs = [(query_id, row) for query_id in batch for row in rows[query_id]]
    candidates = [row.candidate for _, row in pairs]
    return table_of(
        "candidates",
        {
            "query_id": [query_id for query_id, _ in pairs],
            "doc_id": [candidate.doc_id for candidate in candidates],
            "rank": [candidate.rank for candidate in candidates],
            "retrieval_score": [candidate.score for candidate in candidates],
            "query": [queries[query_id].text for query_id, _ in pairs],
            "document": [candidate.text for candidate in candidates],
            "doc_version": [sha256_bytes(c.text.encode("utf-8")) for c in candidates],
            "injected": [row.injected for _, row in pairs],
        },
    )


def queries_table(queries: dict[str, Query]) -> pa.Table:
    return table_of(
        "queries",
        {
            "query_id": list(queries),
            "query": [query.text for query in queries.values()],
            "weight": [query.weight for query in queries.values()],
            "attributes": [sorted(query.attributes.items()) for query in queries.values()],
        },
    )


def judgments_table(judgments: list[Judgment]) -> pa.Table:
    return table_of(
        "judgments",
        {
            "query_id": [row.query_id for row in judgments],
            "doc_id": [row.doc_id for row in judgments],
            "grade": [row.grade for row in judgments],
            "provenance": [row.provenance for row in judgments],
            "attributes": [sorted(row.attributes.items()) for row in judgments],
        },
    )


def _counts(
    collection: Collection,
    queries: dict[str, Query],
    rows: dict[str, list[Row]],
    judgments: list[Judgment],
) -> dict[str, Any]:
    known = collection.documents
    return {
        "queries": len(queries),
        "documents": len(known) or len({r.candidate.doc_id for q in rows.values() for r in q}),
        "pairs": sum(len(found) for found in rows.values()),
        "injected": sum(row.injected for found in rows.values() for row in found),
        "judgments": len(judgments),
        "grades": {str(k): n for k, n in sorted(Counter(row.grade for row in judgments).items())},
        "provenance": dict(sorted(Counter(row.provenance for row in judgments).items())),
        "judged_outside_corpus": sum(row.doc_id not in known for row in judgments) if known else 0,
        "queries_without_candidates": sum(not found for found in rows.values()),
        "empty_documents": sum(not text for text in known.values()),
    }


FIRST_STAGES = {"bm25": _bm25, "run": _imported_run}

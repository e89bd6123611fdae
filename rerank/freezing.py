"""Freeze: a task's source becomes candidate shards, queries, judgments, and a manifest.

The manifest is written last, so its existence means the freeze is complete. The same inputs give
the same content, the same fingerprint and, with one Parquet writer, the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from rerank.analyzers import identifying_versions
from rerank.errors import ConfigError, InputError
from rerank.files.formats import Judgment
from rerank.fingerprint import canonical, fingerprint, sha256_bytes
from rerank.first_stage.candidates import (
    Stage,
    candidate_rows,
    check_first_stage,
    needs_analyzer,
    read_first_stage_files,
    settings_of,
)
from rerank.first_stage.injection import Row
from rerank.first_stage.saved_index import CorpusIndex, index_of_corpus
from rerank.first_stage.token_blocks import Tokenise
from rerank.frozen import (
    CANDIDATES,
    FrozenTask,
    Shard,
    content_digest,
    find_frozen,
    frozen_key,
    remember,
)
from rerank.schemas import table_of
from rerank.sources import Collection, Query, load_collection
from rerank.store import Store, parquet_bytes
from rerank.tasks import TaskSpec

FREEZING_VERSION = 1  # raised when the same source would give other candidates
ROW_GROUP = 4096  # rows; bounds the memory of a reader that streams a shard
# what a task file says without changing a candidate, a judgment or a query
CIRCUMSTANCE = (
    *("folder", "title", "description", "language", "licence", "shard_pairs"),
    *("measures", "trap", "expected"),
)
# keys that stand in every identity; a later key does so where it is not at its default, so that
# what was frozen before the key existed keeps its fingerprint
ALWAYS = (
    *("name", "source", "corpus", "queries", "qrels", "candidates", "split", "revision"),
    *("provenance", "query_attributes", "first_stage", "run", "analyzer", "method", "k1", "b"),
    *("depth", "inject_gold"),
)

Progress = Callable[[str], None]


def freeze(
    spec: TaskSpec,
    store: Store,
    progress: Progress = lambda message: None,
    tokenise: Tokenise | None = None,
) -> FrozenTask:
    """The frozen task of `spec`, built if the store does not hold it yet.

    `tokenise` decides where a corpus is tokenised; by default on this machine's processors.
    Raises InputError for a source that is wrong and ConfigError for a spec that is.
    """
    check_spec(spec)
    progress(f"{spec.name}: reading the source")
    collection = load_collection(spec)
    files = read_first_stage_files(spec)
    recipe = recipe_of(spec, {**collection.digests, **files.digests})
    known = find_frozen(store, spec.name, recipe=fingerprint(recipe))
    if known is not None:
        progress(f"{spec.name}: already frozen as {known.fingerprint}")
        remember(store, known)
        return known
    queries = evaluated_queries(collection, spec)

    def build_index() -> CorpusIndex:
        progress(f"{spec.name}: index of {len(collection.documents):,} documents")
        return index_of_corpus(
            collection.documents,
            spec.analyzer,
            settings_of(spec),
            store,
            tokenise=tokenise,
            progress=lambda message: progress(f"{spec.name}: {message}"),
        )

    progress(f"{spec.name}: choosing candidates for {len(queries):,} queries")
    rows = dict(candidate_rows(Stage(spec, collection, queries, files, build_index)))
    _tell_empty(spec, rows, progress)
    return _write(spec, store, recipe, collection, queries, rows)


def _tell_empty(spec: TaskSpec, rows: Mapping[str, Sequence[Row]], progress: Progress) -> None:
    """InputError where nothing was found at all; a word about queries without a candidate."""
    empty = [query_id for query_id, found in rows.items() if not found]
    if len(empty) == len(rows):
        raise InputError(
            f"task '{spec.name}': no query has a candidate; check that first stage, analyzer and "
            "queries belong to this corpus"
        )
    if empty:
        progress(
            f"{spec.name}: {len(empty):,} queries have no candidate and score 0, first '{empty[0]}'"
        )


def check_spec(spec: TaskSpec) -> None:
    """ConfigError for a value that no task can have."""
    check_first_stage(spec)
    if spec.depth < 1 or spec.shard_pairs < 1:
        raise ConfigError(f"task '{spec.name}': depth and shard_pairs must be at least 1")


def spec_identity(spec: TaskSpec) -> dict[str, Any]:
    """The part of a task file that can change a candidate list, a judgment or a query."""
    identity: dict[str, Any] = canonical(  # as it reads back from the manifest
        {
            field.name: getattr(spec, field.name)
            for field in sorted(fields(spec), key=lambda field: field.name)
            if field.name not in CIRCUMSTANCE
            and (field.name in ALWAYS or getattr(spec, field.name) != field.default)
        }
    )
    return identity


def recipe_of(spec: TaskSpec, digests: Mapping[str, str]) -> dict[str, Any]:
    """All that decides a frozen task: its file, its sources by role, how its text was analysed."""
    recipe = {
        "spec": spec_identity(spec),
        "sources": dict(sorted(digests.items())),
        "freezing_version": FREEZING_VERSION,
    }
    versions = identifying_versions(spec.analyzer) if needs_analyzer(spec) else {}
    return {**recipe, "analyzer_packages": versions} if versions else recipe


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

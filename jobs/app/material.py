"""One query's candidates, judgments and scores, read from the frozen task and from the runs.

Every file is checked against the digest that its manifest or receipt names before it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.app.reading import Aggregates
from rerank.errors import FrozenDataError
from rerank.frozen import FrozenTask, checked_bytes, open_frozen
from rerank.runs import score_bytes, valid_receipt
from rerank.store import table_from_bytes


@dataclass(frozen=True)
class Candidate:
    """A document of the query. grade: None where nobody judged it; rank: of the first stage."""

    doc_id: str
    text: str
    rank: int
    retrieval_score: float | None
    injected: bool
    grade: int | None


@dataclass(frozen=True)
class Scored:
    """What a model made of one document. score: None where `failure` says why."""

    score: float | None
    tokens: int
    truncated: bool
    failure: str | None


@dataclass(frozen=True)
class QueryMaterial:
    """Candidates in the first stage's order, and system -> document id -> its score.

    missed: judged relevant documents that are no candidates, with their grades.
    """

    task: str
    query_id: str
    query: str
    weight: float
    attributes: dict[str, str]
    candidates: tuple[Candidate, ...]
    scores: dict[str, dict[str, Scored]]
    missed: tuple[tuple[str, int], ...]


def frozen_of(data: Aggregates, task: str) -> FrozenTask:
    """The frozen task that was evaluated."""
    print_ = data.task(task)["fingerprint"]
    return data.cache.get(("frozen", print_), lambda: open_frozen(data.store, task, print_))


def query_material(
    data: Aggregates, task: str, query_id: str, systems: Sequence[str]
) -> QueryMaterial | None:
    """All that is known of one query; None where the task has no such query.

    FrozenDataError where a file is missing or is not the one that was evaluated.
    """
    frozen, queries = frozen_of(data, task), data.queries(task)
    at = pc.index(queries["query_id"], query_id).as_py()
    if at < 0:
        return None
    row = queries.slice(at, 1).to_pylist()[0]
    grades = _grades(data, frozen, query_id)
    rows: list[dict[str, Any]] = []
    if row["shard"] is not None:
        rows = _candidate_rows(frozen, row["shard"], query_id)
    found = tuple(
        Candidate(
            entry["doc_id"],
            entry["document"],
            entry["rank"],
            entry["retrieval_score"],
            entry["injected"],
            grades.get(entry["doc_id"]),
        )
        for entry in rows
    )
    listed = {candidate.doc_id for candidate in found}
    missed = [(doc, grade) for doc, grade in grades.items() if grade > 0 and doc not in listed]
    scores = {
        system: _scores(data, frozen, system, row["shard"], query_id)
        for system in systems
        if row["shard"] is not None
    }
    return QueryMaterial(
        task=task,
        query_id=query_id,
        query=row["query"],
        weight=row["weight"],
        attributes=_attributes(frozen, query_id, data),
        candidates=tuple(sorted(found, key=lambda candidate: candidate.rank)),
        scores=scores,
        missed=tuple(sorted(missed, key=lambda pair: (-pair[1], pair[0]))),
    )


def _candidate_rows(frozen: FrozenTask, shard: int, query_id: str) -> list[dict[str, Any]]:
    (place,) = [found for found in frozen.shards if found.number == shard]
    table = frozen.candidates(place)
    rows: list[dict[str, Any]] = table.filter(pc.equal(table["query_id"], query_id)).to_pylist()
    return rows


def _side_table(data: Aggregates, frozen: FrozenTask, name: str) -> pa.Table:
    """`queries` or `judgments`, by the file's digest: the rows' own takes seconds to check."""

    def read() -> pa.Table:
        key = f"{frozen.folder}/{name}.parquet"
        digest = frozen.manifest["files"][f"{name}.parquet"]
        return table_from_bytes(checked_bytes(frozen.store, key, digest), frozen.store.where(key))

    return data.cache.get(("side", frozen.fingerprint, name), read)


def _grades(data: Aggregates, frozen: FrozenTask, query_id: str) -> dict[str, int]:
    table = _side_table(data, frozen, "judgments")
    rows = table.filter(pc.equal(table["query_id"], query_id)).select(["doc_id", "grade"])
    return {row["doc_id"]: row["grade"] for row in rows.to_pylist()}


def _attributes(frozen: FrozenTask, query_id: str, data: Aggregates) -> dict[str, str]:
    table = _side_table(data, frozen, "queries")
    rows = table.filter(pc.equal(table["query_id"], query_id)).select(["attributes"]).to_pylist()
    return dict(rows[0]["attributes"]) if rows else {}


def _scores(
    data: Aggregates, frozen: FrozenTask, system: str, shard: int, query_id: str
) -> dict[str, Scored]:
    print_ = data.system(system)["runs"][frozen.name]
    key = f"runs/{frozen.name}/{system}/{print_}"
    (place,) = [found for found in frozen.shards if found.number == shard]
    receipt = valid_receipt(data.store, key, print_, place)
    blob = None if receipt is None else score_bytes(data.store, key, receipt)
    if blob is None:
        raise FrozenDataError(
            f"{data.store.where(key)} has no valid scores of shard {shard} any more; replay the "
            "suite and evaluate it again"
        )
    table = table_from_bytes(blob, key)
    rows = table.filter(pc.equal(table["query_id"], query_id)).to_pylist()
    return {
        row["doc_id"]: Scored(row["score"], row["tokens"], row["truncated"], row["failure"])
        for row in rows
    }

"""What a frozen task holds, in figures: lengths, grades, recall by depth, injected rows.

Read back shard by shard from the store; of the texts only their lengths are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metrics.arrays import Booleans, Floats, Integers
from rerank.frozen import FrozenTask

DEPTHS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
UNJUDGED_AT = 10
BINS_A_DECADE = 12  # of a histogram of lengths


def frozen_facts(task: FrozenTask) -> dict[str, Any]:
    """The figures of a freeze report, strict-JSON ready.

    Lengths are characters: of every query once, and of the document of every pair, as a model has
    to read it. Recall is the mean over the queries with a relevant document (grade from 1), as
    `candidate_recall` of `metrics`; unjudged the share of the candidates at ranks 1 to 10, None
    without any. Of unordered sets (`ordered` false) ranks mean nothing: recall stands at the
    deepest depth alone, unjudged is None. Recall without injected rows is None where what
    `gold_rule: within` removed has moved the others up: everywhere but at the deepest depth.
    """
    rows = _rows(task)
    ids = task.queries["query_id"]
    n = len(ids)
    owners = _codes(rows["query_id"], ids)
    grades = _grades(rows, task.judgments, ids)
    ranks = rows["rank"].to_numpy().astype(np.int64)
    injected = np.asarray(rows["injected"].to_numpy(), dtype=bool)
    relevant = _relevant_counts(task.judgments, ids)
    found = grades >= 1
    deepest = int(ranks.max()) if len(ranks) else 0
    ordered = is_ordered(task)
    depths = [depth for depth in DEPTHS if depth < deepest and ordered]
    depths += [deepest] if deepest else []
    plain = _recall(owners[~injected], found[~injected], ranks[~injected], relevant, depths)
    if injected.any() and _recipe(task)["spec"].get("gold_rule") == "within":
        plain = [*([None] * (len(plain) - 1)), plain[-1]]
    recall = _recall(owners, found, ranks, relevant, depths)
    added = np.bincount(owners[injected], minlength=n)
    judged = ~np.isnan(grades) & (grades >= 0)
    return {
        "task": task.name,
        "fingerprint": task.fingerprint,
        "about": task.manifest.get("about", {}),
        "counts": task.counts,
        "notes": task.manifest.get("notes", {}),
        "query_characters": lengths_of(pc.utf8_length(task.queries["query"]).to_numpy()),
        "document_characters": lengths_of(rows["length"].to_numpy()),
        "candidates_a_query": lengths_of(np.bincount(owners, minlength=n)),
        "candidate_grades": _grade_counts(grades),
        "queries_with_relevant": int((relevant > 0).sum()),
        "recall": [
            {"depth": depth, "recall": whole, "without_injected": without}
            for depth, whole, without in zip(depths, recall, plain, strict=True)
        ],
        "ordered": ordered,
        "unjudged_at_10": _unjudged(judged, ranks) if ordered else None,
        "candidates_at_10": int((ranks <= UNJUDGED_AT).sum()) if ordered else None,
        "injected": {
            "rows": int(injected.sum()),
            "queries": [
                {"query_id": ids[int(at)].as_py(), "rows": int(added[at])}
                for at in np.flatnonzero(added)
            ],
        },
    }


def is_ordered(task: FrozenTask) -> bool:
    """Do the ranks of its candidates mean anything? Not of id sets, nor of what a hub brings."""
    recipe = _recipe(task)
    spec = recipe["spec"]
    if spec.get("source") == "frozen_jsonl":
        return True
    if "candidates" in recipe["sources"]:
        return False
    return bool(spec.get("first_stage") != "ids" or spec.get("ids_ordered", False))


def _recipe(task: FrozenTask) -> dict[str, Any]:
    recipe: dict[str, Any] = task.manifest["identity"]["recipe"]
    return recipe


def _rows(task: FrozenTask) -> pa.Table:
    """query_id, doc_id, rank, injected and the document's length of every candidate row."""
    kept = ["query_id", "doc_id", "rank", "injected"]
    parts = []
    for shard in task.shards:
        table = task.candidates(shard)
        length = pc.utf8_length(table["document"])
        parts.append(table.select(kept).append_column("length", length))
    if parts:
        return pa.concat_tables(parts)
    text, whole = pa.array([], pa.string()), pa.array([], pa.int32())
    return pa.table([text, text, whole, pa.array([], pa.bool_()), whole], names=[*kept, "length"])


def _codes(column: pa.ChunkedArray, ids: pa.ChunkedArray) -> Integers:
    """Where each id stands among `ids`: (n_rows,) int64."""
    return np.asarray(pc.index_in(column, ids.combine_chunks()).to_numpy(), dtype=np.int64)


def _grades(rows: pa.Table, judgments: pa.Table, ids: pa.ChunkedArray) -> Floats:
    """The grade of every row, NaN where nobody judged: (n_rows,) float64."""
    known = judgments["doc_id"].combine_chunks().unique()
    mine, theirs = (_pairs(table, ids, known) for table in (rows, judgments))
    order = np.argsort(theirs, kind="stable")
    ordered = theirs[order]
    grades = np.full(len(mine), np.nan)
    if len(ordered):
        at = np.minimum(np.searchsorted(ordered, mine), len(ordered) - 1)
        judged = (ordered[at] == mine) & (mine >= 0)
        found = judgments["grade"].to_numpy().astype(np.float64)
        grades[judged] = found[order][at[judged]]
    return grades


def _pairs(table: pa.Table, ids: pa.ChunkedArray, doc_ids: pa.Array) -> Integers:
    """One number a (query, document), -1 where either is unknown: (n_rows,) int64."""
    query = pc.fill_null(pc.index_in(table["query_id"], ids.combine_chunks()), -1).to_numpy()
    document = pc.fill_null(pc.index_in(table["doc_id"], doc_ids), -1).to_numpy()
    known = (query >= 0) & (document >= 0)
    return np.where(known, query.astype(np.int64) * max(len(doc_ids), 1) + document, -1)


def _relevant_counts(judgments: pa.Table, ids: pa.ChunkedArray) -> Integers:
    """Relevant documents of each query, listed or not: (n_queries,) int64."""
    relevant = judgments.filter(pc.greater_equal(judgments["grade"], 1))
    at = pc.index_in(relevant["query_id"], ids.combine_chunks()).drop_null()
    return np.bincount(at.to_numpy().astype(np.int64), minlength=len(ids)).astype(np.int64)


def _recall(
    owners: Integers,
    found: Booleans,
    ranks: Integers,
    relevant: Integers,
    depths: Sequence[int],
) -> list[float | None]:
    """Mean over queries with a relevant document, at each depth."""
    asked = relevant > 0
    if not asked.any():
        return [None] * len(depths)
    means: list[float | None] = []
    for depth in depths:
        inside = found & (ranks <= depth)
        counts = np.bincount(owners[inside], minlength=len(relevant))
        means.append(float((counts[asked] / relevant[asked]).mean()))
    return means


def _unjudged(judged: Booleans, ranks: Integers) -> float | None:
    """The share of the candidates at ranks 1 to 10 that nobody judged; None where none stands."""
    inside = ranks <= UNJUDGED_AT
    return float((~judged[inside]).mean()) if inside.any() else None


def _grade_counts(grades: Floats) -> dict[str, int]:
    """Candidate rows of each grade, `unjudged` last."""
    known = grades[~np.isnan(grades)]
    values, counts = np.unique(known, return_counts=True)
    found = {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}
    return {**found, "unjudged": len(grades) - len(known)}


def lengths_of(values: np.ndarray) -> dict[str, Any]:
    """n, quantiles and a histogram of non-negative whole numbers: (n,) integer.

    bins: [low, high, count] with low <= value < high, BINS_A_DECADE of equal width on a log axis
    and whole edges; zeros have a bin of their own.
    """
    numbers = np.asarray(values, dtype=np.int64)
    if not len(numbers):
        return {"n": 0, "bins": []}
    top = int(numbers.max())
    steps = math.ceil(math.log10(top + 1) * BINS_A_DECADE) + 2
    exact = 10 ** (np.arange(steps) / BINS_A_DECADE)
    edges = np.unique(np.concatenate([[0], np.rint(exact).astype(np.int64)]))
    edges = edges[: int(np.searchsorted(edges, top, side="right")) + 1]
    counts, _ = np.histogram(numbers, np.append(edges[:-1], edges[-1] - 0.5))
    quantiles = np.quantile(numbers, [0.0, 0.05, 0.5, 0.95, 1.0]).tolist()
    return {
        "n": len(numbers),
        "mean": float(numbers.mean()),
        **dict(zip(("min", "p05", "median", "p95", "max"), map(int, quantiles), strict=True)),
        "bins": [
            [int(low), int(high), int(count)]
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
    }

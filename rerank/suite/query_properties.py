"""Numbers of each query that slices are computed from: its text, judgments and candidates.

A document is relevant from grade 1 on. What a system makes (truncated, tied) is not here but with
its evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import metrics

NO_DOCUMENT = -1  # document_length where no relevant document is a candidate


def relevant_counts(query_ids: Sequence[str], judgments: metrics.Judgments) -> np.ndarray:
    """Judged documents of grade 1 or more: (n_queries,) int64."""
    position = _positions(query_ids)
    counts = np.zeros(len(query_ids), dtype=np.int64)
    relevant = judgments.grades >= 1
    for query_id in judgments.query_ids[relevant].tolist():
        if query_id in position:
            counts[position[query_id]] += 1
    return counts


def relevant_candidates(
    query_ids: np.ndarray, doc_ids: np.ndarray, judgments: metrics.Judgments
) -> np.ndarray:
    """Which candidate rows are relevant to their query: (n_rows,) bool."""
    kept = judgments.grades >= 1
    gold = set(
        zip(judgments.query_ids[kept].tolist(), judgments.doc_ids[kept].tolist(), strict=True)
    )
    rows = zip(query_ids.tolist(), doc_ids.tolist(), strict=True)
    return np.fromiter((row in gold for row in rows), dtype=bool, count=len(query_ids))


def best_ranks(query_ids: Sequence[str], rows: Sequence[str], ranks: np.ndarray) -> np.ndarray:
    """Smallest rank among each query's rows, 0 without a row: (n_queries,) int64.

    rows, ranks: query id and 1-based rank of the rows that count.
    """
    position = _positions(query_ids)
    best = np.zeros(len(query_ids), dtype=np.int64)
    for query_id, rank in zip(rows, ranks.tolist(), strict=True):
        at = position.get(query_id)
        if at is not None and (best[at] == 0 or rank < best[at]):
            best[at] = rank
    return best


def mean_lengths(query_ids: Sequence[str], rows: Sequence[str], lengths: np.ndarray) -> np.ndarray:
    """Mean of `lengths` over each query's rows, rounded; NO_DOCUMENT without a row: (n,) int64."""
    position = _positions(query_ids)
    known = [position.get(query_id, -1) for query_id in rows]
    at = np.array(known, dtype=np.int64)
    kept = at >= 0
    counts = np.bincount(at[kept], minlength=len(query_ids))
    sums = np.bincount(at[kept], weights=lengths[kept], minlength=len(query_ids))
    means = np.rint(sums / np.maximum(counts, 1)).astype(np.int64)
    return np.where(counts > 0, means, NO_DOCUMENT)


def _positions(query_ids: Sequence[str]) -> dict[str, int]:
    return {query_id: index for index, query_id in enumerate(query_ids)}

"""Measures of the judging and of the candidate set: what no reranker can change.

Every measure is a function (Ranking, Judged, *, k, parameters) -> (n_queries,) float64.
"""

from __future__ import annotations

import numpy as np

from metrics.arrays import Booleans, Floats, Integers, ratio, sum_in_order, taken
from metrics.rankings import Judged, Ranking


def judged_share(ranking: Ranking, judged: Judged, *, k: int, denominator: str) -> Floats:
    """Judged@k = judged documents in ranks 1..k / retrieved ones among them (or / k).

    A negative grade is in the pool but not judged (trec_eval; ir_measures counts it as judged).
    """
    return _share(ranking, ranking.grades >= 0, k, denominator)


def unjudged_share(ranking: Ranking, judged: Judged, *, k: int, denominator: str) -> Floats:
    """unjudged@k = unjudged documents in ranks 1..k / k (or / retrieved ones among them).

    Per query, unlike BEIR's hole@k, which counts a document as judged if any query judged it.
    """
    return _share(ranking, ranking.present & ~(ranking.grades >= 0), k, denominator)


def candidate_recall(ranking: Ranking, judged: Judged, *, k: int | None, rel: int) -> Floats:
    """candidate_recall@N = relevant documents among the first N candidates / R.

    First by stage-1 rank, so the value is the same for every system: what stage 1 allows.
    """
    return ratio(_relevant_candidates(ranking, k, rel).sum(axis=1), judged.count(rel))


def candidate_coverage(ranking: Ranking, judged: Judged, *, k: int | None, rel: int) -> Floats:
    """candidate_coverage@N = 1 if a relevant document is among the first N candidates, else 0."""
    covered: Booleans = np.any(_relevant_candidates(ranking, k, rel), axis=1)
    return covered.astype(np.float64)


def _share(ranking: Ranking, which: Booleans, k: int, denominator: str) -> Floats:
    counted = sum_in_order(ranking.expected(which)[:, :k])
    returned: Integers = np.minimum(ranking.lengths, k)
    return ratio(counted, returned) if denominator == "returned" else counted / k


def _relevant_candidates(ranking: Ranking, k: int | None, rel: int) -> Booleans:
    relevant: Booleans = ranking.grades >= rel
    if k is None:
        return relevant
    assert ranking.positions is not None
    stage_1 = np.argsort(ranking.positions, axis=1, kind="stable")[:, :k]
    first: Booleans = taken(relevant, stage_1)
    return first

"""Measures of how relevant: gains from grades, discounted by rank.

Every measure is a function (Ranking, Judged, *, k, parameters) -> (n_queries,) float64, where k is
the cutoff or None for full depth, and 0 where nothing has a gain. Negative grades have no gain.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from metrics.arrays import Floats, ratio, sum_in_order
from metrics.errors import MetricError
from metrics.rankings import Judged, Ranking
from metrics.survival import unsatisfied

GainTable: TypeAlias = tuple[tuple[int, float], ...]  # (grade, gain), grades ascending
Gain: TypeAlias = str | GainTable

LARGEST_EXPONENT = 512  # 2^512 for every rank of a list stays far below the largest float64


def gains_of(grades: Floats, gain: Gain) -> Floats:
    """Gain of each grade, 0 where negative, unjudged or absent: (...) -> (...) float64.

    linear: grade (trec_eval; Jarvelin and Kekalainen 2002). exp2: 2^grade - 1 (gdeval; Burges et
    al. 2005). A table gives each positive grade its gain, and the gains may fall with the grade; a
    grade that it does not name is an error, where trec_eval (ndcg.1=3,2=9) takes the grade itself.
    """
    positive: Floats = np.fmax(grades, 0.0)  # fmax drops NaN
    if gain == "linear":
        return positive
    if gain == "exp2":
        if positive.max(initial=0.0) > LARGEST_EXPONENT:
            raise MetricError(
                f"grade {positive.max():g} has no exponential gain that float64 can add up; use "
                "linear gain, or state gains in a table"
            )
        return np.exp2(positive) - 1.0
    assert not isinstance(gain, str)
    return _looked_up(positive, gain)


def falls(gain: Gain) -> bool:
    """Whether some higher grade has a lower gain, so that the best order is not by grade."""
    if isinstance(gain, str):
        return False
    amounts = [amount for grade, amount in gain if grade > 0]
    return amounts != sorted(amounts)


def dcg(ranking: Ranking, judged: Judged, *, k: int | None, gain: Gain) -> Floats:
    """DCG@k = sum_{i<=k} gain_i / log2(i + 1) (Jarvelin and Kekalainen 2002)."""
    top = ranking.head(k)
    return discounted(top.expected(gains_of(top.grades, gain)), k)


def ndcg(ranking: Ranking, judged: Judged, *, k: int | None, gain: Gain, ideal: str) -> Floats:
    """nDCG@k = DCG@k / DCG@k of the ideal order (trec_eval ndcg, ndcg_cut).

    The ideal order is by gain. ideal=judged: the best order of all judged documents of the query,
    retrieved or not, so a reranker cannot reach 1 where stage 1 missed one. ideal=candidates: of
    the retrieved ones.
    """
    best = gains_of(ranking.grades if ideal == "candidates" else judged.grades, gain)
    if ideal == "candidates" or falls(gain):
        best = -np.sort(-best, axis=1)
    return ratio(dcg(ranking, judged, k=k, gain=gain), discounted(best, k))


def expected_reciprocal_rank(
    ranking: Ranking, judged: Judged, *, k: int | None, max: int
) -> Floats:
    """ERR@k = sum_{i<=k} 1/i s_i prod_{j<i} (1 - s_j), s = (2^grade - 1) / 2^max (gdeval: max 4).

    max: highest grade of the scale, not of the data (Chapelle et al. 2009).
    Ties: the expected product over tied documents, from symmetric polynomials (`unsatisfied`).
    """
    highest = np.fmax.reduce(judged.grades, axis=None)
    if highest > max:
        raise MetricError(
            f"grade {highest:g} is above the scale of ERR, whose highest is {max}; "
            f"name the measure ERR(max={int(np.ceil(highest))})"
        )
    left = unsatisfied(ranking, gains_of(ranking.grades, "exp2") / 2.0**max)
    reached = np.concatenate([np.ones((len(left), 1)), left[:, :-1]], axis=1)
    return sum_in_order(((reached - left) / ranking.ranks)[:, :k])


def discounted(gains: Floats, k: int | None) -> Floats:
    """Sum of gains / log2(rank + 1) down to k: (n_queries, depth) -> (n_queries,) float64."""
    kept = gains[:, :k]
    return sum_in_order(kept / np.log2(np.arange(2, kept.shape[1] + 2)))


def _looked_up(grades: Floats, table: GainTable) -> Floats:
    known, gains = (np.array(column, dtype=np.float64) for column in zip(*table, strict=True))
    at = np.searchsorted(known, grades).clip(max=len(known) - 1)
    unknown = (grades > 0) & (known[at] != grades)
    if unknown.any():
        raise MetricError(
            f"grade {grades[unknown][0]:g} has no gain in the table {dict(table)}; add it"
        )
    return np.where(grades > 0, gains[at], 0.0)

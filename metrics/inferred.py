"""Average precision inferred from a pool of which only a sample is judged.

A negative grade is a document of the pool that nobody judged; a document without a row in the
judgments is outside the pool. The measure is a function (Ranking, Judged, *, k, rel) ->
(n_queries,) float64, 0 where nothing is relevant.
"""

from __future__ import annotations

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers, ratio, sum_in_order
from metrics.binary import before_group, in_group
from metrics.rankings import Judged, Ranking

EPSILON = 1e-5  # trec_eval's; keeps the precision of nothing judged at 1/2


def inferred_average_precision(ranking: Ranking, judged: Judged, *, k: None, rel: int) -> Floats:
    """infAP = 1/R sum over retrieved relevant d of (1 + p(d) c(d)) / rank(d) (trec_eval infAP).

    Above d are c(d) documents of the pool, judged or not, s of the judged ones relevant and m not:
    p(d) = (s + e) / (s + m + 2e), e = 0.00001. Documents outside the pool count as non-relevant
    (Yilmaz and Aslam 2006). R = relevant judged documents.
    Ties: exact. Of the b tied documents before d, t are judged with the hypergeometric chance;
    given t, the relevant among them (in p) and the unjudged of the pool (in c) are independent of
    each other and enter only by their means, so one sum over t is left.
    """
    hit = ranking.grades >= rel
    known, pool = ranking.grades >= 0, ranking.present & ~np.isnan(ranking.grades)
    met = _expected_met(ranking, hit, known, pool)
    terms = ranking.expected(hit) * (1.0 + met) / ranking.ranks
    return ratio(sum_in_order(terms), judged.count(rel))


def _met(relevant: Array, known: Array, pool: Array) -> Floats:
    """Relevant documents to expect among `pool` ones, `known` of them judged: (...) float64."""
    met: Floats = pool * (relevant + EPSILON) / (known + 2 * EPSILON)
    return met


def _expected_met(ranking: Ranking, hit: Booleans, known: Booleans, pool: Booleans) -> Floats:
    """E[`_met` above a relevant document at this rank]: (n_queries, depth) float64."""
    above_hit, above_known, above_pool = (before_group(ranking, w) for w in (hit, known, pool))
    ties = ranking.ties
    if ties is None:
        return _met(above_hit, above_known, above_pool)
    others = ties.size - 1  # the relevant document itself is left out of its group
    beside_hit = np.maximum(in_group(ranking, hit) - 1, 0)
    beside_known = np.maximum(in_group(ranking, known) - 1, 0)
    beside_pool = in_group(ranking, pool) - in_group(ranking, known)
    unjudged = np.maximum(others - beside_known, 1)
    t = np.arange(int(beside_known.max(initial=0)) + 1)
    chance = np.zeros((len(hit), len(t)))  # that t of the tied documents so far are judged
    met = np.zeros(hit.shape)
    for rank in range(ranking.depth):
        at = np.s_[:, rank, None]
        drawn = ties.before[at]
        chance = np.where(
            drawn == 0, t == 0, _one_more(chance, t, drawn, others[at], beside_known[at])
        )
        relevant = above_hit[at] + t * ratio(beside_hit[at], beside_known[at])
        in_pool = above_pool[at] + t + (drawn - t) * beside_pool[at] / unjudged[at]
        met[:, rank] = sum_in_order(chance * _met(relevant, above_known[at] + t, in_pool))
    return met


def _one_more(
    chance: Floats, t: Integers, drawn: Integers, others: Integers, judged: Integers
) -> Floats:
    """From `drawn` - 1 to `drawn` of `others` documents, none put back: the same shape."""
    left = np.maximum(others - drawn + 1, 1)
    grown: Floats = chance * (1.0 - np.clip(judged - t, 0, None) / left)
    grown[:, 1:] += (chance * np.clip(judged - t, 0, None) / left)[:, :-1]
    return grown

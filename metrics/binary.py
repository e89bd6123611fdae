"""Measures of relevant or not: a document counts if its grade is at least `rel`.

Every measure is a function (Ranking, Judged, *, k, parameters) -> (n_queries,) float64, where k is
the cutoff or None for full depth, and 0 where nothing is relevant. R = relevant judged documents,
rel_i = 1 if rank i is relevant. All are exact under tie="expected": those that add up
weight(rank) * rel_rank use Ranking.expected, the others state their closed form.
"""

from __future__ import annotations

import numpy as np

from metrics.arrays import Booleans, Floats, Integers, ratio, sum_in_order, taken
from metrics.rankings import Judged, Ranking
from metrics.survival import unstopped


def precision(ranking: Ranking, judged: Judged, *, k: int, rel: int) -> Floats:
    """P@k = sum_{i<=k} rel_i / k, also where fewer than k are retrieved (trec_eval P)."""
    return _hits(ranking, k, rel) / k


def recall(ranking: Ranking, judged: Judged, *, k: int | None, rel: int) -> Floats:
    """R@k = sum_{i<=k} rel_i / R, over all judged relevant documents (trec_eval recall)."""
    return ratio(_hits(ranking, k, rel), judged.count(rel))


def capped_recall(ranking: Ranking, judged: Judged, *, k: int, rel: int) -> Floats:
    """R_cap@k = sum_{i<=k} rel_i / min(k, R) (BEIR recall_cap; Thakur et al. 2021)."""
    return ratio(_hits(ranking, k, rel), np.minimum(judged.count(rel), k))


def r_precision(ranking: Ranking, judged: Judged, *, k: None, rel: int) -> Floats:
    """Rprec = sum_{i<=R} rel_i / R: precision at the query's own R (trec_eval Rprec)."""
    relevant = judged.count(rel)
    within = ranking.ranks <= relevant[:, None]
    return ratio(sum_in_order(ranking.expected(ranking.grades >= rel) * within), relevant)


def f1(ranking: Ranking, judged: Judged, *, k: int, rel: int) -> Floats:
    """F1@k = 2 P R / (P + R) of P@k and R@k = 2 hits / (k + R) (van Rijsbergen 1979)."""
    relevant = judged.count(rel)
    return np.where(relevant > 0, 2 * _hits(ranking, k, rel) / (k + relevant), 0.0)


def success(ranking: Ranking, judged: Judged, *, k: int, rel: int) -> Floats:
    """Success@k = 1 if one of the ranks 1..k is relevant, else 0 (trec_eval success).

    Ties: 1 - probability of no relevant document, hypergeometric in the group that k cuts.
    """
    top = ranking.head(k)
    missed = unstopped(top, top.grades >= rel)
    chance: Floats = 1.0 - missed[:, min(k, top.depth) - 1]
    return chance


def reciprocal_rank(ranking: Ranking, judged: Judged, *, k: int | None, rel: int) -> Floats:
    """RR@k = 1 / rank of the first relevant document, 0 beyond k (trec_eval recip_rank).

    Ties: sum_i P(first relevant document at rank i) / i.
    """
    top = ranking.head(k)
    hit = top.grades >= rel
    if top.ties is None:
        return np.where(hit.any(axis=1), 1.0 / (1 + hit.argmax(axis=1)), 0.0)
    missed = unstopped(top, hit)
    reached = np.concatenate([np.ones((len(missed), 1)), missed[:, :-1]], axis=1)
    return sum_in_order(((reached - missed) / top.ranks)[:, :k])


def average_precision(
    ranking: Ranking, judged: Judged, *, k: int | None, rel: int, denominator: str, ties: str
) -> Floats:
    """AP@k = sum_{i<=k} rel_i P@i / D, D = R (trec_eval map, map_cut) or min(k, R).

    ties=mean, the mean over all orders: E[rel_i P@i] = (r/n) (H + 1 + b (r-1)/(n-1)) / i for a
    group of n documents, r of them relevant, H hits before the group, b documents of the group
    before rank i. ties=grouped, a group at once (scikit-learn average_precision_score, with R =
    the relevant documents of the list): (r/n) (H + r) / (rank at which the group ends), at each of
    its ranks. The two differ only under tie="expected".
    """
    top = ranking.head(k)
    hit = top.grades >= rel
    relevant = judged.count(rel)
    if denominator == "min(k,R)" and k is not None:
        relevant = np.minimum(relevant, k)
    if top.ties is None:
        return ratio(_summed_precisions(hit), relevant)
    if ties == "grouped":
        precisions = _precision_of_group(top, hit)
    else:
        precisions = _hits_when_hit(top, hit) / top.ranks
    return ratio(sum_in_order(precisions[:, :k]), relevant)


def bpref(ranking: Ranking, judged: Judged, *, k: None, rel: int) -> Floats:
    """bpref = 1/R sum over retrieved relevant d of 1 - min(N(d), R) / min(N, R) (trec_eval bpref).

    N(d) = judged non-relevant documents (0 <= grade < rel) ranked above d, N = all of them; a
    relevant document with none above counts 1, so N = 0 is no division by zero. Unjudged and
    negative grades are passed over (Buckley and Voorhees 2004).
    Ties: the b non-relevant documents of d's group precede it 0..b times, equally likely.
    """
    relevant = judged.count(rel)
    limit = np.minimum(relevant, judged.count(0, rel))[:, None]
    hit, miss = ranking.grades >= rel, (ranking.grades >= 0) & (ranking.grades < rel)
    above, beside = before_group(ranking, miss), in_group(ranking, miss)
    uncapped = np.clip(limit - above, 0, beside + 1)  # outcomes in which N(d) < limit
    total = uncapped * above + uncapped * (uncapped - 1) / 2 + (beside + 1 - uncapped) * limit
    penalty = ratio(total / (beside + 1), np.broadcast_to(limit, total.shape))
    return ratio(sum_in_order(hit * (1.0 - penalty)), relevant)


def rank_biased_precision(
    ranking: Ranking, judged: Judged, *, k: int | None, rel: int, p: float
) -> Floats:
    """RBP(p) = (1 - p) sum_{i<=k} p^(i-1) rel_i (Moffat and Zobel 2008)."""
    top = ranking.head(k)
    weights = (1 - p) * p ** (top.ranks - 1)
    return sum_in_order((top.expected(top.grades >= rel) * weights)[:, :k])


def rank_biased_residual(
    ranking: Ranking, judged: Judged, *, k: int | None, rel: int, p: float
) -> Floats:
    """What RBP could still gain: (1 - p) sum over unjudged ranks <= k of p^(i-1), plus p^depth.

    The true RBP lies within [RBP, RBP + residual], whatever the unjudged documents are; depth =
    ranks that were seen, min(k, retrieved) (Moffat and Zobel 2008, section 4).
    """
    unjudged = ranking.present & ~(ranking.grades >= 0)
    weights = (1 - p) * p ** (ranking.ranks - 1)
    seen = ranking.lengths if k is None else np.minimum(ranking.lengths, k)
    unseen: Floats = p ** seen.astype(np.float64)
    return sum_in_order((ranking.expected(unjudged) * weights)[:, :k]) + unseen


def _hits(ranking: Ranking, k: int | None, rel: int) -> Floats:
    """(Expected) number of relevant documents in ranks 1..k: (n_queries,) float64."""
    top = ranking.head(k)
    if top.ties is None:
        number: Floats = (top.grades >= rel).sum(axis=1).astype(np.float64)  # whole: in any order
        return number
    return sum_in_order(top.expected(top.grades >= rel)[:, :k])


def _summed_precisions(hit: Booleans) -> Floats:
    """sum_i rel_i P@i in a definite order, over the hits alone: (n_queries, depth) -> (n_queries,).

    `bincount` adds from left to right, as trec_eval does.
    """
    cells = np.flatnonzero(hit)
    query, rank = cells // hit.shape[1], cells % hit.shape[1]
    number = np.bincount(query, minlength=len(hit))
    before = (np.cumsum(number) - number)[query]
    precisions = (np.arange(1, len(cells) + 1) - before) / (rank + 1)
    return np.bincount(query, weights=precisions, minlength=len(hit)).astype(np.float64)


def _hits_when_hit(ranking: Ranking, hit: Booleans) -> Floats:
    """E[rel_i * hits in ranks 1..i]: (n_queries, depth) float64."""
    assert ranking.ties is not None
    size, inside = ranking.ties.size, in_group(ranking, hit)
    earlier = ranking.ties.before * (inside - 1) / np.maximum(size - 1, 1)
    expected: Floats = (inside / size) * (before_group(ranking, hit) + 1 + earlier)
    return expected


def _precision_of_group(ranking: Ranking, hit: Booleans) -> Floats:
    """Share of hits in the tie group of each rank x precision where it ends: (n_queries, depth)."""
    assert ranking.ties is not None
    hits = before_group(ranking, hit) + in_group(ranking, hit)
    ends = ranking.ties.first + ranking.ties.size
    precisions: Floats = ranking.expected(hit) * hits / ends
    return precisions


def in_group(ranking: Ranking, which: Booleans) -> Integers:
    """Such documents in the tie group of each rank, itself left out of an untied one.

    In a definite order no document is beside another: zeros. (n_queries, depth) int64.
    """
    if ranking.ties is None:
        return np.zeros(which.shape, dtype=np.int64)
    begins = np.flatnonzero(ranking.ties.before.ravel() == 0)
    sizes = ranking.ties.size.ravel()[begins]
    counts = np.add.reduceat(which.ravel().astype(np.int64), begins)
    spread: Integers = np.repeat(counts, sizes).reshape(which.shape)
    return spread


def before_group(ranking: Ranking, which: Booleans) -> Integers:
    """Such documents before the tie group of each rank (before the rank, in a definite order)."""
    before: Integers = np.cumsum(which, axis=1) - which
    if ranking.ties is None:
        return before
    counted: Integers = taken(before, ranking.ties.first)
    return counted

"""Going down a ranking until a document stops the reader: what RR, Success and ERR are made of."""

from __future__ import annotations

import numpy as np

from metrics.arrays import Booleans, Floats, taken
from metrics.rankings import Ranking, Ties


def unstopped(ranking: Ranking, hit: Booleans) -> Floats:
    """Probability that none of the ranks 1..i holds a hit: (n_queries, depth) float64.

    0 or 1 in a definite order. With ties (r hits among n tied documents) the next document is the
    first hit of its group with probability r / (documents of the group that are left), as in
    drawing without replacement; groups are independent of each other.
    """
    chance = ranking.expected(hit)
    if ranking.ties is not None:
        hits = np.rint(chance * ranking.ties.size)  # whole again, so that 1 is reached exactly
        chance = np.minimum(hits / (ranking.ties.size - ranking.ties.before), 1.0)
    return np.cumprod(1.0 - chance, axis=1, dtype=np.float64)


def unsatisfied(ranking: Ranking, stop: Floats) -> Floats:
    """Expected product of (1 - stop) over ranks 1..i: (n_queries, depth) float64.

    stop: (n_queries, depth), probability that a document satisfies the reader who sees it. For j
    of n tied documents the expectation is e_j(1 - stop) / C(n, j), with e_j the elementary
    symmetric polynomial, built up as a stable average document by document.
    """
    passed = 1.0 - stop
    if ranking.ties is None:
        return np.cumprod(passed, axis=1, dtype=np.float64)
    within = _mean_products(passed, ranking.ties)
    ends = ranking.ties.before + 1 == ranking.ties.size
    whole = np.cumprod(np.where(ends, within, 1.0), axis=1)
    before = np.concatenate([np.ones((len(whole), 1)), whole[:, :-1]], axis=1)
    return taken(before, ranking.ties.first) * within


def _mean_products(passed: Floats, ties: Ties) -> Floats:
    """Mean over all orders of a tie group of the product of its first j values, at rank j of it."""
    n_queries, depth = passed.shape
    largest = int(ties.size.max())
    means = np.zeros((n_queries, largest + 1))  # column j: mean product of j of the m seen so far
    result = passed.copy()
    j = np.arange(1, largest + 1)
    for rank in range(depth):
        m = ties.before[:, rank, None] + 1
        means[m[:, 0] == 1] = 0.0
        means[:, 0] = 1.0
        grown = ((m - j) * means[:, 1:] + j * passed[:, rank, None] * means[:, :-1]) / m
        means[:, 1:] = np.where(j <= m, grown, 0.0)
        complete = np.flatnonzero(m[:, 0] == ties.size[:, rank])
        for row in complete[ties.size[complete, rank] > 1]:
            size, first = ties.size[row, rank], ties.first[row, rank]
            result[row, first : first + size] = means[row, 1 : size + 1]
    return result

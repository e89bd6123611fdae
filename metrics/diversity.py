"""Measures of variety: how many subtopics of a query the first ranks serve.

Every measure is a function (Ranking, Judged, *, k, parameters) -> (n_queries,) float64, 0 where no
subtopic has a relevant document. A document serves a subtopic if its grade for it is at least
`rel`; Ranking.topics and Judged.topics hold those grades, (n_queries, documents, n_subtopics).
Exact under tie="expected": subtopics add up, and each is a reader whom documents may satisfy.
"""

from __future__ import annotations

import numpy as np

from metrics.arrays import Booleans, Floats, Integers, ratio
from metrics.graded import discounted
from metrics.rankings import Judged, Ranking
from metrics.survival import unsatisfied, unstopped


def alpha_ndcg(ranking: Ranking, judged: Judged, *, k: int, rel: int, alpha: float) -> Floats:
    """alpha_nDCG@k = sum_{i<=k} g_i / log2(i + 1), over that of the ideal order (ndeval).

    g_i = sum over the subtopics that document i serves of (1 - alpha)^(documents above i that
    serve it too). The ideal order takes, rank by rank, the judged document of greatest gain, equal
    ones by id descending: greedy, as the true best order is NP-hard (Clarke et al. 2008).
    Ties: E[gain of a subtopic at rank i] = (E[x_{i-1}] - E[x_i]) / alpha, with x_i the product of
    1 - alpha over the documents of ranks 1..i that serve it (`unsatisfied`).
    """
    ideal = _greedy_gains(_serves(judged.topics, rel), k, alpha)
    return ratio(discounted(_novelty(ranking, rel, alpha), k), discounted(ideal, k))


def subtopic_recall(ranking: Ranking, judged: Judged, *, k: int, rel: int) -> Floats:
    """subtopic_recall@k = subtopics served in ranks 1..k / subtopics of a judged relevant document.

    Zhai et al. 2003; ndeval strec. Ties: each subtopic is served with 1 - the hypergeometric
    chance that no document of ranks 1..k serves it.
    """
    serves = _serves(ranking.topics, rel)
    served = np.zeros(len(serves))
    for subtopic in range(serves.shape[2]):
        served += 1.0 - unstopped(ranking, serves[:, :, subtopic])[:, min(k, ranking.depth) - 1]
    wanted: Integers = _serves(judged.topics, rel).any(axis=1).sum(axis=1)
    return ratio(served, wanted)


def _serves(topics: Floats | None, rel: int) -> Booleans:
    assert topics is not None, "evaluate asks for subtopics where a measure needs them"
    serves: Booleans = topics >= rel
    return serves


def _novelty(ranking: Ranking, rel: int, alpha: float) -> Floats:
    """(Expected) gain at each rank: (n_queries, depth) float64."""
    serves = _serves(ranking.topics, rel)
    gains = np.zeros(ranking.grades.shape)
    definite = True if ranking.ties is None else ranking.ties.size == 1
    for subtopic in range(serves.shape[2]):
        served = serves[:, :, subtopic]
        left = unsatisfied(ranking, np.where(served, alpha, 0.0))
        reached = np.concatenate([np.ones((len(left), 1)), left[:, :-1]], axis=1)
        gains += np.where(definite, served * reached, (reached - left) / alpha)
    return gains


def _greedy_gains(serves: Booleans, k: int, alpha: float) -> Floats:
    """Gains of the greedy order: (n_queries, n_judged, n_subtopics) -> (n_queries, min(k, .))."""
    rows = np.arange(len(serves))
    worth = np.ones((len(serves), serves.shape[2]))
    used = np.zeros(serves.shape[:2], dtype=bool)
    gains = np.zeros((len(serves), min(k, serves.shape[1])))
    for rank in range(gains.shape[1]):
        offered = np.zeros(used.shape)
        for subtopic in range(serves.shape[2]):
            offered += serves[:, :, subtopic] * worth[:, subtopic, None]
        # rounded, so that gains that only the order of addition tells apart are equal
        taken = np.argmax(np.where(used, -1.0, np.round(offered, 12)), axis=1)
        gains[:, rank] = np.where(used[rows, taken], 0.0, offered[rows, taken])
        worth = np.where(serves[rows, taken], worth * (1.0 - alpha), worth)
        used[rows, taken] = True
    return gains

"""Sweeps that need no model: candidate depth and cascades, from scores that a replay has already.

Candidates that a configuration does not rerank keep their stage-1 order below those that it does,
as in a service that reranks the top of a list. Final scores are whole numbers that say the order
alone, equal where the deciding scores are equal, so a suite's rule for ties holds here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from metrics.arrays import Booleans, Floats, Integers


@dataclass(frozen=True)
class Lists:
    """The candidate lists of a task: (n,) query number of each row, rising, and stage-1 rank."""

    queries: Integers
    ranks: Integers

    @property
    def count(self) -> int:
        return int(self.queries[-1]) + 1 if len(self.queries) else 0

    def per_query(self, rows: Booleans) -> Integers:
        """(count,) how many of the rows each query has."""
        counts: Integers = np.bincount(self.queries[rows], minlength=self.count).astype(np.int64)
        return counts


@dataclass(frozen=True)
class Configuration:
    """One way to rerank a task's lists.

    scores: (n,) float64 final scores, NaN where a deciding score is missing. pairs: model ->
    (count,) pairs that it scores of each query. settings: depth, top, gap: what makes it this one.
    """

    name: str
    scores: Floats
    pairs: Mapping[str, Integers]
    settings: Mapping[str, float] = field(default_factory=dict)


def lists_of(query_ids: Sequence[str] | np.ndarray, ranks: np.ndarray) -> Lists:
    """Rows of one query must follow each other, as in frozen candidates."""
    ids = np.asarray(query_ids, dtype=object)
    changes = np.concatenate([[False], ids[1:] != ids[:-1]]) if len(ids) else np.empty(0, bool)
    return Lists(np.cumsum(changes).astype(np.int64), np.asarray(ranks, dtype=np.int64))


def first_stage(lists: Lists, name: str = "first_stage") -> Configuration:
    """Stage 1's own order: no model is asked."""
    return Configuration(name, -lists.ranks.astype(np.float64), {})


def at_depth(lists: Lists, model: str, scores: Floats, depth: int | None) -> Configuration:
    """The model on the first `depth` ranks of each list (None: all); the rest below, as it came."""
    inside = np.ones(len(lists.ranks), bool) if depth is None else lists.ranks <= depth
    key = np.where(inside, scores, -lists.ranks)
    final = ordered(lists, inside.astype(np.int64), key)
    name = model if depth is None else f"{model} @{depth}"
    settings = {} if depth is None else {"depth": float(depth)}
    return Configuration(name, final, {model: lists.per_query(inside)}, settings)


def cascade(
    lists: Lists,
    small: tuple[str, Floats],
    large: tuple[str, Floats],
    *,
    top: int,
    depth: int | None = None,
    gap: float | None = None,
) -> Configuration:
    """The small model on the first `depth` ranks, then the large one on the small one's best `top`.

    gap: the large model is asked only for queries whose best two small scores are less than this
    apart; None asks it always. Equal small scores are cut by stage-1 rank. A query with one
    candidate needs no second opinion.
    """
    inside = np.ones(len(lists.ranks), bool) if depth is None else lists.ranks <= depth
    places = positions(lists, np.where(inside, small[1], np.nan))
    chosen = inside & (places <= top)
    if gap is not None:
        chosen &= (gaps(lists, np.where(inside, small[1], np.nan)) < gap)[lists.queries]
    tiers = inside.astype(np.int64) + chosen
    key = np.where(chosen, large[1], np.where(inside, small[1], -lists.ranks))
    settings: dict[str, float] = {"top": float(top)}
    settings |= {} if depth is None else {"depth": float(depth)}
    settings |= {} if gap is None else {"gap": gap}
    start = small[0] if depth is None else f"{small[0]} @{depth}"
    when = "" if gap is None else f" if gap < {gap:.4g}"
    return Configuration(
        f"{start} → {large[0]} @{top}{when}",
        ordered(lists, tiers, key),
        {small[0]: lists.per_query(inside), large[0]: lists.per_query(chosen)},
        settings,
    )


def ordered(lists: Lists, tiers: Integers, key: Floats) -> Floats:
    """Scores that rank by tier, then by key, both falling: (n,) float64 whole numbers from 0 down.

    Rows of one query, tier and key have the same score; a NaN key gives NaN.
    """
    order = np.lexsort((-key, -tiers, lists.queries))
    query, tier, value = lists.queries[order], tiers[order], key[order]
    new_query = np.concatenate([[True], query[1:] != query[:-1]])[: len(order)]
    differs = (tier[1:] != tier[:-1]) | (value[1:] != value[:-1])
    step = np.concatenate([[False], differs])[: len(order)] & ~new_query
    falling = np.cumsum(step)
    begins = falling[np.maximum.accumulate(np.where(new_query, np.arange(len(order)), 0))]
    final = np.empty(len(order), dtype=np.float64)
    final[order] = np.where(np.isnan(value), np.nan, begins - falling)
    return final


def positions(lists: Lists, scores: Floats) -> Integers:
    """1-based place of each row in its query by falling score, ties by stage-1 rank, NaN last."""
    order = np.lexsort((lists.ranks, -scores, lists.queries))
    query = lists.queries[order]
    new_query = np.concatenate([[True], query[1:] != query[:-1]])[: len(order)]
    at = np.arange(len(order))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = at - np.maximum.accumulate(np.where(new_query, at, 0)) + 1
    return place


def gaps(lists: Lists, scores: Floats) -> Floats:
    """(count,) best score of each query less the second best; infinite for fewer than two."""
    place = positions(lists, scores)
    best, second = np.full(lists.count, np.nan), np.full(lists.count, np.nan)
    best[lists.queries[place == 1]] = scores[place == 1]
    second[lists.queries[place == 2]] = scores[place == 2]
    apart = best - second
    return np.where(np.isnan(apart), np.inf, apart)


def gap_levels(lists: Lists, scores: Floats, shares: Sequence[float]) -> list[float]:
    """The gaps below which a share of the queries lies: thresholds for `cascade`, each once.

    They are read off the very queries that are evaluated: a threshold to be used on others is to be
    chosen on other queries as well.
    """
    found = gaps(lists, scores)
    finite = found[np.isfinite(found)]
    if not len(finite):
        return []
    return sorted({float(value) for value in np.quantile(finite, shares) if value > 0})

"""One function makes a ranking for all measures: score descending, ties by one stated rule.

A block of queries is padded to (n_queries, depth); the leading dimension is the batch. Document ids
are only compared where scores are equal, so a run without ties never sorts text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from metrics.arrays import (
    Array,
    Booleans,
    Floats,
    Integers,
    present_columns,
    taken,
)
from metrics.blocks import Layout, blocks_by_width
from metrics.errors import MetricError
from metrics.joining import Pairs
from metrics.rankings import Judged, Ranking, Ties, reordered
from metrics.records import Conventions
from metrics.rows import byte_order


@dataclass(frozen=True)
class Whole:
    """Ranked lists, with the groups and the negated scores by rank, NaN where bad or absent."""

    ranking: Ranking
    groups: Ties
    falling: Floats

    def shortened(self, how: Conventions) -> Whole:
        """The first `depth` ranks, and of these the judged ones where `judged_only`."""
        if how.depth is None and not how.judged_only:
            return self
        ranking, falling = _shortened(self.ranking, self.falling, how)
        return Whole(ranking, _equal_scores(falling, ranking.present), falling)


@dataclass(frozen=True)
class Block:
    """Some queries, ranked: members (n,) are their indices in Pairs.query_ids.

    tied: (n, depth) bool, in ranked order. groups: the groups of equal scores, whatever the rule.
    cut: (n,) bool, whether Conventions.depth parts documents of equal score. settled: (n,) bool,
    whether the tie rule chose between documents that a measure could tell apart. whole: the lists
    before `depth` and `judged_only` shortened them.
    """

    members: Integers
    ranking: Ranking
    judged: Judged
    groups: Ties
    tied: Booleans
    cut: Booleans
    settled: Booleans
    whole: Whole

    def straddles(self, k: int) -> Booleans:
        """Whether ranks k and k + 1 have the same score: (n,) bool."""
        if k >= self.ranking.depth:
            return np.zeros(len(self.members), dtype=bool)
        across: Booleans = ~self.groups.begins[:, k]
        return across


@dataclass(frozen=True)
class _Sorted:
    """A block by falling score before the tie rule.

    layout: where its pairs are. order: (n, depth) column of each rank. falling: (n, depth) negated
    scores by rank, NaN bad or absent.
    """

    layout: Layout
    order: Integers
    falling: Floats
    groups: Ties


def ranked(pairs: Pairs, members: Integers, how: Conventions) -> Block:
    """One block: sorted, ties settled, cut at `depth`, then condensed where `judged_only`."""
    by_score = _by_score(pairs, members)
    listed = _listed(pairs, by_score)
    order = _break_ties(pairs, listed, by_score, how.tie)
    whole = Whole(reordered(listed, order), by_score.groups, by_score.falling)
    cut = _cut_ties(whole.groups, how.depth)
    if how.tie == "expected" and cut.any():
        raise MetricError(
            f"depth={how.depth} cuts a group of equal scores of query "
            f"{pairs.query_ids[members[np.argmax(cut)]]!r}, and tie='expected' has no order to "
            "cut; choose another tie rule, or no depth"
        )
    short = whole.shortened(how)
    tied = short.groups.tied
    expected = how.tie == "expected" and bool(tied.any())
    return Block(
        members=members,
        ranking=replace(short.ranking, ties=short.groups) if expected else short.ranking,
        judged=_judged(pairs, members),
        groups=short.groups,
        tied=tied,
        cut=cut,
        settled=_distinct_ties(whole.ranking, whole.groups),
        whole=whole,
    )


def settled_by_grade(block: Block, how: Conventions) -> tuple[Ranking, Judged]:
    """The members that the tie rule settled, ties lowest grade first; then again, highest first.

    Documents of equal grade stay in the order of the block's own rule.
    """
    chosen = np.tile(np.flatnonzero(block.settled), 2)
    whole, topics = block.whole.ranking, block.judged.topics
    ranking = Ranking(
        grades=whole.grades[chosen],
        present=whole.present[chosen],
        positions=None if whole.positions is None else whole.positions[chosen],
        topics=None if whole.topics is None else whole.topics[chosen],
    )
    groups = Ties(block.whole.groups.begins[chosen])
    half = len(chosen) // 2
    worth = np.concatenate(
        [_worth(ranking.grades[:half], "pessimistic"), _worth(ranking.grades[half:], "optimistic")]
    )
    ranks = np.flatnonzero(groups.tied)
    order = np.tile(np.arange(ranking.depth), (len(chosen), 1))
    order = _settled(order, groups, ranks, (worth.ravel()[ranks],))
    lists = Whole(reordered(ranking, order), groups, block.whole.falling[chosen])
    judged = Judged(block.judged.grades[chosen], None if topics is None else topics[chosen])
    return lists.shortened(how).ranking, judged


def ranks_of_pairs(pairs: Pairs, how: Conventions) -> tuple[Floats, Floats]:
    """Best and mean rank of every scored pair: two (n_pairs,) float64, inf beyond `depth`.

    They differ under tie="expected" only; else both are the rank under the tie rule.
    """
    best, mean = np.full(len(pairs.scores), np.inf), np.full(len(pairs.scores), np.inf)
    for members in blocks_of(pairs, np.arange(len(pairs.query_ids))):
        by_score = _by_score(pairs, members)
        order = _break_ties(pairs, _listed(pairs, by_score), by_score, how.tie)
        first: Array = np.broadcast_to(np.arange(1.0, order.shape[1] + 1), order.shape)
        middle = first
        if how.tie == "expected":
            first = by_score.groups.first + 1.0
            middle = first + (by_score.groups.size - 1) / 2
        for ranks, rank in ((best, first), (mean, middle)):
            placed = np.empty(order.shape)
            np.put_along_axis(placed, order, rank, axis=1)
            ranks[by_score.layout.rows] = placed[by_score.layout.present]
    if how.depth is not None:
        best, mean = (np.where(ranks <= how.depth, ranks, np.inf) for ranks in (best, mean))
    return best, mean


def blocks_of(pairs: Pairs, queries: Integers) -> Iterator[Integers]:
    """Queries by falling depth, in blocks that fit the cache."""
    width = np.maximum(np.maximum(pairs.lengths, pairs.judged_lengths), 1)[queries]
    scale = 1 if pairs.subtopics is None else pairs.subtopics.width
    return blocks_by_width(queries, width, pairs.starts[queries], scale)


def _by_score(pairs: Pairs, members: Integers) -> _Sorted:
    layout = Layout(pairs.starts[members], pairs.lengths[members])
    listed = -layout.cells(pairs.scores, np.nan)
    # NaN sorts behind every number, stably: bad scores come after -inf, absent cells after those.
    # Without NaN equal scores may come in any order, the tie rule puts them into its own.
    order = np.argsort(listed, axis=1, kind="stable" if np.isnan(listed).any() else None)
    falling = taken(listed, order)
    groups = _equal_scores(falling, layout.present)
    return _Sorted(layout, order, falling, groups)


def _listed(pairs: Pairs, by_score: _Sorted) -> Ranking:
    """The block's pairs in the order in which they came."""
    layout, topics = by_score.layout, pairs.subtopics
    absent = np.iinfo(np.int64).max
    return Ranking(
        grades=layout.cells(pairs.grades, np.nan),
        present=layout.present,
        positions=None if pairs.positions is None else layout.cells(pairs.positions, absent),
        topics=None if topics is None else topics.of_pairs(layout.rows, layout.present),
    )


def _cut_ties(groups: Ties, depth: int | None) -> Booleans:
    """Queries whose ranks `depth` and `depth` + 1 have the same score: (n,) bool."""
    if depth is None or depth >= groups.begins.shape[1]:
        return np.zeros(len(groups.begins), dtype=bool)
    across: Booleans = ~groups.begins[:, depth]
    return across


def _distinct_ties(ranking: Ranking, groups: Ties) -> Booleans:
    """Queries with a group of ties whose documents differ in grade: (n,) bool.

    With subtopics any group counts.
    """
    distinct: Booleans = ~np.all(groups.begins, axis=1)
    if ranking.topics is None:
        touched = np.flatnonzero(distinct)
        grades = ranking.grades[touched]
        grades[np.isnan(grades)] = -np.inf
        differs = (grades[:, 1:] != grades[:, :-1]) & ~groups.begins[touched, 1:]
        distinct[touched] = differs.any(axis=1)
    return distinct


def _shortened(ranking: Ranking, falling: Floats, how: Conventions) -> tuple[Ranking, Floats]:
    """The first `depth` ranks, of these the judged ones: the shorter lists and their scores."""
    kept = ranking.present & (np.arange(ranking.depth) < (how.depth or ranking.depth))
    if how.judged_only:
        kept &= ranking.grades >= 0
    present = present_columns(kept.sum(axis=1), max(1, int(kept.sum(axis=1).max(initial=0))))
    front = np.argsort(~kept, axis=1, kind="stable")[:, : present.shape[1]]
    shorter = reordered(ranking, front)
    absent = np.iinfo(np.int64).max
    return (
        replace(
            shorter,
            grades=np.where(present, shorter.grades, np.nan),
            present=present,
            positions=None
            if shorter.positions is None
            else np.where(present, shorter.positions, absent),
            topics=None
            if shorter.topics is None
            else np.where(present[:, :, None], shorter.topics, np.nan),
        ),
        np.where(present, taken(falling, front), np.nan),
    )


def _equal_scores(scores: Floats, present: Booleans) -> Ties:
    """Groups of equal scores in sorted rows; bad scores (NaN) are equal to each other."""
    left, right = scores[:, :-1], scores[:, 1:]
    same = left == right
    if np.isnan(scores[:, -1:]).any():  # they are at the end
        same |= np.isnan(left) & np.isnan(right) & present[:, 1:]
    begins = np.ones(scores.shape, dtype=bool)
    np.logical_not(same, out=begins[:, 1:])
    return Ties(begins)


def _break_ties(pairs: Pairs, listed: Ranking, by_score: _Sorted, tie: str) -> Integers:
    """Column of each rank with ties settled: (n_queries, depth) int64."""
    order, width = by_score.order, by_score.order.shape[1]
    ranks = np.flatnonzero(by_score.groups.tied)
    if not len(ranks):
        return order
    query, column = ranks // width, order.ravel()[ranks]
    cells = query * width + column
    if tie == "input":
        assert listed.positions is not None
        ascending = listed.positions.ravel()[cells]
    else:
        rows = by_score.layout.starts[query] + column
        places = byte_order(pairs.doc_names, pairs.doc_codes[rows])
        ascending = places if tie == "docid_asc" else -places
    worth = np.zeros(len(ranks))
    if tie in ("pessimistic", "optimistic"):
        worth = _worth(listed.grades.ravel()[cells], tie)
    return _settled(order, by_score.groups, ranks, (ascending, worth))


def _settled(order: Integers, groups: Ties, ranks: Integers, keys: tuple[Array, ...]) -> Integers:
    """`order` with the cells of each group by rising keys, the last the first: (n, depth) int64.

    ranks: (n_tied,) flat numbers of the tied cells. keys: each (n_tied,). Groups stay where they
    are, so only their cells change places.
    """
    group = np.cumsum(groups.begins.ravel()[ranks])
    settled = order.copy()
    settled.ravel()[ranks] = order.ravel()[ranks[np.lexsort((*keys, group))]]
    return settled


def _worth(grades: Floats, tie: str) -> Floats:
    """Sort key by which the lowest or the highest grade comes first, unjudged as if negative."""
    worth: Floats = np.fmax(grades, -1.0)
    return worth if tie == "pessimistic" else -worth


def _judged(pairs: Pairs, members: Integers) -> Judged:
    layout = Layout(pairs.judged_starts[members], pairs.judged_lengths[members])
    topics = pairs.subtopics
    grades = -layout.cells(pairs.judged_grades, np.nan)
    grades.sort(axis=1)
    return Judged(
        grades=-grades,
        topics=None if topics is None else topics.of_queries(members),
    )

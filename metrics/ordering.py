"""One function makes a ranking for all measures: score descending, ties by one stated rule.

A block of queries is padded to (n_queries, depth); the leading dimension is the batch. Document ids
are only compared where scores are equal, so a run without ties never sorts text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers, padded, present_columns, ragged_rows
from metrics.errors import MetricError
from metrics.joining import Pairs
from metrics.rankings import Judged, Ranking, Ties, reordered
from metrics.records import Conventions
from metrics.rows import byte_order

CELLS = 1 << 16  # cells of one padded array: few enough for the cache; bounds memory, not results


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
        across: Booleans = self.groups.first[:, k] < k
        return across


@dataclass(frozen=True)
class _Sorted:
    """A block by falling score before the tie rule.

    rows: (n_listed,) numbers of its pairs, in the order in which `present` takes them. order:
    (n, depth) column of each rank. falling: (n, depth) negated scores by rank, NaN bad or absent.
    """

    rows: Integers
    present: Booleans
    order: Integers
    falling: Floats
    groups: Ties
    tied: Booleans


def ranked(pairs: Pairs, members: Integers, how: Conventions) -> Block:
    """One block: sorted, ties settled, cut at `depth`, then condensed where `judged_only`."""
    by_score = _by_score(pairs, members)
    listed = _listed(pairs, by_score)
    order = _break_ties(pairs, listed, by_score, how.tie)
    whole = Whole(reordered(listed, order), by_score.groups, by_score.falling)
    cut = _cut_ties(whole.groups, by_score.tied, how.depth)
    if how.tie == "expected" and cut.any():
        raise MetricError(
            f"depth={how.depth} cuts a group of equal scores of query "
            f"{pairs.query_ids[members[np.argmax(cut)]]!r}, and tie='expected' has no order to "
            "cut; choose another tie rule, or no depth"
        )
    short = whole.shortened(how)
    tied = (short.groups.size > 1) & short.ranking.present
    expected = how.tie == "expected" and bool(tied.any())
    return Block(
        members=members,
        ranking=replace(short.ranking, ties=short.groups) if expected else short.ranking,
        judged=_judged(pairs, members),
        groups=short.groups,
        tied=tied,
        cut=cut,
        settled=_distinct_ties(whole.ranking, whole.groups, by_score.tied),
        whole=whole,
    )


def settled_by_grade(block: Block, tie: str, how: Conventions) -> tuple[Ranking, Judged]:
    """The members that the tie rule settled, their ties now "pessimistic" or "optimistic".

    Documents of equal grade stay in the order of the block's own rule.
    """
    chosen = block.settled
    positions, topics = block.whole.ranking.positions, block.whole.ranking.topics
    ranking = Ranking(
        grades=block.whole.ranking.grades[chosen],
        present=block.whole.ranking.present[chosen],
        positions=None if positions is None else positions[chosen],
        topics=None if topics is None else topics[chosen],
    )
    groups = Ties(block.whole.groups.first[chosen], block.whole.groups.size[chosen])
    order = np.lexsort((_worth(ranking.grades, tie), groups.first), axis=-1)
    whole = Whole(reordered(ranking, order), groups, block.whole.falling[chosen])
    topics = block.judged.topics
    judged = Judged(block.judged.grades[chosen], None if topics is None else topics[chosen])
    return whole.shortened(how).ranking, judged


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
            ranks[by_score.rows] = placed[by_score.present]
    if how.depth is not None:
        best, mean = (np.where(ranks <= how.depth, ranks, np.inf) for ranks in (best, mean))
    return best, mean


def blocks_of(pairs: Pairs, queries: Integers) -> Iterator[Integers]:
    """Queries by falling depth; a block holds at most CELLS padded cells, or one query."""
    width = np.maximum(np.maximum(pairs.lengths, pairs.judged_lengths), 1)[queries]
    # and within a width as they stand in the run, so that memory is read from front to back
    longest_first = queries[np.lexsort((pairs.starts[queries], -width))]
    width = -np.sort(-width) * (1 if pairs.subtopics is None else pairs.subtopics.width)
    at = 0
    while at < len(longest_first):
        rows = max(1, CELLS // int(width[at]))
        yield longest_first[at : at + rows]
        at += rows


def _by_score(pairs: Pairs, members: Integers) -> _Sorted:
    lengths = pairs.lengths[members]
    rows = ragged_rows(pairs.starts[members], lengths)
    present = present_columns(lengths, max(1, int(lengths.max(initial=0))))
    listed = -padded(pairs.scores[rows], present, np.nan)
    # NaN sorts behind every number, stably: bad scores come after -inf, absent cells after those.
    # Without NaN equal scores may come in any order, the tie rule puts them into its own.
    order = np.argsort(listed, axis=1, kind="stable" if np.isnan(listed).any() else None)
    falling = np.take_along_axis(listed, order, axis=1)
    groups = _equal_scores(falling, present)
    return _Sorted(rows, present, order, falling, groups, (groups.size > 1) & present)


def _listed(pairs: Pairs, by_score: _Sorted) -> Ranking:
    """The block's pairs in the order in which they came."""
    rows, present, positions = by_score.rows, by_score.present, pairs.positions
    absent = np.iinfo(np.int64).max
    return Ranking(
        grades=padded(pairs.grades[rows], present, np.nan),
        present=present,
        positions=None if positions is None else padded(positions[rows], present, absent),
        topics=None if pairs.subtopics is None else pairs.subtopics.of_pairs(rows, present),
    )


def _cut_ties(groups: Ties, tied: Booleans, depth: int | None) -> Booleans:
    """Queries whose ranks `depth` and `depth` + 1 have the same score: (n,) bool."""
    if depth is None or depth >= tied.shape[1]:
        return np.zeros(len(tied), dtype=bool)
    across: Booleans = tied[:, depth] & (groups.first[:, depth] < depth)
    return across


def _distinct_ties(ranking: Ranking, groups: Ties, tied: Booleans) -> Booleans:
    """Queries with a group of ties whose documents differ in grade: (n,) bool.

    With subtopics any group counts.
    """
    if not tied.any():
        return np.zeros(len(tied), dtype=bool)
    grades = np.where(np.isnan(ranking.grades), -np.inf, ranking.grades)
    differs = grades != np.take_along_axis(grades, groups.first, axis=1)
    if ranking.topics is not None:
        differs = tied
    distinct: Booleans = (differs & tied).any(axis=1)
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
        np.where(present, np.take_along_axis(falling, front, axis=1), np.nan),
    )


def _equal_scores(scores: Floats, present: Booleans) -> Ties:
    """Groups of equal scores in sorted rows; bad scores (NaN) are equal to each other."""
    left, right = scores[:, :-1], scores[:, 1:]
    same = (left == right) | (np.isnan(left) & np.isnan(right) & present[:, 1:])
    first = np.tile(np.arange(scores.shape[1]), (len(scores), 1))
    size = np.ones(scores.shape, dtype=np.int64)
    touched = np.flatnonzero(same.any(axis=1))
    if len(touched):
        begins = np.ones((len(touched), scores.shape[1]), dtype=bool)
        begins[:, 1:] = ~same[touched]
        first[touched] = np.maximum.accumulate(np.where(begins, first[touched], 0), axis=1)
        starts = np.flatnonzero(begins.ravel())
        sizes = np.diff(np.append(starts, begins.size))
        size[touched] = np.repeat(sizes, sizes).reshape(begins.shape)
    return Ties(first=first, size=size)


def _break_ties(pairs: Pairs, listed: Ranking, by_score: _Sorted, tie: str) -> Integers:
    """Column of each rank with ties settled: (n_queries, depth) int64."""
    order, groups = by_score.order, by_score.groups
    touched = np.flatnonzero(by_score.tied.any(axis=1))
    if not len(touched):
        return order
    rows = order[touched]
    ascending = np.zeros(rows.shape, dtype=np.int64)
    if tie == "input":
        assert listed.positions is not None
        ascending = np.take_along_axis(listed.positions[touched], rows, axis=1)
    else:
        cells = np.zeros(order.shape, dtype=np.int64)
        cells[by_score.present] = by_score.rows
        tied = groups.size[touched] > 1
        at = np.take_along_axis(cells[touched], rows, axis=1)[tied]
        places = byte_order(pairs.doc_names, pairs.doc_codes[at])
        ascending[tied] = places if tie == "docid_asc" else -places
    worth = np.zeros(rows.shape)
    if tie in ("pessimistic", "optimistic"):
        worth = _worth(np.take_along_axis(listed.grades[touched], rows, axis=1), tie)
    settled = order.copy()
    within = np.lexsort((ascending, worth, groups.first[touched]), axis=-1)
    settled[touched] = np.take_along_axis(rows, within, axis=1)
    return settled


def _worth(grades: Floats, tie: str) -> Floats:
    """Sort key by which the lowest or the highest grade comes first, unjudged as if negative."""
    worth: Floats = np.fmax(grades, -1.0)
    return worth if tie == "pessimistic" else -worth


def _judged(pairs: Pairs, members: Integers) -> Judged:
    lengths = pairs.judged_lengths[members]
    rows = ragged_rows((np.cumsum(pairs.judged_lengths) - pairs.judged_lengths)[members], lengths)
    present = present_columns(lengths, max(1, int(lengths.max(initial=0))))
    topics = pairs.subtopics
    return Judged(
        grades=padded(pairs.judged_grades[rows], present, np.nan),
        topics=None if topics is None else topics.of_queries(members),
    )

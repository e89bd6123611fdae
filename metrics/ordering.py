"""One function makes a ranking for all measures: score descending, ties by one stated rule.

A block of queries is padded to (n_queries, depth); the leading dimension is the batch. Document ids
are only compared where scores are equal, so a run without ties never sorts text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from metrics.arrays import Booleans, Floats, Integers, Objects, padded, present_columns, ragged_rows
from metrics.joining import Pairs

CELLS = 1 << 22  # cells of one padded array: bounds memory (32 MiB each), not results


@dataclass(frozen=True)
class Ties:
    """Groups of equal scores along the ranks; an untied document is a group of one.

    first: (n_queries, depth) int64, 0-based rank at which the document's group begins.
    size: (n_queries, depth) int64, documents in the group.
    """

    first: Integers
    size: Integers

    @property
    def before(self) -> Integers:
        """Documents of the same group at earlier ranks: (n_queries, depth) int64."""
        ahead: Integers = np.arange(self.first.shape[1]) - self.first
        return ahead


@dataclass(frozen=True)
class Ranking:
    """Documents of a block of queries in evaluated order; column i holds rank i + 1.

    grades: (n_queries, depth) float64, NaN where unjudged or absent. present: bool, absent cells
    are at the end. positions: int64 stage-1 ranks. ties: the groups over which measures take
    their expectation under tie="expected"; None where the order is definite.
    """

    grades: Floats
    present: Booleans
    positions: Integers
    ties: Ties | None = None

    @property
    def depth(self) -> int:
        return int(self.grades.shape[1])

    @property
    def lengths(self) -> Integers:
        """Retrieved documents: (n_queries,) int64."""
        count: Integers = self.present.sum(axis=1)
        return count

    @property
    def ranks(self) -> Integers:
        """1-based ranks: (depth,) int64."""
        return np.arange(1, self.depth + 1)

    def expected(self, values: Floats | Booleans) -> Floats:
        """Expected value at each rank: the mean of the tie group, itself where there is none.

        values: (n_queries, depth), a number of each document. Any measure that adds up
        weight(rank) * value(document) is exact with it (McSherry and Najork 2008, section 3).
        """
        numbers: Floats = values.astype(np.float64)
        if self.ties is None:
            return numbers
        begins = np.flatnonzero(self.ties.before.ravel() == 0)
        sizes = self.ties.size.ravel()[begins]
        means = np.add.reduceat(numbers.ravel(), begins) / sizes
        spread: Floats = np.repeat(means, sizes).reshape(numbers.shape)
        return spread


@dataclass(frozen=True)
class Judged:
    """All judgments of a block: grades (n_queries, n_judged) float64 descending, NaN at the end."""

    grades: Floats

    def count(self, at_least: float, below: float = np.inf) -> Integers:
        """Documents with at_least <= grade < below: (n_queries,) int64."""
        within = (self.grades >= at_least) & (self.grades < below)
        number: Integers = within.sum(axis=1)
        return number


@dataclass(frozen=True)
class Block:
    """Some queries, ranked: members (n,) are their indices in Pairs.query_ids.

    tied: (n, depth) bool, in ranked order. groups: the groups of equal scores, whatever the rule.
    """

    members: Integers
    ranking: Ranking
    judged: Judged
    groups: Ties
    tied: Booleans

    def straddles(self, k: int) -> Booleans:
        """Whether ranks k and k + 1 have the same score: (n,) bool."""
        if k >= self.ranking.depth:
            return np.zeros(len(self.members), dtype=bool)
        across: Booleans = self.groups.first[:, k] < k
        return across


def ranked_blocks(pairs: Pairs, queries: Integers, tie: str) -> Iterator[Block]:
    """The given queries in blocks of similar depth, each ranked under the tie rule.

    A block holds at most CELLS padded cells (or one query), whatever the number of queries.
    """
    width = np.maximum(np.maximum(pairs.lengths, pairs.judged_lengths), 1)[queries]
    longest_first = queries[np.argsort(-width, kind="stable")]
    width = -np.sort(-width)
    at = 0
    while at < len(longest_first):
        rows = max(1, CELLS // int(width[at]))
        yield _ranked(pairs, longest_first[at : at + rows], tie)
        at += rows


def perfect(ranking: Ranking) -> Ranking:
    """The best order of the same documents: grade descending, unjudged and negative last."""
    worth = np.where(ranking.present, np.fmax(ranking.grades, -1.0), -2.0)
    order = np.argsort(-worth, axis=1, kind="stable")
    return replace(_reordered(ranking, order), ties=None)


def _ranked(pairs: Pairs, members: Integers, tie: str) -> Block:
    lengths = pairs.lengths[members]
    rows = ragged_rows((np.cumsum(pairs.lengths) - pairs.lengths)[members], lengths)
    present = present_columns(lengths, max(1, int(lengths.max(initial=0))))
    listed = Ranking(
        grades=padded(pairs.grades[rows], present, np.nan),
        present=present,
        positions=padded(pairs.positions[rows], present, np.iinfo(np.int64).max),
    )
    # NaN sorts behind every number, stably: bad scores come after -inf, absent cells after those
    falling = -padded(pairs.scores[rows], present, np.nan)
    order = np.argsort(falling, axis=1, kind="stable")
    groups = _equal_scores(np.take_along_axis(falling, order, axis=1), present)
    tied = (groups.size > 1) & present
    if tied.any():
        cells = np.zeros(present.shape, dtype=np.int64)
        cells[present] = rows
        order = _break_ties(pairs, listed, order, groups, cells, tie)
    ranking = _reordered(listed, order)
    expected = tie == "expected" and bool(tied.any())
    return Block(
        members=members,
        ranking=replace(ranking, ties=groups) if expected else ranking,
        judged=_judged(pairs, members),
        groups=groups,
        tied=tied,
    )


def _reordered(ranking: Ranking, order: Integers) -> Ranking:
    """Absent cells stay at the end in every order, so `present` does not change."""
    return replace(
        ranking,
        grades=np.take_along_axis(ranking.grades, order, axis=1),
        positions=np.take_along_axis(ranking.positions, order, axis=1),
    )


def _equal_scores(scores: Floats, present: Booleans) -> Ties:
    """Groups of equal scores in sorted rows; bad scores (NaN) are equal to each other."""
    left, right = scores[:, :-1], scores[:, 1:]
    same = (left == right) | (np.isnan(left) & np.isnan(right) & present[:, 1:])
    begins = np.ones(scores.shape, dtype=bool)
    begins[:, 1:] = ~same
    column = np.arange(scores.shape[1])
    first = np.maximum.accumulate(np.where(begins, column, 0), axis=1)
    starts = np.flatnonzero(begins.ravel())
    sizes = np.diff(np.append(starts, scores.size))
    return Ties(first=first, size=np.repeat(sizes, sizes).reshape(scores.shape))


def _break_ties(
    pairs: Pairs, listed: Ranking, order: Integers, groups: Ties, cells: Integers, tie: str
) -> Integers:
    """Order within groups of equal scores: (n_queries, depth) column order -> the same, settled."""
    touched = np.flatnonzero((groups.size > 1).any(axis=1))
    rows = order[touched]
    tied = groups.size[touched] > 1
    ascending = np.zeros(rows.shape, dtype=np.int64)
    if tie == "input":
        ascending = np.take_along_axis(listed.positions[touched], rows, axis=1)
    else:
        at = np.take_along_axis(cells[touched], rows, axis=1)[tied]
        places = byte_order(pairs.doc_ids[at], pairs.doc_codes[at])
        ascending[tied] = places if tie == "docid_asc" else -places
    worth = np.zeros(rows.shape)
    if tie in ("pessimistic", "optimistic"):
        grades = np.fmax(np.take_along_axis(listed.grades[touched], rows, axis=1), -1.0)
        worth = grades if tie == "pessimistic" else -grades
    settled = order.copy()
    within = np.lexsort((ascending, worth, groups.first[touched]), axis=-1)
    settled[touched] = np.take_along_axis(rows, within, axis=1)
    return settled


def byte_order(ids: Objects, codes: Integers) -> Integers:
    """Place of each id among the distinct ids by UTF-8 bytes: (n,) -> (n,) int64.

    Python compares str by code point, which is the order of the UTF-8 bytes (UTF-16, as in Java,
    differs above U+FFFF). codes: equal exactly where ids are.
    """
    _, samples, inverse = np.unique(codes, return_index=True, return_inverse=True)
    names = ids[samples].tolist()
    places = np.empty(len(names), dtype=np.int64)
    places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return places[inverse]


def _judged(pairs: Pairs, members: Integers) -> Judged:
    lengths = pairs.judged_lengths[members]
    rows = ragged_rows((np.cumsum(pairs.judged_lengths) - pairs.judged_lengths)[members], lengths)
    present = present_columns(lengths, max(1, int(lengths.max(initial=0))))
    return Judged(padded(pairs.judged_grades[rows], present, np.nan))

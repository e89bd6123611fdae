"""A block of queries as measures see it: grades by rank, groups of ties, all judgments.

Every array is padded to (n_queries, depth); the leading dimension is the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from metrics.arrays import Booleans, Floats, Integers, taken


@dataclass(frozen=True)
class Ties:
    """Groups of equal scores along the ranks; an untied document is a group of one.

    begins: (n_queries, depth) bool, whether a group begins at the rank, so the first is True.
    """

    begins: Booleans

    @cached_property
    def tied(self) -> Booleans:
        """Documents in a group of several: (n_queries, depth) bool."""
        found = ~self.begins
        found[:, :-1] |= found[:, 1:]
        return found

    @cached_property
    def first(self) -> Integers:
        """0-based rank at which the document's group begins: (n_queries, depth) int64."""
        ranks = np.where(self.begins, np.arange(self.begins.shape[1]), 0)
        found: Integers = np.maximum.accumulate(ranks, axis=1)
        return found

    @cached_property
    def size(self) -> Integers:
        """Documents in the group: (n_queries, depth) int64."""
        sizes = np.diff(np.flatnonzero(self.begins), append=self.begins.size)
        return np.repeat(sizes, sizes).reshape(self.begins.shape)

    @property
    def before(self) -> Integers:
        """Documents of the same group at earlier ranks: (n_queries, depth) int64."""
        ahead: Integers = np.arange(self.first.shape[1]) - self.first
        return ahead


@dataclass(frozen=True)
class Ranking:
    """Documents of a block of queries in evaluated order; column i holds rank i + 1.

    grades: (n_queries, depth) float64, NaN where unjudged or absent. present: bool, absent cells
    are at the end. positions: int64 stage-1 ranks; None unless asked for. ties: the groups over
    which measures take their expectation under tie="expected"; None where the order is definite.
    topics: grades per subtopic, (n_queries, depth, n_subtopics) float64, NaN where unjudged; None
    unless asked for.
    """

    grades: Floats
    present: Booleans
    positions: Integers | None
    ties: Ties | None = None
    topics: Floats | None = None

    @property
    def depth(self) -> int:
        return int(self.grades.shape[1])

    @cached_property
    def lengths(self) -> Integers:
        """Retrieved documents: (n_queries,) int64."""
        count: Integers = self.present.sum(axis=1)
        return count

    @property
    def ranks(self) -> Integers:
        """1-based ranks: (depth,) int64."""
        return np.arange(1, self.depth + 1)

    def head(self, k: int | None) -> Ranking:
        """The first k ranks; all where k is None or ties are expected, whose groups may span k."""
        if k is None or k >= self.depth or self.ties is not None:
            return self
        return replace(
            self,
            grades=self.grades[:, :k],
            present=self.present[:, :k],
            positions=None if self.positions is None else self.positions[:, :k],
            topics=None if self.topics is None else self.topics[:, :k],
        )

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
    """All judgments of a block: grades (n_queries, n_judged) float64 descending, NaN at the end.

    topics: grades per subtopic, (n_queries, n_judged, n_subtopics) float64, documents by id
    descending, NaN where unjudged; None unless asked for.
    """

    grades: Floats
    topics: Floats | None = None

    def count(self, at_least: float, below: float = np.inf) -> Integers:
        """Documents with at_least <= grade < below: (n_queries,) int64."""
        within = (self.grades >= at_least) & (self.grades < below)
        number: Integers = within.sum(axis=1)
        return number


def perfect(ranking: Ranking, worth: Floats | None = None) -> Ranking:
    """The best order of the same documents: `worth` descending, absent cells last.

    worth: (n_queries, depth) float64, at least 0; None = grade, unjudged and negative ones last.
    """
    value = np.fmax(ranking.grades, -1.0) if worth is None else worth
    order = np.argsort(-np.where(ranking.present, value, -2.0), axis=1, kind="stable")
    return replace(reordered(ranking, order), ties=None)


def reordered(ranking: Ranking, order: Integers) -> Ranking:
    """Absent cells stay at the end in every order, so `present` does not change."""
    positions, topics = ranking.positions, ranking.topics
    return replace(
        ranking,
        grades=taken(ranking.grades, order),
        positions=None if positions is None else taken(positions, order),
        topics=None if topics is None else taken(topics, order),
    )

"""Retrieval: the best documents of a query, exact to the last bit, without scoring all of them.

A document's score is the sum of its weights in float32, in the order of the query's tokens, as
bm25s adds them. Equal scores are ordered by position. Frequent tokens add little to a score: once
what they could add at most cannot lift a new document among the best, only the documents already
found are looked up in their postings (MaxScore: Turtle and Flood 1995).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from rerank.errors import RerankError
from rerank.first_stage.bm25 import BM25Index, mapped_index
from rerank.first_stage.token_blocks import processors

FEW = 500_000  # postings of a query that are sooner added up than sorted out
MUCH = 1e8  # queries times documents from which on several processes are worth their start
PARTS = 4  # shares of the queries for each process, so that none waits long for another
FREQUENT = 1 / 8  # of the documents: a token's weights are then kept as one per document
LONG = 32  # times the depth: a token with more postings is read only if it must be
SMALL = 2**16  # scores of which the best are found soonest without leaving out those that are 0
TRIED = 3  # times the depth: documents scored to find out
KEPT_BYTES = 2**30  # of such weights, of the tokens last asked for: 170 at 1.5 million documents


@dataclass(frozen=True)
class Ranking:
    """positions: (n,) int64 of documents that share a token with the query, best first; scores:
    (n,) float32, above 0."""

    positions: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class _Term:
    """A distinct token of a query: how often it stands there, how many documents hold it, and
    the most that all its occurrences add to one of them."""

    number: int
    repeats: int
    found: int
    bound: float


class Retriever:
    """Searches one index; holds room for one score a document, and the weights of frequent tokens.

    One thread at a time: the room is shared by all queries.
    """

    def __init__(self, index: BM25Index) -> None:
        self.index = index
        self.sums = np.zeros(index.n_documents, dtype=np.float32)  # all 0 between two queries
        kept = max(1, KEPT_BYTES // (4 * index.n_documents))
        self.of_every_document = lru_cache(maxsize=kept)(self._of_every_document)

    def best_of_each(
        self, queries: Iterable[Iterable[str]], depths: Sequence[int]
    ) -> list[Ranking]:
        """The best documents of each query, given as tokens.

        Many queries to a large index that is mapped from files are shared among processes: each
        maps the same files, so that no memory is spent twice.
        """
        numbers = [self.index.numbers(tokens) for tokens in queries]
        few = len(numbers) * self.index.n_documents < MUCH
        if few or not self.index.folder or processors() == 1:
            return list(map(self.best, numbers, depths))
        size = max(1, -(-len(numbers) // (PARTS * processors())))
        parts = [slice(start, start + size) for start in range(0, len(numbers), size)]
        found = self.pool.map(
            _search,
            [(self.index.folder, self.index.n_documents)] * len(parts),
            [numbers[part] for part in parts],
            [depths[part] for part in parts],
        )
        try:
            return [ranking for part in found for ranking in part]
        except BrokenProcessPool as error:
            raise RerankError(
                "a process that searched the corpus was ended, most often for want of memory; "
                "free memory, then run the same command again"
            ) from error

    @cached_property
    def pool(self) -> ProcessPoolExecutor:
        """One process a processor; they end with this object."""
        # spawned, not forked: a fork of a process with threads may never start
        return ProcessPoolExecutor(processors(), mp_context=get_context("spawn"))

    def best(self, query: np.ndarray, depth: int) -> Ranking:
        """The `depth` best documents of a query, given as the numbers of its tokens."""
        postings = int((self.index.starts[query + 1] - self.index.starts[query]).sum())
        if postings <= FEW or depth >= self.index.n_documents:
            for number in query.tolist():
                np.add.at(self.sums, *self.index.postings(number))
            found = top_positions(self.sums, depth)
            scores = self.sums[found]
            self.sums.fill(0)
            return Ranking(found, scores)
        reached = self._within_reach(self._rarest_first(query), depth, len(query))
        scores = self._exact(query, reached)
        found = top_positions(scores, depth)
        return Ranking(reached[found], scores[found])

    def scores(self, tokens: Iterable[str], positions: np.ndarray) -> np.ndarray:
        """(n,) float32: scores of the documents at `positions`; 0 where no token of it stands."""
        return self._exact(self.index.numbers(tokens), positions)

    def _rarest_first(self, query: np.ndarray) -> list[_Term]:
        """The distinct tokens that add something."""
        numbers, repeats = np.unique(query, return_counts=True)
        found = self.index.starts[numbers + 1] - self.index.starts[numbers]
        bounds = self.index.peaks[numbers].astype(np.float64) * repeats
        columns = (column.tolist() for column in (numbers, repeats, found, bounds))
        terms = [_Term(*facts) for facts in zip(*columns, strict=True)]
        return sorted((t for t in terms if t.bound > 0), key=lambda t: (t.found, t.number))

    def _within_reach(self, terms: list[_Term], depth: int, length: int) -> np.ndarray:
        """(n,) int64: documents that may be among the best, all that are tied with them included.

        Rare tokens are added up until the others together could not lift a new document among the
        best; after each of the others, documents that are out of reach are left behind.
        """
        left = sum(term.bound for term in terms)  # what the tokens not yet read can add
        slack = 1 - (length + 8) * 2.0**-22  # sums are rounded in another order than scores
        least = 0.0  # what the depth-th best document has at least
        sums, read, rest = self.sums, list[np.ndarray](), list(terms)
        while rest and least <= left:
            term = rest[0]
            if term.found >= LONG * depth:
                least = max(least, self._least(sums, read, rest, depth) * slack)
                if least > left:
                    break
            documents, weights = self.index.postings(rest.pop(0).number)
            repeated = weights if term.repeats == 1 else weights * np.float32(term.repeats)
            np.add.at(sums, documents, repeated)
            read.append(documents)
            left -= term.bound
        found = np.flatnonzero(sums >= np.float32(least - left) if least > left else sums > 0)
        reached = sums.take(found)
        sums.fill(0)
        for term in rest:
            reached += self._weights(term.number, found) * np.float32(term.repeats)
            left -= term.bound
            kept = np.flatnonzero(reached >= np.float32(least - max(0.0, left)))
            found, reached = found.take(kept), reached.take(kept)
        return found

    def _least(
        self, sums: np.ndarray, read: list[np.ndarray], rest: list[_Term], depth: int
    ) -> float:
        """A score that `depth` documents reach, found by scoring some in full; 0 if too few are.

        Those are scored that have the best sums so far, among the documents of the rarest tokens.
        """
        known = np.concatenate(read)[: LONG * depth] if read else np.empty(0, np.int32)
        many = min(len(known), TRIED * depth)
        best = np.argpartition(sums.take(known), len(known) - many)[len(known) - many :]
        tried = np.sort(known.take(best)).astype(np.intp)
        tried = tried[np.flatnonzero(np.diff(tried, prepend=-1))]  # each once
        if len(tried) < depth:
            return 0.0
        scores = sums.take(tried)
        for term in rest:
            scores += self._weights(term.number, tried) * np.float32(term.repeats)
        return _nth_largest(scores, depth)

    def _exact(self, query: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """(n,) float32: the documents' weights added up in the order of the query's tokens."""
        scores = np.zeros(len(positions), dtype=np.float32)
        weights: dict[int, np.ndarray] = {}
        for number in query.tolist():
            if number not in weights:
                weights[number] = self._weights(number, positions)
            scores += weights[number]
        return scores

    def _weights(self, number: int, positions: np.ndarray) -> np.ndarray:
        """(n,) float32: a token's weight in each document, 0 where it does not occur."""
        documents, weights = self.index.postings(number)
        if len(documents) >= FREQUENT * self.index.n_documents:
            of_every: np.ndarray = self.of_every_document(number)
            known: np.ndarray = of_every.take(positions)
            return known
        # of the same type, or the whole haystack would be converted
        places = np.searchsorted(documents, positions.astype(documents.dtype))
        places[places == len(documents)] = 0
        hit = documents[places] == positions
        found: np.ndarray = np.where(hit, weights[places], np.float32(0))
        return found

    def _of_every_document(self, number: int) -> np.ndarray:
        documents, weights = self.index.postings(number)
        everywhere = np.zeros(self.index.n_documents, dtype=np.float32)
        everywhere[documents] = weights
        return everywhere


def _search(
    place: tuple[str, int], queries: Sequence[np.ndarray], depths: Sequence[int]
) -> list[Ranking]:
    """What a process of `best_of_each` does with its share."""
    return list(map(_retriever(*place).best, queries, depths))


@cache
def _retriever(folder: str, n_documents: int) -> Retriever:
    return Retriever(mapped_index(Path(folder), {}, n_documents))


def top_positions(scores: np.ndarray, depth: int) -> np.ndarray:
    """Positions of the `depth` largest positive scores, best first, ties by position.

    All documents tied with the last place are looked at before the cut, so which of them stay
    depends on their position (their id's order) alone.
    """
    least = 0.0
    if depth < len(scores) <= SMALL:
        least = _nth_largest(scores, depth)
    found = np.flatnonzero(scores >= np.float32(least) if least > 0 else scores > 0)
    if depth < len(found) and least == 0:
        found = found[np.flatnonzero(scores[found] >= _nth_largest(scores[found], depth))]
    order = np.argsort(-scores[found], kind="stable")
    return found[order][:depth]


def _nth_largest(values: np.ndarray, n: int) -> float:
    return float(np.partition(values, len(values) - n)[len(values) - n])

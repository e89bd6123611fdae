"""Judgments per subtopic: kept flat, and laid out per block for the measures that need them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers, Objects, ragged_rows
from metrics.rows import Rows, byte_order


@dataclass(frozen=True)
class Subtopics:
    """Grades per subtopic; rows of a query adjacent, rows of a document adjacent within it.

    lengths, documents: (n_queries,) rows and judged documents of each query.
    document: (n_rows,) number of the document within its query, by id descending (the order in
        which ndeval settles equal gains). subtopic: (n_rows,) number within the query, by name.
    grades: (n_rows,) float64. width: the most subtopics that a query has.
    starts, spans: (n_pairs,) where the rows of a scored pair begin, and how many there are.
    """

    lengths: Integers
    documents: Integers
    document: Integers
    subtopic: Integers
    grades: Floats
    width: int
    starts: Integers
    spans: Integers

    def of_pairs(self, pairs: Integers, present: Booleans) -> Floats:
        """Grades of scored pairs: (n_queries, depth, width) float64, NaN where not judged.

        pairs: (n,) their numbers, in the order in which `present` takes them.
        """
        rows = ragged_rows(self.starts[pairs], self.spans[pairs])
        flat = np.full((len(pairs), self.width), np.nan)
        flat[np.repeat(np.arange(len(pairs)), self.spans[pairs]), self.subtopic[rows]] = (
            self.grades[rows]
        )
        cells = np.full((*present.shape, self.width), np.nan)
        cells[present] = flat
        return cells

    def of_queries(self, queries: Integers) -> Floats:
        """Grades of all judged documents: (n_queries, n_judged, width) float64, NaN as above."""
        begins = np.cumsum(self.lengths) - self.lengths
        rows = ragged_rows(begins[queries], self.lengths[queries])
        most = max(1, int(self.documents[queries].max(initial=0)))
        cells = np.full((len(queries), most, self.width), np.nan)
        query = np.repeat(np.arange(len(queries)), self.lengths[queries])
        cells[query, self.document[rows], self.subtopic[rows]] = self.grades[rows]
        return cells


def index_subtopics(judged: Rows, pairs: Rows, doc_names: Objects, n_queries: int) -> Subtopics:
    """Number the documents and subtopics of every query, and find the rows of every pair."""
    assert judged.subtopic is not None
    place = byte_order(doc_names, judged.doc_codes)
    order = np.lexsort((judged.subtopic, -place, judged.query))
    rows = judged.take(order)
    documents, document = _numbered(rows.query, -place[order], n_queries)
    topics, subtopic = _numbered(rows.query, judged.subtopic[order], n_queries)
    starts, spans = _spans(rows, pairs)
    return Subtopics(
        lengths=np.bincount(rows.query, minlength=n_queries),
        documents=documents,
        document=document,
        subtopic=subtopic,
        grades=rows.value,
        width=max(1, int(topics.max(initial=0))),
        starts=starts,
        spans=spans,
    )


def _numbered(query: Integers, key: Integers, n_queries: int) -> tuple[Integers, Integers]:
    """Distinct keys of each query, and the number of each row's key among them, from 0."""
    low = int(key.min(initial=0))
    span = 1 + int(key.max(initial=0)) - low
    distinct, at = np.unique(query * span + (key - low), return_inverse=True)
    counts = np.bincount(distinct // span, minlength=n_queries)
    numbers: Integers = at - (np.cumsum(counts) - counts)[query]
    return counts, numbers


def _spans(rows: Rows, pairs: Rows) -> tuple[Array, Array]:
    """First judgment row of each pair, and how many it has: (n_pairs,), (n_pairs,) int64."""
    documents = replace(rows, subtopic=None)
    known, first, count = np.unique(documents.keys, return_index=True, return_counts=True)
    keys = pairs.keys
    if not len(known):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    at = np.searchsorted(known, keys).clip(max=len(known) - 1)
    found = known[at] == keys
    return first[at], np.where(found, count[at], 0)

"""Rows of the evaluated queries: each (query, document) once, and the order of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from metrics.arrays import Array, Floats, Integers, Objects
from metrics.errors import MetricError
from metrics.records import Conventions


@dataclass(frozen=True)
class Rows:
    """Parallel columns of one table, rows of a query adjacent.

    query: number among the evaluated queries, -1 for others. row: 0-based row in the caller's
    arrays, None = its own number. width: doc_codes are below it. subtopic: code of the subtopic
    judged, None where the judgments have none.
    """

    query: Integers
    doc_codes: Integers
    value: Floats  # score or grade
    row: Integers | None
    width: int
    subtopic: Integers | None = None

    def take(self, which: Array) -> Rows:
        return Rows(
            self.query[which],
            self.doc_codes[which],
            self.value[which],
            self.sources(which),
            self.width,
            None if self.subtopic is None else self.subtopic[which],
        )

    def sources(self, which: Array) -> Integers:
        """Rows in the caller's arrays of the chosen rows, which is a mask or numbers."""
        chosen: Integers = np.flatnonzero(which) if which.dtype == bool else which
        return chosen if self.row is None else self.row[chosen]

    @cached_property
    def keys(self) -> Integers:
        """(n,) int64, equal exactly where query, document and subtopic are; below 0 as query."""
        keys: Integers = self.query * self.width + self.doc_codes
        if self.subtopic is None:
            return keys
        finer: Integers = keys * (1 + self.subtopic.max(initial=0)) + self.subtopic
        return finer


def each_once(
    rows: Rows,
    query_ids: Sequence[str],
    doc_names: Objects,
    how: Conventions,
    table: str,
    option: str,
) -> Rows:
    """Each (query, document, subtopic) once; MetricError unless `option` keeps the highest."""
    twice = _first_repeat(rows)
    if twice is None:
        return rows
    if getattr(how, option) == "error":
        query, document = query_ids[rows.query[twice[0]]], doc_names[rows.doc_codes[twice[0]]]
        first, second = rows.sources(twice) + 1
        raise MetricError(
            f"query {query!r} has document {document!r} twice in the {table} (rows {first} and "
            f"{second}); remove one, or set {option}='max' to keep the highest",
            rows.sources(twice),
            table,
        )
    return best_of_each(rows)


def best_of_each(rows: Rows) -> Rows:
    """Of each (query, document, subtopic) the row with the highest value; NaN where all are."""
    keys = rows.keys
    order = np.lexsort((-rows.value, keys))  # stable: the first of equals stays
    new = keys[order][1:] != keys[order][:-1]
    first = np.concatenate([np.ones(min(1, len(keys)), dtype=bool), new])
    return rows.take(np.sort(order[first]))


def best_of_each_document(rows: Rows) -> Rows:
    """Of each (query, document) the row with the highest value, whatever the subtopic."""
    return best_of_each(replace(rows, subtopic=None))


def byte_order(names: Objects, codes: Integers) -> Integers:
    """Place of each names[code] among the distinct ones by UTF-8 bytes: (n,) -> (n,) int64.

    Python compares str by code point, which is the order of the UTF-8 bytes (UTF-16, as in Java,
    differs above U+FFFF).
    """
    distinct, inverse = np.unique(codes, return_inverse=True)
    ids = names[distinct].tolist()
    places = np.empty(len(ids), dtype=np.int64)
    places[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    return places[inverse]


def sorted_rows(keys: Integers) -> tuple[Integers, Integers]:
    """Stable order of integer keys, and the keys in it: (n,) -> two (n,) int64.

    Key and row number share one integer where they fit: sorting values is several times as fast as
    sorting indices.
    """
    bits = max(1, len(keys).bit_length())
    if len(keys) and max(int(keys.max()), -int(keys.min())) >= 1 << (62 - bits):
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
    packed = keys << bits
    packed |= np.arange(len(keys))
    packed.sort()
    return packed & ((1 << bits) - 1), packed >> bits


def _first_repeat(rows: Rows) -> Integers | None:
    """The two rows of the first (query, document, subtopic) that occurs twice: (2,) int64."""
    order, ordered = sorted_rows(rows.keys)
    repeats = np.flatnonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0))
    if not len(repeats):
        return None
    both = np.stack([order[repeats], order[repeats + 1]])
    earliest: Integers = both[:, np.argmin(both[0])]
    return earliest

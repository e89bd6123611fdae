"""Grades of scored pairs: what stands in both tables, found query by query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics.arrays import Array, Floats, Integers
from metrics.blocks import Layout, blocks_by_width, each_block


@dataclass(frozen=True)
class Spans:
    """Where the rows of each query stand in a table, one after the other.

    starts, lengths: (n_queries,). doc_codes: (n_rows,), from 0.
    """

    starts: Integers
    lengths: Integers
    doc_codes: Integers

    def cells(self, queries: Integers, column: int) -> Integers:
        """Codes of the documents of each query, and codes below 0 where it has no more.

        (n, longest) int64; a code below 0 occurs once in a row, and in no row of cells whose first
        columns have other numbers. column: number of the first.
        """
        layout = Layout(self.starts[queries], self.lengths[queries])
        codes: Integers = layout.cells(self.doc_codes, -1)
        if layout.present.all():
            return codes
        return np.where(layout.present, codes, -1 - column - np.arange(codes.shape[1]))


def matched_grades(listed: Spans, judged: Spans, grades: Floats) -> Floats | None:
    """Grade of every listed row, NaN where its document is not judged: (n_listed,) float64.

    grades: (n_judged,). None where a document of a query is listed, or judged, twice. Documents of
    a query and their judgments are sorted together, so that equal ones become neighbours: rows as
    short as these sort faster than any table of all documents answers.
    """
    found = np.full(len(listed.doc_codes), np.nan)
    width = listed.lengths + judged.lengths
    queries = np.flatnonzero(width)
    blocks = list(blocks_by_width(queries, width[queries], listed.starts[queries]))

    def match(members: Integers) -> bool:
        """Grades of these queries into `found`; False where one has a document twice."""
        ours = listed.cells(members, 0)
        beside = ours.shape[1]
        query, left, right = _equal_neighbours(np.hstack([ours, judged.cells(members, beside)]))
        if np.any(right < beside) or np.any(left >= beside):
            return False
        at = judged.starts[members[query]] + (right - beside)
        found[listed.starts[members[query]] + left] = grades[at]
        return True

    return found if all(each_block(match, blocks)) else None


def _equal_neighbours(cells: Integers) -> tuple[Array, Array, Array]:
    """Row, and the two columns, of equal cells of one row: three (n_found,) int64, columns rising.

    cells: (n, width) int64. Three equal cells give two pairs.
    """
    bits = cells.shape[1].bit_length()
    packed = cells << bits
    packed |= np.arange(cells.shape[1])
    packed.sort(axis=1)
    codes = packed >> bits
    # by flat numbers, which numpy finds and takes many times as fast as pairs of them
    equal = np.flatnonzero(codes.ravel()[1:] == codes.ravel()[:-1])
    rows = equal // cells.shape[1]
    within = (equal + 1) // cells.shape[1] == rows
    equal, rows, mask = equal[within], rows[within], (1 << bits) - 1
    return rows, packed.ravel()[equal] & mask, packed.ravel()[equal + 1] & mask

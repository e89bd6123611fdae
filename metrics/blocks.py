"""Queries in blocks: flat rows as padded arrays that fit the cache, worked on by threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from metrics.arrays import Array, Booleans, Integers, padded, present_columns, ragged_rows

CELLS = 1 << 17  # cells of one padded array: few enough for the cache; bounds memory, not results
Done = TypeVar("Done")


@dataclass(frozen=True)
class Layout:
    """Where the rows of some queries lie in a table, and their place in a padded array.

    starts, lengths: (n,); the rows of a query are adjacent.
    """

    starts: Integers
    lengths: Integers

    @cached_property
    def present(self) -> Booleans:
        """Which cells hold a row: (n, longest) bool, one column at least."""
        return present_columns(self.lengths, max(1, int(self.lengths.max(initial=0))))

    @cached_property
    def rows(self) -> Integers:
        """Rows of the table, one query after the other: (sum of lengths,) int64."""
        return ragged_rows(self.starts, self.lengths)

    def cells(self, column: Array, fill: object) -> Array:
        """A column of the table as (n, longest), `fill` where no row is. It may be a view."""
        rows, width = self.present.shape
        if rows and (self.lengths == width).all() and (np.diff(self.starts) == width).all():
            return column[self.starts[0] : self.starts[0] + rows * width].reshape(rows, width)
        return padded(column[self.rows], self.present, fill)


def blocks_by_width(
    queries: Integers, width: Integers, starts: Integers, scale: int = 1
) -> Iterator[Integers]:
    """Queries by falling width; a block holds at most CELLS padded cells, or one query.

    queries, width, starts: (n,) numbers, cells (from 1), and where each begins in its table, so
    that within a width memory is read from front to back. scale: cells of a cell.
    """
    order = np.lexsort((starts, -width))
    longest_first, width = queries[order], width[order] * scale
    cells, at = _shared_cells(int(width.sum())), 0
    while at < len(longest_first):
        rows = max(1, cells // int(width[at]))
        yield longest_first[at : at + rows]
        at += rows


def _shared_cells(total: int) -> int:
    """Cells of a block, so that every thread gets as many blocks as the others."""
    rounds = -(-total // (CELLS * _threads()))
    return min(CELLS, -(-total // max(1, rounds * _threads())) + 1)


def _threads() -> int:
    return os.cpu_count() or 1


def each_block(work: Callable[[Integers], Done], blocks: Sequence[Integers]) -> list[Done]:
    """What `work` makes of every block, in their order.

    Some at a time: numpy lets threads run, and no query's value needs another's.
    """
    if len(blocks) < 2:
        return list(map(work, blocks))
    with ThreadPoolExecutor(min(len(blocks), _threads())) as threads:
        return list(threads.map(work, blocks))

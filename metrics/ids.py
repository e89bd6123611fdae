"""A column of ids in which each distinct id is held once: what joins go by are integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias, overload

import numpy as np

from metrics.arrays import Array, Integers, Objects


@dataclass(frozen=True, eq=False)
class Ids:
    """Row i has the id names[codes[i]].

    codes: (n,) int64. names: (m,) object, str, each once, in any order; a name may have no row.
    """

    codes: Integers
    names: Objects

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    @overload
    def __getitem__(self, rows: int | np.integer) -> str: ...
    @overload
    def __getitem__(self, rows: Array | slice | list[int]) -> Ids: ...
    def __getitem__(self, rows: int | np.integer | Array | slice | list[int]) -> str | Ids:
        if isinstance(rows, int | np.integer):
            return str(self.names[self.codes[rows]])
        return Ids(self.codes[rows], self.names)

    def tolist(self) -> list[str]:
        """The ids row by row: n strings."""
        ids: list[str] = self.names[self.codes].tolist()
        return ids

    def present(self) -> list[str]:
        """The distinct ids that have a row, in the order of `names`."""
        rows = np.bincount(self.codes, minlength=len(self.names)) > 0
        found: list[str] = self.names[rows].tolist()
        return found


IdColumn: TypeAlias = Objects | Ids


def coded(ids: IdColumn) -> Ids:
    """A plain column of str, (n,) object, as Ids: names in the order of their first row."""
    if isinstance(ids, Ids):
        return ids
    rows = ids.tolist()
    names = objects(list(dict.fromkeys(rows)))
    number = dict(zip(names.tolist(), range(len(names)), strict=True))
    return Ids(np.fromiter(map(number.__getitem__, rows), np.int64, len(rows)), names)


def recoded(ids: Ids, names: Objects) -> tuple[Integers, Objects]:
    """Codes of the rows among `names`, to which ids that are not there are added at the end."""
    if ids.names is names:
        return ids.codes, names
    number = dict(zip(names.tolist(), range(len(names)), strict=True))
    mine = ids.names.tolist()
    codes = np.fromiter(map(number.get, mine, repeat(-1)), np.int64, len(mine))
    new = np.flatnonzero(codes < 0)
    codes[new] = np.arange(len(names), len(names) + len(new))
    return codes[ids.codes], np.concatenate([names, ids.names[new]])


def objects(values: Sequence[object]) -> Objects:
    """A list as a 1-d object array, whatever it holds."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column

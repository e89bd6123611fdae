"""Ids of two files under one list of names, so that nothing is looked up twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metrics.ids import Ids


@dataclass(frozen=True, eq=False)
class ArrowIds(Ids):
    """Ids that keep their names as an Arrow array of strings as well."""

    arrow: Any


def under_one_list(ours: Ids, theirs: Ids) -> tuple[Ids, Ids]:
    """Both columns coded among the names of `ours`, then those that only `theirs` has.

    As `metrics.ids.recoded`, by Arrow's hash table: three times as fast as a dictionary.
    """
    import pyarrow.compute as pc

    found = pc.index_in(_names(theirs), value_set=_names(ours))
    codes = found.fill_null(-1).to_numpy().astype(np.int64)
    new = np.flatnonzero(codes < 0)
    codes[new] = np.arange(len(ours.names), len(ours.names) + len(new))
    names = np.concatenate([ours.names, theirs.names[new]])
    return Ids(ours.codes, names), Ids(codes[theirs.codes], names)


def _names(ids: Ids) -> Any:
    import pyarrow as pa

    names = ids.arrow if isinstance(ids, ArrowIds) else pa.array(ids.names, pa.string())
    return names.cast(pa.string()) if names.type != pa.string() else names

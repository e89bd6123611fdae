"""An evaluation's aggregates, read from the store when they are asked for and kept while in use.

Only whole columns are kept, the ones used longest ago given up first, so that memory stays bounded
whatever the number of systems, tasks and queries.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rerank.errors import FrozenDataError
from rerank.store import Store, table_from_bytes
from rerank.suite.aggregates import INDEX_KEYS, VERSION, aggregates_key

KEPT = 1500  # columns of values: 12,000 queries each make 150 MB
Kept = TypeVar("Kept")
Row = dict[str, Any]


@dataclass
class Cache:
    """Answers by key, the most recently used of them; several threads may ask."""

    most: int = KEPT
    found: OrderedDict[Any, Any] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        with self.lock:
            if key in self.found:
                self.found.move_to_end(key)
                kept: Kept = self.found[key]
                return kept
        value = make()  # outside of the lock: two may make the same, nobody waits for a bucket
        self.put(key, value)
        return value

    def holds(self, key: Any) -> bool:
        with self.lock:
            return key in self.found

    def put(self, key: Any, value: Any) -> None:
        with self.lock:
            self.found[key] = value
            while len(self.found) > self.most:
                self.found.popitem(last=False)


@dataclass(frozen=True)
class Aggregates:
    """What evaluate wrote of one suite. `index` is small; tables and columns are read on demand."""

    store: Store
    index: Row
    cache: Cache = field(default_factory=Cache, compare=False)

    @property
    def suite(self) -> Row:
        found: Row = self.index["suite"]
        return found

    @property
    def primary(self) -> str:
        return str(self.suite["primary"])

    @property
    def baseline(self) -> str:
        return str(self.suite["baseline"])

    @property
    def measures(self) -> list[str]:
        return list(self.index["measures"])

    @property
    def tasks(self) -> list[str]:
        return [task["name"] for task in self.index["tasks"]]

    @property
    def systems(self) -> list[str]:
        return [system["name"] for system in self.index["systems"]]

    def task(self, name: str) -> Row:
        return next(task for task in self.index["tasks"] if task["name"] == name)

    def system(self, name: str) -> Row:
        return next(system for system in self.index["systems"] if system["name"] == name)

    def systems_on(self, task: str) -> list[str]:
        """The systems that have values on a task, in the suite's order."""
        return [system["name"] for system in self.index["systems"] if task in system["runs"]]

    def table(self, name: str) -> pa.Table:
        """A whole table: `results`, `systems`, `comparisons`, `depths`, `queries/TASK` ..."""
        return self.cache.get(("table", name), lambda: self._read(name))

    def results(self) -> dict[tuple[str, str, str], Row]:
        """(task, system, measure) -> row of results."""

        def read() -> dict[tuple[str, str, str], Row]:
            rows = self.table("results").to_pylist()
            return {(row["task"], row["system"], row["measure"]): row for row in rows}

        return self.cache.get("results", read)

    def system_rows(self) -> dict[tuple[str, str], Row]:
        """(task, system) -> row of systems."""

        def read() -> dict[tuple[str, str], Row]:
            rows = self.table("systems").to_pylist()
            return {(row["task"], row["system"]): row for row in rows}

        return self.cache.get("system rows", read)

    def queries(self, task: str) -> pa.Table:
        return self.table(f"queries/{task}")

    def column(self, task: str, system: str, name: str) -> np.ndarray:
        """A column of a system's values on a task, in the order of `queries`: (n_queries,)."""
        return self.columns(task, system, [name])[0]

    def columns(self, task: str, system: str, names: Sequence[str]) -> list[np.ndarray]:
        """Several columns, the file read once for all that are not at hand."""
        keys = [("column", task, system, name) for name in names]
        wanted = [key[3] for key in keys if not self.cache.holds(key)]
        if wanted:
            data = self.store.read(self._key(f"values/{task}/{system}"))
            table = pq.read_table(io.BytesIO(data), columns=wanted, use_threads=False)
            for name in wanted:
                column = np.asarray(table[name].to_numpy(zero_copy_only=False))
                self.cache.put(("column", task, system, name), column)
        return [
            self.cache.get(key, partial(self._one_column, task, system, key[3])) for key in keys
        ]

    def _one_column(self, task: str, system: str, name: str) -> np.ndarray:
        """A column that was given up between being read and being asked for."""
        column = self._read(f"values/{task}/{system}")[name]
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def values(self, task: str, system: str, measure: str) -> np.ndarray:
        """(n_queries,) float64, NaN where undefined."""
        return np.asarray(self.column(task, system, f"m:{measure}"), dtype=np.float64)

    def resamples(self, task: str) -> tuple[list[str], np.ndarray]:
        """Systems, and (resamples, systems) means of the primary measure; none: no resamples."""

        def read() -> tuple[list[str], np.ndarray]:
            if not self.store.exists(self._key(f"resamples/{task}")):
                return [], np.zeros((0, 0))
            table = self._read(f"resamples/{task}")
            columns = [table[name].to_numpy() for name in table.column_names]
            return table.column_names, np.stack(columns, axis=1).astype(np.float64)

        return self.cache.get(("resamples", task), read)

    def _key(self, name: str) -> str:
        return f"{aggregates_key(self.suite['name'])}/{self.index['stamp']}/{name}.parquet"

    def _read(self, name: str) -> pa.Table:
        key = self._key(name)
        return table_from_bytes(self.store.read(key), self.store.where(key))


@lru_cache(maxsize=4)
def store_at(root: str) -> Store:
    """One store object a process: a bucket's connections are kept."""
    return Store(root)


_LATEST = Cache(most=4)  # evaluations, by store, suite and stamp: tables read are kept with them


def latest(root: str, suite: str) -> Aggregates:
    """The suite's aggregates as they are now; what was read of the same evaluation is kept."""
    store = store_at(root)
    index = read_index(store, suite)
    return _LATEST.get((root, suite, index["stamp"]), lambda: Aggregates(store, index))


def evaluated_suites(store: Store) -> list[str]:
    """Suites of the store that have aggregates."""
    return [
        name
        for name in store.folders("evaluations")
        if store.exists(f"{aggregates_key(name)}/index.json")
    ]


def read_index(store: Store, suite: str) -> Row:
    """The index of a suite's aggregates; FrozenDataError where this version cannot read it."""
    key = f"{aggregates_key(suite)}/index.json"
    index = store.read_record(key, INDEX_KEYS)
    if index is None or index["version"] != VERSION:
        raise FrozenDataError(
            f"{store.where(key)} is not an index of this version; run `rerank evaluate` again"
        )
    return index

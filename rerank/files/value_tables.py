"""Values per query in long-form Parquet: query_id, measure, value, and perhaps task and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metrics.arrays import Booleans, Floats, Integers
from rerank.errors import InputError
from rerank.files.formats import cannot_read
from rerank.files.system_values import Selection, SystemValues, file_name, task_of


@dataclass(frozen=True)
class _Coded:
    """A text column: its distinct texts and the place of each row's text among them."""

    names: list[str]
    codes: Integers

    def among(self, chosen: Sequence[str]) -> Booleans:
        """Whether each row's text is one of `chosen`: (n,) bool."""
        wanted = np.array([name in set(chosen) for name in self.names], dtype=bool)
        found: Booleans = wanted[self.codes] if len(wanted) else np.zeros(0, dtype=bool)
        return found


def parquet_values(path: Path, selection: Selection) -> list[SystemValues]:
    """The systems of one file, one a model. InputError names row and column."""
    table = _table(path, selection)
    names = {name: _coded(table, name) for name in table.column_names if name != "value"}
    values = table["value"].to_numpy(zero_copy_only=False).astype(np.float64)
    task = task_of(path, names["task"].names, selection)
    for name in selection.measures:
        if name not in names["measure"].names:
            known = ", ".join(names["measure"].names)
            raise InputError(f"{path}: no measure '{name}'; it has {known}")
    kept = names["task"].among([task])
    present = dict.fromkeys(names["measure"].codes[kept].tolist())
    measures = selection.measures or tuple(names["measure"].names[code] for code in present)
    kept &= names["measure"].among(measures)
    infinite = np.flatnonzero(kept & np.isinf(values))
    if len(infinite):
        raise InputError(
            f"{path}, row {infinite[0] + 1}, column 'value': {values[infinite[0]]} is not finite; "
            "write null where it failed"
        )
    systems = []
    for model in names["model"].names:
        rows = np.flatnonzero(kept & names["model"].among([model]))
        if len(rows):
            name = model or file_name(path)
            systems.append(_parquet_system(name, path, rows, values, names, measures, selection))
    return systems


def _parquet_system(
    name: str,
    path: Path,
    rows: Integers,
    values: Floats,
    names: Mapping[str, _Coded],
    measures: Sequence[str],
    selection: Selection,
) -> SystemValues:
    """One model's rows as a table of queries and measures; each cell once."""
    codes, at = np.unique(names["query_id"].codes[rows], return_inverse=True)
    asked = [names["query_id"].names[code] for code in codes]
    order = sorted(range(len(asked)), key=asked.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    column = np.array([*map({m: i for i, m in enumerate(measures)}.get, names["measure"].names)])
    cells = place[at] * len(measures) + column[names["measure"].codes[rows]].astype(np.int64)
    _check_once(path, rows, cells, names)
    matrix = np.full(len(asked) * len(measures), np.nan)
    matrix[cells] = values[rows]
    labels = None
    if selection.clusters:
        labels = _labels(path, rows, place[at], len(asked), names, selection.clusters)
    return SystemValues(
        name=name,
        path=path,
        query_ids=tuple(asked[query] for query in order),
        values=dict(zip(measures, matrix.reshape(-1, len(measures)).T, strict=True)),
        clusters=labels,
    )


def _check_once(path: Path, rows: Integers, cells: Integers, names: Mapping[str, _Coded]) -> None:
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(cells[order][1:] == cells[order][:-1])
    if len(again):
        first, second = rows[order[again[0]]], rows[order[again[0] + 1]]
        query, measure = (
            names[column].names[names[column].codes[first]] for column in ("query_id", "measure")
        )
        raise InputError(
            f"{path}, rows {first + 1} and {second + 1}: {measure} of query '{query}' occurs "
            "twice; keep one"
        )


def _labels(
    path: Path, rows: Integers, query: Integers, n: int, names: Mapping[str, _Coded], field: str
) -> tuple[str, ...]:
    """The cluster of each query; InputError where a query is in two."""
    codes = names[field].codes[rows]
    labels = np.zeros(n, np.int64)
    labels[query] = codes
    wrong = np.flatnonzero(labels[query] != codes)
    if len(wrong):
        raise InputError(
            f"{path}, row {rows[wrong[0]] + 1}, column '{field}': the query's other rows are in "
            f"cluster '{names[field].names[labels[query[wrong[0]]]]}'; a query has one cluster"
        )
    return tuple(names[field].names[code] for code in labels)


def _table(path: Path, selection: Selection) -> Any:
    """The columns of long-form Parquet, their types checked; task and model "" if absent."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    needed = ["query_id", "measure", "value", *([selection.clusters] if selection.clusters else [])]
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        missing = [name for name in needed if name not in names]
        if missing:
            raise InputError(f"{path}: no column '{missing[0]}'; it has {', '.join(names)}")
        wanted = [*needed, *(name for name in ("task", "model") if name in names)]
        table = file.read(columns=list(dict.fromkeys(wanted)))
    except (OSError, pa.ArrowException) as error:
        raise cannot_read(path, error) from error
    for column in table.schema:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not (number if column.name == "value" else text):
            due = "a number" if column.name == "value" else "string"
            raise InputError(f"{path}: column '{column.name}' is {column.type}, must be {due}")
        if column.name != "value" and table[column.name].null_count:
            raise InputError(f"{path}: column '{column.name}' holds nulls and must not")
    for name in {"task", "model"}.difference(names):
        table = table.append_column(name, pa.array([""] * len(table), pa.string()))
    return table


def _coded(table: Any, name: str) -> _Coded:
    column = table[name].dictionary_encode().unify_dictionaries().combine_chunks()
    used, codes = np.unique(column.indices.to_numpy(), return_inverse=True)
    return _Coded([column.dictionary[int(code)].as_py() for code in used], codes)

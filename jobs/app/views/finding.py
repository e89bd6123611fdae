"""Queries of two systems found by what happened to them: filters, order, and the rows shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from jobs.app.reading import Aggregates
from jobs.app.views.pairs import pair_of
from jobs.app.wording import Words
from rerank.reporting.grid import Grid, GridColumn

# choice -> (condition, order); columns are those of `pair_table`
CHOICES: dict[str, tuple[str, str]] = {
    "regressions": ("delta < 0", "delta ASC NULLS LAST"),
    "gains": ("delta > 0", "delta DESC NULLS LAST"),
    "every": ("TRUE", "delta ASC NULLS LAST"),
    "no_gold": ("gold_rank = 0 AND relevant > 0", "delta ASC NULLS LAST"),
    "truncated": ("truncated", "delta ASC NULLS LAST"),
    "tied": ("tied_share > 0", "tied_share DESC, delta ASC NULLS LAST"),
    "failed": ("failed", "delta ASC NULLS LAST"),
    "unanswerable": ("relevant = 0", "delta ASC NULLS LAST"),
}
PAGE = 100  # rows shown at once


@dataclass(frozen=True)
class Search:
    """What is looked for. task: empty for all tasks; text: part of a query or its whole id."""

    task: str
    first: str
    second: str
    measure: str
    choice: str = "regressions"
    text: str = ""
    slice: str = ""


def pair_table(data: Aggregates, search: Search) -> pa.Table:
    """One row a query: what both systems made of it. delta: null where it is not compared."""

    def made() -> pa.Table:
        tasks = [search.task] if search.task else data.tasks
        both = {search.first, search.second}
        parts = [
            _task_table(data, task, search) for task in tasks if both <= set(data.systems_on(task))
        ]
        return pa.concat_tables(parts) if parts else _task_schema().empty_table()

    key = ("pair", search.task, search.first, search.second, search.measure)
    return data.cache.get(key, made)


def _task_table(data: Aggregates, task: str, search: Search) -> pa.Table:
    queries = data.queries(task)
    names = ("failed", "truncated", "tied_share")
    columns = [f"m:{search.measure}", *names]  # all at once: every file is read once
    sides = [data.columns(task, system, columns)[1:] for system in (search.first, search.second)]
    pair = pair_of(data, task, search.first, search.second, search.measure)
    failed, truncated, ties = (np.maximum(*both) for both in zip(*sides, strict=True))
    n = queries.num_rows
    return pa.table(
        {
            "task": pa.array([task] * n, pa.string()).dictionary_encode(),
            **{
                name: queries[name]
                for name in ("query_id", "query", "slices", "relevant", "gold_rank")
            },
            "first": pa.array(pair.first_values, from_pandas=True),
            "second": pa.array(pair.second_values, from_pandas=True),
            "delta": pa.array(pair.deltas, from_pandas=True),
            "failed": failed.astype(bool),
            "truncated": truncated.astype(bool),
            "tied_share": ties,
        },
        schema=_task_schema(),
    )


def _task_schema() -> pa.Schema:
    whole, real = pa.int64(), pa.float64()
    return pa.schema(
        [("task", pa.dictionary(pa.int32(), pa.string())), ("query_id", pa.string())]
        + [("query", pa.large_string()), ("slices", pa.list_(pa.string()))]
        + [("relevant", whole), ("gold_rank", whole), ("first", real), ("second", real)]
        + [("delta", real), ("failed", pa.bool_()), ("truncated", pa.bool_())]
        + [("tied_share", real)]
    )


def find_queries(
    data: Aggregates, search: Search, *, page: int = 0, everything: bool = False
) -> tuple[pa.Table, int]:
    """The rows of one page (or all), and how many there are in all."""
    import duckdb

    condition, order = CHOICES[search.choice]
    clauses, values = [condition], []
    if search.text:
        clauses.append("(contains(lower(query), lower(?)) OR query_id = ?)")
        values += [search.text, search.text]
    if search.slice:
        clauses.append("list_contains(slices, ?)")
        values.append(search.slice)
    where = " AND ".join(f"({clause})" for clause in clauses)
    table = pair_table(data, search)
    with duckdb.connect(":memory:") as connection:
        connection.register("found", table)
        counted = f"SELECT count(*) FROM found WHERE {where}"
        ((total,),) = connection.sql(counted, params=values).fetchall()
        limit = "" if everything else f"LIMIT {PAGE} OFFSET {PAGE * page}"
        rows = connection.sql(
            f"SELECT * FROM found WHERE {where} ORDER BY {order}, task, query_id {limit}",
            params=values,
        ).to_arrow_table()
    return rows, int(total)


def queries_grid(rows: pa.Table, search: Search, words: Words) -> Grid:
    """Rows of `find_queries` as they are shown and written to files."""
    found = [
        {
            "task": row["task"],
            "query_id": row["query_id"],
            "query": row["query"],
            "first": row["first"],
            "second": row["second"],
            "delta": row["delta"],
            "gold_rank": row["gold_rank"] or None,
            "relevant": row["relevant"],
            "flags": _flags(row, words),
        }
        for row in rows.to_pylist()
    ]
    return Grid(
        name="queries",
        columns=(
            *([] if search.task else [GridColumn("task", words.of("task"))]),
            GridColumn("query", words.of("query"), "prose"),
            GridColumn("delta", words.of("delta"), "signed"),
            GridColumn("first", search.first, "number"),
            GridColumn("second", search.second, "number"),
            GridColumn("relevant", words.of("relevant"), "count"),
            GridColumn("gold_rank", words.of("gold_rank"), "count"),
            GridColumn("flags", words.of("flags")),
            GridColumn("query_id", words.of("query_id"), "code"),
        ),
        rows=tuple(found),
    )


def _flags(row: dict[str, object], words: Words) -> str:
    names = [name for name in ("failed", "truncated") if row[name]]
    if row["tied_share"]:
        names.append("tied")
    if row["relevant"] and not row["gold_rank"]:
        names.append("no_gold")
    return ", ".join(words.of(f"flag_{name}") for name in names)


def slice_choices(data: Aggregates, tasks: Sequence[str]) -> list[str]:
    """Slices of these tasks that a query can be filtered by."""
    return list(dict.fromkeys(label for task in tasks for label in data.task(task)["slices"]))

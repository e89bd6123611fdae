"""What stage 1 left to rerank: recall, coverage and oracle by depth, gold ranks, unjudged ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.app.reading import Aggregates
from jobs.app.wording import Words
from rerank.reporting.grid import Grid, GridColumn, Value
from rerank.reporting.markup import Markup, join
from rerank.reporting.plots import columns, legend, lines
from rerank.suite.aggregates import GIVEN

# rank buckets of the histogram: label, first rank, last rank
BUCKETS = (
    *(("1", 1, 1), ("2", 2, 2), ("3", 3, 3), ("4-5", 4, 5), ("6-10", 6, 10), ("11-20", 11, 20)),
    *(("21-50", 21, 50), ("51-100", 51, 100), ("101+", 101, None)),
)


def depths_grid(data: Aggregates, task: str, words: Words) -> Grid:
    """One row a depth: what the first stage's first candidates hold."""
    rows = [row for row in data.table("depths").to_pylist() if row["task"] == task]
    return Grid(
        name=f"candidates-{task}",
        columns=(
            GridColumn("depth", words.of("depth"), "count"),
            GridColumn("coverage", words.of("coverage"), "number"),
            GridColumn("recall", words.of("recall"), "number"),
            GridColumn("oracle", words.of("oracle", data.primary), "number"),
        ),
        rows=tuple(rows),
    )


def depths_figure(grid: Grid, words: Words) -> Markup | None:
    """Coverage, recall and oracle as lines over depth."""
    if not grid.rows:
        return None
    series: dict[str, list[tuple[float, float]]] = {
        column.name: _points(grid.rows, "depth", column.key) for column in grid.columns[1:]
    }
    return _lines(series, words.of("depth"), "", words.of("depths_label"))


def _points(rows: Sequence[Any], x: str, y: str) -> list[tuple[float, float]]:
    return [(float(row[x]), float(row[y])) for row in rows if row[y] is not None]


def _lines(
    series: dict[str, list[tuple[float, float]]], x_name: str, y_name: str, label: str
) -> Markup:
    drawn = lines(series, x_name=x_name, y_name=y_name, label=label)
    return join([drawn, legend(list(series))])


def gold_grid(data: Aggregates, task: str, words: Words) -> Grid:
    """How many queries have their best relevant candidate where in the first stage's list."""
    found = [row for row in data.table("gold_ranks").to_pylist() if row["task"] == task]
    counted: dict[str, int] = {label: 0 for label, _, _ in BUCKETS}
    for row in found:
        for label, low, high in BUCKETS:
            if row["rank"] >= low and (high is None or row["rank"] <= high):
                counted[label] += row["queries"]
    nowhere = sum(row["queries"] for row in found if row["rank"] == 0)
    rows: list[dict[str, Value]] = [{"rank": k, "queries": n} for k, n in counted.items()]
    rows.append({"rank": words.of("no_gold_short"), "queries": nowhere})
    while len(rows) > 2 and rows[-2]["queries"] == 0:
        del rows[-2]  # ranks below the deepest candidate
    return Grid(
        name=f"gold-ranks-{task}",
        columns=(
            GridColumn("rank", words.of("gold_rank")),
            GridColumn("queries", words.of("queries"), "count"),
        ),
        rows=tuple(rows),
    )


def gold_figure(grid: Grid, words: Words) -> Markup:
    bars = [(str(row["rank"]), int(row["queries"] or 0)) for row in grid.rows]
    return columns(
        bars,
        x_name=words.of("gold_rank"),
        y_name=words.of("queries"),
        label=words.of("gold_label"),
    )


def unjudged_grid(data: Aggregates, task: str, words: Words) -> Grid:
    """One row a system: the mean share of documents that nobody judged among the first k."""
    found = [row for row in data.table("unjudged").to_pylist() if row["task"] == task]
    cutoffs = sorted({row["k"] for row in found})
    systems = list(dict.fromkeys(row["system"] for row in found))
    value = {(row["system"], row["k"]): row["value"] for row in found}
    return Grid(
        name=f"unjudged-{task}",
        columns=(
            GridColumn("system", words.of("system")),
            *(GridColumn(f"unjudged@{k}", f"@{k}", "share") for k in cutoffs),
        ),
        rows=tuple(
            {"system": name, **{f"unjudged@{k}": value.get((name, k)) for k in cutoffs}}
            for name in systems
        ),
    )


def headroom_grid(data: Aggregates, task: str, words: Words) -> Grid:
    """One row a system: its value, the oracle's, and how much of the way was made."""
    rows = []
    for system in data.systems_on(task):
        row = data.system_rows().get((task, system))
        result = data.results().get((task, system, data.primary))
        if row is None or result is None:
            continue
        names = ("oracle", "headroom", "recovered")
        rows.append(
            {"system": system, "value": result["mean"], **{name: row[name] for name in names}}
        )
    rows.sort(key=lambda row: -(row["value"] or 0.0))
    return Grid(
        name=f"headroom-{task}",
        columns=(
            GridColumn("system", words.of("system")),
            GridColumn("value", data.primary, "number"),
            GridColumn("oracle", words.of("oracle", data.primary), "number"),
            GridColumn("headroom", words.of("headroom"), "number"),
            GridColumn("recovered", words.of("recovered"), "share"),
        ),
        rows=tuple(rows),
    )


def task_sentence(data: Aggregates, task: str, words: Words) -> str:
    """What the candidates of a task are, and what they leave out of reach."""
    found = data.task(task)
    stage = words.of("given") if found["first_stage"] == GIVEN else found["first_stage"]
    if found["analyzer"]:
        stage += f" ({found['analyzer']})"
    sizes = (f"{found['queries']:,}", f"{found['pairs']:,}")
    text = words.of("candidates_sentence", stage, found["depth"], *sizes)
    if found["unreachable"]:
        text += " " + words.of("unreachable", f"{found['unreachable']:,}")
    if found["no_relevant"]:
        text += " " + words.of("without_relevant", f"{found['no_relevant']:,}")
    if found["injected"]:
        text += " " + words.of("injected_rows", f"{found['injected']:,}")
    return text

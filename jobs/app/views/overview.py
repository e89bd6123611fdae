"""The leaderboard: systems by their mean over the chosen tasks, with what qualifies it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.app.reading import Aggregates
from jobs.app.views.scope import UNKNOWN, MacroMean, Scope, macro_means
from jobs.app.views.speed import SPEEDS, ends_of, plain_mean, speed_of, timed_tasks
from jobs.app.wording import Words
from rerank.reporting.charts import axis, interval_row, scale_of
from rerank.reporting.grid import (
    Grid,
    GridColumn,
    Value,
    best_marks,
    grid_table,
    sorted_rows,
)
from rerank.reporting.markup import Markup
from rerank.reporting.schema import Interval
from rerank.reporting.selection import more_is_better
from rerank.reporting.table import html_table
from rerank.reporting.wording import interval_text, number, rank_text

RECIPROCAL = "RR@10"  # shown beside the measure, where the suite has it
Row = Mapping[str, Value]


def overview(data: Aggregates, scope: Scope, words: Words) -> Grid:
    """One row a system, best first; systems without a value on every task last."""
    means = macro_means(data, scope)
    higher = more_is_better(scope.measure)
    rows = sorted_rows(
        [_row(data, scope, name, means[name], words) for name in scope.systems],
        "mean",
        descending=higher,
    )
    return Grid(
        name="leaderboard",
        columns=_columns(data, scope, words),
        rows=tuple(rows),
        marks=_marks(data, scope, rows, higher=higher),
        notes=tuple(notes(data, scope, means, words)),
    )


def _row(data: Aggregates, scope: Scope, name: str, mean: MacroMean, words: Words) -> Row:
    system, results = data.system(name), data.results()
    found = [
        row for task in scope.tasks if (row := data.system_rows().get((task, name))) is not None
    ]
    pairs = sum(row["pairs"] for row in found)
    reciprocal = [results.get((task, name, RECIPROCAL)) for task in scope.tasks]
    return {
        "system": name,
        "parameters": system["parameters"],
        "mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
        "interval": None if mean.low is None else _interval(mean),
        "rank": None if mean.rank is None else rank_text(mean.rank),
        "n": mean.n,
        "mrr": plain_mean([None if row is None else row["mean"] for row in reciprocal]),
        **{f"task:{task}": _mean(data, task, name, scope.measure) for task in scope.tasks},
        **{key: speed_of(data, scope, name, key) for key in SPEEDS},
        "headroom": plain_mean([row["headroom"] for row in found], len(scope.tasks)),
        "truncated": _weighted(found, "truncated_share", pairs),
        "tied": _weighted(found, "tied_share", pairs),
        "failed": sum(row["failed_pairs"] for row in found),
        "recipe": words.of(f"recipe_{system['recipe']}"),
        "licence": system["licence"] or UNKNOWN,
    }


def _interval(mean: MacroMean) -> str:
    return f"[{number(mean.low)}, {number(mean.high)}]"


def _mean(data: Aggregates, task: str, system: str, measure: str) -> float | None:
    row = data.results().get((task, system, measure))
    return None if row is None else row["mean"]


def _weighted(rows: Sequence[Mapping[str, Any]], key: str, pairs: int) -> float | None:
    """A share of all pairs, from shares of each task's."""
    if not pairs:
        return None
    return float(sum((row[key] or 0.0) * row["pairs"] for row in rows) / pairs)


def _columns(data: Aggregates, scope: Scope, words: Words) -> tuple[GridColumn, ...]:
    several = len(scope.tasks) > 1
    mean_name = f"{words.of('mean')} {scope.measure}" if several else scope.measure
    columns = [
        GridColumn("system", words.of("system")),
        GridColumn("parameters", words.of("parameters"), "number", 2),
        GridColumn("mean", mean_name, "number"),
        GridColumn("interval", words.of("interval", f"{data.suite['confidence']:.0%}")),
        GridColumn("rank", words.of("rank")),
    ]
    if RECIPROCAL in data.measures and scope.measure != RECIPROCAL:
        columns.append(GridColumn("mrr", RECIPROCAL, "number"))
    if several:
        columns += [GridColumn(f"task:{task}", task, "number") for task in scope.tasks]
    columns += [
        GridColumn(key, words.of(key), "number", digits)
        for key, digits in SPEEDS.items()
        if timed_tasks(data, scope, key)
    ]
    return (
        *columns,
        GridColumn("headroom", words.of("headroom"), "number"),
        GridColumn("truncated", words.of("truncated"), "share"),
        GridColumn("tied", words.of("tied"), "share"),
        GridColumn("failed", words.of("failed_pairs"), "count"),
        GridColumn("recipe", words.of("recipe")),
        GridColumn("licence", words.of("licence")),
        GridColumn("n", words.of("queries"), "count"),
    )


def _marks(
    data: Aggregates, scope: Scope, rows: Sequence[Row], *, higher: bool
) -> dict[tuple[int, str], str]:
    """Best of every column of quality and speed, and what lies within the best's interval."""
    reach = {at: ends for at, row in enumerate(rows) if (ends := ends_of(row)) is not None}
    marks = best_marks(rows, "mean", more_is_better=higher, reach=reach)
    marks |= best_marks(rows, "mrr", more_is_better=True)
    marks |= best_marks(rows, "pps", more_is_better=True)
    marks |= best_marks(rows, "p95", more_is_better=False)
    for task in scope.tasks if len(scope.tasks) > 1 else ():
        reach = {}
        for at, row in enumerate(rows):
            found = data.results().get((task, str(row["system"]), scope.measure))
            if found is not None and found["low"] is not None and not found["degenerate"]:
                reach[at] = (found["low"], found["high"])
        marks |= best_marks(rows, f"task:{task}", more_is_better=higher, reach=reach)
    return marks


def notes(
    data: Aggregates, scope: Scope, means: Mapping[str, MacroMean], words: Words
) -> list[str]:
    """What a reader must know of the table: the rule of exclusion, marks, intervals, failures."""
    found = []
    if len(scope.tasks) > 1:
        found.append(words.of("macro_rule", len(scope.tasks)))
        out = [name for name, mean in means.items() if mean.lacking]
        if out:
            found.append(words.of("excluded", len(out), words.listed(out, 5)))
    if scope.measure == data.primary:
        kept = max((len(data.resamples(task)[1]) for task in scope.tasks), default=0)
        found.append(words.of("intervals", f"{data.suite['confidence']:.0%}", f"{kept:,}"))
    elif len(scope.tasks) > 1:
        found.append(words.of("no_intervals", data.primary))
    for key in ("pps", "p95"):
        timed = timed_tasks(data, scope, key)
        if timed and len(timed) < len(scope.tasks):
            found.append(words.of("speed_tasks", words.of(key), words.listed(timed)))
    found.append(words.of("marks"))
    waiting = data.index.get("waiting") or []
    if waiting:
        found.append(words.of("waiting", words.listed(waiting)))
    broken = [
        name
        for name in scope.systems
        if any(
            (row := data.system_rows().get((task, name))) and row["failed_pairs"]
            for task in scope.tasks
        )
    ]
    if broken:
        found.append(words.of("with_failures", words.listed(broken, 5)))
    unverified = [name for name in scope.systems if data.system(name)["recipe"] == "unverified"]
    if unverified:
        found.append(words.of("unverified", len(unverified)))
    synthetic = [task for task in scope.tasks if data.task(task)["provenance"].get("synthetic")]
    if synthetic:
        found.append(words.of("synthetic", words.listed(synthetic, 5)))
    return found


def interval_figure(grid: Grid, baseline: str, words: Words) -> Markup:
    """The means with their intervals on one scale, the baseline's value as a line through all."""
    rows = [row for row in grid.rows if isinstance(row["mean"], float)]
    ends = [row[key] for row in rows for key in ("low", "mean", "high")]
    scale = scale_of([end for end in ends if isinstance(end, float)])
    base = next((row["mean"] for row in rows if row["system"] == baseline), None)
    pictures = [_picture(scale, row, base, baseline) for row in rows]
    drawn = Grid(
        name="intervals",
        columns=(
            GridColumn("system", words.of("system")),
            GridColumn("mean", words.of("mean"), "number"),
            GridColumn("plot", "", "picture", head=axis(scale)),
            GridColumn("rank", words.of("rank")),
        ),
        rows=tuple(rows),
        marks={(at, key): mark for (at, key), mark in grid.marks.items() if key == "mean"},
        pictures={"plot": pictures},
    )
    return html_table(grid_table(drawn))


def _picture(scale: Any, row: Row, base: Value, baseline: str) -> Markup:
    mean, ends = row["mean"], ends_of(row)
    interval: Interval | None = None
    if ends is not None:
        low, high = ends
        interval = {"low": low, "high": high, "kind": "percentile", "degenerate": low == high}
    return interval_row(
        scale,
        mean if isinstance(mean, float) else None,
        interval,
        tone="baseline" if row["system"] == baseline else "",
        reference=base if isinstance(base, float) else None,
        label=f"{row['system']}: {number(mean)} {interval_text(interval)}",  # type: ignore[arg-type]
    )


def imported_grids(data: Aggregates, words: Words) -> list[tuple[str, Grid]]:
    """Published results, a table a protocol: shown as published, compared with nothing."""
    found = []
    for at, block in enumerate(data.index.get("imported") or (), 1):
        names = [column["name"] for column in block["columns"]]
        for measure in block["measures"]:
            columns = (
                GridColumn("model", words.of("system")),
                GridColumn("mean", f"{words.of('mean')} {measure}", "number"),
                *(GridColumn(f"task:{name}", name, "number") for name in names),
            )
            rows = [
                {
                    "model": row["model"],
                    "mean": row["mean"].get(measure),
                    **{f"task:{name}": row["values"][measure].get(name) for name in names},
                }
                for row in block["rows"]
            ]
            told = [words.of("imported_note"), *block.get("facts", ()), *block.get("notes", ())]
            grid = Grid(
                f"published-{at}-{measure}".replace("@", "_"),
                columns,
                tuple(sorted_rows(rows, "mean")),
                notes=tuple(told),
            )
            found.append((f"{block['protocol']} ({block['source']})", grid))
    return found

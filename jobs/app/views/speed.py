"""Speeds of systems, where they can be compared, and quality against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobs.app.reading import Aggregates
from jobs.app.views.scope import Scope
from jobs.app.wording import Words
from rerank.reporting.grid import Grid, Value
from rerank.reporting.markup import Markup
from rerank.reporting.scatter import Dot, scatter
from rerank.reporting.visible import clipped
from rerank.reporting.wording import number

SPEEDS = {"pps": 1, "replay_pps": 1, "p95": 3}  # key of systems' rows -> digits shown
LABELLED = 16  # dots of a scatter that all have their name; of more, those of the frontier
Row = Mapping[str, Value]


def timed_tasks(data: Aggregates, scope: Scope, key: str) -> list[str]:
    """The scope's tasks on which a system was timed: speeds of others cannot be compared."""
    rows = data.system_rows()
    return [
        task
        for task in scope.tasks
        if any((row := rows.get((task, name))) and row[key] is not None for name in scope.systems)
    ]


def speed_of(data: Aggregates, scope: Scope, name: str, key: str) -> float | None:
    """Mean over the timed tasks; None for a system that was not timed on all of them."""
    rows = [data.system_rows().get((task, name)) for task in timed_tasks(data, scope, key)]
    return plain_mean([None if row is None else row[key] for row in rows])


def plain_mean(values: Sequence[float | None], needed: int | None = None) -> float | None:
    """The plain mean, None where one of the values (or of the needed number) is missing."""
    known = [value for value in values if value is not None]
    whole = len(known) == (len(values) if needed is None else needed)
    return sum(known) / len(known) if known and whole else None


def ends_of(row: Row) -> tuple[float, float] | None:
    low, high = row["low"], row["high"]
    return (low, high) if isinstance(low, float) and isinstance(high, float) else None


def speed_figure(grid: Grid, key: str, words: Words) -> tuple[Markup | None, list[str]]:
    """Quality against pairs a second with the frontier, and the systems that nobody measured.

    key: `pps` (measured by protocol) or `replay_pps`. None where no system has both.
    """
    known, without = [], []
    for row in grid.rows:
        mean, rate = row["mean"], row.get(key)
        if isinstance(mean, float) and isinstance(rate, int | float) and rate > 0:
            known.append(row)
        else:
            without.append(str(row["system"]))
    if not known:
        return None, without
    front = frontier([(float(row[key]), float(row["mean"])) for row in known])  # type: ignore[arg-type]
    dots = [
        Dot(
            x=float(row[key]),  # type: ignore[arg-type]
            y=float(row["mean"]),  # type: ignore[arg-type]
            interval=ends_of(row),
            label=clipped(str(row["system"]), 30) if at in front or len(known) <= LABELLED else "",
            says=f"{row['system']}: {number(row['mean'])}, {row[key]:,.1f}",  # type: ignore[arg-type]
            joined=at in front,
        )
        for at, row in enumerate(known)
    ]
    on_it = words.listed([str(known[at]["system"]) for at in front], 12)
    drawn = scatter(
        dots,
        x_name=words.of(key),
        y_name=next(column.name for column in grid.columns if column.key == "mean"),
        label=words.of("scatter_label", len(known), on_it),
    )
    return drawn, without


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """Numbers of the points that no other beats in both (higher is better), by rising first."""
    found: list[int] = []
    highest = float("-inf")
    for at in sorted(range(len(points)), key=lambda at: (-points[at][0], -points[at][1])):
        if points[at][1] > highest:
            found.append(at)
            highest = points[at][1]
    return found[::-1]

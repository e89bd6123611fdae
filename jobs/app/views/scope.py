"""What a view is about: tasks, systems and measure chosen, and means over the tasks with ranks.

The mean over tasks counts every task the same. A system without a value on one of the chosen tasks
has no mean: an average of fewer tasks is another number and is never put beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import metrics
from jobs.app.reading import Aggregates

# label -> billions of parameters: from, below
SIZES: dict[str, tuple[float, float]] = {
    "<0.2B": (0.0, 0.2),
    "0.2-0.7B": (0.2, 0.7),
    "0.7-3B": (0.7, 3.0),
    "3-9B": (3.0, 9.0),
    ">=9B": (9.0, float("inf")),
}
UNKNOWN = "?"  # a size or licence that no file states


@dataclass(frozen=True)
class Scope:
    """Tasks and systems of a view, in the suite's order."""

    tasks: tuple[str, ...]
    systems: tuple[str, ...]
    measure: str


@dataclass(frozen=True)
class MacroMean:
    """Mean over the chosen tasks with interval and rank; None where it does not exist.

    lacking: the tasks without a value. n: queries with a value, over all tasks.
    """

    mean: float | None
    low: float | None
    high: float | None
    rank: tuple[int, int] | None
    n: int
    lacking: tuple[str, ...]


def chosen_tasks(data: Aggregates, languages: Sequence[str], names: Sequence[str]) -> list[str]:
    """Tasks of these languages and names; an empty choice is all."""
    return [
        task["name"]
        for task in data.index["tasks"]
        if (not languages or (task["language"] or UNKNOWN) in languages)
        and (not names or task["name"] in names)
    ]


def chosen_systems(data: Aggregates, sizes: Sequence[str], licences: Sequence[str]) -> list[str]:
    """Systems of these sizes and licences; an empty choice is all."""
    return [
        system["name"]
        for system in data.index["systems"]
        if (not sizes or size_of(system["parameters"]) in sizes)
        and (not licences or (system["licence"] or UNKNOWN) in licences)
    ]


def size_of(billions: float | None) -> str:
    """The label of SIZES, UNKNOWN where no file says how large the model is."""
    if billions is None:
        return UNKNOWN
    return next(name for name, (low, high) in SIZES.items() if low <= billions < high)


def macro_means(data: Aggregates, scope: Scope) -> dict[str, MacroMean]:
    """System -> its mean over the scope's tasks.

    Of the primary measure interval and rank come from the resamples that evaluate kept, which all
    systems of a task share. Of other measures a single task has its own interval, several
    have none.
    """
    results = data.results()
    means: dict[str, MacroMean] = {}
    for system in scope.systems:
        found = [results.get((task, system, scope.measure)) for task in scope.tasks]
        values = [row["mean"] for row in found if row is not None and row["mean"] is not None]
        lacking = tuple(
            task
            for task, row in zip(scope.tasks, found, strict=True)
            if row is None or row["mean"] is None
        )
        whole = bool(values) and not lacking
        only = found[0] if whole and len(found) == 1 else None
        means[system] = MacroMean(
            mean=float(np.mean(values)) if whole else None,
            low=only["low"] if only else None,
            high=only["high"] if only else None,
            rank=None,
            n=sum(row["n"] for row in found if row is not None),
            lacking=lacking,
        )
    if scope.measure == data.primary:
        means = _with_resamples(data, scope, means)
    return means


def _with_resamples(
    data: Aggregates, scope: Scope, means: dict[str, MacroMean]
) -> dict[str, MacroMean]:
    names = [name for name in scope.systems if means[name].mean is not None]
    table = macro_resamples(data, scope.tasks, names)
    if table is None:
        return means
    confidence = data.suite["confidence"]
    tail = (1 - confidence) / 2
    lows, highs = np.quantile(table, [tail, 1 - tail], axis=0)
    ranks = metrics.rank_intervals(table, confidence=confidence)
    found = dict(means)
    for at, name in enumerate(names):
        plain = means[name]
        ends = (float(lows[at]), float(highs[at]))
        if plain.low is not None and plain.high is not None:
            ends = (plain.low, plain.high)  # of a single task, as evaluate found it
        best, worst = ranks[at].tolist()
        found[name] = MacroMean(plain.mean, *ends, (best, worst), plain.n, plain.lacking)
    return found


def macro_resamples(
    data: Aggregates, tasks: Sequence[str], systems: Sequence[str]
) -> np.ndarray | None:
    """Means over tasks in every resample: (resamples, systems); None where a task has none."""
    if not systems or not tasks:
        return None
    total: np.ndarray | None = None
    for task in tasks:
        names, table = data.resamples(task)
        place = {name: at for at, name in enumerate(names)}
        if any(name not in place for name in systems):
            return None
        part = table[:, [place[name] for name in systems]]
        total = part if total is None else total + part
    return None if total is None else total / len(tasks)

"""Two systems side by side: tasks, slices, single queries, and what the release gate says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobs.app.reading import Aggregates
from jobs.app.views.pairs import (
    Delta,
    Pair,
    common_tasks,
    corrected,
    slice_deltas,
    whole_delta,
)
from jobs.app.views.scope import macro_resamples
from jobs.app.wording import Words
from rerank.reporting.charts import MOST_BARS, axis, interval_row, scale_of, waterfall
from rerank.reporting.grid import Grid, GridColumn, Value
from rerank.reporting.markup import Markup
from rerank.reporting.selection import SWAPPED, more_is_better
from rerank.reporting.wording import bounds, interval_text, signed

MACRO_LABEL = ""  # of the row over all tasks


def task_deltas(data: Aggregates, first: str, second: str, measure: str) -> list[Delta]:
    """The mean over all tasks that both have, then every task; labels are their names."""
    tasks = common_tasks(data, first, second)
    found = []
    for task in tasks:
        delta = whole_delta(data, task, first, second, measure)
        found.append(replace(delta, label=task))
    if not all(delta.cached for delta in found):
        found = corrected(found)
    if len(tasks) < 2:
        return found
    return [macro_delta(data, tasks, found, first, second, measure), *found]


def macro_delta(
    data: Aggregates,
    tasks: Sequence[str],
    deltas: Sequence[Delta],
    first: str,
    second: str,
    measure: str,
) -> Delta:
    """Mean of the tasks' means; of the primary measure with an interval from shared resamples."""
    means = [delta.mean for delta in deltas if delta.mean is not None]
    mean = float(np.mean(means)) if len(means) == len(tasks) else None
    counts = {
        name: sum(getattr(delta, name) for delta in deltas)
        for name in ("n", "improved", "tied", "regressed")
    }
    low = high = None
    table = macro_resamples(data, tasks, [first, second]) if measure == data.primary else None
    if table is not None and mean is not None:
        tail = (1 - data.suite["confidence"]) / 2
        low, high = map(float, np.quantile(table[:, 1] - table[:, 0], [tail, 1 - tail]))
    return Delta(MACRO_LABEL, mean=mean, low=low, high=high, degenerate=low == high, **counts)


def delta_grid(
    name: str,
    deltas: Sequence[Delta],
    heads: tuple[str, str],
    data: Aggregates,
    words: Words,
    measure: str,
) -> Grid:
    """A forest: one row a delta, its interval on one scale around 0.

    heads: over the labels, and the label of the row whose own is empty.
    """
    alpha = float(data.suite["alpha"])
    readings = [delta.reading(alpha) for delta in deltas]
    if not more_is_better(measure):
        readings = [SWAPPED.get(reading, reading) for reading in readings]
    wide = [delta for delta in deltas if not delta.small]
    ends = [end for delta in wide for end in bounds(delta.interval) or ()]  # type: ignore[arg-type]
    scale = scale_of([0.0, *ends, *(d.mean for d in deltas if d.mean is not None)])
    rows: list[dict[str, Value]] = [
        {
            "label": delta.label or heads[1],
            "n": delta.n,
            "mean": delta.mean,
            "low": delta.low,
            "high": delta.high,
            "interval": words.of("degenerate")
            if delta.degenerate
            else interval_text(delta.interval, delta=True),  # type: ignore[arg-type]
            "p_value": delta.p_value,
            "corrected_p": delta.corrected_p,
            "wins": delta.improved,
            "ties": delta.tied,
            "losses": delta.regressed,
            "reading": words.of("too_few") if delta.small else words.of(f"reading_{reading}"),
        }
        for delta, reading in zip(deltas, readings, strict=True)
    ]
    pictures = [
        interval_row(
            scale,
            delta.mean,
            delta.interval,  # type: ignore[arg-type]
            tone=reading,
            reference=0.0,
            label=f"{row['label']}: {signed(delta.mean)} {row['interval']}",
        )
        for delta, reading, row in zip(deltas, readings, rows, strict=True)
    ]
    return Grid(
        name=name,
        columns=(
            GridColumn("label", heads[0]),
            GridColumn("n", words.of("queries"), "count"),
            GridColumn("plot", words.of("delta"), "picture", head=axis(scale, delta=True)),
            GridColumn("mean", words.of("mean_delta"), "signed"),
            GridColumn("interval", words.of("interval", f"{data.suite['confidence']:.0%}")),
            GridColumn("corrected_p", words.of("corrected_p"), "p"),
            GridColumn("wins", words.of("wins"), "count"),
            GridColumn("ties", words.of("ties"), "count"),
            GridColumn("losses", words.of("losses"), "count"),
            GridColumn("reading", words.of("reading")),
        ),
        rows=tuple(rows),
        tones={
            (at, key): reading for at, reading in enumerate(readings) for key in ("mean", "reading")
        },
        pictures={"plot": pictures},
        notes=(
            words.of("cached_tests" if _cached(deltas) else "plain_tests", *_how(data, deltas)),
        ),
    )


def _cached(deltas: Sequence[Delta]) -> bool:
    return any(delta.cached for delta in deltas)


def _how(data: Aggregates, deltas: Sequence[Delta]) -> tuple[object, ...]:
    suite = data.suite
    if _cached(deltas):
        return (suite["test"], suite["correction"], suite["tests"], suite["alpha"])
    return (sum(delta.p_value is not None and not delta.small for delta in deltas), suite["alpha"])


def forest(data: Aggregates, pair: Pair, words: Words) -> Grid:
    """The whole task, then its slices."""
    slices = slice_deltas(data, pair)
    return delta_grid(
        "slices",
        [whole_delta(data, pair.task, pair.first, pair.second, pair.measure), *slices],
        (words.of("slice"), words.of("whole_task")),
        data,
        words,
        pair.measure,
    )


def distribution(pair: Pair, words: Words) -> Markup | None:
    """The deltas of all queries as bars, smallest first."""
    deltas = pair.deltas[pair.kept]
    if not len(deltas):
        return None
    # evenly spaced first: a bar of a task's 12,000 queries would be thinner than a pixel
    ordered = np.sort(deltas)
    picked = np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_BARS)).round().astype(int)
    bars = [("", float(ordered[at])) for at in picked]
    scale = scale_of([0.0, float(ordered[0]), float(ordered[-1])], most_ticks=6)
    return waterfall(bars, scale, label=words.of("delta_bars", len(deltas)))


def gate_grid(data: Aggregates, systems: Sequence[str], words: Words) -> Grid:
    """The release gate's verdicts on these systems."""
    rules = [rule for rule in data.index["gate"]["rules"] if rule["challenger"] in systems]
    rows: list[dict[str, Value]] = [
        {
            **{name: rule[name] for name in ("challenger", "task", "rule", "measure")},
            "slice": rule["slice"] or words.of("whole_task"),
            "limit": rule["limit"],
            "observed": rule["observed"],
            "n": rule["n"],
            "verdict": words.verdict(rule["verdict"]),
        }
        for rule in rules
    ]
    tones = {"pass": "better", "fail": "worse"}
    return Grid(
        name="gate",
        columns=(
            GridColumn("challenger", words.of("system")),
            GridColumn("task", words.of("task")),
            GridColumn("rule", words.of("rule"), "code"),
            GridColumn("measure", words.of("measure")),
            GridColumn("slice", words.of("slice")),
            GridColumn("limit", words.of("limit"), "number"),
            GridColumn("observed", words.of("observed"), "number"),
            GridColumn("n", "n", "count"),
            GridColumn("verdict", words.of("verdict")),
        ),
        rows=tuple(rows),
        tones={
            (at, "verdict"): tones.get(rule["verdict"], "muted") for at, rule in enumerate(rules)
        },
    )

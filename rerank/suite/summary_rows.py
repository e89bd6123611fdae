"""Rows of the report document on paired deltas and slices: JSON-able, None for what is not."""

from __future__ import annotations

from typing import Any

import numpy as np

import metrics
from rerank.suite.comparison import Comparison, Difference
from rerank.suite.findings import Findings, compared_measures
from rerank.suite.intervals import intervals_of
from rerank.suite.results import Row, interval_row, macro_row, mean_of
from rerank.suite.samples import Sample
from rerank.suite.slices import Slice
from rerank.suite.suites import SuiteSpec

SHOWN_GAINS = 5  # biggest improvements listed beside the worst regressions
NOTEWORTHY_TIES = 0.2  # share of tied scores that is worth a warning
NOTEWORTHY_UNJUDGED = 0.05  # difference of unjudged@10 that is worth a warning


def slice_means(findings: Findings) -> list[Row]:
    """Mean and interval of the primary measure in every slice, for every system and task."""
    return [row for task in findings.tasks for row in _slice_means(findings, task)]


def _slice_means(findings: Findings, task: str) -> list[Row]:
    """Of one task; the intervals of all systems are drawn at once."""
    suite = findings.suite
    entries: list[tuple[str, Slice, Sample]] = []
    for model in findings.models:
        system = findings.system(task, model)
        values = system.values(suite.primary)
        entries += [
            (model, name, Sample(values, inside & ~np.isnan(values)))
            for name, inside in system.slices(suite.slices).items()
        ]
    clusters = findings.system(task, suite.baseline).clusters(suite.clusters)
    intervals = intervals_of([entry[2] for entry in entries], suite, clusters=clusters)
    return [
        {
            "task": task,
            "system": model,
            "measure": suite.primary,
            "attribute": attribute,
            "value": value,
            **mean_of(sample.kept),
            "interval": interval_row(interval),
        }
        for (model, (attribute, value), sample), interval in zip(entries, intervals, strict=True)
    ]


def comparison_row(item: Comparison, suite: SuiteSpec) -> Row:
    """One challenger, task and measure, with its worst and best queries and its slices."""
    order = np.argsort(item.deltas, kind="stable")
    worst = [index for index in order if item.deltas[index] < 0]
    best = [index for index in order[::-1] if item.deltas[index] > 0]
    return {
        "task": item.challenger.task,
        "baseline": item.baseline.model,
        "challenger": item.challenger.model,
        "measure": item.measure,
        "left_out": item.left_out,
        "delta": _delta(item.whole.summary),
        **_difference(item.whole),
        "weighted_delta": item.weighted_delta,
        "weighted_interval": interval_row(item.weighted_interval),
        "unjudged_bounds": None if item.unjudged_bounds is None else list(item.unjudged_bounds),
        "deltas": [[item.query_ids[index], float(item.deltas[index])] for index in order],
        "worst": [_query(item, index) for index in worst[: suite.worst]],
        "best": [_query(item, index) for index in best[:SHOWN_GAINS]],
        "slices": [
            {
                "attribute": part.slice[0],
                "value": part.slice[1],
                "mean": part.difference.summary.mean,
                **_difference(part.difference),
                "small": part.small,
            }
            for part in item.slices
        ],
        "warnings": comparison_warnings(item),
    }


def _difference(difference: Difference) -> Row:
    summary, power = difference.summary, difference.power
    effect = summary.effect_size
    return {
        "n": summary.n,
        "interval": interval_row(difference.interval),
        **{name: int(getattr(summary, name)) for name in ("improved", "tied", "regressed")},
        "p_value": difference.p_value,
        "corrected_p": difference.corrected_p,
        "agrees": difference.agrees,
        "effect_size": None if np.isnan(effect) else effect,
        "detectable": None if power is None else power.detectable,
        "queries_needed": None if power is None else power.queries_needed,
    }


def _delta(summary: metrics.PairedSummary) -> Row:
    names = ("mean", "median", "p05", "p25", "p75", "p95")
    return {name: getattr(summary, name) if summary.n else None for name in names}


def _query(item: Comparison, index: int) -> Row:
    query_id = item.query_ids[index]
    return {
        "query_id": query_id,
        "query": item.baseline.view.texts[query_id],
        "baseline": float(item.baseline_values[index]),
        "challenger": float(item.challenger_values[index]),
        "delta": float(item.deltas[index]),
    }


def macro_comparisons(findings: Findings) -> list[Row]:
    """Mean over tasks of the paired deltas, with an interval that resamples within tasks.

    They are no tests: the correction counts the tasks' own.
    """
    if len(findings.tasks) < 2:
        return []
    rows: list[dict[str, Any]] = []
    for model in findings.models:
        for measure in compared_measures(findings.suite):
            items = [
                item
                for item in findings.comparisons
                if (item.challenger.model, item.measure) == (model, measure)
            ]
            if not items or any(not len(item.deltas) for item in items):
                continue
            parts = [(item.deltas, item.weights, item.clusters) for item in items]
            found = macro_row(parts, findings.suite)
            rows.append(
                {
                    "challenger": model,
                    "baseline": findings.suite.baseline,
                    "measure": measure,
                    "tasks": len(items),
                    **{name: found[name] for name in ("n", "mean", "interval")},
                    "weighted_delta": found["weighted_mean"],
                    "weighted_interval": found["weighted_interval"],
                    "won": sum(float(item.deltas.mean()) > 0 for item in items),
                    "lost": sum(float(item.deltas.mean()) < 0 for item in items),
                }
            )
    return rows


def comparison_warnings(item: Comparison) -> list[str]:
    """What could make a reader trust this comparison too much."""
    found = []
    sides = (item.baseline, item.challenger)
    compared = np.isin(np.array(item.baseline.query_ids, dtype=object), item.query_ids)
    unjudged = [mean_of(side.values("unjudged@10")[compared])["mean"] for side in sides]
    if None not in unjudged and abs(unjudged[1] - unjudged[0]) > NOTEWORTHY_UNJUDGED:
        more = int(unjudged[1] > unjudged[0])
        found.append(
            f"{sides[more].model} puts more unjudged documents in its first 10 ranks "
            f"({unjudged[more]:.2f}) than {sides[1 - more].model} ({unjudged[1 - more]:.2f}): its "
            "value may be too low"
        )
    if item.unjudged_bounds is not None and item.unjudged_bounds[0] < 0 < item.unjudged_bounds[1]:
        low, high = item.unjudged_bounds
        found.append(
            "the sign of the delta depends on documents that nobody judged: with the worst and "
            f"the best grades for them it would be {low:+.4f} and {high:+.4f}"
        )
    for side in sides:
        if side.evaluation.tie_rate > NOTEWORTHY_TIES:
            low, high = side.evaluation.tie_range[item.measure]
            found.append(
                f"{side.evaluation.tie_rate:.0%} of the scores of {side.model} are tied: its order "
                f"rests on the tie rule, other orders of them give {item.measure} between "
                f"{low:.4f} and {high:.4f}"
            )
    if item.left_out:
        found.append(f"{item.left_out} queries are left out: no value, or a pair without a score")
    placed = {
        side.run.identity["dtype"] for side in sides if side.run.identity["attention"] != "none"
    }
    if len(placed) > 1:
        found.append(
            f"the two systems ran in different number formats: {', '.join(sorted(placed))}"
        )
    return found

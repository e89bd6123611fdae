"""Finding what a section needs in the report document."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

from metrics import parse_measure
from rerank.reporting.schema import (
    MACRO,
    Comparison,
    Headroom,
    Interval,
    MacroComparison,
    Report,
    Result,
    SliceDelta,
    SliceMean,
    Task,
)
from rerank.reporting.wording import Reading, exists, provenance_words, read_delta


def places(report: Report) -> list[str]:
    """Where systems are ranked: over all tasks if that was computed, then on each task."""
    over_all = [MACRO] if any(result["task"] == MACRO for result in report["results"]) else []
    return over_all + [task["name"] for task in report["tasks"]]


def task_title(report: Report, name: str) -> str:
    """The task's title, its name where it has none."""
    return next((task["title"] for task in report["tasks"] if task["name"] == name), "") or name


def is_synthetic(report: Report, name: str) -> bool:
    return any(
        task["provenance"].get("synthetic") for task in report["tasks"] if task["name"] == name
    )


def result_of(report: Report, task: str, system: str, measure: str) -> Result | None:
    wanted = (task, system, measure)
    return next(
        (r for r in report["results"] if (r["task"], r["system"], r["measure"]) == wanted), None
    )


def has_unverified_recipe(report: Report, system: str) -> bool:
    """Does the model's file say that its scoring recipe could not be checked against its source?"""
    return any(s["name"] == system and s["recipe"] == "unverified" for s in report["systems"])


def ranked(report: Report, task: str) -> list[Result]:
    """Results of the primary measure, best first, those without a value last."""
    primary = report["suite"]["primary"]
    found = [r for r in report["results"] if (r["task"], r["measure"]) == (task, primary)]
    return sorted(found, key=lambda r: -r["mean"] if exists(r["mean"]) else math.inf)


def leaders(report: Report, task: str) -> list[Result]:
    """The systems with the highest mean: one, or several that share it."""
    results = [result for result in ranked(report, task) if exists(result["mean"])]
    return [result for result in results if result["mean"] == results[0]["mean"]]


def comparison_of(report: Report, task: str, challenger: str, measure: str) -> Comparison | None:
    wanted = (task, challenger, measure)
    return next(
        (c for c in report["comparisons"] if (c["task"], c["challenger"], c["measure"]) == wanted),
        None,
    )


def compared_pairs(report: Report) -> list[tuple[str, str]]:
    """(challenger, task) of every comparison, each once, in the order of the report."""
    return list(dict.fromkeys((c["challenger"], c["task"]) for c in report["comparisons"]))


def macro_comparison_of(report: Report, challenger: str, measure: str) -> MacroComparison | None:
    found = report.get("macro_comparisons", [])
    return next(
        (c for c in found if (c["challenger"], c["measure"]) == (challenger, measure)), None
    )


class Compared(NamedTuple):
    """Mean paired delta against the baseline and what it is worth, on a task or over all."""

    mean: float | None = None
    interval: Interval | None = None
    corrected_p: float | None = None  # None: not tested, as means over tasks
    p_value: float | None = None
    agrees: bool = True  # the test points the way of the mean
    measure: str = ""


def compared_delta(report: Report, task: str, challenger: str, measure: str) -> Compared:
    if task == MACRO:
        over_all = macro_comparison_of(report, challenger, measure)
        if over_all is None:
            return Compared()
        return Compared(over_all["mean"], over_all["interval"], measure=measure)
    found = comparison_of(report, task, challenger, measure)
    if found is None:
        return Compared()
    return Compared(
        found["delta"]["mean"],
        found["interval"],
        found.get("corrected_p"),
        found.get("p_value"),
        found.get("agrees", True),
        measure,
    )


SWAPPED: dict[Reading, Reading] = {"better": "worse", "worse": "better"}


def more_is_better(measure: str) -> bool:
    """False for headroom, unjudged and the like, where a smaller value is better."""
    return parse_measure(measure).metric.more_is_better


def reading_of(report: Report, entry: Comparison | SliceDelta | Compared) -> Reading:
    """What a delta allows to say, at the suite's alpha; of a small slice nothing."""
    measure = entry.measure if isinstance(entry, Compared) else entry.get("measure", "")
    reading = _reading_upwards(report, entry)
    if not measure or more_is_better(str(measure)):
        return reading
    return SWAPPED.get(reading, reading)


def _reading_upwards(report: Report, entry: Comparison | SliceDelta | Compared) -> Reading:
    """The reading where larger values are better."""
    alpha = report["suite"].get("alpha", 0.05)
    if isinstance(entry, Compared):
        return read_delta(
            entry.mean,
            entry.interval,
            entry.corrected_p,
            alpha,
            p_value=entry.p_value,
            agrees=entry.agrees,
        )
    if entry.get("small"):
        return "unknown"
    whole = "delta" in entry
    mean = cast(Comparison, entry)["delta"]["mean"] if whole else cast(SliceDelta, entry)["mean"]
    return read_delta(
        mean,
        entry["interval"],
        entry.get("corrected_p"),
        alpha,
        p_value=entry.get("p_value"),
        agrees=entry.get("agrees", True),
    )


def provenance_of(report: Report, place: str) -> dict[str, int]:
    """Judgments by how they were made, of a task or of all: kind -> number."""
    found: dict[str, int] = {}
    for task in report["tasks"]:
        if place in (task["name"], MACRO):
            for kind, n in task["provenance"].items():
                found[kind] = found.get(kind, 0) + n
    return found


def mixed_judgments(report: Report, place: str) -> str:
    """What a mean mixes: a sentence where judgments were made in several ways, else empty."""
    kinds = {kind: n for kind, n in provenance_of(report, place).items() if n}
    return f"Means rest on {provenance_words(kinds)} judgments." if len(kinds) > 1 else ""


def slice_keys(report: Report, task: str) -> list[tuple[str, str]]:
    """(attribute, value) of a task's slices, in the order of the report."""
    found = [(s["attribute"], s["value"]) for s in report["slices"] if s["task"] == task]
    return list(dict.fromkeys(found))


def slice_mean_of(report: Report, task: str, system: str, key: tuple[str, str]) -> SliceMean | None:
    wanted = (task, system, *key)
    return next(
        (
            s
            for s in report["slices"]
            if (s["task"], s["system"], s["attribute"], s["value"]) == wanted
        ),
        None,
    )


def slice_delta_of(
    report: Report, task: str, challenger: str, key: tuple[str, str]
) -> SliceDelta | None:
    comparison = comparison_of(report, task, challenger, report["suite"]["primary"])
    found = comparison["slices"] if comparison else []
    return next((s for s in found if (s["attribute"], s["value"]) == key), None)


def headroom_of(report: Report, task: Task) -> list[Headroom]:
    """A task's headroom rows, highest value first."""
    found = [row for row in report["headroom"] if row["task"] == task["name"]]
    return sorted(found, key=lambda row: -row["value"] if exists(row["value"]) else math.inf)


def systems_of_task(report: Report, task: str) -> list[str]:
    """The systems in the order of the report, those with results on the task only."""
    present = {result["system"] for result in report["results"] if result["task"] == task}
    return [system["name"] for system in report["systems"] if system["name"] in present]

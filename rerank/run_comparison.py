"""Runs of files against the first of them: paired deltas with tests, and what is owed to unjudged
documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import metrics
from rerank.files.system_values import SystemValues
from rerank.run_scoring import ScoredRun
from rerank.store import finite_or_none
from rerank.value_statistics import Pair, Settings, aligned, pairs

APART = 0.05  # difference of unjudged@k from which a delta's bounds are worth a sentence


@dataclass(frozen=True)
class RunComparison:
    """One measure of one run against the baseline; deltas are challenger minus baseline.

    tests: how many the correction counted. unjudged_bounds: the mean delta if unjudged documents
    were worst or best for the challenger; None where the measure looks at no cutoff.
    """

    pair: Pair
    tests: int
    unjudged_bounds: tuple[float, float] | None
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Strict JSON: values that do not exist are null."""
        pair, found, interval = self.pair, self.pair.summary, self.pair.interval
        return {
            "baseline": pair.baseline,
            "measure": pair.measure,
            "n": found.n,
            "left_out": found.left_out,
            "mean_delta": finite_or_none(found.mean),
            "interval": None if interval is None else vars(interval),
            "improved": found.improved,
            "tied": found.tied,
            "regressed": found.regressed,
            "effect_size": finite_or_none(found.effect_size),
            "p_value": finite_or_none(pair.p),
            "p_holm": finite_or_none(pair.p_corrected),
            "tests": self.tests,
            "detectable": finite_or_none(pair.detectable),
            "unjudged_bounds": None if self.unjudged_bounds is None else list(self.unjudged_bounds),
            "warnings": list(self.warnings),
        }


def compare_runs(scored: Sequence[ScoredRun], measures: Sequence[str]) -> list[RunComparison]:
    """Every run after the first against the first: randomisation, Holm over runs and measures."""
    if len(scored) < 2:
        return []
    found = {str(item.run.path): item for item in scored}
    systems = [
        SystemValues(
            name=name,
            path=item.run.path,
            query_ids=item.evaluation.query_ids,
            values={measure: item.evaluation.values[measure] for measure in measures},
        )
        for name, item in found.items()
    ]
    baseline = found[systems[0].name]
    tested = pairs(aligned(systems), systems[0].name, Settings())
    return [
        _comparison(pair, baseline, found[pair.challenger], sum(p.p == p.p for p in tested))
        for pair in tested
    ]


def _comparison(
    pair: Pair, baseline: ScoredRun, challenger: ScoredRun, tests: int
) -> RunComparison:
    bounds = _bounds(baseline, challenger, pair.measure)
    return RunComparison(pair, tests, bounds, _warnings(pair, baseline, challenger, bounds))


def _bounds(baseline: ScoredRun, challenger: ScoredRun, measure: str) -> tuple[float, float] | None:
    inner = metrics.parse_measure(measure).innermost
    facts = inner.metric
    if inner.cutoff is None or not facts.needs_relevant:
        return None
    if facts.needs_positions or facts.needs_subtopics:
        return None
    return metrics.unjudged_bounds(
        baseline.listed, challenger.listed, challenger.judgments, measure, challenger.how
    )


def _warnings(
    pair: Pair,
    baseline: ScoredRun,
    challenger: ScoredRun,
    bounds: tuple[float, float] | None,
) -> tuple[str, ...]:
    """A delta whose sign unjudged documents could turn says so."""
    delta = pair.summary.mean
    if bounds is None or not pair.summary.n or not bounds[0] <= 0 <= bounds[1] or delta == 0:
        return ()
    cutoff = metrics.parse_measure(pair.measure).innermost.cutoff
    ours, theirs = (_unjudged_share(item, f"unjudged@{cutoff}") for item in (baseline, challenger))
    if abs(theirs - ours) <= APART:
        return ()
    return (
        f"{pair.measure} of {pair.challenger} depends on unjudged documents: {theirs:.0%} of its "
        f"first {cutoff} ranks against {ours:.0%}; the delta {delta:+.4f} could lie from "
        f"{bounds[0]:+.4f} to {bounds[1]:+.4f}: judge them (rerank pool)",
    )


def _unjudged_share(item: ScoredRun, measure: str) -> float:
    return metrics.evaluate(item.listed, item.judgments, [measure], item.how).mean(measure)

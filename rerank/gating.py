"""The release gate: rules of the suite against the comparisons, each with a sentence of verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import metrics
from rerank.comparison import Comparison
from rerank.slices import Slice, parse_slice
from rerank.suites import GateRule, SuiteSpec

PASS, FAIL, TOO_FEW = "pass", "fail", "too few queries"


@dataclass(frozen=True)
class Verdict:
    """One rule on one challenger and task. `observed` and `limit` are in units of the measure."""

    sentence: str
    challenger: str
    task: str
    measure: str
    slice: str
    limit: float
    observed: float | None
    n: int
    verdict: str


def judge(
    rules: Sequence[GateRule], comparisons: Sequence[Comparison], suite: SuiteSpec
) -> list[Verdict]:
    """Verdicts of all rules on all comparisons that they are about."""
    return [
        verdict
        for rule in rules
        for comparison in comparisons
        if _concerns(rule, comparison, suite)
        for verdict in _verdicts(rule, comparison)
    ]


def _concerns(rule: GateRule, comparison: Comparison, suite: SuiteSpec) -> bool:
    return (
        comparison.measure == (rule.measure or suite.primary)
        and rule.task in ("", comparison.challenger.task)
        and (not rule.challengers or comparison.challenger.model in rule.challengers)
    )


def _verdicts(rule: GateRule, comparison: Comparison) -> Iterator[Verdict]:
    yield _drop(rule, comparison)
    if rule.max_failed_share is not None:
        yield _failed_share(rule.max_failed_share, comparison)


def _drop(rule: GateRule, comparison: Comparison) -> Verdict:
    summary, interval = _evidence(rule, comparison)
    n = summary.n if summary else 0
    observed = None
    if summary is not None and n:
        observed = summary.mean if rule.bound == "mean" else (interval.low if interval else None)
    model, where = comparison.challenger.model, comparison.challenger.task
    place = f"{where}, {rule.slice}" if rule.slice else where
    subject = f"{comparison.measure} of {model} on {place}"
    if n < rule.min_n or observed is None:
        # nothing at all to judge by is a failure of the model or of the rule, never a pass
        verdict = FAIL if rule.critical or n == 0 else TOO_FEW
        sentence = f"{subject}: {n} queries, the rule needs {max(rule.min_n, 1)}"
        if verdict == FAIL:
            sentence += (
                "; a critical slice may not go unmeasured"
                if rule.critical
                else "; nothing to judge by"
            )
    else:
        what = "mean delta" if rule.bound == "mean" else "lower end of the delta's interval"
        verdict = PASS if observed >= -rule.max_drop else FAIL
        relation = "within" if verdict == PASS else "beyond"
        sentence = (
            f"{subject}: {what} {observed:+.4f} is {relation} the allowed drop of "
            f"{rule.max_drop:.4f} (n={n})"
        )
    return Verdict(
        sentence, model, where, comparison.measure, rule.slice, rule.max_drop, observed, n, verdict
    )


def _evidence(
    rule: GateRule, comparison: Comparison
) -> tuple[metrics.PairedSummary | None, metrics.Interval | None]:
    if not rule.slice:
        return comparison.summary, comparison.interval
    wanted: Slice = parse_slice(rule.slice)
    for found in comparison.slices:
        if found.slice == wanted:
            return found.summary, found.interval
    return None, None


def _failed_share(limit: float, comparison: Comparison) -> Verdict:
    system = comparison.challenger
    share = system.failed_pairs / system.pairs if system.pairs else 0.0
    verdict = PASS if share <= limit else FAIL
    sentence = (
        f"{system.model} on {system.task}: {system.failed_pairs} of {system.pairs} pairs have no "
        f"score, a share of {share:.4f} {'within' if verdict == PASS else 'beyond'} {limit:.4f}"
    )
    return Verdict(
        sentence, system.model, system.task, "failed share", "", limit, share, system.pairs, verdict
    )

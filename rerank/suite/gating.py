"""The release gate: rules of the suite against the comparisons, each with a sentence of verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rerank.runs import Run
from rerank.suite.comparison import Comparison, Difference
from rerank.suite.efficiency import NotMeasured, cost_per_thousand, p95_latency
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.significance import p_words
from rerank.suite.slices import Slice, parse_slice
from rerank.suite.suites import GateRule, SuiteSpec

PASS, FAIL, TOO_FEW, ABSENT = "pass", "fail", "too few queries", "about no system here"
CERTAIN_FROM = 30  # queries from which equal deltas on all of them count as evidence


@dataclass(frozen=True)
class Verdict:
    """One limit of a rule on one challenger and task.

    rule: the key that sets the limit. observed, limit: in units of the measure (max_drop), p-values
    (superior), shares, seconds a query (max_p95_latency) or price of 1,000 queries (max_cost).
    """

    rule: str
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
    found: list[Verdict] = []
    for number, rule in enumerate(rules, 1):
        concerned = [item for item in comparisons if _concerns(rule, item, suite)]
        found += [verdict for item in concerned for verdict in _verdicts(rule, item, suite)]
        if not concerned:
            found.append(_about_nothing(number, rule, suite))
    return found


def _about_nothing(number: int, rule: GateRule, suite: SuiteSpec) -> Verdict:
    """A rule whose challengers or tasks are not part of this run: told, and failed if critical."""
    whom = ", ".join(rule.challengers) or "any challenger"
    words = (
        f"gate rule {number} ({whom}{f' on {rule.task}' if rule.task else ''}) is about no system"
    )
    end = "; a critical rule may not go unjudged" if rule.critical else ""
    return Verdict(
        rule="superior" if rule.superior else "max_drop",
        sentence=f"{words} of this run{end}",
        challenger=whom,
        task=rule.task,
        measure=rule.measure or suite.primary,
        slice=rule.slice,
        limit=rule.max_drop or 0.0,
        observed=None,
        n=0,
        verdict=FAIL if rule.critical else ABSENT,
    )


def _concerns(rule: GateRule, comparison: Comparison, suite: SuiteSpec) -> bool:
    return (
        comparison.measure == (rule.measure or suite.primary)
        and rule.task in ("", comparison.challenger.task)
        and (not rule.challengers or comparison.challenger.model in rule.challengers)
    )


def _verdicts(rule: GateRule, comparison: Comparison, suite: SuiteSpec) -> Iterator[Verdict]:
    if rule.superior:
        yield _delta_verdict(rule, comparison, suite, "superior", suite.alpha, _superior)
    elif rule.max_drop is not None:
        yield _delta_verdict(rule, comparison, suite, "max_drop", rule.max_drop, _drop)
    system = comparison.challenger
    if rule.max_failed_share is not None:
        yield _failed_share(rule.max_failed_share, system)
    if rule.max_unjudged_share is not None:
        yield _unjudged_share(rule.max_unjudged_share, system)
    if rule.max_p95_latency is not None:
        yield _latency(rule.max_p95_latency, system)
    if rule.max_cost is not None:
        yield _cost(rule.max_cost, rule.price_per_hour or 0.0, system)


# what a rule makes of a difference: (observed, does it hold, the sentence's words)
Finding = tuple[float | None, bool, str]
Judging = Callable[[GateRule, Difference, SuiteSpec], Finding]


def _delta_verdict(
    rule: GateRule,
    comparison: Comparison,
    suite: SuiteSpec,
    key: str,
    limit: float,
    judging: Judging,
) -> Verdict:
    """A rule about the paired delta, on the whole task or on a slice that is large enough."""
    difference = _evidence(rule, comparison)
    n = difference.summary.n if difference else 0
    model, where = comparison.challenger.model, comparison.challenger.task
    place = f"{where}, {rule.slice}" if rule.slice else where
    subject = f"{comparison.measure} of {model} on {place}"
    needed = max(1, rule.min_n)
    if rule.slice and not rule.critical:
        needed = max(needed, suite.min_slice_n)
    observed, verdict = None, FAIL
    if difference is not None and n >= needed:
        observed, holds, words = judging(rule, difference, suite)
        verdict = PASS if holds else FAIL
        sentence = f"{subject}: {words} (n={n})"
    else:
        # nothing at all to judge by is a failure of the model or of the rule, never a pass
        verdict = FAIL if rule.critical or n == 0 else TOO_FEW
        sentence = f"{subject}: {n} queries, the rule needs {needed}{_why_failed(rule, verdict)}"
    return Verdict(
        key, sentence, model, where, comparison.measure, rule.slice, limit, observed, n, verdict
    )


def _why_failed(rule: GateRule, verdict: str) -> str:
    if verdict != FAIL:
        return ""
    if rule.critical:
        return "; a critical slice may not go unmeasured"
    return "; nothing to judge by"


def _evidence(rule: GateRule, comparison: Comparison) -> Difference | None:
    if not rule.slice:
        return comparison.whole
    wanted: Slice = parse_slice(rule.slice)
    found = [part.difference for part in comparison.slices if part.slice == wanted]
    return found[0] if found else None


def _drop(rule: GateRule, difference: Difference, suite: SuiteSpec) -> Finding:
    """The mean delta, or the lower end of its interval, against the allowed drop."""
    allowed = rule.max_drop or 0.0
    if rule.bound == "mean":
        what, observed = "mean delta", difference.summary.mean
    elif difference.interval is None:
        return None, False, "no interval can be made of so few queries, and the rule judges its end"
    elif difference.interval.degenerate and difference.summary.n < CERTAIN_FROM:
        words = "all deltas are equal, so their interval proves nothing yet, and the rule judges it"
        return None, False, words
    else:
        what, observed = "lower end of the delta's interval", difference.interval.low
    holds = observed >= -allowed
    relation = "within" if holds else "beyond"
    return (
        observed,
        holds,
        f"{what} {observed:+.4f} is {relation} the allowed drop of {allowed:.4f}",
    )


def _superior(rule: GateRule, difference: Difference, suite: SuiteSpec) -> Finding:
    """Superiority: a delta above 0 whose corrected p-value is below alpha."""
    mean, p = difference.summary.mean, difference.corrected_p
    if p is None:
        return None, False, f"mean delta {mean:+.4f} could not be tested, and the rule wants proof"
    holds = mean > 0 and p < suite.alpha and difference.agrees
    words = f"mean delta {mean:+.4f}, corrected {p_words(p)}"
    if not difference.agrees:
        return p, False, f"{words}, but the {suite.test} test points the other way than the mean"
    if holds:
        return p, True, f"{words}: superior at alpha {suite.alpha:g}"
    return p, False, f"{words}: not shown to be superior at alpha {suite.alpha:g}"


def _failed_share(limit: float, system: SystemEvaluation) -> Verdict:
    share = system.failed_pairs / system.pairs if system.pairs else 0.0
    words = (
        f"{system.model} on {system.task}: {system.failed_pairs} of {system.pairs} pairs have no "
        f"score, a share of {share:.4f}"
    )
    return _limited("max_failed_share", "failed share", words, limit, share, system.pairs, system)


def _unjudged_share(limit: float, system: SystemEvaluation) -> Verdict:
    values = system.values("unjudged@10")
    # a query whose pairs have no scores shows no unjudged documents: it must not lower the share
    defined = values[~np.isnan(values) & system.valid]
    words = f"unjudged@10 of {system.model} on {system.task}"
    if not len(defined):
        return _unmeasured(
            "max_unjudged_share", "unjudged@10", f"{words}: no query has a value", limit, system
        )
    share = float(defined.mean())
    words = f"{words}: a mean share of {share:.4f} (n={len(defined)})"
    return _limited("max_unjudged_share", "unjudged@10", words, limit, share, len(defined), system)


def _latency(limit: float, system: SystemEvaluation) -> Verdict:
    return _measured(
        "max_p95_latency", "p95 latency", "seconds a query", limit, p95_latency, system
    )


def _cost(limit: float, price: float, system: SystemEvaluation) -> Verdict:
    unit = f"for 1,000 queries at {price:g} an hour"
    return _measured(
        "max_cost", "cost", unit, limit, lambda run: cost_per_thousand(run, price), system
    )


def _measured(
    key: str,
    name: str,
    unit: str,
    limit: float,
    measure: Callable[[Run], tuple[float, int]],
    system: SystemEvaluation,
) -> Verdict:
    """A limit on what a run's receipts tell; where they do not, the rule fails and says why."""
    subject = f"{name} of {system.model} on {system.task}"
    try:
        value, n = measure(system.run)
    except NotMeasured as reason:
        return _unmeasured(key, name, f"{subject} was not measured: {reason}", limit, system)
    words = f"{subject}: {value:.4g} {unit} (n={n})"
    return _limited(key, name, words, limit, value, n, system)


def _limited(
    key: str,
    name: str,
    words: str,
    limit: float,
    observed: float,
    n: int,
    system: SystemEvaluation,
) -> Verdict:
    verdict = PASS if observed <= limit else FAIL
    sentence = f"{words} is {'within' if verdict == PASS else 'beyond'} {limit:.4g}"
    return Verdict(key, sentence, system.model, system.task, name, "", limit, observed, n, verdict)


def _unmeasured(key: str, name: str, words: str, limit: float, system: SystemEvaluation) -> Verdict:
    return Verdict(key, words, system.model, system.task, name, "", limit, None, 0, FAIL)

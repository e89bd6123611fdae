"""All that a suite found: evaluations, corrected comparisons and the gate's verdicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from rerank.suite.comparison import Comparison, compare, correct, number_of_tests, with_p_values
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.gating import ABSENT, FAIL, PASS, TOO_FEW, Verdict, judge
from rerank.suite.results import results
from rerank.suite.suites import SuiteSpec


@dataclass(frozen=True)
class Findings:
    """Evaluations of every model on every task, and the comparisons with the baseline."""

    suite: SuiteSpec
    systems: list[SystemEvaluation]
    comparisons: list[Comparison]
    verdicts: list[Verdict]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(system.task for system in self.systems))

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(system.model for system in self.systems))

    @property
    def tests(self) -> int:
        """Tests that the correction counts: comparisons and slice deltas, never the baseline."""
        return number_of_tests(self.comparisons)

    def system(self, task: str, model: str) -> SystemEvaluation:
        return next(s for s in self.systems if (s.task, s.model) == (task, model))

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """Means, intervals and standings; terminal and report show them, bootstrapped once."""
        return results(self.suite, self.systems, compared_measures(self.suite))

    @property
    def passed(self) -> bool | None:
        """None where no rule is about these systems. Rules that judged nothing do not pass."""
        found = [item.verdict for item in self.verdicts if item.verdict != ABSENT]
        if not found:
            return None
        return FAIL not in found and PASS in found


def find(suite: SuiteSpec, systems: list[SystemEvaluation]) -> Findings:
    """Compare every challenger with the baseline, correct the p-values, judge the gate's rules."""
    base = {system.task: system for system in systems if system.model == suite.baseline}
    # a forest of every measure's slices would be looked at by nobody; the gate's are needed
    sliced = {suite.primary, *(rule.measure for rule in suite.gate if rule.slice)}
    measures = compared_measures(suite)
    comparisons = []
    for task, baseline in base.items():
        challengers = [s for s in systems if s.task == task and s is not baseline]
        comparisons += compare(baseline, challengers, measures, suite, sliced=sliced)
    comparisons = correct(with_p_values(comparisons, suite), suite)
    return Findings(suite, systems, comparisons, judge(suite.gate, comparisons, suite))


def compared_measures(suite: SuiteSpec) -> list[str]:
    """The suite's measures and those of its gate, each once."""
    gated = [rule.measure for rule in suite.gate if rule.measure]
    return list(dict.fromkeys([suite.primary, *suite.measures, *gated]))


def verdict_record(findings: Findings) -> dict[str, Any]:
    """The gate as a record for a CI system, strict-JSON ready: what was judged, on which runs."""
    suite = findings.suite
    counted = Counter(verdict.verdict for verdict in findings.verdicts)
    return {
        "suite": suite.name,
        "baseline": suite.baseline,
        "passed": findings.passed,
        "counts": {name: counted[name] for name in (PASS, FAIL, TOO_FEW, ABSENT)},
        "rules": [asdict(verdict) for verdict in findings.verdicts],
        "statistics": {
            "test": suite.test,
            "correction": suite.correction,
            "tests": findings.tests,
            "alpha": suite.alpha,
            "interval": suite.interval,
            "confidence": suite.confidence,
            "samples": suite.samples,
            "seed": suite.seed,
            "clusters": suite.clusters or None,
        },
        "tasks": {
            name: findings.system(name, suite.baseline).run.task.fingerprint
            for name in findings.tasks
        },
        "runs": {
            name: {model: findings.system(name, model).run.fingerprint for model in findings.models}
            for name in findings.tasks
        },
    }

"""The report's numbers as one JSON document (report.json): what HTML and Markdown are drawn from.

Every mean has its n, every delta its interval; values that do not exist are null, never NaN. The
shape is described in rerank/reporting/schema.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

import metrics
from rerank.comparison import Comparison, compare, interval_of, macro_interval
from rerank.evaluation import SystemEvaluation, retrieved_recall
from rerank.gating import FAIL, PASS, Verdict, judge
from rerank.records import ModelSpec
from rerank.suites import MACRO, SuiteSpec

SCHEMA_VERSION = 1
SHOWN_GAINS = 5  # biggest improvements listed beside the worst regressions


@dataclass(frozen=True)
class Findings:
    """All that a suite found: evaluations of every model on every task, and the comparisons."""

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

    def system(self, task: str, model: str) -> SystemEvaluation:
        return next(s for s in self.systems if (s.task, s.model) == (task, model))

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """What `results` gives; terminal and report show it, and it is bootstrapped once."""
        return results(self)

    @property
    def passed(self) -> bool | None:
        """None where no rule is about these systems. Rules that judged nothing do not pass."""
        if not self.verdicts:
            return None
        found = [verdict.verdict for verdict in self.verdicts]
        return FAIL not in found and PASS in found


def find(suite: SuiteSpec, systems: list[SystemEvaluation]) -> Findings:
    """Compare every challenger with the baseline and judge the gate's rules."""
    base = {system.task: system for system in systems if system.model == suite.baseline}
    # a forest of every measure's slices would be looked at by nobody; the gate's are needed
    sliced = {suite.primary, *(rule.measure for rule in suite.gate if rule.slice)}
    comparisons = [
        compare(base[system.task], system, measure, suite, with_slices=measure in sliced)
        for system in systems
        if system.model != suite.baseline
        for measure in compared_measures(suite)
    ]
    return Findings(suite, systems, comparisons, judge(suite.gate, comparisons, suite))


def compared_measures(suite: SuiteSpec) -> list[str]:
    """The suite's measures and those of its gate, each once."""
    gated = [rule.measure for rule in suite.gate if rule.measure]
    return list(dict.fromkeys([suite.primary, *suite.measures, *gated]))


def document(
    findings: Findings,
    models: Sequence[ModelSpec],
    environment: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """The whole report document, strict-JSON ready."""
    suite = findings.suite
    return {
        "schema": SCHEMA_VERSION,
        "suite": _suite(suite),
        "convention": _convention(suite),
        "tasks": [_task(findings, name) for name in findings.tasks],
        "systems": [_system(findings, model) for model in models],
        "measures": compared_measures(suite),
        "results": findings.results,
        "diagnostics": [_diagnostics(system) for system in findings.systems],
        "headroom": [_headroom(findings, system) for system in findings.systems],
        "slices": slice_means(findings),
        "comparisons": [_comparison(item, suite) for item in findings.comparisons],
        "macro_comparisons": macro_comparisons(findings),
        "gate": {
            "passed": findings.passed,
            "rules": [asdict(verdict) for verdict in findings.verdicts],
        },
        "environment": {"rows": [list(row) for row in environment]},
        "warnings": warnings(findings),
    }


def _suite(suite: SuiteSpec) -> dict[str, Any]:
    names = ("name", "title", "description", "baseline", "primary", "confidence", "samples", "seed")
    return {**{name: getattr(suite, name) for name in names}, "min_slice_n": suite.min_slice_n}


def _convention(suite: SuiteSpec) -> dict[str, Any]:
    return {
        "idcg_convention": "judged",
        "tie": suite.tie,
        "gain": "linear",
        "queries": "qrels",
        "no_relevant": suite.no_relevant,
        "failed": "worst",
        "statements": [
            "nDCG: linear gain, discount log2(rank + 1), ideal over all judged documents of the "
            "query whether retrieved or not (trec_eval); other gains and ideals have other names.",
            f"Ties: rule '{suite.tie}' feeds every measure alike"
            + (" (score descending, then document id descending)." if suite.tie == "trec" else "."),
            "Queries: every judged query counts; one without candidates or scores is worth 0.",
            f"A query without a relevant document: '{suite.no_relevant}'.",
            "Unjudged documents have no gain; grade 0 and unjudged are told apart in unjudged@10.",
            "A pair without a score ranks behind all pairs with one; its query leaves the deltas.",
            f"Intervals: {suite.confidence:.0%} percentile bootstrap over queries, "
            f"{suite.samples:,} resamples, seed {suite.seed}, paired for deltas, within tasks for "
            "means over tasks.",
        ],
    }


def _task(findings: Findings, name: str) -> dict[str, Any]:
    system = findings.system(name, findings.suite.baseline)
    task, counts = system.view.task, system.view.task.counts
    recipe = task.manifest["identity"]["recipe"]
    spec, about = recipe["spec"], task.manifest["about"]
    coverage = system.values("candidate_coverage")
    return {
        "name": name,
        "title": about["title"],
        "language": about["language"],
        "licence": about["licence"],
        "description": about["description"],
        "fingerprint": task.fingerprint,
        "recipe_fingerprint": task.manifest["recipe_fingerprint"],
        "queries": counts["queries"],
        "documents": counts["documents"],
        "pairs": counts["pairs"],
        "depth": spec["depth"],
        "judgments": counts["judgments"],
        "grades": counts["grades"],
        "provenance": counts["provenance"],
        "source": spec["source"],
        "first_stage": {
            "method": spec["method"] if spec["first_stage"] == "bm25" else spec["first_stage"],
            **{key: spec[key] for key in ("analyzer", "k1", "b")},
        },
        "inject_gold": spec["inject_gold"],
        "injected_rows": counts["injected"],
        "candidate_recall": _mean(system.values("candidate_recall")),
        "candidate_coverage": _mean(coverage),
        "retrieved_recall": retrieved_recall(system.view),
        "unreachable_queries": int(np.sum(coverage == 0)),
        "no_relevant": list(system.evaluation.no_relevant),
        "without_candidates": list(system.evaluation.missing),
        "unjudged_queries": list(system.evaluation.unjudged_queries),
        "notes": [
            f"{key}: {value}" for key, value in sorted(task.manifest["notes"].items()) if value
        ],
    }


def _mean(values: np.ndarray) -> dict[str, Any]:
    kept = values[~np.isnan(values)]
    return {"mean": float(kept.mean()) if len(kept) else None, "n": len(kept)}


def _system(findings: Findings, model: ModelSpec) -> dict[str, Any]:
    runs = {name: findings.system(name, model.name).run for name in findings.tasks}
    identity = next(iter(runs.values())).identity
    return {
        "name": model.name,
        "adapter": model.adapter,
        "description": model.description,
        "licence": model.licence,
        "weights": model.weights,
        "recipe": model.recipe,
        "is_baseline": model.name == findings.suite.baseline,
        "revision": identity.get("weights"),
        **{key: identity.get(key) for key in ("dtype", "attention", "max_length")},
        "parameters": identity.get("params") or {},
        "runs": {name: run.fingerprint for name, run in runs.items()},
    }


def results(findings: Findings) -> list[dict[str, Any]]:
    """Mean, interval and traffic-weighted mean of every task, system and measure; then macro."""
    suite = findings.suite
    rows = [
        _result(system, measure, suite)
        for system in findings.systems
        for measure in compared_measures(suite)
    ]
    if len(findings.tasks) > 1:
        rows += [
            _macro_result(findings, model, measure)
            for model in findings.models
            for measure in compared_measures(suite)
        ]
    return rows


def _result(system: SystemEvaluation, measure: str, suite: SuiteSpec) -> dict[str, Any]:
    values = system.values(measure)
    kept = ~np.isnan(values)
    weights = system.weights[kept]
    return {
        "task": system.task,
        "system": system.model,
        "measure": measure,
        **_mean(values),
        "interval": _interval(interval_of(values[kept], suite)),
        "weighted_mean": float(values[kept] @ weights / weights.sum()) if weights.sum() else None,
        "failed_pairs": system.failed_pairs,
        "failed_queries": len(system.failed_queries),
    }


def _macro_result(findings: Findings, model: str, measure: str) -> dict[str, Any]:
    systems = [findings.system(task, model) for task in findings.tasks]
    series = [values[~np.isnan(values)] for values in (s.values(measure) for s in systems)]
    weighted = [_result(system, measure, findings.suite)["weighted_mean"] for system in systems]
    return {
        "task": MACRO,
        "system": model,
        "measure": measure,
        "mean": float(np.mean([values.mean() for values in series]))
        if all(map(len, series))
        else None,
        "n": sum(map(len, series)),
        "interval": _interval(macro_interval(series, findings.suite)),
        "weighted_mean": float(np.mean(weighted)) if None not in weighted else None,
        "failed_pairs": sum(system.failed_pairs for system in systems),
        "failed_queries": sum(len(system.failed_queries) for system in systems),
    }


def _interval(interval: metrics.Interval | None) -> dict[str, Any] | None:
    return None if interval is None else asdict(interval)


def _diagnostics(system: SystemEvaluation) -> dict[str, Any]:
    evaluation = system.evaluation
    return {
        "task": system.task,
        "system": system.model,
        "tied_share": float(evaluation.tie_rate),
        "ties_at_cutoff": {str(k): int(n) for k, n in evaluation.ties_at_cutoff.items()},
        "unjudged_at_10": _mean(system.values("unjudged@10"))["mean"],
        "truncated_share": system.truncated_pairs / system.pairs if system.pairs else 0.0,
        "truncated_queries": len(system.truncated_queries),
        "failed_pairs": system.failed_pairs,
        "missing_queries": list(evaluation.missing),
        "pairs": system.pairs,
    }


def _headroom(findings: Findings, system: SystemEvaluation) -> dict[str, Any]:
    """How far the perfect order of the same candidates is, and how much of the way was made."""
    primary = findings.suite.primary
    base = findings.system(system.task, findings.suite.baseline)
    oracle, value, start = (
        _mean(values)["mean"]
        for values in (
            system.values(f"oracle({primary})"),
            system.values(primary),
            base.values(primary),
        )
    )
    defined = None not in (oracle, value, start)
    room = oracle - start if defined else 0.0
    return {
        "task": system.task,
        "system": system.model,
        "measure": primary,
        "oracle": oracle,
        "value": value,
        "headroom": _mean(system.values(f"headroom({primary})"))["mean"],
        "recovered": (value - start) / room if room > 0 and system is not base else None,
        "n": _mean(system.values(primary))["n"],
    }


def slice_means(findings: Findings) -> list[dict[str, Any]]:
    """Mean and interval of the primary measure in every slice, for every system and task."""
    suite = findings.suite
    rows = []
    for system in findings.systems:
        values = system.values(suite.primary)
        for (attribute, value), inside in system.slices(suite.slices).items():
            kept = values[inside & ~np.isnan(values)]
            rows.append(
                {
                    "task": system.task,
                    "system": system.model,
                    "measure": suite.primary,
                    "attribute": attribute,
                    "value": value,
                    **_mean(kept),
                    "interval": _interval(interval_of(kept, suite)),
                }
            )
    return rows


def _comparison(item: Comparison, suite: SuiteSpec) -> dict[str, Any]:
    order = np.argsort(item.deltas, kind="stable")
    worst = [index for index in order if item.deltas[index] < 0]
    best = [index for index in order[::-1] if item.deltas[index] > 0]
    traffic = item.weights.sum()
    return {
        "task": item.challenger.task,
        "baseline": item.baseline.model,
        "challenger": item.challenger.model,
        "measure": item.measure,
        "n": item.summary.n,
        "left_out": item.left_out,
        "delta": _delta(item.summary),
        "weighted_delta": float(item.deltas @ item.weights / traffic) if traffic else None,
        "interval": _interval(item.interval),
        **_counts(item.summary),
        "deltas": [[item.query_ids[index], float(item.deltas[index])] for index in order],
        "worst": [_query(item, index) for index in worst[: suite.worst]],
        "best": [_query(item, index) for index in best[:SHOWN_GAINS]],
        "slices": [
            {
                "attribute": found.slice[0],
                "value": found.slice[1],
                "n": found.summary.n,
                "mean": found.summary.mean,
                "interval": _interval(found.interval),
                **_counts(found.summary),
                "small": found.summary.n < suite.min_slice_n,
            }
            for found in item.slices
        ],
        "warnings": comparison_warnings(item),
    }


def _delta(summary: metrics.PairedSummary) -> dict[str, Any]:
    names = ("mean", "median", "p05", "p25", "p75", "p95")
    return {name: getattr(summary, name) if summary.n else None for name in names}


def _counts(summary: metrics.PairedSummary) -> dict[str, int]:
    return {name: int(getattr(summary, name)) for name in ("improved", "tied", "regressed")}


def _query(item: Comparison, index: int) -> dict[str, Any]:
    query_id = item.query_ids[index]
    return {
        "query_id": query_id,
        "query": item.baseline.view.texts[query_id],
        "baseline": float(item.baseline_values[index]),
        "challenger": float(item.challenger_values[index]),
        "delta": float(item.deltas[index]),
    }


def macro_comparisons(findings: Findings) -> list[dict[str, Any]]:
    """Mean over tasks of the paired deltas, with an interval that resamples within tasks."""
    if len(findings.tasks) < 2:
        return []
    rows = []
    for model in findings.models:
        for measure in compared_measures(findings.suite):
            items = [
                item
                for item in findings.comparisons
                if (item.challenger.model, item.measure) == (model, measure)
            ]
            if not items or any(not len(item.deltas) for item in items):
                continue
            series = [item.deltas for item in items]
            rows.append(
                {
                    "challenger": model,
                    "baseline": findings.suite.baseline,
                    "measure": measure,
                    "tasks": len(items),
                    "n": sum(map(len, series)),
                    "mean": float(np.mean([values.mean() for values in series])),
                    "interval": _interval(macro_interval(series, findings.suite)),
                    "won": sum(float(values.mean()) > 0 for values in series),
                    "lost": sum(float(values.mean()) < 0 for values in series),
                }
            )
    return rows


def comparison_warnings(item: Comparison) -> list[str]:
    """What could make a reader trust this comparison too much."""
    found = []
    sides = (item.baseline, item.challenger)
    unjudged = [_mean(side.values("unjudged@10"))["mean"] for side in sides]
    if None not in unjudged and unjudged[1] - unjudged[0] > 0.05:
        found.append(
            f"{item.challenger.model} puts more unjudged documents in its first 10 ranks "
            f"({unjudged[1]:.2f}) than {item.baseline.model} ({unjudged[0]:.2f}): its value may be "
            "too low"
        )
    for side in sides:
        if side.evaluation.tie_rate > 0.2:
            found.append(
                f"{side.evaluation.tie_rate:.0%} of the scores of {side.model} are tied: its order "
                "rests on the tie rule"
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


def warnings(findings: Findings) -> list[str]:
    """What concerns the whole report."""
    found = []
    for name in findings.tasks:
        counts = findings.system(name, findings.suite.baseline).view.task.counts
        kinds = counts["provenance"]
        if "synthetic" in kinds:
            share = kinds["synthetic"] / max(1, counts["judgments"])
            found.append(f"{name}: {share:.0%} of the judgments are synthetic, made without people")
        if counts["injected"]:
            found.append(
                f"{name}: {counts['injected']} gold candidates were injected; values are not those "
                "of a real first stage"
            )
        if counts["judged_outside_corpus"]:
            found.append(
                f"{name}: {counts['judged_outside_corpus']} judged documents are not in the corpus"
            )
    for system in findings.systems:
        if system.failed_pairs:
            found.append(
                f"{system.model} on {system.task}: {system.failed_pairs} of {system.pairs} pairs "
                f"have no score ({len(system.failed_queries)} queries)"
            )
    return found

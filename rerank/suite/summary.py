"""The report's numbers as one JSON document (report.json): what HTML and Markdown are drawn from.

Every mean has its n, every delta its interval; values that do not exist are null, never NaN. The
shape is described in rerank/reporting/schema.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rerank.records import ModelSpec
from rerank.suite.conventions import convention_record
from rerank.suite.evaluation import SystemEvaluation, retrieved_recall
from rerank.suite.findings import Findings, compared_measures
from rerank.suite.machines import machine_warnings
from rerank.suite.results import mean_of
from rerank.suite.slices import parts_of
from rerank.suite.suites import SuiteSpec
from rerank.suite.summary_rows import comparison_row, macro_comparisons, slice_means

SCHEMA_VERSION = 2


def document(
    findings: Findings,
    models: Sequence[ModelSpec],
    environment: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """The whole report document, strict-JSON ready."""
    suite = findings.suite
    return {
        "schema": SCHEMA_VERSION,
        "suite": _suite(suite, findings.tests),
        "convention": convention_record(suite, findings.tests),
        "tasks": [_task(findings, name) for name in findings.tasks],
        "systems": [_system(findings, model) for model in models],
        "measures": compared_measures(suite),
        "results": findings.results,
        "diagnostics": [_diagnostics(system, suite) for system in findings.systems],
        "headroom": [_headroom(findings, system) for system in findings.systems],
        "slices": slice_means(findings),
        "comparisons": [comparison_row(item, suite) for item in findings.comparisons],
        "macro_comparisons": macro_comparisons(findings),
        "gate": {
            "passed": findings.passed,
            "rules": [asdict(verdict) for verdict in findings.verdicts],
        },
        "environment": {"rows": [list(row) for row in environment]},
        "warnings": warnings(findings),
    }


def _suite(suite: SuiteSpec, tests: int) -> dict[str, Any]:
    names = [
        *("name", "title", "description", "baseline", "primary", "confidence", "samples", "seed"),
        *("min_slice_n", "interval", "clusters", "test", "correction", "alpha", "effect"),
    ]
    return {**{name: getattr(suite, name) for name in names}, "tests": tests}


def _task(findings: Findings, name: str) -> dict[str, Any]:
    system = findings.system(name, findings.suite.baseline)
    task, counts = system.view.task, system.view.task.counts
    recipe = task.manifest["identity"]["recipe"]
    spec, about = recipe["spec"], task.manifest["about"]
    systems = [found for found in findings.systems if found.task == name]
    # a system that failed on a query holds none of its candidates; stage 1 may well have
    lost = set.intersection(*(set(found.evaluation.unreachable) for found in systems))
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
        "candidate_recall": mean_of(system.values("candidate_recall")),
        "candidate_coverage": mean_of(system.values("candidate_coverage")),
        "retrieved_recall": retrieved_recall(system.view),
        "unreachable_queries": len(lost),
        "unreachable": sorted(lost),
        "no_relevant": list(system.evaluation.no_relevant),
        "without_candidates": list(system.evaluation.missing),
        "unjudged_queries": list(system.evaluation.unjudged_queries),
        "notes": [
            f"{key}: {value}" for key, value in sorted(task.manifest["notes"].items()) if value
        ],
    }


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


def _diagnostics(system: SystemEvaluation, suite: SuiteSpec) -> dict[str, Any]:
    evaluation = system.evaluation
    lowest, highest = evaluation.tie_range[suite.primary]
    return {
        "task": system.task,
        "system": system.model,
        "tied_share": float(evaluation.tie_rate),
        "ties_at_cutoff": {str(k): int(n) for k, n in evaluation.ties_at_cutoff.items()},
        "tie_range": None if np.isnan(lowest) else [lowest, highest],
        "unjudged_at_10": mean_of(system.values("unjudged@10"))["mean"],
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
        mean_of(values)["mean"]
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
        "headroom": mean_of(system.values(f"headroom({primary})"))["mean"],
        "recovered": (value - start) / room if room > 0 and system is not base else None,
        "n": mean_of(system.values(primary))["n"],
    }


def warnings(findings: Findings) -> list[str]:
    """What concerns the whole report."""
    found = []
    if any("gold_rank" in name.split("*") for name in findings.suite.slices):
        found.append(
            "slices by gold_rank choose queries by what the first stage made of them: against it a "
            "system looks worse where stage 1 was right and better where it was wrong, by that "
            "choice alone"
        )
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
    return found + machine_warnings(findings.systems) + _unknown_slices(findings)


def _unknown_slices(findings: Findings) -> list[str]:
    """Attributes of the suite's slices that no query and no judgment has: a slip of the pen."""
    asked = {part for name in findings.suite.slices for part in parts_of(name)}
    seen = {
        attribute for system in findings.systems for attribute, _ in system.slices(sorted(asked))
    }
    return [
        f"no query and no judgment has the attribute '{name}', which slices names"
        for name in sorted(asked - seen)
    ]

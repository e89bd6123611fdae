"""What the leaderboard app reads: tables and an index that evaluate writes, so no click computes.

evaluations/SUITE/aggregates/
  index.json                        suite, tasks, systems, gate; names the folder STAMP
  STAMP/results.parquet ...         SCHEMAS of aggregate_tables: systems, depths, gold ranks ...
  STAMP/queries/TASK.parquet        one row a query of the task
  STAMP/values/TASK/MODEL.parquet   one row a query: every measure's value
  STAMP/resamples/TASK.parquet      means of all systems in the same bootstrap resamples

STAMP is the fingerprint of all that went in. The index is written last, so a reader sees all of
one evaluation; folders of earlier ones are removed after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rerank.efficiency.results import folder_of
from rerank.fingerprint import fingerprint
from rerank.records import ModelSpec
from rerank.store import Store, json_bytes
from rerank.suite.aggregate_queries import (
    queries_table,
    resamples_table,
    shared_slices,
    values_table,
)
from rerank.suite.aggregate_tables import (
    comparison_rows,
    depth_rows,
    gold_rank_rows,
    results_rows,
    systems_rows,
    table_of_rows,
    unjudged_rows,
)
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.findings import Findings, compared_measures
from rerank.suite.results import mean_of
from rerank.suite.suites import SuiteSpec
from rerank.suite.summary import warnings

VERSION = 1  # raised when an older app could not read it
GIVEN = "given"  # first stage of candidates that nobody here retrieved
INDEX_KEYS = {"version", "stamp", "suite", "tasks", "systems", "measures", "gate", "warnings"}


def aggregates_key(suite: str) -> str:
    return f"evaluations/{suite}/aggregates"


def write_aggregates(
    store: Store,
    findings: Findings,
    models: Sequence[ModelSpec],
    imported: Sequence[dict[str, Any]] = (),
    waiting: Sequence[str] = (),
) -> str:
    """Everything that the app shows of an evaluation; the index's key.

    models: those of the suite, for what their files say. imported: published results, blocks as
    `rerank.suite.imported` makes them. waiting: models of the suite that were left out, since their
    runs are not complete. Nothing is written where all is there already. RerankError where the
    store refuses.
    """
    folder = aggregates_key(findings.suite.name)
    key, stamp = f"{folder}/index.json", stamp_of(store, findings, models, imported, waiting)
    known = store.read_record(key, INDEX_KEYS)
    at = f"{folder}/{stamp}"
    if known is not None and known["stamp"] == stamp and _whole(store, at, known):
        return key
    names = []
    for name, table in _tables(findings):
        store.write_table(f"{at}/{name}", table)
        names.append(name)
    index = {**index_of(findings, models, imported, waiting, stamp), "tables": sorted(names)}
    store.write(key, json_bytes(index))
    _remove_others(store, folder, stamp)
    return key


def _tables(findings: Findings) -> Iterator[tuple[str, pa.Table]]:
    """(file below the stamp's folder, table) of all that the app reads."""
    for name, rows in _rows(findings).items():
        yield f"{name}.parquet", table_of_rows(name, rows)
    for task in findings.tasks:
        systems = systems_of(findings, task)
        yield f"queries/{task}.parquet", queries_table(systems[0].view, findings.suite)
        for system in systems:
            yield f"values/{task}/{system.model}.parquet", values_table(system)
        resamples = resamples_table(systems, findings.suite)
        if resamples is not None:
            yield f"resamples/{task}.parquet", resamples


def _whole(store: Store, at: str, index: Mapping[str, Any]) -> bool:
    """Are all tables there that the index stands for?"""
    wanted = [f"{at}/{name}".rpartition("/") for name in index.get("tables", ())]
    there = {folder: set(store.files(folder)) for folder, _, _ in wanted}
    return bool(wanted) and all(name in there[folder] for folder, _, name in wanted)


def stamp_of(
    store: Store,
    findings: Findings,
    models: Sequence[ModelSpec],
    imported: Sequence[dict[str, Any]],
    waiting: Sequence[str],
) -> str:
    """The same for the same suite, runs, means, words about models, and measurements of speed."""
    measured = [
        store.files(folder_of(system.task, system.model, system.run.fingerprint))
        for system in findings.systems
    ]
    return fingerprint(
        {
            "version": VERSION,
            "suite": asdict(findings.suite),
            "runs": [[s.task, s.model, s.run.fingerprint] for s in findings.systems],
            "results": findings.results,
            "models": [_words(model) for model in models],
            "imported": list(imported),
            "waiting": list(waiting),
            "measured": measured,
        }
    )


def _rows(findings: Findings) -> dict[str, list[dict[str, Any]]]:
    suite = findings.suite
    views = [systems_of(findings, task)[0].view for task in findings.tasks]
    return {
        "results": list(results_rows(findings)),
        "systems": list(systems_rows(findings)),
        "comparisons": list(comparison_rows(findings)),
        "depths": [row for view in views for row in depth_rows(view, suite)],
        "gold_ranks": [row for view in views for row in gold_rank_rows(view)],
        "unjudged": [row for system in findings.systems for row in unjudged_rows(system, suite)],
    }


def systems_of(findings: Findings, task: str) -> list[SystemEvaluation]:
    return [system for system in findings.systems if system.task == task]


def index_of(
    findings: Findings,
    models: Sequence[ModelSpec],
    imported: Sequence[dict[str, Any]],
    waiting: Sequence[str],
    stamp: str,
) -> dict[str, Any]:
    """The index: what is small, strict-JSON ready."""
    suite = findings.suite
    names = [
        *("name", "title", "description", "baseline", "primary", "confidence", "samples", "seed"),
        *(
            "min_slice_n",
            "interval",
            "clusters",
            "test",
            "correction",
            "alpha",
            "effect",
            "slices",
            "tie",
        ),
    ]
    return {
        "version": VERSION,
        "stamp": stamp,
        "suite": {
            **{name: getattr(suite, name) for name in names},
            "tests": findings.tests,
        },
        "measures": compared_measures(suite),
        "tasks": [_task(systems_of(findings, name), suite) for name in findings.tasks],
        "systems": [_system(findings, model) for model in models],
        "gate": {
            "passed": findings.passed,
            "rules": [asdict(verdict) for verdict in findings.verdicts],
        },
        "imported": list(imported),
        "waiting": list(waiting),
        "warnings": warnings(findings),
    }


def _task(systems: Sequence[SystemEvaluation], suite: SuiteSpec) -> dict[str, Any]:
    system, view = systems[0], systems[0].view
    task = view.task
    counts, about = task.counts, task.manifest["about"]
    spec = task.manifest["identity"]["recipe"]["spec"]
    lost = set.intersection(*(set(found.evaluation.unreachable) for found in systems))
    return {
        "name": task.name,
        **{name: about[name] for name in ("title", "language", "licence", "description")},
        "fingerprint": task.fingerprint,
        **{
            name: counts[name]
            for name in ("queries", "documents", "pairs", "judgments", "provenance", "injected")
        },
        "depth": spec["depth"],
        **_first_stage(spec),
        "candidate_recall": mean_of(system.values("candidate_recall"))["mean"],
        "candidate_coverage": mean_of(system.values("candidate_coverage"))["mean"],
        "no_relevant": len(system.evaluation.no_relevant),
        "unreachable": len(lost),
        "slices": [f"{attribute}={value}" for attribute, value in shared_slices(view, suite)],
    }


def _first_stage(spec: Mapping[str, Any]) -> dict[str, Any]:
    """How the candidates were found: `given` where they came with the task's source."""
    if spec["source"] == "frozen_jsonl":
        return {"first_stage": GIVEN, "analyzer": None}
    analysed = spec["first_stage"] in ("bm25", "hybrid")
    return {
        "first_stage": spec["first_stage"],
        "analyzer": spec["analyzer"] if analysed else None,
    }


def _system(findings: Findings, model: ModelSpec) -> dict[str, Any]:
    runs = {s.task: s.run for s in findings.systems if s.model == model.name}
    identity = next(iter(runs.values())).identity if runs else {}
    return {
        **_words(model),
        "is_baseline": model.name == findings.suite.baseline,
        **{key: identity.get(key) for key in ("dtype", "attention", "max_length")},
        "runs": {task: run.fingerprint for task, run in runs.items()},
    }


def _words(model: ModelSpec) -> dict[str, Any]:
    """What a model's file says of it."""
    names = ("name", "adapter", "description", "licence", "weights", "recipe", "parameters")
    return {name: getattr(model, name) for name in names}


def _remove_others(store: Store, folder: str, stamp: str) -> None:
    """Earlier evaluations' tables; a reader that still has their index reads it again."""
    for other in store.folders(folder):
        if other != stamp:
            _remove_below(store, f"{folder}/{other}")


def _remove_below(store: Store, folder: str) -> None:
    for name in store.files(folder):
        store.remove(f"{folder}/{name}")
    for name in store.folders(folder):
        _remove_below(store, f"{folder}/{name}")

"""Tables of a suite's findings as the leaderboard app reads them: one row a system, task, measure.

A value that does not exist is null, never NaN. Deltas are challenger minus baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import metrics
from rerank.efficiency.results import newest, pairs_per_second
from rerank.suite.comparison import Difference
from rerank.suite.evaluation import SystemEvaluation, TaskView, conventions_of
from rerank.suite.findings import Findings
from rerank.suite.results import mean_of
from rerank.suite.suites import SuiteSpec
from rerank.suite.summary_rows import comparison_warnings

DEPTHS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)
UNJUDGED_AT = (1, 3, 5, 10, 20, 50)

_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()
SCHEMAS: dict[str, pa.Schema] = {
    # one row a system, task (or macro) and measure
    "results": pa.schema(
        [("task", _TEXT), ("system", _TEXT), ("measure", _TEXT), ("mean", _REAL), ("n", _WHOLE)]
        + [("low", _REAL), ("high", _REAL), ("kind", _TEXT), ("degenerate", pa.bool_())]
        + [("weighted_mean", _REAL), ("rank_best", _WHOLE), ("rank_worst", _WHOLE)]
        + [("beaten", _REAL)]
    ),
    # one row a system and task
    "systems": pa.schema(
        [("task", _TEXT), ("system", _TEXT), ("run", _TEXT), ("pairs", _WHOLE)]
        + [("failed_pairs", _WHOLE), ("failed_queries", _WHOLE), ("missing_queries", _WHOLE)]
        + [("tied_share", _REAL), ("tie_low", _REAL), ("tie_high", _REAL)]
        + [("truncated_share", _REAL), ("truncated_queries", _WHOLE)]
        + [("oracle", _REAL), ("headroom", _REAL), ("recovered", _REAL)]
        + [("replay_pps", _REAL), ("pps", _REAL), ("p95", _REAL), ("load", _TEXT)]
    ),
    # one row a challenger, task, measure and slice; attribute and value empty for all of a task
    "comparisons": pa.schema(
        [("task", _TEXT), ("challenger", _TEXT), ("measure", _TEXT), ("attribute", _TEXT)]
        + [("value", _TEXT), ("n", _WHOLE), ("mean", _REAL), ("low", _REAL), ("high", _REAL)]
        + [("kind", _TEXT), ("degenerate", pa.bool_()), ("p_value", _REAL)]
        + [("corrected_p", _REAL), ("agrees", pa.bool_()), ("improved", _WHOLE)]
        + [("tied", _WHOLE), ("regressed", _WHOLE), ("small", pa.bool_())]
        + [("left_out", _WHOLE), ("warnings", pa.list_(_TEXT))]
    ),
    # one row a task and depth: stage 1 alone, injected rows left out
    "depths": pa.schema(
        [("task", _TEXT), ("depth", _WHOLE), ("coverage", _REAL), ("recall", _REAL)]
        + [("oracle", _REAL)]
    ),
    # one row a task and stage-1 rank of the best placed relevant candidate; rank 0: none is one
    "gold_ranks": pa.schema([("task", _TEXT), ("rank", _WHOLE), ("queries", _WHOLE)]),
    # one row a system, task and cutoff: mean unjudged@k
    "unjudged": pa.schema([("task", _TEXT), ("system", _TEXT), ("k", _WHOLE), ("value", _REAL)]),
}
ENDS = ("low", "high", "kind", "degenerate")
Row = dict[str, Any]


def results_rows(findings: Findings) -> Iterable[Row]:
    """Means with interval and standing, as evaluation made them."""
    for row in findings.results:
        interval, ranks = row["interval"] or {}, row["ranks"] or (None, None)
        names = ("task", "system", "measure", "mean", "n", "weighted_mean", "beaten")
        yield {
            **{name: row[name] for name in names},
            **{name: interval.get(name) for name in ENDS},
            "rank_best": ranks[0],
            "rank_worst": ranks[1],
        }


def systems_rows(findings: Findings) -> Iterable[Row]:
    """What qualifies a system's values on a task: failures, ties, cuts, headroom, speed."""
    primary = findings.suite.primary
    for system in findings.systems:
        evaluation, run = system.evaluation, system.run
        base = findings.system(system.task, findings.suite.baseline)
        low, high = evaluation.tie_range[primary]
        measured = newest(run.store, system.task, system.model, run.fingerprint)
        yield {
            "task": system.task,
            "system": system.model,
            "run": run.fingerprint,
            "pairs": system.pairs,
            "failed_pairs": system.failed_pairs,
            "failed_queries": len(system.failed_queries),
            "missing_queries": len(evaluation.missing),
            "tied_share": float(evaluation.tie_rate),
            "tie_low": None if np.isnan(low) else low,
            "tie_high": None if np.isnan(high) else high,
            "truncated_share": system.truncated_pairs / system.pairs if system.pairs else None,
            "truncated_queries": len(system.truncated_queries),
            **_headroom(system, base, primary),
            "replay_pps": replay_rate(system.receipts),
            "pps": None if measured is None else pairs_per_second(measured),
            **_latency(measured),
        }


def _headroom(system: SystemEvaluation, base: SystemEvaluation, primary: str) -> Row:
    """The distance to the perfect order of the same candidates, and the share of it made."""
    oracle = mean_of(system.values(f"oracle({primary})"))["mean"]
    value, start = (mean_of(side.values(primary))["mean"] for side in (system, base))
    room = None if oracle is None or start is None else oracle - start
    made = room is not None and room > 0 and value is not None and system is not base
    return {
        "oracle": oracle,
        "headroom": mean_of(system.values(f"headroom({primary})"))["mean"],
        "recovered": (value - start) / room if made else None,
    }


def _latency(measured: Row | None) -> Row:
    """Seconds that 95 % of requests stay below: of one client with all candidates, all of them
    answered by this machine; anything else is no figure to put beside other systems'."""
    whole = measured is not None and measured["depth"] is None and not measured.get("served")
    for found in measured["latency"] if measured is not None and whole else ():
        if found["load"]["concurrency"] == 1 and found["n"] and not found["unanswered"]:
            return {"p95": found["latency"]["p95"]["value"], "load": found["name"]}
    return {"p95": None, "load": None}


def comparison_rows(findings: Findings) -> Iterable[Row]:
    """Every comparison with the baseline, then its slices."""
    for item in findings.comparisons:
        place = {
            "task": item.challenger.task,
            "challenger": item.challenger.model,
            "measure": item.measure,
            "left_out": item.left_out,
        }
        yield {
            **place,
            **{"attribute": "", "value": "", "small": False},
            **_difference(item.whole),
            "warnings": comparison_warnings(item),
        }
        for part in item.slices:
            attribute, value = part.slice
            yield {
                **place,
                **{"attribute": attribute, "value": value, "small": part.small},
                **_difference(part.difference),
            }


def _difference(difference: Difference) -> Row:
    interval, summary = difference.interval, difference.summary
    return {
        "n": summary.n,
        "mean": summary.mean if summary.n else None,
        **({} if interval is None else {name: getattr(interval, name) for name in ENDS}),
        **{name: int(getattr(summary, name)) for name in ("improved", "tied", "regressed")},
        "p_value": difference.p_value,
        "corrected_p": difference.corrected_p,
        "agrees": difference.agrees,
    }


def replay_rate(receipts: Iterable[Row]) -> float | None:
    """Pairs a second of worker time in a replay; None where a shard's time is not known whole,
    or was a server's."""
    pairs, seconds = 0, 0.0
    for receipt in receipts:
        if receipt.get("deaths") != 0 or not {"started", "finished"} <= receipt.keys():
            return None
        if "requests" in receipt.get("report", {}).get("counts", {}):
            return None  # a server's, its network and rate limit included
        pairs += receipt["rows"]
        seconds += receipt["finished"] - receipt["started"]
    return pairs / seconds if seconds > 0 else None


def depth_rows(view: TaskView, suite: SuiteSpec) -> Iterable[Row]:
    """Recall, coverage and oracle of the first stage's first candidates, by depth."""
    kept = ~view.injected
    ranks = view.ranks[kept]
    deepest = int(ranks.max(initial=0))
    depths = [*(depth for depth in DEPTHS if depth < deepest), deepest] if deepest else []
    queries, documents = view.candidate_queries[kept], view.candidate_docs[kept]
    oracle, how = f"oracle({suite.primary})", conventions_of(suite)
    for depth in depths:
        inside = ranks <= depth
        run = metrics.Run(
            queries[inside], documents[inside], -ranks[inside].astype(np.float64), ranks[inside]
        )
        measures = [oracle, "candidate_recall", "candidate_coverage"]
        found = metrics.evaluate(run, view.judgments, measures, how)
        means = [_number(found.mean(name)) for name in measures]
        yield {
            "task": view.task.name,
            "depth": depth,
            **dict(zip(("oracle", "recall", "coverage"), means, strict=True)),
        }


def gold_rank_rows(view: TaskView) -> Iterable[Row]:
    """How many queries have their best placed relevant document at which stage-1 rank."""
    ranks, counts = np.unique(view.properties["gold_rank"], return_counts=True)
    for rank, queries in zip(ranks.tolist(), counts.tolist(), strict=True):
        yield {"task": view.task.name, "rank": rank, "queries": queries}


def unjudged_rows(system: SystemEvaluation, suite: SuiteSpec) -> Iterable[Row]:
    """Mean unjudged@k of one system, at the cutoffs that a list of candidates can fill."""
    deepest = int(system.view.ranks.max(initial=0))
    names = {k: f"unjudged@{k}" for k in UNJUDGED_AT if k <= max(deepest, UNJUDGED_AT[0])}
    found = metrics.evaluate(
        system.scored, system.view.judgments, list(names.values()), conventions_of(suite)
    )
    for k, name in names.items():
        value = _number(found.mean(name))
        yield {"task": system.task, "system": system.model, "k": k, "value": value}


def table_of_rows(name: str, rows: Iterable[Row]) -> pa.Table:
    """Rows as a table of SCHEMAS[name]."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMAS[name])


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)

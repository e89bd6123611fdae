"""`rerank significance`: intervals, paired tests and corrections from files of values per query.

Nothing frozen, no suite: JSONL or Parquet as `rerank score-run --to` or any other tool writes it.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import metrics
from jobs.console import say
from jobs.corrections import correction_table, corrections
from jobs.tables import MISSING, interval_text, number, p_number, rank_text, signed, table
from metrics.bootstrap import METHODS
from rerank.errors import ConfigError, InputError, unknown_name
from rerank.files.system_values import Selection
from rerank.files.value_files import read_systems
from rerank.store import finite_or_none
from rerank.value_statistics import (
    Aligned,
    Pair,
    Settings,
    Standings,
    SystemMean,
    aligned,
    pairs,
    standings,
    system_means,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'values: JSONL, {"query_id": "q1", "nDCG@10": 0.5, "RR": null} a line, null = failed; or '
        "Parquet with query_id, measure, value. With two systems or more, each is compared with "
        "the first. example: rerank significance --values bm25.jsonl new.jsonl --effect 0.01"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--values", nargs="+", action="extend", type=Path, metavar="FILE",
                        help="values per query, a system a file (or a `model` field)")  # fmt: skip
    source.add_argument("--p-values", type=Path, metavar="FILE",
                        help='JSON {"baseline": "m0", "p": {"m1": 0.012}}: print all '
                        "corrections")  # fmt: skip
    parser.add_argument("-m", "--measure", nargs="+", action="extend", default=[],
                        metavar="MEASURE", dest="measures",
                        help="default: every field of numbers")  # fmt: skip
    parser.add_argument("--task", default="", help="of a file that holds several")
    parser.add_argument("--baseline", default="", metavar="SYSTEM", help="default: the first")
    parser.add_argument("--clusters", default="", metavar="FIELD",
                        help="queries of the same value are resampled together")  # fmt: skip
    parser.add_argument("--max-failed-share", type=float, metavar="X",
                        help="exit 1 where more of a system's values failed")  # fmt: skip
    _add_statistics(parser.add_argument_group("statistics"))
    parser.add_argument("--json", action="store_true", help="one strict JSON object")


def _add_statistics(group: argparse._ArgumentGroup) -> None:
    usual = Settings()
    group.add_argument("--method", choices=list(METHODS), default=usual.method)
    group.add_argument("--test", choices=list(metrics.TESTS), default=usual.test)
    group.add_argument("--correction", choices=list(metrics.CORRECTIONS), default=usual.correction,
                       help="over challengers x measures; default %(default)s")  # fmt: skip
    group.add_argument("--effect", type=float, metavar="D",
                       help="also the queries needed to find a true delta of D")  # fmt: skip
    group.add_argument("--samples", type=int, default=usual.samples, metavar="N")
    group.add_argument("--seed", type=int, default=usual.seed, metavar="N")
    group.add_argument("--confidence", type=float, default=usual.confidence, metavar="C")
    group.add_argument("--alpha", type=float, metavar="A",
                       help="level of tests; default: 0.05, or the one in --p-values")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    if arguments.p_values:
        document = corrections(arguments.p_values, arguments.alpha)
        if arguments.json:
            say(json.dumps(document, allow_nan=False, ensure_ascii=False))
        else:
            say(correction_table(document))
        return 0
    settings = settings_of(arguments)
    selection = Selection(tuple(arguments.measures), arguments.task, arguments.clusters)
    found = aligned(read_systems(arguments.values, selection))
    baseline = arguments.baseline or found.systems[0]
    if baseline not in found.systems:
        raise unknown_name("baseline", baseline, found.systems)
    if len(found.systems) > 1 and not found.shared(found.systems):
        raise InputError(
            f"{' and '.join(found.systems)} have no measure in common; give files with the same "
            "measures"
        )
    means, deltas = system_means(found, settings), pairs(found, baseline, settings)
    placed = standings(found, settings)
    limit = arguments.max_failed_share
    if arguments.json:
        document = as_json(found, baseline, means, deltas, placed, settings, limit)
        say(json.dumps(document, allow_nan=False, ensure_ascii=False))
    else:
        show(means, deltas, placed, settings, limit)
    over = limit is not None and any(row.failed_share > limit for row in means)
    return 1 if over else 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The statistics as asked for; ConfigError for what makes no sense."""
    for name, value in {
        "confidence": arguments.confidence,
        "alpha": arguments.alpha,
        "max-failed-share": arguments.max_failed_share,
    }.items():
        inside = value is None or 0 < value < 1 or (name == "max-failed-share" and value in (0, 1))
        if not inside:
            raise ConfigError(f"--{name} {value:g}: give a number between 0 and 1")
    if arguments.effect is not None and not 0 < arguments.effect < math.inf:
        raise ConfigError(f"--effect {arguments.effect:g}: give the delta that matters, above 0")
    if arguments.samples < 1 or arguments.seed < 0:
        raise ConfigError("--samples must be 1 or more, --seed 0 or more")
    return Settings(
        samples=arguments.samples,
        seed=arguments.seed,
        confidence=arguments.confidence,
        method=arguments.method,
        test=arguments.test,
        correction=arguments.correction,
        alpha=0.05 if arguments.alpha is None else arguments.alpha,
        effect=arguments.effect,
    )


def gate_sentence(row: SystemMean, limit: float | None) -> str | None:
    """`fail: failed share 0.25 > 0.10`; None where no limit is set."""
    if limit is None:
        return None
    failed = row.failed_share > limit
    places = 2 if round(row.failed_share, 2) != round(limit, 2) or not failed else 4
    sign = ">" if failed else "<="
    return (
        f"{'fail' if failed else 'pass'}: failed share {row.failed_share:.{places}f} {sign} "
        f"{limit:.{places}f}"
    )


def as_json(
    found: Aligned,
    baseline: str,
    means: list[SystemMean],
    deltas: list[Pair],
    placed: list[Standings],
    settings: Settings,
    limit: float | None,
) -> dict[str, Any]:
    """All results as one strict JSON object: what does not exist is null."""
    clusters = None if found.clusters is None else len(set(found.clusters))
    return {
        "settings": {**vars(settings), "baseline": baseline, "max_failed_share": limit},
        "queries": len(found.query_ids),
        "clusters": clusters,
        "systems": [_system(row, settings, limit) for row in means],
        "pairs": [_pair(row) for row in deltas],
        "tests": sum(not math.isnan(row.p) for row in deltas),
        "standings": [_standings(row) for row in placed],
        "passed": None if limit is None else all(row.failed_share <= limit for row in means),
    }


def _system(row: SystemMean, settings: Settings, limit: float | None) -> dict[str, Any]:
    flagged: dict[str, Any] = {}
    if row.interval and row.interval.degenerate:
        flagged = {"flag": "degenerate_bootstrap", "bootstrap": [row.mean, row.mean]}
        if row.interval.kind == "wilson":
            key = f"wilson{settings.confidence * 100:g}"
            flagged[key] = [row.interval.low, row.interval.high]
    return {
        "system": row.system,
        "measure": row.measure,
        "mean": finite_or_none(row.mean),
        "zero_mean": row.zero_mean,
        "n_valid": row.n_valid,
        "n_failed": row.n_failed,
        "n_absent": row.n_absent,
        "failed_share": row.failed_share,
        "interval": vars(row.interval) if row.interval else None,
        **flagged,
        "gate": gate_sentence(row, limit),
    }


def _pair(row: Pair) -> dict[str, Any]:
    return {
        "baseline": row.baseline,
        "challenger": row.challenger,
        "measure": row.measure,
        **{name: finite_or_none(value) for name, value in vars(row.summary).items()},
        "interval": vars(row.interval) if row.interval else None,
        "p": finite_or_none(row.p),
        "p_corrected": finite_or_none(row.p_corrected),
        "detectable_effect": finite_or_none(row.detectable),
        "queries_needed": row.queries_needed,
    }


def _standings(row: Standings) -> dict[str, Any]:
    return {
        "measure": row.measure,
        "n": row.n,
        "systems": [
            {
                "system": name,
                "mean": float(row.means[at]),
                "ranks": list(row.ranks[at]),
                "probability_better": {
                    other: float(row.better[at, column])
                    for column, other in enumerate(row.systems)
                    if column != at
                },
            }
            for at, name in enumerate(row.systems)
        ],
    }


def show(
    means: list[SystemMean],
    deltas: list[Pair],
    placed: list[Standings],
    settings: Settings,
    limit: float | None,
) -> None:
    """Tables for people, and below each what must be known to read it."""
    percent = f"{settings.confidence * 100:g} % interval"
    rows = [
        [
            f"{row.system}  {row.measure}",
            number(finite_or_none(row.mean)),
            interval_text(row.interval),
        ]
        + [str(row.n_valid), f"{row.n_failed} of {row.n_valid + row.n_failed}"]
        + [number(row.zero_mean)]
        for row in means
    ]
    say(table(["system, measure", "mean", percent, "n", "failed", "failed as 0"], rows))
    if any(row.interval and row.interval.degenerate for row in means):
        say(
            "* degenerate: all values are equal, so the bootstrap gives no width; of 0s or 1s "
            "alone the Wilson interval is given"
        )
    if deltas:
        _show_pairs(deltas, settings, percent)
    for standing in placed:
        _show_standings(standing)
    for row in means:
        if limit is not None:
            say(f"{row.system}, {row.measure}: {gate_sentence(row, limit)}")


def _show_pairs(deltas: list[Pair], settings: Settings, percent: str) -> None:
    planned = settings.effect is not None
    head = [f"delta to {deltas[0].baseline}", "mean", percent, "up/tied/down", "n", "left out"]
    head += ["effect size", "p", settings.correction, "detectable"]
    head += [f"queries for {settings.effect:g}"] if planned else []
    rows = []
    for row in deltas:
        summary = row.summary
        cells = [f"{row.challenger}  {row.measure}", signed(finite_or_none(summary.mean))]
        cells += [interval_text(row.interval)]
        cells += [f"{summary.improved}/{summary.tied}/{summary.regressed}", str(summary.n)]
        cells += [str(summary.left_out), signed(finite_or_none(summary.effect_size))]
        cells += [p_number(finite_or_none(row.p)), p_number(finite_or_none(row.p_corrected))]
        cells += [number(finite_or_none(row.detectable))]
        if planned:
            cells += [MISSING if row.queries_needed is None else f"{row.queries_needed:,}"]
        rows.append(cells)
    tests = sum(not math.isnan(row.p) for row in deltas)
    say(f"\n{table(head, rows)}")
    say(
        f"p: {settings.test} test, two-sided; {settings.correction}: over {tests} tests. "
        f"detectable: smallest mean delta found with 80 % power at {settings.alpha:g}"
    )


def _show_standings(standing: Standings) -> None:
    order = np.argsort(-standing.means, kind="stable")
    rows = [
        [standing.systems[at], number(float(standing.means[at])), rank_text(standing.ranks[at])]
        + [MISSING if other == at else f"{standing.better[at, other]:.3f}" for other in order]
        for at in order
    ]
    head = [f"{standing.measure}, {standing.n} queries", "mean", "rank"]
    head += [f"above {standing.systems[at]}" for at in order]
    say(f"\n{table(head, rows)}")

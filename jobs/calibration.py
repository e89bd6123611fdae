"""`rerank calibration PAIRS.jsonl`: are scores in [0, 1] probabilities? ECE, Brier, NLL, per slice.

`--fit` also finds the temperature, or Platt's slope and offset, that makes the labels likeliest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from jobs.console import say
from jobs.tables import number, table
from metrics.arrays import Array, Floats
from metrics.calibration import (
    brier_score,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    logits,
    negative_log_likelihood,
    reliability,
)
from rerank.errors import ConfigError
from rerank.files.scored_pairs import ScoredPairs, read_scored_pairs
from rerank.store import finite_or_none

FITS = {"temperature": fit_temperature, "platt": fit_platt}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'pairs: {"qid": "q1", "docid": "d1", "prob": 0.9, "label": 1} a line. A raw score is no '
        "probability: scores outside [0, 1] are refused"
    )
    parser.add_argument("pairs", type=Path, metavar="PAIRS.jsonl")
    parser.add_argument("--bins", type=int, default=10, metavar="N", help="of equal width")
    parser.add_argument("--slice", default="", metavar="FIELD", dest="slice_by",
                        help="also for each value of the field")  # fmt: skip
    parser.add_argument("--by", default="", metavar="FIELD",
                        help="of the score; default prob, probability or score")  # fmt: skip
    parser.add_argument("--rel", type=int, default=1, metavar="N", help="lowest relevant label")
    parser.add_argument("--fit", choices=list(FITS), help="a map that keeps every ranking")
    parser.add_argument("--json", action="store_true", help="one strict JSON object")


def run(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.bins <= 10_000:
        raise ConfigError(f"--bins {arguments.bins}: give 1 to 10,000; 10 are usual")
    pairs = read_scored_pairs(
        arguments.pairs, by=arguments.by, rel=arguments.rel, slice_by=arguments.slice_by
    )
    document = calibration_of(pairs, arguments.bins, arguments.fit)
    if arguments.json:
        say(json.dumps(document, allow_nan=False, ensure_ascii=False))
    else:
        show(document, arguments.bins)
    return 0


def calibration_of(pairs: ScoredPairs, bins: int, fit: str | None = None) -> dict[str, Any]:
    """Figures of all pairs, of each slice and after the fit, strict JSON."""
    p, labels = pairs.probabilities, pairs.labels
    diagram = reliability(p, labels, bins=bins)
    slices: dict[str, Any] = {}
    for name in sorted(set(pairs.slices or ())):
        inside = np.array([found == name for found in pairs.slices or ()])
        slices[name] = figures(p[inside], labels[inside], bins)
    return {
        "bins": bins,
        **figures(p, labels, bins),
        "slices": slices,
        "reliability": [
            {
                "from": at / bins,
                "to": (at + 1) / bins,
                "n": int(diagram.count[at]),
                "confidence": finite_or_none(float(diagram.confidence[at])),
                "rate": finite_or_none(float(diagram.rate[at])),
            }
            for at in range(bins)
        ],
        "fit": fitted(p, labels, bins, fit) if fit else None,
    }


def figures(p: Floats, labels: Array, bins: int) -> dict[str, Any]:
    """NLL is null where it is infinite; certain_and_wrong says how many pairs made it so."""
    return {
        "n": len(p),
        "relevant": int(np.count_nonzero(labels)),
        f"ECE{bins}": expected_calibration_error(p, labels, bins=bins),
        "Brier": brier_score(p, labels),
        "NLL": finite_or_none(negative_log_likelihood(p, labels)),
        "certain_and_wrong": int(np.count_nonzero(np.where(labels, p == 0, p == 1))),
    }


def fitted(p: Floats, labels: Array, bins: int, fit: str) -> dict[str, Any]:
    """The likeliest map of the scores' logits, and the figures after it on the same pairs."""
    scores = logits(p)
    found = FITS[fit](scores, labels)
    after = found.probabilities(scores)
    return {
        "map": fit,
        "slope": found.slope,
        "offset": found.offset,
        "temperature": found.temperature,
        **figures(after, labels, bins),
        "ranking_changed": not np.array_equal(_places(p), _places(after)),
    }


def show(document: dict[str, Any], bins: int) -> None:
    """Tables for people."""
    rows = [_cells("all pairs", document, bins)]
    rows += [_cells(name, found, bins) for name, found in document["slices"].items()]
    fit = document["fit"]
    if fit:
        rows.append(_cells(f"after {fit['map']}", fit, bins))
    say(table(["pairs", "n", "relevant", f"ECE{bins}", "Brier", "NLL"], rows))
    filled = [row for row in document["reliability"] if row["n"]]
    cells = [
        [f"{'(' if row['from'] else '['}{row['from']:g}, {row['to']:g}]", str(row["n"])]
        + [number(row["confidence"]), number(row["rate"])]
        for row in filled
    ]
    say(f"\n{table(['scores', 'n', 'mean score', 'share relevant'], cells)}")
    if fit:
        say(
            f"\n{fit['map']}: p = sigmoid({fit['slope']:.6g} logit(score) {fit['offset']:+.6g}), "
            f"temperature {fit['temperature']:.6g}; fitted and measured on the same pairs; "
            f"ranking {'changed by rounding' if fit['ranking_changed'] else 'as it was'}"
        )


def _cells(name: str, row: dict[str, Any], bins: int) -> list[str]:
    wrong = row["certain_and_wrong"]
    nll = number(row["NLL"]) if row["NLL"] is not None else f"infinite ({wrong} certain and wrong)"
    counts = [name, str(row["n"]), str(row["relevant"])]
    return [*counts, number(row[f"ECE{bins}"]), number(row["Brier"]), nll]


def _places(scores: Floats) -> Array:
    """Place of each score among the distinct ones: equal exactly where two rankings are."""
    places: Array = np.unique(scores, return_inverse=True)[1]
    return places

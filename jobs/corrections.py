"""P-values of several challengers under every correction: `rerank significance --p-values FILE`.

The baseline is compared with nothing: it is no test and is not counted.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import metrics
from jobs.tables import p_number, table
from rerank.errors import InputError
from rerank.files.file_kinds import read_json
from rerank.store import finite_or_none

RULES = tuple(name for name in metrics.CORRECTIONS if name != "none")


def corrections(path: Path, alpha: float | None = None) -> dict[str, Any]:
    """The corrected p-values of a file `{"baseline": "m0", "alpha": 0.05, "p": {"m1": 0.012}}`.

    m: number of tests. rejected: under each correction, who is at most alpha. Strict JSON.
    """
    document = read_json(path)
    baseline, tested = _baseline(path, document), _tested(path, document)
    level = _number(
        document.get("alpha", 0.05) if alpha is None else alpha, f"{path}, field 'alpha'"
    )
    names = [name for name in tested if name != baseline]
    values = np.array([tested[name] for name in names], np.float64)
    adjusted = {
        rule: dict(zip(names, metrics.corrected(values, rule).tolist(), strict=True))
        for rule in RULES
    }
    return {
        "baseline": baseline,
        "alpha": level,
        "m": int(np.count_nonzero(~np.isnan(values))),
        "p": {name: finite_or_none(tested[name]) for name in names},
        **{
            rule: {name: finite_or_none(value) for name, value in column.items()}
            for rule, column in adjusted.items()
        },
        "rejected": {
            rule: [name for name in names if adjusted[rule][name] <= level] for rule in RULES
        },
    }


def correction_table(document: dict[str, Any]) -> str:
    """The same for people."""
    rows = [
        [name, p_number(p)]
        + [
            p_number(document[rule][name]) + (" <" if name in document["rejected"][rule] else "")
            for rule in RULES
        ]
        for name, p in document["p"].items()
    ]
    against = f"against {document['baseline'] or 'the baseline'}"
    below = f"{document['m']} tests, the baseline not counted; <: at most {document['alpha']:g}"
    return f"{table([against, 'p', *RULES], rows)}\n{below}"


def _baseline(path: Path, document: dict[str, Any]) -> str:
    baseline = document.get("baseline", "")
    if not isinstance(baseline, str):
        raise InputError(f"{path}, field 'baseline': {baseline!r:.40} is no name; write a string")
    return baseline


def _tested(path: Path, document: dict[str, Any]) -> dict[str, float]:
    """Name -> p-value; null is no test, NaN."""
    tested = document.get("p")
    if not isinstance(tested, dict) or not tested:
        raise InputError(f"{path}, field 'p': must be an object of p-values, is {tested!r:.40}")
    return {
        name: math.nan if value is None else _number(value, f"{path}, field 'p.{name}'")
        for name, value in tested.items()
    }


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{where}: {value!r:.40} is no number between 0 and 1")
    return float(value)

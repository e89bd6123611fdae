"""Pairs with a score in [0, 1] and a label, a JSON object a line, to measure calibration on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metrics.arrays import Booleans, Floats
from rerank.errors import InputError
from rerank.files.formats import json_lines

PROBABILITY = ("prob", "probability", "score")
LABEL = ("label", "relevance", "grade")


@dataclass(frozen=True)
class ScoredPairs:
    """probabilities: (n,) float64 in [0, 1]. labels: (n,) bool. slices: (n,) text, or None."""

    probabilities: Floats
    labels: Booleans
    slices: tuple[str, ...] | None


def read_scored_pairs(path: Path, *, by: str = "", rel: int = 1, slice_by: str = "") -> ScoredPairs:
    """The pairs of a JSONL file. InputError names file, line and field.

    by: the field of the score, default the first of PROBABILITY. rel: lowest relevant label.
    slice_by: a field of the row, or of its `attributes`.
    """
    probabilities, labels, slices = [], [], []
    for line, row in json_lines(path):
        where = f"{path}, line {line}"
        probabilities.append(_probability(row, (by,) if by else PROBABILITY, where))
        labels.append(_label(row, where) >= rel)
        if slice_by:
            slices.append(_slice(row, slice_by, where))
    if not probabilities:
        raise InputError(f"{path} holds no pair; give a JSON object a line")
    return ScoredPairs(
        probabilities=np.array(probabilities, np.float64),
        labels=np.array(labels, dtype=bool),
        slices=tuple(slices) if slice_by else None,
    )


def _probability(row: Mapping[str, Any], names: Sequence[str], where: str) -> float:
    field, value = _first(row, names, where)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{where}, field '{field}': {value!r:.40} is no number")
    if not 0 <= value <= 1:
        raise InputError(
            f"{where}, field '{field}': {value!r:.40} is not between 0 and 1; a raw score is no "
            "probability: map it first"
        )
    return float(value)


def _label(row: Mapping[str, Any], where: str) -> int:
    field, value = _first(row, LABEL, where)
    if not isinstance(value, int):  # true and false are 1 and 0
        raise InputError(f"{where}, field '{field}': {value!r:.40} is no whole number")
    return int(value)


def _slice(row: Mapping[str, Any], field: str, where: str) -> str:
    attributes = row.get("attributes")
    value = row.get(field, attributes.get(field) if isinstance(attributes, dict) else None)
    if not isinstance(value, str | int):
        raise InputError(f"{where}, field '{field}': {value!r:.40} is no slice; write a text")
    return str(value)


def _first(row: Mapping[str, Any], names: Sequence[str], where: str) -> tuple[str, Any]:
    for name in names:
        if name in row:
            return name, row[name]
    raise InputError(f"{where}: field '{names[0]}' is missing; the line has {sorted(row)}")

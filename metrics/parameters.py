"""Parameters inside a measure's name: how their text is read, written and given a default."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from metrics.errors import MetricError
from metrics.graded import GainTable

Value: TypeAlias = int | float | str | GainTable


@dataclass(frozen=True)
class Parameter:
    """read: text -> value, ValueError where it is wrong. shape: what may be written."""

    read: Callable[[str], Value]
    default: Value
    shape: str


def choice(*words: str) -> Parameter:
    """One of the words; the first is the default."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return Parameter(read, words[0], "|".join(words))


def positive_integer(default: int) -> Parameter:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise ValueError(text)
        return int(text)

    return Parameter(read, default, "a whole number from 1")


def probability(default: float) -> Parameter:
    def read(text: str) -> float:
        if not 0.0 < float(text) < 1.0:
            raise ValueError(text)
        return float(text)

    return Parameter(read, default, "a number between 0 and 1")


def gain() -> Parameter:
    """linear, exp2, or a table {grade:gain,...} of grades from 1 and gains from 0."""

    def read(text: str) -> Value:
        return text if text in ("linear", "exp2") else _gain_table(text)

    return Parameter(read, "linear", "linear|exp2|{grade:gain,...}, grades from 1, gains from 0")


def write(value: Value) -> str:
    """The text from which `read` makes the same value."""
    if isinstance(value, tuple):
        return "{" + ",".join(f"{grade}:{amount:g}" for grade, amount in value) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_parameters(
    text: str, accepted: dict[str, Parameter], measure: str
) -> tuple[tuple[str, Value], ...]:
    """`rel=2,denominator=min(k,R)` -> sorted (name, value) pairs; MetricError names the bad one."""
    values: dict[str, Value] = {}
    for part in split_outside_brackets(text) if text.strip() else []:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in accepted or name in values:
            known = ", ".join(f"{key}={row.shape}" for key, row in accepted.items())
            raise MetricError(
                f"{part.strip()!r} is no parameter of {measure}; it takes "
                f"{known or 'none'}{', each once' if name in values else ''}"
            )
        try:
            values[name] = accepted[name].read(value)
        except ValueError:
            raise MetricError(
                f"{name}={value} in {measure}: write {name}={accepted[name].shape}"
            ) from None
    return tuple(sorted(values.items()))


def split_outside_brackets(text: str) -> list[str]:
    """Split at the commas that stand in no bracket: `a=min(k,R),b=1` -> two parts."""
    parts, level, start = [], 0, 0
    for at, letter in enumerate(text):
        level += (letter in "({") - (letter in ")}")
        if letter == "," and level == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _gain_table(text: str) -> GainTable:
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    rows = [entry.split(":") for entry in text[1:-1].split(",")]
    table = tuple(sorted((int(grade), float(amount)) for grade, amount in rows))
    if len({grade for grade, _ in table}) < len(table) or table[0][0] < 1:
        raise ValueError(text)
    # a gain below 0 would make leaving documents out part of the ideal order
    if not all(math.isfinite(amount) and amount >= 0 for _, amount in table):
        raise ValueError(text)
    return table

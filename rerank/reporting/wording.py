"""Numbers and intervals in words: the same in HTML and Markdown, and never more certain than data.

Values have 4 decimals, deltas a sign, shares one decimal of a percent. What does not exist is "—".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeGuard

from rerank.reporting.schema import Interval
from rerank.suite.significance import p_words

MISSING = "—"
DEGENERATE = "degenerate (all values equal)"

Reading = Literal[
    "better", "worse", "uncorrected", "untested", "contradicted", "undecided", "equal", "unknown"
]
UNNAMED = ("percentile", "bca", "expanded")  # named once in the report, not in every cell

READINGS: dict[Reading, str] = {  # in a table
    "better": "better",
    "worse": "worse",
    "uncorrected": "not after correction",
    "untested": "not by the test",
    "contradicted": "mean and test disagree",
    "undecided": "no difference shown",
    "equal": "all equal",
    "unknown": "no interval",
}
IN_WORDS: dict[Reading, str] = {  # in a sentence, before the baseline's name
    "better": "better than",
    "worse": "worse than",
    "uncorrected": "after correction for all tests no difference shown against",
    "untested": "by the test no difference shown against",
    "contradicted": "by mean and test in opposite ways different from",
    "undecided": "no difference shown against",
    "equal": "on every query equal to",
    "unknown": "without an interval, not decided against",
}


def exists(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def number(value: float | None, digits: int = 4) -> str:
    """0.1234; no negative zero."""
    if not exists(value):
        return MISSING
    return f"{_unsigned_zero(value, digits):.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    """+0.1234, -0.1234, 0.0000."""
    if not exists(value):
        return MISSING
    rounded = _unsigned_zero(value, digits)
    return f"{rounded:+.{digits}f}" if rounded else f"{rounded:.{digits}f}"


def _unsigned_zero(value: float, digits: int) -> float:
    return value if round(value, digits) else 0.0


def share(value: float | None) -> str:
    """12.3%, and never 0.0% for what is not 0, nor 100.0% for what is not all."""
    if not exists(value):
        return MISSING
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 <= value < 1:
        return ">99.9%"
    return f"{value:.1%}"


def count(value: int | None, noun: str = "") -> str:
    """1,234 queries; 1 query."""
    if value is None:
        return MISSING
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{value:,} {noun if value == 1 else plural}" if noun else f"{value:,}"


def be(value: int) -> str:
    return "is" if value == 1 else "are"


def listed(names: Sequence[str], shown: int = 8) -> str:
    """`a, b and c`; long lists are cut and counted."""
    if not names:
        return "none"
    if len(names) > shown:
        return f"{', '.join(names[:shown])} and {len(names) - shown:,} more"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def bounds(interval: Interval | None) -> tuple[float, float] | None:
    """Both ends, or None where one is missing or the ends say nothing (a width of 0)."""
    if interval is None:
        return None
    low, high = interval["low"], interval["high"]
    if not exists(low) or not exists(high):
        return None
    return None if interval["degenerate"] and low == high else (low, high)


def interval_text(interval: Interval | None, *, delta: bool = False) -> str:
    """[0.1234, 0.2345]; a degenerate interval says so, one that is not resampled is named."""
    if interval is None:
        return MISSING
    ends = bounds(interval)
    kind = interval["kind"]
    name = "" if kind in UNNAMED else f"{kind[:1].upper()}{kind[1:]} "
    show = signed if delta else number
    text = "" if ends is None else f"{name}[{show(ends[0])}, {show(ends[1])}]"
    if interval["degenerate"]:
        return f"{DEGENERATE}, {text}" if text else DEGENERATE
    return text or MISSING


def confidence_name(confidence: float) -> str:
    """95% interval."""
    return f"{confidence * 100:.4g}% interval"


def p_text(p: float | None) -> str:
    """p = 0.012, p < 0.001; never p = 0."""
    return p_words(p) if exists(p) else MISSING


def rank_text(ranks: Sequence[int] | None) -> str:
    """1-3: best and worst plausible rank; 2 where both are the same."""
    if ranks is None:
        return MISSING
    return str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]}-{ranks[1]}"


def provenance_words(judgments: Mapping[str, int]) -> str:
    """60.0% human and 40.0% synthetic, the largest part first; empty where nothing is judged."""
    total = sum(judgments.values())
    parts = sorted(judgments.items(), key=lambda item: (-item[1], item[0]))
    return listed([f"{share(n / total)} {kind}" for kind, n in parts if n]) if total else ""


def read_delta(
    mean: float | None,
    interval: Interval | None,
    corrected_p: float | None = None,
    alpha: float = 0.05,
    *,
    p_value: float | None = None,
    agrees: bool = True,
) -> Reading:
    """What interval and test of a paired delta allow to say; higher values are better.

    An interval that leaves out 0 is not enough where the corrected p-value is not below alpha:
    among many comparisons some do so by chance. agrees: the test points the way of the mean.
    """
    if interval is not None and interval["degenerate"]:
        return "equal" if mean == 0 else "unknown"
    ends = bounds(interval)
    if ends is None or not exists(mean):
        return "unknown"
    if ends[0] <= 0 <= ends[1]:
        return "undecided"
    if not agrees or (p_value is not None and p_value >= alpha):
        return "untested" if agrees else "contradicted"
    if corrected_p is not None and corrected_p >= alpha:
        return "uncorrected"
    return "better" if ends[0] > 0 else "worse"

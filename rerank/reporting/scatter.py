"""Values over a logarithmic axis: dots with intervals, some of them joined by a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerank.reporting.charts import Scale, scale_of
from rerank.reporting.markup import Content, Markup, element

HEIGHT = 300  # pixels
TOP, BOTTOM = 26, 34  # pixels above the highest and below the lowest value
LEFT, RIGHT = 9.0, 97.0  # percent
ZERO_AT = 5.5  # percent: where what costs nothing stands, since a logarithm has no place for it


@dataclass(frozen=True)
class Dot:
    """x from 0; y and its interval; label: written beside it; says: what a pointer is told."""

    x: float
    y: float
    interval: tuple[float, float] | None
    label: str
    says: str
    joined: bool = False  # part of the line
    tone: str = ""  # hollow for what is not worth it


@dataclass(frozen=True)
class LogScale:
    """Positive values from low to high; ticks are 1, 2 and 5 times powers of ten."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def percent(self, value: float) -> float:
        if value <= 0:
            return ZERO_AT
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)


def log_scale_of(values: Iterable[float]) -> LogScale:
    """A scale with some room around all positive values."""
    kept = [value for value in values if value > 0] or [1.0]
    low, high = min(kept) / 1.3, max(kept) * 1.3
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [factor * 10.0**power for power in decades for factor in factors]
    return LogScale(low, high, tuple(tick for tick in ticks if low <= tick <= high))


def scatter(
    dots: Sequence[Dot],
    *,
    x_name: str,
    y_name: str,
    label: str,
    ticks: Sequence[float] | None = None,
    from_zero: bool = False,
    steps: bool = False,
) -> Markup:
    """Dots over a logarithmic x axis; those that are joined, from left to right.

    ticks: of the x axis, None for round numbers; from_zero: does the y axis begin at 0?
    steps: does the line go level to the next dot and up there, since nothing lies between them?
    """
    x = log_scale_of(dot.x for dot in dots)
    x = x if ticks is None else LogScale(x.low, x.high, tuple(ticks))
    ends = [end for dot in dots if dot.interval for end in dot.interval]
    zero = [0.0] if from_zero else []
    y = scale_of([*zero, *ends, *(dot.y for dot in dots)], most_ticks=6)
    line = sorted((dot for dot in dots if dot.joined), key=lambda dot: dot.x)
    parts: list[Content] = [
        *_level_lines(y),
        *_uprights(x, any(dot.x <= 0 for dot in dots)),
        *(
            segment
            for pair in zip(line, line[1:], strict=False)
            for segment in _segments(x, y, *pair, steps=steps)
        ),
        *(mark for dot in dots for mark in _dot(x, y, dot)),
        element("text", y_name, x="0%", y=10),
        element("text", x_name, x=f"{RIGHT}%", y=HEIGHT - 2, text_anchor="end"),
    ]
    return element(
        "svg", *parts, class_="chart", role="img", aria_label=label, width="100%", height=HEIGHT
    )


def _level_lines(scale: Scale) -> list[Content]:
    step = scale.ticks[1] - scale.ticks[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    found: list[Content] = []
    for tick in scale.ticks:
        y = _height(scale, tick)
        found.append(element("line", x1="5%", x2=f"{RIGHT}%", y1=y, y2=y, class_="grid"))
        found.append(element("text", f"{tick:,.{digits}f}", x="0%", y=y + 4))
    return found


def _uprights(scale: LogScale, has_zero: bool) -> list[Content]:
    found: list[Content] = []
    for tick in [0.0, *scale.ticks] if has_zero else scale.ticks:
        x = f"{scale.percent(tick):.2f}%"
        found.append(element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid"))
        found.append(element("text", f"{tick:g}", x=x, y=HEIGHT - 18, text_anchor="middle"))
    return found


def _segments(x: LogScale, y: Scale, start: Dot, end: Dot, *, steps: bool) -> list[Content]:
    corners = [(start.x, start.y), *([(end.x, start.y)] if steps else []), (end.x, end.y)]
    return [
        element(
            "line",
            x1=f"{x.percent(left):.2f}%",
            x2=f"{x.percent(right):.2f}%",
            y1=_height(y, low),
            y2=_height(y, high),
            class_="reference",
        )
        for (left, low), (right, high) in zip(corners, corners[1:], strict=False)
    ]


def _dot(x: LogScale, y: Scale, dot: Dot) -> list[Content]:
    at, height = f"{x.percent(dot.x):.2f}%", _height(y, dot.y)
    marks: list[Content] = []
    if dot.interval:
        low, high = (_height(y, end) for end in dot.interval)
        marks.append(element("line", x1=at, x2=at, y1=low, y2=high, class_="grid zero"))
    title = element("title", dot.says)
    marks.append(element("circle", title, cx=at, cy=height, r=4.5, class_=dot.tone or "dot"))
    if dot.label:
        last = x.percent(dot.x) > 80  # a name to its right would leave the picture
        dx, anchor = (-6, "end") if last else (4, "start")
        marks.append(element("text", dot.label, x=at, y=height - 7, dx=dx, text_anchor=anchor))
    return marks


def _height(scale: Scale, value: float) -> float:
    """Pixels from the top."""
    inside = min(max(value, scale.low), scale.high)
    room = HEIGHT - TOP - BOTTOM
    return round(TOP + room * (scale.high - inside) / (scale.high - scale.low), 2)

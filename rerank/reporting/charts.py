"""Inline SVG whose widths are percentages: it fits any column, and text in it is never stretched.

Colours come from classes of the stylesheet. Every chart says in words what it shows (aria-label).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerank.reporting.markup import Content, Markup, element
from rerank.reporting.schema import Interval
from rerank.reporting.wording import bounds, exists, signed

ROW_HEIGHT = 26  # pixels of a chart that is one row of a table
AXIS_HEIGHT = 18
WATERFALL_HEIGHT = 190
MOST_BARS = 400  # of a waterfall; more queries are drawn as that many evenly spaced ones
MARGIN = 4.0  # percent of the width left free on both sides, for round dots and axis numbers


@dataclass(frozen=True)
class Scale:
    """Values from low to high on a horizontal axis; ticks are round numbers."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def percent(self, value: float) -> float:
        """Where the value lies, 0 to 100; values outside lie on the edge."""
        inside = min(max(value, self.low), self.high)
        return MARGIN + (100 - 2 * MARGIN) * (inside - self.low) / (self.high - self.low)


def scale_of(values: Iterable[float], *, most_ticks: int = 4) -> Scale:
    """A scale that holds all values, ending on round numbers."""
    kept = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(kept), max(kept)
    if high - low < 1e-9:
        low, high = low - 0.05, high + 0.05
    step = _round_step((high - low) / most_ticks)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(index * step, 10) for index in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def axis(scale: Scale, *, delta: bool = False) -> Markup:
    """The numbers over a column of row charts."""
    numbers = [
        element(
            "text",
            _tick_text(tick, scale, delta=delta),
            x=_percent(scale, tick),
            y=13,
            text_anchor="middle",
        )
        for tick in scale.ticks
    ]
    return _svg(AXIS_HEIGHT, "axis", *numbers, class_="chart axis")


def _tick_text(tick: float, scale: Scale, *, delta: bool) -> str:
    step = scale.ticks[1] - scale.ticks[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return signed(tick, digits) if delta else f"{tick:.{digits}f}"


def interval_row(
    scale: Scale,
    mean: float | None,
    interval: Interval | None,
    *,
    tone: str = "",
    reference: float | None = None,
    label: str,
) -> Markup:
    """A dot with its interval on the common scale; `reference` draws a line all rows share."""
    middle = ROW_HEIGHT / 2
    parts: list[Content] = _grid(scale, ROW_HEIGHT)
    if exists(reference):
        parts.append(_upright(scale, reference, ROW_HEIGHT, "reference"))
    ends = bounds(interval)
    if ends:
        parts.append(_level(scale, *ends, middle, "range"))
        parts += [_clip_mark(scale, end, middle) for end in ends]
    if exists(mean):
        dot = "hollow" if interval is None or interval["degenerate"] else "dot"
        parts.append(element("circle", cx=_percent(scale, mean), cy=middle, r=4.5, class_=dot))
    return _svg(ROW_HEIGHT, label, *parts, class_=f"chart {tone}".strip())


def progress_row(
    scale: Scale, value: float | None, baseline: float | None, oracle: float | None, *, label: str
) -> Markup:
    """How far a value is on the way from the baseline to the best possible one."""
    middle = ROW_HEIGHT / 2
    parts: list[Content] = _grid(scale, ROW_HEIGHT)
    if exists(oracle):
        parts.append(_level(scale, scale.low, oracle, middle, "room"))
        parts.append(_upright(scale, oracle, ROW_HEIGHT, "oracle"))
    if exists(value):
        parts.append(_level(scale, scale.low, value, middle, "filled"))
    if exists(baseline):
        parts.append(_upright(scale, baseline, ROW_HEIGHT, "reference"))
    return _svg(ROW_HEIGHT, label, *parts, class_="chart")


def share_bar(part: float, whole: float, *, label: str) -> Markup:
    """A small bar: part of whole."""
    width = 100 * part / whole if whole else 0.0
    track = element("rect", x=0, y=2, width="100%", height=8, rx=2, class_="track")
    bar = element("rect", x=0, y=2, width=f"{width:.2f}%", height=8, rx=2, class_="bar")
    return _svg(12, label, track, bar, class_="chart small")


def waterfall(deltas: Sequence[tuple[str, float]], scale: Scale, *, label: str) -> Markup:
    """Per-query deltas as bars, smallest first; `scale` is vertical here."""
    shown = evenly_spaced(deltas, MOST_BARS)
    levels = {tick: _height(scale, tick) for tick in scale.ticks}
    lines: list[Content] = [
        element("line", x1="0%", x2="100%", y1=y, y2=y, class_="zero" if tick == 0 else "grid")
        for tick, y in levels.items()
    ]
    numbers: list[Content] = [
        element("text", _tick_text(tick, scale, delta=True), x=2, y=y - 3)
        for tick, y in levels.items()
    ]
    bars = [_bar(scale, index, len(shown), *pair) for index, pair in enumerate(shown)]
    return _svg(WATERFALL_HEIGHT, label, *lines, *bars, *numbers, class_="chart waterfall")


def evenly_spaced(items: Sequence[tuple[str, float]], most: int) -> Sequence[tuple[str, float]]:
    """At most `most` items, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def _bar(scale: Scale, index: int, total: int, query_id: str, delta: float) -> Markup:
    left = 9 + 91 * index / total  # the axis numbers stand in the first 9 percent
    zero, end = _height(scale, 0.0), _height(scale, delta)
    tone = "tied" if delta == 0 else ("worse" if delta < 0 else "better")
    top, height = (zero - 1, 2.0) if delta == 0 else (min(zero, end), max(abs(end - zero), 1.0))
    return element(
        "rect",
        element("title", f"{query_id}: {signed(delta)}"),
        x=f"{left:.3f}%",
        width=f"{max(91 / total - 0.12, 0.15):.3f}%",
        y=round(top, 2),
        height=round(height, 2),
        class_=tone,
    )


def _height(scale: Scale, value: float) -> float:
    """Pixels from the top."""
    room = WATERFALL_HEIGHT - 24
    inside = min(max(value, scale.low), scale.high)
    return round(16 + room * (scale.high - inside) / (scale.high - scale.low), 2)


def _svg(height: int, label: str, *children: Content, class_: str) -> Markup:
    return element(
        "svg", *children, class_=class_, role="img", aria_label=label, width="100%", height=height
    )


def _percent(scale: Scale, value: float) -> str:
    return f"{scale.percent(value):.2f}%"


def _grid(scale: Scale, height: float) -> list[Content]:
    return [_upright(scale, tick, height, "grid") for tick in scale.ticks]


def _upright(scale: Scale, value: float, height: float, class_: str) -> Markup:
    x = _percent(scale, value)
    return element("line", x1=x, x2=x, y1=0, y2=height, class_=class_)


def _level(scale: Scale, low: float, high: float, y: float, class_: str) -> Markup:
    return element(
        "line", x1=_percent(scale, low), x2=_percent(scale, high), y1=y, y2=y, class_=class_
    )


def _clip_mark(scale: Scale, end: float, middle: float) -> Markup | None:
    """An arrow head where the interval goes on beyond the scale."""
    if scale.low <= end <= scale.high:
        return None
    points = "0,-4 -6,0 0,4" if end < scale.low else "0,-4 6,0 0,4"
    arrow = element("polygon", points=points, class_="beyond")
    return element("svg", arrow, x=_percent(scale, end), y=middle, overflow="visible")

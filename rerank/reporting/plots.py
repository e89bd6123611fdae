"""Plots with two axes as inline SVG: lines over depths or cutoffs, and columns of counts.

They stretch with their column as all charts of the report do: positions are percentages, heights
pixels, and every plot says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rerank.reporting.charts import Scale, scale_of
from rerank.reporting.markup import Content, Markup, element
from rerank.reporting.visible import clipped
from rerank.reporting.wording import number

HEIGHT = 320
TOP, BOTTOM = 26, 36  # pixels
LEFT, RIGHT = 9.0, 3.0  # percent
SERIES = 6  # line styles of PLOT_STYLE


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], *, x_name: str, y_name: str, label: str
) -> Markup:
    """One line a series over positions on a logarithmic axis (depths, cutoffs); y from 0 to 1."""
    every = [x for points in series.values() for x, _ in points]
    positions = sorted(set(every)) or [1.0]
    scale = Scale(0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    place = {x: _across(at / max(1, len(positions) - 1)) for at, x in enumerate(positions)}
    parts: list[Content] = _levels(scale)
    for x in positions:
        parts += _upright_tick(place[x], f"{x:g}")
    for at, (name, points) in enumerate(series.items()):
        style = f"series s{at % SERIES}"
        for (x1, y1), (x2, y2) in zip(points, points[1:], strict=False):
            parts.append(_line(place[x1], _down(scale, y1), place[x2], _down(scale, y2), style))
        for x, y in points:
            title = element("title", f"{name}: {number(y)} ({x:g})")
            parts.append(
                element("circle", title, cx=_p(place[x]), cy=_down(scale, y), r=3, class_=style)
            )
    return _plot([*parts, *_axis_names(x_name, y_name)], label, "lines")


def columns(bars: Sequence[tuple[str, int]], *, x_name: str, y_name: str, label: str) -> Markup:
    """Upright bars with their counts over them."""
    scale = scale_of([0.0, *(float(size) for _, size in bars)], most_ticks=4)
    parts: list[Content] = _levels(scale)
    width = (100 - LEFT - RIGHT) / max(1, len(bars))
    for at, (name, size) in enumerate(bars):
        left, top = LEFT + width * at, _down(scale, float(size))
        floor = _down(scale, 0.0)
        parts.append(
            element(
                "rect",
                element("title", f"{name}: {size:,}"),
                x=_p(left + width * 0.12),
                width=_p(width * 0.76),
                y=top,
                height=round(floor - top, 2),
                class_="bar",
            )
        )
        parts += _upright_tick(left + width / 2, name, grid=False)
        parts.append(
            element("text", f"{size:,}", x=_p(left + width / 2), y=top - 4, text_anchor="middle")
        )
    return _plot([*parts, *_axis_names(x_name, y_name)], label, "columns")


def legend(names: Sequence[str]) -> Markup:
    """The names of a line plot's series with their colours."""
    entries = [
        element("li", element("i", class_=f"s{at % SERIES}"), clipped(name, 60))
        for at, name in enumerate(names)
    ]
    return element("ul", *entries, class_="legend")


def _across(part: float) -> float:
    return LEFT + (100 - LEFT - RIGHT) * part


def _down(scale: Scale, value: float) -> float:
    inside = min(max(value, scale.low), scale.high)
    room = HEIGHT - TOP - BOTTOM
    return round(TOP + room * (scale.high - inside) / (scale.high - scale.low), 2)


def _levels(scale: Scale) -> list[Content]:
    step = scale.ticks[1] - scale.ticks[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    found: list[Content] = []
    for tick in scale.ticks:
        y = _down(scale, tick)
        found.append(_line(LEFT, y, 100 - RIGHT, y, "grid"))
        found.append(
            element("text", f"{tick:,.{digits}f}", x=_p(LEFT - 1), y=y + 4, text_anchor="end")
        )
    return found


def _upright_tick(x: float, text: str, *, grid: bool = True) -> list[Content]:
    words = element("text", text, x=_p(x), y=HEIGHT - BOTTOM + 15, text_anchor="middle")
    return [_line(x, TOP, x, HEIGHT - BOTTOM, "grid"), words] if grid else [words]


def _axis_names(x_name: str, y_name: str) -> list[Content]:
    return [
        element("text", x_name, x=_p(100 - RIGHT), y=HEIGHT - 4, text_anchor="end"),
        element("text", y_name, x=_p(0.3), y=10),
    ]


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=_p(x1), y1=y1, x2=_p(x2), y2=y2, class_=class_)


def _p(value: float) -> str:
    return f"{value:.3f}%"


def _plot(parts: Sequence[Content], label: str, kind: str) -> Markup:
    return element(
        "svg",
        *parts,
        class_=f"chart plot {kind}",
        role="img",
        aria_label=label,
        width="100%",
        height=HEIGHT,
    )

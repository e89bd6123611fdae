"""Histograms as inline SVG: bars of equal width, the axis logarithmic where its bins are."""

from __future__ import annotations

from collections.abc import Sequence

from rerank.reporting.markup import Content, Markup, element
from rerank.reporting.wording import count

HEIGHT = 170  # pixels of the whole picture
FOOT = 20  # pixels under the bars, for the numbers of the axis
HEAD = 16
MOST_NUMBERS = 8  # on the axis

Bin = Sequence[int]  # low, high, count: low <= value < high


def histogram(bins: Sequence[Bin], *, label: str, unit: str) -> Markup:
    """One bar a bin, the highest as high as the picture; every bar says its range and count."""
    kept = trimmed(bins)
    most = max((entry[2] for entry in kept), default=0)
    width = 100 / max(len(kept), 1)
    bars = [_bar(at, entry, most, width, unit) for at, entry in enumerate(kept)]
    step = -(-len(kept) // MOST_NUMBERS) or 1
    numbers: list[Content] = [
        element("text", count(entry[0]), x=f"{at * width:.2f}%", y=HEIGHT - 5)
        for at, entry in enumerate(kept)
        if at % step == 0
    ]
    ground = element("line", x1="0%", x2="100%", y1=HEIGHT - FOOT, y2=HEIGHT - FOOT, class_="zero")
    return element(
        "svg",
        ground,
        *bars,
        *numbers,
        class_="chart",
        role="img",
        aria_label=label,
        width="100%",
        height=HEIGHT,
    )


def trimmed(bins: Sequence[Bin]) -> list[Bin]:
    """Without the empty bins before the first value and after the last."""
    filled = [at for at, entry in enumerate(bins) if entry[2]]
    return list(bins[filled[0] : filled[-1] + 1]) if filled else []


def _bar(at: int, entry: Bin, most: int, width: float, unit: str) -> Markup:
    low, high, n = entry
    room = HEIGHT - FOOT - HEAD
    height = max(room * n / most, 1.0) if n else 0.0
    span = f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"
    return element(
        "rect",
        element("title", f"{span} {unit}: {n:,}"),
        x=f"{at * width + 0.2:.2f}%",
        width=f"{max(width - 0.4, 0.2):.2f}%",
        y=round(HEIGHT - FOOT - height, 2),
        height=round(height, 2),
        class_="bar",
    )

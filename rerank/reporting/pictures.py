"""Charts as images that stand alone: for pages that let no inline SVG through.

An image has its own small stylesheet, since no style of the page reaches into it, and its label as
its alternative text. Percentages in it are of the size that the page gives the image.
"""

from __future__ import annotations

import base64
import re

from rerank.reporting.markup import Markup

_TAG = re.compile(r"<(/?)svg\b([^>]*)>")
_LABEL = re.compile(r' aria-label="([^"]*)"')
_HEIGHT = re.compile(r' height="([\d.]+)"')
_CLASS = re.compile(r' class="([^"]*)"')

BLEED = 3  # percent of an image beyond each side, for numbers at the edge: an image cuts them
CHART_STYLE = """
svg { --soft: #5c646d; --faint: #767e87; --grid: #ecebe5; --accent: #1f5f99;
  --better: #1f5f99; --worse: #b23c17; --dot: #33404d; --card: #ffffff; --room: #d9e2ea;
  --s1: #b2701a; --s2: #3d7a4a; --s3: #8a4a8f; --s4: #555d66; --s5: #a8323e; }
text { fill: var(--soft); font: 11px system-ui, "Noto Sans", "Noto Sans CJK KR", sans-serif; }
.grid { stroke: var(--grid); } .zero { stroke: var(--faint); }
.reference { stroke: var(--faint); stroke-dasharray: 3 3; } .oracle { stroke: var(--faint); }
.range { stroke: var(--dot); stroke-width: 2; } .dot { fill: var(--dot); }
.beyond { fill: var(--dot); } .hollow { fill: var(--card); stroke: var(--dot); stroke-width: 1.5; }
.better .range { stroke: var(--better); } .better .dot, .better .beyond { fill: var(--better); }
.worse .range { stroke: var(--worse); } .worse .dot, .worse .beyond { fill: var(--worse); }
rect.better { fill: var(--better); } rect.worse { fill: var(--worse); }
rect.tied { fill: var(--faint); } rect.bar { fill: var(--accent); } .track { fill: var(--room); }
.room { stroke: var(--room); stroke-width: 10; }
.filled { stroke: var(--accent); stroke-width: 10; }
"""
# of the plots alone, which the report's own stylesheet does not know
PLOT_STYLE = """
.series { stroke-width: 2; } circle.series { fill: var(--card); }
.s0 { stroke: var(--accent); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); }
.s3 { stroke: var(--s3); } .s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); }
"""


def pictured(markup: Markup) -> Markup:
    """The markup with every SVG as an image of its own."""
    parts: list[str] = []
    done = start = depth = 0
    for tag in _TAG.finditer(markup):
        if not tag[1]:
            if not depth:
                start = tag.start()
            depth += 1
            continue
        depth -= 1
        if not depth:
            parts += [markup[done:start], _image(markup[start : tag.end()])]
            done = tag.end()
    return Markup("".join([*parts, markup[done:]]))


def _image(svg: str) -> Markup:
    head, body = svg.split(">", 1)
    label, height, class_ = (pattern.search(head) for pattern in (_LABEL, _HEIGHT, _CLASS))
    style = CHART_STYLE + (PLOT_STYLE if class_ and "plot" in class_[1].split() else "")
    whole = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="100%"'
        f"{class_[0] if class_ else ''}><style>{style}</style>"
        f'<svg x="{BLEED}%" width="{100 - 2 * BLEED}%" overflow="visible">{body}</svg>'
    )
    wider = 100 / (100 - 2 * BLEED)
    code = base64.b64encode(whole.encode("utf-8")).decode("ascii")
    # no end tag: an image is one of HTML's void elements
    return Markup(
        f'<img class="chart" alt="{label[1] if label else ""}" '
        f'style="width:{100 * wider:.3f}%;max-width:none;margin:0 -{BLEED * wider:.3f}%;'
        f'height:{height[1] if height else 0}px;display:block" '
        f'src="data:image/svg+xml;base64,{code}">'
    )

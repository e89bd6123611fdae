"""The frontier of quality and cost in the report: a picture, and a table with every verdict."""

from __future__ import annotations

from typing import Any

from rerank.reporting.markup import Markup, element
from rerank.reporting.scatter import HEIGHT, Dot, scatter
from rerank.reporting.table import Cell, Column, Row, Table
from rerank.reporting.wording import (
    bounds,
    confidence_name,
    interval_text,
    number,
    signed,
)

Record = dict[str, Any]

LEGEND = (
    "Dots: configurations, numbered as in the table, with the interval of their mean. Filled: "
    "nothing cheaper is as good. Hollow: dominated, or not distinguishable from a cheaper one. "
    "What costs nothing stands on the left edge. The line is the frontier."
)
MOST_NUMBERS = 24  # configurations; of more, those of the frontier alone are numbered
JOINTS = {"dominated": "by", "not distinguishable": "from"}


def picture(task: Record, frontier: Record) -> Markup:
    """Quality against log cost; dominated and indistinct configurations hollow."""
    few = len(task["rows"]) <= MOST_NUMBERS  # more would lie over each other
    dots = [
        Dot(
            x=row["costs"][frontier["cost"]],
            y=row["mean"],
            interval=bounds(row["interval"]),
            label=str(place) if few or row["status"] == "frontier" else "",
            says=f"{row['name']}: {number(row['mean'])}, {verdict_words(row)}",
            joined=row["status"] == "frontier",
            tone="" if row["status"] == "frontier" else "hollow",
        )
        for place, row in enumerate(task["rows"], 1)
        if row["mean"] is not None
    ]
    on_line = [row["name"] for row in task["rows"] if row["status"] == "frontier"]
    said = f"{frontier['measure']} against {frontier['unit']}; frontier: {', '.join(on_line)}"
    names = {"x_name": frontier["unit"], "y_name": frontier["measure"]}
    return scatter(dots, **names, label=said, steps=True)


STANDALONE = """
text { font: 11px sans-serif; fill: #5c646d; } .grid { stroke: #ecebe5; } .zero { stroke: #767e87; }
.reference { stroke: #767e87; stroke-dasharray: 3 3; } .dot { fill: #33404d; }
.hollow { fill: #ffffff; stroke: #33404d; stroke-width: 1.5; } .title { font-size: 14px; }
"""
WIDTH, MARGIN, LINE = 900, 16, 16  # pixels


def standalone_picture(task: Record, frontier: Record) -> str:
    """The picture as an SVG file of its own, its numbers told below it."""
    names = [f"{place}  {row['name']}" for place, row in enumerate(task["rows"], 1)]
    half = -(-len(names) // 2)
    top = MARGIN + 24
    below = top + HEIGHT + 2 * LINE
    legend = [
        element("text", name, x=MARGIN + (at // half) * WIDTH // 2, y=below + (at % half) * LINE)
        for at, name in enumerate(names)
    ]
    title = f"{task['title'] or task['task']}: {frontier['measure']} against {frontier['unit']}"
    chart = element("svg", picture(task, frontier), x=MARGIN, y=top, width=WIDTH - 2 * MARGIN)
    return element(
        "svg",
        element("style", Markup(STANDALONE)),
        element("rect", width="100%", height="100%", fill="#ffffff"),
        element("text", title, x=MARGIN, y=MARGIN + 8, class_="title"),
        *(chart, *legend),
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=below + half * LINE,
    )


def frontier_table(task: Record, frontier: Record) -> Table:
    """Every configuration, cheapest first, with who dominates it."""
    columns = (
        *(Column("No.", "number"), Column("Configuration")),
        Column(frontier["measure"], "number"),
        Column(confidence_name(frontier["confidence"]), "number"),
        *(Column(frontier["unit"].capitalize(), "number"), Column("Pairs a query", "number")),
        *(Column("Verdict"), Column("Delta to that one", "number"), Column("n", "number")),
    )
    rows = [_frontier_row(place, row, frontier) for place, row in enumerate(task["rows"], 1)]
    return Table(columns, rows)


def _frontier_row(place: int, row: Record, frontier: Record) -> Row:
    cost = row["costs"][frontier["cost"]]
    best = row["status"] == "frontier"
    delta = "" if row["delta"] is None else signed(row["delta"])
    between = None if row["delta"] is None else interval_text(row["delta_interval"], delta=True)
    labels = ("served",) if row.get("served") else ()
    cells = (
        f"{place}",
        Cell(row["name"], strong=best, labels=labels),
        number(row["mean"]),
        interval_text(row["interval"]),
        f"{cost:.4g}",
        f"{row['costs']['pairs']:.4g}",
        verdict_words(row),
        Cell(delta, note=between or ""),
        f"{row['n']:,}",
    )
    return Row(cells, tone="" if best else "small")


def verdict_words(row: Record) -> str:
    """frontier; dominated by X; not distinguishable from X."""
    if row["by"] is None:
        return str(row["status"])
    return f"{row['status']} {JOINTS[row['status']]} {row['by']}"


def speed_notes(task: Record) -> list[str]:
    """Where each model's speed comes from."""
    kinds = {"measured": "forwards alone", "receipts": "whole shards of the replay"}
    found = [
        f"{name}: {speed['pairs_per_second']:,.1f} pairs/s, {kinds[speed['kind']]} "
        f"({speed['source']})"
        for name, speed in task["speeds"].items()
    ]
    return found + list(task["notes"])

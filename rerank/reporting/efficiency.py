"""The section on efficiency: the frontier of quality and cost, and what was measured."""

from __future__ import annotations

from typing import Any

from rerank.reporting import markdown
from rerank.reporting.frontier import LEGEND, frontier_table, picture, speed_notes
from rerank.reporting.markup import Content, Markup, bullets, element, join, paragraph
from rerank.reporting.measurements import (
    conditions_line,
    curve_table,
    curves_of,
    latency_table,
    measured_html,
    name_of,
)
from rerank.reporting.schema import Efficiency, Report
from rerank.reporting.table import html_table, markdown_table

Record = dict[str, Any]

NOTHING = (
    "Nothing is on file: rerank frontier compares depths and cascades by the scores that are "
    "there, rerank measure times the models."
)


def efficiency_html(report: Report) -> Markup:
    facts = _facts(report)
    parts: list[Content] = [_notes_html(facts)]
    for task, frontier in _tasks(facts):
        parts += [
            element("h3", f"Frontier: {task['title'] or task['task']}"),
            element("figure", picture(task, frontier)),
            paragraph(LEGEND, class_="fine"),
            html_table(frontier_table(task, frontier)),
            bullets(speed_notes(task), class_="fine"),
        ]
    for record in facts["measured"]:
        parts += measured_html(record)
    return join(parts) if len(parts) > 1 or facts["notes"] else paragraph(NOTHING)


def efficiency_markdown(report: Report) -> str:
    facts = _facts(report)
    parts = [markdown.bullets(facts["notes"])] if facts["notes"] else []
    for task, frontier in _tasks(facts):
        parts += [
            markdown.heading(3, f"Frontier: {task['title'] or task['task']}"),
            markdown_table(frontier_table(task, frontier)),
            markdown.bullets(speed_notes(task)),
        ]
    for record in facts["measured"]:
        parts += [
            markdown.heading(3, name_of(record)),
            markdown.paragraph(conditions_line(record)),
            *(markdown_table(curve_table(curve)) for _, curve in curves_of(record)),
            markdown_table(latency_table(record)) if record["latency"] else "",
        ]
    return markdown.blocks(*parts) or NOTHING


def _facts(report: Report) -> Efficiency:
    nothing: Efficiency = {"frontier": None, "measured": [], "notes": []}
    return report.get("efficiency", nothing)


def _tasks(facts: Efficiency) -> list[tuple[Record, Record]]:
    """(task, the frontier it is part of)."""
    frontier = facts["frontier"]
    return [] if frontier is None else [(task, frontier) for task in frontier["tasks"]]


def _notes_html(facts: Efficiency) -> Markup | None:
    return bullets(facts["notes"], class_="warnings")

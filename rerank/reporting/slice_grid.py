"""Slices x systems: the primary measure per slice with its n, and what the deltas allow to say."""

from __future__ import annotations

from rerank.reporting import markdown
from rerank.reporting.markup import Markup, element, join, paragraph
from rerank.reporting.schema import Report
from rerank.reporting.selection import (
    mixed_judgments,
    reading_of,
    slice_delta_of,
    slice_keys,
    slice_mean_of,
    systems_of_task,
    task_title,
)
from rerank.reporting.table import Cell, Column, Row, Table, html_table, markdown_table
from rerank.reporting.wording import Reading, count, interval_text, number, signed

NOTHING = "The suite names no slices."
MARKS: dict[Reading, str] = {"better": "▲", "worse": "▼"}


def slices_html(report: Report) -> Markup:
    tasks = _sliced_tasks(report)
    if not tasks:
        return paragraph(NOTHING)
    tables = [
        join(
            [
                element("h3", task_title(report, task)),
                paragraph(mixed) if (mixed := mixed_judgments(report, task)) else None,
                html_table(slice_table(report, task)),
            ]
        )
        for task in tasks
    ]
    return join([paragraph(legend(report)), *tables])


def slices_markdown(report: Report) -> str:
    tasks = _sliced_tasks(report)
    if not tasks:
        return NOTHING
    tables = [
        markdown.blocks(
            markdown.heading(3, task_title(report, task)),
            markdown.paragraph(mixed_judgments(report, task)),
            markdown_table(slice_table(report, task)),
        )
        for task in tasks
    ]
    return markdown.blocks(markdown.paragraph(legend(report)), *tables)


def _sliced_tasks(report: Report) -> list[str]:
    return [task["name"] for task in report["tasks"] if slice_keys(report, task["name"])]


def legend(report: Report) -> str:
    return (
        f"{report['suite']['primary']} per slice; under it the mean paired delta to the baseline. "
        "▲ and ▼: the delta's interval lies above or below 0, and its corrected p-value below "
        "alpha. No mark: no difference shown. "
        f"Grey: fewer than {_smallest(report)} queries, too few to read."
    )


def _smallest(report: Report) -> int:
    return report["suite"].get("min_slice_n", 5)


def slice_table(report: Report, task: str) -> Table:
    systems = systems_of_task(report, task)
    columns = (
        Column("Slice"),
        Column("n", "number"),
        *(Column(system, "number") for system in systems),
    )
    return Table(
        columns, [_slice_row(report, task, key, systems) for key in slice_keys(report, task)]
    )


def _slice_row(report: Report, task: str, key: tuple[str, str], systems: list[str]) -> Row:
    found = [slice_mean_of(report, task, system, key) for system in systems]
    sizes = sorted({entry["n"] for entry in found if entry})
    size = " to ".join(count(end) for end in dict.fromkeys([sizes[0], sizes[-1]]))
    cells = [_slice_cell(report, task, key, system) for system in systems]
    small = sizes[-1] < _smallest(report)
    return Row((f"{key[0]}={key[1]}", size, *cells), tone="small" if small else "")


def _slice_cell(report: Report, task: str, key: tuple[str, str], system: str) -> Cell:
    found = slice_mean_of(report, task, system, key)
    mean = number(found["mean"] if found else None)
    compared = slice_delta_of(report, task, system, key)
    if compared is None:
        interval = interval_text(found["interval"] if found else None)
        return Cell(mean, note=interval)
    reading = reading_of(report, compared)
    mark = f"{MARKS[reading]} " if reading in MARKS else ""
    return Cell(mean, note=f"{mark}{signed(compared['mean'])}", tone=reading)

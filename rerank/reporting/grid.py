"""A table of values rather than texts: sorted, marked, drawn, and written as CSV, JSON or LaTeX.

What is shown is rounded; files for machines (CSV, JSON) hold every digit. The best value of a
column and those within its interval are marks beside the value, never a change of it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rerank.reporting import markdown
from rerank.reporting.markup import Markup
from rerank.reporting.paper_tables import LATEX_HEAD, latex_escape, latex_frame
from rerank.reporting.table import Cell, Column, Row, Table
from rerank.reporting.visible import clipped
from rerank.reporting.wording import MISSING, count, exists, number, p_text, share, signed

Value = str | float | int | bool | None
Kind = Literal["text", "prose", "code", "number", "signed", "share", "count", "p", "picture"]
BEST, NEAR = "best", "near"
SIGNS = {BEST: "★", NEAR: "≈"}  # after a value: the best of its column; within the best's interval
NUMERIC = ("number", "signed", "share", "count", "p")
SHOWN_NAME = 80  # characters of a text in a cell of LaTeX or Markdown


@dataclass(frozen=True)
class GridColumn:
    """key: of the rows' mappings, and of CSV and JSON; name: over the column. digits: of numbers.

    A column of pictures has its texts in `Grid.pictures` and is left out of files.
    """

    key: str
    name: str
    kind: Kind = "text"
    digits: int = 4
    head: Markup | None = None


@dataclass(frozen=True)
class Grid:
    """rows: key -> value, None where there is none.

    marks: (row number, key) -> BEST or NEAR; tones: the same -> a class of colour; pictures: key ->
    one a row; notes: sentences that belong under the table.
    """

    name: str
    columns: tuple[GridColumn, ...]
    rows: tuple[Mapping[str, Value], ...]
    marks: Mapping[tuple[int, str], str] = field(default_factory=dict)
    tones: Mapping[tuple[int, str], str] = field(default_factory=dict)
    pictures: Mapping[str, Sequence[Markup]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def valued(self) -> tuple[GridColumn, ...]:
        """The columns that hold values."""
        return tuple(column for column in self.columns if column.kind != "picture")


def shown(column: GridColumn, value: Value) -> str:
    """A value as it stands in a cell; a dash for none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    if isinstance(value, str) or column.kind not in NUMERIC:
        return str(value)
    if column.kind == "count":
        return count(round(value))
    if column.kind == "share":
        return share(float(value))
    if column.kind == "p":
        return p_text(float(value))
    return (signed if column.kind == "signed" else number)(float(value), column.digits)


def best_marks(
    rows: Sequence[Mapping[str, Value]],
    key: str,
    *,
    more_is_better: bool,
    reach: Mapping[int, tuple[float, float]] | None = None,
) -> dict[tuple[int, str], str]:
    """BEST where the column's best value stands, NEAR where a value lies within its interval.

    reach: row number -> interval of that row's value; without one nothing is near.
    """
    found = {
        at: float(value)
        for at, row in enumerate(rows)
        if isinstance(value := row.get(key), int | float) and exists(float(value))
    }
    if not found:
        return {}
    best = (max if more_is_better else min)(found.values())
    marks = {(at, key): BEST for at, value in found.items() if value == best}
    ends = [(reach or {}).get(at) for at, _ in marks]
    for low, high in (pair for pair in ends if pair is not None):
        for at, value in found.items():
            if value != best and (value >= low if more_is_better else value <= high):
                marks[at, key] = NEAR
    return marks


def sorted_rows(
    rows: Iterable[Mapping[str, Value]], key: str, *, descending: bool = True
) -> list[Mapping[str, Value]]:
    """Rows by a column, those without a value last, equal ones in their order."""
    known: list[Mapping[str, Value]] = []
    unknown: list[Mapping[str, Value]] = []
    for row in rows:
        (unknown if row.get(key) is None else known).append(row)
    return sorted(known, key=lambda row: row[key], reverse=descending) + unknown  # type: ignore[arg-type,return-value]


def with_signs(grid: Grid) -> Grid:
    """The grid with every value as the text that is shown, its mark behind it."""
    rows = tuple(
        {column.key: _signed_text(grid, at, column, row.get(column.key)) for column in grid.valued}
        for at, row in enumerate(grid.rows)
    )
    return replace(grid, rows=rows)


def _signed_text(grid: Grid, at: int, column: GridColumn, value: Value) -> str:
    mark = grid.marks.get((at, column.key))
    text = shown(column, value)
    return f"{text} {SIGNS[mark]}" if mark else text


def grid_table(grid: Grid) -> Table:
    """The grid as a table of the report, with its pictures."""
    columns = tuple(
        Column(
            column.name,
            "number" if column.kind in NUMERIC else column.kind,  # type: ignore[arg-type]
            column.head,
        )
        for column in grid.columns
    )
    rows = [
        Row(tuple(_cell(grid, at, column, row) for column in grid.columns))
        for at, row in enumerate(grid.rows)
    ]
    return Table(columns, rows)


def _cell(grid: Grid, at: int, column: GridColumn, row: Mapping[str, Value]) -> Cell:
    if column.kind == "picture":
        return Cell(picture=grid.pictures[column.key][at])
    return Cell(
        clipped(_signed_text(grid, at, column, row.get(column.key))),
        strong=grid.marks.get((at, column.key)) == BEST,
        tone=grid.tones.get((at, column.key), ""),
    )


def grid_csv(grid: Grid) -> bytes:
    """RFC 4180 in UTF-8, one header line of keys; nothing rounded, empty where no value is."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink)
    keys = [column.key for column in grid.valued]
    writer.writerow(keys)
    for row in grid.rows:
        writer.writerow(["" if (value := row.get(key)) is None else value for key in keys])
    return sink.getvalue().encode("utf-8", "surrogatepass")


def grid_json(grid: Grid) -> bytes:
    """Strict JSON: columns, rows, marks and notes."""
    value = {
        "name": grid.name,
        "columns": [{"key": column.key, "name": column.name} for column in grid.valued],
        "rows": [
            {column.key: _finite(row.get(column.key)) for column in grid.valued}
            for row in grid.rows
        ],
        "marks": [
            {"row": at, "column": key, "mark": mark} for (at, key), mark in grid.marks.items()
        ],
        "notes": list(grid.notes),
    }
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    return (text + "\n").encode("utf-8", "surrogatepass")


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def grid_markdown(grid: Grid) -> bytes:
    """A Markdown table with the notes under it: best in bold, near ones in italics."""
    rows = [
        [_marked(grid, at, column, row, "**", "*") for column in grid.valued]
        for at, row in enumerate(grid.rows)
    ]
    drawn = markdown.table(
        [markdown.escape(column.name) for column in grid.valued],
        [column.kind in NUMERIC for column in grid.valued],
        rows,
    )
    return (markdown.blocks(drawn, *map(markdown.paragraph, grid.notes)) + "\n").encode("utf-8")


def _marked(
    grid: Grid, at: int, column: GridColumn, row: Mapping[str, Value], best: str, near: str
) -> str:
    text = markdown.escape(clipped(shown(column, row.get(column.key)), SHOWN_NAME))
    sign = {BEST: best, NEAR: near}.get(grid.marks.get((at, column.key), ""), "")
    return f"{sign}{text}{sign}" if text else text


def grid_latex(grid: Grid) -> bytes:
    """A table environment with booktabs: best in bold, near ones underlined."""
    columns = "".join("r" if column.kind in NUMERIC else "l" for column in grid.valued)
    head = " & ".join(latex_escape(column.name) for column in grid.valued)
    rows = [
        " & ".join(_latex_cell(grid, at, column, row) for column in grid.valued)
        for at, row in enumerate(grid.rows)
    ]
    caption = " ".join(grid.notes) or grid.name
    return (LATEX_HEAD + latex_frame(caption, columns, head, rows)).encode("utf-8")


def _latex_cell(grid: Grid, at: int, column: GridColumn, row: Mapping[str, Value]) -> str:
    text = latex_escape(clipped(shown(column, row.get(column.key)), SHOWN_NAME))
    mark = grid.marks.get((at, column.key))
    command = {BEST: "textbf", NEAR: "underline"}.get(mark or "")
    return rf"\{command}{{{text}}}" if command else text


# ending -> (MIME type, what writes the file)
GRID_FILES = {
    "csv": ("text/csv", grid_csv),
    "tex": ("text/x-tex", grid_latex),
    "md": ("text/markdown", grid_markdown),
    "json": ("application/json", grid_json),
}

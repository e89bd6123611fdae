"""One table, two looks: the same cells as HTML and as Markdown, so the numbers are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerank.reporting import markdown
from rerank.reporting.markup import Markup, chip, element, join, spoken

Kind = Literal["text", "number", "prose", "code", "picture"]


@dataclass(frozen=True)
class Column:
    """`head` stands over a column of pictures (an axis); Markdown leaves pictures out."""

    name: str
    kind: Kind = "text"
    head: Markup | None = None


@dataclass(frozen=True)
class Cell:
    """text: what it says; note: said smaller after it; labels: chips; tone: a class of colour."""

    text: str = ""
    note: str = ""
    labels: tuple[str, ...] = ()
    tone: str = ""
    strong: bool = False
    picture: Markup | None = None


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell | str, ...]
    tone: str = ""


def row(*cells: Cell | str, tone: str = "") -> Row:
    return Row(cells, tone)


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    compact: bool = False  # no wider than its content needs


def html_table(table: Table) -> Markup:
    """The table in a box that scrolls on its own where the screen is too narrow."""
    heads = [
        element("th", column.head or column.name, class_=column.kind, scope="col")
        for column in table.columns
    ]
    body = [
        element("tr", *_html_cells(table.columns, entry), class_=entry.tone or None)
        for entry in table.rows
    ]
    inner = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *body),
    )
    return element(
        "div", inner, class_="scroll compact" if table.compact else "scroll", tabindex="0"
    )


def _html_cells(columns: Sequence[Column], entry: Row) -> list[Markup]:
    cells = [_cell(cell) for cell in entry.cells]
    return [
        _html_cell(column, cell, first=position == 0)
        for position, (column, cell) in enumerate(zip(columns, cells, strict=True))
    ]


def _html_cell(column: Column, cell: Cell, *, first: bool) -> Markup:
    text = spoken(cell.text) if column.kind in ("text", "prose") else element("span", cell.text)
    if column.kind == "code":
        text = element("code", cell.text)
    content = [
        cell.picture,
        (element("strong", text) if cell.strong else text) if cell.text else None,
        *(join([" ", chip(label)]) for label in cell.labels),
        element("small", cell.note) if cell.note else None,
    ]
    classes = f"{column.kind} {cell.tone}".strip()
    return element(
        "th" if first else "td", *content, class_=classes, scope="row" if first else None
    )


def markdown_table(table: Table) -> str:
    kept = [index for index, column in enumerate(table.columns) if column.kind != "picture"]
    columns = [table.columns[index] for index in kept]
    return markdown.table(
        [markdown.escape(column.name) for column in columns],
        [column.kind == "number" for column in columns],
        [[_markdown_cell(_cell(entry.cells[index])) for index in kept] for entry in table.rows],
    )


def _markdown_cell(cell: Cell) -> str:
    text = markdown.escape(cell.text)
    parts = [f"**{text}**" if cell.strong and text else text]
    parts += [f"*{markdown.escape(label)}*" for label in cell.labels]
    parts += [f"({markdown.escape(cell.note)})"] if cell.note else []
    return " ".join(part for part in parts if part)


def _cell(cell: Cell | str) -> Cell:
    return Cell(cell) if isinstance(cell, str) else cell

"""Grids and their files. Oracle: Python's own csv and json readers, and tables written by hand."""

from __future__ import annotations

import csv
import io
import json

import pytest

from rerank.reporting.grid import (
    BEST,
    NEAR,
    Grid,
    GridColumn,
    best_marks,
    grid_csv,
    grid_json,
    grid_latex,
    grid_markdown,
    grid_table,
    shown,
    sorted_rows,
)
from rerank.reporting.markup import Markup
from rerank.reporting.pictures import pictured
from rerank.reporting.plots import columns, legend, lines
from rerank.reporting.table import html_table
from tests.app.stores import HOSTILE

ROWS = ({"name": "a|b & c", "value": 0.123456789, "n": 3}, {"name": "x", "value": None, "n": None})
GRID = Grid(
    name="g",
    columns=(
        GridColumn("name", "Name"),
        GridColumn("value", "V_1", "number"),
        GridColumn("n", "n", "count"),
    ),
    rows=ROWS,
    marks={(0, "value"): BEST},
    notes=("50% of it.",),
)


def test_csv_holds_every_digit_and_is_read_back() -> None:
    found = list(csv.DictReader(io.StringIO(grid_csv(GRID).decode("utf-8"), newline="")))
    assert found == [
        {"name": "a|b & c", "value": "0.123456789", "n": "3"},
        {"name": "x", "value": "", "n": ""},
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_csv_and_json_keep_any_text(text: str) -> None:
    """Byte for byte, whatever it is: both are read by machines."""
    grid = Grid("g", (GridColumn("name", "Name"),), ({"name": text},))
    rows = list(csv.reader(io.StringIO(grid_csv(grid).decode("utf-8"), newline="")))
    assert rows == [["name"], [text]]
    assert json.loads(grid_json(grid))["rows"] == [{"name": text}]


def test_json_is_strict_and_has_marks_and_notes() -> None:
    nan = Grid("g", (GridColumn("value", "V", "number"),), ({"value": float("nan")},))
    assert json.loads(grid_json(nan))["rows"] == [{"value": None}]
    found = json.loads(grid_json(GRID))
    assert found["marks"] == [{"row": 0, "column": "value", "mark": "best"}]
    assert found["notes"] == ["50% of it."]


def test_latex_and_markdown_by_hand() -> None:
    """Rounded, escaped, the best in bold."""
    latex = grid_latex(GRID).decode("utf-8")
    assert r"a\textbar{}b \& c & \textbf{0.1235} & 3 \\" in latex
    assert r"x & — & — \\" in latex
    assert r"Name & V\_1 & n \\" in latex
    assert r"\caption{50\% of it.}" in latex
    assert r"\begin{tabular}{lrr}" in latex
    assert grid_markdown(GRID).decode("utf-8") == (
        "| Name | V_1 | n |\n| --- | ---: | ---: |\n"
        "| a&#124;b & c | **0.1235** | 3 |\n| x | — | — |\n\n50% of it.\n"
    ).replace(" & c", " &amp; c")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("number", 0.5, "0.5000"),
        ("signed", 0.5, "+0.5000"),
        ("share", 0.0001, "<0.1%"),
        ("count", 12000, "12,000"),
        ("p", 0.0001, "p < 0.001"),
        ("number", float("inf"), "—"),
        ("text", 7, "7"),
    ],
)
def test_how_values_are_shown(kind: str, value: float, text: str) -> None:
    assert shown(GridColumn("k", "K", kind), value) == text


def test_marks_of_a_column() -> None:
    """0.80 is best, its interval begins at 0.70: 0.72 is near, 0.69 is not."""
    rows = [{"v": 0.80}, {"v": 0.72}, {"v": 0.69}, {"v": None}, {"v": 0.80}]
    marks = best_marks(rows, "v", more_is_better=True, reach={0: (0.70, 0.90)})
    assert marks == {(0, "v"): BEST, (4, "v"): BEST, (1, "v"): NEAR}
    marks = best_marks(rows, "v", more_is_better=False, reach={2: (0.6, 0.75)})
    assert marks == {(2, "v"): BEST, (1, "v"): NEAR}
    assert best_marks([{"v": None}], "v", more_is_better=True) == {}


def test_rows_without_a_value_come_last_both_ways() -> None:
    rows = [{"v": None}, {"v": 1}, {"v": 2}]
    assert [row["v"] for row in sorted_rows(rows, "v")] == [2, 1, None]
    assert [row["v"] for row in sorted_rows(rows, "v", descending=False)] == [1, 2, None]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_table_of_any_text_has_no_tag_of_its_own(text: str) -> None:
    """The only tags are those of a table of one cell."""
    grid = Grid("g", (GridColumn("name", "Name"),), ({"name": text},))
    html = html_table(grid_table(grid))
    clean = html_table(grid_table(Grid("g", (GridColumn("name", "Name"),), ({"name": "plain"},))))
    assert html.count("<") == clean.count("<")
    assert "\x00" not in html
    assert "\u202e" not in html


def test_a_picture_is_an_image_of_its_own() -> None:
    """Nested and several SVGs: each outer one becomes one img; what stands between is kept."""
    label = 'class="chart" role="img" aria-label="a &lt; b"'
    svg = f'<svg {label} width="100%" height="26"><svg></svg></svg>'
    found = pictured(Markup(f"<p>x</p>{svg}<i>y</i>{svg}"))
    assert found.count("<img ") == 2
    assert "<svg" not in found
    assert 'alt="a &lt; b"' in found
    assert "height:26px" in found
    assert found.startswith("<p>x</p><img ")
    assert "><i>y</i><img " in found


def test_plots_place_values_in_order() -> None:
    """Heights of bars as their counts; lines end where their values do."""
    drawn = columns([("1", 10), ("2", 5)], x_name="x", y_name="y", label="l")
    assert drawn.count("<rect") == 2
    heights = [float(part.split('"')[0]) for part in drawn.split('height="')[2:4]]
    assert heights[0] == pytest.approx(2 * heights[1], rel=0.01)
    series = {"a": [(1.0, 0.2), (10.0, 1.0)], "b": [(10.0, 0.0)]}
    drawn = lines(series, x_name="x", y_name="y", label="l")
    assert drawn.count("<circle") == 3
    assert "a: 0.2000 (1)" in drawn
    assert legend(["<b>"]).count("<b>") == 0

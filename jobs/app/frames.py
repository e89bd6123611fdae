"""A grid as the data frame that the browser sorts: values beneath, what is shown above them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from rerank.reporting.grid import BEST, NEAR, NUMERIC, SIGNS, Grid, GridColumn, Value, shown
from rerank.reporting.visible import clipped, visible

WIDE = 14  # columns from which the first one is kept in sight
SHOWN = 200  # characters of a text in a cell
STYLES = {
    BEST: "font-weight: 700; background-color: rgba(31, 95, 153, 0.18)",
    NEAR: "background-color: rgba(31, 95, 153, 0.08)",
    "better": "color: #1f6fb5",
    "worse": "color: #c24a20",
}


def styled(grid: Grid) -> Any:
    """A pandas Styler: columns named by key, missing values empty, marks as signs and colours."""
    frame = pd.DataFrame(
        {
            column.key: pd.Series(
                [_value(column, row.get(column.key)) for row in grid.rows],
                dtype="float64" if column.kind in NUMERIC else "str",
            )
            for column in grid.valued
        }
    )
    marks = dict(grid.marks) | {place: tone for place, tone in grid.tones.items() if tone in STYLES}
    style = frame.style
    for column in grid.valued:
        if column.kind not in NUMERIC:
            continue
        style = style.format(partial(_text, column, ""), subset=[column.key])
        for at, key in marks:
            if key == column.key and (sign := SIGNS.get(marks[at, key])):
                cell = pd.IndexSlice[[at], [key]]
                style = style.format(partial(_text, column, f" {sign}"), subset=cell)
    if marks:
        style = style.apply(_styles, marks=marks, axis=None)
    return style


def _text(column: GridColumn, sign: str, value: float) -> str:
    """What is shown of a number; NaN is no value."""
    return shown(column, None if value != value else value) + sign


def _styles(frame: pd.DataFrame, marks: dict[tuple[int, str], str]) -> pd.DataFrame:
    found = pd.DataFrame("", index=frame.index, columns=frame.columns)
    for (at, key), mark in marks.items():
        if key in found.columns:
            found.at[at, key] = STYLES[mark]
    return found


def _value(column: GridColumn, value: Value) -> Value:
    """A number as it is; a text without what is invisible, and cut where it is very long."""
    if column.kind in NUMERIC:
        return float("nan") if value is None else float(value)
    return "" if value is None else clipped(visible(str(value)), SHOWN)


def column_config(grid: Grid) -> dict[str, Any]:
    """Column heads, the first column of a wide table kept in sight, widths by kind."""
    import streamlit as st

    return {
        column.key: st.column_config.Column(
            visible(column.name),
            pinned=at == 0 and len(grid.valued) > WIDE,
            width="medium" if column.kind == "prose" else None,
        )
        for at, column in enumerate(grid.valued)
    }

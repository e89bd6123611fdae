"""Controls that live in the address of the page, so that every view has a permanent link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st

from jobs.app.frames import column_config, styled
from jobs.app.wording import Words
from rerank.reporting.grid import GRID_FILES, Grid, grid_table
from rerank.reporting.markup import Markup, element
from rerank.reporting.pictures import pictured
from rerank.reporting.table import html_table
from rerank.reporting.visible import clipped, visible
from rerank.reporting.wording import MISSING

ROW_PIXELS, HEAD_PIXELS = 35, 38
FILE_KINDS = {"csv": "CSV", "tex": "LaTeX", "md": "Markdown", "json": "JSON"}
MOST_ROWS = 22  # of a data frame before it scrolls by itself


def pick(label: str, options: Mapping[str, str], key: str, default: str) -> str:
    """One of the options (value -> what is shown); the value stands in the address under `key`."""
    values = list(options)
    wanted = st.query_params.get(key, default)
    wanted = wanted if wanted in options else default
    index = values.index(wanted) if wanted in options else 0
    shown = {value: visible(clipped(text, 120)) for value, text in options.items()}
    value = st.selectbox(label, values, index=index, format_func=shown.__getitem__, key=f"c-{key}")
    return remember(key, value if value is not None else values[index], default)


def pick_tab(label: str, options: Mapping[str, str], key: str, default: str) -> str:
    """The same as a row of buttons."""
    wanted = st.query_params.get(key, default)
    value = st.segmented_control(
        label,
        list(options),
        default=wanted if wanted in options else default,
        format_func=options.__getitem__,
        key=f"c-{key}",
        required=True,
        label_visibility="collapsed",
    )
    return remember(key, value or default, default)


def pick_many(label: str, options: Sequence[str], key: str) -> list[str]:
    """Some of the options; none chosen means all."""
    wanted = [name for name in st.query_params.get_all(key) if name in options]
    shown = {name: visible(clipped(name, 120)) for name in options}
    found = st.multiselect(
        label, list(options), default=wanted, format_func=shown.__getitem__, key=f"c-{key}"
    )
    if found != st.query_params.get_all(key):
        if found:
            st.query_params[key] = found
        elif key in st.query_params:
            del st.query_params[key]
    return list(found)


def type_in(label: str, key: str) -> str:
    """A line of text."""
    value = st.text_input(label, value=st.query_params.get(key, ""), key=f"c-{key}")
    return remember(key, value or "", "")


def remember(key: str, value: str, default: str) -> str:
    """Write a value into the address, unless it is the default; the value."""
    if value == default:
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get(key) != value:
        st.query_params[key] = value
    return value


def draw(markup: Markup | None) -> None:
    """Markup of the report's own builder, which escapes whatever is data."""
    if markup is not None:
        st.html(element("div", pictured(markup), class_="rr"))


def draw_title(text: str) -> None:
    """A heading that is text, whatever it holds."""
    draw(element("h3", visible(text)))


def draw_text(*sentences: str) -> None:
    """Sentences in small print, shown as they are."""
    st.html(element("div", *(element("p", text, class_="fine") for text in sentences), class_="rr"))


def draw_grid(grid: Grid, words: Words) -> None:
    """The grid as a table of the report, its notes, and its files."""
    if not grid.rows:
        draw_text(words.of("empty_table"))
        return
    draw(html_table(grid_table(grid)))
    if grid.notes:
        draw_text(*grid.notes)
    downloads(grid, words)


def sortable(
    grid: Grid, words: Words, key: str, *, open_row: Callable[[int], None] | None = None
) -> None:
    """The grid as a table that the browser sorts. open_row: called with the number of a row that
    is selected, before the page is drawn again."""
    if not grid.rows:
        draw_text(words.of("empty_table"))
        return
    height = HEAD_PIXELS + ROW_PIXELS * min(len(grid.rows), MOST_ROWS)

    def selected() -> None:
        rows = st.session_state[key].selection.rows
        if rows and open_row is not None:
            open_row(rows[0])

    st.dataframe(
        styled(grid),
        column_config=column_config(grid),
        hide_index=True,
        height=height,
        key=key,
        on_select=selected if open_row else "ignore",
        selection_mode="single-row",
        placeholder=MISSING,
    )


def downloads(grid: Grid, words: Words) -> None:
    """The grid's files, each made when it is asked for."""
    with st.popover(words.of("download")):
        for ending, (mime, write) in GRID_FILES.items():
            st.download_button(
                FILE_KINDS[ending],
                partial(write, grid),
                file_name=f"{grid.name}.{ending}",
                mime=mime,
                key=f"d-{grid.name}-{ending}",
                on_click="ignore",
            )

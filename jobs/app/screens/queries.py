"""The queries' screen: found by what happened to them, and one of them with both rankings."""

from __future__ import annotations

from functools import partial

import streamlit as st

from jobs.app.controls import (
    downloads,
    draw,
    draw_text,
    draw_title,
    pick,
    sortable,
    type_in,
)
from jobs.app.material import QueryMaterial, query_material
from jobs.app.reading import Aggregates
from jobs.app.screens.compare import pick_pair
from jobs.app.views.finding import (
    CHOICES,
    PAGE,
    Search,
    find_queries,
    queries_grid,
    slice_choices,
)
from jobs.app.views.rankings import ranking, ranking_html, reasons, test_case
from jobs.app.wording import Words
from rerank.reporting.grid import Grid, GridColumn, grid_csv, grid_table
from rerank.reporting.markup import bullets, element, spoken
from rerank.reporting.table import html_table
from rerank.reporting.visible import clipped

DEPTHS = {"10": "10", "20": "20", "50": "50", "100": "100"}
CASES = 100  # queries of a selection that are exported with their texts at once
ONE_ORDER = ("trec", "docid_asc", "input")  # tie rules that are an order


def show(data: Aggregates, words: Words) -> None:
    found = pick_pair(data, words, every=True)
    if found is None:
        return
    first, second, task, measure = found
    opened = (st.query_params.get("qtask") or task, st.query_params.get("query"))
    if opened[0] in data.tasks and opened[1]:
        _one(data, opened[0], opened[1], (first, second), measure, words)
        return
    search = _search(data, first, second, task, measure, words)
    _list(data, search, words)


def _search(
    data: Aggregates, first: str, second: str, task: str, measure: str, words: Words
) -> Search:
    columns = st.columns([2, 2, 3])
    with columns[0]:
        shown = {name: words.of(f"choice_{name}") for name in CHOICES}
        choice = pick(words.of("choice"), shown, "choice", "regressions")
    with columns[1]:
        slices = slice_choices(data, [task] if task else data.tasks)
        options = {"": words.of("any_slice"), **{name: name for name in slices}}
        chosen = pick(words.of("slice"), options, "slice", "")
    with columns[2]:
        text = type_in(words.of("search"), "text")
    return Search(task, first, second, measure, choice, text, chosen)


def _list(data: Aggregates, search: Search, words: Words) -> None:
    rows, total = find_queries(data, search)
    if not total:
        st.info(words.of("found_none"))
        return
    parts = -(-total // PAGE)
    part = 1
    if parts > 1:
        part = int(pick(words.of("page_number"), {f"{n}": f"{n}" for n in range(1, parts + 1)},
                        "part", "1"))  # fmt: skip
    if part > 1:
        rows, _ = find_queries(data, search, page=part - 1)
    grid = queries_grid(rows, search, words)
    first = PAGE * (part - 1)
    draw_text(words.of("found", f"{total:,}", f"{first + 1:,}", f"{first + len(grid.rows):,}"))
    sortable(grid, words, f"list-{hash((search, part))}", open_row=partial(_open, grid))
    left, middle, right = st.columns([1, 2, 2])
    with left:
        downloads(grid, words)
    with middle:
        st.download_button(
            words.of("export_rows", f"{total:,}"),
            partial(_all_rows, data, search, words),
            file_name="queries-all.csv",
            mime="text/csv",
            key="d-all",
            on_click="ignore",
        )
    with right:
        st.download_button(
            words.of("export_cases", min(total, CASES)),
            partial(_cases, data, search),
            file_name="candidates.jsonl",
            mime="application/jsonl",
            key="d-cases",
            on_click="ignore",
        )


def _open(grid: Grid, row: int) -> None:
    """Put the query of a row into the address."""
    st.query_params["query"] = str(grid.rows[row]["query_id"])
    st.query_params["qtask"] = str(grid.rows[row]["task"])


def _close() -> None:
    for key in ("query", "qtask"):
        st.query_params.pop(key, None)


def _all_rows(data: Aggregates, search: Search, words: Words) -> bytes:
    rows, _ = find_queries(data, search, everything=True)
    return grid_csv(queries_grid(rows, search, words))


def _cases(data: Aggregates, search: Search) -> bytes:
    """The first queries of a selection, one line of frozen candidates each."""
    rows, _ = find_queries(data, search, everything=True)
    lines = []
    for row in rows.slice(0, CASES).select(["task", "query_id"]).to_pylist():
        material = query_material(data, row["task"], row["query_id"], ())
        if material is not None:
            lines.append(test_case(material, data.task(row["task"])["fingerprint"]))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def _one(
    data: Aggregates, task: str, query_id: str, pair: tuple[str, str], measure: str, words: Words
) -> None:
    st.button(words.of("close_query"), icon=":material/arrow_back:", on_click=_close)
    material = query_material(data, task, query_id, pair)
    if material is None:
        draw_text(words.of("no_such_query", task))
        return
    values = _values(data, material, pair, measure, words)
    draw(
        element(
            "div",
            element("p", spoken(clipped(material.query, 2000)), class_="question"),
            element("p", element("code", clipped(query_id, 200)), f" · {task}", class_="fine"),
            html_table(grid_table(values)),
        )
    )
    tie = data.suite["tie"]
    first, second = (ranking(material, system, tie) for system in pair)
    draw_title(words.of("why"))
    draw(element("div", bullets(reasons(first, second, material, words))))
    draw_title(words.of("rankings"))
    depth = int(pick(words.of("depth_shown"), DEPTHS, "shown", "10"))
    sides = (
        ranking_html(pair[0], first, second, depth, words),
        ranking_html(pair[1], second, first, depth, words),
    )
    draw(element("div", *sides, class_="sides"))
    notes = [words.of("ranking_note")]
    if tie not in ONE_ORDER:
        notes.append(words.of("tie_note", tie))
    if material.missed:
        named = [f"{clipped(doc, 60)} ({grade})" for doc, grade in material.missed]
        notes.append(words.of("missed_documents", words.listed(named, 10)))
    draw_text(*notes)
    line = test_case(material, data.task(task)["fingerprint"])
    with st.expander(words.of("test_case")):
        st.code(line, language=None, wrap_lines=True, height=240)
        st.download_button(
            words.of("download"),
            f"{line}\n".encode("utf-8", "surrogatepass"),
            file_name="candidates.jsonl",
            mime="application/jsonl",
            key="d-case",
            on_click="ignore",
        )


def _values(
    data: Aggregates, material: QueryMaterial, pair: tuple[str, str], measure: str, words: Words
) -> Grid:
    """Both systems' values of the measure and of the others on this query."""
    import pyarrow.compute as pc

    at = pc.index(data.queries(material.task)["query_id"], material.query_id).as_py()
    measures = list(dict.fromkeys([measure, *data.measures]))
    columns = [f"m:{name}" for name in measures]
    one, two = ([float(c[at]) for c in data.columns(material.task, s, columns)] for s in pair)
    found = dict(zip(measures, zip(one, two, strict=True), strict=True))
    return Grid(
        name="values",
        columns=(
            GridColumn("measure", words.of("measure")),
            GridColumn("first", pair[0], "number"),
            GridColumn("second", pair[1], "number"),
            GridColumn("delta", words.of("delta"), "signed"),
        ),
        rows=tuple(
            {"measure": name, "first": one, "second": two, "delta": two - one}
            for name, (one, two) in found.items()
        ),
        tones={
            (row, "delta"): "better" if two > one else "worse"
            for row, (one, two) in enumerate(found.values())
            if one != two
        },
    )

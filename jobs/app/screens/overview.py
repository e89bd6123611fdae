"""The leaderboard's screen: filters, the table, means with intervals, quality against speed."""

from __future__ import annotations

import streamlit as st

from jobs.app.controls import (
    downloads,
    draw,
    draw_grid,
    draw_text,
    draw_title,
    pick,
    pick_many,
    sortable,
)
from jobs.app.reading import Aggregates
from jobs.app.screens import runs
from jobs.app.views.overview import imported_grids, interval_figure, overview
from jobs.app.views.scope import SIZES, UNKNOWN, Scope, chosen_systems, chosen_tasks, size_of
from jobs.app.views.speed import speed_figure
from jobs.app.wording import Words
from rerank.reporting.markup import bullets


def show(data: Aggregates, words: Words) -> None:
    scope = _scope(data, words)
    if not scope.tasks or not scope.systems:
        st.info(words.of("no_systems" if scope.tasks else "no_tasks"))
        return
    grid = overview(data, scope, words)
    sortable(grid, words, "board")
    draw_text(words.of("order_note"), *grid.notes)
    downloads(grid, words)
    runs.show_progress(data.store, words)
    warnings = data.index["warnings"]
    if warnings:
        with st.expander(words.of("warnings", len(warnings))):
            draw(bullets(warnings, class_="warnings"))
    left, right = st.columns(2, gap="large")
    with left:
        draw_title(words.of("intervals_title"))
        draw(interval_figure(grid, data.baseline, words))
    with right:
        draw_title(words.of("scatter_title"))
        key = "pps" if any(row["pps"] is not None for row in grid.rows) else "replay_pps"
        figure, without = speed_figure(grid, key, words)
        if figure is None:
            draw_text(words.of("scatter_none"))
        else:
            draw(figure)
            draw_text(words.of("scatter_measured" if key == "pps" else "scatter_replay"))
            if without:
                draw_text(words.of("not_measured", words.listed(without, 8)))
    for title, published in imported_grids(data, words):
        draw_title(words.of("imported_title"))
        draw_text(title)
        draw_grid(published, words)


def _scope(data: Aggregates, words: Words) -> Scope:
    tasks, systems = data.index["tasks"], data.index["systems"]
    languages = sorted({task["language"] or UNKNOWN for task in tasks})
    sizes = {size_of(system["parameters"]) for system in systems}
    licences = sorted({system["licence"] or UNKNOWN for system in systems})
    with st.expander(words.of("filters")):
        columns = st.columns([1, 1, 2, 1, 1])
        with columns[0]:
            measure = pick(
                words.of("measure"), {name: name for name in data.measures}, "measure", data.primary
            )
        with columns[1]:
            spoken = pick_many(words.of("task_language"), languages, "tl")
        with columns[2]:
            named = pick_many(words.of("tasks"), data.tasks, "tasks")
        with columns[3]:
            size = pick_many(
                words.of("size"), [name for name in (*SIZES, UNKNOWN) if name in sizes], "size"
            )
        with columns[4]:
            licence = pick_many(words.of("licence"), licences, "licence")
    return Scope(
        tasks=tuple(chosen_tasks(data, spoken, named)),
        systems=tuple(chosen_systems(data, size, licence)),
        measure=measure,
    )

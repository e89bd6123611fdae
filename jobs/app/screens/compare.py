"""Two systems' screen: tasks, slices, every query's delta, and the release gate."""

from __future__ import annotations

import streamlit as st

from jobs.app.controls import draw, draw_grid, draw_text, draw_title, pick
from jobs.app.reading import Aggregates
from jobs.app.views.comparing import delta_grid, distribution, forest, gate_grid, task_deltas
from jobs.app.views.pairs import common_tasks, pair_of
from jobs.app.wording import Words

GATE = {True: "gate_passed", False: "gate_failed", None: "gate_open"}


def show(data: Aggregates, words: Words) -> None:
    found = pick_pair(data, words)
    if found is None:
        return
    first, second, task, measure = found
    draw_text(words.of("delta_means"))
    draw_title(words.of("task_deltas"))
    heads = (words.of("task"), words.of("mean_over_tasks"))
    deltas = task_deltas(data, first, second, measure)
    draw_grid(delta_grid("tasks", deltas, heads, data, words, measure), words)
    pair = pair_of(data, task, first, second, measure)
    draw_title(words.of("delta_title", task))
    figure = distribution(pair, words)
    draw(figure)
    draw_text(words.of("delta_bars", f"{int(pair.kept.sum()):,}"))
    draw_title(words.of("slices_title", task))
    draw_grid(forest(data, pair, words), words)
    draw_title(words.of("gate"))
    if data.index["gate"]["rules"]:
        draw_text(words.of(GATE[data.index["gate"]["passed"]]))
    rules = gate_grid(data, (first, second), words)
    if rules.rows:
        draw_grid(rules, words)
    else:
        draw_text(words.of("gate_none"))


def pick_pair(
    data: Aggregates, words: Words, *, every: bool = False
) -> tuple[str, str, str, str] | None:
    """First and second system, task and measure; None where there is nothing to compare.

    every: all tasks at once may be chosen, as an empty name.
    """
    names = {name: name for name in data.systems}
    if len(names) < 2:
        st.info(words.of("one_system"))
        return None
    other = next(name for name in names if name != data.baseline)
    columns = st.columns(4)
    with columns[0]:
        first = pick(words.of("first"), names, "first", data.baseline)
    with columns[1]:
        second = pick(words.of("second"), names, "second", other)
    if first == second:
        st.info(words.of("same_system"))
        return None
    tasks = common_tasks(data, first, second)
    if not tasks:
        st.info(words.of("no_common_task"))
        return None
    shown = {name: name for name in tasks}
    if every and len(tasks) > 1:
        shown["*"] = words.of("all_tasks")
    with columns[2]:
        task = pick(words.of("task"), shown, "task", tasks[0])
    with columns[3]:
        measures = {name: name for name in data.measures}
        measure = pick(words.of("measure"), measures, "measure", data.primary)
    return first, second, "" if task == "*" else task, measure

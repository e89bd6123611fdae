"""The candidates' screen: what stage 1 left to rerank, and what nobody judged of it."""

from __future__ import annotations

import streamlit as st

from jobs.app.controls import draw, draw_grid, draw_text, draw_title, pick
from jobs.app.reading import Aggregates
from jobs.app.views.ceilings import (
    depths_figure,
    depths_grid,
    gold_figure,
    gold_grid,
    headroom_grid,
    task_sentence,
    unjudged_grid,
)
from jobs.app.wording import Words


def show(data: Aggregates, words: Words) -> None:
    if not data.tasks:
        st.info(words.of("no_tasks"))
        return
    names = {name: data.task(name)["title"] or name for name in data.tasks}
    task = pick(words.of("task"), names, "task", data.tasks[0])
    draw_text(task_sentence(data, task, words))
    left, right = st.columns(2, gap="large")
    with left:
        draw_title(words.of("depths_title"))
        depths = depths_grid(data, task, words)
        draw(depths_figure(depths, words))
        draw_text(words.of("depths_note"))
        draw_grid(depths, words)
    with right:
        draw_title(words.of("gold_title"))
        gold = gold_grid(data, task, words)
        draw(gold_figure(gold, words))
        draw_grid(gold, words)
    draw_title(words.of("headroom_title"))
    draw_grid(headroom_grid(data, task, words), words)
    draw_title(words.of("unjudged_title"))
    draw_grid(unjudged_grid(data, task, words), words)
    draw_text(words.of("unjudged_note"))

"""The runs' screen: how far each is, what failed, what it is; news of replays at work."""

from __future__ import annotations

import streamlit as st

from jobs.app.controls import draw, draw_grid, draw_text, draw_title, pick
from jobs.app.reading import Aggregates
from jobs.app.views.run_states import (
    RECEIPTS,
    failure_messages,
    progress_grid,
    progress_rows,
    receipts_grid,
    run_facts,
    run_states,
    runs_grid,
    tasks_with_runs,
)
from jobs.app.wording import Words
from rerank.reporting.grid import grid_table
from rerank.reporting.identity import facts_html
from rerank.reporting.markup import bullets
from rerank.reporting.table import html_table
from rerank.store import Store

NEWS_EVERY = 10  # seconds


def show(store: Store, data: Aggregates | None, words: Words) -> None:
    show_progress(store, words)
    tasks = tasks_with_runs(store)
    if not tasks:
        st.info(words.of("no_runs"))
        return
    task = pick(words.of("task"), {name: name for name in tasks}, "task", tasks[0])
    evaluated = {}
    if data is not None:
        evaluated = {
            system["name"]: system["runs"].get(task, "") for system in data.index["systems"]
        }
    states = run_states(store, task, evaluated)
    draw_title(words.of("runs_title", task))
    draw_grid(runs_grid(states, words), words)
    if any(state.done < state.total for state in states):
        draw_text(words.of("finish_hint"))
    if not states:
        return
    known = {f"{state.model}/{state.fingerprint}": state for state in states}
    labels = {name: f"{state.model} ({state.fingerprint})" for name, state in known.items()}
    state = known[pick(words.of("run"), labels, "run", next(iter(labels)))]
    draw_title(words.of("failures"))
    messages = failure_messages(store, state)
    if messages:
        draw(bullets(messages, class_="warnings"))
    else:
        draw_text(words.of("no_failures"))
    draw_title(words.of("receipts", RECEIPTS))
    draw_grid(receipts_grid(store, state, words), words)
    draw_title(words.of("identity"))
    draw(facts_html(run_facts(store, state)))


@st.fragment(run_every=NEWS_EVERY)
def show_progress(store: Store, words: Words) -> None:
    """Replays that are not complete, asked for again every few seconds."""
    rows = progress_rows(store)
    if rows:
        draw_title(words.of("at_work"))
        draw(html_table(grid_table(progress_grid(rows, words))))

"""The app's entry for Streamlit: main.py STORE LANGUAGE; the page, suite and language chosen."""

from __future__ import annotations

import sys

import streamlit as st

from jobs.app.controls import draw, draw_text, pick, pick_tab
from jobs.app.reading import Aggregates, evaluated_suites, latest, store_at
from jobs.app.screens import candidates, compare, overview, queries, runs
from jobs.app.screens.runs import NEWS_EVERY
from jobs.app.style import STYLE
from jobs.app.wording import LANGUAGES, PAGES, Words
from rerank.errors import RerankError
from rerank.reporting.markup import Markup, element, paragraph
from rerank.reporting.visible import visible

SCREENS = {
    "overview": overview.show,
    "compare": compare.show,
    "queries": queries.show,
    "candidates": candidates.show,
}


def stamp_of(root: str, suite: str = "") -> str:
    """What identifies the evaluation that the page is to show; empty where there is none."""
    names = evaluated_suites(store_at(root))
    if not names:
        return ""
    return str(latest(root, suite if suite in names else names[0]).index["stamp"])


@st.fragment(run_every=NEWS_EVERY)
def watch(root: str, suite: str, shown: str) -> None:
    """Draw the page anew where the store's evaluation is another one than that which is shown."""
    if stamp_of(root, suite) != shown:
        st.rerun()


def main(root: str, language: str) -> None:
    st.set_page_config(page_title="Rerank Replay", page_icon="⇅", layout="wide")
    st.html(STYLE)
    head, chosen = st.columns([4, 1], vertical_alignment="bottom")
    with chosen:
        words = Words(pick_tab("Language", LANGUAGES, "lang", language))
    try:
        data = _evaluation(root, words, head)
        page = pick_tab(
            words.of("page"),
            {key: words.of(name) for key, name in PAGES.items()},
            "page",
            "overview",
        )
        if page == "runs":
            runs.show(store_at(root), data, words)
        elif data is None:
            _nothing(root, words)
        else:
            SCREENS[page](data, words)
        draw_text(words.of("permanent"))
        suite, stamp = (data.suite["name"], data.index["stamp"]) if data else ("", "")
        watch(root, suite, stamp)
    except FileNotFoundError:
        st.warning(words.of("gone"))
    except RerankError as error:
        draw(element("ul", element("li", str(error)), class_="warnings"))


def _evaluation(root: str, words: Words, head: object) -> Aggregates | None:
    names = evaluated_suites(store_at(root))
    with head:  # type: ignore[attr-defined]
        if not names:
            draw(_title(root, ""))
            return None
        name = names[0]
        if len(names) > 1:
            name = pick(words.of("suite"), {name: name for name in names}, "suite", names[0])
        data = latest(root, name)
        draw(_title(root, data.suite["title"] or name))
    return data


def _title(root: str, title: str) -> Markup:
    return element(
        "div",
        paragraph("Rerank Replay", class_="brand"),
        element("h1", title or "—"),
        paragraph(visible(root), class_="fine"),
    )


def _nothing(root: str, words: Words) -> None:
    st.info(words.of("nothing"))
    draw_text(words.of("nothing_hint"))
    runs.show_progress(store_at(root), words)


if __name__ == "__main__":
    main(*sys.argv[1:3])

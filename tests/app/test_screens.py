"""Every screen over stores that are empty, half done or odd, run by Streamlit without a browser.

Oracle: what each store holds, and the words of the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="the app's own packages are not installed (extra app)")
pytest.importorskip("duckdb", reason="the app's own packages are not installed (extra app)")

from streamlit.testing.v1 import AppTest

from jobs.app.main import stamp_of
from jobs.app.wording import PAGES, WORDS
from rerank.progress import INCOMPLETE, SCORING, Progress
from rerank.store import Store
from tests.app.stores import committed, evaluated, frozen
from tests.s3_server import KEYS, s3_server

LANGUAGES = ("en", "ko")


def opened(root: Path | str, language: str = "en", **address: str) -> AppTest:
    """The app at an address, run once; no screen may raise."""

    def script(root: str, language: str) -> None:
        from jobs.app.main import main

        main(root, language)

    app = AppTest.from_function(script, args=(str(root), language), default_timeout=60)
    for key, value in address.items():
        app.query_params[key] = value
    app.run()
    assert [error.message for error in app.exception] == []
    return app


def text_of(app: AppTest) -> str:
    """All text of our own tables and sentences, and of Streamlit's boxes."""
    bodies = [block.proto.body for block in app.get("html")]
    words = [re.sub(r"<[^>]*>", " ", body) for body in bodies if not body.startswith("<style")]
    return " ".join([*words, *(str(box.value) for box in [*app.info, *app.warning])])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_an_empty_store_says_that_it_is_empty(tmp_path: Path, language: str, page: str) -> None:
    shown = text_of(opened(tmp_path, language, page=page))
    key = "no_runs" if page == "runs" else "nothing"
    assert WORDS[key][LANGUAGES.index(language)] in shown


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_every_screen_in_both_languages(trial: Path, language: str, page: str) -> None:
    app = opened(trial / "store", language, page=page, second="new")
    shown = text_of(app)
    assert "Trial &lt;script&gt;" in shown
    assert bool(re.search("[\uac00-\ud7a3]{2}", shown.replace("긴 글", ""))) == (language == "ko")


def test_an_incomplete_run_has_no_values_and_says_what_is_missing(tmp_path: Path) -> None:
    """Two of three shards, one failure, and a replay that is at work and one that fell silent."""
    task = frozen(tmp_path, "one")
    store = Store(tmp_path / "store")
    run = committed(tmp_path, task, "base", shards=2)
    failure = {"kind": "poisoned", "message": f"out of <memory> {run.model}"}
    store.write_json(f"{run.key}/failures/00002.json", failure)
    for model, state, updated in (("base", SCORING, 4e9), ("new", INCOMPLETE, 1.0)):
        news = Progress(store, "trial", model, "s1", ["one"], 3, 48, 2, 32, state, "why <b>")
        store.write_json(f"progress/{model}/s1.json", {**news.record(), "updated": updated})
    shown = text_of(opened(tmp_path / "store", page="runs"))
    assert "incomplete, shards failed" in shown
    assert "00002: out of &lt;memory&gt; base" in shown
    assert "2 / 3" in shown
    assert "incomplete (no news for 5 minutes)" in shown
    assert "why &lt;b&gt;" in shown
    overview = opened(tmp_path / "store")
    assert WORDS["nothing"][0] in text_of(overview)
    assert "scoring" in text_of(overview)
    assert len(overview.dataframe) == 0


def test_an_evaluation_that_is_written_meanwhile_is_shown(tmp_path: Path) -> None:
    """The page asks every few seconds: what it shows is no longer what the store holds."""
    app = opened(tmp_path / "store")
    assert WORDS["nothing"][0] in text_of(app)
    evaluated(tmp_path)
    assert stamp_of(str(tmp_path / "store")) != ""
    app.run()
    assert app.dataframe[0].value["system"].tolist()[0] == "new"


def test_a_complete_run_that_nobody_evaluated(tmp_path: Path) -> None:
    committed(tmp_path, frozen(tmp_path, "one"), "base")
    assert "complete, not evaluated" in text_of(opened(tmp_path / "store", page="runs"))


def test_records_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """A torn run.json and a receipt that is none."""
    run = committed(tmp_path, frozen(tmp_path, "one"), "base")
    store = Store(tmp_path / "store")
    store.write(f"{run.key}/receipts/00001.json", b"{")
    assert "unreadable" in text_of(opened(tmp_path / "store", page="runs"))
    store.write(f"{run.key}/run.json", b"{")
    assert "unreadable: run.json" in text_of(opened(tmp_path / "store", page="runs"))


def test_an_evaluation_of_another_version_is_told(tmp_path: Path) -> None:
    Store(tmp_path).write_json("evaluations/s/aggregates/index.json", {"version": 0})
    assert "run `rerank evaluate` again" in text_of(opened(tmp_path))


def test_tables_that_went_away_meanwhile_are_told(tmp_path: Path) -> None:
    """As when evaluate has written anew since the index was read."""
    evaluated(tmp_path)
    store = Store(tmp_path / "store")
    stamp = store.read_json("evaluations/trial/aggregates/index.json")["stamp"]
    store.remove(f"evaluations/trial/aggregates/{stamp}/results.parquet")
    assert WORDS["gone"][0] in text_of(opened(tmp_path / "store"))


def test_published_results_are_shown_apart(tmp_path: Path) -> None:
    block: dict[str, Any] = {
        "protocol": "their <protocol>",
        "source": "paper",
        "measures": ["nDCG@10"],
        "columns": [{"name": "A", "task": "one"}],
        "rows": [{"model": "m", "values": {"nDCG@10": {"A": 0.4321}}, "mean": {"nDCG@10": 0.4321}}],
        "facts": [],
        "notes": [],
    }
    evaluated(tmp_path, imported=[block])
    app = opened(tmp_path / "store")
    assert "their &lt;protocol&gt; (paper)" in text_of(app)
    assert "0.4321" in text_of(app)
    assert "m" not in app.dataframe[0].value["system"].tolist()


def test_filters_change_the_table(trial: Path) -> None:
    """By the address: the tasks of one language, systems of one size."""
    whole = opened(trial / "store").dataframe[0].value
    assert whole["system"].tolist() == ["new", "base", "broken", "partial"]
    assert "task:two" in whole.columns
    korean = opened(trial / "store", tl="ko", size="3-9B").dataframe[0].value
    assert korean["system"].tolist() == ["broken"]
    assert "task:two" not in korean.columns
    assert WORDS["no_tasks"][0] in text_of(opened(trial / "store", tl="en", tasks="one"))


def test_cells_show_what_is_invisible_and_cut_what_is_endless(trial: Path) -> None:
    """NUL, direction marks and 16,000 characters in the list of queries."""
    app = opened(trial / "store", page="queries", second="new", choice="every")
    cells = app.dataframe[0].value["query"].tolist()
    assert "query 3 before\u2400after" in cells
    assert any("[U+202E]evil[U+202C]" in cell for cell in cells)
    assert max(map(len, cells)) < 250
    assert any(cell.endswith("(16,008 characters)") for cell in cells)


def test_a_store_in_a_bucket(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same table, and one query with its texts, read from S3."""
    for key, value in KEYS.items():
        monkeypatch.setenv(key, value)
    with s3_server() as server:
        server.client().create_dir("bucket")
        url = server.url("bucket/prefix")
        there, here = Store(url), trial / "store"
        for file in here.rglob("*"):
            if file.is_file():
                there.write(file.relative_to(here).as_posix(), file.read_bytes())
        app = opened(url, page="overview")
        assert app.dataframe[0].value["system"].tolist() == ["new", "base", "broken", "partial"]
        link = {"page": "queries", "second": "new", "qtask": "one", "query": "one-03"}
        assert "d1 (grade 2) fell from rank 2 to 4." in text_of(opened(url, **link))
        assert "complete, evaluated" in text_of(opened(url, page="runs"))


def test_controls_enter_the_address_and_leave_it(trial: Path) -> None:
    """A choice is a parameter; the default is none."""
    app = opened(trial / "store", page="compare")
    app.selectbox(key="c-second").set_value("broken").run()
    assert app.query_params["second"] == "broken"
    app.selectbox(key="c-second").set_value("new").run()
    assert "second" not in app.query_params
    assert opened(trial / "store", page="nonsense", measure="none").query_params.get("page") is None


def test_the_same_system_twice_is_refused_in_words(trial: Path) -> None:
    app = opened(trial / "store", page="compare", second="base")
    assert WORDS["same_system"][0] in text_of(app)


def test_a_query_by_its_link_and_one_that_is_none(trial: Path) -> None:
    link = {"page": "queries", "second": "new", "qtask": "one"}
    app = opened(trial / "store", **link, query="one-<b>&'\"")
    shown = text_of(app)
    assert "one-&lt;b&gt;&amp;&#x27;&quot;" in shown
    assert "d1 (grade 2) rose from rank 2 to 1." in shown
    assert WORDS["no_such_query"][0].format("one") in text_of(
        opened(trial / "store", **link, query="zz")
    )
    app.button[0].click().run()
    assert "query" not in app.query_params
    assert len(app.dataframe) == 1

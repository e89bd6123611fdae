"""The real app in headless Chromium: pages, filters, a query, downloads, hostile text.

Oracle: the page's own elements, and the bytes of the views. Skipped, with the reason, where the
app's packages, Playwright or a Chromium are absent. Set RERANK_SCREENSHOTS to a folder to look at
every page in both languages, wide and narrow.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from jobs.app.reading import Aggregates
from jobs.app.views.finding import Search, find_queries, queries_grid
from jobs.app.views.overview import overview
from jobs.app.views.scope import Scope
from jobs.app.wording import PAGES, WORDS, Words
from rerank.reporting.grid import GRID_FILES, grid_csv
from tests.conftest import ROOT

for package in ("streamlit", "duckdb", "playwright"):
    pytest.importorskip(package, reason=f"{package} is not installed (extras app and dev)")
CHROMIUM = next((p for n in ("chromium", "chromium-browser") if (p := shutil.which(n))), None)
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)

IDLE = (
    "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
)
SIZES = {"wide": 1400, "narrow": 420}
START = "import sys; from jobs.leaderboard import serve; serve(*sys.argv[1:3], int(sys.argv[3]))"


@pytest.fixture(scope="module")
def address(trial: Path) -> Iterator[str]:
    """The app over the trial's store, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", START, str(trial / "store"), "en", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health").close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    tab = browser.new_page(viewport={"width": SIZES["wide"], "height": 1000})
    tab.set_default_timeout(20_000)
    yield tab
    tab.close()


def settle(page: Any) -> None:
    """Until the app has drawn all of the page; it may show no error and run no foreign script."""
    page.wait_for_selector(".rr h1")
    page.wait_for_function(IDLE)
    assert page.locator("[data-testid=stException]").count() == 0
    assert page.evaluate("() => window.hacked") is None


def go(page: Any, address: str, /, **parameters: str) -> None:
    page.goto(f"{address}?{urlencode(parameters)}")
    settle(page)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_opens(page: Any, address: str, language: str, size: str) -> None:
    """By the buttons of the pages; the title is hostile and shown as text."""
    page.set_viewport_size({"width": SIZES[size], "height": 1000})
    at = ["en", "ko"].index(language)
    go(page, address, lang=language, second="new")
    for name in PAGES.values():
        page.locator("[role=radio]", has_text=re.compile(f"^{WORDS[name][at]}$")).click()
        page.wait_for_function(
            "text => [...document.querySelectorAll('[role=radio][aria-checked=true]')]"
            ".some(button => button.innerText === text)",
            arg=WORDS[name][at],
        )
        settle(page)
        assert page.locator(".rr h1").inner_text().startswith("Trial <script>window.hacked=1")
        wide = page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        assert wide, "the page is wider than the screen"
        if folder := os.environ.get("RERANK_SCREENSHOTS"):
            page.wait_for_timeout(500)
            whole = "() => document.querySelector('[data-testid=stMain]').scrollHeight"
            high = min(int(page.evaluate(whole)) + 20, 6000)
            page.set_viewport_size({"width": SIZES[size], "height": high})
            page.wait_for_timeout(500)
            page.screenshot(path=f"{folder}/{name}-{language}-{size}.png")
            page.set_viewport_size({"width": SIZES[size], "height": 1000})


def test_a_filter_works_and_enters_the_address(page: Any, address: str) -> None:
    """Choosing Korean leaves task one; the address then opens the same view."""
    go(page, address)
    assert "Mean over 2 tasks" in page.inner_text("[data-testid=stMain]")
    page.get_by_text("Filters").click()
    page.wait_for_timeout(500)
    page.get_by_role("combobox", name="Language of task").click()
    page.get_by_role("option", name="ko", exact=True).click()
    page.wait_for_url("**tl=ko**")
    page.wait_for_selector("text=Mean over 2 tasks", state="detached")
    page.goto(page.url)
    settle(page)
    assert "Mean over 2 tasks" not in page.inner_text("[data-testid=stMain]")


def test_a_row_opens_its_query_with_both_rankings(page: Any, address: str) -> None:
    """The worst regression of `new` in task one; its documents are hostile text."""
    go(page, address, page="queries", second="new")
    page.locator("[data-testid=stDataFrame]").click(position={"x": 18, "y": 38 + 17})
    page.wait_for_selector("text=Both rankings")
    settle(page)
    assert "query=one-03" in page.url
    assert page.locator(".ranking").count() == 2
    assert page.locator(".side").nth(1).locator(".card").nth(3).inner_text().startswith("4")
    assert "d1 (grade 2) fell from rank 2 to 4." in page.inner_text("[data-testid=stMain]")
    page.get_by_text("Back to the list").click()
    page.wait_for_selector("[data-testid=stDataFrame]")
    assert "query=" not in page.url


def test_hostile_documents_are_text(page: Any, address: str) -> None:
    """HTML, Markdown, NUL, direction marks and a very long text, in cards of one query each."""
    for number in (0, 1, 3, 4):
        go(page, address, page="queries", second="new", qtask="one", query=f"one-{number:02d}")
        shown = page.inner_text(".sides")
        assert page.locator(".rr script, .rr img[src=x], .rr strong").count() == 0
        if number == 0:
            assert '<img src=x onerror="window.hacked=1"> document 0' in shown
            assert "**bold** [link](javascript:window.hacked=1)" in shown
            assert "before␀after" in shown
            assert "[U+202E]evil[U+202C]" in shown
        wide = page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        assert wide


def saved(page: Any, button: str) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        page.locator("[data-testid=stDownloadButton] button", has_text=button).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_downloads_have_the_bytes_of_the_view(page: Any, address: str, data: Aggregates) -> None:
    """All four forms of the leaderboard."""
    go(page, address)
    scope = Scope(tuple(data.tasks), tuple(data.systems), data.primary)
    grid = overview(data, scope, Words("en"))
    page.locator("[data-testid=stPopover] button").first.click()
    for label, ending in (("CSV", "csv"), ("LaTeX", "tex"), ("Markdown", "md"), ("JSON", "json")):
        name, found = saved(page, label)
        assert name == f"leaderboard.{ending}"
        assert found == GRID_FILES[ending][1](grid)


def test_a_selection_is_exported(page: Any, address: str, data: Aggregates) -> None:
    """Every row as CSV, and the queries as lines of frozen candidates."""
    go(page, address, page="queries", second="new", choice="regressions", task="*")
    search = Search("", "base", "new", "nDCG@10", "regressions")
    rows, total = find_queries(data, search, everything=True)
    assert total == 3
    name, found = saved(page, "All 3 rows (CSV)")
    assert (name, found) == ("queries-all.csv", grid_csv(queries_grid(rows, search, Words("en"))))
    name, found = saved(page, "Test cases of the first 3")
    assert name == "candidates.jsonl"
    assert found.count(b"\n") == 3
    assert b'{"query_id": "one-03"' in found

"""How quick the leaderboard app is: 50 systems, 20 tasks, 12,000 queries each, in real Chromium.

The first page is timed from the browser's request to a freshly started server until the table
stands there and the app is idle. An interaction is timed from the click (or the address) until the
app is idle again. Each is done in a new order of systems and tasks every round, so nothing that an
earlier round read is of use; medians and the worst are printed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobs.app.controls import HEAD_PIXELS, ROW_PIXELS
from rerank.errors import ConfigError
from scripts.benchmarks.leaderboard_store import REAL, system_names, write_store

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
PORT = 8597
IDLE = (
    "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    " && !document.querySelector('[data-stale=true]')"
)
GOALS = {"first_page": 3.0, "interaction": 1.0}  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--systems", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--queries", type=int, default=12_000, help="a task")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", metavar="FOLDER", help="write the store there, or use it again")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.keep or temporary)
        if not (folder / "store").is_dir():
            started = time.perf_counter()
            write_store(folder, arguments.systems, arguments.tasks, arguments.queries)
            print(f"store written in {time.perf_counter() - started:.0f} s")
        first: list[float] = []
        found: dict[str, list[float]] = {}
        for round_ in range(arguments.rounds):
            with serving(folder / "store"), browser() as page:
                first.append(first_page(page))
                names = system_names(arguments.systems)
                for name, seconds in interactions(page, names, arguments, round_):
                    found.setdefault(name, []).append(seconds)
    for name, times in {"first page": first, **found}.items():
        print(f"{name:<44} median {statistics.median(times):6.2f} s   worst {max(times):6.2f} s")
    worst = max(statistics.median(times) for times in found.values())
    return {
        "systems": arguments.systems,
        "tasks": arguments.tasks,
        "queries": arguments.queries,
        "first_page_seconds": round(statistics.median(first), 2),
        "slowest_interaction_seconds": round(worst, 2),
        "interactions": {name: round(statistics.median(t), 2) for name, t in found.items()},
        "goals": GOALS,
    }


@contextmanager
def serving(store: Path) -> Iterator[None]:
    """`rerank leaderboard` on a port of its own, until it answers."""
    command = [sys.executable, "-m", "jobs", "leaderboard", str(store), "--port", str(PORT)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/_stcore/health").close()
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def browser() -> Iterator[Any]:
    """A page of headless Chromium, with nothing cached."""
    from playwright.sync_api import sync_playwright

    path = next((name for name in CHROMIUM if Path(name).exists()), None)
    if path is None:
        raise ConfigError("this benchmark needs Chromium; install Debian's package chromium")
    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = running.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(15_000)
        yield page
        running.close()


def first_page(page: Any) -> float:
    """Seconds from the request to the whole first page."""
    return timed(page, lambda: page.goto(address("")), "[data-testid=stDataFrame]")


def address(query: str) -> str:
    return f"http://127.0.0.1:{PORT}/?{query}"


def timed(page: Any, act: Callable[[], Any], there: str) -> float:
    """Seconds until the app is idle and has what the selector names."""
    before = page.url
    started = time.perf_counter()
    act()
    # every choice enters the address, so the app has heard of it when that is another
    page.wait_for_function("before => location.href !== before", arg=before)
    page.wait_for_selector(there)
    page.wait_for_function(IDLE)
    return time.perf_counter() - started


def unfold(page: Any, label: str, typed: str) -> None:
    """Open the list of a select box at an option; a click while the page moves may miss it."""
    box = page.get_by_role("combobox", name=label, exact=True)
    for _ in range(5):
        box.click()
        page.wait_for_timeout(300)
        if page.get_by_role("listbox").count():
            box.press_sequentially(typed)  # a long list holds only what is in sight
            page.wait_for_timeout(300)
            return


def interactions(
    page: Any, systems: list[str], arguments: argparse.Namespace, round_: int
) -> Iterator[tuple[str, float]]:
    """What a reader does, one after the other: (what, seconds)."""
    other, another = systems[5 + round_], systems[20 + round_]
    task = f"task-{3 + round_:02d}" if arguments.tasks > 5 else REAL

    def tab(name: str, there: str) -> float:
        button = page.locator("[role=radio]", has_text=re.compile(f"^{name}$"))
        return timed(page, button.click, there)

    def choose(label: str, value: str, there: str) -> float:
        unfold(page, label, value)
        chosen = page.get_by_role("option", name=value, exact=True)
        return timed(page, chosen.click, there)

    page.get_by_text("Filters").click()
    page.wait_for_timeout(500)  # until it has unfolded
    yield "overview: another measure", choose("Measure", "AP", "[data-testid=stDataFrame]")
    yield "overview: tasks of one language", choose("Language of task", "ko", "text=Means with")
    yield "compare: opened", tab("Compare", "text=Slices:")
    yield "compare: another second system", choose("Second", other, "text=Slices:")
    yield "compare: another first system", choose("First (reference)", another, "text=Neither is")
    yield "compare: another task", choose("Task", task, f"text=Slices: {task}")
    yield "queries: opened", tab("Queries", "text=Select a row")
    yield "queries: all tasks", choose("Task", "all tasks", "text=Select a row")
    yield "queries: gains", choose("Show", "Biggest gains", "text=Select a row")

    def search() -> None:
        page.get_by_label("Search in queries").fill(f"질의 {77 + round_}")
        page.keyboard.press("Enter")

    yield "queries: search for a text", timed(page, search, "text=Select a row")
    yield "candidates: opened", tab("Candidates", "text=Ceiling by depth")
    yield "runs: opened", tab("Runs", "text=Runs of")
    link = f"page=queries&first={systems[0]}&second={systems[1]}&task={REAL}&choice=every"
    page.goto(address(link))
    page.wait_for_selector("text=Select a row")
    page.wait_for_selector("[data-testid=stDataFrame] canvas")
    page.wait_for_function(IDLE)
    page.wait_for_timeout(1000)  # a page that was loaded anew is timed above, not here
    yield "queries: one opened", timed(page, lambda: click_row(page, round_), "text=Both rankings")
    yield (
        "queries: back to the list",
        timed(page, page.get_by_text("Back to the list").click, "text=Select a row"),
    )


def click_row(page: Any, row: int) -> None:
    """Tick the box of a row: the table is painted on a canvas."""
    grid = page.locator("[data-testid=stDataFrame]").first
    grid.click(position={"x": 18, "y": HEAD_PIXELS + ROW_PIXELS * (row + 0.5)})

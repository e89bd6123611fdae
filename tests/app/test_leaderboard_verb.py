"""`rerank leaderboard`: its errors, and the static files. Oracle: the views that the app shows."""

from __future__ import annotations

import csv
import importlib.util
import re
import socket
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jobs import leaderboard
from jobs.__main__ import VERBS, main
from jobs.app.reading import Aggregates
from jobs.app.views.overview import overview
from jobs.app.views.scope import Scope
from jobs.app.wording import Words
from rerank.reporting.grid import GRID_FILES


@pytest.fixture(autouse=True)
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "leaderboard", "look at a store")


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page(file: Path) -> Tags:
    found = Tags()
    found.feed(file.read_text(encoding="utf-8"))
    return found


@pytest.fixture
def site(trial: Path, tmp_path: Path) -> Path:
    assert main(["leaderboard", str(trial / "store"), "--export", str(tmp_path / "site")]) == 0
    return tmp_path / "site"


def test_the_static_pages_run_nothing_and_load_nothing(site: Path) -> None:
    """Tags and attributes of every page; hostile texts are text."""
    files = sorted(site.glob("*.html"))
    assert [file.name for file in files] == [
        *(f"compare-{n:03d}.html" for n in (1, 2, 3)),
        "index.html",
    ]
    for file in files:
        found = page(file)
        assert {tag for tag, _ in found.tags} & {"script", "img", "iframe", "object"} == set()
        assert not [name for _, attributes in found.tags for name in attributes if name[:2] == "on"]
        policy = [a["content"] for _, a in found.tags if a.get("http-equiv")]
        assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
        assert "<script>window.hacked=1</script>" in found.text
        ids = {attributes.get("id") for _, attributes in found.tags}
        for target in (str(a["href"]) for tag, a in found.tags if tag == "a"):
            assert target.removeprefix("#") in ids or (site / target).is_file(), target


def test_static_tables_are_those_of_the_app(site: Path, data: Aggregates) -> None:
    """Byte for byte, in all four forms."""
    scope = Scope(tuple(data.tasks), tuple(data.systems), data.primary)
    grid = overview(data, scope, Words("en"))
    for ending, (_, write) in GRID_FILES.items():
        assert (site / f"tables/leaderboard.{ending}").read_bytes() == write(grid)
    with open(site / "tables/leaderboard.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["system"] for row in rows] == ["new", "base", "broken", "partial"]
    assert float(rows[0]["mean"]) == grid.rows[0]["mean"]


def test_static_pages_in_korean(trial: Path, tmp_path: Path) -> None:
    words = ["--export", str(tmp_path / "k"), "--language", "ko"]
    assert main(["leaderboard", str(trial / "store"), *words]) == 0
    found = page(tmp_path / "k/index.html")
    assert ("html", {"lang": "ko"}) in found.tags
    assert "평균과 구간" in found.text
    assert not re.search("Means with intervals", found.text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent"], "there is no store at"),
        (["."], "holds no evaluation for the leaderboard; run `rerank evaluate SUITE`"),
    ],
)
def test_what_cannot_be_exported(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["leaderboard", *words, "--export", "out"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_suite_has_to_be_chosen_where_there_are_several(
    trial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rerank.store import Store

    store = Store(tmp_path)
    for name in ("a", "b"):
        store.write_json(f"evaluations/{name}/aggregates/index.json", {})
    assert main(["leaderboard", str(tmp_path), "--export", "out"]) == 2
    assert "holds several suites (a, b); choose one with --suite" in capsys.readouterr().err
    words = [str(trial / "store"), "--export", "out", "--suite", "trail"]
    assert main(["leaderboard", *words]) == 2
    assert "Did you mean 'trial'?" in capsys.readouterr().err


def test_without_its_packages_the_app_says_what_to_install(
    trial: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = importlib.util.find_spec

    def absent(name: str) -> object:
        return None if name == "streamlit" else known(name)

    monkeypatch.setattr(leaderboard.importlib.util, "find_spec", absent)
    assert main(["leaderboard", str(trial / "store")]) == 2
    told = capsys.readouterr().err
    assert "the app needs streamlit; install them with `pip install 'rerank-replay[app]'`" in told
    assert "--export FOLDER" in told


def test_a_port_that_is_taken(
    trial: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaderboard, "check_installed", lambda: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["leaderboard", str(trial / "store"), "--port", str(port)]) == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err
    assert main(["leaderboard", str(trial / "store"), "--port", "0"]) == 2
    assert "--port 0 is no port" in capsys.readouterr().err


def test_the_app_listens_on_this_machine_alone_and_sends_nothing() -> None:
    """The options that Streamlit is started with."""
    assert leaderboard.OPTIONS["server_address"] == "127.0.0.1"
    assert leaderboard.OPTIONS["browser_gatherUsageStats"] is False
    assert leaderboard.OPTIONS["server_fileWatcherType"] == "none"

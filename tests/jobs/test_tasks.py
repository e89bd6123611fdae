"""`rerank tasks` and `rerank models`: one line each, and the same as JSON.

Oracles: the files of configs; MTEB(kor, v2)'s 12,054 queries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from tests.conftest import ROOT

CONFIGS = str(ROOT / "configs")
KEYS = {
    *("name", "title", "queries", "source", "dataset", "revision", "splits", "subset", "language"),
    *("licence", "measures", "trap", "first_stage", "depth", "inject_gold"),
}


@pytest.fixture(autouse=True)
def _data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RERANK_DATA", str(tmp_path))


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([words[0], "--configs", CONFIGS, *words[1:]]) == 0
    return capsys.readouterr().out


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(capsys, *words, "--json"))
    return found


@pytest.mark.parametrize(("verb", "folder"), [("tasks", "tasks"), ("models", "models")])
def test_every_file_has_one_line(
    verb: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of names; the rest of the list comes behind an empty line."""
    lines = said(capsys, verb).split("\n\n")[0].splitlines()
    files = sorted(path.stem for path in (ROOT / "configs" / folder).glob("*.yaml"))
    assert [line.partition(":")[0] for line in lines] == files


def test_a_tasks_line_says_language_queries_measure_and_trap(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The trap is cut where it is long."""
    (line,) = [row for row in said(capsys, "tasks").splitlines() if row.startswith("lawirko:")]
    assert line.startswith("lawirko: ko; 3,563 queries; finding the article of a statute")
    assert " | trap: queries are one template" in line
    assert line.endswith("…")


def test_the_korean_suite_has_12054_queries(capsys: pytest.CaptureFixture[str]) -> None:
    """Nine tasks as the suite sets them, each with its pinned commit but one."""
    tasks = listed(capsys, "tasks", "--suite", "korean")
    assert sum(task["queries"] for task in tasks) == 12_054
    assert {frozenset(task) for task in tasks} == {frozenset(KEYS)}
    assert {(task["depth"], task["inject_gold"]) for task in tasks} == {(50, True)}
    assert [task["name"] for task in tasks if not task["revision"]] == ["publichealthqa-ko.gold50"]


def test_the_json_lists_are_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    """And a suite by its path is the suite by its name."""
    for verb in ("tasks", "models"):
        files = sorted(path.stem for path in (ROOT / "configs" / verb).glob("*.yaml"))
        assert [row["name"] for row in listed(capsys, verb)] == files
    path = str(ROOT / "configs/suites/korean-law.yaml")
    by_name = listed(capsys, "tasks", "--suite", "korean-law")
    assert by_name == listed(capsys, "tasks", "--suite", path)
    assert [task["name"] for task in by_name] == ["lawirko"]


def test_a_file_that_cannot_be_read_here_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line is the error; the others are listed."""
    monkeypatch.delenv("RERANK_DATA")
    (broken,) = [row for row in listed(capsys, "tasks") if row["name"] == "autorag-ko"]
    assert "RERANK_DATA" in broken["error"]
    assert "\nautorag-ko: " in said(capsys, "tasks")


def test_an_unknown_suite_is_told_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2."""
    assert main(["tasks", "--configs", CONFIGS, "--suite", "koraen"]) == 2
    assert "Did you mean 'korean'" in capsys.readouterr().err

"""`rerank init`. Oracle: `rerank check` and `rerank run` accept what it writes, as it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.config import load_suite
from jobs.example_task import EXAMPLES


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("language", ["", *EXAMPLES])
def test_init_check_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], language: str) -> None:
    """The example is clean, freezes, replays without weights and ends with a report."""
    configs = tmp_path / "configs"
    words = ["--language", language] if language else []
    assert main(["init", "my-task", "--configs", str(configs), *words]) == 0
    said = capsys.readouterr().out
    assert "rerank check my-task" in said
    assert f"rerank run {configs / 'suites/my-task.yaml'}" in said
    assert main(["check", "my-task", "--configs", str(configs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["level"] for finding in found} == {"fact"}
    counts = next(finding["values"] for finding in found if finding["kind"] == "counts")
    parts = [EXAMPLES[language]] if language else list(EXAMPLES.values())
    assert counts["queries"] == sum(len(part.queries) for part in parts)
    assert counts["documents"] == sum(len(part.documents) for part in parts)
    assert main(["run", str(configs / "suites/my-task.yaml"), f"store={tmp_path}/store"]) == 0
    report = json.loads((tmp_path / "store/reports/my-task/report.json").read_text())
    assert [system["name"] for system in report["systems"]] == ["first_stage", "overlap"]
    assert report["tasks"][0]["provenance"] == {"synthetic": report["tasks"][0]["judgments"]}
    assert "freeze_report.html" in capsys.readouterr().out


def test_the_example_says_that_it_is_one(tmp_path: Path) -> None:
    """Title and README name the synthetic labels; every judgment is of the example's own ids."""
    assert main(["init", "mine", "--configs", str(tmp_path)]) == 0
    assert "synthetic" in (tmp_path / "tasks/mine/README.md").read_text()
    assert "synthetic" in load_suite(tmp_path / "suites/mine.yaml").tasks[0].title
    for part in EXAMPLES.values():
        assert part.grades.keys() == part.queries.keys()
        for graded in part.grades.values():
            assert graded.keys() <= part.documents.keys()
            assert max(graded.values()) == 2


@pytest.mark.parametrize("there", ["tasks/mine.yaml", "tasks/mine/README.md", "suites/mine.yaml"])
def test_nothing_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str
) -> None:
    """One file that exists: exit 2, the file named, and nothing written or changed."""
    path = tmp_path / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    assert main(["init", "mine", "--configs", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert said.count("\n") == 1
    assert files_of(tmp_path) == {there: b"mine"}


def test_models_that_are_there_are_used_and_not_written(tmp_path: Path) -> None:
    """A configs folder keeps its own model files."""
    model = tmp_path / "models/overlap.yaml"
    model.parent.mkdir(parents=True)
    model.write_text("adapter: overlap\ndescription: mine\n")
    assert main(["init", "mine", "--configs", str(tmp_path)]) == 0
    assert model.read_text() == "adapter: overlap\ndescription: mine\n"
    assert (tmp_path / "models/first_stage.yaml").is_file()
    assert load_suite(tmp_path / "suites/mine.yaml").models[1].description == "mine"


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "/abs", "..", ".", "", "macro", "a.yaml", "x" * 101, "a b", "a\nb"]
)
def test_a_name_cannot_leave_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Exit 2 in one sentence, nothing written."""
    assert main(["init", "--configs", str(tmp_path / "configs"), "--", name]) == 2
    assert "cannot be a task's name" in capsys.readouterr().err
    assert files_of(tmp_path) == {}


def test_a_korean_name_is_welcome(tmp_path: Path) -> None:
    """Names are folders of any letters."""
    assert main(["init", "내-과제", "--configs", str(tmp_path)]) == 0
    assert (tmp_path / "tasks/내-과제/corpus.jsonl").is_file()

"""`rerank pool`: out of a suite or run files, graded, and back in as a new version of a task.

Oracles: the pools by hand, and the frozen task that the merged judgments make.
"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from tests.conftest import write_jsonl
from tests.jobs.small_suite import QUERIES, TEXTS, replayed_suite, write_suite

# depth 2, first_stage has "a b" and d1 everywhere; overlap d1 "a b", d2 d3, d1 "a b"
TO_JUDGE = {("q1", "a b"), ("q2", "a b"), ("q2", "d1"), ("q2", "d3"), ("q4", "a b"), ("q4", "d1")}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_pool_of_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are what the models read; of 8 pooled pairs 2 are judged; no system is named."""
    words = replayed_suite(tmp_path)
    capsys.readouterr()
    path = tmp_path / "pool.jsonl"
    assert main(["pool", *words, "--depth", "2", "--to", str(path)]) == 0
    said = capsys.readouterr().out
    assert "tiny: 6 pairs to judge in 3 queries; the top 2 of 2 systems hold 8 pairs, 25.0%" in said
    rows = rows_of(path)
    assert {(row["query_id"], row["doc_id"]) for row in rows} == TO_JUDGE
    assert len(rows) == len(TO_JUDGE)
    asked = {**QUERIES, "q4": "pump"}
    for row in rows:
        assert row == {
            "task": "tiny",
            "query_id": row["query_id"],
            "doc_id": row["doc_id"],
            "query": asked[row["query_id"]],
            "text": TEXTS[row["doc_id"]],
            "grade": None,
        }
    assert "overlap" not in path.read_text()


def test_the_pool_is_the_same_bytes_whatever_the_order_of_systems(tmp_path: Path) -> None:
    """Blind: models the other way round give the same file; a seed gives another."""
    words = replayed_suite(tmp_path)
    other = "models=[overlap,first_stage]"
    for name, extra in (("a.csv", []), ("b.csv", [other]), ("c.csv", ["--seed", "4"])):
        words_ = [*words, *[word for word in extra if "=" in word]]
        options = [word for word in extra if "=" not in word]
        assert main(["pool", *words_, *options, "--to", str(tmp_path / name)]) == 0
    first = (tmp_path / "a.csv").read_bytes()
    assert (tmp_path / "b.csv").read_bytes() == first
    assert (tmp_path / "c.csv").read_bytes() != first
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["grade"] for row in rows} == {""}
    assert {row["query"] for row in rows} == {*QUERIES.values(), "pump"} - {QUERIES["q3"]}


def test_a_pool_is_not_written_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same pool again is fine; a file with grades is not touched."""
    words = replayed_suite(tmp_path)
    path = tmp_path / "pool.csv"
    assert main(["pool", *words, "--to", str(path)]) == 0
    assert main(["pool", *words, "--to", str(path)]) == 0
    path.write_text("query_id,doc_id,grade\nq1,d2,1\n")
    assert main(["pool", *words, "--to", str(path)]) == 2
    assert f"{path} exists and holds something else" in capsys.readouterr().err
    assert path.read_text() == "query_id,doc_id,grade\nq1,d2,1\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two runs, qrels and texts; the second run as dictionaries in JSON."""
    (tmp_path / "one.run").write_text("q1 Q0 a 1 3 t\nq1 Q0 b 2 2 t\nq1 Q0 c 3 1 t\n")
    (tmp_path / "two.json").write_text('{"q1": {"c": 9.0, "z": 8.0}, "q2": {"a": 1.0, "b": 1.0}}')
    (tmp_path / "judged.qrels").write_text("q1 0 a 1\nq2 0 b 0\n")
    write_jsonl(tmp_path / "queries.jsonl", [{"_id": "q1", "text": "질문"}])
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": "b", "title": "T", "text": "body"}])
    return tmp_path


def test_the_pool_of_run_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Depth 1: a | c in q1; in q2 the tie goes to b, which is judged. Depth 2 by hand as well."""
    words = ["--run", str(files / "one.run"), "--run", str(files / "two.json")]
    words += ["--qrels", str(files / "judged.qrels")]
    assert main(["pool", *words, "--depth", "1", "--to", str(files / "1.jsonl")]) == 0
    assert [(row["query_id"], row["doc_id"]) for row in rows_of(files / "1.jsonl")] == [("q1", "c")]
    said = capsys.readouterr().out
    assert "judged: 1 pairs to judge in 1 queries; the top 1 of 2 systems hold 3 pairs" in said
    assert "1 pairs have no document text" in said
    texts = ["--queries", str(files / "queries.jsonl"), "--corpus", str(files / "corpus.jsonl")]
    to = ["--task", "mine", "--depth", "2", "--to", str(files / "2.jsonl")]
    assert main(["pool", *words, *texts, *to]) == 0
    rows = {(row["query_id"], row["doc_id"]): row for row in rows_of(files / "2.jsonl")}
    assert set(rows) == {("q1", "b"), ("q1", "c"), ("q1", "z"), ("q2", "a")}
    assert rows["q1", "b"]["text"] == "T body"
    assert rows["q1", "c"]["text"] is None
    assert (rows["q1", "c"]["query"], rows["q2", "a"]["query"]) == ("질문", None)
    assert {row["task"] for row in rows.values()} == {"mine"}


def test_grades_come_back_as_a_new_version_of_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Graded by half; the old file stays; the YAML's `qrels` on the new file freezes a new task."""
    words = replayed_suite(tmp_path)
    pool, new = tmp_path / "pool.jsonl", tmp_path / "source/judgments.v2.jsonl"
    old = tmp_path / "source/judgments.jsonl"
    before = old.read_bytes()
    assert main(["pool", *words, "--depth", "2", "--to", str(pool)]) == 0
    rows = rows_of(pool)
    for row in rows[:4]:
        row["grade"] = 1
    graded = write_jsonl(tmp_path / "graded.jsonl", rows)
    capsys.readouterr()
    merging = ["--merge", str(graded), "--judgments", str(old), "--provenance", "human"]
    assert main(["pool", *merging, "--to", str(new)]) == 0
    said = capsys.readouterr().out
    assert "9 judgments" in said
    assert "5 before, 4 added, 0 known with the same grade, 2 of the pool still unjudged" in said
    assert "provenance: human 4, unstated 5" in said
    assert f"sha256:{hashlib.sha256(new.read_bytes()).hexdigest()}" in said
    assert old.read_bytes() == before
    spec = tmp_path / "configs/tasks/tiny.yaml"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "qrels": new.name}))
    assert main(["freeze", *words]) == 0
    manifests = [
        json.loads(path.read_text())
        for path in (tmp_path / "store/frozen/tiny").glob("*/manifest.json")
    ]
    assert sorted(found["counts"]["judgments"] for found in manifests) == [5, 9]
    assert len({found["fingerprint"] for found in manifests}) == 2
    assert len({str(found["identity"]["candidates"]) for found in manifests}) == 1


def test_the_provenance_of_old_judgments_may_be_stated(files: Path) -> None:
    """qrels say none: the task's YAML did, and the new file holds it for each row."""
    (files / "graded.csv").write_text("query_id,doc_id,grade\nq1,c,2\nq1,z,\n")
    words = ["--merge", str(files / "graded.csv"), "--judgments", str(files / "judged.qrels")]
    words += ["--provenance", "synthetic", "--judged-provenance", "human"]
    assert main(["pool", *words, "--to", str(files / "v2.jsonl")]) == 0
    assert rows_of(files / "v2.jsonl") == [
        {"query_id": query, "doc_id": doc, "grade": grade, "provenance": who, "attributes": {}}
        for query, doc, grade, who in (
            ("q1", "a", 1, "human"),
            ("q1", "c", 2, "synthetic"),
            ("q2", "b", 0, "human"),
        )
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "x.jsonl"], "name one of: a suite's YAML file, --run FILE, or --merge FILE"),
        (["--run", "one.run", "--merge", "g.csv", "--to", "x"], "name one of"),
        (["--run", "one.run", "--to", "x.xlsx"], "unknown suffix of --to '.xlsx'"),
        (["--run", "one.run", "--depth", "0", "--to", "x.csv"], "--depth must be at least 1"),
        (["--run", "absent", "--to", "x.csv"], "cannot read absent"),
        (["--merge", "g.csv", "--to", "x.jsonl"], "--merge needs --judgments FILE"),
        (
            ["--merge", "g.csv", "--judgments", "judged.qrels", "--provenance", "human"]
            + ["--to", "x.jsonl"],
            "g.csv, line 2, field 'grade': document 'a' of query 'q1' has grade 2 here and 1 in "
            "judged.qrels",
        ),
        (
            ["--merge", "empty.csv", "--judgments", "judged.qrels", "--provenance", "human"]
            + ["--to", "x.jsonl"],
            "empty.csv has no grade",
        ),
        (
            ["--merge", "same.csv", "--judgments", "judged.qrels", "--provenance", "human"]
            + ["--to", "judged.qrels"],
            "judged.qrels exists and holds something else",
        ),
    ],
)
def test_wrong_words_are_one_sentence_and_exit_2(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    """Nothing is written."""
    monkeypatch.chdir(files)
    Path("g.csv").write_text("query_id,doc_id,grade\nq1,a,2\n")
    Path("empty.csv").write_text("query_id,doc_id,grade\nq1,a,\n")
    Path("same.csv").write_text("query_id,doc_id,grade\nq1,a,1\n")
    before = sorted(path.name for path in files.iterdir())
    assert main(["pool", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in files.iterdir()) == before


def test_a_suite_has_to_be_complete_and_know_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 where scores are missing; a name that no task has is wrong input."""
    words = write_suite(tmp_path)
    assert main(["freeze", *words]) == 0
    assert main(["pool", *words, "--to", str(tmp_path / "p.csv")]) == 1
    assert "lacks 1 of 1 shards" in capsys.readouterr().err
    assert main(["pool", *words, "--task", "tinny", "--to", str(tmp_path / "p.csv")]) == 2
    assert "Did you mean 'tiny'" in capsys.readouterr().err

"""`rerank results`. Oracles: conformance case 54, and strict JSON as other parsers read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.__main__ import main

# conformance case 54
BARE = (
    '{"dataset_revision":"d11a14c","task_name":"MIRACLReranking","mteb_version":"2.26.24",'
    '"scores":{"dev":[{"ndcg_at_10":0.65432,"map_at_1000":0.5,"nauc_ndcg_at_10_max":NaN,'
    '"main_score":0.65432,"hf_subset":"ko","languages":["kor-Hang"]}]},"evaluation_time":12.5,'
    '"kg_co2_emissions":null,"date":1796007711.6,"evaluation_phases":null,"unknown":[NaN]}'
)


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "MIRACLReranking.json"
    path.write_text(BARE)
    return path


def test_the_conformance_file(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """main_score 0.65432, split dev, subset ko, nauc null, in strict JSON."""
    assert main(["results", str(bare), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    (row,) = found["results"]
    expected = {
        "file": str(bare),
        "task_name": "MIRACLReranking",
        "split": "dev",
        "hf_subset": "ko",
        "main_score": 0.65432,
        "nauc_ndcg_at_10_max": None,
        "dataset_revision": "d11a14c",
        "mteb_version": "2.26.24",
    }
    assert {key: row[key] for key in expected} == expected


def test_the_table(bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a split and subset; the file where there are several; a dash for no score."""
    assert main(["results", str(bare)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["task", "hf_subset", "split", "main_score"]
    assert lines[2].split() == ["MIRACLReranking", "ko", "dev", "0.6543"]
    other = tmp_path / "Other.json"
    other.write_text(
        '{"task_name": "Other", "scores": {"test": [{"hf_subset": "d", "main_score": NaN}]}}'
    )
    assert main(["results", str(bare), str(other)]) == 0
    assert capsys.readouterr().out.splitlines()[3].split() == [
        "Other",
        "d",
        "test",
        str(other),
        "—",
    ]


def test_write_gives_strict_json_and_keeps_every_key(bare: Path, tmp_path: Path) -> None:
    """Equal to the file with NaN as null; the file itself is left alone."""
    out = tmp_path / "out/strict.json"
    assert main(["results", str(bare), "--write", str(out)]) == 0
    assert json.loads(out.read_text(), parse_constant=refuse) == json.loads(
        BARE, parse_constant=lambda _: None
    )
    assert bare.read_text() == BARE


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["absent.json"], "cannot read absent.json"),
        (["bad.json"], "bad.json: not JSON (Expecting value: line 2"),
        (["meta.json"], "meta.json, field 'task_name'"),
        (["meta.json", "bad.json", "--write", "x.json"], "takes one result file, 2 are given"),
    ],
)
def test_wrong_files_are_one_sentence_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    """File, line and field."""
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text('{"task_name": "T",\n "scores": }')
    Path("meta.json").write_text('{"name": "o/m", "revision": "1"}')
    assert main(["results", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1

"""`rerank calibration` through the command line.

Oracles: conformance case 46 (numbers by hand); wrong lines are named.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.__main__ import main
from tests.conftest import write_jsonl

Capture = pytest.CaptureFixture[str]
EIGHT = [
    {"qid": f"q{1 + at // 4}", "docid": f"d{at}", "prob": p, "label": label, "slice": name}
    for at, (p, label, name) in enumerate(
        [(0.9, 1, "short"), (0.9, 1, "short"), (0.9, 0, "short"), (0.9, 0, "short")]
        + [(0.1, 0, "long"), (0.1, 0, "long"), (0.1, 0, "long"), (0.1, 1, "long")]
    )
]


def answer(capsys: Capture, *words: object) -> dict:
    assert main(["calibration", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


@pytest.mark.parametrize("fit", ["temperature", "platt"])
def test_eight_pairs_by_hand(tmp_path: Path, capsys: Capture, fit: str) -> None:
    """Case 46: ECE 0.275, Brier 0.31, NLL 0.9293; 0.4 and 0.15 by slice; no ranking moves."""
    file = write_jsonl(tmp_path / "pairs.jsonl", EIGHT)
    found = answer(capsys, file, "--bins", 10, "--slice", "slice", "--fit", fit)
    assert found["ECE10"] == pytest.approx(0.275, abs=1e-15)
    assert found["Brier"] == pytest.approx(0.31, abs=1e-15)
    assert found["NLL"] == pytest.approx(0.9293197321589084, abs=1e-15)
    assert found["slices"]["short"]["ECE10"] == pytest.approx(0.4, abs=1e-15)
    assert found["slices"]["long"]["ECE10"] == pytest.approx(0.15, abs=1e-15)
    assert found["fit"]["ranking_changed"] is False
    assert found["fit"]["NLL"] < found["NLL"]
    assert main(["calibration", str(file), "--slice", "slice", "--fit", fit]) == 0
    printed = capsys.readouterr().out
    assert "ranking as it was" in printed
    assert "(0.8, 0.9]" in printed


def test_a_saturated_score_is_counted(tmp_path: Path, capsys: Capture) -> None:
    """Certain and wrong: the likelihood is infinite, null in JSON, said in words."""
    rows = [{"score": 1, "label": False}, {"score": 0.5, "label": 3}]
    file = write_jsonl(tmp_path / "pairs.jsonl", rows)
    found = answer(capsys, file, "--bins", 4, "--rel", 2)
    assert (found["NLL"], found["certain_and_wrong"], found["relevant"]) == (None, 1, 1)
    assert found["ECE4"] == pytest.approx((1 + 0.5) / 2)
    assert main(["calibration", str(file)]) == 0
    assert "infinite (1 certain and wrong)" in capsys.readouterr().out
    assert main(["calibration", str(file), "--fit", "platt"]) == 2
    assert "exactly 0 or 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prob": 1.5, "label": 1}, "line 2, field 'prob': 1.5 is not between 0 and 1"),
        ({"prob": -0.1, "label": 1}, "line 2, field 'prob': -0.1 is not between 0 and 1"),
        ({"prob": "0.5", "label": 1}, "line 2, field 'prob': '0.5' is no number"),
        ({"prob": float("nan"), "label": 1}, "line 2, field 'prob': nan is no number"),
        ({"prob": 10**400, "label": 1}, "is not between 0 and 1"),
        ({"prob": None, "label": 1}, "line 2, field 'prob': None is no number"),
        ({"prob": 0.5, "label": 0.5}, "line 2, field 'label': 0.5 is no whole number"),
        ({"prob": 0.5}, "line 2: field 'label' is missing"),
        ({"label": 1}, "line 2: field 'prob' is missing"),
    ],
)
def test_wrong_pairs_are_named(tmp_path: Path, capsys: Capture, row: dict, message: str) -> None:
    """File, line and field in one sentence, and exit code 2."""
    file = write_jsonl(tmp_path / "pairs.jsonl", [EIGHT[0], row])
    assert main(["calibration", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{file}, line 2" in captured.err
    assert message in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slice", "intent"], "line 1, field 'intent': None is no slice"),
        (["--by", "margin"], "line 1: field 'margin' is missing"),
        (["--bins", "0"], "--bins 0: give 1 to 10,000"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: Capture, words: list[str], message: str
) -> None:
    """One sentence each."""
    file = write_jsonl(tmp_path / "pairs.jsonl", EIGHT)
    assert main(["calibration", str(file), *words]) == 2
    assert message in capsys.readouterr().err
    empty = write_jsonl(tmp_path / "none.jsonl", [])
    assert main(["calibration", str(empty)]) == 2
    assert "holds no pair" in capsys.readouterr().err

"""run.json: what the workers read with, and that they all read alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.__main__ import main


@pytest.fixture
def replayed(tmp_path: Path, make_task: Callable[..., Path]) -> tuple[list[str], Path]:
    """A run of `overlap` in several shards; the words that made it, and its folder."""
    values = {
        "tasks/tiny.yaml": {"folder": str(make_task()), "depth": 10, "shard_pairs": 30},
        "models/overlap.yaml": {"adapter": "overlap"},
        "suites/s.yaml": {"tasks": ["tiny"], "models": ["overlap"], "baseline": "overlap"},
    }
    for name, content in values.items():
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    words = [str(tmp_path / "configs/suites/s.yaml"), f"store={tmp_path}/store"]
    assert main(["freeze", *words]) == 0
    assert main(["replay", *words]) == 0
    (folder,) = (tmp_path / "store/runs/tiny/overlap").iterdir()
    return words, folder


def test_run_json_holds_the_recipe_of_its_receipts(replayed: tuple[list[str], Path]) -> None:
    """What `Scorer.describe` says, from the workers that scored."""
    _, folder = replayed
    receipts = [json.loads(file.read_text()) for file in (folder / "receipts").iterdir()]
    assert len(receipts) > 1
    record = json.loads((folder / "run.json").read_text())
    assert record["recipe"] == receipts[0]["recipe"]
    assert "formula" in record["recipe"]
    assert "device" in receipts[0]["worker"]


def test_shards_that_were_read_differently_are_no_run(
    replayed: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A node with another tokenizer: the sentence names both shards and what differs."""
    words, folder = replayed
    file = sorted((folder / "receipts").iterdir())[-1]
    receipt = json.loads(file.read_text())
    receipt["recipe"] = {**receipt["recipe"], "tokenizer": "sha256:another"}
    file.write_text(json.dumps(receipt))
    assert main(["replay", *words]) == 2
    message = capsys.readouterr().err
    assert "were read with different tokenizer" in message
    assert "shards 0 and" in message
    assert main(["evaluate", *words]) == 2
    assert "were read with different tokenizer" in capsys.readouterr().err


def test_receipts_of_before_recipes_were_kept_still_count(
    replayed: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing committed is scored again."""
    words, folder = replayed
    for file in (folder / "receipts").iterdir():
        receipt = json.loads(file.read_text())
        del receipt["recipe"]
        file.write_text(json.dumps(receipt))
    assert main(["replay", *words]) == 0
    assert "complete, nothing to score" in capsys.readouterr().out

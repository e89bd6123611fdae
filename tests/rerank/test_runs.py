"""A run on disk: what a listing tells, what the full check tells, and what run.json holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.config import load_suite
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from rerank.frozen import Shard
from rerank.runs import Run, in_threads
from rerank.store import Store


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


def test_a_listing_decides_what_is_to_do_and_the_full_check_what_is_done(
    replayed: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """No score file: to do. A changed one, a foreign receipt: not done, and seen when read."""
    words, folder = replayed
    (run_,) = suite_runs(words)
    everything = {shard.number for shard in run_.task.shards}
    assert (run_.listed(), set(run_.receipts())) == (everything, everything)
    assert len(everything) > 3
    files = {int(file.name[:5]): file for file in (folder / "scores").iterdir()}
    receipts = {int(file.stem): file for file in (folder / "receipts").iterdir()}
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes() + b"x")
    changed = json.loads(receipts[2].read_text())
    receipts[2].write_text(json.dumps({**changed, "fingerprint": "another"}))
    (folder / "scores" / "00000.tmp").mkdir()
    assert [shard.number for shard in run_.todo()] == [0]
    assert run_.listed() == everything - {0}
    assert set(run_.receipts()) == everything - {0, 1, 2}
    assert main(["replay", *words]) == 0
    assert set(run_.receipts()) == everything
    assert "scores of shards 1, 2 are damaged" in capsys.readouterr().out


def test_failures_are_listed_once(replayed: tuple[list[str], Path]) -> None:
    """Poisoned shards are no work; other failures are, and an unreadable record is one of them."""
    words, folder = replayed
    (run_,) = suite_runs(words)
    for number, text in {0: '{"kind": "poisoned", "message": "m"}', 1: "{"}.items():
        (folder / f"receipts/{number:05d}.json").unlink()
        file = folder / f"failures/{number:05d}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert run_.all_poisoned() == {0}
    assert [shard.number for shard in run_.todo()] == [1]
    assert "unreadable record" in run_.failures()[1]["message"]
    assert run_.forget_failures([run_.task.shards[1]]) == 1
    assert (run_.all_poisoned(), set(run_.failures())) == ({0}, {0})
    assert run_.forget_failures() == 1
    assert run_.failures() == {}


def test_questions_in_threads_keep_their_order_and_their_errors() -> None:
    """More shards than one thread takes at a time."""
    shards = [Shard(n, "", 1, 1, 1, "", "") for n in range(200)]
    assert in_threads(lambda shard: shard.number, shards) == list(range(200))
    with pytest.raises(ValueError, match="150"):
        in_threads(wrong, shards)


def wrong(shard: Shard) -> int:
    if shard.number == 150:
        raise ValueError(str(shard.number))
    return shard.number


def suite_runs(words: list[str]) -> list[Run]:
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    return runs_of(store, frozen_tasks(suite, store), suite.models[0])

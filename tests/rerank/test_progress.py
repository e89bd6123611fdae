"""The progress file against what its readers are promised: the keys, and when it is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rerank import progress
from rerank.progress import COMPLETE, QUEUED, SCORING, Progress
from rerank.store import Store

KEYS = {
    "suite", "model", "state", "message", "shards_done", "shards_total", "pairs_done",
    "pairs_total", "started", "updated", "submission_id", "host", "pid", "tasks",
}  # fmt: skip


def make(store: Store) -> Progress:
    return Progress(store, "s", "m", "abc", ["t1", "t2"], shards_total=5, pairs_total=50)


def test_the_file_has_every_promised_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values by hand, at the place that readers look at."""
    monkeypatch.setenv("RERANK_SUBMISSION_ID", "rerank-m-1-a1")
    state = make(Store(tmp_path))
    state.enter(QUEUED, "queued: waiting for 1 GPU (0 of 4 free)")
    value = json.loads((tmp_path / "progress/m/abc.json").read_text())
    assert value.keys() == KEYS
    assert (value["suite"], value["model"], value["tasks"]) == ("s", "m", ["t1", "t2"])
    assert (value["state"], value["message"]) == (QUEUED, "queued: waiting for 1 GPU (0 of 4 free)")
    assert (value["submission_id"], value["pid"]) == ("rerank-m-1-a1", os.getpid())
    assert value["started"] <= value["updated"]


def test_it_is_written_at_changes_of_state_and_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts within the interval leave the file alone; a new state and the interval do not."""

    def stored() -> tuple[str, int, int]:
        value = json.loads((tmp_path / "progress/m/abc.json").read_text())
        return value["state"], value["shards_done"], value["pairs_done"]

    state = make(Store(tmp_path))
    state.enter(SCORING)
    state.advance(1, 10)
    state.enter(SCORING)
    assert stored() == (SCORING, 0, 0)
    monkeypatch.setattr(progress, "WRITE_EVERY", 0.0)
    state.advance(1, 10)
    assert stored() == (SCORING, 2, 20)
    monkeypatch.setattr(progress, "WRITE_EVERY", 1e9)
    state.enter(COMPLETE)
    assert stored() == (COMPLETE, 2, 20)


def test_a_store_that_refuses_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """News that cannot be written ends no run."""
    (tmp_path / "progress").write_text("a file where a folder is needed")
    make(Store(tmp_path)).enter(SCORING)
    assert "progress is not written" in caplog.text

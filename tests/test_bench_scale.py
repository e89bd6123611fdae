"""scripts/bench scale: windows and rates of hand-made receipts, by hand; and large tasks, replayed.

The steady window starts after every worker's first shard, so start-up is in no rate.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.config import load_suite
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from rerank.store import Store
from scripts.benchmarks.large_tasks import commit_all_but_last, write_large_suite
from scripts.benchmarks.scale import (
    Worked,
    linear,
    pairs_within,
    rates_of,
    shards_in_work,
    steady_window,
    watch,
)

# two workers: one is up at 0 and works in 2 s, with 0.5 s between shards; the other is up at 3.
# Its first shard takes 3 s (it loads), later ones 2 s.
FIRST = [Worked(start, start + 2.0, 10) for start in (0.0, 2.5, 5.0, 7.5, 10.0, 12.5)]
SECOND = [Worked(3.0, 6.0, 10), Worked(6.5, 8.5, 10), Worked(9.0, 11.0, 10)]


def test_the_window_starts_after_the_first_shards_and_ends_when_one_worker_has_none() -> None:
    """Both are at work from 3.0, but the second's first shard ends at 6.0: at 6.5 both are again.
    From 11.0 on only the first works."""
    assert steady_window(FIRST + SECOND, 2) == (6.5, 11.0)
    assert steady_window(FIRST, 1) == (2.5, 14.5)


def test_a_shard_counts_by_its_share_of_the_window() -> None:
    """[6.5, 11.0]: 0.5 s and 2 s and 1 s of the first worker, 2 s and 2 s of the second, at 5
    pairs a second."""
    assert pairs_within(FIRST + SECOND, 6.5, 11.0) == pytest.approx(5 * 7.5)


def test_rates_of_the_window_and_of_the_whole_run() -> None:
    rates = rates_of(FIRST + SECOND, 2, began=-5.5)
    assert rates.steady == pytest.approx(37.5 / 4.5)
    assert (rates.steady_span, rates.whole_span) == (4.5, 20.0)
    assert rates.whole == pytest.approx(90 / 20)
    assert rates.shard == pytest.approx((8 * 2 + 3) / 9)


def test_pauses_between_shards_lower_the_rate_of_one_worker() -> None:
    """12 s from the second shard on, 10 of them in shards of 5 pairs a second."""
    assert rates_of(FIRST, 1, began=0.0).steady == pytest.approx(50 / 12)


def test_workers_that_were_never_up_together_have_no_window() -> None:
    with pytest.raises(ValueError, match="3 workers were not at work at once"):
        steady_window(FIRST + SECOND, 3)
    with pytest.raises(ValueError, match="too few or too short"):
        steady_window([Worked(0.0, 2.0, 1), Worked(1.0, 3.0, 1)], 2)


def test_linear_is_per_worker_of_the_most_over_the_fewest() -> None:
    rates = {1: {"steady": 20.0}, 4: {"steady": 79.0}, 16: {"steady": 288.0}}
    assert linear(rates, "steady") == pytest.approx(0.9)


def test_a_large_task_is_one_that_replays(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Oracle: the product itself, which checks every digest of a task before it scores it."""
    suite = write_large_suite(tmp_path, shards=3, queries=2, candidates=5, token_budget=100)
    assert main(["replay", str(suite), "engine=inline"]) == 0
    assert "30 pairs in 3 shards: 3 committed" in capsys.readouterr().out
    receipts = shards_in_work(tmp_path / "store")
    assert [receipt.pairs for receipt in receipts] == [10, 10, 10]


def test_only_the_last_shard_is_left_to_do(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Receipts and scores made without scoring pass the product's full check, and are the same as
    scored ones where the texts are."""
    suite_file = write_large_suite(tmp_path, shards=9, queries=1, candidates=1, token_budget=100)
    missing = commit_all_but_last(suite_file)
    suite, store = load_suite(suite_file), Store(tmp_path / "store")
    (run,) = runs_of(store, frozen_tasks(suite, store), suite.models[0])
    assert sorted(run.receipts()) == list(range(8))
    assert [shard.number for shard in run.todo()] == [8]
    assert main(["replay", str(suite_file)]) == 0
    assert "1 pairs in 1 shards: 1 committed" in capsys.readouterr().out
    assert missing.is_file()
    table = run.scores()
    assert table["query_id"].to_pylist() == [f"q{number:09d}" for number in range(9)]
    assert table["score"][8] == table["score"][0]  # the ninth query has the text of the first


def test_a_command_is_watched_until_its_file_is_there(tmp_path: Path) -> None:
    """Oracle: the 64 MiB that the command asks for."""
    code = "import sys, time; held = bytearray(2**26); open(sys.argv[1], 'w'); time.sleep(0.3)"
    peak, seconds, seen = watch([sys.executable, "-c", code, str(tmp_path / "f")], tmp_path / "f")
    assert 64 < peak < 128
    assert 0 < seen < seconds
    with pytest.raises(subprocess.CalledProcessError):
        watch([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.slow
def test_short_scale_runs_on_simulated_nodes() -> None:
    command = [sys.executable, "-m", "scripts.benchmarks", "scale", "--short"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    last = json.loads(answer.stdout.splitlines()[-1])
    assert 0 < last["linear_at_4"] < 1.5
    assert list(last["steady_pairs_per_second"]) == ["1", "2", "4"]

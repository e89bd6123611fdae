"""What dies, and what is left: real processes, both engines, SIGKILL.

Oracle: an undisturbed run of the same shards. Whatever was killed, score files must have its bytes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.fields import LIMIT, Field, poisoned_task, wait_for

ENGINES = ["inline", "ray"]
# on Ray the conformance cases on two nodes and scripts/chaos --short try the same
SLOW_ON_RAY = ["inline", pytest.param("ray", marks=pytest.mark.slow)]


@pytest.mark.parametrize("engine", SLOW_ON_RAY)
def test_a_killed_driver_loses_only_what_was_in_flight(
    engine: str, make_field: Callable[..., Field]
) -> None:
    """kill -9, the same command again: nothing committed is scored twice, bytes as undisturbed."""
    calm, killed = make_field("calm"), make_field("killed")
    assert calm.finish("inline")[0] == 0
    for _ in range(2):
        before = len(killed.receipts())
        process = killed.start(engine, delay=0.02, workers=1)
        wait_for(lambda: len(killed.receipts()) >= before + 2, process)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(3 if engine == "ray" else 0)  # orphaned actors may still commit: let them
    done = killed.receipts()
    assert 0 < len(done) < len(calm.receipts())
    rows_done = {(row["query_id"], row["doc_id"]) for row in killed.rows()}
    before_resume = killed.forwarded()
    assert killed.finish(engine, workers=2)[0] == 0
    again = killed.forwarded() - before_resume
    assert not rows_done & {tuple(line.split()) for line in again}
    assert killed.score_bytes() == calm.score_bytes()
    assert {name: killed.receipts()[name]["file"] for name in done} == {
        name: receipt["file"] for name, receipt in done.items()
    }


@pytest.mark.slow  # see SLOW_ON_RAY
def test_a_killed_actor_does_not_stop_the_run(
    make_field: Callable[..., Field], tmp_path: Path
) -> None:
    """Ray starts another actor, which takes the same batches: equal bytes, exit 0."""
    calm, struck = make_field("calm"), make_field("struck")
    assert calm.finish("inline")[0] == 0
    fuse = tmp_path / "fuse"
    fuse.touch()
    code, text = struck.finish("ray", crash_once=str(fuse), workers=1)
    assert (code, fuse.exists()) == (0, False), text
    assert struck.score_bytes() == calm.score_bytes()
    assert sum(receipt["deaths"] for receipt in struck.receipts().values()) == 1


@pytest.mark.slow  # see SLOW_ON_RAY
def test_one_poison_pair_costs_one_score_on_ray(make_field: Callable[..., Field]) -> None:
    """Conformance 50: b is scored at batch size 1, (q2, a) fails after 5 deaths, exit 1."""
    field = poisoned_task(make_field, "poison", {"q1 b": "__OOM__", "q2 a": "__CRASH__"})
    code, text = field.finish("ray", workers=1)
    assert code == 1, text
    assert "1 pairs without a score" in text
    found = {(row["query_id"], row["doc_id"]): row["failure"] for row in field.rows()}
    assert found == {
        ("q1", "a"): None,
        ("q1", "b"): None,
        ("q1", "c"): None,
        ("q2", "a"): "the process died on this input",
        ("q2", "b"): None,
    }
    assert field.forwarded()["q2 a"] == 5
    (receipt,) = field.receipts().values()
    assert (receipt["deaths"], receipt["failed"]) == (5, 1)


def test_one_poison_pair_is_found_inline_over_reruns(make_field: Callable[..., Field]) -> None:
    """There each death ends the command; the sixth start knows the pair and finishes."""
    field = poisoned_task(make_field, "poison", {"q2 a": "__CRASH__"})
    assert [field.finish("inline")[0] for _ in range(6)] == [-9, -9, -9, -9, -9, 1]
    failures = [row["doc_id"] for row in field.rows() if row["failure"]]
    assert failures == ["a"]
    assert field.finish("inline", max_failed_pairs=1)[0] == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("__RAISE__", "this model refuses the shard"),
        ("__NAN__", "query 'q2', document 'a'"),
        ("__EXIT__", "SystemExit"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_shard_that_fails_is_named_and_the_rest_is_scored(
    engine: str, text: str, word: str, make_field: Callable[..., Field]
) -> None:
    """An error is recorded with its reason, exit 1; shards of other queries are committed."""
    if engine == "ray" and text != "__EXIT__":
        pytest.skip("the worker is the same object in both engines; one death-like fault suffices")
    field = poisoned_task(make_field, "fails", {"q2 a": text})
    task = json.loads(field.task_file.read_text())
    field.task_file.write_text(json.dumps({**task, "shard_pairs": 3}))
    code, said = field.finish(engine)
    assert code == 1, said
    assert word in said
    assert "lacks 1 of 2 shards (1)" in said
    assert {(row["query_id"], row["score"] is not None) for row in field.rows()} == {("q1", True)}


def test_a_pair_too_big_alone_is_a_failed_row(make_field: Callable[..., Field]) -> None:
    """Out of memory at batch size 1: recorded, everything else scored, exit 1."""
    field = poisoned_task(make_field, "big", {"q1 c": "__BIG__"})
    assert field.finish("inline")[0] == 1
    found = {(row["query_id"], row["doc_id"]): row["failure"] for row in field.rows()}
    assert [key for key, failure in found.items() if failure] == [("q1", "c")]
    assert found["q1", "c"] == "out of memory at batch size 1"


def test_a_hung_shard_is_ended_by_the_watchdog(make_field: Callable[..., Field]) -> None:
    """It counts as a death, so the pair that hangs is found and the rest is scored."""
    field = poisoned_task(make_field, "hangs", {"q2 a": "__HANG__"})
    code, text = field.finish("ray", shard_timeout=2.0, workers=1)
    assert code == 1, text
    assert [row["doc_id"] for row in field.rows() if row["failure"]] == ["a"]


def test_failed_shards_are_taken_up_again_on_request(make_field: Callable[..., Field]) -> None:
    """--retry-failed scores what failed and nothing else."""
    field = poisoned_task(make_field, "fails", {"q2 a": "__BIG__"})
    task = json.loads(field.task_file.read_text())
    field.task_file.write_text(json.dumps({**task, "shard_pairs": 3}))
    assert field.finish("inline")[0] == 1
    before = field.forwarded()
    assert field.finish("inline")[0] == 1
    assert field.forwarded() == before
    assert field.finish("inline", retry_failed=True)[0] == 1
    assert {line.split()[0] for line in field.forwarded() - before} == {"q2"}


def test_two_replays_at_once_do_not_corrupt_each_other(make_field: Callable[..., Field]) -> None:
    """Both end well, and the bytes are those of one."""
    calm, shared = make_field("calm"), make_field("shared")
    assert calm.finish("inline")[0] == 0
    processes = [shared.start("inline", delay=0.01) for _ in range(2)]
    for process in processes:
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, err
    assert shared.score_bytes() == calm.score_bytes()


def test_sigterm_ends_an_inline_replay_in_order(make_field: Callable[..., Field]) -> None:
    """Exit 1 and the command that finishes; the shard in work is no death, and nothing is left."""
    field = make_field("stopped")
    process = field.start("inline", delay=0.05)
    wait_for(lambda: len(field.receipts()) >= 2, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, out + err
    assert "finish the rest with: the same command" in out
    assert field.attempts() == []
    assert [value["state"] for value in field.progress()] == ["incomplete"]
    assert field.finish("inline")[0] == 0
    assert {receipt["deaths"] for receipt in field.receipts().values()} == {0}


@pytest.mark.slow  # see SLOW_ON_RAY
def test_one_and_two_actors_give_the_same_files(make_field: Callable[..., Field]) -> None:
    """Scores do not know how many workers there were, nor which engine it was."""
    fields = [make_field("one"), make_field("two"), make_field("inline")]
    assert fields[0].finish("ray", workers=1)[0] == 0
    assert fields[1].finish("ray", workers=2)[0] == 0
    assert fields[2].finish("inline")[0] == 0
    assert fields[0].score_bytes() == fields[1].score_bytes() == fields[2].score_bytes()


def test_any_subset_of_finished_shards_resumes_to_the_same_bytes(
    make_field: Callable[..., Field],
) -> None:
    """Lost receipts, lost or torn score files, foreign receipts: each is simply not done."""
    calm, hurt = make_field("calm"), make_field("hurt")
    assert calm.finish("inline")[0] == 0
    assert hurt.finish("inline")[0] == 0
    (folder,) = hurt.store.glob("runs/*/*/*")
    names = sorted(hurt.receipts())
    assert len(names) >= 8
    (folder / "receipts" / f"{names[0]}.json").unlink()
    (folder / "scores" / hurt.receipts()[names[1]]["file"]).unlink()
    torn = folder / "scores" / hurt.receipts()[names[2]]["file"]
    torn.write_bytes(torn.read_bytes()[:-7])
    foreign = folder / "receipts" / f"{names[3]}.json"
    foreign.write_text(json.dumps({**json.loads(foreign.read_text()), "fingerprint": "other"}))
    rows = {
        name: pq.read_table(folder / "scores" / hurt.receipts()[name]["file"]).num_rows
        for name in names[3:]
    }
    before = hurt.forwarded()
    assert hurt.finish("inline")[0] == 0
    assert hurt.score_bytes() == calm.score_bytes()
    again = sum((hurt.forwarded() - before).values())
    assert again == sum(before.values()) - sum(rows[name] for name in names[4:])


@pytest.mark.parametrize("engine", SLOW_ON_RAY)
def test_a_full_disk_is_one_sentence_and_a_rerun_finishes(
    engine: str, make_field: Callable[..., Field], tmp_path: Path
) -> None:
    """A 1 MiB file system fills up midway; with room again the bytes are those of a calm run."""
    calm, full = make_field("calm"), make_field("full")
    assert calm.finish("inline")[0] == 0
    full.store.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(full.store)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        code, said = full.finish(engine, workers=1) if engine == "ray" else full.finish(engine)
        assert code == 1, said
        assert "No space left on device" in said
        assert "Traceback" not in said
        done = full.receipts()
        assert 0 < len(done) < len(calm.receipts())
        subprocess.run(["mount", "-o", "remount,size=8m", str(full.store)], check=True)
        assert full.finish("inline")[0] == 0
        assert full.score_bytes() == calm.score_bytes()
        assert {name: full.receipts()[name]["file"] for name in done} == {
            name: receipt["file"] for name, receipt in done.items()
        }
    finally:
        subprocess.run(["umount", "-l", str(full.store)], check=True)

"""`rerank jobs`: what is said of a model from the cluster's, its driver's and the store's word.

Oracle: a table written by hand; receipts and failures of a suite replayed inline.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.submission import FAILED, PENDING, RUNNING, STOPPED, SUCCEEDED, Job
from jobs.config import load_suite
from jobs.freeze import frozen_tasks
from jobs.job_table import (
    RunFacts,
    job_rows,
    job_table,
    json_rows,
    latest_progress,
    run_facts,
)
from jobs.replay import runs_of
from rerank.runs import Run
from rerank.store import Store
from tests.jobs.small_suite import replayed_suite

NOW = 1_000_000.0
HALF = RunFacts("m", "t", 2, 4)
RAY_MESSAGE = (
    "Job entrypoint command failed with exit code 2, last available logs:\na\n  boom here\n"
)


def progress(**values: Any) -> dict[str, Any]:
    return {
        "suite": "s",
        "state": "scoring",
        "message": "",
        "shards_done": 2,
        "pairs_done": 500,
        "pairs_total": 1500,
        "started": NOW - 55.0,
        "updated": NOW - 5.0,
        "submission_id": "id-a1",
        **values,
    }


STATES = [
    # job's status, driver's word, did the cluster answer -> state
    (None, None, True, "not submitted"),
    (None, None, False, "unknown, 2 of 4 shards in storage"),
    (None, progress(), True, "scoring"),
    (None, progress(submission_id=""), False, "scoring"),
    (None, progress(updated=NOW - 4000), True, "not submitted"),
    (None, progress(updated=NOW - 4000), False, "unknown, 2 of 4 shards in storage"),
    (PENDING, None, True, "pending"),
    (RUNNING, None, True, "starting"),
    (RUNNING, progress(submission_id="id-a0"), True, "starting"),
    (RUNNING, progress(state="queued"), True, "queued"),
    (RUNNING, progress(), True, "scoring"),
    (RUNNING, progress(updated=NOW - 400), True, "scoring, no news for 400 s"),
    (SUCCEEDED, progress(state="complete"), True, "incomplete"),
    (FAILED, progress(state="refused"), True, "failed"),
    (STOPPED, progress(), True, "stopped"),
    (STOPPED, progress(submission_id=""), True, "scoring"),  # taken up by hand
    (STOPPED, progress(submission_id="", state="complete"), True, "stopped"),
]


@pytest.mark.parametrize(("status", "said", "answered", "state"), STATES)
def test_the_state_of_an_unfinished_run(
    status: str | None, said: dict[str, Any] | None, answered: bool, state: str
) -> None:
    """A driver's old word about another attempt says nothing about this one."""
    job = Job("id-a1", status) if status else None
    (row,) = job_rows([HALF], said, job, answered=answered, now=NOW)
    assert row.state == state
    assert (row.shards_done, row.shards_total, row.complete) == (2, 4, False)


def test_pace_and_time_left_are_those_of_the_driver() -> None:
    """500 pairs in 50 s are 10 a second; 1,000 are left. A finished task shows neither."""
    done = RunFacts("m", "u", 3, 3, where="node-1 L4")
    rows = job_rows([HALF, done], progress(), Job("id-a1", RUNNING), answered=True, now=NOW)
    assert [(row.rate, row.left) for row in rows] == [(10.0, 100.0), (None, None)]
    assert [row.state for row in rows] == ["scoring", "complete"]
    lines = job_table(rows).splitlines()
    assert lines[2].split() == ["m", "t", "scoring", "2/4", "10", "0:01:40", "—", "—"]
    assert lines[3].split() == ["u", "complete", "3/3", "—", "—", "node-1", "L4", "—"]
    assert json_rows(rows)[0]["rate"] == 10.0


@pytest.mark.parametrize(
    ("facts", "said", "job", "error"),
    [
        (RunFacts("m", "t", 0, 1, failures=("shard 0 fails",)), None, None, "shard 0 fails"),
        (HALF, None, Job("id-a1", FAILED, RAY_MESSAGE), "boom here"),
        (
            HALF,
            progress(state="refused", message="no such model"),
            Job("id-a1", FAILED, RAY_MESSAGE),
            "no such model",
        ),
        (
            HALF,
            progress(state="refused", message="of an older job", submission_id="id-a0"),
            Job("id-a1", FAILED, RAY_MESSAGE),
            "boom here",
        ),
        (HALF, progress(state="incomplete", message="2 shards failed"), None, "2 shards failed"),
        (HALF, progress(), Job("id-a1", RUNNING), ""),
        (RunFacts("m", "t", 1, 1), None, Job("id-a1", FAILED, RAY_MESSAGE), ""),
    ],
)
def test_the_last_error_is_the_nearest_to_the_work(
    facts: RunFacts, said: dict[str, Any] | None, job: Job | None, error: str
) -> None:
    """A shard's failure before the driver's word before the last line of the job's log."""
    (row,) = job_rows([facts], said, job, answered=True, now=NOW)
    assert row.error == error


@pytest.fixture
def overlap(tmp_path: Path) -> Run:
    words = replayed_suite(tmp_path)
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    (run,) = runs_of(store, frozen_tasks(suite, store), suite.models[1])
    return run


def test_what_the_store_holds_is_listed(overlap: Run) -> None:
    """One receipt and where it was scored; a failure counts where there is no receipt."""
    facts = run_facts(overlap)
    assert (facts.done, facts.total, facts.failures) == (1, 1, ())
    receipt = overlap.receipt(overlap.task.shards[0])
    assert receipt is not None
    assert facts.where == receipt["worker"]["host"]
    failure = {"kind": "error", "message": "it fails"}
    overlap.store.write_json(f"{overlap.key}/failures/00000.json", failure)
    assert run_facts(overlap).failures == ()
    overlap.store.remove(f"{overlap.key}/receipts/00000.json")
    facts = run_facts(overlap)
    assert (facts.done, facts.failures) == (0, ("it fails",))


def test_the_driver_of_the_job_is_heard_before_a_newer_one(overlap: Run) -> None:
    """Else the newest of this suite; torn files and other suites' say nothing."""
    assert latest_progress(overlap, "nobody's", "id-a1") is None
    for name, record in {
        "1": progress(suite="mine", updated=10.0),
        "2": progress(suite="mine", updated=20.0, submission_id="id-a2"),
        "3": progress(updated=30.0, suite="another"),
    }.items():
        overlap.store.write_json(f"progress/overlap/{name}.json", record)
    overlap.store.write("progress/overlap/4.json", json.dumps(progress())[:50].encode())
    heard = {job: latest_progress(overlap, "mine", job) for job in ("id-a1", "id-a2", "")}
    assert {job: found and found["updated"] for job, found in heard.items()} == {
        "id-a1": 10.0,
        "id-a2": 20.0,
        "": 20.0,
    }

"""What to submit, in which order, how many at once and how wide: without Ray.

Oracle: tables written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cluster.job_queue import (
    ATTACH,
    COMPLETE,
    GIVEN_UP,
    INCOMPLETE,
    SKIP,
    SUBMIT,
    Decision,
    attempts_of,
    decide,
    family_of,
    ordered,
    quota,
    run_queue,
)
from cluster.submission import FAILED, PENDING, RUNNING, STOPPED, SUCCEEDED, Job
from rerank.errors import ConfigError


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("overlap", "rerank-overlap-01234567-a"),
        ("Qwen3_Reranker.0.6B", "rerank-qwen3-reranker-0-6b-01234567-a"),
        ("한국어", "rerank-model-01234567-a"),
        ("x" * 100, f"rerank-{'x' * 40}-01234567-a"),
    ],
)
def test_ids_are_made_of_model_and_fingerprint(model: str, family: str) -> None:
    """Letters that a URL can hold; names that come to the same word differ in the fingerprint."""
    assert family_of(model, "0123456789abcdef") == family


def test_attempts_are_those_of_the_family() -> None:
    """Not those of a longer name, of another fingerprint, or of a hand."""
    ids = [
        "rerank-m-01-a1",
        "rerank-m-01-a12",
        "rerank-m-02-a3",
        "rerank-mm-01-a4",
        "rerank-m-01-ax",
    ]
    found = attempts_of("rerank-m-01-a", {id_: Job(id_, FAILED) for id_ in ids})
    assert sorted(found) == [1, 12]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", ""),
        ("Job has not started yet.", "Job has not started yet."),
        ("failed, last logs:\n/bin/sh: KEY: is not set\nRunning entrypoint for job j: x\n\n",
         "/bin/sh: KEY: is not set"),
    ],
)  # fmt: skip
def test_the_reason_is_what_the_job_said_last(message: str, reason: str) -> None:
    """Ray's line about the command may come after it, since it is written when the file closes."""
    assert Job("j", FAILED, message).reason == reason


# what the store holds, attempts on the cluster -> what to do
DECISIONS = [
    (COMPLETE, {}, Decision(SKIP)),
    (COMPLETE, {1: SUCCEEDED}, Decision(SKIP)),
    (COMPLETE, {1: FAILED}, Decision(SKIP)),
    (COMPLETE, {1: RUNNING}, Decision(SKIP)),
    (INCOMPLETE, {}, Decision(SUBMIT, 1)),
    (INCOMPLETE, {1: PENDING}, Decision(ATTACH, 1)),
    (INCOMPLETE, {1: RUNNING}, Decision(ATTACH, 1)),
    (INCOMPLETE, {1: SUCCEEDED}, Decision(SUBMIT, 2)),
    (INCOMPLETE, {1: FAILED}, Decision(SUBMIT, 2)),
    (INCOMPLETE, {1: STOPPED}, Decision(SUBMIT, 2)),
    (INCOMPLETE, {1: FAILED, 2: RUNNING}, Decision(ATTACH, 2)),
    (INCOMPLETE, {1: RUNNING, 2: FAILED}, Decision(ATTACH, 1)),
    (INCOMPLETE, {1: FAILED, 10: STOPPED, 2: FAILED}, Decision(SUBMIT, 11)),
    (GIVEN_UP, {}, Decision(SKIP)),
    (GIVEN_UP, {1: FAILED}, Decision(SKIP)),
    (GIVEN_UP, {1: FAILED, 2: RUNNING}, Decision(ATTACH, 2)),
]


@pytest.mark.parametrize(("stored", "attempts", "decision"), DECISIONS)
def test_storage_decides_what_is_done_and_the_cluster_who_is_at_it(
    stored: str, attempts: dict[int, str], decision: Decision
) -> None:
    assert decide(stored, attempts) == decision


@pytest.mark.parametrize(
    ("capacity", "sharers", "share", "most", "workers"),
    [
        (8, 1, 1.0, None, 8),
        (8, 4, 1.0, None, 2),
        (8, 3, 1.0, None, 2),  # 2.67 workers: nobody gets more than a share
        (8, 19, 1.0, None, 1),  # more jobs than GPUs: each waits for one
        (0, 2, 1.0, None, 1),  # starts from nothing: the pending worker asks for a node
        (8, 2, 0.5, None, 8),
        (8, 2, 2.0, None, 2),
        (0.3, 1, 0.1, None, 3),  # 0.3 / 0.1 is 2.9999999999999996
        (64, 1, 1.0, 4, 4),
        (8, 2, 0.0, None, 1),
    ],
)
def test_a_share_of_the_cluster_is_at_least_one_worker(
    capacity: float, sharers: int, share: float, most: int | None, workers: int
) -> None:
    """floor(capacity / (jobs x share of a worker))."""
    assert quota(capacity, sharers, share, most) == workers


def test_order_by_size_keeps_unknown_ones_last() -> None:
    """Equals as they are listed; a word that is no order is refused."""
    sizes = {"b": 4.0, "unknown": None, "a": 0.6, "c": 4.0, "none": 0.0}
    assert ordered(sizes, "listed") == ["b", "unknown", "a", "c", "none"]
    assert ordered(sizes, "small") == ["none", "a", "b", "c", "unknown"]
    assert ordered(sizes, "large") == ["b", "c", "a", "none", "unknown"]
    with pytest.raises(ConfigError, match="Did you mean 'small'"):
        ordered(sizes, "smal")


class FakeCluster:
    """Jobs that end in the order they came, one at each pause."""

    def __init__(self, others: Mapping[str, str] | None = None) -> None:
        self.states = dict(others or {})
        self.said: list[tuple[str, ...]] = []
        self.sharers: list[int] = []
        self.most = 0

    def start(self, model: str, sharers: int) -> str:
        self.sharers.append(sharers)
        if model == "done meanwhile":
            return ""
        self.states[f"id of {model}"] = RUNNING
        self.most = max(self.most, sum(state == RUNNING for state in self.states.values()))
        return f"id of {model}"

    def jobs(self) -> dict[str, Job]:
        return {id_: Job(id_, state) for id_, state in self.states.items()}

    def ended(self, model: str, job: Job | None) -> None:
        self.said.append((model, job.status if job else "gone"))

    def pause(self, waiting: int, flying: int) -> None:
        first = next(id_ for id_, state in self.states.items() if state == RUNNING)
        self.states[first] = FAILED if "bad" in first else SUCCEEDED

    def run(
        self, waiting: list[str], limit: int | None, *, flying: dict[str, str], until_end: bool
    ) -> None:
        run_queue(
            waiting,
            flying,
            limit,
            self.start,
            self.jobs,
            self.ended,
            until_end=until_end,
            pause=self.pause,
        )


def test_a_queue_keeps_its_limit_and_goes_on_after_a_failure() -> None:
    """Never more than two at once; the failed one frees its place; what is done starts nothing."""
    cluster = FakeCluster()
    waiting = ["a", "bad", "done meanwhile", "b", "c"]
    cluster.run(waiting, 2, flying={}, until_end=True)
    assert cluster.most == 2
    assert cluster.said == [("a", SUCCEEDED), ("bad", FAILED), ("b", SUCCEEDED), ("c", SUCCEEDED)]
    assert cluster.sharers == [2, 2, 2, 2, 2]


def test_jobs_of_others_take_places_too() -> None:
    """A place is free when another suite's job ends; attached jobs are not started again."""
    cluster = FakeCluster({"other": RUNNING, "id of mine": RUNNING})
    cluster.run(["a", "b"], 2, flying={"mine": "id of mine"}, until_end=False)
    assert cluster.most == 2
    assert cluster.said == [("mine", SUCCEEDED)]
    assert cluster.states["other"] == SUCCEEDED
    assert {"id of a", "id of b"} <= set(cluster.states)


def test_without_a_limit_all_start_at_once_on_equal_shares() -> None:
    """Nothing is waited for, and each counts those that will run beside it."""
    cluster = FakeCluster({"other": RUNNING})
    cluster.run(["a", "b", "c"], None, flying={}, until_end=False)
    assert cluster.sharers == [4, 4, 4]
    assert cluster.most == 4
    assert cluster.said == []


def test_a_job_that_the_cluster_forgot_is_told() -> None:
    """As after a new head: its job is gone, and the queue does not wait for it."""
    cluster = FakeCluster({"other": RUNNING})
    cluster.run([], None, flying={"a": "id that is gone"}, until_end=True)
    assert cluster.said == [("a", "gone")]

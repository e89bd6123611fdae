"""The attempt ledger with real processes: who died, whose fault, and what the next one is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from rerank.ledger import Attempt, Session, process_start
from rerank.store import Store

RUN = "runs/t/m/f"
SPAWN = multiprocessing.get_context("spawn")


def die(root: str, session: Session, batch: tuple[int, ...] | None, node: str) -> None:
    """Start an attempt, note a batch, and be killed as an out-of-memory killer would."""
    attempt = Attempt(Store(root), RUN, "00000", session, node=node)
    if batch is not None and attempt.deaths:
        attempt.begin(batch)
    os.kill(os.getpid(), signal.SIGKILL)


def killed(
    store: Store, session: Session, batch: tuple[int, ...] | None = None, node: str = ""
) -> None:
    process = SPAWN.Process(target=die, args=(str(store.root), session, batch, node))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_an_attempt_that_ends_is_no_death(store: Store) -> None:
    """Ten clean ends, nothing charged, nothing left."""
    session = Session.new("ray")
    for _ in range(10):
        Attempt(store, RUN, "00000", session).end()
    assert Attempt(store, RUN, "00000", session).deaths == 0


def test_a_living_attempt_is_no_death(store: Store) -> None:
    """Two replays of one run at once do not take each other for dead."""
    first = Attempt(store, RUN, "00000", Session.new("ray"))
    assert Attempt(store, RUN, "00000", Session.new("ray")).deaths == 0
    first.end()


def test_a_killed_worker_is_charged_to_its_shard(store: Store) -> None:
    """In one session every death counts once, however often it is looked at."""
    session = Session.new("ray")
    killed(store, session)
    killed(store, session)
    for _ in range(2):
        attempt = Attempt(store, RUN, "00000", session)
        assert attempt.deaths == 2
        attempt.end()


def test_a_killed_driver_is_not_charged_to_the_shard(store: Store) -> None:
    """Ray actors die with their driver: five drivers killed in one shard poison nothing."""
    for _ in range(5):
        killed(store, Session.new("ray"), (0, 1))
    assert Attempt(store, RUN, "00000", Session.new("ray")).deaths == 0


def test_inline_deaths_count_across_sessions(store: Store) -> None:
    """There driver and worker are one process: a pair that kills it would kill every rerun."""
    for _ in range(3):
        killed(store, Session.new("inline"))
    assert Attempt(store, RUN, "00000", Session.new("inline")).deaths == 3


def test_five_deaths_lead_from_the_shard_to_the_input(store: Store) -> None:
    """Nothing known, then the batch, then the single input thrice: the module's table."""
    session = Session.new("ray")
    killed(store, session)
    attempt = Attempt(store, RUN, "00000", session)
    assert (attempt.deaths, attempt.suspects((3, 4)), attempt.doomed(4)) == (1, False, False)
    attempt.end()
    killed(store, session, (3, 4))
    attempt = Attempt(store, RUN, "00000", session)
    assert (attempt.suspects((3, 4)), attempt.suspects((0, 1)), attempt.doomed(4)) == (
        True,
        False,
        False,
    )
    attempt.end()
    killed(store, session, (4,))
    attempt = Attempt(store, RUN, "00000", session)
    assert (attempt.deaths, attempt.doomed(4), attempt.doomed(3)) == (3, False, False)
    attempt.end()
    for _ in range(2):
        killed(store, session, (4,))
    attempt = Attempt(store, RUN, "00000", session)
    assert (attempt.deaths, attempt.doomed(4), attempt.doomed(3)) == (5, True, False)


def test_two_deaths_alone_are_no_verdict_on_an_input(store: Store) -> None:
    """A worker that an operator kills while it forwards one input: that input is scored."""
    session = Session.new("ray")
    for _ in range(2):
        killed(store, session, (4,))
    assert not Attempt(store, RUN, "00000", session).doomed(4)


def test_the_journal_remembers_outputs_to_the_last_bit(store: Store) -> None:
    """fp32 values, failures and gaps come back as they were."""
    session = Session.new("ray")
    values = np.array([1 / 3, -1e-38, 16777217.0], dtype=np.float32)
    first = Attempt(store, RUN, "00000", session)
    first.finish((2, 0, 1), [values, "refused", values[:1]])
    back = Attempt(store, RUN, "00000", session).recall((2, 0, 1))
    assert back is not None
    assert isinstance(back[0], np.ndarray)
    assert back[0].tobytes() == values.tobytes()
    assert back[1] == "refused"
    assert Attempt(store, RUN, "00000", session).recall((0, 2, 1)) is None


def test_a_commit_clears_the_ledger(store: Store) -> None:
    """Nothing of a shard's troubles stays behind its receipt."""
    session = Session.new("ray")
    killed(store, session)
    attempt = Attempt(store, RUN, "00000", session)
    attempt.clear()
    assert store.files(attempt.folder) == []


def test_a_process_is_told_from_a_later_one_of_the_same_number() -> None:
    """By its start; a process that is gone has none."""
    assert process_start(os.getpid()) == process_start(os.getpid()) != ""
    process = SPAWN.Process(target=os.getpid)
    process.start()
    process.join(60)
    assert process.pid is not None
    assert process_start(process.pid) == ""


def test_a_death_with_its_node_is_not_the_shards(store: Store) -> None:
    """Charged at first, since processes die before their node is known to be gone; taken back
    later, with the batch it was at, and counted apart."""
    session = Session.new("ray")
    killed(store, session, node="spot")
    killed(store, session, ("a", "b"), node="spot")
    killed(store, session, node="other")
    attempt = Attempt(store, RUN, "00000", session)
    assert (attempt.deaths, attempt.lost, attempt.suspects(("a", "b"))) == (3, 0, True)
    attempt.end()
    attempt = Attempt(store, RUN, "00000", session, lost=lambda node: node == "spot")
    assert (attempt.deaths, attempt.lost, attempt.suspects(("a", "b"))) == (1, 2, False)
    attempt.clear()
    assert store.files(f"{RUN}/attempts/00000") == []

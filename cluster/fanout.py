"""Replay on Ray: shard descriptors through Ray Data to actors that each own one model.

Descriptors, not texts, pass through Ray: `from_items` with a block for each row has no read task,
while `read_parquet` may turn a task into one block and can hang on few CPUs.
A shard's fault never leaves its worker (it is an Outcome), so an error of the dataset is a death
of actors or nodes: a new round starts with what is still to do. A round that committed nothing is
a stall, and few of those in a row end it. What kills its process every time is bounded by the
ledger, not by Ray, which would retry for ever.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from cluster.connection import connected
from cluster.waiting import Demand, places, wait_for_place
from cluster.weights import fetch_everywhere
from cluster.worker import RayWorker
from rerank.errors import ScoringError
from rerank.progress import LOADING, QUEUED
from rerank.replay import COMMITTED, Outcome, ShardJob, WorkerSpec

MAX_STALLS = 3  # rounds in a row that committed nothing
MAX_CPU_WORKERS = 4
SHARD_TIMEOUT = 3600.0  # seconds after which a worker stuck in one shard is ended

Tell = Callable[[str, str], None]  # (state, message)


@dataclass(frozen=True)
class Fanout:
    """Where and how wide: the circumstances of a Ray replay, never part of a run's identity."""

    address: str = ""  # "" starts an embedded local Ray
    workers: int | None = None  # the quota; None: as many as the cluster holds
    num_cpus: int | None = None  # of the embedded Ray
    shard_timeout: float = SHARD_TIMEOUT
    stalls: int = MAX_STALLS
    log_lines: bool = False  # workers write a JSON line a shard


def run_on_ray(
    jobs: list[ShardJob],
    spec: WorkerSpec,
    fanout: Fanout,
    todo: Callable[[], list[ShardJob]],
    tell: Tell = lambda state, message: None,
) -> Iterator[Outcome]:
    """Outcomes as they come. `todo()` is asked again after a round that lost actors or nodes.

    `tell` hears when it waits for room (queued) and when workers start (loading). After too many
    stalls it simply ends: what has no receipt is missing, and the caller says so. ScoringError
    where no worker can load the model.
    """
    stalls = 0
    with embedded_or(fanout.address, fanout.num_cpus):
        demand = Demand.of(spec.model, spec.placement.device)
        while jobs and stalls < fanout.stalls:
            stalls += 1
            try:
                wait_for_place(
                    demand, lambda text: tell(QUEUED, text), can_grow=bool(fanout.address)
                )
                tell(LOADING, "fetching weights and loading the model")
                fetch_everywhere(spec.model, demand)
                for outcome in _round(jobs, spec, fanout, demand):
                    stalls = 0 if outcome.status == COMMITTED else stalls
                    yield outcome
            except _ray_errors() as error:
                logging.getLogger(__name__).warning("a round ended early: %s", _cause(error))
                jobs = todo()
            else:
                return


@contextmanager
def embedded_or(address: str, num_cpus: int | None) -> Iterator[None]:
    """`connected`, which leaves SIGTERM to whom it belonged: Ray puts its own exit there."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    with connected(address, num_cpus):
        if main:
            signal.signal(signal.SIGTERM, before)
        yield


def _round(
    jobs: list[ShardJob], spec: WorkerSpec, fanout: Fanout, demand: Demand
) -> Iterator[Outcome]:
    import ray.data

    # importing ray.data sets its own levels; progress is ours to show
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.max_errored_blocks = 0  # -1 loses blocks without a word
    context.max_consecutive_actor_init_deaths = 3
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = max(1800.0, 3 * fanout.shard_timeout)
    size = min(len(jobs), fanout.workers or default_workers(demand))
    rows = [{"job": json.dumps(asdict(job))} for job in jobs]
    outcomes = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        RayWorker,
        fn_constructor_args=(spec, fanout.shard_timeout, fanout.log_lines),
        compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=2),
        batch_size=1,
        batch_format="pyarrow",
        **demand.actor_options,
    )
    for batch in outcomes.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
        for text in batch["outcome"].to_pylist():
            yield _outcome(json.loads(text))


def default_workers(demand: Demand) -> int:
    """As many workers as the cluster's nodes hold now, at least one; on CPUs alone at most a few:
    every actor there has a copy of the model in the same memory, and more are asked for by name.
    """
    count = max(1, places(demand))
    only_cpus = not demand.resources.keys() - {"CPU", "memory"}
    return min(MAX_CPU_WORKERS, count) if only_cpus else count


def _outcome(facts: dict[str, Any]) -> Outcome:
    if "refusal" in facts:
        raise ScoringError(facts["refusal"])
    return Outcome(**facts)


def _cause(error: Exception) -> str:
    """One line on why a round ended."""
    import ray.exceptions

    cause = str(error).strip().splitlines()[-1]
    if isinstance(error, ray.exceptions.OwnerDiedError) and os.environ.get("RAY_AUTH_MODE"):
        # nodes that ask for no token do not understand a driver that does, and call it dead
        cause = (
            "the nodes of the cluster cannot talk to this driver; where they were started without "
            "a token, set RAY_AUTH_MODE=disabled here, else give them the token that is used here"
        )
    return cause


def _ray_errors() -> tuple[type[Exception], ...]:
    import ray.data.exceptions
    import ray.exceptions

    return (
        ray.exceptions.RayError,
        ray.data.exceptions.RayDataUserCodeException,
        ray.data.exceptions.ExecutionTimeoutError,
        ConnectionError,
    )

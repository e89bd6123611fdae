"""Replay on Ray: shard descriptors through Ray Data to actors that each own one model.

Descriptors, not texts, pass through Ray: `from_arrow` of one-row tables gives one block a shard
and no read task, while `read_parquet` may turn a task into one block and can hang on few CPUs.
A shard's fault never leaves its worker (it is an Outcome), so an error of the dataset is a death
of actors or nodes: a new round starts with what is still to do, a bounded number of times. What
kills its process every time is bounded by the ledger, not by Ray, which would retry for ever.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from cluster.connection import cluster_resources, connected
from rerank.errors import ConfigError, RerankError, ScoringError
from rerank.frozen import Shard
from rerank.replay import Outcome, ShardJob, ShardWorker, WorkerSpec

MAX_ROUNDS = 3
MAX_CPU_WORKERS = 4
SHARD_TIMEOUT = 3600.0  # seconds after which a worker stuck in one shard is ended


@dataclass(frozen=True)
class Fanout:
    """Where and how wide: the circumstances of a Ray replay, never part of a run's identity."""

    address: str = ""  # "" starts an embedded local Ray
    workers: int | None = None  # None: as many as GPUs (or CPUs) hold
    num_cpus: int | None = None  # of the embedded Ray
    shard_timeout: float = SHARD_TIMEOUT
    rounds: int = MAX_ROUNDS
    resources: tuple[tuple[str, float], ...] = ()  # custom resources an actor asks for


class RayWorker:
    """The actor: a `ShardWorker` with a watchdog. Its batches are one-row descriptor tables."""

    def __init__(self, spec: WorkerSpec, shard_timeout: float) -> None:
        self.timeout = shard_timeout
        self.refusal = ""
        try:
            self.worker = ShardWorker(spec)
        except RerankError as error:
            # raised here, it would reach the user as an actor's death and be tried again
            self.refusal = str(error)

    def __call__(self, batch: pa.Table) -> pa.Table:
        if self.refusal:
            return pa.table({"outcome": [json.dumps({"refusal": self.refusal})]})
        job = _job(batch["job"][0].as_py())
        # a hung kernel cannot be interrupted: end the process, the ledger counts it as a death
        faulthandler.dump_traceback_later(self.timeout, exit=True, file=sys.__stderr__ or 2)
        try:
            outcome = self.worker(job)
        finally:
            faulthandler.cancel_dump_traceback_later()
        return pa.table({"outcome": [json.dumps(asdict(outcome))]})


def run_on_ray(
    jobs: list[ShardJob],
    spec: WorkerSpec,
    fanout: Fanout,
    todo: Callable[[], list[ShardJob]],
) -> Iterator[Outcome]:
    """Outcomes as they come. `todo()` is asked again after a round that lost actors or nodes.

    After the last round it simply ends: what has no receipt is missing, and the caller says so.
    """
    with connected(fanout.address, fanout.num_cpus):
        for attempt in range(1, fanout.rounds + 1):
            try:
                yield from _round(jobs, spec, fanout)
            except _ray_errors() as error:
                cause = str(error).strip().splitlines()[-1]
                logging.getLogger(__name__).warning(
                    "round %d of %d ended early: %s", attempt, fanout.rounds, cause
                )
                jobs = todo()
                if not jobs:
                    return
            else:
                return


def _round(jobs: list[ShardJob], spec: WorkerSpec, fanout: Fanout) -> Iterator[Outcome]:
    import ray.data

    # importing ray.data sets its own levels; progress is ours to show
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.max_errored_blocks = 0  # -1 loses blocks without a word
    context.max_consecutive_actor_init_deaths = 3
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = max(1800.0, 3 * fanout.shard_timeout)
    size = min(len(jobs), fanout.workers or default_workers(spec))
    tables = [pa.table({"job": [json.dumps(asdict(job))]}) for job in jobs]
    outcomes = ray.data.from_arrow(tables).map_batches(
        RayWorker,
        fn_constructor_args=(spec, fanout.shard_timeout),
        compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=2),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=spec.model.num_cpus,
        num_gpus=spec.model.num_gpus if spec.placement.device == "cuda" else 0,
        resources=dict(fanout.resources) or None,
    )
    for batch in outcomes.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
        for text in batch["outcome"].to_pylist():
            yield _outcome(json.loads(text))


def default_workers(spec: WorkerSpec) -> int:
    """One actor for each GPU share of the cluster; on CPUs one for each share, at most a few.

    ConfigError where the model wants a GPU and the cluster has none.
    """
    have = cluster_resources()
    if spec.placement.device == "cuda":
        count = int(have.get("GPU", 0) // spec.model.num_gpus)
        if count < 1:
            raise ConfigError(
                f"model '{spec.model.name}' runs on cuda with {spec.model.num_gpus} GPU an actor, "
                f"but the cluster has {have.get('GPU', 0):g}; add GPUs or set device: cpu"
            )
        return count
    # every actor holds a copy of the model in the same memory: more than a few is asked for by name
    return min(MAX_CPU_WORKERS, max(1, int(have.get("CPU", 1) // max(spec.model.num_cpus, 1.0))))


def _outcome(facts: dict[str, Any]) -> Outcome:
    if "refusal" in facts:
        raise ScoringError(facts["refusal"])
    return Outcome(**facts)


def _job(text: str) -> ShardJob:
    facts: dict[str, Any] = json.loads(text)
    return ShardJob(**{**facts, "shard": Shard(**facts["shard"])})


def _ray_errors() -> tuple[type[Exception], ...]:
    import ray.data.exceptions
    import ray.exceptions

    return (ray.exceptions.RayError, ray.data.exceptions.RayDataUserCodeException)

"""The Ray actor around a `ShardWorker`: what can end its process, and what it tells meanwhile."""

from __future__ import annotations

import faulthandler
import json
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

import pyarrow as pa

from cluster.telemetry import WorkerMetrics
from cluster.weights import hold_weights
from rerank import shard_log
from rerank.errors import RerankError, ScoringError
from rerank.frozen import Shard
from rerank.ledger import Attempt
from rerank.replay import Node, ShardJob, ShardWorker, WorkerSpec
from rerank.store import Store

MAX_LOAD_DEATHS = 3  # processes that die on one host while they load a model; then it is refused
LOAD_TIMEOUT = 3600.0  # seconds after which a worker stuck in loading is ended
GOODBYE = 5.0  # seconds to write down that a shard is given up
PREEMPTED = 143  # exit code: 128 + SIGTERM


class RayWorker:
    """The actor. Its batches are one-row tables, each with the descriptor of a shard.

    A model that cannot be loaded is no error of the actor: every batch is answered with the reason.
    Raised in the constructor it would reach the user as a death, and be tried again.
    """

    def __init__(self, spec: WorkerSpec, shard_timeout: float, log_lines: bool = False) -> None:
        import ray

        self.spec = spec
        self.timeout = shard_timeout
        self.log_lines = log_lines
        self.refusal = ""
        self.worker: ShardWorker | None = None
        self.loading: Attempt | None = None
        self.metrics = WorkerMetrics(spec.model.name)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._leave)
        node = Node(str(ray.get_runtime_context().get_node_id()), node_lost)
        try:
            with watched(LOAD_TIMEOUT):
                self.worker = self._load(node)
        except RerankError as error:
            self.refusal = str(error)

    def __call__(self, batch: pa.Table) -> pa.Table:
        if self.worker is None:
            return pa.table({"outcome": [json.dumps({"refusal": self.refusal})]})
        with watched(self.timeout):
            outcome = self.worker(job_of(batch["job"][0].as_py()))
        self.metrics.record(outcome)
        if self.log_lines:
            shard_log.write_line(outcome, self.spec.session.id)
        return pa.table({"outcome": [json.dumps(asdict(outcome))]})

    def _load(self, node: Node) -> ShardWorker:
        """The loaded model, under a ledger of its own: Ray would start a process that dies in its
        constructor again for ever."""
        spec = self.spec
        where = f"{spec.session.id}-{platform.node()}"
        self.loading = attempt = Attempt(
            Store(spec.store_root), f"progress/{spec.model.name}", where, spec.session,
            node=node.name, lost=node.lost,
        )  # fmt: skip
        try:
            if attempt.deaths >= MAX_LOAD_DEATHS:
                raise ScoringError(
                    f"model '{spec.model.name}': {attempt.deaths} processes on {platform.node()} "
                    "died while they loaded it, as where memory is short; give its worker more "
                    "memory, and see the logs of Ray on that node"
                )
            hold_weights(spec.model, node.name)
            return ShardWorker(spec, node)
        finally:
            attempt.end()
            self.loading = None

    def _leave(self, number: int, frame: FrameType | None) -> None:
        """On SIGTERM (a node that is taken back): give up the shard without a death, and go.

        What was half done is a file that nobody names. Ray sees the process die, and sends the
        shard to another.
        """
        goodbye = threading.Thread(target=self._abandon, daemon=True)
        goodbye.start()
        goodbye.join(GOODBYE)  # the store may be the very thing that was interrupted
        os._exit(PREEMPTED)

    def _abandon(self) -> None:
        if self.loading is not None:
            self.loading.end()
        if self.worker is not None:
            self.worker.abandon()


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """End this process where the block takes longer: a hung kernel cannot be interrupted.

    The ledger counts that as a death.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def node_lost(name: str) -> bool:
    """Is this a node that the cluster has had, and has no more?"""
    import ray

    return any(node["NodeID"] == name and not node["Alive"] for node in ray.nodes())


def job_of(text: str) -> ShardJob:
    facts: dict[str, Any] = json.loads(text)
    return ShardJob(**{**facts, "shard": Shard(**facts["shard"])})

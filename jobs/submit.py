"""`rerank submit SUITE cluster=NAME`: one Ray job a model, for whatever the store does not hold.

Submitting again is harmless: what is complete in the store is skipped, what runs is left alone,
what failed or stopped is submitted afresh under the next attempt. No job is ever deleted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from cluster.fanout import MAX_CPU_WORKERS
from cluster.job_queue import (
    ATTACH,
    COMPLETE,
    GIVEN_UP,
    ORDERS,
    PREFIX,
    SUBMIT,
    Decision,
    attempts_of,
    decide,
    ordered,
    quota,
    run_queue,
)
from cluster.shipping import fill_package
from cluster.submission import SUCCEEDED, Job, JobsApi, Unreachable
from jobs.clusters import ClusterSpec
from jobs.config import Suite
from jobs.console import say
from jobs.freeze import freeze_tasks, frozen_tasks
from jobs.job_files import job_command, job_store, job_texts
from jobs.replay import add_retry_argument
from jobs.submissions import (
    Asked,
    asked_of,
    check_placements,
    check_store,
    stored_state,
    submission_suite,
)
from jobs.suite_arguments import add_suite_arguments
from rerank.errors import ConfigError
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec

POLL = 2.0  # seconds between two looks at the cluster
PATIENCE = 300.0  # seconds that a dashboard may be gone before the command ends
SPOKEN = 60.0  # seconds between two lines about what waits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    add_retry_argument(parser)
    parser.add_argument(
        "--max-concurrent",
        type=int,
        metavar="K",
        help="jobs on the cluster at once; the rest is submitted as others end, so the command "
        "stays (default: max_concurrent of the cluster's file, else all at once)",
    )
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default="listed",
        help="by `parameters` in the models' files, unknown ones last (default: as listed)",
    )
    parser.add_argument(
        "--workers-per-model",
        type=int,
        metavar="N",
        help="actors of each job (default: its share of the cluster's GPUs or CPUs)",
    )
    parser.add_argument("--wait", action="store_true", help="stay until all of its jobs ended")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done; freeze and submit nothing"
    )
    parser.epilog = (
        "exit code: 0 submitted, or complete with --wait; 1 something failed or is given up"
    )


def run(arguments: argparse.Namespace) -> int:
    for name in ("max_concurrent", "workers_per_model"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1")
    suite, store, cluster = submission_suite(arguments)
    check_store(suite, cluster)
    check_placements(suite, cluster)
    tasks = (frozen_tasks if arguments.dry_run else freeze_tasks)(suite, store)
    submitter = Submitter(suite, cluster, arguments, asked_of(suite, store, tasks))
    return submitter.run()


class Submitter:
    """One `rerank submit`: decides for each model, queues, and says what becomes of it."""

    def __init__(
        self,
        suite: Suite,
        cluster: ClusterSpec,
        arguments: argparse.Namespace,
        asked: list[Asked],
    ) -> None:
        self.suite = suite
        self.cluster = cluster
        self.arguments = arguments
        self.asked = {one.model.name: one for one in asked}
        self.limit: int | None = arguments.max_concurrent or cluster.max_concurrent
        self.problems: list[str] = []
        self.lost_since: float | None = None
        self.spoken = 0.0

    def run(self) -> int:
        states = {name: self._stored(name) for name in self.asked}
        open_ = [name for name, state in states.items() if self._say_stored(name, state)]
        if open_:
            self._submit(open_, states)
        return int(bool(self.problems))

    def _submit(self, names: list[str], states: Mapping[str, str]) -> None:
        self.api = JobsApi(self.cluster.dashboard)
        jobs = self.api.jobs(PREFIX)
        decisions = {name: self._decide(name, states[name], jobs) for name in names}
        flying = {
            name: self._attach(name, decision)
            for name, decision in decisions.items()
            if decision.action == ATTACH
        }
        sizes = {
            name: _size(self.asked[name].model)
            for name, decision in decisions.items()
            if decision.action == SUBMIT
        }
        waiting = ordered(sizes, self.arguments.order)
        self.capacity = self.api.capacity() if waiting else {}
        if self.arguments.dry_run:
            for name in waiting:
                say(f"{name}: would be submitted as {self._id(name, decisions[name].attempt)}")
            return
        run_queue(
            waiting,
            flying,
            self.limit,
            self._start,
            self._jobs,
            self._ended,
            until_end=self.arguments.wait,
            pause=self._pause,
        )

    def _stored(self, name: str) -> str:
        return stored_state(
            self.asked[name],
            self.suite.spec.max_failed_pairs,
            retry_failed=self.arguments.retry_failed,
        )

    def _say_stored(self, name: str, state: str) -> bool:
        """Is there something to ask the cluster about?"""
        if state == COMPLETE:
            say(f"{name}: complete in the store, skipped")
        if not self.asked[name].known:
            say(f"{name}: its weights cannot be identified on this machine, the job will do it")
        return state != COMPLETE

    def _decide(self, name: str, state: str, jobs: Mapping[str, Job]) -> Decision:
        attempts = attempts_of(self.asked[name].family, jobs)
        decision = decide(state, {number: job.status for number, job in attempts.items()})
        if state == GIVEN_UP and decision.action not in (ATTACH, SUBMIT):
            self._problem(
                f"{name}: what is missing has failed for good; --retry-failed takes it up again"
            )
        return decision

    def _id(self, name: str, attempt: int) -> str:
        return f"{self.asked[name].family}{attempt}"

    def _attach(self, name: str, decision: Decision) -> str:
        id_ = self._id(name, decision.attempt)
        say(f"{name}: {id_} is on the cluster already, left alone")
        return id_

    def _start(self, name: str, sharers: int) -> str:
        """Submit, unless somebody did it meanwhile; the id of the job that is at it, if any."""
        state = self._stored(name)
        if state == COMPLETE:
            say(f"{name}: complete in the store, skipped")
            return ""
        decision = self._decide(name, state, self.api.jobs(PREFIX))
        if decision.action == ATTACH:
            return self._attach(name, decision)
        if decision.action != SUBMIT:
            return ""
        id_ = self._id(name, decision.attempt)
        workers = self._workers(self.asked[name], sharers)
        if not self._send(name, id_, workers):
            return self._attach(name, decision)
        say(f"{name}: submitted as {id_}, {workers} workers")
        return id_

    def _send(self, name: str, id_: str, workers: int) -> bool:
        asked = self.asked[name]
        command = job_command(
            self.suite, name, self.cluster, workers, retry_failed=self.arguments.retry_failed
        )
        metadata = {
            "suite": self.suite.spec.name,
            "model": name,
            "fingerprint": asked.fingerprint,
            "tasks": ",".join(run.task.name for run in asked.runs),
            "store": job_store(self.suite),
            "workers": str(workers),
        }
        with tempfile.TemporaryDirectory(prefix="rerank-job-") as folder:
            package = fill_package(
                Path(folder),
                job_texts(self.suite, asked),
                with_code=self.cluster.code == "working_dir",
            )
            runtime_env = {
                "working_dir": str(package),
                "env_vars": {"RERANK_SUBMISSION_ID": id_},
            }
            return self.api.submit(id_, command, runtime_env, metadata)

    def _workers(self, asked: Asked, sharers: int) -> int:
        stated = self.arguments.workers_per_model or self.suite.spec.workers or self.cluster.workers
        if stated:
            return int(stated)
        if asked.placement.device == "cpu":
            share = max(asked.model.num_cpus, 1.0)
            return quota(self.capacity["CPU"], sharers, share, MAX_CPU_WORKERS)
        gpus = self.capacity["GPU"] if self.cluster.gpus is None else self.cluster.gpus
        return quota(gpus, sharers, asked.model.num_gpus)

    def _jobs(self) -> Mapping[str, Job]:
        """The cluster's jobs; a dashboard that is gone for a while is waited for."""
        while True:
            try:
                jobs = self.api.jobs(PREFIX)
            except Unreachable:
                now = time.monotonic()
                self.lost_since = self.lost_since or now
                if now - self.lost_since > PATIENCE:
                    raise
                time.sleep(POLL)
            else:
                self.lost_since = None
                return jobs

    def _ended(self, name: str, job: Job | None) -> None:
        state = self._stored(name)
        status = job.status if job else "gone from the cluster"
        if state == COMPLETE:
            say(f"{name}: complete in the store")
            return
        why = job.reason if job and job.status != SUCCEEDED else ""
        if job and job.status == SUCCEEDED:
            why = "yet the store lacks its shards: the nodes have other files of this model"
        self._problem(f"{name}: {status}{', ' if why else ''}{why}")

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)
            say(text)

    def _pause(self, waiting: int, flying: int) -> None:
        now = time.monotonic()
        if now - self.spoken > SPOKEN:
            self.spoken = now
            say(
                f"{flying} jobs in flight, {waiting} wait for their turn; Ctrl-C ends this command "
                "alone, and the same command goes on"
            )
        time.sleep(POLL)


def _size(model: ModelSpec) -> float | None:
    return 0.0 if ADAPTERS[model.adapter].weightless else model.parameters

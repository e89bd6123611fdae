"""`rerank stop SUITE cluster=NAME [models=...]`: end the jobs of a suite; nothing done is lost."""

from __future__ import annotations

import argparse
import time

from cluster.job_queue import PREFIX, attempts_of
from cluster.submission import PENDING, Job, JobsApi
from jobs.console import say
from jobs.submissions import submitted_models
from jobs.suite_arguments import add_suite_arguments

POLL = 1.0  # seconds
WAIT = 60.0  # seconds for a driver to end; Ray kills it after 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--timeout", type=float, default=WAIT, metavar="SECONDS", help="how long to wait (60)"
    )
    parser.epilog = "exit code: 0 nothing of it runs any more, 1 a job did not stop in time"


def run(arguments: argparse.Namespace) -> int:
    """Every active attempt at every model of the suite is asked to end, and waited for."""
    _, cluster, asked = submitted_models(arguments)
    api = JobsApi(cluster.dashboard)
    jobs = api.jobs(PREFIX)
    active: dict[str, Job] = {}
    for one in asked:
        attempts = attempts_of(one.family, jobs)
        found = {job.id: job for job in attempts.values() if job.active}
        if not found:
            said = attempts[max(attempts)].status if attempts else "never submitted"
            say(f"{one.model.name}: nothing to stop, {said}")
        active |= found
    left = stop_all(api, set(active), arguments.timeout)
    for id_, job in left.items():
        why = (
            "Ray stops a job only once it has started; run this command again"
            if job.status == PENDING
            else "its driver does not end"
        )
        say(f"{id_}: still {job.status} after {arguments.timeout:g} s: {why}")
    return int(bool(left))


def stop_all(api: JobsApi, ids: set[str], timeout: float) -> dict[str, Job]:
    """Ask jobs to end until they did, and say how each ended; returns those that still are active
    after `timeout` seconds. Asked again and again: what has no driver yet does not hear it."""
    deadline = time.monotonic() + timeout
    waiting = set(ids)
    while True:
        jobs = api.jobs(PREFIX)
        for id_ in sorted(waiting):
            if id_ in jobs and jobs[id_].active:
                api.stop(id_)
                continue
            say(f"{id_}: {jobs[id_].status if id_ in jobs else 'gone from the cluster'}")
            waiting.remove(id_)
        if not waiting or time.monotonic() > deadline:
            return {id_: jobs[id_] for id_ in sorted(waiting)}
        time.sleep(POLL)

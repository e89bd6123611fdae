"""`rerank logs MODEL SUITE cluster=NAME`: what a model's job printed, and with -f prints.

The log is asked for again and again, and the job's status says when it is whole: a stream's end
says nothing (ray#51601, ray#60665).
"""

from __future__ import annotations

import argparse
import sys
import time

from cluster.job_queue import PREFIX, attempts_of
from cluster.submission import SUCCEEDED, Job, JobsApi
from jobs.submissions import submitted_models
from jobs.suite_arguments import add_suite_arguments
from rerank.errors import ConfigError, unknown_name

POLL = 1.0  # seconds between two looks at the log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model of the suite")
    add_suite_arguments(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the job ends; 1 if it failed"
    )
    parser.add_argument("--attempt", type=int, metavar="N", help="which attempt (default: last)")


def run(arguments: argparse.Namespace) -> int:
    _, cluster, models = submitted_models(arguments)
    asked = {one.model.name: one for one in models}
    if arguments.model not in asked:
        raise unknown_name(f"model in {arguments.suite}", arguments.model, asked)
    api = JobsApi(cluster.dashboard)
    attempts = attempts_of(asked[arguments.model].family, api.jobs(PREFIX))
    number = arguments.attempt or max(attempts, default=0)
    if number not in attempts:
        known = f"has attempts {sorted(attempts)}" if attempts else "was never submitted there"
        raise ConfigError(
            f"the cluster at {api.url} knows no such job: model '{arguments.model}' {known}; "
            "`rerank jobs` lists what it knows"
        )
    if not arguments.follow:
        _print(api.logs(attempts[number].id))
        return 0
    job = follow(api, attempts[number])
    print(f"{job.id}: {job.status}", file=sys.stderr)
    return int(job.status != SUCCEEDED)


def follow(api: JobsApi, job: Job) -> Job:
    """Print the log as it grows, to its end; returns the job as it ended."""
    printed = ""
    while True:
        job = api.job(job.id)  # before the log: what is read after the end is the whole log
        try:
            text = api.logs(job.id)
        except ConfigError:
            if not job.active:
                raise
            text = printed  # its node does not answer now: the next look, or the end, will tell
        _print(text.removeprefix(printed))
        printed = text
        if not job.active:
            return job
        time.sleep(POLL)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

"""Which models to submit, in which order, how many at once, and how wide each may run.

Ray gives all GPUs to whoever comes first and takes none back, so that fairness is made here: a
fixed pool size for each job, and a queue on the side of who submits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cluster.submission import ACTIVE, Job
from rerank.errors import unknown_name

PREFIX = "rerank-"
# what the store holds of a model over all asked tasks
COMPLETE, INCOMPLETE, GIVEN_UP = "complete", "incomplete", "given up"
# what to do about it
SKIP, ATTACH, SUBMIT = "skip", "attach", "submit"
ORDERS = ("listed", "small", "large")


@dataclass(frozen=True)
class Decision:
    """`attempt` is the one to submit or to attach to; 0 where the cluster was not asked."""

    action: str  # skip | attach | submit
    attempt: int = 0


def family_of(model: str, fingerprint: str) -> str:
    """The part of a submission id that all attempts at one piece of work share."""
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "model"
    return f"{PREFIX}{slug[:40]}-{fingerprint[:8]}-a"


def attempts_of(family: str, jobs: Mapping[str, Job]) -> dict[int, Job]:
    """Attempt -> job, of the jobs that belong to a family."""
    return {
        int(id_.removeprefix(family)): job
        for id_, job in jobs.items()
        if id_.startswith(family) and id_.removeprefix(family).isdecimal()
    }


def decide(stored: str, attempts: Mapping[int, str]) -> Decision:
    """What to do about one model. `attempts`: number -> status of its jobs on the cluster.

    Storage decides whether work is done, the cluster only whether somebody is at it. What failed
    for good is skipped as well: another attempt would find nothing that it may do.
    """
    active = [number for number, status in attempts.items() if status in ACTIVE]
    if stored == COMPLETE:
        return Decision(SKIP)
    if active:
        return Decision(ATTACH, max(active))
    if stored == GIVEN_UP:
        return Decision(SKIP)
    return Decision(SUBMIT, max(attempts, default=0) + 1)


def quota(capacity: float, sharers: int, share: float, most: int | None = None) -> int:
    """Workers of one job, where `sharers` jobs share `capacity` and a worker takes `share` of it.

    At least 1, so that a job on a cluster that starts from nothing asks for a node; `most` caps it.
    """
    found = max(1, int(capacity / max(sharers, 1) / share + 1e-9)) if share > 0 else 1
    return found if most is None else min(found, most)


def ordered(sizes: Mapping[str, float | None], order: str) -> list[str]:
    """Model names by size; of unknown size last, and equals as they are listed.

    ConfigError for an order that is none of ORDERS.
    """
    if order not in ORDERS:
        raise unknown_name("order", order, ORDERS)
    names = list(sizes)
    if order == "listed":
        return names
    sign = 1 if order == "small" else -1

    def key(name: str) -> tuple[bool, float]:
        size = sizes[name]
        return size is None, sign * (size or 0.0)

    return sorted(names, key=key)


def run_queue(
    waiting: Sequence[str],
    flying: Mapping[str, str],
    limit: int | None,
    start: Callable[[str, int], str],
    jobs: Callable[[], Mapping[str, Job]],
    ended: Callable[[str, Job | None], None],
    *,
    until_end: bool,
    pause: Callable[[int, int], None],
) -> None:
    """Start what waits, at most `limit` jobs in flight, others' jobs on the cluster included.

    flying: model -> id of jobs that run already. start(model, sharers) -> id of the job that it
    submitted or attached to, '' where there is none; ended(model, job) when a job is no longer
    active; pause(waiting, in flight) sleeps. Returns when nothing waits and, with `until_end`,
    nothing of these models runs.
    """
    queue, ours = list(waiting), dict(flying)
    while True:
        others = {id_ for id_, job in jobs().items() if job.active} if queue else set()
        while queue:
            busy = len(others | set(ours.values()))
            if limit is not None and busy >= limit:
                break
            sharers = min(busy + len(queue), limit or busy + len(queue))
            model = queue.pop(0)
            if id_ := start(model, sharers):
                ours[model] = id_
        if not queue and not (until_end and ours):
            return
        pause(len(queue), len(ours))
        known = jobs()
        for model, id_ in list(ours.items()):
            job = known.get(id_)
            if job is None or not job.active:
                del ours[model]
                ended(model, job)

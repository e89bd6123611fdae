"""One row for each model and task: what the cluster, the drivers and the store say about it.

Three witnesses, none of them sure: the cluster knows whether a job lives, its driver says every
few seconds how far it is, and the store holds what is done. What is done is counted there alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cluster.submission import FAILED, PENDING, RUNNING, STOPPED, SUCCEEDED, Job
from jobs.tables import MISSING, table
from rerank.progress import INCOMPLETE, LOADING, QUEUED, REFUSED, SCORING
from rerank.runs import Run

PROGRESS_KEYS = {"state", "shards_done", "pairs_done", "pairs_total", "started", "updated"}
SILENT = 300.0  # seconds without news after which that is said: a shard may take minutes
WORDS = {PENDING: "pending", SUCCEEDED: "incomplete", FAILED: "failed", STOPPED: "stopped"}
AT_WORK = (QUEUED, LOADING, SCORING)
HEADER = ("model", "task", "state", "shards", "pairs/s", "left", "node, GPU", "last error")
WIDTH = 60  # characters of an error in the table
NEWEST = 4  # receipts of a run that are read for the nodes that score now


@dataclass(frozen=True)
class JobRow:
    """What is known of one model on one task. `rate` and `left` are the model's, over all tasks."""

    model: str
    task: str
    state: str
    shards_done: int
    shards_total: int
    rate: float | None = None  # pairs a second
    left: float | None = None  # seconds
    where: str = ""
    error: str = ""
    job: str = ""  # submission id

    @property
    def complete(self) -> bool:
        return self.shards_done == self.shards_total


@dataclass(frozen=True)
class RunFacts:
    """What the store holds of one run: receipts by their listing, the newest of them, failures."""

    model: str
    task: str
    done: int
    total: int
    where: str = ""
    failures: tuple[str, ...] = ()


def run_facts(run: Run) -> RunFacts:
    """Listed, not verified: a look that costs a few requests, whatever the number of shards."""
    names = {f"{shard.name}.json" for shard in run.task.shards}
    receipts = [name for name in run.store.files(f"{run.key}/receipts") if name in names]
    failed = sorted(names.intersection(run.store.files(f"{run.key}/failures")) - set(receipts))
    messages = [
        failure["message"]
        for name in failed[-NEWEST:]
        if (failure := run.store.read_record(f"{run.key}/failures/{name}", {"message"}))
    ]
    workers = [
        receipt["worker"]
        for name in receipts[-NEWEST:]
        if (receipt := run.store.read_record(f"{run.key}/receipts/{name}", {"worker"}))
    ]
    where = sorted({_place(worker) for worker in workers if isinstance(worker, dict)})
    return RunFacts(
        run.model, run.task.name, len(receipts), len(names), ", ".join(where), tuple(messages)
    )


def _place(worker: Mapping[str, Any]) -> str:
    host = str(worker.get("host") or "?")
    return f"{host} {worker['gpu']}" if worker.get("gpu") else host


def latest_progress(run: Run, suite: str, submission: str) -> dict[str, Any] | None:
    """What a driver of this model last said: that of the job, else the newest of the suite's."""
    folder = f"progress/{run.model}"
    found = [
        record
        for name in run.store.files(folder)
        if (record := run.store.read_record(f"{folder}/{name}", PROGRESS_KEYS))
        and record.get("suite") == suite
    ]
    own = [record for record in found if submission and record.get("submission_id") == submission]
    return max(own or found, key=lambda record: float(record["updated"]), default=None)


def job_rows(
    facts: Sequence[RunFacts],
    progress: Mapping[str, Any] | None,
    job: Job | None,
    *,
    answered: bool,
    now: float,
) -> list[JobRow]:
    """The rows of one model. `answered`: did a cluster say which jobs it has?"""
    state = _state(progress, job, answered, now)
    rate, left = _pace(progress) if state.startswith(SCORING) else (None, None)
    rows = []
    for run in facts:
        done = run.done == run.total
        errors = [*run.failures, *_complaints(progress, job)]
        rows.append(
            JobRow(
                model=run.model,
                task=run.task,
                state="complete" if done else _counted(state, run),
                shards_done=run.done,
                shards_total=run.total,
                rate=None if done else rate,
                left=None if done else left,
                where=run.where,
                error="" if done or not errors else errors[0],
                job=job.id if job else "",
            )
        )
    return rows


def _counted(state: str, run: RunFacts) -> str:
    if state == "unknown":
        return f"unknown, {run.done} of {run.total} shards in storage"
    return state


def _state(progress: Mapping[str, Any] | None, job: Job | None, answered: bool, now: float) -> str:
    silence = now - float(progress["updated"]) if progress else 0.0
    own = bool(progress and job and progress.get("submission_id") == job.id)
    if job is not None and job.status == RUNNING:
        if progress is None or not own:
            return "starting"
        silent = f", no news for {silence:,.0f} s" if silence > SILENT else ""
        return f"{progress['state']}{silent}"
    if job is not None and job.active:
        return WORDS[job.status]
    if progress is not None and not own and silence <= SILENT and progress["state"] in AT_WORK:
        return str(progress["state"])  # a replay that is no job of this cluster
    if job is not None:
        return WORDS.get(job.status, job.status.lower())
    return "not submitted" if answered else "unknown"


def _pace(progress: Mapping[str, Any] | None) -> tuple[float | None, float | None]:
    """Pairs a second since the driver started, and the seconds that the rest takes at that pace."""
    if progress is None:
        return None, None
    seconds = float(progress["updated"]) - float(progress["started"])
    done = float(progress["pairs_done"])
    if seconds <= 0 or done <= 0:
        return None, None
    return done / seconds, (float(progress["pairs_total"]) - done) * seconds / done


def _complaints(progress: Mapping[str, Any] | None, job: Job | None) -> list[str]:
    """Why the model's last try did not finish, as its driver or the cluster put it."""
    if job is not None and job.status in (FAILED, STOPPED):
        own = progress is not None and progress.get("submission_id") == job.id
        said = str(progress.get("message") or "") if own and progress is not None else ""
        return [text for text in (said, job.reason) if text]
    if progress is not None and progress["state"] in (INCOMPLETE, REFUSED):
        return [str(progress.get("message") or progress["state"])]
    return []


def job_table(rows: Sequence[JobRow]) -> str:
    """The rows for a terminal; what is the model's stands in its first row alone."""
    cells, last = [], ""
    for row in rows:
        first, last = row.model != last, row.model
        cells.append(
            [
                row.model if first else "",
                row.task,
                row.state,
                f"{row.shards_done}/{row.shards_total}",
                f"{row.rate:,.0f}" if first and row.rate is not None else MISSING,
                _duration(row.left) if first and row.left is not None else MISSING,
                row.where or MISSING,
                _short(row.error) or MISSING,
            ]
        )
    return table(HEADER, cells)


def json_rows(rows: Sequence[JobRow]) -> list[dict[str, Any]]:
    """The rows as JSON types: seconds, pairs a second, whole errors."""
    return [asdict(row) for row in rows]


def _duration(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"

"""The driver of a replay: what is missing of one model goes to an engine, and is checked after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.config import Suite, load_cluster
from jobs.console import pair_progress, say
from jobs.selection import Selection
from rerank import shard_log
from rerank.circumstances import describe_process
from rerank.errors import FrozenDataError, IncompleteRun, RerankError
from rerank.frozen import FrozenTask, Shard
from rerank.ledger import Session
from rerank.models.adapters import ADAPTERS, comes_from_hub
from rerank.progress import COMPLETE, INCOMPLETE, LOADING, QUEUED, REFUSED, SCORING, Progress
from rerank.records import ModelSpec, Placement
from rerank.replay import FAILED, Outcome, ShardJob, WorkerSpec, run_inline
from rerank.runs import Run, abbreviate
from rerank.store import Store

MAX_PASSES = 3  # over a model's shards: what is found invalid at the end is scored again
WANTED = ("failed", "recipe")  # keys of receipts that the driver reads
SPOKEN = 60.0  # seconds between two lines about what it waits for

Wanted = list[tuple[Run, list[Shard]]]  # the runs of one model, each with the shards that are meant
ShardReceipts = dict[int, dict[str, Any] | None]  # None: there is one, and it is not valid
Checked = dict[str, ShardReceipts]  # by the keys of runs


@dataclass(frozen=True)
class Problem:
    """What keeps a model from being done; refused: the same command would meet it again."""

    text: str
    refused: bool = False


@dataclass
class Driver:
    """Replays models one after the other. `connection` holds Ray from the first need of it on."""

    suite: Suite
    store: Store
    tasks: Sequence[FrozenTask]
    selection: Selection
    connection: ExitStack
    retry_failed: bool = False
    verified: set[str] = field(default_factory=set)  # folders of tasks
    states: dict[str, Progress] = field(default_factory=dict)  # of models that had work

    def replay(self, model: ModelSpec, placement: Placement, runs: list[Run]) -> list[Problem]:
        """Do what is missing of one model; what is wrong afterwards, at most one phrase a run.

        ScoringError where the model cannot be loaded.
        """
        wanted = [(run_, self.selection.of(run_)) for run_ in runs]
        if self.retry_failed:
            for run_, shards in wanted:
                run_.forget_failures(shards)
        jobs = todo_of(wanted)
        if not jobs:
            say(f"{model.name}: {nothing_to_score(wanted)}")
        checked: Checked = {}
        for _ in range(MAX_PASSES):
            if jobs:
                self._score(model, placement, wanted, jobs)
            checked = {run_.key: run_.checked(WANTED) for run_ in runs}
            jobs = broken(wanted, checked)
            if not jobs:
                break
            numbers = abbreviate([job.shard.number for job in jobs])
            say(f"{model.name}: receipts or scores of shards {numbers} are damaged")
        problems = [found for run_ in runs if (found := self._problem(run_, checked[run_.key]))]
        if model.name in self.states:
            text = "; ".join(problem.text for problem in problems)
            self.states[model.name].enter(INCOMPLETE if problems else COMPLETE, text)
        return problems

    def refuse(self, model: ModelSpec, error: RerankError) -> Problem:
        """A model that nothing can be done with: said, written down, and no other's trouble."""
        say(f"{model.name}: not scored: {error}")
        state = self.states.get(model.name) or self._progress(model, Session.new("none"))
        state.enter(REFUSED, str(error))
        return Problem(str(error), refused=True)

    def _score(
        self, model: ModelSpec, placement: Placement, wanted: Wanted, jobs: list[ShardJob]
    ) -> None:
        """Send jobs to the engine, and show and log what becomes of them."""
        self._verify_tasks()
        for run_, _ in wanted:
            write_run_record(run_)
        engine = self._engine(model)
        worker = self._worker(model, placement, Session.new(engine), wanted)
        state = self.states[model.name] = self._progress(model, worker.session)
        state.shards_done, state.pairs_done = done_before(wanted)
        state.enter(LOADING)
        total = sum(job.shard.rows for job in jobs)
        counted = Counter[str]()
        outcomes = self._outcomes(engine, worker, wanted, jobs, state)
        try:
            with pair_progress(model.name, total) as bar:
                for outcome in outcomes:
                    state.enter(SCORING)
                    counted[outcome.status] += 1
                    bar.advance(outcome.rows)
                    self._note(outcome, worker.session, state)
        except BaseException as error:
            # the rest is only delayed, except where the model itself is refused
            if not isinstance(error, RerankError):
                state.enter(INCOMPLETE, "stopped")
            raise
        parts = [f"{count} {status}" for status, count in counted.items()]
        say(f"{model.name}: {total:,} pairs in {len(jobs)} shards: {', '.join(parts)}")

    def _note(self, outcome: Outcome, session: Session, state: Progress) -> None:
        if shard_log.wanted():
            shard_log.write_line(outcome, session.id)
        if outcome.status == FAILED:
            model = outcome.job.split("/")[2]
            say(f"{model}: shard {outcome.shard} failed: {outcome.message}")
        else:
            state.advance(1, outcome.rows)

    def _engine(self, model: ModelSpec) -> str:
        spec = self.suite.spec
        if spec.engine != "auto":
            return spec.engine
        # a model without weights has nothing to fan out; starting Ray would be all the work
        return "inline" if ADAPTERS[model.adapter].weightless and not spec.cluster else "ray"

    def _worker(
        self, model: ModelSpec, placement: Placement, session: Session, wanted: Wanted
    ) -> WorkerSpec:
        revision = str(wanted[0][0].identity["weights"])
        if comes_from_hub(model):
            model = replace(model, revision=revision)  # the hub may have moved on
        return WorkerSpec(
            store_root=str(self.store.root),
            model=model,
            placement=placement,
            revision=revision,
            session=session,
            token_budget=self.suite.spec.token_budget,
            max_deaths=self.suite.spec.max_deaths,
        )

    def _outcomes(
        self, engine: str, worker: WorkerSpec, wanted: Wanted, jobs: list[ShardJob], state: Progress
    ) -> Iterator[Outcome]:
        if engine == "inline":
            return run_inline(jobs, worker)
        from cluster.fanout import Fanout, embedded_or, run_on_ray

        spec = self.suite.spec
        cluster = load_cluster(self.suite.root, spec.cluster) if spec.cluster else None
        fanout = Fanout(
            address=cluster.address if cluster else "",
            workers=spec.workers or (cluster.workers if cluster else None),
            num_cpus=spec.num_cpus,
            shard_timeout=spec.shard_timeout,
            log_lines=shard_log.wanted(),
        )
        # held until all models are done: an embedded Ray takes seconds to start
        self.connection.enter_context(embedded_or(fanout.address, fanout.num_cpus))
        news = Waiting(worker.model.name, state)
        return run_on_ray(jobs, worker, fanout, lambda: todo_of(wanted), news.tell)

    def _progress(self, model: ModelSpec, session: Session) -> Progress:
        shards = [shard for task in self.tasks for shard in task.shards]
        return Progress(
            store=self.store,
            suite=self.suite.spec.name,
            model=model.name,
            session=session.id,
            tasks=[task.name for task in self.tasks],
            shards_total=len(shards),
            pairs_total=sum(shard.rows for shard in shards),
        )

    def _verify_tasks(self) -> None:
        for task in self.tasks:
            if task.folder not in self.verified:
                task.verify()
                self.verified.add(task.folder)

    def _problem(self, run_: Run, checked: ShardReceipts) -> Problem | None:
        """Missing shards, or too many pairs without a score."""
        receipts = {number: found for number, found in checked.items() if found is not None}
        try:
            run_.require_complete(receipts)
            run_.record_recipe(receipts)
        except IncompleteRun as error:
            return Problem(str(error))
        except FrozenDataError as error:
            return Problem(str(error), refused=True)
        allowed = self.suite.spec.max_failed_pairs
        failed = sum(receipt["failed"] for receipt in receipts.values())
        if failed <= allowed:
            return None
        return Problem(
            f"run {run_.model} on {run_.task.name} ({run_.fingerprint}) has {failed} pairs without "
            f"a score (max_failed_pairs is {allowed}); everything else is scored; "
            "--retry-failed tries them again"
        )


@dataclass
class Waiting:
    """Says why a model does not start yet: at once, and now and then."""

    model: str
    state: Progress
    spoken: float = 0.0  # monotonic seconds

    def tell(self, state: str, message: str) -> None:
        self.state.enter(state, message)
        if state == QUEUED and (not self.spoken or time.monotonic() - self.spoken > SPOKEN):
            self.spoken = time.monotonic()
            say(f"{self.model}: {message}")


def todo_of(wanted: Wanted) -> list[ShardJob]:
    """The missing shards of all tasks of one model, as far as they are meant, longest first."""
    return longest_first(
        (run_, shard)
        for run_, shards in wanted
        for meant in [{shard.number for shard in shards}]
        for shard in run_.todo()
        if shard.number in meant
    )


def broken(wanted: Wanted, checked: Checked) -> list[ShardJob]:
    """Shards that a listing takes for done, and whose receipt or scores turned out to be wrong."""
    return longest_first(
        (run_, shard)
        for run_, shards in wanted
        for shard in shards
        if checked[run_.key].get(shard.number, {}) is None
    )


def longest_first(shards: Iterable[tuple[Run, Shard]]) -> list[ShardJob]:
    jobs = [ShardJob(run_.key, run_.fingerprint, run_.task.folder, shard) for run_, shard in shards]
    return sorted(jobs, key=lambda job: (-job.shard.characters, job.run_key, job.shard.number))


def done_before(wanted: Wanted) -> tuple[int, int]:
    """Shards and pairs of all runs of the model that are scored already."""
    listed = {run_.key: run_.listed() for run_, _ in wanted}
    done = [s for run_, _ in wanted for s in run_.task.shards if s.number in listed[run_.key]]
    return len(done), sum(shard.rows for shard in done)


def nothing_to_score(wanted: Wanted) -> str:
    """Why there is no work: everything is done, or what is left waits for an option."""
    left = sum(len(run_.missing()) for run_, _ in wanted)
    if not left:
        return "complete, nothing to score"
    poisoned = sum(len(run_.all_poisoned()) for run_, _ in wanted)
    if poisoned:
        return f"nothing to score without --retry-failed, which takes up {poisoned} failed shards"
    return f"nothing to score; the {left} missing shards are not among those asked for"


def write_run_record(run_: Run) -> None:
    """run.json: what identifies the run, and the circumstances of its first start."""
    key = f"{run_.key}/run.json"
    if not run_.store.exists(key):
        run_.store.write_json(
            key,
            {
                "task": run_.task.name,
                "task_fingerprint": run_.task.fingerprint,
                "model": run_.model,
                "fingerprint": run_.fingerprint,
                "identity": run_.identity,
                "circumstances": describe_process(),
            },
        )

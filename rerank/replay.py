"""Replay: score the shards of a run, one at a time, and commit each with a receipt.

Two engines share the `ShardWorker`: `inline` below (a for loop, the reference) and Ray
(`cluster.fanout`). Both give the same bytes: what a shard's scores are depends on the shard, the
model and the token budget, never on who scored it or in which order. Only where a process died
twice in one batch are its inputs forwarded one by one, which may move the last bits.
"""

from __future__ import annotations

import json
import platform
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from rerank.errors import RerankError, ScoringError
from rerank.fingerprint import sha256_bytes
from rerank.frozen import Shard, candidate_bytes, check_content, query_groups
from rerank.ledger import MAX_DEATHS, Attempt, Session, no_node_lost
from rerank.records import Costly, GroupScores, ModelSpec, Placement, QueryGroup, Scorer
from rerank.runs import POISONED, valid_receipt
from rerank.schemas import check_table, table_of
from rerank.store import Store, parquet_bytes, table_from_bytes

COMMITTED, SKIPPED, FAILED = "committed", "skipped", "failed"
MAX_LOST_NODES = 20  # after which a shard is given up: it may be what fells its nodes


@dataclass(frozen=True)
class ShardJob:
    """All a worker needs to know about one shard of one run."""

    run_key: str
    fingerprint: str
    task_folder: str
    shard: Shard

    @property
    def label(self) -> str:
        return f"{self.run_key.removeprefix('runs/')} shard {self.shard.number}"


@dataclass(frozen=True)
class WorkerSpec:
    """All a worker needs to load its model; small, and the same for all workers of a run."""

    store_root: str
    model: ModelSpec
    placement: Placement
    revision: str  # of the weights, as the run's identity has it
    session: Session
    token_budget: int | None = None  # None: the worker finds it
    max_deaths: int = MAX_DEATHS


@dataclass(frozen=True)
class Node:
    """Where a worker runs, as its engine calls it; `lost`: is the node of a name gone?"""

    name: str = ""
    lost: Callable[[str], bool] = no_node_lost


@dataclass(frozen=True)
class Outcome:
    """What became of one shard: `committed`, `skipped` (another worker had it), or `failed`.

    stages: seconds spent to read the candidates, to encode and to forward them (as a
    `ScoringReport` counts them), and to write scores and receipt; tokens: forwarded, without
    padding.
    """

    job: str  # run key
    shard: int
    status: str
    rows: int
    failed_rows: int
    message: str = ""
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    oom_halvings: int = 0
    token_budget: int = 0
    node: str = ""
    host: str = field(default_factory=platform.node)


class ShardWorker:
    """Owns one model and scores shards with it. Never raises for a shard: it returns an Outcome."""

    def __init__(self, spec: WorkerSpec, node: Node | None = None) -> None:
        from rerank.devices import resolve_placement
        from rerank.models.adapters import ADAPTERS, load_scorer

        started = time.monotonic()
        found = resolve_placement(spec.model, ADAPTERS[spec.model.adapter].weightless)
        if found != spec.placement:
            raise ScoringError(
                f"model '{spec.model.name}' would run here as {found}, but the run is "
                f"{spec.placement}; pin device, dtype and attention in its YAML"
            )
        self.spec = spec
        self.node = node or Node()
        self.attempt: Attempt | None = None  # at the shard in work
        self.store = Store(spec.store_root)
        try:
            self.scorer: Scorer = load_scorer(spec.model, spec.placement)
        except RerankError:
            raise
        except (Exception, SystemExit) as error:
            # whatever a model's own files make the libraries raise, the user gets one sentence
            raise ScoringError(
                f"model '{spec.model.name}' cannot be loaded: {error!r}; check its files"
            ) from error
        check_revision(spec)
        self.load_seconds = time.monotonic() - started
        self.token_budget: int | None = spec.token_budget

    def __call__(self, job: ShardJob) -> Outcome:
        """Score and commit one shard, unless a valid receipt or a poison mark is there already."""
        try:
            return self._work(job)
        except RerankError as error:
            # the store itself refuses (a full disk): not even the failure could be written down
            return self._outcome(job, FAILED, message=str(error))
        finally:
            self.attempt = None

    def abandon(self) -> None:
        """Give up the shard in work without a death: this process is about to be ended."""
        if self.attempt is not None:
            self.attempt.end()

    def _work(self, job: ShardJob) -> Outcome:
        started = time.monotonic()
        if committed(self.store, job):
            return self._outcome(job, SKIPPED)
        self.attempt = attempt = Attempt(
            self.store,
            job.run_key,
            job.shard.name,
            self.spec.session,
            node=self.node.name,
            lost=self.node.lost,
        )
        given_up = self._given_up(attempt)
        if given_up:
            attempt.end()
            return self._failed(job, POISONED, given_up, started)
        try:
            receipt, stages = self._score(job, attempt)
        except (Exception, SystemExit) as error:
            # any fault of a model is this shard's: recorded with its traceback, never swallowed
            attempt.end()
            detail = str(error) if isinstance(error, RerankError) else repr(error)
            return self._failed(job, "error", detail, started, traceback.format_exc())
        except BaseException:
            attempt.end()  # interrupted by the user: no death of the shard's making
            raise
        attempt.clear()
        self.store.remove(f"{job.run_key}/failures/{job.shard.name}.json")
        return self._outcome(
            job,
            COMMITTED,
            failed_rows=receipt["failed"],
            seconds=time.monotonic() - started,
            stages=stages,
            tokens=receipt["report"]["tokens"],
            oom_halvings=receipt["report"]["oom_halvings"],
            token_budget=receipt["plan"]["token_budget"],
        )

    def _given_up(self, attempt: Attempt) -> str:
        """Why the shard is not tried again, '' where it is."""
        what = ""
        if attempt.deaths >= self.spec.max_deaths:
            what = f"its process died {attempt.deaths} times"
        elif attempt.lost >= MAX_LOST_NODES:
            what = f"{attempt.lost} nodes were lost while they scored it"
        return what and f"{what}; --retry-failed takes it up again"

    def _score(self, job: ShardJob, attempt: Attempt) -> tuple[dict[str, Any], dict[str, float]]:
        """The receipt of the committed shard, and the seconds of each stage."""
        from rerank.scoring import score_groups

        started, clock = time.time(), time.perf_counter()
        groups = read_groups(self.store, job)
        stages = {"read": time.perf_counter() - clock}
        budget = self._budget(groups)
        journal = attempt if attempt.deaths or isinstance(self.scorer, Costly) else None
        results, report = score_groups(self.scorer, groups, budget, journal=journal)
        stages |= {"encode": report.seconds_encode, "forward": report.seconds_forward}
        clock = time.perf_counter()
        table = score_table(groups, results)
        check_rows(table, groups, job)
        plan = {"token_budget": budget, "batches": report.plan}
        circumstances = {
            "attempt": attempt.id,
            "deaths": attempt.deaths,
            "session": self.spec.session.id,
            "load_seconds": round(self.load_seconds, 3),
            "seconds_read": stages["read"],
            "started": started,
            "finished": time.time(),
            "report": {key: value for key, value in asdict(report).items() if key != "plan"},
            "worker": self._device(),
            "node": self.node.name or None,
            "recipe": self.scorer.describe(),
        }
        receipt = commit(self.store, job, table, plan, circumstances)
        stages["write"] = time.perf_counter() - clock
        return receipt, stages

    def _budget(self, groups: list[QueryGroup]) -> int:
        """The fixed token budget, or the one this device was found to hold (probed once)."""
        from rerank.probing import find_token_budget

        if self.token_budget is None:
            self.token_budget = find_token_budget(self.scorer, groups, self.spec.placement)
        return self.token_budget

    def _device(self) -> dict[str, Any]:
        from rerank.devices import describe_device

        return describe_device(self.spec.placement)

    def _failed(
        self, job: ShardJob, kind: str, message: str, started: float, trace: str = ""
    ) -> Outcome:
        failure = {
            "kind": kind,
            "message": message,
            "traceback": trace,
            "worker": self._device(),
            "node": self.node.name or None,
        }
        self.store.write_json(f"{job.run_key}/failures/{job.shard.name}.json", failure)
        return self._outcome(job, FAILED, message=message, seconds=time.monotonic() - started)

    def _outcome(self, job: ShardJob, status: str, failed_rows: int = 0, **facts: Any) -> Outcome:
        return Outcome(
            job.run_key, job.shard.number, status, job.shard.rows, failed_rows,
            node=self.node.name, **facts,
        )  # fmt: skip


def check_revision(spec: WorkerSpec) -> None:
    """ScoringError where this machine holds other weights than the run was planned with."""
    from rerank.models.adapters import resolve_weights

    found = resolve_weights(spec.model).revision
    if found != spec.revision:
        raise ScoringError(
            f"model '{spec.model.name}': the weights here are {found}, the run was planned with "
            f"{spec.revision}; pin `revision` in its YAML or put the same files on every node"
        )


def committed(store: Store, job: ShardJob) -> bool:
    """Is there a receipt for exactly this run and shard, with its score file intact?"""
    return valid_receipt(store, job.run_key, job.fingerprint, job.shard) is not None


def read_groups(store: Store, job: ShardJob) -> list[QueryGroup]:
    """The queries of the shard; FrozenDataError where the file was changed."""
    key = f"{job.task_folder}/{job.shard.file}"
    data, where = candidate_bytes(store, key, job.shard.sha256), store.where(key)
    table = check_table(table_from_bytes(data, where), "candidates", where)
    return list(query_groups(check_content(table, job.shard.content, where)))


def score_table(groups: list[QueryGroup], results: list[GroupScores]) -> pa.Table:
    """Scores in the order of the candidate rows; a failed row's score is null."""
    columns: dict[str, list[Any]] = {name: [] for name in ("query_id", "doc_id", "score")}
    columns |= {"tokens": [], "truncated": [], "failure": []}
    for group, result in zip(groups, results, strict=True):
        scores = result.scores.tolist()
        columns["query_id"] += [group.query_id] * len(group)
        columns["doc_id"] += group.doc_ids
        columns["score"] += [
            None if failure else score
            for score, failure in zip(scores, result.failures, strict=True)
        ]
        columns["tokens"] += result.tokens.tolist()
        columns["truncated"] += result.truncated.tolist()
        columns["failure"] += result.failures
    return table_of("scores", columns)


def check_rows(table: pa.Table, groups: list[QueryGroup], job: ShardJob) -> None:
    """Every candidate row exactly once, and a finite score or a failure in each."""
    if table.num_rows != sum(map(len, groups)) or table.num_rows != job.shard.rows:
        raise ScoringError(f"{job.label}: {table.num_rows} scores for {job.shard.rows} candidates")
    scores = table["score"].to_pylist()
    failures = table["failure"].to_pylist()
    for row, (score, failure) in enumerate(zip(scores, failures, strict=True)):
        if (score is None) == (failure is None) or (score is not None and score - score != 0):
            query_id, doc_id = table["query_id"][row], table["doc_id"][row]
            raise ScoringError(
                f"{job.label}: score {score} of query '{query_id}', document '{doc_id}' is not "
                "finite; the model or its dtype cannot score this pair"
            )


def commit(
    store: Store,
    job: ShardJob,
    table: pa.Table,
    plan: dict[str, Any],
    circumstances: dict[str, Any],
) -> dict[str, Any]:
    """Write the score file under a name of its own, then the receipt that makes it count.

    The score file's bytes depend on run, shard and batch plan alone: what differs between two
    attempts (times, hosts) stands in the receipt.
    """
    footer = {
        "run": job.fingerprint,
        "candidates": job.shard.content,
        "shard": str(job.shard.number),
        "plan": json.dumps(plan, sort_keys=True),
    }
    data = parquet_bytes(table.replace_schema_metadata(footer))
    file = f"{job.shard.name}.{uuid.uuid4().hex[:12]}.parquet"
    store.write(f"{job.run_key}/scores/{file}", data)
    receipt = {
        "shard": job.shard.number,
        "fingerprint": job.fingerprint,
        "candidates": job.shard.content,
        "file": file,
        "sha256": sha256_bytes(data),
        "rows": table.num_rows,
        "failed": table["failure"].length() - table["failure"].null_count,
        "truncated": sum(table["truncated"].to_pylist()),
        "tokens": sum(table["tokens"].to_pylist()),
        "plan": plan,
        **circumstances,
    }
    store.write_json(f"{job.run_key}/receipts/{job.shard.name}.json", receipt)
    return receipt


def run_inline(jobs: list[ShardJob], spec: WorkerSpec) -> Iterator[Outcome]:
    """The reference engine: one model in this process, one shard after the other."""
    worker = ShardWorker(spec)
    for job in jobs:
        yield worker(job)

"""One model measured on one task: throughput by the protocol, latency under load, conditions.

STORE/efficiency/TASK/MODEL/RUN/TIME-ID.json, one file a measurement; RUN is the fingerprint of the
run whose scores the same recipe gives, so that quality and cost meet.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rerank.efficiency.batcher import Policy
from rerank.efficiency.clocks import clock_of, memory_of
from rerank.efficiency.conditions import conditions
from rerank.efficiency.flops import cost_of, matmul_peak
from rerank.efficiency.latency import Service, run_load, summary
from rerank.efficiency.load import REQUESTS, WARM_UP, Load
from rerank.efficiency.other_load import LoadWatch, OtherLoad, look
from rerank.efficiency.pps import Curve, Point, measure_curve, sample_of
from rerank.efficiency.served import Served
from rerank.efficiency.service import InProcess, body_of
from rerank.errors import ScoringError
from rerank.frozen import FrozenTask, open_frozen, query_groups
from rerank.models.adapters import ADAPTERS, load_scorer, resolve_weights
from rerank.probing import find_token_budget
from rerank.records import Advancing, Costly, ModelSpec, Placement, QueryGroup, Scorer
from rerank.store import Store

SCHEMA = 1
SAMPLE_PAIRS, QUERIES = 512, 200
SPOKEN = 10.0  # seconds between two lines of progress

Say = Callable[[str], None]
Record = dict[str, Any]


def new_id() -> str:
    """When it began, in UTC to the microsecond, and six digits of chance: later ones sort last."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:6]}"


@dataclass(frozen=True)
class Measurement:
    """All that a worker needs to measure one model on one task; small, and it can be sent.

    depth: candidates of a request, None for all; max_batch_tokens: None for the device's budget;
    concurrency, rates: the loads; max_wait, timeout: seconds; price_per_hour: of one GPU.
    """

    store_root: str
    task: str
    task_fingerprint: str
    run: str  # fingerprint
    model: ModelSpec
    placement: Placement
    sample: int = SAMPLE_PAIRS
    queries: int = QUERIES
    depth: int | None = None
    concurrency: tuple[int, ...] = (1, 8, 32)
    rates: tuple[float, ...] = ()
    warm_up: int = WARM_UP
    requests: int = REQUESTS
    max_batch_tokens: int | None = None
    max_wait: float = 0.005
    timeout: float | None = None
    retries: int = 0
    seed: int = 17
    exclusive: bool = False
    price_per_hour: float | None = None
    id: str = field(default_factory=new_id)

    @property
    def loads(self) -> list[Load]:
        common: dict[str, Any] = {
            "warm_up": self.warm_up, "requests": self.requests, "timeout": self.timeout,
            "retries": self.retries, "seed": self.seed,
        }  # fmt: skip
        closed = [Load(concurrency=count, **common) for count in self.concurrency]
        return closed + [Load(rate=rate, **common) for rate in self.rates]

    @property
    def machine_price(self) -> float | None:
        """Of what the model's worker holds: its GPUs, a CPU worker counts as one machine; None for
        a server, which sends its own bill."""
        if self.price_per_hour is None or self.model.adapter == "http":
            return None
        gpus = self.model.num_gpus if self.placement.device == "cuda" else 1.0
        return self.price_per_hour * gpus


def measure(work: Measurement, say: Say) -> Record:
    """Load the model, measure, and return the record, as JSON types; nothing is written.

    ScoringError: the model cannot be loaded or measured, or the machine is shared and `exclusive`
    asks for one that is not.
    """
    watch = LoadWatch(work.placement.device)
    if work.exclusive:
        _refuse_shared(look(work.placement.device), "now")
    task = open_frozen(Store(work.store_root), work.task, work.task_fingerprint)
    groups = sample_groups(task, work)
    spec = work.model
    served = isinstance(scorer := load_scorer(spec, work.placement), Costly)
    budget = work.max_batch_tokens or find_token_budget(scorer, groups, work.placement)
    throughput = None if served else _throughput(work, scorer, groups, say)
    service, bodies = _service(work, scorer, groups, budget)
    latency = [_latency(work, service, bodies, load, say) for load in work.loads]
    items = [] if served else scorer.encode(groups)
    other = watch.stop()
    if work.exclusive:
        _refuse_shared(other, "while it was measured")
    return {
        "schema": SCHEMA,
        "id": work.id,
        "task": task.name,
        "task_fingerprint": task.fingerprint,
        "model": spec.name,
        "run": work.run,
        "finished": time.time(),
        "served": served,
        "depth": work.depth,
        "throughput": throughput,
        "latency": latency,
        "batcher": None if served else {"max_batch_tokens": budget, "max_wait": work.max_wait},
        "num_gpus": spec.num_gpus if work.placement.device == "cuda" else 0.0,
        "conditions": conditions(
            spec,
            work.placement,
            resolve_weights(spec).revision,
            scorer,
            groups,
            items,
            other,
            work.exclusive,
        ),  # fmt: skip
    }


def sample_groups(task: FrozenTask, work: Measurement) -> list[QueryGroup]:
    """At most `queries` queries with their candidates of the first `depth` ranks, seeded.

    ScoringError where the task has no candidate.
    """
    groups = [
        _cut(group, work.depth)
        for shard in task.shards
        for group in query_groups(task.candidates(shard))
        if len(group)
    ]
    if not groups:
        raise ScoringError(f"task '{task.name}' has no candidate to measure with")
    rng = np.random.default_rng(work.seed)
    chosen = rng.permutation(len(groups))[: work.queries]
    return [groups[at] for at in chosen.tolist()]


def _cut(group: QueryGroup, depth: int | None) -> QueryGroup:
    if depth is None:
        return group
    kept = [at for at, rank in enumerate(group.ranks) if rank <= depth]
    return QueryGroup(
        group.query_id,
        group.query,
        tuple(group.doc_ids[at] for at in kept),
        tuple(group.documents[at] for at in kept),
        tuple(group.ranks[at] for at in kept),
    )


def _throughput(
    work: Measurement, scorer: Scorer, groups: Sequence[QueryGroup], say: Say
) -> Record | None:
    """The curve of whole inputs, and where beginnings are shared that of shared ones as well."""
    if ADAPTERS[work.model.adapter].weightless:
        say(f"{work.model.name}: no pairs/s by the protocol: it has no weights to multiply with")
        return None
    if isinstance(scorer, Advancing):
        say(f"{work.model.name}: no pairs/s by the protocol: its inputs are made in rounds")
        return None
    sample = sample_of(scorer, groups, work.sample)
    device = work.placement.device
    peak = matmul_peak(device, work.placement.dtype)
    clock, memory, cost = clock_of(device), memory_of(device), cost_of(scorer)

    def curve(label: str, shared: bool) -> Curve:
        return measure_curve(
            scorer,
            sample if shared else sample.whole(),
            clock,
            memory=memory,
            cost=cost,
            tell=lambda text: say(f"{work.model.name}: {label}{text}"),
        )

    whole = curve("", shared=False)
    shared = curve("shared beginnings, ", shared=True) if sample.shares else None
    return {
        "clock": clock.name,
        "inputs": len(sample.items),
        "pairs_per_input": sample.pairs_per_item,
        "matmul_peak": peak,
        "flop_counted": None if cost is None else asdict(cost),
        "whole": curve_record(whole, peak),
        "shared": None if shared is None else curve_record(shared, peak),
    }


def curve_record(curve: Curve, peak: float | None) -> Record:
    """A curve as JSON types, its fastest batch size first named."""
    return {
        "best": point_record(curve.best, peak),
        "out_of_memory": curve.out_of_memory,
        "points": [point_record(point, peak) for point in curve.points],
    }


def point_record(point: Point, peak: float | None) -> Record:
    rate = point.flop_per_second
    return {
        **asdict(point),
        "seconds": list(point.seconds),
        "pairs_per_second": point.pairs_per_second,
        "tokens_per_second": point.tokens_per_second,
        "padding_share": point.padding_share,
        "flop_per_second": rate,
        "share_of_peak": rate / peak if rate is not None and peak else None,
    }


def _service(
    work: Measurement, scorer: Scorer, groups: Sequence[QueryGroup], budget: int
) -> tuple[Callable[[], Service], list[Any]]:
    """What makes a fresh service for a load, and the requests that it takes."""
    if isinstance(scorer, Costly):
        clients = max(work.concurrency, default=0) or 64
        return lambda: Served(work.model, clients), list(groups)
    policy = Policy(budget, work.max_wait)
    return lambda: InProcess(scorer, policy), [body_of(group) for group in groups]


def _latency(
    work: Measurement, service: Callable[[], Service], bodies: Sequence[Any], load: Load, say: Say
) -> Record:
    began = spoken = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal spoken
        now = time.monotonic()
        if now - spoken > SPOKEN:
            spoken = now
            left = (now - began) * (total - done) / done
            say(f"{work.model.name}: {load.name}: {done:,} of {total:,}, {left:,.0f} s left")

    timings, batches = run_load(service, bodies, load, tell=tell)
    found = summary(load, timings, batches, work.machine_price)
    level = found["latency"].get("p95", {}).get("value")
    shown = "no answer" if level is None else f"p95 {1000 * level:,.1f} ms"
    rate = found["requests_per_second"]
    say(f"{work.model.name}: {load.name}: {shown}, {rate:,.1f} requests/s")
    return found


def _refuse_shared(other: OtherLoad, when: str) -> None:
    if other.reasons:
        raise ScoringError(
            f"--exclusive: this machine is shared {when}: {'; '.join(other.reasons)}; end what "
            "else runs, or measure without --exclusive, which says so beside the figures"
        )

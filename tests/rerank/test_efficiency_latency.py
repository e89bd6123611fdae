"""Latency under load. Oracles: Crommelin's waiting-time distribution of the M/D/1 line, Lindley's
recursion over the very arrivals, and schedules by hand, all on simulated time."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from rerank.efficiency.batcher import Policy
from rerank.efficiency.latency import run_load, summary
from rerank.efficiency.load import Load, Timing
from rerank.efficiency.percentiles import percentiles
from rerank.efficiency.queueing import latency_quantile, waiting_time_cdf
from rerank.efficiency.service import InProcess, body_of, forwarded, group_of
from rerank.errors import ConfigError, ScoringError
from rerank.models.overlap import Overlap
from rerank.records import Item, QueryGroup
from rerank.scoring import score_groups
from tests.standins.virtual_time import KnownService, VirtualTimeLoop

ALONE = Policy(max_batch_tokens=1, max_wait=0.0)  # every request is a batch of its own


def simulated(
    load: Load,
    service: float = 1.0,
    policy: Policy = ALONE,
    body: dict[str, float] | None = None,
    each: float = 0.0,
) -> tuple[list[Timing], list[tuple[int, int]]]:
    return run_load(
        lambda: KnownService(policy, service, each),
        [body or {"tokens": 1}],
        load,
        loop_factory=VirtualTimeLoop,
    )


@pytest.mark.parametrize("utilisation", [0.5, 0.8])
def test_percentiles_are_those_of_an_m_d_1_line(utilisation: float) -> None:
    """Poisson arrivals at one server of constant time, 60,000 requests: within 10 % at p50, p95,
    p99 (the seed is fixed, so is the outcome)."""
    load = Load(rate=utilisation, warm_up=200, requests=60_000)
    timings, batches = simulated(load)
    found = summary(load, timings, batches)
    for level, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        expected = latency_quantile(share, utilisation, 1.0)
        assert found["latency"][level]["value"] == pytest.approx(expected, rel=0.10)
    assert found["n"] == 60_000
    assert found["requests_per_second"] == pytest.approx(utilisation, rel=0.05)
    assert abs(found["unaccounted_share"]) < 0.02
    assert found["batches"]["requests"] == 1.0


def test_every_wait_is_lindleys() -> None:
    """W' = max(0, W + D - gap) over the same arrivals, request by request."""
    timings, _ = simulated(Load(rate=0.9, warm_up=0, requests=2_000))
    wait, before = 0.0, None
    for timing in timings:
        if before is not None:
            wait = max(0.0, wait + 1.0 - (timing.due - before))
        before = timing.due
        assert timing.seconds == pytest.approx(wait + 1.0, abs=1e-6)
        assert timing.parts["queue"] == pytest.approx(wait, abs=1e-6)
        assert timing.parts["compute"] == pytest.approx(1.0, abs=1e-9)


def test_crommelins_distribution() -> None:
    """Nobody waits with probability 1 - rho; the mean wait is rho D / (2 (1 - rho)), the integral
    of the tail (Pollaczek and Khinchine)."""
    for rho in (0.5, 0.8):
        assert waiting_time_cdf(0.0, rho, 1.0) == pytest.approx(1 - rho)
        grid = np.linspace(0, 18, 3_601)
        tail = [1 - waiting_time_cdf(float(t), rho, 1.0) for t in grid]
        assert np.trapezoid(tail, grid) == pytest.approx(rho / (2 * (1 - rho)), rel=1e-2)
        assert all(np.diff(tail) <= 1e-9)
    assert latency_quantile(0.4, 0.5, 1.0) == 1.0
    assert waiting_time_cdf(-1.0, 0.5, 1.0) == 0.0
    # within the first service time P(W <= t) = (1 - rho) e^(lambda t)
    assert waiting_time_cdf(0.7, 0.5, 1.0) == pytest.approx(0.5 * math.exp(0.35))


def test_a_closed_loop_keeps_its_clients_busy() -> None:
    """Three clients and one server of 1 s: each waits for the two others, 1 request/s."""
    load = Load(concurrency=3, warm_up=3, requests=30)
    timings, batches = simulated(load)
    found = summary(load, timings, batches, price_per_hour=36.0)
    assert found["latency"]["p50"]["value"] == pytest.approx(3.0)
    assert found["parts"]["queue"]["mean"] == pytest.approx(2.0)
    assert found["requests_per_second"] == pytest.approx(30 / 32)  # the first began 2 s before
    assert found["cost_per_1000"] == pytest.approx(1000 / (30 / 32) / 3600 * 36)


def test_requests_that_wait_together_are_computed_together() -> None:
    """Four clients, 10 tokens each, at most 20 a batch: two requests a batch of 1 s, so that each
    waits for the other batch; and the oldest waits no longer for company than it must."""
    load = Load(concurrency=4, warm_up=4, requests=40)
    timings, batches = simulated(load, policy=Policy(20, 5.0), body={"tokens": 10})
    assert set(batches) == {(2, 20)}
    assert summary(load, timings)["latency"]["p50"]["value"] == pytest.approx(2.0)


def test_a_lone_request_waits_max_wait_for_company() -> None:
    """One client, room for two: 0.25 s of waiting, then 1 s of work; a wait of 0 starts at once."""
    load = Load(concurrency=1, warm_up=0, requests=5)
    timings, _ = simulated(load, policy=Policy(20, 0.25), body={"tokens": 10})
    assert [timing.seconds for timing in timings] == pytest.approx([1.25] * 5)
    timings, _ = simulated(load, policy=Policy(20, 0.0), body={"tokens": 10})
    assert [timing.seconds for timing in timings] == pytest.approx([1.0] * 5)
    # one that fills the batch by itself waits for nobody
    timings, batches = simulated(load, policy=Policy(20, 0.25), body={"tokens": 30})
    assert [timing.seconds for timing in timings] == pytest.approx([1.0] * 5)
    assert set(batches) == {(1, 30)}


def test_parts_sum_to_the_whole() -> None:
    """0.1 s to read, 0.2 to tokenise, 1 to compute, 0.05 to sort; the rest is the queue."""
    body = {"serialization": 0.1, "tokenization": 0.2, "sort": 0.05, "tokens": 1}
    load = Load(rate=0.7, warm_up=10, requests=500)
    timings, _ = simulated(load, body=body)
    for timing in timings:
        assert abs(timing.unaccounted) < 0.02 * timing.seconds
    found = summary(load, timings)
    assert found["parts"]["tokenization"]["mean"] == pytest.approx(0.2)
    assert found["parts"]["sort"]["p99"] == pytest.approx(0.05)
    assert sum(part["share"] for part in found["parts"].values()) == pytest.approx(1.0)


def test_timeouts_and_retries_are_counted_and_are_part_of_the_latency() -> None:
    """Three clients at a server of 1 s, patience 2.5 s, one retry: the third one's request is at
    work from 2 s on and given up at 2.5 s; its retry waits until 3 s and is answered at 4 s."""
    load = Load(concurrency=3, warm_up=0, requests=3, timeout=2.5, retries=1)
    timings, batches = simulated(load)
    assert [timing.seconds for timing in timings] == pytest.approx([1.0, 2.0, 4.0])
    assert [(timing.timeouts, timing.retries) for timing in timings] == [(0, 0), (0, 0), (1, 1)]
    parts = timings[2].parts
    assert (parts["retried"], parts["queue"], parts["compute"]) == pytest.approx((2.5, 0.5, 1.0))
    assert len(batches) == 4
    found = summary(load, timings)
    assert (found["n"], found["timeouts"], found["retries"]) == (3, 1, 1)


def test_what_is_given_up_in_the_queue_is_never_computed() -> None:
    """Patience 0.6 s at a server of 1 s, requests of 1, 2, 3, 4 tokens. The first two are given up
    at 0.6 s, the second one still in the queue; at 1 s the worker takes the third."""
    load = Load(concurrency=2, warm_up=0, requests=4, timeout=0.6)
    bodies = [{"tokens": float(tokens)} for tokens in (1, 2, 3, 4)]
    _, batches = run_load(
        lambda: KnownService(ALONE, 1.0), bodies, load, loop_factory=VirtualTimeLoop
    )
    assert batches == [(1, 1), (1, 3)]


def test_what_is_given_up_fills_no_batch() -> None:
    """Room for 20 tokens, a wait of 1 s. A request of 9 is given up at 0.2 s; one of 11 comes at
    0.25 s, which together would be a full batch: none starts before the second is over."""

    async def second_one(service: KnownService) -> float:
        await asyncio.sleep(0.25)
        return (await service.batcher.submit({}, 11)).began

    async def both() -> float:
        async with KnownService(Policy(20, 1.0), 1.0) as service:
            second = asyncio.create_task(second_one(service))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await service.batcher.submit({}, 9)
            return await second

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(both()) == pytest.approx(1.0)


def test_a_request_that_starts_late_has_waited() -> None:
    """The loop is held up for 0.5 s by every answer, so requests that were due meanwhile begin
    late: that is queue, and nothing is left unaccounted."""
    load = Load(rate=0.5, warm_up=0, requests=200)
    timings, _ = simulated(load, body={"tokens": 1, "block": 0.5})
    assert max(abs(timing.unaccounted) for timing in timings) < 1e-6
    assert sum(timing.parts["queue"] for timing in timings) > 0


def test_a_request_without_an_answer_is_in_no_percentile() -> None:
    """Patience 0.5 s at a server of 1 s: nobody is ever answered."""
    load = Load(concurrency=1, warm_up=0, requests=4, timeout=0.5, retries=1)
    timings, _ = simulated(load)
    found = summary(load, timings)
    assert (found["n"], found["unanswered"], found["timeouts"], found["retries"]) == (0, 4, 8, 4)
    assert found["latency"] == {}
    assert timings[0].error == "no answer within 0.5 seconds"
    assert timings[0].seconds == pytest.approx(1.0)


def test_percentiles_and_their_intervals() -> None:
    """Values by hand; an interval holds its value and shrinks with n; its upper end is
    unknown where few values leave it open."""
    found = percentiles(np.arange(1.0, 102.0))
    assert [found[name]["value"] for name in ("p50", "p95", "p99")] == [51.0, 96.0, 100.0]
    rng = np.random.default_rng(3)
    widths = []
    for n in (200, 20_000):
        level = percentiles(rng.exponential(1.0, n))["p95"]
        assert level["low"] < level["value"] < level["high"]
        widths.append(level["high"] - level["low"])
    assert widths[1] < widths[0] / 4
    assert percentiles([2.0, 2.0])["p99"] == {"value": 2.0, "low": 2.0, "high": None}
    for name, n in (("p50", 6), ("p95", 72), ("p99", 368)):  # 0.5 ** 6, 0.95 ** 72, 0.99 ** 368
        assert percentiles([2.0] * n)[name] == {"value": 2.0, "low": 2.0, "high": 2.0}
        assert percentiles([2.0] * (n - 1))[name]["high"] is None  # all may lie below the level
    assert percentiles([2.0])["p50"] == {"value": 2.0, "low": None, "high": None}
    assert percentiles([]) == {}


def test_intervals_cover_the_median_of_a_waiting_line() -> None:
    """40 runs of 1,000 requests at utilisation 0.5: 95 % intervals of p50 hold the known median in
    at least 32 of them (34 of 40 is the plain bootstrap's worst, were requests independent)."""
    truth = latency_quantile(0.5, 0.5, 1.0)
    held = 0
    for seed in range(40):
        load = Load(rate=0.5, warm_up=50, requests=1_000, seed=seed)
        timings, _ = simulated(load)
        level = percentiles([t.seconds for t in timings[50:]], samples=300)["p50"]
        held += level["low"] <= truth <= level["high"]
    assert held >= 32


GROUPS = [
    QueryGroup("q1", "reset the pump", ("a", "b"), ("reset pump", "nothing"), (1, 2)),
    QueryGroup("q2", "필터 교체", ("c", "d", "e"), ("필터", "교체 필터", "pump"), (1, 2, 3)),
]


def test_the_service_ranks_as_the_scoring_loop_does() -> None:
    """Both requests in one batch, in real time, through threads: order and scores of score_groups,
    and parts that sum to the latency within 2 % or a tenth of a millisecond."""
    answered: dict[str, Any] = {}

    class Kept(InProcess):
        async def answer(self, body: bytes, timing: Timing) -> None:
            await super().answer(body, timing)
            answered[group_of(body).query] = timing

    load = Load(concurrency=2, warm_up=0, requests=20)
    timings, batches = run_load(
        lambda: Kept(Overlap(), Policy(100, 0.05)), [body_of(group) for group in GROUPS], load
    )
    assert set(answered) == {group.query for group in GROUPS}
    assert sum(requests for requests, _ in batches) == 20
    assert max(requests for requests, _ in batches) == 2
    for timing in timings:
        assert abs(timing.unaccounted) < max(0.02 * timing.seconds, 1e-4)
        assert timing.parts["network"] == timing.parts["retried"] == 0
        assert all(seconds >= 0 for seconds in timing.parts.values())


def test_requests_of_one_batch_keep_their_own_scores() -> None:
    """Shares of two requests that are called alike are kept apart; each gets the outputs of its own
    items, equal to those of scoring it by itself."""
    from rerank.efficiency.service import Work, ranking

    scorer = Overlap()
    works = [Work(group, tuple(scorer.encode([group]))) for group in GROUPS]
    done = forwarded(scorer, works, budget=8)
    expected, _ = score_groups(scorer, GROUPS, 8)
    for work, one, result in zip(works, done, expected, strict=True):
        ranked = ranking(scorer, work.group, one)
        scores = {row["id"]: row["score"] for row in ranked}
        assert scores == dict(zip(work.group.doc_ids, result.scores.tolist(), strict=True))
        assert [row["score"] for row in ranked] == sorted(scores.values(), reverse=True)


def test_shared_beginnings_of_two_requests_are_never_mixed() -> None:
    """Both call their share 0; forwarded together they must not be one."""
    from rerank.efficiency.service import Work

    seen: list[set[Any]] = []

    class Sharing(Overlap):
        def encode(self, groups: Any) -> list[Item]:
            return [
                Item(item.payload, item.tokens, False, item.label, None, 0, 1)
                for item in super().encode(groups)
            ]

        def forward(self, items: Any) -> np.ndarray:
            seen.append({item.share for item in items})
            return super().forward(items)

    scorer = Sharing()
    forwarded(scorer, [Work(g, tuple(scorer.encode([g]))) for g in GROUPS], budget=1_000)
    assert seen == [{(0, 0), (1, 0)}]


def test_memory_that_runs_out_halves_the_batch() -> None:
    """At most one input fits: all are scored, one by one; where none fits the pair has no score."""
    from rerank.efficiency.service import Work, ranking

    class Small(Overlap):
        room = 1

        def forward(self, items: Any) -> np.ndarray:
            if len(items) > self.room:
                raise MemoryError
            return super().forward(items)

    scorer = Small()
    (work,) = [Work(GROUPS[1], tuple(scorer.encode([GROUPS[1]])))]
    (done,) = forwarded(scorer, [work], budget=1_000)
    assert all(row["score"] is not None for row in ranking(scorer, work.group, done))
    scorer.room = 0
    (done,) = forwarded(scorer, [work], budget=1_000)
    assert [row["score"] for row in ranking(scorer, work.group, done)] == [None] * 3


def test_an_error_of_the_model_reaches_the_caller_as_it_is() -> None:
    class Broken(Overlap):
        def forward(self, items: Any) -> np.ndarray:
            return np.full((len(items), 1), np.nan, dtype=np.float32)

    with pytest.raises(ScoringError, match="is not finite"):
        run_load(
            lambda: InProcess(Broken(), Policy(100, 0.0)),
            [body_of(GROUPS[0])],
            Load(concurrency=2, warm_up=0, requests=3),
        )


def test_loads_and_policies_that_are_none() -> None:
    with pytest.raises(ConfigError, match="a concurrency or a rate"):
        Load(concurrency=1, rate=1.0)
    with pytest.raises(ConfigError, match="a rate above 0"):
        Load(rate=0.0)
    with pytest.raises(ConfigError, match="max_batch_tokens from 1"):
        Policy(0, 0.0)

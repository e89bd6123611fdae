"""The latency harness in real time against queueing arithmetic over the same arrivals.

A service of constant time (it sleeps, then spins to the microsecond) behind the real threads and
batcher, Poisson arrivals at utilisation 0.5 and 0.8. What each request must wait follows from the
arrivals and the service time by Lindley's recursion, W' = max(0, W + D - gap): of percentiles over
a few thousand requests that is the exact answer, which the steady state of the M/D/1 line is not
(tests/rerank/test_efficiency_latency.py has that one, on simulated time).

A request occupies the worker for D, the service time and what handing over a batch costs (measured
with clients that never pause), and takes a little longer than D where nobody else asks, since it is
read and tokenised before (measured with one client). `constant` takes D as it is; `real` takes the
time that each request's own forward really took, which on a machine that others use is not
constant. There `chrt -f 10 scripts/bench latency` keeps others away, where that is allowed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rerank.efficiency.batcher import Policy
from rerank.efficiency.latency import run_load, summary
from rerank.efficiency.load import Load, Timing
from rerank.efficiency.service import InProcess, body_of
from rerank.models.pointwise import PairInput, Pointwise
from rerank.records import Item, QueryGroup

LEVELS = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
UTILISATIONS = (0.5, 0.8)
SPIN = 0.00005  # seconds before its end from which on it spins, which keeps Python to itself


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--service-ms", type=float, default=20.0, help="service time of a request")
    parser.add_argument("--requests", type=int, default=1_000, help="measured, of each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, medians of which count")


class Constant(Pointwise):
    """A scorer whose every forward takes the same time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        return [Item(PairInput(None, ((0, 0),)), 1, False, "the pair")]

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        until = time.perf_counter() + self.seconds
        time.sleep(max(0.0, self.seconds - SPIN))
        while time.perf_counter() < until:
            pass
        return np.zeros((len(items), 1), dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        return {}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    scorer = Constant(arguments.service_ms / 1000)
    bodies = [body_of(QueryGroup("q", "query", ("d",), ("document",), (1,)))]

    def measured(load: Load) -> list[Timing]:
        return run_load(lambda: InProcess(scorer, Policy(1, 0.0)), bodies, load)[0]

    heads = ("utilisation", "service ms", "by", *(f"{level} of it" for level in LEVELS))
    print("  ".join(f"{head:>12}" for head in heads))
    ratios: dict[tuple[str, float, str], list[float]] = {}
    unaccounted = []
    for number in range(arguments.rounds):
        busy_load = Load(concurrency=4, warm_up=50, requests=arguments.requests // 4)
        busy = measured(busy_load)
        service = 1 / summary(busy_load, busy)["requests_per_second"]
        handing = service - statistics.fmean(timing.parts["compute"] for timing in busy[50:])
        alone = measured(Load(concurrency=1, warm_up=50, requests=arguments.requests // 4))
        beside = statistics.median(timing.seconds for timing in alone[50:]) - service
        for utilisation in UTILISATIONS:
            load = Load(
                rate=utilisation / service, warm_up=100, requests=arguments.requests, seed=number
            )
            timings = measured(load)
            unaccounted.append(abs(summary(load, timings)["unaccounted_share"]))
            real = [timing.parts["compute"] + handing for timing in timings]
            for by, times in (("constant", [service] * len(timings)), ("real", real)):
                row = compared(timings, times, beside, load.warm_up)
                for level, ratio in row.items():
                    ratios.setdefault((by, utilisation, level), []).append(ratio)
                cells = [f"{utilisation}", f"{1000 * service:.3f}", by]
                cells += [f"{ratio:.3f}" for ratio in row.values()]
                print("  ".join(f"{cell:>12}" for cell in cells), flush=True)
    medians = {key: statistics.median(values) for key, values in ratios.items()}
    return {
        **{
            f"largest_error_{by}": round(
                max(abs(ratio - 1) for key, ratio in medians.items() if key[0] == by), 4
            )
            for by in ("constant", "real")
        },
        "largest_unaccounted_share": round(max(unaccounted), 6),
        **{f"{by}_{level}_{use}": round(ratio, 4) for (by, use, level), ratio in medians.items()},
    }


def compared(
    timings: Sequence[Timing], services: Sequence[float], beside: float, warm_up: int
) -> dict[str, float]:
    """Measured percentiles over those of Lindley's recursion over the same arrivals.

    beside: seconds that a request takes outside the waiting line, whoever else asks.
    """
    wait, before, expected = 0.0, timings[0].due, []
    last = 0.0
    for timing, service in zip(timings, services, strict=True):
        wait = max(0.0, wait + last - (timing.due - before))
        before, last = timing.due, service
        expected.append(wait + service + beside)
    seconds = [timing.seconds for timing in timings[warm_up:]]
    levels = list(LEVELS.values())
    found = np.quantile(seconds, levels) / np.quantile(expected[warm_up:], levels)
    return dict(zip(LEVELS, found.tolist(), strict=True))

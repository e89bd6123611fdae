"""Latency of a rerank request under load: percentiles, their parts, and what 1,000 queries cost."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from rerank.efficiency.load import PARTS, Load, Tell, Timing, drive
from rerank.efficiency.percentiles import percentiles
from rerank.errors import RerankError

Figures = dict[str, Any]


class Service(Protocol):
    """What is put under load."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def answer(self, body: Any, timing: Timing) -> None: ...


def precise_loop() -> asyncio.AbstractEventLoop:
    """An event loop that wakes to the microsecond: epoll's, the default, rounds up to a
    millisecond, which is half of a short service time."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def run_load(
    service: Callable[[], Service],
    bodies: Sequence[Any],
    load: Load,
    *,
    tell: Tell = lambda done, total: None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = precise_loop,
) -> tuple[list[Timing], list[tuple[int, int]]]:
    """(timings of all requests, batches as (requests, tokens)) of one load on a fresh service.

    RerankError: what a request met, the first one's of several.
    """

    async def whole() -> tuple[list[Timing], list[tuple[int, int]]]:
        async with service() as running:
            timings = await drive(running.answer, bodies, load, tell)
            batcher = getattr(running, "batcher", None)
            return timings, [] if batcher is None else batcher.batches

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(whole())
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(error: BaseException) -> BaseException:
    """The first error that a user can read, else the first of all."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [_first(one) for one in error.exceptions]
    return next((one for one in found if isinstance(one, RerankError)), found[0])


def summary(
    load: Load,
    timings: Sequence[Timing],
    batches: Sequence[tuple[int, int]] = (),
    price_per_hour: float | None = None,
) -> Figures:
    """Figures of the measured requests: all but the first `load.warm_up`. Times in seconds.

    parts: of each, its mean, percentiles and share of all time; unaccounted_share: time that no
    part holds; cost_per_1000: at `price_per_hour` of the machine, however busy it was.
    """
    measured = timings[load.warm_up :]
    answered = [timing for timing in measured if not timing.error]
    seconds = [timing.seconds for timing in answered]
    span = max(t.ended for t in measured) - min(t.due for t in measured)
    rate = len(answered) / span if span > 0 else 0.0
    total = sum(seconds)
    cost = None
    if price_per_hour is not None and rate:
        cost = 1000 / rate / 3600 * price_per_hour
    return {
        "load": asdict(load),
        "name": load.name,
        "n": len(answered),
        "unanswered": len(measured) - len(answered),
        "timeouts": sum(timing.timeouts for timing in measured),
        "retries": sum(timing.retries for timing in measured),
        "seconds": span,
        "requests_per_second": rate,
        "latency": percentiles(seconds),
        "mean": total / len(seconds) if seconds else None,
        "parts": {name: _part(name, answered, total) for name in PARTS},
        "unaccounted_share": sum(t.unaccounted for t in answered) / total if total else 0.0,
        "batches": _batches(batches),
        "price_per_hour": price_per_hour,
        "cost_per_1000": cost,
    }


def _part(name: str, timings: Sequence[Timing], total: float) -> Figures:
    seconds = [timing.parts[name] for timing in timings]
    if not seconds or not total:
        return {"mean": None, "share": 0.0}
    levels = dict(zip(("p50", "p95", "p99"), np.quantile(seconds, [0.5, 0.95, 0.99]), strict=True))
    quantiles = {level: float(value) for level, value in levels.items()}
    return {"mean": sum(seconds) / len(seconds), **quantiles, "share": sum(seconds) / total}


def _batches(batches: Sequence[tuple[int, int]]) -> Figures | None:
    """Batches of the whole load, the warm-up among them; None where there is no batcher."""
    if not batches:
        return None
    requests, tokens = np.asarray(batches, dtype=np.float64).mean(axis=0)
    return {"count": len(batches), "requests": float(requests), "tokens": float(tokens)}

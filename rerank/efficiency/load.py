"""Load on a reranking service: closed loops and Poisson arrivals, every request timed in parts.

A closed loop has a number of clients that each send the next request when the last is answered. An
open loop sends at given times whatever the service does, and a request's latency counts from when
it was due, so that a service that falls behind cannot hide it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rerank.errors import ConfigError

# what a request's time is made of; `retried` is what attempts cost that gave no answer
PARTS = ("queue", "serialization", "network", "tokenization", "compute", "sort", "retried")
WARM_UP, REQUESTS = 200, 5_000


@dataclass(frozen=True)
class Load:
    """One load. Of concurrency (clients of a closed loop) and rate (requests/s), one is set.

    timeout: seconds after which a client gives an attempt up; retries: attempts after the first.
    """

    concurrency: int | None = None
    rate: float | None = None
    warm_up: int = WARM_UP
    requests: int = REQUESTS
    timeout: float | None = None
    retries: int = 0
    seed: int = 17

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate is None):
            raise ConfigError("a load has a concurrency or a rate, and not both")
        clients = 1 if self.concurrency is None else self.concurrency
        rate = 1.0 if self.rate is None else self.rate
        if clients < 1 or not 0 < rate < 1e9:
            raise ConfigError("concurrency must be at least 1, and a rate above 0")
        if self.warm_up < 0 or self.requests < 1 or self.retries < 0:
            raise ConfigError("warm-up and retries are from 0, requests from 1")

    @property
    def name(self) -> str:
        """`8 clients`, `12.5 requests/s`: for tables and progress."""
        if self.rate is not None:
            return f"{self.rate:g} requests/s"
        return f"{self.concurrency} client" + ("" if self.concurrency == 1 else "s")

    @property
    def total(self) -> int:
        return self.warm_up + self.requests


@dataclass
class Timing:
    """One request. due and ended by the loop's clock; parts: seconds by name; error: '' if none."""

    number: int
    due: float
    ended: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    timeouts: int = 0
    retries: int = 0
    error: str = ""

    @property
    def seconds(self) -> float:
        return self.ended - self.due

    @property
    def unaccounted(self) -> float:
        """Seconds that no part holds."""
        return self.seconds - sum(self.parts.values())


# (request's content, its timing, whose parts it adds to) -> when it is answered
Answer = Callable[[Any, Timing], Awaitable[None]]
Tell = Callable[[int, int], None]  # (requests done, all)


async def drive(answer: Answer, bodies: Sequence[Any], load: Load, tell: Tell) -> list[Timing]:
    """Timings of all requests, the warm-up among them, by number; bodies are sent in turn."""
    timings: list[Timing] = []

    async def one(number: int, due: float) -> None:
        timing = Timing(number, due)
        await _attempts(answer, bodies[number % len(bodies)], timing, load)
        timings.append(timing)
        tell(len(timings), load.total)

    await (_closed(one, load) if load.concurrency else _open(one, load))
    return sorted(timings, key=lambda timing: timing.number)


One = Callable[[int, float], Coroutine[Any, Any, None]]


async def _closed(one: One, load: Load) -> None:
    numbers = iter(range(load.total))
    loop = asyncio.get_running_loop()

    async def client() -> None:
        for number in numbers:
            await one(number, loop.time())

    async with asyncio.TaskGroup() as group:
        for _ in range(load.concurrency or 1):
            group.create_task(client())


async def _open(one: One, load: Load) -> None:
    loop = asyncio.get_running_loop()
    gaps = np.random.default_rng(load.seed).exponential(1 / (load.rate or 1.0), load.total)
    started = loop.time()
    async with asyncio.TaskGroup() as group:
        for number, due in enumerate((started + np.cumsum(gaps)).tolist()):
            await asyncio.sleep(due - loop.time())
            group.create_task(one(number, due))


async def _attempts(answer: Answer, body: Any, timing: Timing, load: Load) -> None:
    """Ask until there is an answer or no attempt is left; a model's own error is the request's."""
    loop = asyncio.get_running_loop()
    for attempt in range(load.retries + 1):
        timing.retries = attempt
        before, began = dict(timing.parts), loop.time()
        if attempt == 0:
            timing.parts["queue"] += began - timing.due
        try:
            async with asyncio.timeout(load.timeout):
                await answer(body, timing)
        except TimeoutError:
            lost = loop.time() - (timing.due if attempt == 0 else began)
            timing.parts = before | {"retried": before["retried"] + lost}
            timing.timeouts += 1
            timing.error = f"no answer within {load.timeout:g} seconds"
        else:
            timing.error = ""
            break
    timing.ended = loop.time()

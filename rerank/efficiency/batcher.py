"""A dynamic batcher: requests that wait together are computed together, within limits.

One coroutine owns the queue and hands one batch at a time to `compute`, so that the scorer behind
it belongs to one worker. Time is the event loop's: a loop that jumps from event to event simulates
hours of traffic in seconds, by the same code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rerank.errors import ConfigError


@dataclass(frozen=True)
class Policy:
    """When a batch starts: as soon as the worker is free and either limit is reached.

    max_batch_tokens: tokens that a batch takes in, whole requests at a time; a longer request is a
    batch by itself. max_wait: seconds that the oldest request waits for company.
    """

    max_batch_tokens: int
    max_wait: float

    def __post_init__(self) -> None:
        if self.max_batch_tokens < 1 or not 0 <= self.max_wait < 1e6:
            raise ConfigError(
                f"a batcher takes max_batch_tokens from 1 and a wait from 0, not "
                f"{self.max_batch_tokens} and {self.max_wait}"
            )


@dataclass(frozen=True)
class Computed:
    """What one request's part of a batch gave, and when the worker began and ended the batch."""

    value: Any
    began: float
    ended: float


@dataclass(frozen=True)
class Ticket:
    """A request in the queue; entered: when, by the loop's clock."""

    work: Any
    tokens: int
    entered: float
    answer: asyncio.Future[Computed]


Compute = Callable[[Sequence[Any]], Awaitable[Sequence[Computed]]]


class Batcher:
    """The queue and its worker. `run` is to be a task for as long as requests come.

    compute: work of the batch's requests -> one `Computed` each, in their order.
    batches: (requests, tokens) of every batch so far.
    """

    def __init__(self, policy: Policy, compute: Compute) -> None:
        self.policy = policy
        self.compute = compute
        self.queue: deque[Ticket] = deque()
        self.arrived = asyncio.Event()
        self.batches: list[tuple[int, int]] = []

    async def submit(self, work: Any, tokens: int) -> Computed:
        """The request's result. Cancelled while it waits, it never reaches the worker."""
        loop = asyncio.get_running_loop()
        ticket = Ticket(work, tokens, loop.time(), loop.create_future())
        self.queue.append(ticket)
        self.arrived.set()
        return await ticket.answer

    async def run(self) -> None:
        """Serve until cancelled. An error of `compute` is its requests' and ends no service."""
        while True:
            while not self._waiting():
                self.arrived.clear()
                await self.arrived.wait()
            await self._company()
            batch = self._take()
            if batch:
                await self._serve(batch)

    def _waiting(self) -> bool:
        """Does anyone wait? Requests that were given up leave the head of the queue."""
        while self.queue and self.queue[0].answer.done():
            self.queue.popleft()
        return bool(self.queue)

    async def _company(self) -> None:
        """Wait until the batch is full or its oldest request has waited long enough."""
        deadline = self.queue[0].entered + self.policy.max_wait
        loop = asyncio.get_running_loop()
        while self._tokens() < self.policy.max_batch_tokens and loop.time() < deadline:
            self.arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self.arrived.wait()
            except TimeoutError:
                return

    def _tokens(self) -> int:
        return sum(ticket.tokens for ticket in self.queue if not ticket.answer.done())

    def _take(self) -> list[Ticket]:
        """The oldest requests that fit together, at least one."""
        batch: list[Ticket] = []
        tokens = 0
        while self._waiting():
            if batch and tokens + self.queue[0].tokens > self.policy.max_batch_tokens:
                break
            batch.append(self.queue.popleft())
            tokens += batch[-1].tokens
        return batch

    async def _serve(self, batch: Sequence[Ticket]) -> None:
        self.batches.append((len(batch), sum(ticket.tokens for ticket in batch)))
        try:
            found = await self.compute([ticket.work for ticket in batch])
        except Exception as error:
            # the requests' own error, which each of them raises where it is awaited
            for ticket in batch:
                if not ticket.answer.done():
                    ticket.answer.set_exception(error)
            return
        for ticket, computed in zip(batch, found, strict=True):
            if not ticket.answer.done():
                ticket.answer.set_result(computed)

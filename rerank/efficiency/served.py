"""Latency of a served reranker: requests to somebody's server, its network and rate limit included.

What such a server computes with, and for whom else, cannot be seen from here: these figures never
stand beside pure compute without saying so.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import httpx2
import numpy as np

from rerank.efficiency.load import Timing
from rerank.models.http import ServedReranker, client_of
from rerank.models.http_client import Answered, Client, Refused
from rerank.models.http_params import settings_of
from rerank.records import ModelSpec, QueryGroup


@dataclass
class Trace:
    """One posted request. Monotonic seconds: when it began, was first and last sent, and ended."""

    began: float
    first: float = 0.0
    last: float = 0.0
    ended: float = 0.0
    tries: int = 0
    timeouts: int = 0


class TracedClient(Client):
    """A client that notes when each request went out. One thread posts a request from begin to end,
    so a thread's latest trace is that of its latest request."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.here = threading.local()

    def post(self, body: bytes, label: str, stop: threading.Event) -> Answered | Refused:
        self.here.trace = trace = Trace(time.monotonic())
        try:
            return super().post(body, label, stop)
        finally:
            trace.ended = time.monotonic()

    def _exchange(self, body: bytes) -> tuple[int, httpx2.Headers, bytes]:
        trace: Trace = self.here.trace
        trace.tries += 1
        trace.last = time.monotonic()
        trace.first = trace.first or trace.last
        try:
            return super()._exchange(body)
        except httpx2.TimeoutException:
            trace.timeouts += 1
            raise


@dataclass
class Recorded:
    """A client as one request sees it: its posts and their traces alone."""

    client: TracedClient
    traces: list[Trace] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.client.url

    def said(self, text: str) -> str:
        return self.client.said(text)

    def post(self, body: bytes, label: str, stop: threading.Event) -> Answered | Refused:
        try:
            return self.client.post(body, label, stop)
        finally:
            self.traces.append(self.client.here.trace)


class Served:
    """The service behind a url. All requests share one client, its rate limit and connections."""

    def __init__(self, spec: ModelSpec, clients: int) -> None:
        self.params = settings_of(spec)
        self.client = client_of(self.params, TracedClient)
        self.pool = ThreadPoolExecutor(clients, "client")

    async def __aenter__(self) -> Served:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)

    async def answer(self, group: QueryGroup, timing: Timing) -> None:
        """Ask, and add what it took to the timing's parts."""
        loop = asyncio.get_running_loop()
        entered = loop.time()
        began, ended = await loop.run_in_executor(self.pool, lambda: self._ask(group, timing))
        timing.parts["queue"] += (began - entered) + (loop.time() - ended)

    def _ask(self, group: QueryGroup, timing: Timing) -> tuple[float, float]:
        """(began, ended) of one request, in a thread of the pool.

        Of a list that is sent in several bodies the slowest one counts.
        """
        client = Recorded(self.client)
        scorer = ServedReranker(self.params, cast(Client, client))
        lap = _Laps()
        items = scorer.encode([group])
        timing.parts["serialization"] += lap()
        found = scorer.forward(items)
        spent = lap()
        slowest = max(client.traces, key=lambda trace: trace.ended - trace.began)
        queue, retried = slowest.first - slowest.began, slowest.last - slowest.first
        timing.parts["queue"] += queue
        timing.parts["retried"] += retried
        timing.parts["network"] += spent - queue - retried
        timing.retries += sum(trace.tries - 1 for trace in client.traces)
        timing.timeouts += sum(trace.timeouts for trace in client.traces)
        outputs = [None if isinstance(row, str) else row for row in found]
        failures = [row if isinstance(row, str) else None for row in found]
        (result,) = scorer.combine([group], items, outputs, failures)
        np.argsort(-result.scores, kind="stable")
        timing.parts["sort"] += lap()
        return lap.began, lap.at


class _Laps:
    """Seconds since the last call, or since it was made."""

    def __init__(self) -> None:
        self.began = self.at = time.monotonic()

    def __call__(self) -> float:
        before, self.at = self.at, time.monotonic()
        return self.at - before

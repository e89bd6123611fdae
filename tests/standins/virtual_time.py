"""An event loop whose time jumps to the next event, and services of known service time on it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Sequence
from typing import Any

from rerank.efficiency.batcher import Batcher, Computed, Policy
from rerank.efficiency.load import Timing


class Jumping(selectors.SelectSelector):
    """Never waits: what would be waited is added to `now`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is scheduled, so this loop would wait for ever"
            self.now += max(timeout, 0.0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop over simulated seconds."""

    def __init__(self) -> None:
        self.jumping = Jumping()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


class KnownService:
    """A request is a dict: the seconds of its parts, and its tokens. A batch takes `service`
    seconds, and `each` more for every request in it. `block` holds the whole loop up for as long,
    as code does that never awaits; it counts as sorting."""

    def __init__(self, policy: Policy, service: float, each: float = 0.0) -> None:
        self.service = service
        self.each = each
        self.batcher = Batcher(policy, self._compute)
        self.serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> KnownService:
        self.serving = asyncio.create_task(self.batcher.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.serving is not None
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)

    async def answer(self, body: dict[str, float], timing: Timing) -> None:
        loop = asyncio.get_running_loop()
        for part in ("serialization", "tokenization"):
            await asyncio.sleep(body.get(part, 0.0))
            timing.parts[part] += body.get(part, 0.0)
        entered = loop.time()
        computed = await self.batcher.submit(body, int(body.get("tokens", 1)))
        timing.parts["queue"] += computed.began - entered
        timing.parts["compute"] += computed.ended - computed.began
        await asyncio.sleep(body.get("sort", 0.0))
        assert isinstance(loop, VirtualTimeLoop)
        loop.jumping.now += body.get("block", 0.0)
        timing.parts["sort"] += body.get("sort", 0.0) + body.get("block", 0.0)

    async def _compute(self, batch: Sequence[dict[str, float]]) -> list[Computed]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(self.service + self.each * len(batch))
        return [Computed(None, began, loop.time()) for _ in batch]

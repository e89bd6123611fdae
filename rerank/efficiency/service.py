"""A reranking service in this process: a request is one query with its candidates, as JSON.

One thread tokenises, one owns the model, and the event loop reads, sorts and writes. What a request
waits for any of them is its queue.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from rerank.batching import plan_batches
from rerank.efficiency.batcher import Batcher, Computed, Policy
from rerank.efficiency.load import Timing
from rerank.errors import ScoringError
from rerank.probing import is_out_of_memory, release_memory
from rerank.records import Advancing, Item, QueryGroup, Scorer
from rerank.scoring import OUT_OF_MEMORY, check_finite, checked_rows, length_of, split_outputs

Found = np.ndarray | str  # a row of a model's output, or why there is none
Result = TypeVar("Result")


@dataclass(frozen=True)
class Work:
    """A tokenised request."""

    group: QueryGroup
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Done:
    """All items of a request, those of later rounds among them, with their outputs."""

    items: tuple[Item, ...]
    found: tuple[Found, ...]


def body_of(group: QueryGroup) -> bytes:
    """The request for a group, as a client sends it."""
    documents = [
        {"id": name, "text": text}
        for name, text in zip(group.doc_ids, group.documents, strict=True)
    ]
    return json.dumps({"query": group.query, "documents": documents}).encode()


def group_of(body: bytes) -> QueryGroup:
    """The query and candidates of a request's body."""
    asked = json.loads(body)
    documents = asked["documents"]
    return QueryGroup(
        query_id="request",
        query=asked["query"],
        doc_ids=tuple(document["id"] for document in documents),
        documents=tuple(document["text"] for document in documents),
        ranks=tuple(range(1, len(documents) + 1)),
    )


class InProcess:
    """The service around one scorer. Use it as an async context manager, in one event loop."""

    def __init__(self, scorer: Scorer, policy: Policy) -> None:
        self.scorer = scorer
        self.policy = policy
        self.tokeniser = ThreadPoolExecutor(1, "tokeniser")  # tokenizers are not to be shared
        self.worker = ThreadPoolExecutor(1, "scorer")
        self.batcher = Batcher(policy, self._compute)
        self.serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> InProcess:
        self.serving = asyncio.create_task(self.batcher.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.serving is not None:
            self.serving.cancel()
            await asyncio.gather(self.serving, return_exceptions=True)
        self.tokeniser.shutdown(wait=True, cancel_futures=True)
        self.worker.shutdown(wait=True, cancel_futures=True)

    async def answer(self, body: bytes, timing: Timing) -> None:
        """Answer a request, and add what it took to its timing's parts."""
        watch = _Watch(timing, asyncio.get_running_loop().time)
        group = group_of(body)
        watch.lap("serialization")
        items, began, ended = await self._in(self.tokeniser, lambda: self.scorer.encode([group]))
        watch.until("queue", began)
        watch.until("tokenization", ended)
        work = Work(group, tuple(items))
        computed = await self.batcher.submit(work, sum(item.tokens for item in items))
        watch.until("queue", computed.began)
        watch.until("compute", computed.ended)
        watch.lap("queue")
        ranked = ranking(self.scorer, group, computed.value)
        watch.lap("sort")
        json.dumps({"results": ranked}).encode()
        watch.lap("serialization")

    async def _compute(self, batch: Sequence[Work]) -> list[Computed]:
        done, began, ended = await self._in(
            self.worker, lambda: forwarded(self.scorer, batch, self.policy.max_batch_tokens)
        )
        return [Computed(one, began, ended) for one in done]

    async def _in(
        self, pool: ThreadPoolExecutor, call: Callable[[], Result]
    ) -> tuple[Result, float, float]:
        """(result, when it began, when it ended) of a call in another thread."""

        def timed() -> tuple[Result, float, float]:
            began = time.monotonic()
            return call(), began, time.monotonic()

        return await asyncio.get_running_loop().run_in_executor(pool, timed)


class _Watch:
    """Lays a request's time out in parts, one after the other and without a gap."""

    def __init__(self, timing: Timing, now: Callable[[], float]) -> None:
        self.timing = timing
        self.now = now
        self.at = now()

    def until(self, part: str, moment: float) -> None:
        self.timing.parts[part] += moment - self.at
        self.at = moment

    def lap(self, part: str) -> None:
        self.until(part, self.now())


def forwarded(scorer: Scorer, batch: Sequence[Work], budget: int) -> list[Done]:
    """Every request's outputs; requests share their forwards, round by round.

    What a query's inputs begin with is its own: a share is known by the request as well.
    """
    rounds = [list(_own(number, work.items)) for number, work in enumerate(batch)]
    items: list[list[Item]] = [[] for _ in batch]
    found: list[list[Found]] = [[] for _ in batch]
    while any(rounds):
        flat = [(number, item) for number, part in enumerate(rounds) for item in part]
        for (number, item), output in zip(
            flat, _outputs(scorer, [item for _, item in flat], budget), strict=True
        ):
            items[number].append(item)
            found[number].append(output)
        if not isinstance(scorer, Advancing):
            break
        rounds = [
            _next_round(scorer, number, work, items[number], found[number])
            if rounds[number]
            else []
            for number, work in enumerate(batch)
        ]
    return [Done(tuple(one), tuple(other)) for one, other in zip(items, found, strict=True)]


def _own(number: int, items: Sequence[Item]) -> Sequence[Item]:
    return [
        item if item.share is None else replace(item, share=(number, item.share)) for item in items
    ]


def _next_round(
    scorer: Advancing, number: int, work: Work, items: Sequence[Item], found: Sequence[Found]
) -> list[Item]:
    outputs, failures = split_outputs(found)
    return list(_own(number, scorer.advance([work.group], items, outputs, failures)))


def _outputs(scorer: Scorer, items: Sequence[Item], budget: int) -> list[Found]:
    """One output an item, in their order, forwarded in batches within the budget."""
    found: list[Found] = [item.failure or "" for item in items]
    wanted = [at for at, item in enumerate(items) if item.failure is None]
    for planned in plan_batches([length_of(items[at]) for at in wanted], budget):
        batch = [wanted[place] for place in planned]
        for at, output in zip(batch, _forward(scorer, [items[at] for at in batch]), strict=True):
            found[at] = output
    return found


def _forward(scorer: Scorer, items: Sequence[Item]) -> list[Found]:
    """The outputs of a batch, in halves where memory runs out."""
    try:
        rows = checked_rows(scorer.forward(items), items)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        error.__traceback__ = None
    else:
        for item, row in zip(items, rows, strict=True):
            check_finite(item, row)
        return rows
    release_memory()
    if len(items) == 1:
        return [OUT_OF_MEMORY]
    middle = len(items) // 2
    return _forward(scorer, items[:middle]) + _forward(scorer, items[middle:])


def ranking(scorer: Scorer, group: QueryGroup, done: Done) -> list[dict[str, Any]]:
    """The candidates with their scores, best first; equal ones in stage-1 order, failed ones last.

    ScoringError: the scorer gave no score, and no reason, for a candidate.
    """
    (result,) = scorer.combine([group], done.items, *split_outputs(done.found))
    if len(result.scores) != len(group):
        raise ScoringError(f"{len(result.scores)} scores for {len(group)} candidates")
    order = np.argsort(-result.scores, kind="stable").tolist()  # NaN goes last
    scores = result.scores.tolist()
    return [
        {"id": group.doc_ids[at], "score": None if result.failures[at] else scores[at]}
        for at in order
    ]

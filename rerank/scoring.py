"""The loop that every model is scored by: encode, plan, forward, survive memory, restore order.

The loop owns what must never differ between models: which inputs go together (a token budget), what
happens when they do not fit (the same batch in halves), what is refused (a score that is not
finite), and that each candidate gets exactly one score, at its place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from rerank.batching import Length, Shape, plan_batches
from rerank.errors import ScoringError
from rerank.fingerprint import fingerprint
from rerank.probing import is_out_of_memory, release_memory
from rerank.records import Advancing, GroupScores, Item, QueryGroup, Rows, Scorer, Segmented

SCORING_VERSION = 1  # part of every run's identity: raise it when scoring code changes meaning

OUT_OF_MEMORY = "out of memory at batch size 1"
PROCESS_DIED = "the process died on this input"

Output = np.ndarray | str  # one row of a model's output, or why there is none


class Journal(Protocol):
    """What is known of earlier attempts at the same groups, for surviving the process's death.

    Items are known by `item_keys`: the same input under the same recipe has the same key in every
    attempt. Every slice that is forwarded, a whole batch, half of one or a single input, is
    announced with `begin` and closed with `finish`.
    """

    def recall(self, batch: tuple[str, ...]) -> list[np.ndarray | str | None] | None:
        """Outputs that an earlier attempt finished for exactly these items, or None."""
        ...

    def suspects(self, batch: tuple[str, ...]) -> bool:
        """Did a process die while it forwarded these items together?"""
        ...

    def doomed(self, item: str) -> bool:
        """Did a process die while it forwarded this item alone?"""
        ...

    def begin(self, items: tuple[str, ...]) -> None:
        """Note, durably, that these items are about to be forwarded."""
        ...

    def finish(self, batch: tuple[str, ...], outputs: Sequence[np.ndarray | str | None]) -> None:
        """Note what these items gave."""
        ...


class NoJournal:
    """The journal of a process that does not expect to die: it knows and keeps nothing."""

    def recall(self, batch: tuple[str, ...]) -> list[np.ndarray | str | None] | None:
        return None

    def suspects(self, batch: tuple[str, ...]) -> bool:
        return False

    def doomed(self, item: str) -> bool:
        return False

    def begin(self, items: tuple[str, ...]) -> None:
        return None

    def finish(self, batch: tuple[str, ...], outputs: Sequence[np.ndarray | str | None]) -> None:
        return None


def item_keys(scorer: Scorer, items: Sequence[Item]) -> list[str]:
    """A key for each item: of the recipe, and of the input itself, not of its place.

    A later round's inputs depend on what earlier ones gave, so a place would name another input in
    another attempt; and what another server or tokenizer answered is another answer.
    """
    recipe = fingerprint(json.dumps(scorer.describe(), sort_keys=True, default=str))
    return [fingerprint([recipe, item.label, repr(item.payload)]) for item in items]


@dataclass(frozen=True)
class BatchPlan:
    """Which items are forwarded together: a function of their lengths and the budget alone.

    budget: tokens of one batch, padding included; batches: numbers of items, longest first.
    """

    budget: int
    batches: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(items: Sequence[Item], budget: int) -> BatchPlan:
        """The plan for all items that their adapter did not refuse."""
        wanted = [number for number, item in enumerate(items) if item.failure is None]
        batches = plan_batches([length_of(items[number]) for number in wanted], budget)
        return BatchPlan(budget, tuple(tuple(wanted[at] for at in batch) for batch in batches))


def length_of(item: Item) -> Length:
    """What the batch plan knows of an item."""
    return Length(item.tokens, item.share, item.shared_tokens)


@dataclass(frozen=True)
class ScoringReport:
    """What one call of `score_groups` did. Counts, tokens and seconds; circumstance, not identity.

    Tokens and batches are those that this process forwarded: halved batches as their halves, what
    a journal recalled not at all. The plan is what was meant to be forwarded.

    pairs: candidates; items: distinct model inputs; tokens: what was forwarded, without padding;
    padded_tokens: the same with padding; reused_tokens: tokens of shared beginnings that were not
    forwarded again; oom_halvings: batches that had to be split in two; counts: the adapter's own;
    plan: [rows, padded length, shared beginnings, their padded length] of each batch, in order.
    """

    pairs: int
    items: int
    tokens: int
    padded_tokens: int
    reused_tokens: int
    batches: int
    oom_halvings: int
    seconds_encode: float  # waiting for the tokeniser; what ran beside the forwards is not in it
    seconds_forward: float
    counts: dict[str, int]
    plan: list[list[int]]

    @property
    def padding_share(self) -> float:
        """Share of the forwarded tokens that was padding, in [0, 1]."""
        return 1.0 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0


class _Forwarding:
    """Forwards batches and keeps each item's output. Lives for one `score_groups`."""

    def __init__(self, scorer: Scorer, token_budget: int, journal: Journal) -> None:
        self.scorer = scorer
        self.token_budget = token_budget
        self.journal = journal
        self.items: list[Item] = []
        self.keys: list[str] = []
        self.found: list[Output] = []
        self.planned: list[Shape] = []
        self.forwarded: list[Shape] = []
        self.tokens = self.reused = self.halvings = 0

    def run(self, items: Sequence[Item]) -> None:
        """Forward these items; `found` has the output, or the failure, of each afterwards."""
        base = len(self.items)
        self.items += items
        unasked = isinstance(self.journal, NoJournal)  # whose answers need no keys
        self.keys += [""] * len(items) if unasked else item_keys(self.scorer, items)
        self.found += [item.failure or "" for item in items]
        for planned in BatchPlan.of(items, self.token_budget).batches:
            batch = tuple(base + number for number in planned)
            self.planned.append(Shape.of(self._lengths(batch)))
            for number, output in zip(batch, self.outputs(batch), strict=True):
                self.found[number] = output

    def forget(self, base: int) -> None:
        """Let go of the inputs and outputs from number `base` on: their segment is combined."""
        self.items[base:] = [replace(item, payload=None) for item in self.items[base:]]
        self.found[base:] = [""] * (len(self.found) - base)

    def outputs(self, batch: tuple[int, ...]) -> list[Output]:
        """Outputs of a batch, remembered or new; ScoringError where one is not finite."""
        found = self._known(batch) or self._forward(batch)
        for number, output in zip(batch, found, strict=True):
            check_finite(self.items[number], output)
        return found

    def _lengths(self, batch: tuple[int, ...]) -> list[Length]:
        return [length_of(self.items[number]) for number in batch]

    def _names(self, batch: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.keys[number] for number in batch)

    def _known(self, batch: tuple[int, ...]) -> list[Output] | None:
        found = self.journal.recall(self._names(batch))
        if found is None:
            return None
        return [OUT_OF_MEMORY if output is None else output for output in found]

    def _forward(self, batch: tuple[int, ...]) -> list[Output]:
        if len(batch) == 1 and self.journal.doomed(self.keys[batch[0]]):
            return [PROCESS_DIED]
        if len(batch) > 1 and self._deadly(batch):
            found = self._in_parts([(number,) for number in batch])
        else:
            self.journal.begin(self._names(batch))
            rows = self._attempt(batch)
            found = self._halves(batch) if rows is None else list(rows)
        self.journal.finish(self._names(batch), found)
        return found

    def _deadly(self, batch: tuple[int, ...]) -> bool:
        names = self._names(batch)
        return self.journal.suspects(names) or any(map(self.journal.doomed, names))

    def _halves(self, batch: tuple[int, ...]) -> list[Output]:
        if len(batch) == 1:
            return [OUT_OF_MEMORY]
        self.halvings += 1
        middle = len(batch) // 2
        return self._in_parts([batch[:middle], batch[middle:]])

    def _in_parts(self, parts: Sequence[tuple[int, ...]]) -> list[Output]:
        return [output for part in parts for output in self._known(part) or self._forward(part)]

    def _attempt(self, batch: tuple[int, ...]) -> list[Output] | None:
        """Output rows, or None where the batch does not fit into memory.

        The traceback pins every tensor of the failed forward, so it is dropped, and the except
        block left, before memory is handed back.
        """
        inputs = [self.items[number] for number in batch]
        try:
            rows = checked_rows(self.scorer.forward(inputs), inputs)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            error.__traceback__ = None
        else:
            self._count(self._lengths(batch))
            return rows
        release_memory()
        return None

    def _count(self, lengths: Sequence[Length]) -> None:
        self.forwarded.append(Shape.of(lengths))
        reused = reused_tokens(lengths)
        self.reused += reused
        self.tokens += sum(length.tokens for length in lengths) - reused


def score_groups(
    scorer: Scorer,
    groups: Sequence[QueryGroup],
    token_budget: int,
    *,
    journal: Journal | None = None,
) -> tuple[list[GroupScores], ScoringReport]:
    """Score every candidate of every group, batches across groups, results in their order.

    token_budget: tokens of one batch, padding included. journal: what to survive a death with;
    without one nothing is remembered, and the batches are the same. A group without candidates
    gets empty arrays and the model never sees its query. An input that the adapter refuses, or
    that does not fit alone, has NaN and a reason in `failures`.
    ScoringError: an output that is not finite (it names the input), has a wrong shape or type.
    """
    started = time.perf_counter()
    filled = [group for group in groups if len(group)]
    forwarding = _Forwarding(scorer, token_budget, journal or NoJournal())
    results: list[GroupScores] = []
    waited = 0.0
    for segment, items, seconds in encoded(scorer, segments(scorer, filled)):
        waited += seconds
        base = len(forwarding.items)
        results += _score_segment(forwarding, segment, items)
        forwarding.forget(base)
    seconds_forward = time.perf_counter() - started - waited
    report = _report(forwarding, results, waited, seconds_forward)
    scored = iter(results)
    return [next(scored) if len(group) else _no_scores() for group in groups], report


def segments(scorer: Scorer, groups: Sequence[QueryGroup]) -> list[list[QueryGroup]]:
    """Whole queries that are encoded together: all at once, unless the scorer is `Segmented`."""
    if not isinstance(scorer, Segmented):
        return [list(groups)] if groups else []
    parts: list[list[QueryGroup]] = []
    pairs = 0
    for group in groups:
        if not parts or pairs + len(group) > scorer.segment_pairs:
            parts.append([])
            pairs = 0
        parts[-1].append(group)
        pairs += len(group)
    return parts


def encoded(
    scorer: Scorer, parts: Sequence[list[QueryGroup]]
) -> Iterator[tuple[list[QueryGroup], list[Item], float]]:
    """(groups, their items, seconds waited for them); the next part is encoded meanwhile."""
    with ThreadPoolExecutor(max_workers=1) as tokeniser:
        upcoming = [tokeniser.submit(scorer.encode, part) for part in parts[:1]]
        for number, part in enumerate(parts):
            started = time.perf_counter()
            items = upcoming.pop().result()
            waited = time.perf_counter() - started
            upcoming = [tokeniser.submit(scorer.encode, after) for after in parts[number + 1 :][:1]]
            yield part, items, waited


def _score_segment(
    forwarding: _Forwarding, groups: Sequence[QueryGroup], items: Sequence[Item]
) -> list[GroupScores]:
    scorer, base = forwarding.scorer, len(forwarding.items)
    while items:
        forwarding.run(items)
        if not isinstance(scorer, Advancing):
            break
        items = scorer.advance(groups, *_outputs(forwarding, base))
    results = scorer.combine(groups, *_outputs(forwarding, base))
    check_results(groups, results)
    return results


def _outputs(
    forwarding: _Forwarding, base: int
) -> tuple[list[Item], list[np.ndarray | None], list[str | None]]:
    """Items from number `base` on with the output of each, or the reason why there is none."""
    return forwarding.items[base:], *split_outputs(forwarding.found[base:])


def split_outputs(
    found: Sequence[Output],
) -> tuple[list[np.ndarray | None], list[str | None]]:
    """Output rows, None where there is none; and the reasons why, None where there is one."""
    outputs = [None if isinstance(output, str) else output for output in found]
    failures = [output if isinstance(output, str) else None for output in found]
    return outputs, failures


def _report(
    forwarding: _Forwarding,
    results: Sequence[GroupScores],
    seconds_encode: float,
    seconds_forward: float,
) -> ScoringReport:
    counts: dict[str, int] = {}
    for result in results:
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
    return ScoringReport(
        pairs=sum(len(result.scores) for result in results),
        items=len(forwarding.items),
        tokens=forwarding.tokens,
        padded_tokens=sum(shape.tokens for shape in forwarding.forwarded),
        reused_tokens=forwarding.reused,
        batches=len(forwarding.forwarded),
        oom_halvings=forwarding.halvings,
        seconds_encode=seconds_encode,
        seconds_forward=seconds_forward,
        counts=counts,
        plan=[[s.rows, s.length, s.beginnings, s.beginning_length] for s in forwarding.planned],
    )


def reused_tokens(batch: Sequence[Length]) -> int:
    """Tokens of shared beginnings that all but the first input of each share take over."""
    first = {length.share: length.shared for length in batch if length.share is not None}
    return sum(length.shared for length in batch) - sum(first.values())


def _no_scores() -> GroupScores:
    return GroupScores(
        np.empty(0, dtype=np.float64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.bool_), ()
    )


def checked_rows(rows: Rows, items: Sequence[Item]) -> list[Output]:
    """One float32 row or reason an input; ScoringError names the first input if not."""
    shapes = [np.shape(row) for row in rows]
    wrong = [row for row in rows if not isinstance(row, str) and not _is_row(row)]
    if len(rows) != len(items) or wrong:
        dtypes = {str(getattr(row, "dtype", type(row).__name__)) for row in rows}
        raise ScoringError(
            f"the model gave {len(rows)} outputs ({', '.join(sorted(dtypes))}; shapes "
            f"{shapes[:3]}) for {len(items)} inputs from {items[0].label} on; its adapter must "
            "give one float32 row an input"
        )
    return list(rows)


def _is_row(row: object) -> bool:
    return isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype == np.float32


def check_finite(item: Item, output: Output) -> None:
    """ScoringError that names the input where an output holds NaN or infinity."""
    if not isinstance(output, str) and not np.isfinite(output).all():
        raise ScoringError(
            f"the score of {item.label} is not finite; half precision may overflow: "
            "try dtype=float32, and check the model's weights"
        )


def check_results(groups: Sequence[QueryGroup], results: Sequence[GroupScores]) -> None:
    """ScoringError unless each group has exactly one score, length, flag and failure a document."""
    if len(results) != len(groups):
        raise ScoringError(f"the adapter combined {len(results)} groups, {len(groups)} were given")
    for group, result in zip(groups, results, strict=True):
        columns = (result.scores, result.tokens, result.truncated, result.failures)
        if any(len(column) != len(group) for column in columns):
            raise ScoringError(
                f"query '{group.query_id}': {len(result.scores)} scores for {len(group)} documents"
            )

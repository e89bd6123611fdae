"""The loop that every model is scored by: encode, plan, forward, survive memory, restore order.

The loop owns what must never differ between models: which inputs go together (a token budget), what
happens when they do not fit (the same batch in halves), what is refused (a score that is not
finite), and that each candidate gets exactly one score, at its place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rerank.batching import padded_length, padded_tokens, plan_batches
from rerank.errors import ScoringError
from rerank.probing import is_out_of_memory, release_memory
from rerank.records import GroupScores, Item, QueryGroup, Scorer

SCORING_VERSION = 1  # part of every run's identity: raise it when scoring code changes meaning

OUT_OF_MEMORY = "out of memory at batch size 1"
PROCESS_DIED = "the process died on this input"

Output = np.ndarray | str  # one row of a model's output, or why there is none


class Journal(Protocol):
    """What is known of earlier attempts at the same groups, for surviving the process's death.

    Items are numbers of the list that `encode` returns. Every slice that is forwarded, a whole
    batch, half of one or a single input, is announced with `begin` and closed with `finish`.
    """

    def recall(self, batch: tuple[int, ...]) -> list[np.ndarray | str | None] | None:
        """Outputs that an earlier attempt finished for exactly these items, or None."""
        ...

    def suspects(self, batch: tuple[int, ...]) -> bool:
        """Did a process die while it forwarded these items together?"""
        ...

    def doomed(self, item: int) -> bool:
        """Did a process die while it forwarded this item alone?"""
        ...

    def begin(self, items: tuple[int, ...]) -> None:
        """Note, durably, that these items are about to be forwarded."""
        ...

    def finish(self, batch: tuple[int, ...], outputs: Sequence[np.ndarray | str | None]) -> None:
        """Note what these items gave."""
        ...


class NoJournal:
    """The journal of a process that does not expect to die: it knows and keeps nothing."""

    def recall(self, batch: tuple[int, ...]) -> list[np.ndarray | str | None] | None:
        return None

    def suspects(self, batch: tuple[int, ...]) -> bool:
        return False

    def doomed(self, item: int) -> bool:
        return False

    def begin(self, items: tuple[int, ...]) -> None:
        return None

    def finish(self, batch: tuple[int, ...], outputs: Sequence[np.ndarray | str | None]) -> None:
        return None


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
        batches = plan_batches([items[number].tokens for number in wanted], budget)
        return BatchPlan(budget, tuple(tuple(wanted[at] for at in batch) for batch in batches))


@dataclass(frozen=True)
class ScoringReport:
    """What one call of `score_groups` did. Counts, tokens and seconds; circumstance, not identity.

    pairs: candidates; items: distinct model inputs; tokens: their lengths, without padding;
    padded_tokens: the same with padding; oom_halvings: batches that had to be split in two;
    plan: [rows, padded length] of each batch, in the order of forwarding.
    """

    pairs: int
    items: int
    tokens: int
    padded_tokens: int
    batches: int
    oom_halvings: int
    seconds_encode: float
    seconds_forward: float
    plan: list[list[int]]

    @property
    def padding_share(self) -> float:
        """Share of the forwarded tokens that was padding, in [0, 1]."""
        return 1.0 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0


class _Forwarding:
    """One pass over a plan: outputs by item, halvings counted. Lives for one `score_groups`."""

    def __init__(self, scorer: Scorer, items: Sequence[Item], journal: Journal) -> None:
        self.scorer = scorer
        self.items = items
        self.journal = journal
        self.halvings = 0

    def outputs(self, batch: tuple[int, ...]) -> list[Output]:
        """Outputs of a batch, remembered or new; ScoringError where one is not finite."""
        found = self._known(batch) or self._forward(batch)
        for number, output in zip(batch, found, strict=True):
            check_finite(self.items[number], output)
        return found

    def _known(self, batch: tuple[int, ...]) -> list[Output] | None:
        found = self.journal.recall(batch)
        if found is None:
            return None
        return [OUT_OF_MEMORY if output is None else output for output in found]

    def _forward(self, batch: tuple[int, ...]) -> list[Output]:
        if len(batch) == 1 and self.journal.doomed(batch[0]):
            return [PROCESS_DIED]
        if len(batch) > 1 and self._deadly(batch):
            found = self._in_parts([(number,) for number in batch])
        else:
            self.journal.begin(batch)
            rows = self._attempt(batch)
            found = self._halves(batch) if rows is None else list(rows)
        self.journal.finish(batch, found)
        return found

    def _deadly(self, batch: tuple[int, ...]) -> bool:
        return self.journal.suspects(batch) or any(map(self.journal.doomed, batch))

    def _halves(self, batch: tuple[int, ...]) -> list[Output]:
        if len(batch) == 1:
            return [OUT_OF_MEMORY]
        self.halvings += 1
        middle = len(batch) // 2
        return self._in_parts([batch[:middle], batch[middle:]])

    def _in_parts(self, parts: Sequence[tuple[int, ...]]) -> list[Output]:
        return [output for part in parts for output in self._known(part) or self._forward(part)]

    def _attempt(self, batch: tuple[int, ...]) -> np.ndarray | None:
        """Output rows, or None where the batch does not fit into memory.

        The traceback pins every tensor of the failed forward, so it is dropped, and the except
        block left, before memory is handed back.
        """
        inputs = [self.items[number] for number in batch]
        try:
            return checked_rows(self.scorer.forward(inputs), inputs)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            error.__traceback__ = None
        release_memory()
        return None


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
    items = scorer.encode(filled) if filled else []
    plan = BatchPlan.of(items, token_budget)
    encoded = time.perf_counter()
    forwarding = _Forwarding(scorer, items, journal or NoJournal())
    found: dict[int, Output] = {}
    for batch in plan.batches:
        found.update(zip(batch, forwarding.outputs(batch), strict=True))
    forwarded = time.perf_counter()
    results = iter(_combine(scorer, filled, items, found))
    report = _report(
        filled, items, plan, forwarding.halvings, encoded - started, forwarded - encoded
    )
    return [next(results) if len(group) else _no_scores() for group in groups], report


def _combine(
    scorer: Scorer, groups: Sequence[QueryGroup], items: Sequence[Item], found: dict[int, Output]
) -> list[GroupScores]:
    if not groups:
        return []
    outputs: list[np.ndarray | None] = []
    failures: list[str | None] = []
    for number, item in enumerate(items):
        output = found.get(number, item.failure)
        outputs.append(None if isinstance(output, str) else output)
        failures.append(output if isinstance(output, str) else None)
    results = scorer.combine(groups, items, outputs, failures)
    check_results(groups, results)
    return results


def _report(
    groups: Sequence[QueryGroup],
    items: Sequence[Item],
    plan: BatchPlan,
    halvings: int,
    seconds_encode: float,
    seconds_forward: float,
) -> ScoringReport:
    lengths = [item.tokens for item in items]
    return ScoringReport(
        pairs=sum(map(len, groups)),
        items=len(items),
        tokens=sum(lengths[number] for batch in plan.batches for number in batch),
        padded_tokens=padded_tokens(lengths, plan.batches),
        batches=len(plan.batches),
        oom_halvings=halvings,
        seconds_encode=seconds_encode,
        seconds_forward=seconds_forward,
        plan=[[len(batch), padded_length(lengths[batch[0]])] for batch in plan.batches],
    )


def _no_scores() -> GroupScores:
    return GroupScores(
        np.empty(0, dtype=np.float64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.bool_), ()
    )


def checked_rows(rows: np.ndarray, items: Sequence[Item]) -> np.ndarray:
    """`rows` if it is (n_items, width) float32; ScoringError names the first input if not."""
    if rows.ndim != 2 or len(rows) != len(items) or rows.dtype != np.float32:
        raise ScoringError(
            f"the model gave {rows.dtype} outputs of shape {rows.shape} for {len(items)} inputs "
            f"from {items[0].label} on; its adapter must give one float32 row an input"
        )
    return rows


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

"""Pairs per second by the published protocol: batch sizes doubled until memory runs out.

At each batch size the sample is repeated to a multiple of it and sorted longest first; one pass
warms up and three are timed. Forward calls alone are timed: no tokenising, no sorting. The value of
a batch size is pairs / summed forward time, and the fastest one's is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rerank.batching import Shape
from rerank.efficiency.clocks import ForwardClock
from rerank.efficiency.flops import Cost
from rerank.errors import ScoringError
from rerank.models.pointwise import PairInput
from rerank.probing import Memory, is_out_of_memory, release_memory
from rerank.records import Advancing, Costly, Item, QueryGroup, Scorer
from rerank.scoring import check_finite, checked_rows, length_of, reused_tokens

FIRST_BATCH = 8
TIMED_PASSES = 3
WARM_UP_PASSES = 1

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """Distinct model inputs, and how many candidates one of them scores on average."""

    items: tuple[Item, ...]
    pairs_per_item: float

    @property
    def pairs(self) -> float:
        return len(self.items) * self.pairs_per_item

    def whole(self) -> Sample:
        """The same inputs, each forwarded as a whole: nothing that several begin with is shared."""
        items = tuple(replace(item, share=None, shared_tokens=0) for item in self.items)
        return Sample(items, self.pairs_per_item)

    @property
    def shares(self) -> bool:
        """Do inputs of one query begin with tokens that are computed once?"""
        return any(item.share is not None for item in self.items)


@dataclass(frozen=True)
class Point:
    """One batch size. Of one timed pass: pairs, tokens (without padding) and padded_tokens.

    seconds: summed forward time of each timed pass; peak_memory: bytes, the model included.
    """

    batch_size: int
    pairs: float
    tokens: int
    padded_tokens: int
    flop: float | None
    seconds: tuple[float, ...]
    peak_memory: int | None

    @property
    def pairs_per_second(self) -> float:
        """Pairs of all timed passes over their summed forward time."""
        return len(self.seconds) * self.pairs / sum(self.seconds)

    @property
    def tokens_per_second(self) -> float:
        return len(self.seconds) * self.tokens / sum(self.seconds)

    @property
    def padding_share(self) -> float:
        return 1.0 - self.tokens / self.padded_tokens

    @property
    def flop_per_second(self) -> float | None:
        """Of the inputs' own tokens: what padding costs counts as time alone."""
        return None if self.flop is None else len(self.seconds) * self.flop / sum(self.seconds)


@dataclass(frozen=True)
class Curve:
    """Every batch size that was measured, smallest first.

    out_of_memory: the batch size that did not fit, None where the sample ended first.
    """

    points: tuple[Point, ...]
    out_of_memory: int | None

    @property
    def best(self) -> Point:
        """The fastest batch size; of equal ones the smallest."""
        return max(self.points, key=lambda point: point.pairs_per_second)


def sample_of(scorer: Scorer, groups: Sequence[QueryGroup], pairs: int) -> Sample:
    """The inputs of the groups' candidates, at most `pairs` of them; what is refused is left out.

    ScoringError: the model has no inputs that can be forwarded by themselves.
    """
    if isinstance(scorer, Costly):
        raise ScoringError("a server forwards, so there is no forward to time; measure its latency")
    if isinstance(scorer, Advancing):
        raise ScoringError(
            "its inputs are made in rounds, each from the last one's answers, so they cannot be "
            "sorted into batches; measure its latency"
        )
    items = [item for item in scorer.encode(groups) if item.failure is None]
    if not items:
        raise ScoringError("the model refuses every pair of the sample; take another task")
    # equal pairs are one input, which is forwarded, and counted, once
    single = isinstance(items[0].payload, PairInput)
    each = 1.0 if single else sum(map(len, groups)) / len(items)
    return Sample(tuple(items[: max(1, round(pairs / each))]), each)


def measure_curve(
    scorer: Scorer,
    sample: Sample,
    clock: ForwardClock,
    *,
    memory: Memory | None = None,
    cost: Cost | None = None,
    tell: Tell = lambda text: None,
) -> Curve:
    """The protocol over one sample. ScoringError where not even the first batch size fits."""
    points: list[Point] = []
    out_of_memory = None
    for size in batch_sizes(len(sample.items)):
        started = time.monotonic()
        point = _point(scorer, sample, size, clock, memory, cost)
        if point is None:
            out_of_memory = size
            break
        points.append(point)
        tell(f"batch size {size}: {point.pairs_per_second:,.1f} pairs/s" + _took(started))
    if not points:
        raise ScoringError(
            f"a batch of {FIRST_BATCH} inputs does not fit into this device's memory; lower "
            "max_length, use dtype=bfloat16, or a larger GPU"
        )
    return Curve(tuple(points), out_of_memory)


def _took(started: float) -> str:
    return f" ({time.monotonic() - started:,.0f} s)"


def batch_sizes(inputs: int) -> list[int]:
    """8, 16, 32 ... up to the sample's size; 8 for a smaller sample, which is repeated."""
    sizes = [FIRST_BATCH]
    while sizes[-1] * 2 <= inputs:
        sizes.append(sizes[-1] * 2)
    return sizes


def batches_of(items: Sequence[Item], size: int) -> list[list[Item]]:
    """The items repeated in turn to a multiple of `size`, longest first, cut into batches.

    Equal lengths stay in the order in which they came.
    """
    count = -(-len(items) // size) * size
    repeated = [items[at % len(items)] for at in range(count)]
    ordered = sorted(repeated, key=lambda item: -item.tokens)
    return [ordered[at : at + size] for at in range(0, count, size)]


def _point(
    scorer: Scorer,
    sample: Sample,
    size: int,
    clock: ForwardClock,
    memory: Memory | None,
    cost: Cost | None,
) -> Point | None:
    """None where a batch of this size does not fit."""
    batches = batches_of(sample.items, size)
    if memory is not None:
        memory.reset_peak()
    seconds = []
    for _ in range(WARM_UP_PASSES + TIMED_PASSES):
        spent = _pass(scorer, batches, clock)
        if spent is None:
            release_memory()
            return None
        seconds.append(spent)
    lengths = [[length_of(item) for item in batch] for batch in batches]
    shapes = list(map(Shape.of, lengths))
    forwarded = [item for batch in batches for item in batch]
    return Point(
        batch_size=size,
        pairs=len(forwarded) * sample.pairs_per_item,
        tokens=sum(item.tokens for item in forwarded) - sum(map(reused_tokens, lengths)),
        padded_tokens=sum(shape.tokens for shape in shapes),
        # of the whole inputs: what sharing spares would make the rate look better than it is
        flop=None if cost is None or sample.shares else cost.of([i.tokens for i in forwarded]),
        seconds=tuple(seconds[WARM_UP_PASSES:]),
        peak_memory=None if memory is None else memory.peak(),
    )


def _pass(scorer: Scorer, batches: Sequence[list[Item]], clock: ForwardClock) -> float | None:
    """Summed forward time of one pass over the batches; None where memory ran out.

    The traceback pins every tensor of the failed forward, so it is dropped before memory is
    handed back.
    """
    try:
        for batch in batches:
            clock.start()
            rows = scorer.forward(batch)
            clock.stop()
            for item, row in zip(batch, checked_rows(rows, batch), strict=True):
                check_finite(item, row)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        error.__traceback__ = None
    else:
        return clock.seconds()
    clock.forget()
    return None

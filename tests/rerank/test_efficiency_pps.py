"""The pairs-per-second protocol. Oracles: a clock that counts what it is told, sums by hand, the
flop counter of torch, and a device that runs out of memory at a stated batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rerank.efficiency.clocks import MonotonicClock, ProcessMemory, clock_of, memory_of
from rerank.efficiency.flops import Cost, cost_of, matmul_peak
from rerank.efficiency.measuring import curve_record
from rerank.efficiency.pps import Sample, batch_sizes, batches_of, measure_curve, sample_of
from rerank.errors import ScoringError
from rerank.models.pointwise import PairInput, Pointwise
from rerank.records import Item, QueryGroup


class FakeClock:
    """Time goes on only where the model says so, and only what lies in a span counts."""

    def __init__(self) -> None:
        self.now = self.began = self.total = 0.0
        self.spans = 0

    def start(self) -> None:
        self.began = self.now

    def stop(self) -> None:
        self.total += self.now - self.began
        self.spans += 1

    def seconds(self) -> float:
        total, self.total = self.total, 0.0
        return total

    def forget(self) -> None:
        self.total = 0.0


class FakeMemory:
    """The peak is the largest batch since the last reset."""

    def __init__(self) -> None:
        self.largest = 0

    def reset_peak(self) -> None:
        self.largest = 0

    def peak(self) -> int:
        return self.largest

    def limit(self) -> int:
        return 1 << 30


class Model(Pointwise):
    """A forward takes 1 second and 0.25 a padded token; more than `room` inputs do not fit."""

    def __init__(self, clock: FakeClock, memory: FakeMemory, room: int = 10_000) -> None:
        self.clock = clock
        self.memory = memory
        self.room = room
        self.seen: list[list[int]] = []

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        raise AssertionError("the sample is encoded before, and never timed")

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        self.clock.now += 100.0 if len(items) > self.room else 0.0
        if len(items) > self.room:
            raise MemoryError
        longest = max(item.tokens for item in items)
        self.clock.now += 1.0 + 0.25 * longest * len(items)
        self.memory.largest = max(self.memory.largest, len(items))
        self.seen.append([item.tokens for item in items])
        return np.zeros((len(items), 1), dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        return {}


def items_of(lengths: Sequence[int]) -> tuple[Item, ...]:
    return tuple(
        Item(PairInput((n,), ((0, n),)), length, False, f"pair {n}")
        for n, length in enumerate(lengths)
    )


def measured(lengths: Sequence[int], room: int = 10_000, **settings: Any) -> tuple[Any, Model]:
    clock, memory = FakeClock(), FakeMemory()
    model = Model(clock, memory, room)
    curve = measure_curve(model, Sample(items_of(lengths), 1.0), clock, memory=memory, **settings)
    return curve, model


def test_batch_sizes_double_from_8_to_the_samples_size() -> None:
    assert batch_sizes(100) == [8, 16, 32, 64]
    assert batch_sizes(128) == [8, 16, 32, 64, 128]
    assert batch_sizes(3) == [8]


def test_the_sample_is_repeated_to_a_multiple_and_sorted_longest_first() -> None:
    """Ten inputs of 1 to 10 tokens in batches of 8 are 16: the first six come twice."""
    batches = batches_of(items_of(range(1, 11)), 8)
    assert [[item.tokens for item in batch] for batch in batches] == [
        [10, 9, 8, 7, 6, 6, 5, 5],
        [4, 4, 3, 3, 2, 2, 1, 1],
    ]


def test_arithmetic_of_the_protocol() -> None:
    """16 inputs of 8 tokens. Batches of 8: two forwards of 1 + 0.25 * 64 = 17 s, so 34 s a pass;
    of 16: one of 33 s. Three timed passes after one that warms up: 16 / 34 and 16 / 33 pairs/s."""
    curve, model = measured([8] * 16)
    small, large = curve.points
    assert (small.seconds, large.seconds) == ((34.0,) * 3, (33.0,) * 3)
    assert small.pairs_per_second == pytest.approx(16 / 34)
    assert large.pairs_per_second == pytest.approx(16 / 33)
    assert large.tokens_per_second == pytest.approx(128 / 33)
    assert curve.best is large
    assert curve.out_of_memory is None
    assert len(model.seen) == 4 * 2 + 4 * 1
    assert (small.peak_memory, large.peak_memory) == (8, 16)


def test_padding_is_the_share_of_forwarded_tokens() -> None:
    """4 of 16 tokens and 4 of 8: rectangles of 8 x 16 = 128 hold 96."""
    curve, _ = measured([16] * 4 + [8] * 4)
    assert curve.points[0].padding_share == pytest.approx(1 - 96 / 128)


def test_it_ends_at_the_first_size_that_does_not_fit() -> None:
    """What the failed batch took is in no figure, and the fastest of those that fit is kept."""
    curve, _ = measured([8] * 64, room=16)
    assert [point.batch_size for point in curve.points] == [8, 16]
    assert curve.out_of_memory == 32
    assert curve.points[1].seconds == (132.0,) * 3
    with pytest.raises(ScoringError, match="a batch of 8 inputs does not fit"):
        measured([8] * 64, room=4)


def test_another_error_is_no_full_memory() -> None:
    class Broken(Model):
        def forward(self, items: Sequence[Item]) -> np.ndarray:
            raise RuntimeError("a bug")

    clock, memory = FakeClock(), FakeMemory()
    with pytest.raises(RuntimeError, match="a bug"):
        measure_curve(Broken(clock, memory), Sample(items_of([8] * 8), 1.0), clock)


def test_achieved_flop_over_the_peak() -> None:
    """8 inputs of 10 tokens, 1,000 matrix weights, attention 4 x 6 x 100 an input: 8 x (20,000 +
    2,400) FLOP in 21 s of a device that does 20,000 FLOP/s."""
    curve, _ = measured([10] * 8, cost=Cost(1_000, 6, causal=False))
    record = curve_record(curve, 20_000.0)
    assert record["best"]["flop_per_second"] == pytest.approx(8 * 22_400 / 21)
    assert record["best"]["share_of_peak"] == pytest.approx(8 * 22_400 / 21 / 20_000)
    assert Cost(1_000, 6, causal=True).of([10]) == 20_000 + 1_200


def test_a_sample_counts_equal_pairs_once() -> None:
    """Three candidates, two of the same input: two items, one pair each."""

    class Reader(Pointwise):
        def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
            return [*items_of([4, 6]), Item(None, 0, False, "refused", failure="too long")]

        def forward(self, items: Sequence[Item]) -> np.ndarray:
            return np.zeros((len(items), 1), dtype=np.float32)

        def describe(self) -> dict[str, Any]:
            return {}

    group = QueryGroup("q", "a", ("d", "e", "f"), ("b", "b", "c"), (1, 2, 3))
    sample = sample_of(Reader(), [group], pairs=100)
    assert (len(sample.items), sample.pairs_per_item, sample.pairs) == (2, 1.0, 2.0)
    assert len(sample_of(Reader(), [group], pairs=1).items) == 1


def test_a_server_has_no_forward_to_time() -> None:
    class Costs(Model):
        costs_money = True

    with pytest.raises(ScoringError, match="a server forwards"):
        sample_of(Costs(FakeClock(), FakeMemory()), [], 1)


def test_flop_of_an_encoder_are_those_that_torch_counts() -> None:
    """torch.utils.flop_counter over the forward of a small BERT with eager attention."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=128, attn_implementation="eager",
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()

    class Scorer:
        def __init__(self) -> None:
            self.model = model

    cost = cost_of(Scorer())
    assert cost is not None
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(input_ids=torch.ones((2, 24), dtype=torch.int64))
    assert cost.of([24, 24]) == pytest.approx(counter.get_total_flops(), rel=1e-9)
    assert not cost.causal


def test_a_scorer_without_a_transformer_has_no_known_cost() -> None:
    assert cost_of(Model(FakeClock(), FakeMemory())) is None


def test_real_clock_memory_and_peak_of_a_cpu() -> None:
    """What a CPU gives: seconds that pass, a peak that follows an allocation, a rate above 0."""
    clock = clock_of("cpu")
    assert isinstance(clock, MonotonicClock)
    clock.start()
    sum(range(1_000))
    clock.stop()
    assert clock.seconds() > 0
    assert clock.seconds() == 0
    assert matmul_peak("cpu", "float32") > 1e6
    memory = memory_of("cpu")
    if not isinstance(memory, ProcessMemory):
        pytest.skip("this system does not let a process reset its peak memory")
    memory.reset_peak()
    before = memory.peak()
    block = np.ones(8 << 20)
    assert memory.peak() - before >= block.nbytes * 0.9
    assert memory.limit() > block.nbytes

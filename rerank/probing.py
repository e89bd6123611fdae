"""How many tokens one batch may hold on this device, found by measuring; and what memory runs out.

Under flash and sdpa attention the memory of a forward grows with rows x length, so one token budget
serves every length; under eager attention it grows with the square of the length, and the budget
found at the longest input is safe but too small (up to 3x) for shorter ones.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rerank.batching import padded_length
from rerank.errors import ScoringError
from rerank.records import Filled, Item, Placement, QueryGroup, Scorer

# tokens. Measured on 2 cores (AMD EPYC, fp32, 1 and 2 threads) with cross-encoders of 2 and 4
# layers and MiniLM on mixed lengths: 2,048 is within 5 % of the best, 16,384 loses 3 to 35 %
CPU_TOKEN_BUDGET = 2_048
# tokens. So that cards of different sizes make the same batches; that larger ones gain nothing is
# expected, not measured
MAX_TOKEN_BUDGET = 131_072
PROBE_WORDS = 8_192  # length of the made-up document that stands for the longest input
PROBE_ROWS = (1, 2, 4)  # batch sizes at which the peak is measured
MARGIN = 0.9  # share of the device's memory that a batch may fill

# words of CPU allocators; a RuntimeError without one of them is a bug and must not be retried
ALLOCATOR_MESSAGES = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Did memory run out? torch's own error, MemoryError, or a CPU allocator's RuntimeError.

    Never imports torch: where it is not loaded, nothing can have raised its error.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return True
    if isinstance(error, MemoryError):
        return True
    if type(error) is not RuntimeError:
        return False
    return any(words in str(error) for words in ALLOCATOR_MESSAGES)


def release_memory() -> None:
    """Hand memory of a failed forward back. Call it after the error and its traceback are gone."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


class Memory(Protocol):
    """A device's memory, in bytes."""

    def reset_peak(self) -> None:
        """Start a new measurement."""
        ...

    def peak(self) -> int:
        """Most bytes allocated at once since `reset_peak`, the model's weights included."""
        ...

    def limit(self) -> int:
        """Bytes that allocations of this process may reach."""
        ...


class CudaMemory:
    """The current CUDA device. `share` is the part of the card this process may take (0 to 1]."""

    def __init__(self, share: float = 1.0) -> None:
        import torch

        self.cuda: Any = torch.cuda
        self.share = share

    def reset_peak(self) -> None:
        self.cuda.synchronize()
        self.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        self.cuda.synchronize()
        return int(self.cuda.max_memory_allocated())

    def limit(self) -> int:
        """What this process holds plus what is free, at most its share of the card."""
        free, total = self.cuda.mem_get_info()
        return min(int(self.cuda.memory_reserved() + free), int(total * self.share))


@dataclass(frozen=True)
class Probe:
    """What probing found.

    token_budget: tokens of a batch; length: padded tokens of the input it was measured with;
    peaks: (rows, bytes) of each measurement; halvings: how often the verifying forward failed.
    """

    token_budget: int
    length: int
    peaks: tuple[tuple[int, int], ...]
    halvings: int


def find_token_budget(
    scorer: Scorer,
    groups: Sequence[QueryGroup],
    placement: Placement,
    *,
    memory: Memory | None = None,
) -> int:
    """The token budget of this model on this device: a constant on CPU, probed on a GPU.

    Probing forwards a made-up input at the model's length limit (at most `PROBE_WORDS`), not an
    input of `groups`, so all workers on one kind of device find the same budget, whichever shard
    came first.
    """
    if memory is None and placement.device != "cuda":
        return CPU_TOKEN_BUDGET
    return probe(scorer, memory or CudaMemory()).token_budget


def longest_items(scorer: Scorer, count: int, words: int = PROBE_WORDS) -> list[Item]:
    """`count` different inputs, each the longest that `scorer` makes of documents of `words` words.

    Different, since a model may forward equal ones once. A listwise scorer says how many documents
    fill its longest input.
    """
    width = scorer.probe_documents if isinstance(scorer, Filled) else 1
    names = tuple(map(str, range(width)))
    ranks = tuple(range(1, width + 1))
    groups = [
        QueryGroup(
            f"probe {row}",
            f"probe {row}",
            names,
            tuple(f"{row} {name} " + "a " * words for name in names),
            ranks,
        )
        for row in range(count)
    ]
    items = sorted(scorer.encode(groups), key=lambda item: -item.tokens)
    return [item for item in items if item.failure is None][:count]


def probe(scorer: Scorer, memory: Memory) -> Probe:
    """Measure the peak memory at a few batch sizes, extrapolate, and verify with one forward.

    ScoringError where not even one row fits.
    """
    longest = longest_items(scorer, 1)
    if not longest:
        raise ScoringError(
            "the model refuses every long input, so no batch size can be found; raise max_length "
            "or set token_budget in the suite"
        )
    item = longest[0]
    length = padded_length(item.tokens)
    words = min(PROBE_WORDS, item.tokens)  # a word is a token at least
    if not _fits(scorer, 1, words):
        raise ScoringError(
            f"one input of {item.tokens} tokens does not fit into this device's memory; "
            "lower max_length, use dtype=bfloat16, or a larger GPU"
        )
    peaks = _measure(scorer, words, memory)
    rows = _extrapolate(peaks, int(memory.limit() * MARGIN))
    rows = max(1, min(rows, MAX_TOKEN_BUDGET // length))
    halvings = 0
    while rows > 1 and not _fits(scorer, rows, words):
        rows //= 2
        halvings += 1
    return Probe(_round_down(rows * length), length, peaks, halvings)


def _measure(scorer: Scorer, words: int, memory: Memory) -> tuple[tuple[int, int], ...]:
    """(rows, peak bytes) for `PROBE_ROWS`, up to the first that does not fit."""
    peaks = []
    for rows in PROBE_ROWS:
        memory.reset_peak()
        if not _fits(scorer, rows, words):
            break
        peaks.append((rows, memory.peak()))
    return tuple(peaks)


def _extrapolate(peaks: Sequence[tuple[int, int]], limit: int) -> int:
    """Rows whose peak reaches `limit` bytes, on the line through the first and last measurement.

    The steepest line that the measurements allow: a peak that grows by steps is not underrated.
    """
    if len(peaks) < 2:
        return 1
    slopes = [
        (high - low) / (more - fewer)
        for (fewer, low), (more, high) in zip(peaks, peaks[1:], strict=False)
    ]
    steepest = max(slopes)
    rows, peak = peaks[-1]
    if steepest <= 0:
        return rows
    return int(rows + (limit - peak) / steepest)


def _round_down(tokens: int) -> int:
    """The power of two at or below: free memory differs a little between cards, plans must not."""
    return 1 << (tokens.bit_length() - 1)


def _fits(scorer: Scorer, rows: int, words: int) -> bool:
    """Does a forward of `rows` of the longest inputs end without running out of memory?"""
    items = longest_items(scorer, rows, words)
    try:
        scorer.forward(items)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        error.__traceback__ = None
    else:
        return True
    release_memory()
    return False

"""Batches by token budget: which inputs go through the model together.

A batch of n inputs costs n x (length of its longest, rounded up to `PAD_MULTIPLE`) tokens, padding
included. Inputs that begin alike (one query's prompt before its documents) pay for that beginning
once a batch. The plan is a pure function of the lengths and the budget, so that a rerun on another
machine or with other workers makes the same batches, and with them the same bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

PAD_MULTIPLE = 8  # rows are padded to a multiple of this many tokens: tensor cores want it
MOST_ROWS = 64  # of one chunk: beyond them another shared beginning costs next to nothing


@dataclass(frozen=True)
class Length:
    """Tokens of one input, and how many of them it has in common with all inputs of `share`."""

    tokens: int
    share: Hashable = None
    shared: int = 0

    @property
    def own(self) -> int:
        """Tokens that are forwarded for this input alone."""
        return self.tokens - self.shared


def padded_length(length: int) -> int:
    """`length` rounded up to `PAD_MULTIPLE`; an input without tokens counts as one token."""
    return -(-max(length, 1) // PAD_MULTIPLE) * PAD_MULTIPLE


@dataclass
class Shape:
    """The rectangles that a batch forwards: one row an input, one a shared beginning."""

    rows: int = 0
    length: int = 0  # padded tokens of a row
    beginnings: int = 0
    beginning_length: int = 0  # padded tokens of a shared beginning

    @property
    def tokens(self) -> int:
        """Tokens forwarded, padding included."""
        return self.rows * self.length + self.beginnings * self.beginning_length

    @property
    def weight(self) -> int:
        """Tokens as far as memory goes: each row also holds a copy of its beginning's keys and
        values, one layer at a time, about an eighth of what forwarding it would take."""
        return self.tokens + (self.rows * self.beginning_length if self.beginnings else 0) // 8

    @staticmethod
    def of(batch: Sequence[Length]) -> Shape:
        """The shape of inputs that are forwarded together."""
        shared = {length.share: length.shared for length in batch if length.share is not None}
        return Shape(
            rows=len(batch),
            length=padded_length(max(length.own for length in batch)),
            beginnings=len(shared),
            beginning_length=padded_length(max(shared.values())) if shared else 0,
        )

    def with_chunk(self, chunk: Shape) -> Shape:
        """The shape after adding a chunk; two chunks of one share are counted as two beginnings."""
        return Shape(
            self.rows + chunk.rows,
            max(self.length, chunk.length),
            self.beginnings + chunk.beginnings,
            max(self.beginning_length, chunk.beginning_length),
        )


def plan_batches(lengths: Sequence[Length], token_budget: int) -> list[list[int]]:
    """Pack inputs into batches that weigh at most the budget.

    token_budget: see `Shape.weight`. Returns index lists, longest inputs first
    (equal lengths in input order); every index appears once. Inputs of one share stay together as
    far as that saves tokens. A single input longer than the budget is a batch of its own.
    ValueError for a budget below 1.
    """
    if token_budget < 1:
        raise ValueError(f"token_budget {token_budget} must be at least 1")
    batches: list[list[int]] = []
    shape = Shape()
    for chunk in _chunks(lengths, token_budget):
        added = Shape.of([lengths[index] for index in chunk])
        if not batches or shape.with_chunk(added).weight > token_budget:
            batches.append([])
            shape = Shape()
        batches[-1] += chunk
        shape = shape.with_chunk(added)
    return batches


def _chunks(lengths: Sequence[Length], token_budget: int) -> list[list[int]]:
    """What is never torn apart, longest first: an input without a share, or neighbours in length
    of one share."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index].own, index))
    shares: dict[Hashable, list[int]] = {}
    chunks: list[list[int]] = []
    for index in order:
        if lengths[index].share is None:
            chunks.append([index])
        else:
            shares.setdefault(lengths[index].share, []).append(index)
    for members in shares.values():
        sizes = cheapest_split([lengths[index] for index in members], token_budget)
        for size in sizes:
            chunks.append(members[:size])
            members = members[size:]
    return sorted(chunks, key=lambda chunk: (-_side([lengths[i] for i in chunk]), chunk[0]))


def _side(chunk: Sequence[Length]) -> int:
    """The length that chunks of one batch should have alike: of their rows, or, where that is most
    of what they cost (long documents of an encoder, short answers), of their beginnings."""
    first = chunk[0]
    return first.own if len(chunk) * first.own >= first.shared else first.shared


def cheapest_split(members: Sequence[Length], token_budget: int) -> list[int]:
    """Sizes of consecutive chunks whose costs sum to the least, each within the budget.

    members: inputs of one share, longest first. Every chunk pays for the shared beginning again and
    pads its rows to its first, so many chunks waste the one and few waste the other.
    """
    beginning = padded_length(members[0].shared)
    best: list[tuple[int, int]] = [(0, 0)]  # (tokens, size of the last chunk) of each prefix
    for end in range(1, len(members) + 1):
        options = []
        for start in range(end - 1, max(-1, end - 1 - MOST_ROWS), -1):
            tokens = beginning + (end - start) * padded_length(members[start].own)
            rows = end - start
            if tokens + rows * beginning // 8 > token_budget and rows > 1:
                break
            options.append((best[start][0] + tokens, end - start))
        best.append(min(options, key=lambda option: (option[0], -option[1])))
    sizes: list[int] = []
    end = len(members)
    while end:
        sizes.append(best[end][1])
        end -= best[end][1]
    return sizes[::-1]

"""Batches by token budget: which inputs go through the model together.

A batch of n inputs costs n x (length of its longest, rounded up to `PAD_MULTIPLE`) tokens, padding
included. Inputs that begin alike (one query's prompt before its documents) pay for that beginning
once a batch; what follows it goes through the model in parts of like length, so that documents of
one query can stay together whatever their lengths. Padding is weighed against what a forward costs
beside its tokens. The plan is a pure function of the lengths and the budget, so that a rerun on
another machine or with other workers makes the same batches, and with them the same bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

PAD_MULTIPLE = 8  # rows are padded to a multiple of this many tokens: tensor cores want it
MOST_ROWS = 64  # of one chunk: beyond them another shared beginning costs next to nothing
# A forward costs, beside its own tokens, as much as a batch's tokens / FORWARDS, and at least
# LEAST_FORWARD. Measured on a CPU with 6 to 10 layers: 18 tokens in fp32, 38 in bf16, at batches of
# 2,048 tokens. On a GPU it is expected to grow with the batch that fits, not measured
FORWARDS = 64
LEAST_FORWARD = 16


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


@dataclass(frozen=True)
class Shape:
    """The rectangles that a batch forwards: shared beginnings, and rows in parts of like length."""

    rows: int
    length: int  # padded tokens of the longest row
    beginnings: int
    beginning_length: int  # padded tokens of a shared beginning
    row_tokens: int  # of all rows, padding included

    @property
    def tokens(self) -> int:
        """Tokens forwarded, padding included."""
        return self.row_tokens + self.beginnings * self.beginning_length

    @staticmethod
    def of(batch: Sequence[Length]) -> Shape:
        """The shape of inputs that are forwarded together."""
        shared = {length.share: length.shared for length in batch if length.share is not None}
        own = [padded_length(length.own) for length in batch]
        pieces = parts([length.own for length in batch]) if shared else [range(len(batch))]
        return Shape(
            rows=len(batch),
            length=max(own),
            beginnings=len(shared),
            beginning_length=padded_length(max(shared.values())) if shared else 0,
            row_tokens=sum(len(piece) * max(own[row] for row in piece) for piece in pieces),
        )


def parts(lengths: Sequence[int]) -> list[list[int]]:
    """Numbers of the rows that go through the model together, longest first, at the least cost.

    lengths: tokens of each row. No part has more tokens than all rows would have by themselves.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    padded = [padded_length(lengths[row]) for row in order]
    total = sum(padded)
    sizes = _cheapest_sizes(padded, total, max(LEAST_FORWARD, total // FORWARDS))
    return _pieces(order, sizes)


def plan_batches(lengths: Sequence[Length], token_budget: int) -> list[list[int]]:
    """Pack inputs into batches that cost at most the budget, and together the least.

    token_budget: tokens of one batch, padding included; of inputs with a share see
    `_shared_batches`. Returns index lists, longest inputs first (equal lengths in input order);
    every index appears once. Inputs of one share stay together as far as the budget lets them. A
    single input longer than the budget is a batch of its own. ValueError for a budget below 1.
    """
    if token_budget < 1:
        raise ValueError(f"token_budget {token_budget} must be at least 1")
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index].own, index))
    alone = [index for index in order if lengths[index].share is None]
    sizes = _cheapest_sizes(
        [padded_length(lengths[index].tokens) for index in alone],
        token_budget,
        max(LEAST_FORWARD, token_budget // FORWARDS),
    )
    shared = [index for index in order if lengths[index].share is not None]
    batches = [*_pieces(alone, sizes), *_shared_batches(lengths, shared, token_budget)]
    return sorted(batches, key=lambda batch: (-lengths[batch[0]].own, batch[0]))


def _cheapest_sizes(padded: Sequence[int], budget: int, forward: int) -> list[int]:
    """Sizes of consecutive batches that together cost the least, each within the budget.

    padded: tokens of each row, falling. A batch costs its rows times its first, and a forward.
    Full batches of unlike lengths waste padding, many small ones waste forwards.
    """
    cost = np.zeros(len(padded) + 1, dtype=np.int64)  # of all rows from one on
    sizes = np.ones(len(padded), dtype=np.int64)  # of the batch that begins with it
    for start in reversed(range(len(padded))):
        most = min(len(padded) - start, max(1, budget // padded[start]))
        options = np.arange(1, most + 1) * padded[start] + cost[start + 1 : start + most + 1]
        sizes[start] = most - int(options[::-1].argmin())  # of equals the fullest
        cost[start] = options.min() + forward
    found: list[int] = []
    start = 0
    while start < len(padded):
        found.append(int(sizes[start]))
        start += found[-1]
    return found


def _pieces(order: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    ends = np.cumsum([0, *sizes])
    return [list(order[start:end]) for start, end in zip(ends, ends[1:], strict=False)]


def _shared_batches(
    lengths: Sequence[Length], order: Sequence[int], budget: int
) -> list[list[int]]:
    """Batches of inputs with a share, filled one after the other, share by share.

    The budget holds the tokens of all rows, which no part of them exceeds, and the beginnings, with
    a copy of its beginning's keys and values for each row, one layer at a time: about an eighth of
    what forwarding it would take.
    """
    members: dict[Hashable, list[int]] = {}
    for index in order:
        members.setdefault(lengths[index].share, []).append(index)
    shares = sorted(members.values(), key=lambda m: (-_side([lengths[i] for i in m]), m[0]))
    batches: list[list[int]] = []
    tokens, longest, begun = 0, 0, set[Hashable]()
    for index in (index for share in shares for index in share):
        own, beginning = padded_length(lengths[index].own), padded_length(lengths[index].shared)
        rows, count = len(batches[-1]) + 1 if batches else 1, len(begun | {lengths[index].share})
        copies = (8 * count + rows) * max(longest, beginning) // 8
        if not batches or tokens + own + copies > budget:
            batches.append([])
            tokens, longest, begun = 0, 0, set()
        batches[-1].append(index)
        tokens, longest = tokens + own, max(longest, beginning)
        begun.add(lengths[index].share)
    return batches


def _side(members: Sequence[Length]) -> int:
    """The length that shares of one batch should have alike: of their rows, or, where that is most
    of what they cost (long documents of an encoder, short answers), of their beginnings."""
    first = members[0]
    return first.own if len(members) * first.own >= first.shared else first.shared


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

"""Batches by token budget: which inputs go through the model together.

A batch of n inputs costs n x (length of its longest, rounded up to `PAD_MULTIPLE`) tokens, padding
included. The plan is a pure function of the lengths and the budget, so that a rerun on another
machine or with other workers makes the same batches, and with them the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

PAD_MULTIPLE = 8  # rows are padded to a multiple of this many tokens: tensor cores want it


def padded_length(length: int, multiple: int = PAD_MULTIPLE) -> int:
    """`length` rounded up to a multiple; an input without tokens counts as one token."""
    return -(-max(length, 1) // multiple) * multiple


def plan_batches(
    lengths: Sequence[int],
    token_budget: int,
    *,
    max_items: int | None = None,
    multiple: int = PAD_MULTIPLE,
) -> list[list[int]]:
    """Pack inputs into batches whose rows x padded length stay within the budget.

    lengths: tokens of each input. token_budget: tokens of one batch, padding included.
    max_items: most rows in a batch, None for no limit. multiple: rows are padded to this multiple.
    Returns index lists, longest inputs first (equal lengths in input order); every index appears
    once. A single input longer than the budget is a batch of its own. ValueError for a budget,
    row limit or multiple below 1.
    """
    if token_budget < 1 or multiple < 1 or (max_items is not None and max_items < 1):
        raise ValueError(
            f"token_budget {token_budget}, max_items {max_items} and multiple {multiple} "
            "must be at least 1"
        )
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        longest = padded_length(lengths[order[start]], multiple)
        rows = max(1, token_budget // longest)
        if max_items is not None:
            rows = min(rows, max_items)
        batches.append(order[start : start + rows])
        start += rows
    return batches


def padded_tokens(
    lengths: Sequence[int], batches: Sequence[Sequence[int]], multiple: int = PAD_MULTIPLE
) -> int:
    """Tokens that the batches cost, padding included: sum of rows x padded length."""
    return sum(
        len(batch) * padded_length(max(lengths[index] for index in batch), multiple)
        for batch in batches
    )


def padding_share(
    lengths: Sequence[int], batches: Sequence[Sequence[int]], multiple: int = PAD_MULTIPLE
) -> float:
    """Share of the batches' tokens that is padding, in [0, 1]; 0.0 for no batches."""
    total = padded_tokens(lengths, batches, multiple)
    used = sum(lengths[index] for batch in batches for index in batch)
    return 1.0 - used / total if total else 0.0

"""Batch plans: every input once, within the budget, and the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.batching import (
    MOST_ROWS,
    Length,
    Shape,
    cheapest_split,
    padded_length,
    parts,
    plan_batches,
)

LENGTHS = st.lists(st.integers(0, 300).map(Length), max_size=60)
SHARED = st.lists(
    st.builds(
        lambda share, own: Length(own + 10 * share, share, 10 * share),
        st.integers(1, 4),
        st.integers(1, 90),
    ),
    max_size=60,
)
BUDGETS = st.integers(1, 2_000)


@given(st.one_of(LENGTHS, SHARED), BUDGETS)
def test_every_input_is_in_exactly_one_batch(lengths: list[Length], budget: int) -> None:
    """The batches are a permutation of the inputs."""
    batches = plan_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(st.one_of(LENGTHS, SHARED), BUDGETS)
def test_a_batch_of_several_keeps_to_the_budget(lengths: list[Length], budget: int) -> None:
    """Rectangles counted from the lengths; a single input may be too long alone. Where beginnings
    are shared, rows are forwarded in parts: none larger than all rows without padding."""
    for batch in plan_batches(lengths, budget):
        rows = [lengths[index] for index in batch]
        beginnings = {row.share: row.shared for row in rows if row.share}
        own = [padded_length(row.tokens - row.shared) for row in rows]
        if beginnings:
            pieces = parts([row.own for row in rows])
            forwards = [len(piece) * max(own[row] for row in piece) for piece in pieces]
            assert max(forwards) <= sum(own)
            begun = len(beginnings) * padded_length(max(beginnings.values()))
            copies = len(rows) * padded_length(max(beginnings.values())) // 8
            assert len(batch) == 1 or sum(own) + begun + copies <= budget
            assert Shape.of(rows).tokens == sum(forwards) + begun
        else:
            assert len(batch) == 1 or len(rows) * max(own) <= budget
            assert Shape.of(rows).tokens == len(rows) * max(own)


@given(LENGTHS, BUDGETS)
def test_longest_come_first_and_ties_keep_their_order(lengths: list[Length], budget: int) -> None:
    """The order over all batches is Python's stable sort by falling length."""
    flat = [index for batch in plan_batches(lengths, budget) for index in batch]
    assert flat == sorted(range(len(lengths)), key=lambda index: -lengths[index].tokens)


def cuts(lengths: list[int]) -> Iterator[list[list[int]]]:
    """Every way to cut a list into consecutive pieces."""
    for places in product([False, True], repeat=len(lengths) - 1):
        pieces = [[lengths[0]]]
        for length, cut in zip(lengths[1:], places, strict=True):
            pieces.append([length]) if cut else pieces[-1].append(length)
        yield pieces


def cost(pieces: list[list[int]], forward: int) -> int:
    """Rows times the longest, in steps of 8 tokens, and a forward for each piece."""
    return sum(len(piece) * -(-max(piece) // 8) * 8 + forward for piece in pieces)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=9), st.sampled_from([200, 1_000, 4_000]))
def test_a_plan_is_the_cheapest_within_its_budget(lengths: list[int], budget: int) -> None:
    """Oracle: every way to cut the inputs by falling length, a forward at budget / 64 or 16."""
    forward = max(16, budget // 64)
    allowed = [
        cost(pieces, forward)
        for pieces in cuts(sorted(lengths, reverse=True))
        if all(len(piece) == 1 or cost([piece], 0) <= budget for piece in pieces)
    ]
    plan = plan_batches([Length(length) for length in lengths], budget)
    assert cost([[lengths[i] for i in batch] for batch in plan], forward) == min(allowed)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=9))
def test_parts_are_the_cheapest(lengths: list[int]) -> None:
    """Oracle: every cut, a forward at 1/64 of the rows' own tokens or 16, no part above these."""
    total = sum(-(-length // 8) * 8 for length in lengths)
    forward = max(16, total // 64)
    allowed = [
        cost(pieces, forward)
        for pieces in cuts(sorted(lengths, reverse=True))
        if all(cost([piece], 0) <= total for piece in pieces)
    ]
    found = parts(lengths)
    assert sorted(row for piece in found for row in piece) == list(range(len(lengths)))
    assert cost([[lengths[row] for row in piece] for piece in found], forward) == min(allowed)


def test_a_plan_by_hand() -> None:
    """Padded 8, 64, 8 and 16. Under 32 tokens 16 + 2 x 8 beats 2 x 16 + 8; under 2,048 a forward
    costs 32, so the short ones go together and the long one still goes alone."""
    lengths = [Length(tokens) for tokens in (8, 60, 3, 9)]
    assert plan_batches(lengths, 32) == [[1], [3], [0, 2]]
    assert plan_batches(lengths, 2_048) == [[1], [3, 0, 2]]
    shapes = [Shape.of([lengths[i] for i in batch]) for batch in ([1], [3, 0, 2])]
    assert [shape.tokens for shape in shapes] == [64, 48]


def test_a_shared_plan_by_hand() -> None:
    """Two queries of 16 shared tokens. Under 60 tokens 4 rows of 8 and their beginning are 48, and
    80 is too long for any company; else all go together, the row of 80 in a part of its own."""
    lengths = [Length(16 + own, "a", 16) for own in (8, 8, 80, 8, 8)] + [Length(24, "b", 16)]
    assert plan_batches(lengths, 60) == [[2], [0, 1, 3, 4], [5]]
    assert plan_batches(lengths, 10_000) == [[2, 0, 1, 3, 4, 5]]
    assert parts([length.own for length in lengths]) == [[2], [0, 1, 3, 4, 5]]
    assert Shape.of(lengths).tokens == 80 + 5 * 8 + 2 * 16


@given(st.lists(st.integers(1, 60), min_size=1, max_size=9), st.integers(1, 60))
def test_the_split_of_one_query_is_the_cheapest(owns: list[int], shared: int) -> None:
    """Oracle: every way to cut the list, each piece with the beginning again."""
    owns = sorted(owns, reverse=True)
    beginning = -(-shared // 8) * 8
    sizes = cheapest_split([Length(own + shared, "q", shared) for own in owns], 1_000_000)
    assert sum(sizes) == len(owns)
    rest = list(owns)
    found = [[rest.pop(0) for _ in range(size)] for size in sizes]
    assert cost(found, beginning) == min(cost(pieces, beginning) for pieces in cuts(owns))


def test_chunks_have_a_most() -> None:
    """A thousand equal candidates stay quick: at most `MOST_ROWS` a chunk."""
    assert max(cheapest_split([Length(20, "q", 10)] * 1_000, 10**9)) == MOST_ROWS


def test_inputs_without_tokens_are_still_bounded() -> None:
    """A weightless model's inputs have no tokens; they count as one padded unit, 8 tokens."""
    assert [len(batch) for batch in plan_batches([Length(0)] * 5, 16)] == [2, 2, 1]


def test_a_budget_below_one_is_refused() -> None:
    """A budget of 0 would make no progress."""
    with pytest.raises(ValueError, match="at least 1"):
        plan_batches([Length(1)], 0)

"""Batch plans: every input once, within the budget, and the same every time."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.batching import MOST_ROWS, Length, Shape, cheapest_split, padded_length, plan_batches

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
    """Rectangles counted from the lengths; a single input may be too long alone."""
    for batch in plan_batches(lengths, budget):
        rows = [lengths[index] for index in batch]
        beginnings = {row.share: row.shared for row in rows if row.share}
        tokens = len(rows) * padded_length(max(row.tokens - row.shared for row in rows))
        if beginnings:
            tokens += len(beginnings) * padded_length(max(beginnings.values()))
        assert Shape.of(rows).tokens == tokens
        assert len(batch) == 1 or tokens <= budget


@given(LENGTHS, BUDGETS)
def test_longest_come_first_and_ties_keep_their_order(lengths: list[Length], budget: int) -> None:
    """The order over all batches is Python's stable sort by falling length."""
    flat = [index for batch in plan_batches(lengths, budget) for index in batch]
    assert flat == sorted(range(len(lengths)), key=lambda index: -lengths[index].tokens)


@given(LENGTHS, BUDGETS)
def test_no_batch_could_take_its_successors_first_input(lengths: list[Length], budget: int) -> None:
    """Batches are full: one more row would break the budget."""
    batches = plan_batches(lengths, budget)
    for batch in batches[:-1]:
        longest = padded_length(max(lengths[index].tokens for index in batch))
        assert (len(batch) + 1) * longest > budget


def test_a_plan_by_hand() -> None:
    """Lengths 30 (padded 32), 9, 8 and 3 under 32 tokens: 32; 16 x 2; 8."""
    lengths = [Length(tokens) for tokens in (8, 30, 3, 9)]
    assert plan_batches(lengths, 32) == [[1], [3, 0], [2]]
    shapes = [Shape.of([lengths[i] for i in batch]) for batch in ([1], [3, 0], [2])]
    assert [shape.tokens for shape in shapes] == [32, 32, 8]


def test_a_shared_plan_by_hand() -> None:
    """Two queries of 16 shared tokens: 4 rows of 8 cost 16 + 32, the row of 80 is better alone."""
    lengths = [Length(16 + own, "a", 16) for own in (8, 8, 80, 8, 8)] + [Length(24, "b", 16)]
    assert plan_batches(lengths, 60) == [[2], [5], [0, 1, 3, 4]]
    assert plan_batches(lengths, 10_000) == [[2, 5, 0, 1, 3, 4]]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=9), st.integers(1, 60))
def test_the_split_of_one_query_is_the_cheapest(owns: list[int], shared: int) -> None:
    """Oracle: every way to cut the list, tried."""
    members = [Length(own + shared, "q", shared) for own in sorted(owns, reverse=True)]
    costs = []
    for cuts in product([False, True], repeat=len(members) - 1):
        parts: list[list[Length]] = [[members[0]]]
        for member, cut in zip(members[1:], cuts, strict=True):
            parts.append([member]) if cut else parts[-1].append(member)
        costs.append(sum(Shape.of(part).tokens for part in parts))
    sizes = cheapest_split(members, 1_000_000)
    assert sum(sizes) == len(members)
    found, start = 0, 0
    for size in sizes:
        found += Shape.of(members[start : start + size]).tokens
        start += size
    assert found == min(costs)


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

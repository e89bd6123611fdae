"""Batch plans: every input once, within the budget, and the same every time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.batching import padded_length, padded_tokens, padding_share, plan_batches

LENGTHS = st.lists(st.integers(0, 300), max_size=60)
BUDGETS = st.integers(1, 2_000)


@given(LENGTHS, BUDGETS, st.none() | st.integers(1, 9))
def test_every_input_is_in_exactly_one_batch(
    lengths: list[int], budget: int, most: int | None
) -> None:
    """The batches are a permutation of the inputs."""
    batches = plan_batches(lengths, budget, max_items=most)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(LENGTHS, BUDGETS, st.none() | st.integers(1, 9), st.sampled_from([1, 8, 64]))
def test_a_batch_of_several_keeps_to_budget_and_row_limit(
    lengths: list[int], budget: int, most: int | None, multiple: int
) -> None:
    """rows x padded length <= budget, unless the batch is a single input that is too long alone."""
    for batch in plan_batches(lengths, budget, max_items=most, multiple=multiple):
        longest = padded_length(max(lengths[index] for index in batch), multiple)
        assert len(batch) == 1 or len(batch) * longest <= budget
        assert most is None or len(batch) <= most


@given(LENGTHS, BUDGETS)
def test_longest_come_first_and_ties_keep_their_order(lengths: list[int], budget: int) -> None:
    """The order over all batches is Python's stable sort by falling length."""
    flat = [index for batch in plan_batches(lengths, budget) for index in batch]
    assert flat == sorted(range(len(lengths)), key=lambda index: -lengths[index])


@given(LENGTHS, BUDGETS)
def test_no_batch_could_take_its_successors_first_input(lengths: list[int], budget: int) -> None:
    """Batches are full: one more row would break the budget."""
    batches = plan_batches(lengths, budget)
    for batch in batches[:-1]:
        longest = padded_length(max(lengths[index] for index in batch))
        assert (len(batch) + 1) * longest > budget


@given(LENGTHS, BUDGETS)
def test_padding_share_is_what_the_padded_rectangles_waste(lengths: list[int], budget: int) -> None:
    """Counted by writing out each rectangle."""
    batches = plan_batches(lengths, budget)
    cells = [
        padded_length(max(lengths[i] for i in batch)) - lengths[index]
        for batch in batches
        for index in batch
    ]
    total = sum(cells) + sum(lengths)
    assert padded_tokens(lengths, batches) == total
    assert padding_share(lengths, batches) == pytest.approx(sum(cells) / total if total else 0.0)


def test_a_plan_by_hand() -> None:
    """Lengths 30 (padded 32), 9, 8 and 3 under 32 tokens: 32; 16 x 2; 8."""
    assert plan_batches([8, 30, 3, 9], 32) == [[1], [3, 0], [2]]
    assert padding_share([8, 30, 3, 9], [[1], [3, 0], [2]]) == pytest.approx(1 - 50 / (32 + 32 + 8))


def test_inputs_without_tokens_are_still_bounded() -> None:
    """A weightless model's inputs have no tokens; they count as one padded unit, 8 tokens."""
    assert [len(batch) for batch in plan_batches([0] * 5, 16)] == [2, 2, 1]


@pytest.mark.parametrize(("budget", "most", "multiple"), [(0, None, 8), (8, 0, 8), (8, None, 0)])
def test_numbers_below_one_are_refused(budget: int, most: int | None, multiple: int) -> None:
    """A budget of 0 would make no progress."""
    with pytest.raises(ValueError, match="at least 1"):
        plan_batches([1], budget, max_items=most, multiple=multiple)

"""Windows and answers of listwise models, by hand from the authors' code.

What rank_llm and mteb really make of windows and answers is in test_models_listwise_generation.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank.models.permutations import lenient, strict, windows


@pytest.mark.parametrize(
    ("answer", "order", "missing", "ignored"),
    [
        ("[2] > [1] > [3]", (1, 0, 2), 0, 0),
        ("2 1 3", (1, 0, 2), 0, 0),
        ("[3]>[3]>[1]>[2]", (2, 0, 1), 0, 1),
        ("[3]", (2, 0, 1), 2, 0),
        ("[9] > [2] > [0]", (1, 0, 2), 2, 2),
        ("³ > ① > ２", (2, 0, 1), 0, 0),
        ("❷ ₃", (1, 2, 0), 1, 0),
        ("<think>[1] > [2] > [3]</think>[3] > [2] > [1]", (2, 1, 0), 0, 0),
        ("passage 2 is best", (1, 0, 2), 2, 0),
        ("21", (0, 1, 2), 3, 1),
        ("", (0, 1, 2), 3, 0),
        ("no idea", (0, 1, 2), 3, 0),
        ("➊ [3] > [2] > [1]", (0, 1, 2), 3, 0),
        ("9" * 5000, (0, 1, 2), 3, 0),
    ],
)
def test_rank_llms_parsing(answer: str, order: tuple[int, ...], missing: int, ignored: int) -> None:
    """T25, by hand from `_clean_response` and `receive_permutation`."""
    found = lenient(answer, 3)
    assert (found.order, found.missing, found.ignored) == (order, missing, ignored)
    assert found.fallback == (missing == 3)
    assert found.repaired == (missing in (1, 2) or (missing == 0 and ignored > 0))


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("[2] > [1] > [3]", (1, 0, 2)),
        ("Ranking: [3]>[1] >[2] > [9]", (2, 0, 1)),
        ("[2] > [1]", None),
        ("[2] > [2] > [1]", None),
        ("[4] > [2] > [1]", None),
        ("2 > 1 > 3", None),
        ("[1], [2], [3]", None),
        ("[1] > [1] > [2] > [3]", None),  # the first match counts, not the first permutation
        ("", None),
    ],
)
def test_lightons_parsing(answer: str, order: tuple[int, ...] | None) -> None:
    """T25, by hand from `_parse_permutation`."""
    found = strict(answer, 3)
    assert found.order == (order or (0, 1, 2))
    assert found.fallback == (order is None)
    assert not found.repaired


@given(st.text(max_size=30), st.integers(1, 25))
def test_any_answer_gives_a_permutation(answer: str, size: int) -> None:
    for parse in (lenient, strict):
        assert sorted(parse(answer, size).order) == list(range(size))


def test_windows_by_hand() -> None:
    assert windows(25, 20, 10) == [(5, 25), (0, 15)]
    assert windows(25, 20, 10, top="full") == [(5, 25), (0, 20)]
    assert windows(20, 20, 10) == [(0, 20)]
    assert windows(10, 20, 10) == [(0, 10)]
    assert windows(40, 20, 10, passes=2) == [(20, 40), (10, 30), (0, 20)] * 2
    assert windows(21, 20, 20) == [(1, 21)]  # one passage alone has no order
    assert windows(1, 20, 10) == windows(0, 20, 10) == []


@given(st.integers(2, 90), st.integers(2, 21), st.integers(1, 21), st.booleans())
def test_windows_reach_the_top_and_overlap(count: int, size: int, stride: int, full: bool) -> None:
    stride = min(stride, size - 1)
    bounds = windows(count, size, stride, top="full" if full else "clipped")
    assert bounds[0][1] == count
    assert bounds[-1][0] == 0
    assert all(2 <= end - start <= size for start, end in bounds)
    for (start, _), (above, end) in zip(bounds, bounds[1:], strict=False):
        assert above < start < end

"""The scoring loop: order, out-of-memory, deaths, and scores that cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rerank.errors import ScoringError
from rerank.models.first_stage import FirstStage
from rerank.models.overlap import Overlap
from rerank.models.pointwise import PairInput, scatter
from rerank.records import GroupScores, Item, QueryGroup
from rerank.scoring import OUT_OF_MEMORY, PROCESS_DIED, score_groups


class Death(BaseException):
    """Stands for the end of the process: nothing in the loop may catch it."""


class Fake:
    """Score = number in the text. __OOM__ fails in company, __BIG__ always, __CRASH__ dies."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        return [
            Item(PairInput(text, ((g, row),)), len(text), "cut" in text, f"{group.query_id}/{row}")
            for g, group in enumerate(groups)
            for row, text in enumerate(group.documents)
        ]

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        texts = [item.payload.value for item in items]
        self.calls.append(texts)
        for text in texts:
            if "__CRASH__" in text:
                raise Death
            if "__BIG__" in text or ("__OOM__" in text and len(texts) > 1):
                raise MemoryError("as a test")
        return np.array([[float(text.split()[0])] for text in texts], dtype=np.float32)

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        return scatter(groups, items, outputs, failures)

    def describe(self) -> dict[str, Any]:
        return {}


class Memo:
    """A journal in memory. `die` says that the process ended: open notes become suspicions."""

    def __init__(self) -> None:
        self.done: dict[tuple[int, ...], list[Any]] = {}
        self.open: tuple[int, ...] | None = None
        self.deaths: list[tuple[int, ...]] = []

    def die(self) -> None:
        if self.open is not None:
            self.deaths.append(self.open)
        self.open = None

    def recall(self, batch: tuple[int, ...]) -> list[Any] | None:
        return self.done.get(batch)

    def suspects(self, batch: tuple[int, ...]) -> bool:
        return batch in self.deaths

    def doomed(self, item: int) -> bool:
        return (item,) in self.deaths

    def begin(self, items: tuple[int, ...]) -> None:
        self.open = items

    def finish(self, batch: tuple[int, ...], outputs: Sequence[Any]) -> None:
        self.done[batch] = list(outputs)


def group(query_id: str, *documents: str) -> QueryGroup:
    names = tuple(f"d{row}" for row in range(len(documents)))
    return QueryGroup(query_id, "query", names, documents, tuple(range(1, len(documents) + 1)))


def test_scores_return_to_their_places_whatever_the_batches() -> None:
    """The text holds its own score, so every order and budget must give the same arrays."""
    groups = [group("q1", "3 xxxxxxxxxxxxxxx", "1", "2 cut"), group("q2"), group("q3", "9 yyyy")]
    for budget in (1, 16, 24, 10_000):
        results, report = score_groups(Fake(), groups, budget)
        assert [result.scores.tolist() for result in results] == [[3, 1, 2], [], [9]]
        assert results[0].tokens.tolist() == [17, 1, 5]
        assert results[0].truncated.tolist() == [False, False, True]
        assert (report.pairs, report.items, report.tokens) == (4, 4, 17 + 1 + 5 + 6)
        assert sum(rows for rows, *_ in report.plan) == 4
        assert report.padded_tokens == sum(rows * length for rows, length, *_ in report.plan)
        assert 0 <= report.padding_share < 1


def test_arrays_have_the_stated_types_even_when_empty() -> None:
    """GroupScores: float64 scores, int32 tokens, bool flags."""
    for result in score_groups(Fake(), [group("q1", "1"), group("q2")], 64)[0]:
        dtypes = (result.scores.dtype, result.tokens.dtype, result.truncated.dtype)
        assert dtypes == (np.float64, np.int32, np.bool_)


def test_the_model_is_never_called_for_a_query_without_candidates() -> None:
    """Conformance case 10: an empty candidate list."""
    scorer = Fake()
    results, report = score_groups(scorer, [group("q1"), group("q2")], 64)
    assert scorer.calls == []
    assert [len(result.scores) for result in results] == [0, 0]
    assert (report.pairs, report.batches, report.plan) == (0, 0, [])


def test_out_of_memory_halves_the_same_batch() -> None:
    """Case 50: __OOM__ fits alone only; halving isolates it, all five get their scores."""
    scorer = Fake()
    documents = ("1 a", "2 __OOM__", "3 a", "4 a", "5 a")
    (result,), report = score_groups(scorer, [group("q", *documents)], 10_000)
    assert result.scores.tolist() == [1, 2, 3, 4, 5]
    assert result.failures == (None,) * 5
    # the longest text comes first: 5 -> 2 + 3, 2 -> 1 + 1
    assert [len(call) for call in scorer.calls] == [5, 2, 1, 1, 3]
    assert report.oom_halvings == 2


def test_an_input_too_big_alone_is_a_failure_of_that_input() -> None:
    """NaN and a reason; the others are scored."""
    (result,), _ = score_groups(Fake(), [group("q", "1 a", "2 __BIG__", "3 a")], 10_000)
    assert result.failures == (None, OUT_OF_MEMORY, None)
    assert np.isnan(result.scores).tolist() == [False, True, False]


def test_an_input_that_the_adapter_refuses_is_not_forwarded() -> None:
    """`Item.failure` goes into the result as it is."""

    class Refusing(Fake):
        def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
            first, *others = super().encode(groups)
            return [replace(first, failure="too long"), *others]

    scorer = Refusing()
    (result,), report = score_groups(scorer, [group("q", "1", "2")], 10_000)
    assert result.failures == ("too long", None)
    assert scorer.calls == [["2"]]
    assert (report.items, report.tokens) == (2, 1)


def test_an_error_that_is_no_lack_of_memory_is_not_retried() -> None:
    """A RuntimeError may be any bug: it comes out after one forward."""

    class Broken(Fake):
        def forward(self, items: Sequence[Item]) -> np.ndarray:
            self.calls.append([])
            raise RuntimeError("index out of range in self")

    scorer = Broken()
    with pytest.raises(RuntimeError, match="index out of range"):
        score_groups(scorer, [group("q", "1", "2")], 10_000)
    assert len(scorer.calls) == 1


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_score_that_is_not_finite_names_its_pair(value: str) -> None:
    """Conformance case 05."""
    with pytest.raises(ScoringError, match="q2/1 is not finite"):
        score_groups(Fake(), [group("q1", "1"), group("q2", "2", value)], 10_000)


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((3, 1), np.float32),
        np.zeros(2, np.float32),
        np.zeros((2, 1), np.float64),
        np.zeros((2, 1), np.float16),
    ],
)
def test_outputs_of_a_wrong_shape_or_type_are_refused(rows: np.ndarray) -> None:
    """(n_items, width) float32 is the protocol."""

    class Wrong(Fake):
        def forward(self, items: Sequence[Item]) -> np.ndarray:
            return rows

    with pytest.raises(ScoringError, match="one float32 row an input"):
        score_groups(Wrong(), [group("q", "1", "2")], 10_000)


def test_a_combine_that_loses_a_row_is_refused() -> None:
    """Each candidate exactly once."""

    class Losing(Fake):
        def combine(self, *arguments: Any) -> list[GroupScores]:
            (found,) = super().combine(*arguments)
            return [replace(found, scores=found.scores[1:])]

    with pytest.raises(ScoringError, match="1 scores for 2 documents"):
        score_groups(Losing(), [group("q", "1", "2")], 10_000)


def test_a_deadly_pair_costs_three_deaths_and_only_itself() -> None:
    """Case 50: batch, one by one, then alone -> failed; at most 3 restarts, the rest scored."""
    documents = ("1 a", "2 __OOM__", "3 a", "4 __CRASH__", "5 a")
    memo = Memo()
    for _ in range(3):
        try:
            score_groups(Fake(), [group("q", *documents)], 40, journal=memo)
        except Death:
            memo.die()
    (result,), _ = score_groups(Fake(), [group("q", *documents)], 40, journal=memo)
    assert result.failures == (None, None, None, PROCESS_DIED, None)
    assert result.scores[[0, 1, 2, 4]].tolist() == [1, 2, 3, 5]


def test_what_a_dead_process_had_finished_is_not_forwarded_again() -> None:
    """Batches in the journal are recalled; the scores are those of an undisturbed run."""
    groups = [group("q", *(f"{n} {'x' * (n % 7)}" for n in range(20)))]
    memo, first = Memo(), Fake()
    expected, report = score_groups(first, groups, 32, journal=memo)
    for batch in list(memo.done)[3:]:
        del memo.done[batch]
    second = Fake()
    (result,), again = score_groups(second, groups, 32, journal=memo)
    assert second.calls == first.calls[3:]
    assert result.scores.tobytes() == expected[0].scores.tobytes()
    assert again.plan == report.plan


def test_batches_are_the_same_with_and_without_a_journal() -> None:
    """So the bits are, too."""
    groups = [group("q", *(f"{n} {'x' * (n % 7)}" for n in range(20)))]
    without, with_journal = Fake(), Fake()
    score_groups(without, groups, 32)
    score_groups(with_journal, groups, 32, journal=Memo())
    assert without.calls == with_journal.calls


def test_every_forward_is_announced_and_closed() -> None:
    """Halves and single inputs too: a death in one must not blame the whole batch."""
    events: list[tuple[str, tuple[int, ...]]] = []

    class Noting(Memo):
        def begin(self, items: tuple[int, ...]) -> None:
            events.append(("begin", items))

        def finish(self, batch: tuple[int, ...], outputs: Sequence[Any]) -> None:
            events.append(("finish", batch))

    score_groups(Fake(), [group("q", "1 __OOM__", "2", "3")], 10_000, journal=Noting())
    assert events == [
        ("begin", (0, 1, 2)),
        ("begin", (0,)),
        ("finish", (0,)),
        ("begin", (1, 2)),
        ("finish", (1, 2)),
        ("finish", (0, 1, 2)),
    ]


@pytest.mark.parametrize("scorer", [FirstStage(), Overlap()])
def test_weightless_models_go_through_the_same_loop(scorer: Any) -> None:
    """And without torch: see test_models for the import itself."""
    (result,), report = score_groups(scorer, [group("q", "query", "other")], 64)
    assert result.scores[0] > result.scores[1]
    assert report.pairs == 2


def test_a_real_allocator_failure_is_out_of_memory() -> None:
    """torch's own CPU allocator, asked for a petabyte."""
    torch = pytest.importorskip("torch")
    from rerank.probing import is_out_of_memory

    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8).fill_(1)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("out of memory? no: a shape mismatch"))
    assert "torch" in sys.modules

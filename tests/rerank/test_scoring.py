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
        self.done: dict[tuple[str, ...], list[Any]] = {}
        self.open: tuple[str, ...] | None = None
        self.deaths: list[tuple[str, ...]] = []

    def die(self) -> None:
        if self.open is not None:
            self.deaths.append(self.open)
        self.open = None

    def recall(self, batch: tuple[str, ...]) -> list[Any] | None:
        return self.done.get(batch)

    def suspects(self, batch: tuple[str, ...]) -> bool:
        return batch in self.deaths

    def doomed(self, item: str) -> bool:
        return (item,) in self.deaths

    def begin(self, items: tuple[str, ...]) -> None:
        self.open = items

    def finish(self, batch: tuple[str, ...], outputs: Sequence[Any]) -> None:
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
    events: list[tuple[str, tuple[str, ...]]] = []

    class Noting(Memo):
        def begin(self, items: tuple[str, ...]) -> None:
            events.append(("begin", items))

        def finish(self, batch: tuple[str, ...], outputs: Sequence[Any]) -> None:
            events.append(("finish", batch))

    score_groups(Fake(), [group("q", "1 __OOM__", "2", "3")], 10_000, journal=Noting())
    one, two, three = events[0][1]
    assert events == [
        ("begin", (one, two, three)),
        ("begin", (one,)),
        ("finish", (one,)),
        ("begin", (two, three)),
        ("finish", (two, three)),
        ("finish", (one, two, three)),
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


class Rounds(Fake):
    """Two rounds: the second asks the best of the first again, as a window does that moves up."""

    def advance(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[Item]:
        if len(items) > len(groups[0]):
            return []
        scored = [(-1.0 if row is None else float(row[0]), n) for n, row in enumerate(outputs)]
        order = [n for _, n in sorted(scored, reverse=True)]
        return [replace(items[n], label=f"again {n}") for n in order]

    def combine(self, groups: Any, items: Any, outputs: Any, failures: Any) -> list[GroupScores]:
        count = len(groups[0])
        return scatter(groups, items[count:], outputs[count:], failures[count:])


def test_a_journal_of_rounds_knows_inputs_not_places() -> None:
    """A budget that changes between attempts changes what round 2 asks at each place; what a place
    gave then must not be taken for what it gives now. Oracle: a run without a journal."""
    texts = ["2", "12 __OOM__", "22", "32", "42 xx"]
    memo = Memo()
    score_groups(Rounds(), [group("q", *texts)], 16, journal=memo)
    memo.done = {key: value for key, value in memo.done.items() if len(key) == 1}
    swapped = ["42", "32 __OOM__", "22", "12", "2 xx"]
    (again,), _ = score_groups(Rounds(), [group("q", *swapped)], 24, journal=memo)
    (clean,), _ = score_groups(Rounds(), [group("q", *swapped)], 24)
    assert again.scores.tolist() == clean.scores.tolist() == [42, 32, 22, 12, 2]


def test_a_journal_of_another_recipe_is_not_recalled() -> None:
    """A server that was moved, a tokenizer that was changed: `describe` says so."""

    class Moved(Fake):
        def describe(self) -> dict[str, Any]:
            return {"url": "http://another"}

    memo = Memo()
    score_groups(Fake(), [group("q", "1", "2")], 10_000, journal=memo)
    same, moved = Fake(), Moved()
    score_groups(same, [group("q", "1", "2")], 10_000, journal=memo)
    score_groups(moved, [group("q", "1", "2")], 10_000, journal=memo)
    assert (same.calls, len(moved.calls)) == ([], 1)


def test_the_report_counts_what_was_forwarded() -> None:
    """A batch of 3 that is halved: 1 + 2 rows of 16 tokens; the plan keeps what was meant."""
    (_,), report = score_groups(Fake(), [group("q", "1 __OOM__", "2 xxxxxx", "3 xxxxxx")], 10_000)
    assert report.plan == [[3, 16, 0, 0]]
    assert (report.batches, report.oom_halvings) == (2, 1)
    assert report.padded_tokens == 16 + 2 * 8
    assert report.tokens == 9 + 8 + 8


def test_inputs_of_a_segment_are_let_go_when_it_is_combined() -> None:
    """A shard's payloads are never all held: oracle, weak references."""
    import gc
    import weakref

    class Payload:
        def __init__(self, place: tuple[int, int]) -> None:
            self.rows = (place,)

    alive: list[Any] = []
    most = 0

    class Segments(Fake):
        segment_pairs = 2

        def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
            found = []
            for g, each in enumerate(groups):
                for row in range(len(each)):
                    payload = Payload((g, row))
                    alive.append(weakref.ref(payload))
                    found.append(Item(payload, 8, False, f"{each.query_id}/{row}"))
            return found

        def forward(self, items: Sequence[Item]) -> np.ndarray:
            nonlocal most
            gc.collect()
            most = max(most, sum(ref() is not None for ref in alive))
            return np.ones((len(items), 1), np.float32)

    groups = [group(f"q{n}", "1", "2") for n in range(12)]
    results, report = score_groups(Segments(), groups, 64)
    assert all(result.scores.tolist() == [1, 1] for result in results)
    assert (report.pairs, report.items) == (24, 24)
    assert most <= 6  # this segment's, the next one's, and one on its way

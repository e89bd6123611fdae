"""Oracle: arithmetic, and brute force over all ways to judge what nobody judged."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import Conventions, Judgments, MetricError, evaluate
from metrics.unjudged import unjudged_bounds
from tests.metrics.tables import Scores, judgments_of, run_of

LOG2_3 = float(np.log2(3))
IDS = ["a", "b", "c", "d", "e"]
RANKINGS = st.lists(st.sampled_from(IDS), min_size=1, max_size=5, unique=True)
GRADES = st.dictionaries(st.sampled_from(IDS), st.integers(-1, 2), min_size=1, max_size=3)


def ranking(*documents: str) -> dict[str, float]:
    return {document: -float(rank) for rank, document in enumerate(documents)}


def bounds(
    before: Scores, after: Scores, qrels: Scores, measure: str, **how: object
) -> list[float]:
    runs = run_of(before), run_of(after)
    return list(unjudged_bounds(*runs, judgments_of(qrels), measure, Conventions(**how)))


def delta(before: Scores, after: Scores, qrels: Scores, measure: str) -> float:
    ours, theirs = (
        evaluate(run_of(run), judgments_of(qrels), [measure]).values[measure]
        for run in (before, after)
    )
    return float(np.mean(theirs - ours))


def test_one_unjudged_document_in_one_list() -> None:
    """u is in the challenger's list only: 0 or 2 (the highest grade) at rank 1."""
    before, after = {"q": ranking("a", "b")}, {"q": ranking("u", "a")}
    qrels = {"q": {"a": 2, "b": 0}}
    assert bounds(before, after, qrels, "P@1") == [-1.0, 0.0]
    assert bounds(before, after, qrels, "P@2") == [0.0, 1 / 2]
    assert bounds(before, after, qrels, "DCG") == pytest.approx([2 / LOG2_3 - 2, 2 / LOG2_3])
    # as relevant it stands in the ideal order of both: (2 + 2 / log2 3) is 1
    low, high = bounds(before, after, qrels, "nDCG")
    assert (low, high) == pytest.approx((1 / LOG2_3 - 1, 1 - 1 / (1 + 1 / LOG2_3)))


def test_equal_ranks_and_ranks_beyond_the_cutoff_stay_as_they_are() -> None:
    """u has rank 1 in both lists; v moves from 4 to 3 below the cutoff 2."""
    before, after = {"q": ranking("u", "a", "b", "v")}, {"q": ranking("u", "b", "v", "a")}
    qrels = {"q": {"a": 1, "b": 0}}
    measured = delta(before, after, qrels, "nDCG@2")
    assert bounds(before, after, qrels, "nDCG@2") == [measured, measured]
    assert bounds(before, after, qrels, "AP")[1] > delta(before, after, qrels, "AP")
    assert bounds(before, before, qrels, "AP") == [0.0, 0.0]


def test_the_worst_grade_is_a_judgment() -> None:
    """As judged non-relevant, u costs bpref all; as relevant it is one of two, missed before."""
    before, after = {"q": ranking("a")}, {"q": ranking("u", "a")}
    assert bounds(before, after, {"q": {"a": 1, "b": 0}}, "bpref") == [-1.0, 1 - 1 / 2]


def test_negative_grades_are_unjudged_and_rel_is_the_least_that_counts() -> None:
    """n gives its grade up; where nothing is relevant the highest grade is the relevance level."""
    before, after = {"q": ranking("a", "n")}, {"q": ranking("n", "a")}
    assert bounds(before, after, {"q": {"a": 0, "n": -1}}, "P@1") == [0.0, 1.0]
    assert bounds(before, after, {"q": {"a": 0, "n": -1}}, "P@1", rel=3) == [0.0, 1.0]
    assert bounds(before, after, {"q": {"a": 0, "n": 0}}, "P@1") == [0.0, 0.0]


def test_depth_absent_queries_and_ties() -> None:
    """A list that cuts u does not have it; queries outside both means do not count."""
    before, after = {"q": ranking("a", "u"), "r": ranking("x")}, {"q": ranking("u", "a")}
    qrels = {"q": {"a": 1}, "r": {"x": 1}}
    assert bounds(before, after, qrels, "R@2", depth=1) == [-1.0, (1 / 2 - 1 / 2 - 1) / 2]
    moved = {"q": ranking("a", "b", "u")}, {"q": ranking("b", "u", "a")}
    assert bounds(*moved, {"q": {"a": 1, "b": 0}}, "R", depth=1) == [-1.0, -1.0]
    assert bounds(before, after, qrels, "RR", queries="intersection") == [-1 / 2, 1 - 1]
    tied = {"q": {"a": 1.0, "u": 1.0}}
    assert bounds(before, tied, {"q": {"a": 1}}, "P@1", tie="expected") == [-1 / 2, 0.0]


def test_no_query_in_both_systems_is_nan() -> None:
    """No mean, no bounds."""
    found = bounds(
        {"q": ranking("a")}, {"r": ranking("a")}, {"q": {"a": 1}}, "RR", queries="intersection"
    )
    assert np.isnan(found).all()


def test_measures_of_subtopics_are_refused() -> None:
    """Nobody knows which subtopic an unjudged document would serve."""
    one = np.array(["q"], dtype=object)
    judged = Judgments(one, one, np.ones(1), one)
    with pytest.raises(MetricError, match="has no subtopic"):
        unjudged_bounds(run_of({}), run_of({}), judged, "alpha_nDCG@5")


@settings(max_examples=300, deadline=None)
@given(lists=st.tuples(RANKINGS, RANKINGS, RANKINGS, RANKINGS), grades=st.tuples(GRADES, GRADES))
def test_the_bounds_are_the_extremes_of_measures_that_add_up(
    lists: tuple[list[str], ...], grades: tuple[dict[str, int], ...]
) -> None:
    """All 2^u ways to judge u documents as 0 or the highest grade, two queries at a time."""
    before = {"q": ranking(*lists[0]), "r": ranking(*lists[1])}
    after = {"q": ranking(*lists[2]), "r": ranking(*lists[3])}
    qrels = {"q": dict(grades[0]), "r": dict(grades[1])}
    highest = max(1, *grades[0].values(), *grades[1].values())
    unjudged = [
        (query, document)
        for query in qrels
        for document in sorted({*before[query], *after[query]})
        if qrels[query].get(document, -1) < 0
    ]
    if len(unjudged) > 7:
        return
    measures = ["P@2", "DCG@3", "DCG(gain=exp2)", "RBP(p=0.5)"]
    runs: list[dict[str, Scores]] = [{}, {}]
    ways: dict[str, Scores] = {}
    for number, way in enumerate(product([0, highest], repeat=len(unjudged))):
        judged = {query: dict(known) for query, known in qrels.items()}
        for (query, document), grade in zip(unjudged, way, strict=True):
            judged[query][document] = grade
        for query in qrels:
            name = f"{number:04d} {query}"
            ways[name] = judged[query]
            runs[0][name], runs[1][name] = before[query], after[query]
    ours, theirs = (evaluate(run_of(run), judgments_of(ways), measures) for run in runs)
    for measure in measures:
        deltas = (theirs.values[measure] - ours.values[measure]).reshape(-1, 2).mean(axis=1)
        found = bounds(before, after, qrels, measure)
        assert found == pytest.approx([deltas.min(), deltas.max()], abs=1e-12), measure

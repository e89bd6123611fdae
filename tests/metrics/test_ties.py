"""Oracle: brute force. Every order of tied documents becomes a query of its own with definite
scores; the definite order itself is checked against pytrec_eval elsewhere."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import Conventions, Run, evaluate
from tests.metrics.tables import Scores, judgments_of, run_of

MEASURES = [
    "nDCG",
    "nDCG@3",
    "nDCG(gain=exp2)@2",
    "nDCG(ideal=candidates)@3",
    "nDCG(gain={1:1,2:5,3:7})@4",
    "DCG@3",
    "RR",
    "RR@2",
    "RR(rel=2)@4",
    "AP",
    "AP@3",
    "AP(rel=2)",
    "AP(denominator=min(k,R))@2",
    "P@3",
    "R@2",
    "R_cap@2",
    "Success@1",
    "Success@3",
    "Success(rel=2)@2",
    "Rprec",
    "F1@3",
    "bpref",
    "bpref(rel=2)",
    "RBP(p=0.5)",
    "RBP(p=0.8)@3",
    "ERR",
    "ERR@2",
    "headroom(nDCG@3)",
    "oracle(AP)",
]
OF_THE_JUDGING = ["Judged@3", "unjudged@3", "unjudged(denominator=returned)@6", "RBP_residual@3"]
GRADES = st.one_of(st.none(), st.integers(-1, 3))  # None: unjudged
LISTS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), GRADES), min_size=1, max_size=7)
MISSED = st.lists(st.integers(0, 3), max_size=2)  # grades of judged documents not retrieved


def allowed_orders(scores: list[float]) -> list[tuple[int, ...]]:
    return [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in zip(order, order[1:], strict=False))
    ]


def every_order(
    documents: list[tuple[float, int | None]], missed: list[int], measures: list[str]
) -> dict[str, np.ndarray]:
    """Values of each measure for each allowed order: measure -> (n_orders,) float64."""
    run, qrels = {}, {}
    grades = {f"d{i}": grade for i, (_, grade) in enumerate(documents) if grade is not None}
    grades |= {f"missed{i}": grade for i, grade in enumerate(missed)}
    for number, order in enumerate(allowed_orders([score for score, _ in documents])):
        run[f"q{number}"] = {f"d{i}": -float(rank) for rank, i in enumerate(order)}
        qrels[f"q{number}"] = grades
    return dict(evaluate(run_of(run), judgments_of(qrels), measures).values)


def tied(
    documents: list[tuple[float, int | None]], missed: list[int], measures: list[str], tie: str
) -> dict[str, float]:
    run = {"q": {f"d{i}": score for i, (score, _) in enumerate(documents)}}
    grades = {f"d{i}": grade for i, (_, grade) in enumerate(documents) if grade is not None}
    grades |= {f"missed{i}": grade for i, grade in enumerate(missed)}
    found = evaluate(run_of(run), judgments_of({"q": grades}), measures, Conventions(tie=tie))
    return {measure: float(column[0]) for measure, column in found.values.items()}


def judged_something(documents: list[tuple[float, int | None]], missed: list[int]) -> bool:
    return bool(missed) or any(grade is not None for _, grade in documents)


@settings(max_examples=150, deadline=None)
@given(documents=LISTS, missed=MISSED)
def test_expected_is_the_mean_over_all_orders(
    documents: list[tuple[float, int | None]], missed: list[int]
) -> None:
    """Closed forms (McSherry and Najork 2008 and own) equal the mean over all permutations."""
    if not judged_something(documents, missed):
        return
    measures = MEASURES + OF_THE_JUDGING
    orders = every_order(documents, missed, measures)
    found = tied(documents, missed, measures, "expected")
    for measure, values in orders.items():
        assert found[measure] == pytest.approx(values.mean(), abs=1e-12), measure


@settings(max_examples=100, deadline=None)
@given(documents=LISTS, missed=MISSED)
def test_pessimistic_and_optimistic_bound_all_orders(
    documents: list[tuple[float, int | None]], missed: list[int]
) -> None:
    """The lowest and the highest value over all permutations, in every measure of quality."""
    if not judged_something(documents, missed):
        return
    measures = [measure for measure in MEASURES if not measure.startswith("headroom")]
    orders = every_order(documents, missed, measures)
    worst = tied(documents, missed, measures, "pessimistic")
    best = tied(documents, missed, measures, "optimistic")
    for measure, values in orders.items():
        assert worst[measure] == pytest.approx(values.min(), abs=1e-12), measure
        assert best[measure] == pytest.approx(values.max(), abs=1e-12), measure


def test_expected_of_one_constant_list_by_hand() -> None:
    """One relevant of three tied: RR = (1 + 1/2 + 1/3) / 3, nDCG = mean of 1/log2(rank + 1)."""
    documents = [(1.0, 1), (1.0, 0), (1.0, 0)]
    found = tied(documents, [], ["RR", "AP", "nDCG@10", "Success@1"], "expected")
    assert found["RR"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["AP"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["nDCG@10"] == pytest.approx((1 + 1 / np.log2(3) + 1 / np.log2(4)) / 3)
    assert found["Success@1"] == pytest.approx(1 / 3)


def test_rules_order_by_bytes_or_by_stage_1() -> None:
    """trec: id descending by UTF-8 bytes, so U+1F600 precedes U+FF5E, unlike in UTF-16."""
    ids = np.array(["\uff5e", "\U0001f600", "a"], dtype=object)
    queries = np.array(["q"] * 3, dtype=object)
    run = Run(queries, ids, np.zeros(3), positions=np.array([2, 3, 1]))
    relevant: Scores = {"q": {"\uff5e": 1}}
    first = {"trec": 2, "docid_asc": 2, "input": 2}
    for tie, rank in first.items():
        value = evaluate(run, judgments_of(relevant), ["RR"], Conventions(tie=tie)).mean("RR")
        assert value == 1 / rank, tie
    emoji = judgments_of({"q": {"\U0001f600": 1}})
    assert evaluate(run, emoji, ["RR"]).mean("RR") == 1.0
    assert evaluate(run, emoji, ["RR"], Conventions(tie="input")).mean("RR") == 1 / 3


def test_tie_counts() -> None:
    """Shares count documents with an equal score in their query; a cutoff counts queries."""
    run = {"q1": {"a": 1.0, "b": 1.0, "c": 0.0}, "q2": {"a": 2.0, "b": 1.0}, "q3": {}}
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}
    found = evaluate(run_of(run), judgments_of(qrels), ["P@1", "oracle(P@2)", "RR"])
    assert found.tied_share.tolist() == [2 / 3, 0.0, 0.0]
    assert found.tie_rate == 2 / 5
    assert dict(found.ties_at_cutoff) == {1: 1, 2: 0}

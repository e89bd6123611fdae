"""Oracle: brute force. Every order of tied documents becomes a query of its own with definite
scores; the definite order itself is checked against pytrec_eval elsewhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from metrics import METRICS, Conventions, MetricError, Run, evaluate, parse_measure
from tests.metrics.tables import TIED_SCORES, Scores, judgments_of, run_of, tables

MEASURES = [
    "nDCG",
    "nDCG@3",
    "nDCG(gain=exp2)@2",
    "nDCG(ideal=candidates)@3",
    "nDCG(gain={1:1,2:5,3:7})@4",
    "nDCG(ideal=candidates)",
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
    "R",
    "headroom(nDCG@3)",
    "oracle(AP)",
    "headroom(RBP(p=0.5)@2)",
]
# lowest grade first is not their worst order: gains that fall, unjudged documents of the pool
NOT_BY_GRADE = [
    "DCG(gain={1:5,2:1,3:2})@3",
    "nDCG(gain={1:5,2:1,3:2},ideal=candidates)@4",
    "nDCG(gain={1:5,2:1,3:2})",
    "oracle(nDCG(gain={1:5,2:1,3:2})@3)",
    "headroom(nDCG(gain={1:5,2:1,3:2})@3)",
    "infAP",
    "infAP(rel=2)",
    "headroom(infAP)",
]
OF_THE_JUDGING = [
    "Judged@3",
    "Judged(denominator=k)@6",
    "unjudged@3",
    "unjudged(denominator=returned)@6",
    "RBP_residual@3",
    "RBP_residual(p=0.5)",
    "candidate_recall",
    "candidate_coverage",
]
GRADES = st.one_of(st.none(), st.integers(-1, 3))  # None: unjudged
LISTS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), GRADES), min_size=1, max_size=7)
MISSED = st.lists(st.integers(0, 3), max_size=2)  # grades of judged documents not retrieved
Case: TypeAlias = tuple[list[tuple[float, int | None]], list[int]]


def judged_something(case: Case) -> bool:
    documents, missed = case
    return bool(missed) or any(grade is not None for _, grade in documents)


CASES = st.lists(st.tuples(LISTS, MISSED).filter(judged_something), min_size=4, max_size=4)


def allowed_orders(scores: list[float]) -> list[tuple[int, ...]]:
    return [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in zip(order, order[1:], strict=False))
    ]


def grades_of(case: Case) -> dict[str, float]:
    documents, missed = case
    found = {f"d{i}": float(grade) for i, (_, grade) in enumerate(documents) if grade is not None}
    return found | {f"missed{i}": float(grade) for i, grade in enumerate(missed)}


def every_order(cases: list[Case], measures: list[str]) -> dict[str, list[np.ndarray]]:
    """Values of each measure for each allowed order: measure -> (n_orders,) float64 a case."""
    run, qrels, owners = {}, {}, {}
    for at, case in enumerate(cases):
        grades = grades_of(case)
        for number, order in enumerate(allowed_orders([score for score, _ in case[0]])):
            query = f"{at} {number}"
            run[query] = {f"d{i}": -float(rank) for rank, i in enumerate(order)}
            qrels[query], owners[query] = grades, at
    found = evaluate(run_of(run), judgments_of(qrels), measures)
    owner = np.array([owners[query] for query in found.query_ids])
    return {
        measure: [values[owner == at] for at in range(len(cases))]
        for measure, values in found.values.items()
    }


def tied(cases: list[Case], measures: list[str], tie: str) -> dict[str, np.ndarray]:
    """Values of each measure under the rule: measure -> (n_cases,) float64."""
    run = {
        f"{at}": {f"d{i}": score for i, (score, _) in enumerate(documents)}
        for at, (documents, _) in enumerate(cases)
    }
    qrels = {f"{at}": grades_of(case) for at, case in enumerate(cases)}
    how = Conventions(tie=tie)
    return dict(evaluate(run_of(run), judgments_of(qrels), measures, how).values)


@settings(max_examples=500, deadline=None)
@given(cases=CASES)
def test_expected_is_the_mean_over_all_orders(cases: list[Case]) -> None:
    """Closed forms (McSherry and Najork 2008 and own) equal the mean over all permutations."""
    measures = MEASURES + NOT_BY_GRADE + OF_THE_JUDGING
    orders, found = every_order(cases, measures), tied(cases, measures, "expected")
    for measure in measures:
        wanted = [values.mean() for values in orders[measure]]
        assert found[measure] == pytest.approx(wanted, abs=1e-12), measure


@settings(max_examples=100, deadline=None)
@given(cases=CASES)
def test_pessimistic_and_optimistic_bound_all_orders(cases: list[Case]) -> None:
    """The lowest and the highest value over all permutations, in every measure of quality."""
    measures = [measure for measure in MEASURES if not measure.startswith("headroom")]
    orders = every_order(cases, measures)
    worst, best = tied(cases, measures, "pessimistic"), tied(cases, measures, "optimistic")
    for measure in measures:
        lowest, highest = zip(*((v.min(), v.max()) for v in orders[measure]), strict=True)
        assert worst[measure] == pytest.approx(lowest, abs=1e-12), measure
        assert best[measure] == pytest.approx(highest, abs=1e-12), measure


def test_every_measure_is_in_the_brute_force() -> None:
    """A new row in METRICS needs a row here; diversity and grouped AP have files of their own."""
    tested = {parse_measure(name).name for name in MEASURES + NOT_BY_GRADE + OF_THE_JUDGING}
    assert tested == {name for name, row in METRICS.items() if not row.needs_subtopics}


@settings(max_examples=50, deadline=None)
@given(cases=CASES)
def test_infap_without_negative_grades_is_bounded(cases: list[Case]) -> None:
    """Where all of the pool is judged, the order by grade is infAP's worst and best order."""
    judged = [
        ([(score, None if grade == -1 else grade) for score, grade in documents], [*missed, 1])
        for documents, missed in cases
    ]
    orders = every_order(judged, ["infAP"])["infAP"]
    worst, best = (tied(judged, ["infAP"], tie)["infAP"] for tie in ("pessimistic", "optimistic"))
    assert worst == pytest.approx([values.min() for values in orders], abs=1e-12)
    assert best == pytest.approx([values.max() for values in orders], abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(documents=LISTS)
def test_grouped_ap_is_scikit_learns(documents: list[tuple[float, int | None]]) -> None:
    """average_precision_score takes all documents of one score at once."""
    relevant = [int((grade or 0) >= 1) for _, grade in documents]
    if not any(relevant):
        return
    measures = ["AP(ties=grouped)", f"AP(ties=grouped)@{len(documents)}"]
    wanted = average_precision_score(relevant, [score for score, _ in documents])
    for values in tied([(documents, [])], measures, "expected").values():
        assert values[0] == pytest.approx(wanted, abs=1e-12)


def test_grouped_ap_where_a_cutoff_or_a_missed_document_enters() -> None:
    """Two of three tied are relevant, R = 3: each rank adds 2/3 * 2/3; a definite order, its AP."""
    cases: list[Case] = [([(1.0, 1), (1.0, 1), (1.0, 0)], [1])]
    found = tied(cases, ["AP(ties=grouped)", "AP(ties=grouped)@2"], "expected")
    assert found["AP(ties=grouped)"][0] == pytest.approx(3 * 4 / 9 / 3)
    assert found["AP(ties=grouped)@2"][0] == pytest.approx(2 * 4 / 9 / 3)
    definite = tied(cases, ["AP(ties=grouped)", "AP"], "optimistic")
    assert definite["AP(ties=grouped)"][0] == definite["AP"][0] == 2 / 3


@settings(max_examples=300, deadline=None)
@given(
    run=tables(TIED_SCORES, at_least=0),
    qrels=tables(st.integers(-2, 3), at_least=1),
    tie=st.sampled_from(["trec", "input", "expected", "pessimistic", "optimistic"]),
    depth=st.sampled_from([None, 2]),
    judged_only=st.booleans(),
)
def test_range_of_the_mean(
    run: Scores, qrels: Scores, tie: str, depth: int | None, judged_only: bool
) -> None:
    """The two rules by grade, query by query: whatever rule was asked, cuts and all."""
    names = [*MEASURES, *OF_THE_JUDGING]
    how = Conventions(tie=tie, depth=depth, judged_only=judged_only, no_relevant="nan")
    tables_ = run_of(run), judgments_of(qrels)
    try:
        found = evaluate(*tables_, names, how)
    except MetricError:
        assert tie == "expected"
        assert depth
        return
    ends = [
        evaluate(*tables_, names, replace(how, tie=end)).values
        for end in ("pessimistic", "optimistic")
    ]
    for name in names:
        lows = np.fmin(ends[0][name], ends[1][name])
        highs = np.fmax(ends[0][name], ends[1][name])
        low, high = (np.nanmean(x) if found.n(name) else np.nan for x in (lows, highs))
        assert found.tie_range[name] == pytest.approx((low, high), abs=1e-15, nan_ok=True), name
        # where the cut chooses the candidates, their best order moves with the rule
        if found.n(name) and not (depth and ("candidates" in name or "headroom" in name)):
            assert low - 1e-12 <= found.mean(name) <= high + 1e-12, name


def test_range_without_ties_is_the_mean() -> None:
    """To the bit; and documents that a measure cannot tell apart are no range."""
    qrels = judgments_of({"q": {"a": 1, "b": 2, "c": 2}, "r": {"x": 1}})
    run = run_of({"q": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0, "e": 1.0}, "r": {"x": 0.3}})
    found = evaluate(run, qrels, MEASURES)
    assert found.tie_rate == 4 / 6
    assert {name: (found.mean(name),) * 2 for name in MEASURES} == dict(found.tie_range)


def test_expected_of_one_constant_list_by_hand() -> None:
    """One relevant of three tied: RR = (1 + 1/2 + 1/3) / 3, nDCG = mean of 1/log2(rank + 1)."""
    cases: list[Case] = [([(1.0, 1), (1.0, 0), (1.0, 0)], [])]
    found = tied(cases, ["RR", "AP", "nDCG@10", "Success@1"], "expected")
    assert found["RR"][0] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["AP"][0] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["nDCG@10"][0] == pytest.approx((1 + 1 / np.log2(3) + 1 / np.log2(4)) / 3)
    assert found["Success@1"][0] == pytest.approx(1 / 3)


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

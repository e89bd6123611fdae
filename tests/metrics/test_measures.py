"""Oracle: each measure's formula written out on one list; names against ir_measures' spelling."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metrics
from metrics import METRICS, Judgments, MetricError, Run, evaluate, parse_measure
from tests.metrics.tables import judgments_of, run_of

LOG2_3, LOG2_5 = float(np.log2(3)), float(np.log2(5))
# ranks 1..5 hold grades 2, unjudged, 0, 3, -1; a document of grade 1 was not retrieved: R = 3
RUN = run_of({"q": {"a": 5.0, "u": 4.0, "b": 3.0, "c": 2.0, "n": 1.0}})
QRELS = judgments_of({"q": {"a": 2, "b": 0, "c": 3, "n": -1, "missed": 1}})
# the same highest grades by subtopic: a serves x, c serves x and y, missed serves z
BY_SUBTOPIC = Judgments(
    *(
        np.array(column, dtype=object)
        for column in (["q"] * 6, ["a", "b", "c", "c", "n", "missed"])
    ),
    grades=np.array([2.0, 0.0, 3.0, 1.0, -1.0, 1.0]),
    subtopics=np.array(["x", "x", "x", "y", "y", "z"], dtype=object),
)
BY_HAND = {
    "DCG": 2 + 3 / LOG2_5,
    "DCG(gain=exp2)@4": 3 + 7 / LOG2_5,
    "DCG(gain={1:1,2:10,3:20})": 10 + 20 / LOG2_5,
    "nDCG": (2 + 3 / LOG2_5) / (3 + 2 / LOG2_3 + 1 / 2),
    "nDCG@2": 2 / (3 + 2 / LOG2_3),
    "nDCG(ideal=candidates)@4": (2 + 3 / LOG2_5) / (3 + 2 / LOG2_3),
    "oracle(nDCG)": (3 + 2 / LOG2_3) / (3 + 2 / LOG2_3 + 1 / 2),
    "RR": 1.0,
    "RR(rel=3)": 1 / 4,
    "RR(rel=3)@3": 0.0,
    "AP": (1 + 2 / 4) / 3,
    "AP@3": 1 / 3,
    "AP(denominator=min(k,R))@2": 1 / 2,
    "P@4": 2 / 4,
    "P@10": 2 / 10,
    "R@4": 2 / 3,
    "R": 2 / 3,
    "R_cap@1": 1.0,
    "R_cap@10": 2 / 3,
    "Success@1": 1.0,
    "Success(rel=3)@3": 0.0,
    "Rprec": 1 / 3,
    "F1@4": 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3),
    "bpref": (1 + (1 - 1 / 1)) / 3,
    # above c (rank 4): a relevant, b not, u outside the pool: p = (1 + e) / (2 + 2e) = 1/2, c = 2
    "infAP": (1 + (1 + 2 * 1 / 2) / 4) / 3,
    "nDCG(gain={1:4,2:5,3:1})": (5 + 1 / LOG2_5) / (5 + 4 / LOG2_3 + 1 / 2),
    "nDCG(gain={2:5,3:1},ideal=candidates)@3": 5 / (5 + 1 / LOG2_3),
    "oracle(DCG(gain={2:5,3:1})@3)": 5 + 1 / LOG2_3,
    "headroom(DCG(gain={2:5,3:1})@3)": 1 / LOG2_3,
    "AP(ties=grouped)": (1 + 2 / 4) / 3,
    "alpha_nDCG@4": (1 + 1.5 / LOG2_5) / (2 + 1 / LOG2_3 + 0.5 / 2),
    "subtopic_recall@4": 2 / 3,
    "RBP(p=0.5)": 0.5 * (1 + 0.5**3),
    "RBP_residual(p=0.5)": 0.5 * (0.5**1 + 0.5**4) + 0.5**5,
    "RBP_residual(p=0.5)@3": 0.5 * 0.5**1 + 0.5**3,
    "ERR": 3 / 16 + 1 / 4 * (1 - 3 / 16) * 7 / 16,
    "ERR(max=3)@3": 3 / 8,
    "Judged@3": 2 / 3,
    "Judged@10": 3 / 5,
    "Judged(denominator=k)@10": 3 / 10,
    "unjudged@5": 2 / 5,
    "unjudged@10": 2 / 10,
    "unjudged(denominator=returned)@10": 2 / 5,
    "candidate_recall": 2 / 3,
    "candidate_coverage": 1.0,
    "headroom(RR)": 0.0,
    "headroom(AP)": 2 / 3 - (1 + 2 / 4) / 3,
}


@pytest.mark.parametrize("measure", BY_HAND)
def test_formula_by_hand(measure: str) -> None:
    """Each measure equals its own formula on a list with every kind of document."""
    found = evaluate(RUN, BY_SUBTOPIC, [measure])
    assert found.values[measure][0] == pytest.approx(BY_HAND[measure], abs=1e-12)
    if not parse_measure(measure).metric.needs_subtopics:
        plain = evaluate(RUN, QRELS, [measure])
        assert plain.values[measure].tobytes() == found.values[measure].tobytes()


def test_every_metric_is_checked_by_hand() -> None:
    """A new row in METRICS needs a row in BY_HAND."""
    assert {parse_measure(name).name for name in BY_HAND} == set(METRICS)


def test_candidates_count_by_stage_1_rank() -> None:
    """candidate_recall@N does not move with the system's scores."""
    stage_1 = np.array([5, 4, 3, 1, 2])  # c first, then n, b, u, a
    run = Run(RUN.query_ids, RUN.doc_ids, RUN.scores, positions=stage_1)
    names = ["candidate_recall@1", "candidate_recall@4", "candidate_recall(rel=2)@5"]
    values = evaluate(run, QRELS, [*names, "candidate_coverage(rel=3)@1"]).values
    assert [float(column[0]) for column in values.values()] == [1 / 3, 1 / 3, 1.0, 1.0]
    with pytest.raises(MetricError, match="candidate_recall@4 counts by stage-1 rank"):
        evaluate(RUN, QRELS, ["candidate_recall@4"])


@pytest.mark.parametrize("measure", [name for name in BY_HAND if "headroom" not in name])
def test_no_query_and_no_list_are_fine(measure: str) -> None:
    """Nothing judged: nothing evaluated. Nothing retrieved: 0 (all is unseen for RBP_residual)."""
    nothing = Judgments(*(BY_SUBTOPIC.query_ids[:0],) * 2, np.zeros(0), BY_SUBTOPIC.subtopics[:0])
    assert evaluate(RUN, nothing, [measure]).n(measure) == 0
    found = evaluate(run_of({}), BY_SUBTOPIC, [measure])
    assert found.values[measure].tolist() == [1.0 if "residual" in measure else 0.0]


@pytest.mark.parametrize(
    ("asked", "canonical"),
    [
        ("MRR@10", "RR@10"),
        ("Hit@1", "Success@1"),
        ("MAP", "AP"),
        (" nDCG@10 ", "nDCG@10"),
        ("R(rel = 2)@5", "R(rel=2)@5"),
        ("AP(rel=2, denominator=min(k,R))@5", "AP(denominator=min(k,R),rel=2)@5"),
        ("RBP(p=.8)", "RBP(p=0.8)"),
        ("nDCG(gain={3:7,1:1})@5", "nDCG(gain={1:1,3:7})@5"),
        ("nDCG(gain={1:3,2:9,4:4.5})", "nDCG(gain={1:3,2:9,4:4.5})"),
        ("StRecall@20", "subtopic_recall@20"),
        ("oracle(MRR@10)", "oracle(RR@10)"),
        ("headroom(nDCG(gain=exp2)@10)", "headroom(nDCG(gain=exp2)@10)"),
    ],
)
def test_canonical_names(asked: str, canonical: str) -> None:
    """Aliases are accepted; the canonical name reads back to the same value."""
    measure = parse_measure(asked)
    assert str(measure) == canonical
    assert parse_measure(canonical) == measure


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ndgc@10", r"unknown measure 'ndgc'; did you mean nDCG\? known measures: nDCG, DCG"),
        ("xyzzy", "unknown measure 'xyzzy'; known measures"),
        ("P", "needs a cutoff: write P@10"),
        ("bpref@5", "takes no cutoff"),
        ("P@0", "cutoff '0'"),
        ("P@ten", "cutoff 'ten'"),
        ("P@5@6", "cutoff '5@6'"),
        ("P(rel=0)@5", "rel=0 in P: write rel=a whole number from 1"),
        ("P(rel=2,rel=3)@5", "each once"),
        ("P(level=2)@5", "no parameter of P; it takes rel="),
        ("RBP(p=1)", "between 0 and 1"),
        ("RBP(p=nan)", "between 0 and 1"),
        ("nDCG(gain=burges)@5", "gain=burges in nDCG: write gain=linear|exp2"),
        ("nDCG(gain={1:5,2:-3})@5", "gains from 0"),
        ("nDCG(gain={0:1,1:5})@5", "grades from 1"),
        ("nDCG(gain={1:1,1:5})@5", "write gain="),
        ("AP(ties=group)", r"write ties=mean\|grouped"),
        ("infAP@5", "takes no cutoff"),
        ("alpha_nDCG(alpha=1)@5", "between 0 and 1"),
        ("oracle(alpha_nDCG@5)", "has no best order"),
        ("oracle(nDCG@10)@5", r"write oracle\(MEASURE\)"),
        ("oracle", r"write oracle\(MEASURE\)"),
        ("oracle(oracle(RR))", "has no best order, so it has no oracle"),
        ("headroom(unjudged@10)", "has no best order"),
        ("", "is no measure"),
        ("nDCG@10 extra)", "cutoff"),
    ],
)
def test_wrong_names_say_what_to_write(name: str, says: str) -> None:
    """One sentence with the accepted spelling."""
    with pytest.raises(MetricError, match=says):
        parse_measure(name)


@given(st.text(max_size=30))
def test_no_other_error_than_metric_error(name: str) -> None:
    """Any text is a measure or a MetricError."""
    try:
        assert str(parse_measure(name))
    except MetricError:
        return


def test_grades_outside_the_scale_are_named() -> None:
    """ERR and gain tables know their grades; another one is an error, not a guess."""
    high = judgments_of({"q": {"a": 5}})
    with pytest.raises(MetricError, match=r"grade 5 is above .* ERR\(max=5\)"):
        evaluate(RUN, high, ["ERR@10"])
    with pytest.raises(MetricError, match="grade 5 has no gain"):
        evaluate(RUN, high, ["nDCG(gain={1:1})@10"])


def test_every_row_describes_itself() -> None:
    """One line for `rerank measures`, a source, and a docstring with the formula."""
    for name, row in METRICS.items():
        assert row.description, name
        assert row.source, name
        assert "\n" not in row.description
        if row.function is not None:
            assert "=" in (row.function.__doc__ or ""), name


def test_the_package_example_runs() -> None:
    """The doctest in metrics/__init__.py."""
    failed, attempted = doctest.testmod(metrics)
    assert attempted > 0
    assert failed == 0

"""Oracle: the conformance cases of the project, numbers written out (the case is in the name)."""

from __future__ import annotations

import numpy as np
import pytest

from metrics import (
    Conventions,
    Judgments,
    MetricError,
    Run,
    bonferroni,
    bootstrap_interval,
    corrected,
    evaluate,
    holm,
)
from tests.metrics.tables import Scores, judgments_of, run_of

NAN = float("nan")
LOG2_3 = float(np.log2(3))


def mean(run: Scores, qrels: Scores, measure: str, **conventions: object) -> float:
    found = evaluate(run_of(run), judgments_of(qrels), [measure], Conventions(**conventions))
    return found.mean(measure)


@pytest.mark.parametrize(
    ("tie", "measure", "value"),
    [
        ("trec", "RR", 1 / 3),
        ("trec", "AP", 1 / 3),
        ("trec", "nDCG@10", 1 / 2),
        ("trec", "Success@1", 0),
        ("docid_asc", "RR", 1),
        ("docid_asc", "AP", 1),
        ("docid_asc", "nDCG@10", 1),
        ("input", "RR", 1),
        ("expected", "RR", (1 + 1 / 2 + 1 / 3) / 3),
        ("expected", "AP", (1 + 1 / 2 + 1 / 3) / 3),
        ("expected", "nDCG@10", (1 + 1 / LOG2_3 + 1 / 2) / 3),
        ("expected", "Success@1", 1 / 3),
        ("pessimistic", "RR", 1 / 3),
        ("optimistic", "RR", 1),
    ],
)
def test_01_ties_of_a_constant_scorer(tie: str, measure: str, value: float) -> None:
    """One tie rule feeds every measure."""
    run, qrels = {"q1": {"d1": 1.0, "d2": 1.0, "d3": 1.0}}, {"q1": {"d1": 1, "d2": 0, "d3": 0}}
    assert mean(run, qrels, measure, tie=tie) == pytest.approx(value, abs=1e-12)
    assert evaluate(run_of(run), judgments_of(qrels), [measure]).tie_rate == 1.0


@pytest.mark.parametrize(
    ("tie", "precision", "recall"),
    [("trec", 0.5, 1.0), ("docid_asc", 0, 0), ("expected", 0.25, 0.5)],
)
def test_02_a_tie_straddles_the_cutoff(tie: str, precision: float, recall: float) -> None:
    """Two documents tie for rank 2: the rule decides, and the cutoff is reported."""
    run, qrels = {"q1": {"a": 3.0, "b": 2.0, "c": 2.0}}, {"q1": {"b": 0, "c": 1}}
    assert mean(run, qrels, "P@2", tie=tie) == precision
    assert mean(run, qrels, "R@2", tie=tie) == recall
    assert dict(evaluate(run_of(run), judgments_of(qrels), ["P@2"]).ties_at_cutoff) == {2: 1}


def test_04_saturated_probabilities_tie() -> None:
    """sigmoid in float64 keeps apart what rounds to the same number in bf16."""
    logits, qrels = {"a": 22.0, "b": 9.0, "c": 7.5}, {"q": {"a": 1, "b": 0, "c": 0}}
    kept = {"q": {d: 1 / (1 + np.exp(-x)) for d, x in logits.items()}}
    assert evaluate(run_of(kept), judgments_of(qrels), ["RR"]).tie_rate == 0.0
    saturated = {"q": dict.fromkeys(logits, 1.0)}
    found = evaluate(run_of(saturated), judgments_of(qrels), ["RR"])
    assert (found.mean("RR"), found.tie_rate) == (1 / 3, 1.0)


def test_05_nan_score() -> None:
    """An error that names the pair, or the last rank; behind -inf too. Never a mixture."""
    run = {"q1": {"d1": NAN, "d2": 1.0, "d3": float("-inf")}}
    qrels = {"q1": {"d1": 1, "d2": 0, "d3": 0}}
    with pytest.raises(MetricError, match="NaN score for q1/d1") as caught:
        mean(run, qrels, "RR")
    assert caught.value.rows == (0,)
    for measure, value in {"RR": 1 / 3, "RR@10": 1 / 3, "nDCG@10": 1 / 2}.items():
        assert mean(run, qrels, measure, on_bad_score="worst") == value
    how = Conventions(on_bad_score="worst")
    assert evaluate(run_of(run), judgments_of(qrels), ["RR"], how).bad_scores == 1


def test_07_query_missing_from_the_run() -> None:
    """0 and counted, or left out on request; named in both cases."""
    run, qrels = {"q1": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"b": 1}}
    for queries, value, n in [("qrels", 0.5, 2), ("intersection", 1.0, 1)]:
        how = Conventions(queries=queries)
        found = evaluate(run_of(run), judgments_of(qrels), ["RR", "nDCG@10"], how)
        assert found.mean("RR") == found.mean("nDCG@10") == value
        assert (found.n("RR"), found.missing) == (n, ("q2",))


def test_08_query_of_the_run_without_judgments() -> None:
    """Left out of every mean and named."""
    found = evaluate(
        run_of({"q1": {"a": 1.0}, "q9": {"z": 1.0}}), judgments_of({"q1": {"a": 1}}), ["RR"]
    )
    assert (found.mean("RR"), found.n("RR"), found.unjudged_queries) == (1.0, 1, ("q9",))


@pytest.mark.parametrize(
    ("choice", "value", "n"), [("zero", 0.5, 2), ("skip", 1.0, 1), ("nan", 1.0, 1)]
)
def test_09_query_with_no_relevant_document(choice: str, value: float, n: int) -> None:
    """0, left out, or NaN where a measure needs a relevant document; always named."""
    run = {"q1": {"a": 1.0}, "q2": {"b": 1.0}}
    qrels = {"q1": {"a": 1}, "q2": {"b": 0}}
    how = Conventions(no_relevant=choice)
    names = ["nDCG@10", "RR", "R@10", "Judged@10"]
    found = evaluate(run_of(run), judgments_of(qrels), names, how)
    for measure in names[:3]:
        assert (found.mean(measure), found.n(measure)) == (value, n)
    assert found.n("Judged@10") == (1 if choice == "skip" else 2)
    assert found.no_relevant == ("q2",)


def test_10_empty_candidate_list() -> None:
    """0 in every measure, candidate recall included; no division by zero."""
    run, qrels = {"q1": {"a": 1.0}, "q2": {}}, {"q1": {"a": 1}, "q2": {"b": 1}}
    for measure in ("nDCG@10", "candidate_recall", "candidate_coverage", "Judged@10"):
        assert mean(run, qrels, measure) == 0.5
    assert mean(run, qrels, "unjudged(denominator=returned)@10") == 0.0


def test_12_duplicate_document_in_the_run() -> None:
    """An error with both rows, or the best score; never nDCG > 1."""
    ids = np.array(["a", "b", "a"], dtype=object)
    run = Run(np.array(["q1"] * 3, dtype=object), ids, np.array([3.0, 2.0, 1.0]))
    qrels = judgments_of({"q1": {"a": 1, "b": 0}})
    with pytest.raises(MetricError, match=r"'q1' has document 'a' twice .* \(rows 1 and 3\)") as e:
        evaluate(run, qrels, ["RR"])
    assert e.value.rows == (0, 2)
    found = evaluate(run, qrels, ["RR", "nDCG@10"], Conventions(on_duplicate="max"))
    assert found.mean("RR") == found.mean("nDCG@10") == 1.0


def test_14_same_text_under_two_ids_ties() -> None:
    """c91 and c10 get one score: the tie rule decides between them."""
    run = {"q": {"c91": 2.0, "c10": 2.0, "c20": 1.0}}
    qrels = {"q": {"c10": 1, "c91": 0, "c20": 0}}
    assert mean(run, qrels, "RR", tie="trec") == 0.5
    assert mean(run, qrels, "RR", tie="docid_asc") == 1.0


def test_17_ids_are_text_end_to_end() -> None:
    """Leading zeros make another document."""
    assert mean({"q": {"0010": 2.0, "10": 1.0}}, {"q": {"0010": 1, "10": 0}}, "RR") == 1.0


def test_18_integer_ids_are_one_explicit_error() -> None:
    """Never a silent 0 because 1 and "1" do not meet."""
    ids = np.array([1, 2], dtype=object)
    qrels = Judgments(ids, np.array(["a", "b"], dtype=object), np.array([1.0, 0.0]))
    with pytest.raises(MetricError, match=r"id 1 of the judgments \(row 1\) is int, not text"):
        evaluate(run_of({"1": {"a": 1.0}}), qrels, ["RR"])


def test_28_fractional_grades() -> None:
    """An error, or gains; never truncated."""
    run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 0.5, "b": 1.5}}
    with pytest.raises(MetricError, match=r"grade 0.5 of q/a \(row 1 .*not an integer"):
        mean(run, qrels, "nDCG@10")
    value = (0.5 + 1.5 / LOG2_3) / (1.5 + 0.5 / LOG2_3)
    assert mean(run, qrels, "nDCG@10", gains="float") == pytest.approx(value, abs=1e-12)


def test_30_bpref_with_nothing_judged_non_relevant() -> None:
    """Both relevant documents are retrieved: 1, not NaN."""
    run = {"q": {"x": 3.0, "a": 2.0, "b": 1.0}}
    assert mean(run, {"q": {"a": 1, "b": 1}}, "bpref") == 1.0


def test_31_gain_is_part_of_the_name() -> None:
    """Grades 1, unjudged, 3 in ranks 1 to 3, and a 2 that was not retrieved."""
    run = {"q1": {"d2": 4.0, "dx": 3.0, "d1": 2.0}}
    qrels = {"q1": {"d1": 3, "d2": 1, "d3": 0, "d4": 2}}
    linear = (1 + 3 / 2) / (3 + 2 / LOG2_3 + 1 / 2)
    exponential = (1 + 7 / 2) / (7 + 3 / LOG2_3 + 1 / 2)
    assert linear == pytest.approx(0.5250049893849101)
    assert exponential == pytest.approx(0.47909091485969846)
    assert mean(run, qrels, "nDCG@10") == pytest.approx(linear, abs=1e-12)
    assert mean(run, qrels, "nDCG(gain=exp2)@10") == pytest.approx(exponential, abs=1e-12)
    assert mean(run, qrels, "nDCG@10", gains="exp2") == pytest.approx(exponential, abs=1e-12)
    assert mean(run, qrels, "nDCG(gain=linear)@10", gains="exp2") == pytest.approx(linear)


def test_32_relevance_level_moves_binary_measures_only() -> None:
    """rel=2 makes grade 1 non-relevant; nDCG takes its gains from grades."""
    run, qrels = {"q1": {"a": 2.0, "b": 1.0}}, {"q1": {"a": 1, "b": 2}}
    ndcg = (1 + 2 / LOG2_3) / (2 + 1 / LOG2_3)
    for measure in ("RR", "AP"):
        assert mean(run, qrels, measure) == 1.0
        assert mean(run, qrels, measure, rel=2) == 0.5
        assert mean(run, qrels, f"{measure}(rel=2)") == 0.5
    assert mean(run, qrels, "R@10", rel=2) == 1.0
    assert mean(run, qrels, "nDCG@10", rel=2) == pytest.approx(ndcg, abs=1e-12)


def test_33_denominators_of_average_precision() -> None:
    """Five of ten relevant documents in the first five ranks."""
    run = {
        "q1": {f"d{i:02}": 20.0 - i for i in range(1, 6)} | {f"x{i}": 10.0 - i for i in range(5)}
    }
    qrels = {"q1": {f"d{i:02}": 1 for i in range(1, 11)}}
    names = {"AP@5": 0.5, "AP(denominator=min(k,R))@5": 1.0, "R_cap@5": 1.0, "R@5": 0.5}
    for measure, value in names.items():
        assert mean(run, qrels, measure) == value


def test_36_unjudged_is_per_query() -> None:
    """b is judged, but not for q1."""
    run = {"q1": {"b": 2.0, "a": 1.0}, "q2": {"b": 2.0, "a": 1.0}}
    qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    found = evaluate(run_of(run), judgments_of(qrels), ["unjudged@2", "Judged@2", "unjudged@4"])
    assert found.values["unjudged@2"].tolist() == [0.5, 0.5]
    assert found.values["Judged@2"].tolist() == [0.5, 0.5]
    assert found.values["unjudged@4"].tolist() == [0.25, 0.25]


def test_38_the_ideal_may_be_out_of_reach() -> None:
    """p2 was not retrieved: ideal over judged documents against ideal over candidates."""
    qrels = {"q1": {"p1": 1, "p2": 1, "n1": 0}}
    ceiling = 1 / (1 + 1 / LOG2_3)
    perfect, stage_1 = {"q1": {"p1": 2.0, "n1": 1.0}}, {"q1": {"n1": 2.0, "p1": 1.0}}
    names = ["nDCG@10", "nDCG(ideal=candidates)@10", "oracle(nDCG@10)", "headroom(nDCG@10)"]
    wanted = [ceiling, 1.0, ceiling, 0.0]
    assert [mean(perfect, qrels, name) for name in names] == pytest.approx(wanted, abs=1e-12)
    wanted = [ceiling / LOG2_3, 1 / LOG2_3, ceiling, ceiling * (1 - 1 / LOG2_3)]
    assert [mean(stage_1, qrels, name) for name in names] == pytest.approx(wanted, abs=1e-12)
    assert mean(perfect, qrels, "candidate_recall") == 0.5


def test_39_gold_that_was_not_retrieved() -> None:
    """Nothing relevant among the candidates: no reranker can gain anything."""
    run, qrels = {"q1": {"n1": 2.0, "n2": 1.0}}, {"q1": {"p1": 1}}
    for measure in ("nDCG@10", "candidate_recall", "candidate_coverage", "oracle(nDCG@10)"):
        assert mean(run, qrels, measure) == 0.0


def test_42_the_baseline_is_no_test() -> None:
    """m = 3 corrections of 0.012, 0.020, 0.300; a NaN (the baseline) is not counted."""
    p_values = np.array([NAN, 0.012, 0.020, 0.300])
    expected = {
        "bonferroni": [0.036, 0.060, 0.900],
        "holm": [0.036, 0.040, 0.300],
        "bh": [0.030, 0.030, 0.300],
        "none": [0.012, 0.020, 0.300],
    }
    for correction, values in expected.items():
        found = corrected(p_values, correction)
        assert np.isnan(found[0])
        assert found[1:] == pytest.approx(values, abs=1e-12)
    assert (holm(p_values) <= 0.05).tolist() == [False, True, True, False]
    assert (bonferroni(p_values) <= 0.05).tolist() == [False, True, False, False]


def test_44_an_interval_at_the_boundary() -> None:
    """20 of 20 successes: the bootstrap says [1, 1], so Wilson's interval stands in, flagged."""
    found = bootstrap_interval(np.ones(20), rng=np.random.default_rng(17))
    assert found is not None
    assert (found.kind, found.degenerate, found.high) == ("wilson", True, 1.0)
    z2 = 1.959963984540054**2
    assert found.low == pytest.approx(20 / (20 + z2), abs=1e-12)
    assert found.low == pytest.approx(0.8388748419471806, abs=1e-12)


def test_45_failed_rows_are_left_out_and_counted() -> None:
    """Mean over the valid ones 2/3 with n = 3; failures as 0 give 1/2."""
    values = np.array([1.0, 1.0, 0.0, NAN])
    assert np.nanmean(values) == pytest.approx(2 / 3)
    interval = bootstrap_interval(values, rng=np.random.default_rng(0))
    assert interval is not None
    assert (interval.low, interval.high) == (0.0, 1.0)

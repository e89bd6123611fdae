"""Oracles: pytrec_eval, ir_measures, ranx, mteb and sentence-transformers themselves, on random
tables of ties, negative grades, unjudged documents, missing queries and odd ids. Where a tool
differs on purpose the difference is asserted too. BEIR and MS MARCO: their sources, by hand."""

from __future__ import annotations

import math
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import MetricError, evaluate
from metrics.peers import PEERS, evaluate_as, peer
from tests.metrics.tables import GRADES, TIED_SCORES, Scores, judgments_of, run_of, tables

CLOSE = st.sampled_from([0.5, 0.5 + 1e-9, 0.25, 1.0, 1.0 + 1e-9, -2.0])  # equal in float32 alone
JUDGED = st.integers(0, 3)
TREC = {
    "nDCG": "ndcg",
    "nDCG@3": "ndcg_cut_3",
    "RR": "recip_rank",
    "AP": "map",
    "AP@3": "map_cut_3",
    "P@3": "P_3",
    "P@20": "P_20",
    "R@3": "recall_3",
    "Success@1": "success_1",
    "Rprec": "Rprec",
    "bpref": "bpref",
}


def ours(
    tool: str, run: Scores, qrels: Scores, measures: list[str], **overrides: Any
) -> dict[str, dict[str, float]]:
    """Values by query, those left out left out."""
    found = evaluate_as(peer(tool), run_of(run), judgments_of(qrels), measures, overrides)
    return {
        query: {name: float(found.values[name][at]) for name in measures}
        for at, query in enumerate(found.query_ids)
    }


@settings(max_examples=2000, deadline=None)
@given(run=tables(CLOSE | TIED_SCORES, at_least=1), qrels=tables(GRADES, at_least=1))
def test_pytrec_eval(run: Scores, qrels: Scores) -> None:
    """The same queries, the same values to 1e-12, ties by float32."""
    judged = {query: grades for query, grades in qrels.items() if max(grades.values()) >= 0}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(TREC.values()))
    theirs = evaluator.evaluate({query: dict(found) for query, found in run.items()})
    found = ours("pytrec_eval", run, judged, list(TREC))
    assert found.keys() == theirs.keys()
    for query, values in found.items():
        for name, value in values.items():
            assert value == pytest.approx(theirs[query][TREC[name]], abs=1e-12), (query, name)


@settings(max_examples=2000, deadline=None)
@given(run=tables(CLOSE | TIED_SCORES, at_least=1), qrels=tables(JUDGED, at_least=1))
def test_ir_measures(run: Scores, qrels: Scores) -> None:
    """Every judged query, RR@k and Judged@k with ties by ascending id in float64."""
    names = ["nDCG", "nDCG@3", "AP", "P@3", "R@3", "Success@1", "Rprec", "RR", "RR@3", "Judged@3"]
    asked = {name: ir_measures.parse_measure(name) for name in names}
    theirs = {
        (value.query_id, str(value.measure)): value.value
        for value in ir_measures.iter_calc(
            list(asked.values()),
            {query: dict(grades) for query, grades in qrels.items()},
            {query: dict(found) for query, found in run.items() if query in qrels},
        )
    }
    found = ours("ir_measures", run, qrels, names)
    assert set(found) == set(qrels)
    for query, values in found.items():
        for name, measure in asked.items():
            wanted = theirs.get((query, str(measure)), 0.0)
            assert values[name] == pytest.approx(wanted, abs=1e-12), (query, name)


def test_ir_measures_counts_a_negative_grade_as_judged() -> None:
    """A stated difference: trec_eval's pool-not-judged is 0 here, 1 there."""
    qrels, run = {"q": {"a": -1, "b": 1}}, {"q": {"a": 2.0}}
    measure = ir_measures.parse_measure("Judged@1")
    assert ir_measures.calc_aggregate([measure], qrels, run)[measure] == 1.0
    assert ours("ir_measures", run, qrels, ["Judged@1"])["q"]["Judged@1"] == 0.0


RANX = {
    "nDCG@3": "ndcg@3",
    "nDCG(gain=exp2)@3": "ndcg_burges@3",
    "RR@3": "mrr@3",
    "AP": "map",
    "AP@3": "map@3",
    "P@3": "precision@3",
    "R@3": "recall@3",
    "Success@3": "hit_rate@3",
    "Rprec": "r-precision",
}


@settings(max_examples=2000, deadline=None)
@given(run=tables(st.sampled_from([0.5, 0.25, 1.0, -2.0]), at_least=1),
       qrels=tables(GRADES, at_least=1), level=st.sampled_from([1, 2]))  # fmt: skip
def test_ranx(run: Scores, qrels: Scores, level: int) -> None:
    """Input order breaks ties (lists are short), judged queries count, `-l` cuts gains too."""
    import ranx

    names = list(RANX.values()) if level == 1 else [f"{name}-l2" for name in RANX.values()]
    theirs = ranx.evaluate(
        ranx.Qrels({query: dict(grades) for query, grades in qrels.items()}),
        ranx.Run({query: dict(found) for query, found in run.items()}),
        names,
        return_mean=False,
        make_comparable=True,
    )
    found = evaluate_as(peer("ranx"), run_of(run), judgments_of(qrels), list(RANX), {"rel": level})
    for name, column in zip(RANX, theirs.values(), strict=True):
        assert found.mean(name) == pytest.approx(float(np.mean(column)), abs=1e-12), name


def test_what_ranx_does_differently() -> None:
    """bpref is NaN without judged non-relevant documents; 40 ties have no defined order there."""
    import ranx

    qrels, run = {"q": {"a": 1}}, {"q": {"a": 1.0}}
    assert math.isnan(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "bpref"))
    assert ours("ranx", run, qrels, ["bpref"])["q"]["bpref"] == 1.0
    tied = {"q": {f"d{i:02}": 1.0 for i in range(40)}}
    first = {"q": {"d00": 1}}
    assert ours("ranx", tied, first, ["RR"])["q"]["RR"] == 1.0
    assert ranx.evaluate(ranx.Qrels(first), ranx.Run(tied), "mrr") != 1.0


@settings(max_examples=300, deadline=None)
@given(run=tables(CLOSE | TIED_SCORES, at_least=1), qrels=tables(JUDGED, at_least=1))
def test_mteb(run: Scores, qrels: Scores) -> None:
    """pytrec_eval for all but MRR, which compares float64; only queries of the run count."""
    from mteb._evaluators.retrieval_metrics import mrr

    shared = {query: dict(found) for query, found in run.items() if query in qrels}
    judged = {query: dict(grades) for query, grades in qrels.items()}
    found = ours("mteb", run, qrels, ["RR@3", "nDCG@3"])
    assert set(found) == set(shared)
    if shared:
        theirs = dict(zip(shared, mrr(judged, shared, [3])["MRR@3"], strict=True))
        assert {query: values["RR@3"] for query, values in found.items()} == theirs
        evaluator = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.3"})
        for query, values in evaluator.evaluate(shared).items():
            assert found[query]["nDCG@3"] == pytest.approx(values["ndcg_cut_3"], abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(
    scores=st.lists(st.sampled_from([0.5, 0.25, 1.0, -2.0]), min_size=1, max_size=9),
    relevant=st.lists(st.integers(0, 2), min_size=9, max_size=9),
)
def test_sentence_transformers(scores: list[float], relevant: list[int]) -> None:
    """nDCG averaged over ties, AP by thresholds; RR where no order of ties can move it."""
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

    truth = [int(grade > 0) for grade in relevant[: len(scores)]]
    run = {"q": {f"d{i}": score for i, score in enumerate(scores)}}
    qrels = {"q": {f"d{i}": grade for i, grade in enumerate(relevant[: len(scores)])}}
    found = ours("st", run, {"q": {**qrels["q"], "elsewhere": 1}}, ["nDCG@10", "AP", "RR@10"])
    if sum(truth) == 0:
        assert set(found["q"].values()) == {0.0}  # the evaluator gives such a sample 0
        return
    if len(scores) == 1:
        return  # scikit-learn's nDCG refuses a single document
    evaluator = CrossEncoderRerankingEvaluator([{"query": "", "positive": [], "documents": []}])
    rr, ndcg, ap = evaluator.compute_metrics(truth, np.array(scores))
    assert found["q"]["nDCG@10"] == pytest.approx(ndcg, abs=1e-12)
    assert found["q"]["AP"] == pytest.approx(ap, abs=1e-12)
    if len(set(scores)) == len(scores):
        assert found["q"]["RR@10"] == pytest.approx(rr, abs=1e-12)


def test_sentence_transformers_takes_the_last_of_tied_documents() -> None:
    """The measured example: three tied, the first is relevant: .3333, .7103, .3333."""
    run, qrels = {"q": {"d1": 1.0, "d2": 1.0, "d3": 1.0}}, {"q": {"d1": 1, "d2": 0, "d3": 0}}
    found = ours("st", run, qrels, ["RR@10", "nDCG@10", "AP"])["q"]
    assert list(found.values()) == pytest.approx([1 / 3, 0.7103099178571526, 1 / 3])


def test_beir_has_two_denominators_and_drops_identical_ids() -> None:
    """Its measured example: nDCG@10 1.0 over the returned, MRR@10 0.5 over the judged queries."""
    qrels, run = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 1}}, {"q1": {"d1": 2.0, "q1": 3.0}}
    found = evaluate_as(peer("beir"), run_of(run), judgments_of(qrels), ["nDCG@10", "RR@10"])
    assert (found.mean("nDCG@10"), found.n("nDCG@10")) == (1.0, 1)
    assert (found.mean("RR@10"), found.n("RR@10")) == (0.5, 2)
    assert found.missing == ("q2",)
    tied = {"q1": {"d2": 1.0, "d1": 1.0, "d0": 1.0}}
    single = {"q1": {"d1": 1}}
    values = ours("beir", tied, single, ["RR@10", "nDCG@10", "Success@1", "R_cap@2"])["q1"]
    # custom metrics keep the input order (d2, d1, d0), pytrec_eval goes by id descending
    assert list(values.values()) == [0.5, 1 / math.log2(3), 0.0, 1.0]


def test_msmarco_counts_judged_queries_and_every_line_by_rank() -> None:
    """MRR@10 of the official script: the sum over ranked queries divided by the judged ones."""
    assert peer("msmarco").order == "rank"
    ranks = {"q1": {"a": -2.0, "b": -1.0}}
    found = evaluate_as(
        peer("msmarco"), run_of(ranks), judgments_of({"q1": {"a": 1}, "q2": {"z": 1}}), ["RR@10"]
    )
    assert (found.mean("RR@10"), found.n("RR@10")) == (0.25, 2)


def test_trec_eval_presets_differ_in_precision_and_in_queries() -> None:
    """9: float32 and the queries of both; 10: float64 and every judged query (-c)."""
    run, qrels = {"q": {"a": 1.0 + 1e-9, "b": 1.0}}, {"q": {"a": 1}, "z": {"a": 1}}
    nine = evaluate_as(peer("trec_eval9"), run_of(run), judgments_of(qrels), ["RR"])
    ten = evaluate_as(peer("trec_eval10"), run_of(run), judgments_of(qrels), ["RR"])
    assert (nine.mean("RR"), nine.n("RR")) == (0.5, 1)
    assert (ten.mean("RR"), ten.n("RR")) == (0.5, 2)
    assert ten.values["RR"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("tool", list(PEERS))
def test_every_preset_evaluates_its_own_measures(tool: str) -> None:
    """And a stated option wins over the tool's for every measure."""
    run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 0}, "z": {"a": 1}}
    measures = list(PEERS[tool].measures)
    found = evaluate_as(
        peer(tool), run_of(run), judgments_of(qrels), measures, {"queries": "qrels"}
    )
    assert all(found.n(name) == 2 for name in measures)
    plain = evaluate(run_of(run), judgments_of(qrels), ["RR"])
    assert found.missing == plain.missing == ("z",)


def test_an_unknown_tool_is_an_error_with_the_known_ones() -> None:
    """The sentence lists the presets."""
    with pytest.raises(MetricError, match="known: trec_eval9, trec_eval10"):
        peer("trec_eval")

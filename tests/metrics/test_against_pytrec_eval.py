"""Oracle: pytrec_eval-terrier (trec_eval 9) on random ties, negative grades, unjudged documents,
missing queries, short lists and unicode ids."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import Conventions, evaluate
from tests.metrics.tables import GRADES, TIED_SCORES, Scores, judgments_of, run_of, tables

SHARED = {
    "nDCG": "ndcg",
    "nDCG@3": "ndcg_cut_3",
    "nDCG@20": "ndcg_cut_20",
    "RR": "recip_rank",
    "AP": "map",
    "AP@3": "map_cut_3",
    "P@3": "P_3",
    "P@20": "P_20",
    "R@3": "recall_3",
    "R": "set_recall",
    "Success@1": "success_1",
    "Success@3": "success_3",
    "Rprec": "Rprec",
    "R_cap@3": "relative_P_3",
    "bpref": "bpref",
    "infAP": "infAP",
}


def theirs(
    run: Scores, qrels: Scores, level: int, judged_only: bool = False
) -> dict[str, dict[str, float]]:
    """Values per query, without what breaks the memory of pytrec_eval 0.5.11 and is 0 in ours.

    That is an empty list, and a query all of whose grades are negative (crash or endless loop).
    """
    run = {query: dict(found) for query, found in run.items() if found}
    qrels = {query: grades for query, grades in qrels.items() if max(grades.values()) >= 0}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, set(SHARED.values()), relevance_level=level, judged_docs_only_flag=judged_only
    )
    return evaluator.evaluate(run)


def first_ranks(run: Scores, depth: int | None) -> Scores:
    """What trec_eval -M keeps: score descending, then id descending by bytes."""
    return {
        query: dict(
            sorted(found.items(), key=lambda row: (row[1], row[0].encode()), reverse=True)[:depth]
        )
        for query, found in run.items()
    }


@settings(max_examples=2000, deadline=None)
@given(
    run=tables(TIED_SCORES, at_least=0),
    qrels=tables(GRADES, at_least=1),
    level=st.sampled_from([1, 2]),
    depth=st.sampled_from([None, None, 1, 2, 5]),
    judged_only=st.booleans(),
)
def test_every_shared_measure_is_trec_evals(
    run: Scores, qrels: Scores, level: int, depth: int | None, judged_only: bool
) -> None:
    """Values equal to 1e-12 for every query both know; judged queries not in the run are 0.

    depth is trec_eval -M (pytrec_eval has none: its lists are cut before), judged_only is -J.
    """
    how = Conventions(rel=level, depth=depth, judged_only=judged_only)
    ours = evaluate(run_of(run), judgments_of(qrels), list(SHARED), how)
    expected = theirs(first_ranks(run, depth), qrels, level, judged_only)
    assert set(ours.query_ids) == set(qrels)
    for measure, name in SHARED.items():
        wanted = [expected.get(query, {}).get(name, 0.0) for query in ours.query_ids]
        np.testing.assert_allclose(ours.values[measure], wanted, rtol=0, atol=1e-12, err_msg=name)


@settings(max_examples=100, deadline=None)
@given(
    run=tables(st.floats(-1, 1, width=64), at_least=1),
    qrels=tables(GRADES, at_least=1),
)
def test_float32_scores_tie_as_in_trec_eval_9(run: Scores, qrels: Scores) -> None:
    """pytrec_eval compares float32 scores; score_dtype="float32" does the same."""
    close = {
        query: {d: 0.5 + s * 1e-8 for d, s in documents.items()} for query, documents in run.items()
    }
    conventions = Conventions(score_dtype="float32", queries="intersection")
    ours = evaluate(run_of(close), judgments_of(qrels), ["nDCG@3", "RR"], conventions)
    expected = theirs(close, qrels, 1)
    for query, ndcg, rr in zip(ours.query_ids, *ours.values.values(), strict=True):
        found = expected.get(query, {})
        assert ndcg == pytest.approx(found.get("ndcg_cut_3", 0.0), abs=1e-12)
        assert rr == pytest.approx(found.get("recip_rank", 0.0), abs=1e-12)


def test_means_rest_on_the_same_queries() -> None:
    """queries="intersection" is trec_eval without -c, queries="qrels" is trec_eval -c."""
    run, qrels = {"q1": {"a": 1.0}, "q3": {"a": 1.0}}, {"q1": {"a": 1}, "q2": {"a": 1}}
    assert theirs(run, qrels, 1).keys() == {"q1"}
    both = evaluate(run_of(run), judgments_of(qrels), ["RR"], Conventions(queries="intersection"))
    assert (both.mean("RR"), both.n("RR")) == (1.0, 1)
    judged = evaluate(run_of(run), judgments_of(qrels), ["RR"])
    assert (judged.mean("RR"), judged.n("RR"), judged.missing) == (1 / 2, 2, ("q2",))
    assert judged.unjudged_queries == ("q3",)

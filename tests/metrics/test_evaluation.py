"""Oracle: invariance (order of rows, size of blocks, coding of ids) and arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import Conventions, Judgments, MetricError, Run, blocks, evaluate
from metrics.ids import Ids
from tests.metrics.tables import GRADES, TIED_SCORES, Scores, judgments_of, run_of, tables

NAMES = [
    "nDCG",
    "nDCG@3",
    "nDCG(gain={1:5,2:1,3:2})",
    "RR",
    "AP",
    "AP(ties=grouped)",
    "bpref",
    "infAP",
    "ERR",
    "RBP(p=0.8)",
    "headroom(AP)",
]


def shuffled(run: Run, seed: int) -> Run:
    order = np.random.default_rng(seed).permutation(len(run.scores))
    return Run(run.query_ids[order], run.doc_ids[order], run.scores[order])


@settings(max_examples=100, deadline=None)
@given(
    run=tables(TIED_SCORES, at_least=0),
    qrels=tables(GRADES, at_least=1),
    tie=st.sampled_from(["trec", "docid_asc", "expected", "pessimistic", "optimistic"]),
    cells=st.sampled_from([1, 7, 30]),
    seed=st.integers(0, 99),
)
def test_rows_and_blocks_do_not_matter(
    run: Scores, qrels: Scores, tie: str, cells: int, seed: int
) -> None:
    """Any order of rows and any block size give the same bits."""
    how = Conventions(tie=tie)
    whole = evaluate(run_of(run), judgments_of(qrels), NAMES, how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "CELLS", cells)
        other = evaluate(shuffled(run_of(run), seed), judgments_of(qrels), NAMES, how)
    assert whole.query_ids == other.query_ids
    for name in NAMES:
        assert whole.values[name].tobytes() == other.values[name].tobytes(), name
    assert whole.tie_rate == other.tie_rate
    assert whole.ties_at_cutoff == other.ties_at_cutoff
    assert whole.tie_range == other.tie_range


def test_queries_are_in_byte_order() -> None:
    """U+1F600 follows U+FF5E in UTF-8 (it precedes it in UTF-16); "q10" precedes "q2"."""
    qrels = {query: {"a": 1} for query in ["q2", "\U0001f600", "q10", "\uff5e"]}
    found = evaluate(run_of({}), judgments_of(qrels), ["RR"])
    assert found.query_ids == ("q10", "q2", "\uff5e", "\U0001f600") == found.missing
    assert list(found.query_ids) == sorted(qrels, key=str.encode)


def test_coded_ids_give_what_plain_ids_give() -> None:
    """Names in any order, names without a row, another list of names than the judgments'."""
    run = run_of({"q2": {"b": 2.0, "a": 1.0}, "q1": {"c": 1.0, "b": 1.0}, "z": {"a": 1.0}})
    qrels = judgments_of({"q1": {"b": 1, "d": 2}, "q2": {"a": 1}, "q3": {"a": 1}})
    plain = evaluate(run, qrels, NAMES)
    names = np.array(["nobody", "q1", "z", "q2"], dtype=object)
    queries = Ids(np.array([3, 3, 1, 1, 2]), names)
    documents = Ids(np.array([1, 2, 0, 1, 2]), np.array(["c", "b", "a"], dtype=object))
    ids = evaluate(Run(queries, documents, run.scores), qrels, NAMES)
    assert {name: ids.values[name].tolist() for name in NAMES} == {
        name: plain.values[name].tolist() for name in NAMES
    }
    assert (ids.missing, ids.unjudged_queries) == (plain.missing, plain.unjudged_queries)
    assert documents.tolist() == ["b", "a", "c", "b", "a"]
    assert (documents[3], documents[np.array([0, 2])].tolist()) == ("b", ["b", "c"])
    assert queries.present() == ["q1", "z", "q2"]


def test_condensed_lists() -> None:
    """judged_only leaves unjudged and negative documents out first (trec_eval -J)."""
    run = run_of({"q": {"u": 4.0, "n": 3.0, "z": 2.0, "a": 1.0}})
    qrels = judgments_of({"q": {"a": 1, "z": 0, "n": -1}})
    assert evaluate(run, qrels, ["RR"]).mean("RR") == 1 / 4
    assert evaluate(run, qrels, ["RR"], Conventions(judged_only=True)).mean("RR") == 1 / 2


def test_depth_cuts_before_the_unjudged_leave() -> None:
    """trec_eval -M 3 -J: rank 4 is gone although only two judged documents are left before it."""
    run = run_of({"q": {"u": 4.0, "z": 3.0, "a": 2.0, "b": 1.0}})
    qrels = judgments_of({"q": {"a": 1, "z": 0, "b": 1}})
    found = evaluate(run, qrels, ["R", "RR", "P@3", "nDCG"], Conventions(depth=3, judged_only=True))
    ndcg = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    assert [found.mean(name) for name in found.values] == [1 / 2, 1 / 2, 1 / 3, ndcg]
    assert evaluate(run, qrels, ["R"], Conventions(depth=3)).mean("R") == 1 / 2
    assert evaluate(run, qrels, ["R"], Conventions(depth=4)).mean("R") == 1.0


def test_depth_parts_ties_by_the_rule() -> None:
    """The rule chooses who stays, the cut is counted; expected has no order to cut."""
    run = run_of({"q": {"a": 1.0, "b": 1.0}, "r": {"x": 2.0, "y": 1.0}})
    qrels = judgments_of({"q": {"a": 1}, "r": {"x": 1}})
    for tie, value in {"trec": 1 / 2, "docid_asc": 1.0, "optimistic": 1.0}.items():
        found = evaluate(run, qrels, ["RR"], Conventions(tie=tie, depth=1))
        assert (found.mean("RR"), dict(found.ties_at_cutoff)) == (value, {1: 1})
        assert found.tie_range == {"RR": (1 / 2, 1.0)}
        assert found.tie_rate == 0.0
    with pytest.raises(MetricError, match="depth=1 cuts a group of equal scores of query 'q'"):
        evaluate(run, qrels, ["RR"], Conventions(tie="expected", depth=1))
    whole = evaluate(run, qrels, ["RR"], Conventions(tie="expected", depth=2))
    assert (whole.mean("RR"), whole.tie_rate) == (7 / 8, 1 / 2)
    after = run_of({"q": {"a": 2.0, "b": 1.0, "c": 1.0}})  # a group that begins behind the cut
    uncut = evaluate(after, qrels, ["P@1"], Conventions(tie="expected", depth=1))
    assert dict(uncut.ties_at_cutoff) == {1: 0}


def test_unreachable_queries_are_named() -> None:
    """Relevant documents exist and the run holds none of them; no reranker can help."""
    run = run_of({"out": {"b": 1.0}, "in": {"a": 1.0}, "none": {"a": 1.0}, "graded": {"a": 1.0}})
    qrels = judgments_of(
        {
            "out": {"a": 1, "b": 0},
            "in": {"a": 2, "b": 1},
            "none": {"a": 0},
            "graded": {"a": 1, "b": 2},
            "absent": {"a": 1},
        }
    )
    assert evaluate(run, qrels, ["RR"]).unreachable == ("absent", "out")
    assert evaluate(run, qrels, ["RR"], Conventions(rel=2)).unreachable == ("graded",)
    both = Conventions(queries="intersection", no_relevant="skip")
    assert evaluate(run, qrels, ["RR"], both).unreachable == ("out",)


def test_identical_ids() -> None:
    """ignore_identical_ids leaves the query itself out of its list (BEIR)."""
    run = run_of({"x": {"x": 2.0, "a": 1.0}})
    qrels = judgments_of({"x": {"a": 1}})
    assert evaluate(run, qrels, ["RR"]).mean("RR") == 1 / 2
    assert evaluate(run, qrels, ["RR"], Conventions(ignore_identical_ids=True)).mean("RR") == 1.0


def test_undefined_at_a_level() -> None:
    """no_relevant="nan" is per measure: grade 1 is no relevant document for rel=2."""
    run, qrels = run_of({"q": {"a": 1.0}}), judgments_of({"q": {"a": 1}})
    found = evaluate(run, qrels, ["RR", "RR(rel=2)", "nDCG"], Conventions(no_relevant="nan"))
    assert [found.n(name) for name in found.values] == [1, 0, 1]
    assert np.isnan(found.mean("RR(rel=2)"))
    assert found.no_relevant == ()


def test_judged_twice() -> None:
    """An error with both rows, or the highest grade."""
    queries, documents = np.array(["q", "q"], dtype=object), np.array(["a", "a"], dtype=object)
    qrels = Judgments(queries, documents, np.array([0.0, 1.0]))
    run = run_of({"q": {"a": 1.0}})
    with pytest.raises(MetricError, match=r"twice in the judgments \(rows 1 and 2\)"):
        evaluate(run, qrels, ["RR"])
    assert evaluate(run, qrels, ["RR"], Conventions(on_conflict="max")).mean("RR") == 1.0


def test_columns_that_do_not_fit() -> None:
    """Lengths and shapes are checked at the door."""
    run, qrels = run_of({"q": {"a": 1.0}}), judgments_of({"q": {"a": 1}})
    with pytest.raises(MetricError, match="differ in length"):
        evaluate(replace(run, scores=np.zeros(2)), qrels, ["RR"])
    with pytest.raises(MetricError, match="positions of the run have shape"):
        evaluate(replace(run, positions=np.zeros(2, dtype=np.int64)), qrels, ["RR"])
    with pytest.raises(MetricError, match="is not a finite number"):
        evaluate(run, replace(qrels, grades=np.array([np.inf])), ["RR"], Conventions(gains="float"))


@pytest.mark.parametrize(
    "wrong", [{"tie": "random"}, {"gains": "log"}, {"no_relevant": "one"}, {"rel": 0}, {"depth": 0}]
)
def test_unknown_conventions_list_the_known(wrong: dict[str, object]) -> None:
    """The error names the choices."""
    with pytest.raises(MetricError, match="choose"):
        Conventions(**wrong)

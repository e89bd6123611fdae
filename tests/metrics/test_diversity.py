"""Oracle: arithmetic by hand, a plain loop over documents and subtopics, brute force over orders of
ties, and ndeval where pyndeval is installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import Conventions, Judgments, MetricError, blocks, evaluate
from tests.metrics.tables import Scores, judgments_of, run_of

LOG2_3 = float(np.log2(3))
Topical = Mapping[str, Mapping[str, Mapping[str, int]]]  # {query: {document: {subtopic: grade}}}
DOCUMENTS = ["d1", "d10", "문서", "\U0001f600", "\uff5e", "é"]
SUBTOPICS = st.dictionaries(
    st.sampled_from(["1", "10", "하위", "a b"]), st.integers(-1, 2), min_size=1, max_size=4
)
JUDGED = st.dictionaries(st.sampled_from(DOCUMENTS), SUBTOPICS, min_size=1, max_size=5)
QUERIES = st.dictionaries(st.sampled_from(["q1", "q2", "질의"]), JUDGED, min_size=1, max_size=3)
SCORES = st.dictionaries(
    st.sampled_from(DOCUMENTS), st.sampled_from([0.0, 1.0, 2.0]), min_size=0, max_size=6
)
RUNS = st.dictionaries(st.sampled_from(["q1", "q2", "질의"]), SCORES, min_size=1, max_size=3)
MEASURES = [
    "alpha_nDCG@1",
    "alpha_nDCG@3",
    "alpha_nDCG@20",
    "alpha_nDCG(alpha=0.3)@4",
    "alpha_nDCG(alpha=0.9,rel=2)@4",
    "subtopic_recall@1",
    "subtopic_recall@3",
    "subtopic_recall@20",
    "subtopic_recall(rel=2)@2",
]


def by_subtopic(table: Topical) -> Judgments:
    rows = [
        (query, document, subtopic, grade)
        for query, documents in table.items()
        for document, subtopics in documents.items()
        for subtopic, grade in subtopics.items()
    ]
    queries, documents, subtopics, grades = zip(*rows, strict=True)
    ids = (np.array(column, dtype=object) for column in (queries, documents))
    return Judgments(*ids, np.array(grades, dtype=float), np.array(subtopics, dtype=object))


def plain_gains(order: list[str], judged: Mapping, k: int, rel: int, alpha: float) -> list[float]:
    """Gain at each rank: a document's subtopics, each faded by the documents above that have it."""
    met: dict[str, int] = {}
    gains = []
    for document in order[:k]:
        served = [name for name, grade in judged.get(document, {}).items() if grade >= rel]
        gains.append(sum((1 - alpha) ** met.get(name, 0) for name in served))
        met |= {name: met.get(name, 0) + 1 for name in served}
    return gains


def plain_ideal(judged: Mapping, k: int, rel: int, alpha: float) -> list[str]:
    """Greedy; of equal gains the last id by bytes (gains that differ by rounding are equal)."""
    order: list[str] = []
    while len(order) < min(k, len(judged)):
        left = sorted(set(judged) - set(order), key=str.encode, reverse=True)
        gains = [plain_gains([*order, document], judged, k, rel, alpha)[-1] for document in left]
        order.append(left[int(np.argmax(np.round(gains, 12)))])
    return order


def plain_dcg(gains: list[float]) -> float:
    return sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def plain(measure: str, order: list[str], judged: Mapping) -> float:
    name, cutoff = measure.split("@")
    k, rel = int(cutoff), 2 if "rel=2" in name else 1
    if name.startswith("subtopic"):
        wanted = {s for served in judged.values() for s, grade in served.items() if grade >= rel}
        found = {s for d in order[:k] for s, grade in judged.get(d, {}).items() if grade >= rel}
        return len(found) / len(wanted) if wanted else 0.0
    alpha = 0.3 if "0.3" in name else 0.9 if "0.9" in name else 0.5
    ideal = plain_dcg(plain_gains(plain_ideal(judged, k, rel, alpha), judged, k, rel, alpha))
    return plain_dcg(plain_gains(order, judged, k, rel, alpha)) / ideal if ideal else 0.0


def trec_order(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda document: (scores[document], document.encode()), reverse=True)


def test_by_hand() -> None:
    """a and b serve x, c serves y and z: after a, b is worth half; the ideal begins with c."""
    judged = by_subtopic(
        {"q": {"a": {"x": 1}, "b": {"x": 2, "y": 0}, "c": {"y": 1, "z": 1}, "n": {"x": -2}}}
    )
    run = run_of({"q": {"a": 5.0, "n": 4.0, "b": 3.0, "u": 2.0, "c": 1.0}})
    found = evaluate(run, judged, ["alpha_nDCG@3", "alpha_nDCG(alpha=0.9)@5", "subtopic_recall@3"])
    assert [found.mean(name) for name in found.values] == pytest.approx(
        [
            (1 + 0.5 / 2) / (2 + 1 / LOG2_3 + 0.5 / 2),
            (1 + 0.1 / 2 + 2 / np.log2(6)) / (2 + 1 / LOG2_3 + 0.1 / 2),
            1 / 3,
        ]
    )
    assert evaluate(run, judged, ["subtopic_recall@5"]).mean("subtopic_recall@5") == 1.0


def test_other_measures_take_the_highest_grade_of_a_document() -> None:
    """b is relevant at level 2 through its first subtopic."""
    judged = by_subtopic({"q": {"a": {"x": 0, "y": -1}, "b": {"x": 2, "y": 0}}})
    run, highest = run_of({"q": {"a": 2.0, "b": 1.0}}), judgments_of({"q": {"a": 0, "b": 2}})
    for measure in ("nDCG@10", "RR(rel=2)", "bpref", "Judged@2", "ERR"):
        wanted = evaluate(run, highest, [measure]).mean(measure)
        assert evaluate(run, judged, [measure]).mean(measure) == wanted


def test_judgments_without_subtopics_are_refused() -> None:
    """The sentence says what is needed."""
    run, qrels = run_of({"q": {"a": 1.0}}), judgments_of({"q": {"a": 1}})
    with pytest.raises(MetricError, match=r"alpha_nDCG@5 needs judgments per subtopic"):
        evaluate(run, qrels, ["alpha_nDCG@5"])
    ids = np.array(["s", "s"], dtype=object)
    with pytest.raises(MetricError, match="subtopics of the judgments are 2, its grades 1"):
        evaluate(run, replace(qrels, subtopics=ids), ["RR"])


def test_a_subtopic_judged_twice() -> None:
    """An error with both rows, or the highest grade; two subtopics are no conflict."""
    ids = [np.array(list(column), dtype=object) for column in ("qqq", "aaa", "xyx")]
    judged = Judgments(ids[0], ids[1], np.array([0.0, 1.0, 2.0]), ids[2])
    run = run_of({"q": {"a": 1.0}})
    with pytest.raises(MetricError, match=r"twice in the judgments \(rows 1 and 3\)"):
        evaluate(run, judged, ["RR"])
    how = Conventions(on_conflict="max")
    found = evaluate(run, judged, ["subtopic_recall(rel=2)@1", "subtopic_recall@1"], how)
    assert [found.mean(name) for name in found.values] == [1.0, 1.0]


@settings(max_examples=300, deadline=None)
@given(run=RUNS, judged=QUERIES, cells=st.sampled_from([1, 60, 1 << 22]))
def test_the_plain_loop(run: Scores, judged: Topical, cells: int) -> None:
    """Every measure, query by query, in blocks of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "CELLS", cells)
        found = evaluate(run_of(run), by_subtopic(judged), MEASURES)
    for measure, values in found.values.items():
        wanted = [
            plain(measure, trec_order(run.get(query, {})), judged[query])
            for query in found.query_ids
        ]
        assert values == pytest.approx(wanted, abs=1e-12), measure


@settings(max_examples=300, deadline=None)
@given(scores=SCORES.filter(bool), judged=JUDGED)
def test_expected_is_the_mean_over_all_orders(scores: Mapping[str, float], judged: Mapping) -> None:
    """Each order of the tied documents in the plain loop."""
    how = Conventions(tie="expected")
    found = evaluate(run_of({"q": scores}), by_subtopic({"q": judged}), MEASURES, how)
    orders = [
        list(order)
        for order in permutations(scores)
        if all(scores[a] >= scores[b] for a, b in zip(order, order[1:], strict=False))
    ]
    for measure, values in found.values.items():
        wanted = np.mean([plain(measure, order, judged) for order in orders])
        assert values[0] == pytest.approx(wanted, abs=1e-12), measure


@settings(max_examples=100, deadline=None)
@given(run=RUNS, judged=QUERIES, depth=st.sampled_from([None, 2]), judged_only=st.booleans())
def test_conventions_feed_these_measures_too(
    run: Scores, judged: Topical, depth: int | None, judged_only: bool
) -> None:
    """Cut and condensed lists; the same value alone as among others, to the bit."""
    how = Conventions(depth=depth, judged_only=judged_only, tie="docid_asc")
    names = ["alpha_nDCG(alpha=0.3)@4", "subtopic_recall@3"]
    found = evaluate(run_of(run), by_subtopic(judged), names, how)
    for at, query in enumerate(found.query_ids):
        scores, grades = run.get(query, {}), judged[query]
        order = sorted(scores, key=lambda document: (-scores[document], document.encode()))[:depth]
        if judged_only:
            order = [d for d in order if max(grades.get(d, {"": -1}).values()) >= 0]
        alone = evaluate(run_of({query: scores}), by_subtopic({query: grades}), names, how)
        for name in names:
            assert found.values[name][at] == pytest.approx(plain(name, order, grades), abs=1e-12)
            assert found.values[name][at] == alone.values[name][0]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_ndeval(data: st.DataObject) -> None:
    """alpha-nDCG and strec of ndeval: numbered queries and subtopics, grades of 0 and 1."""
    pyndeval = pytest.importorskip("pyndeval")
    documents = st.sampled_from(["d1", "d10", "d2", "D1", "e", "f"])
    served = st.dictionaries(st.sampled_from("1234"), st.integers(0, 1), min_size=1, max_size=4)
    judged = {"7": data.draw(st.dictionaries(documents, served, min_size=1, max_size=6))}
    listed = data.draw(st.lists(documents, min_size=1, unique=True))
    scores = {document: -float(rank) for rank, document in enumerate(listed)}
    qrels = [
        pyndeval.SubtopicQrel("7", subtopic, document, grade)
        for document, subtopics in judged["7"].items()
        for subtopic, grade in subtopics.items()
    ]
    theirs = pyndeval.ndeval(
        qrels,
        [pyndeval.ScoredDoc("7", document, score) for document, score in scores.items()],
        measures=["alpha-nDCG@5", "alpha-nDCG@20", "strec@5"],
    )["7"]
    names = ["alpha_nDCG@5", "alpha_nDCG@20", "subtopic_recall@5"]
    ours = evaluate(run_of({"7": scores}), by_subtopic(judged), names)
    assert [ours.mean(name) for name in names] == pytest.approx(list(theirs.values()), abs=1e-9)

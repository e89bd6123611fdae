"""`rerank score-run` on the conformance cases (the number is in the name), written out.

Oracles: the right outputs of those cases, which state what trec_eval, pytrec_eval, ir_measures,
ranx, mteb, BEIR and sentence-transformers give for the same files.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.__main__ import main

LOG2_3 = math.log2(3)
Text = str | bytes
Names = tuple[str, str]
Score = Callable[..., dict[str, Any]]
Fail = Callable[..., str]


@pytest.fixture
def score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Score:
    """Run the command on the two texts and give its JSON."""

    def call(qrels: Text, run: Text, *words: str, names: Names = ("q", "r")) -> dict[str, Any]:
        paths = _written(tmp_path, names, (qrels, run))
        code = main(["score-run", "--qrels", paths[0], "--run", paths[1], *words, "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        found = json.loads(captured.out, parse_constant=lambda text: pytest.fail(text))
        assert isinstance(found, dict)
        return found

    return call


@pytest.fixture
def fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fail:
    """Run the command on wrong files: exit 2, nothing on standard output, one line of error."""

    def call(qrels: Text, run: Text, *words: str, names: Names = ("q", "r")) -> str:
        paths = _written(tmp_path, names, (qrels, run))
        code = main(["score-run", "--qrels", paths[0], "--run", paths[1], *words])
        captured = capsys.readouterr()
        assert (code, captured.out) == (2, "")
        assert captured.err.count("\n") == 1
        return captured.err

    return call


def lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _written(folder: Path, names: Names, texts: tuple[Text, ...]) -> list[str]:
    paths = []
    for name, text in zip(names, texts, strict=True):
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(str(path))
    return paths


TIED = (
    "q1 0 d1 1\nq1 0 d2 0\nq1 0 d3 0\n",
    "q1 Q0 d1 1 1.0 t\nq1 Q0 d2 2 1.0 t\nq1 Q0 d3 3 1.0 t\n",
)


@pytest.mark.parametrize(
    ("tie", "values"),
    [
        ("trec", [1 / 3, 1 / 3, 0.5, 0]),
        ("docid_asc", [1, 1, 1, 1]),
        ("input", [1, 1, 1, 1]),
        ("expected", [11 / 18, 11 / 18, (1 + 1 / LOG2_3 + 0.5) / 3, 1 / 3]),
        ("pessimistic", [1 / 3, 1 / 3, 0.5, 0]),
        ("optimistic", [1, 1, 1, 1]),
    ],
)
def test_01_one_tie_rule_feeds_every_measure(score: Score, tie: str, values: list[float]) -> None:
    """A constant scorer: all measures see the same list, the range is that of the two extremes."""
    names = ["RR", "AP", "nDCG@10", "Success@1"]
    found = score(*TIED, "--tie", tie, "-m", *names)
    assert list(found["measures"].values()) == pytest.approx(values, abs=1e-12)
    assert found["tie_rate"] == 1.0
    assert found["tie_range"]["RR"] == pytest.approx([1 / 3, 1])
    assert found["tie_range"]["nDCG@10"] == pytest.approx([0.5, 1])
    assert any("tie rule" in line for line in found["warnings"])


@pytest.mark.parametrize(
    ("tie", "p", "r"), [("trec", 0.5, 1.0), ("docid_asc", 0, 0), ("expected", 0.25, 0.5)]
)
def test_02_a_tie_across_the_cutoff(score: Score, tie: str, p: float, r: float) -> None:
    """Counted at the cutoff that it straddles."""
    run = "q1 Q0 a 1 3.0 t\nq1 Q0 b 2 2.0 t\nq1 Q0 c 3 2.0 t\n"
    found = score("q1 0 b 0\nq1 0 c 1\n", run, "--tie", tie, "-m", "P@2", "R@2")
    assert found["measures"] == {"P@2": p, "R@2": r}
    assert found["ties_at_cutoff"] == {"2": 1}


def test_04_saturated_scores_are_told_from_logits(score: Score) -> None:
    """--by chooses the field; three documents at exactly 1 are worth a warning."""
    rows = [("d1", 22.0, 1), ("d2", 9.0, 0), ("d3", 7.5, 0)]
    text = "".join(
        json.dumps({"qid": "q1", "docid": d, "logit": x, "prob_bf16": 1.0, "grade": g}) + "\n"
        for d, x, g in rows
    )
    names = ("q.jsonl", "r.jsonl")
    logit = score(text, text, "--by", "logit", "-m", "RR", names=names)
    assert (logit["measures"]["RR"], logit["tie_rate"], logit["warnings"]) == (1.0, 0.0, [])
    flat = score(text, text, "--by", "prob_bf16", "-m", "RR", names=names)
    assert (flat["measures"]["RR"], flat["tie_rate"]) == (1 / 3, 1.0)
    assert any(line.startswith("scores saturate") for line in flat["warnings"])


NAN = (TIED[0], "q1 Q0 d1 1 nan t\nq1 Q0 d2 2 1.0 t\nq1 Q0 d3 3 0.5 t\n")


def test_05_a_nan_score_is_an_error_or_last(score: Score, fail: Fail) -> None:
    """The pair and its line are named; never a mixture of orders."""
    assert "r, line 1: NaN score for q1/d1" in fail(*NAN)
    found = score(*NAN, "--on-bad-score", "worst", "-m", "RR", "RR@10", "nDCG@10")
    assert found["measures"] == {"RR": 1 / 3, "RR@10": 1 / 3, "nDCG@10": 0.5}
    assert found["bad_scores"] == 1
    null = '{"qid": "q1", "docid": "d1", "score": null}\n{"qid": "q1", "docid": "d2", "score": 1}\n'
    assert "line 1: NaN score for q1/d1" in fail(NAN[0], null, names=("q", "r.jsonl"))


MISSING = ("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\n", "q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n")


@pytest.mark.parametrize(("queries", "value", "n"), [("qrels", 0.5, 2), ("intersection", 1.0, 1)])
def test_07_a_judged_query_that_the_run_lacks(
    score: Score, queries: str, value: float, n: int
) -> None:
    """0 and counted, or left out on request; named in both cases."""
    found = score(*MISSING, "--queries", queries, "-m", "RR", "nDCG@10")
    assert found["measures"] == {"RR": value, "nDCG@10": value}
    assert (found["n"], found["missing"]) == (n, ["q2"])


def test_08_a_query_without_judgments_is_left_out(score: Score) -> None:
    """Out of every mean, and named."""
    found = score("q1 0 d1 1\n", "q1 Q0 d1 1 2.0 t\nq9 Q0 d1 1 2.0 t\n", "-m", "RR")
    assert (found["measures"]["RR"], found["n"]) == (1.0, 1)
    assert found["unjudged_queries"] == ["q9"]


@pytest.mark.parametrize(
    ("rule", "value", "n", "second"),
    [("zero", 0.5, 2, 0.0), ("skip", 1.0, 1, "absent"), ("nan", 1.0, 1, None)],
)
def test_09_a_query_with_no_relevant_document(
    score: Score, rule: str, value: float, n: int, second: float | str | None
) -> None:
    """0, left out, or null and out of the mean; named in every case."""
    qrels = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 0\nq2 0 d2 0\n"
    run = "".join(f"{q} Q0 d{i} {i} {3.0 - i} t\n" for q in ("q1", "q2") for i in (1, 2))
    found = score(qrels, run, "--no-relevant", rule, "-m", "nDCG@10", "RR", "R@10")
    assert set(found["measures"].values()) == {value}
    assert (found["n"], found["no_relevant"]) == (n, ["q2"])
    assert found["per_query"].get("q2", {"RR": "absent"})["RR"] == second


def test_10_an_empty_candidate_list(score: Score) -> None:
    """Worth 0 in every measure, candidate recall too; nothing is divided by its length."""
    names = ["nDCG@10", "candidate_recall", "Judged@10"]
    found = score("q1 0 d1 1\nq2 0 d1 1\n", "q1 Q0 d1 1 2.0 t\n", "-m", *names)
    assert found["measures"] == dict.fromkeys(names, 0.5)
    assert (found["n_pairs"], found["unreachable"]) == (1, ["q2"])
    candidates = '{"qid": "q1", "candidates": [["d1", 2.0]]}\n{"qid": "q2", "candidates": []}\n'
    again = score("q1 0 d1 1\nq2 0 d1 1\n", candidates, "-m", *names, names=("q", "r.jsonl"))
    assert again["measures"] == found["measures"]


TWICE = ("q1 0 a 1\nq1 0 b 0\n", "q1 Q0 a 1 5.0 t\nq1 Q0 b 2 3.0 t\nq1 Q0 a 3 1.0 t\n")


def test_12_a_document_twice(score: Score, fail: Fail) -> None:
    """Both lines are named, or the best score counts; nDCG never passes 1."""
    message = fail(*TWICE)
    assert "r, lines 1 and 3: query 'q1' has document 'a' twice in the run" in message
    found = score(*TWICE, "--on-duplicate", "max", "-m", "RR", "nDCG@10")
    assert found["measures"] == {"RR": 1.0, "nDCG@10": 1.0}


def test_13_a_document_judged_twice(score: Score, fail: Fail) -> None:
    """Both lines of the qrels are named, or the highest grade counts."""
    qrels, run = "# made by hand\nq1 0 a 0\nq1 0 b 0\nq1 0 a 2\n", "q1 Q0 a 1 5.0 t\n"
    assert "q, lines 2 and 4: query 'q1' has document 'a' twice in the judgments" in fail(
        qrels, run
    )
    found = score(qrels, run, "--on-conflict", "max", "-m", "DCG@10")
    assert found["measures"] == {"DCG@10": 2.0}


def test_14_equal_texts_under_two_ids(score: Score, tmp_path: Path, fail: Fail) -> None:
    """The tie rule decides between copies, unless each text counts once with its best grade."""
    texts = {"c91": "서울은 수도이다.", "c10": "서울은 수도이다.", "c20": "부산은 항구이다."}
    rows = [{"docid": d, "text": t, "grade": {"c10": 1, "c20": 0}.get(d)} for d, t in texts.items()]
    listed = json.dumps({"qid": "q1", "query": "수도", "candidates": rows})
    (tmp_path / "c.jsonl").write_text(listed + "\n")
    run = "q1 Q0 c91 1 2.0 t\nq1 Q0 c10 2 2.0 t\nq1 Q0 c20 3 1.0 t\n"
    words = ["-m", "RR", "R@10", "--candidates", str(tmp_path / "c.jsonl")]
    names = ("q.jsonl", "r")
    for tie, value in [("trec", 0.5), ("docid_asc", 1.0)]:
        found = score(listed, run, *words, "--tie", tie, names=names)
        assert found["measures"]["RR"] == value
        assert found["duplicate_text_groups"] == [["c91", "c10"]]
    merged = score(listed, run, *words, "--dedupe", "text", names=names)
    assert merged["measures"] == {"RR": 1.0, "R@10": 1.0}
    assert merged["n_pairs"] == 2
    assert "--candidates" in fail(listed, run, "--dedupe", "text", names=names)


def test_14_the_best_grade_and_the_best_score_stay(score: Score) -> None:
    """Two relevant copies are one relevant text: recall is 1 with the copy at rank 1."""
    rows = [("a", "x", 3.0), ("b", "y", 2.0), ("c", "x", 1.0)]
    run = "".join(
        json.dumps({"qid": "q", "docid": d, "text": t, "score": s}) + "\n" for d, t, s in rows
    )
    qrels = "q 0 a 1\nq 0 c 2\n"
    found = score(qrels, run, "--dedupe", "text", "-m", "R@1", "nDCG@10", names=("q", "r.jsonl"))
    assert found["measures"] == {"R@1": 1.0, "nDCG@10": 1.0}
    assert found["n_judgments"] == 1


def test_17_ids_keep_their_zeros(score: Score) -> None:
    """0010 and 10 are two documents."""
    run = "007 Q0 0010 1 2.0 t\n007 Q0 10 2 1.0 t\n"
    found = score("007 0 0010 1\n007 0 10 0\n", run, "-m", "RR")
    assert (found["measures"]["RR"], found["n_docs"]) == (1.0, 2)


def test_18_integer_ids_are_an_explicit_error(fail: Fail, tmp_path: Path) -> None:
    """Never a silent 0: JSONL and Parquet name the field and its type."""
    run = '{"qid": "1", "docid": "10", "score": 2.0}\n'
    message = fail('{"qid": 1, "docid": 10, "grade": 1}\n', run, names=("q.jsonl", "r.jsonl"))
    assert "q.jsonl, line 1, field 'qid': 1 is int, must be a string" in message
    table = pa.table({"query_id": [1], "doc_id": ["10"], "score": [2.0]})
    pq.write_table(table, tmp_path / "ints.parquet")
    data = (tmp_path / "ints.parquet").read_bytes()
    message = fail("1 0 10 1\n", data, names=("q", "r.parquet"))
    assert "column 'query_id' is int64, must be string" in message


@pytest.mark.parametrize("blank", ["\u3000", "\u00a0", "\u0085", "\u2028", "\x1f"])
def test_19_only_ascii_blanks_part_fields(score: Score, blank: str) -> None:
    """str.split() would cut these ids."""
    run = f"질의1 Q0 문서{blank}1 1 2.0 t\n질의1 Q0 문서2 2 1.0 t\n"
    found = score(f"질의1 0 문서{blank}1 1\n질의1 0 문서2 0\n", run, "-m", "RR")
    assert (found["measures"]["RR"], found["n_docs"]) == (1.0, 2)


def test_20_composed_and_decomposed_ids(score: Score) -> None:
    """Bytes differ, so they are two ids; a warning says so, and an option takes them as one."""
    composed, decomposed = "\uac00", "\u1100\u1161"
    files = (f"q 0 {composed} 1\n", f"q Q0 {decomposed} 1 1.0 t\n")
    found = score(*files, "-m", "RR")
    assert found["measures"]["RR"] == 0.0
    assert any("--normalise-ids NFC" in line for line in found["warnings"])
    found = score(*files, "-m", "RR", "--normalise-ids", "NFC")
    assert (found["measures"]["RR"], found["warnings"]) == (1.0, [])


def test_21_no_quoting_in_columns(score: Score) -> None:
    """TREC and BEIR forms of the same three judgments."""
    run = 'q1 Q0 report,_1992 1 3.0 t\nq1 Q0 "x 2 2.0 t\nq1 Q0 y" 3 1.0 t\n'
    trec = 'q1 0 report,_1992 1\nq1 0 "x 1\nq1 0 y" 0\n'
    beir = 'query-id\tcorpus-id\tscore\nq1\treport,_1992\t1\nq1\t"x\t1\nq1\ty"\t0\n'
    for qrels, name in [(trec, "q.txt"), (beir, "q.tsv")]:
        found = score(qrels, run, "-m", "AP", names=(name, "r"))
        assert (found["measures"]["AP"], found["n_judgments"]) == (1.0, 3)


def test_22_byte_order_mark_tabs_and_carriage_returns(score: Score) -> None:
    """With the mark left in, the first judgment would belong to another query."""
    qrels = b"\xef\xbb\xbfq1\t0\ta\t1\r\nq1\t0\tb\t0\r\n"
    run = b"\xef\xbb\xbfq1\tQ0\ta  \t1\t2.0\tt\r\n\r\nq1 Q0 b 2 1e-05 t"
    assert score(qrels, run, "-m", "AP")["measures"]["AP"] == 1.0


def test_25_columns_five_seven_three(score: Score, fail: Fail) -> None:
    """Five are an error, seven a note, three are MS MARCO with score 1 / rank."""
    qrels = "q1 0 a 1\nq1 0 b 0\n"
    assert "line 1 has 5 fields, 6 expected" in fail(qrels, "q1 Q0 a 1 2.0\nq1 Q0 b 2 1.0\n")
    seven = score(qrels, "q1 Q0 a 1 2.0 my tag\nq1 Q0 b 2 1.0 my tag\n", "-m", "RR")
    assert seven["measures"]["RR"] == 1.0
    assert "the tag is the 6th" in seven["warnings"][0]
    three = score(qrels, "q1\tb\t2\nq1\ta\t1\n", "-m", "RR")
    assert three["measures"]["RR"] == 1.0
    assert "score = 1 / rank" in three["warnings"][0]


def test_26_the_rank_column_contradicts_the_score(score: Score) -> None:
    """The score decides and a warning counts the queries; --order rank goes by the ranks."""
    files = ("q1 0 a 1\nq1 0 b 0\n", "q1 Q0 b 1 1.0 t\nq1 Q0 a 2 2.0 t\n")
    found = score(*files, "-m", "RR")
    assert (found["measures"]["RR"], found["rank_disagrees"]) == (1.0, 1)
    assert found["warnings"][0].startswith("rank_disagrees=1")
    by_rank = score(*files, "-m", "RR", "--order", "rank")
    assert (by_rank["measures"]["RR"], by_rank["warnings"]) == (0.5, [])
    zeros = score(files[0], "q1 Q0 b 0 1.0 t\nq1 Q0 a 0 2.0 t\n", "-m", "RR")
    assert (zeros["rank_disagrees"], zeros["warnings"]) == (0, [])


FRACTIONS = (
    "q1 0 a 0.5\nq1 0 b 1.5\nq1 0 c 0\n",
    "q1 Q0 a 1 3.0 t\nq1 Q0 b 2 2.0 t\nq1 Q0 c 3 1.0 t\n",
)


def test_28_fractional_grades_are_never_cut(score: Score, fail: Fail) -> None:
    """An error with its line, or gains."""
    assert "q, line 1, field 'grade': 0.5 is not an integer" in fail(*FRACTIONS)
    found = score(*FRACTIONS, "--gains", "float", "-m", "nDCG@10")
    assert found["measures"]["nDCG@10"] == pytest.approx(0.7967075809905066, abs=1e-12)


def test_30_bpref_without_judged_non_relevant(score: Score) -> None:
    """1, not a division by zero."""
    run = "q1 Q0 x 1 3.0 t\nq1 Q0 a 2 2.0 t\nq1 Q0 b 3 1.0 t\n"
    assert score("q1 0 a 1\nq1 0 b 1\n", run, "-m", "bpref")["measures"]["bpref"] == 1.0


def test_31_the_gain_is_part_of_the_name(score: Score) -> None:
    """Linear and exponential gain of one run."""
    files = (
        "q1 0 d1 3\nq1 0 d2 1\nq1 0 d3 0\nq1 0 d4 2\n",
        "q1 Q0 d2 1 4.0 t\nq1 Q0 dx 2 3.0 t\nq1 Q0 d1 3 2.0 t\n",
    )
    found = score(*files, "-m", "nDCG@10", "nDCG(gain=exp2)@10")
    assert list(found["measures"].values()) == pytest.approx([0.52500498938, 0.47909091486])
    found = score(*files, "-m", "nDCG@10", "--gains", "exp2")
    assert found["measures"]["nDCG@10"] == pytest.approx(0.47909091485969846, abs=1e-12)


def test_32_the_relevance_level_leaves_gains_alone(score: Score) -> None:
    """Binary measures alone move."""
    files = ("q1 0 a 1\nq1 0 b 2\n", "q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\n")
    names = ["RR", "AP", "R@10", "nDCG@10"]
    two = score(*files, "--rel", "2", "-m", *names)["measures"]
    assert list(two.values()) == pytest.approx([0.5, 0.5, 1.0, 0.8597186998521972])
    one = score(*files, "-m", *names)["measures"]
    assert list(one.values()) == pytest.approx([1.0, 1.0, 1.0, 0.8597186998521972])


def test_33_the_denominator_is_part_of_the_name(score: Score) -> None:
    """Five of ten relevant documents in the first five ranks; trec_eval's names are known."""
    qrels = "".join(f"q1 0 d{i:02} 1\n" for i in range(1, 11))
    run = "".join(f"q1 Q0 d{i:02} {i} {20.0 - i} t\n" for i in range(1, 6))
    names = {"AP@5": 0.5, "AP(denominator=min(k,R))@5": 1.0, "R_cap@5": 1.0, "R@5": 0.5,
             "map_cut_5": 0.5, "recall.5": 0.5}  # fmt: skip
    assert score(qrels, run, "-m", *names)["measures"] == names


def test_names_may_be_listed_with_commas(score: Score) -> None:
    """Commas in brackets are the measure's own; trec_eval's cutoffs are listed behind the first."""
    words = ["-m", "AP(rel=2,denominator=min(k,R))@5,RR", "ndcg_cut.5,10"]
    found = score("q 0 a 2\n", "q Q0 a 1 1.0 t\n", *words)
    names = ["AP(rel=2,denominator=min(k,R))@5", "RR", "ndcg_cut.5", "ndcg_cut_10"]
    assert found["measures"] == dict.fromkeys(names, 1.0)


def test_36_unjudged_is_per_query(score: Score) -> None:
    """A document that another query judged is still unjudged here."""
    run = "q1 Q0 b 1 2.0 t\nq1 Q0 a 2 1.0 t\nq2 Q0 b 1 2.0 t\nq2 Q0 a 2 1.0 t\n"
    found = score("q1 0 a 1\nq2 0 b 1\n", run, "-m", "unjudged@2")
    assert found["measures"] == {"unjudged@2": 0.5}
    assert found["per_query"] == {"q1": {"unjudged@2": 0.5}, "q2": {"unjudged@2": 0.5}}


def test_38_and_39_what_stage_1_did_not_find(score: Score) -> None:
    """The ceiling beside the value; the ideal is over all judged documents."""
    names = ["nDCG@10", "nDCG(ideal=candidates)@10", "oracle(nDCG@10)", "headroom(nDCG@10)",
             "candidate_recall"]  # fmt: skip
    run = "q1 Q0 p1 1 2.0 t\nq1 Q0 n1 2 1.0 t\n"
    found = score("q1 0 p1 1\nq1 0 p2 1\nq1 0 n1 0\n", run, "-m", *names)
    ceiling = 1 / (1 + 1 / LOG2_3)
    assert list(found["measures"].values()) == pytest.approx([ceiling, 1.0, ceiling, 0.0, 0.5])
    lost = score("q1 0 p1 1\n", "q1 Q0 n1 1 2.0 t\nq1 Q0 n2 2 1.0 t\n", "-m", *names)
    assert list(lost["measures"].values()) == [0.0] * 5
    assert lost["unreachable"] == ["q1"]


@pytest.mark.parametrize(
    ("qrels", "run", "words"),
    [
        ("", "q Q0 a 1 1.0 t\n", "holds no judgment"),
        ("q 0 a\nq 0 b 1\n", "", "line 1, field 'grade': 'a' is not an integer"),
        ("q 0 a 1\n", "q Q0 a 1 0,9 t\n", "line 1, field 'score': '0,9' is not a number"),
        ("q 0 a 1\n", "q Q0 a 1 None t\n", "line 1, field 'score': 'None' is not a number"),
        ("q 0 a 1\n", "q Q0 a 1 1_0 t\n", "line 1, field 'score': '1_0' is not a number"),
        ("q 0 a x\n", "q Q0 a 1 1 t\n", "line 1, field 'grade': 'x' is not an integer"),
        ("q 0 a 1\nq a 1\n", "q Q0 a 1 1 t\n", "line 2 has 3 fields, 4 expected"),
        ("q 0 a 1\n", "q a 1\nq Q0 a 1 1.0 t\n", "line 2 has 6 fields, 3 expected"),
        ("q 0 a 1\n", b"q Q0 \xff 1 1.0 t\n", "line 1: not UTF-8"),
        ("q 0 a 1\n", '{"q": {"a": 1.0, "a": 2.0}}', "key 'a' occurs twice"),
        ("q 0 a 1\n", '{"q": {"a": "1.0"}}', "'1.0' is not a number"),
    ],
)
def test_wrong_files_name_line_and_field(fail: Fail, qrels: Text, run: Text, words: str) -> None:
    """Exit 2 and one sentence, whatever is wrong."""
    assert words in fail(qrels, run)


def test_options_that_cannot_be_met(fail: Fail, tmp_path: Path) -> None:
    """A missing file, an unknown measure, ranks and fields that are not there."""
    files = ("q 0 a 1\n", "q Q0 a 1 1.0 t\n")
    assert "did you mean nDCG" in fail(*files, "-m", "nDGC@10")
    assert "no whole-number ranks" in fail(files[0], '{"q": {"a": 1.0}}', "--order", "rank")
    row = '{"qid": "q", "docid": "a", "score": 1.0}\n'
    assert "no field 'logit' to rank by" in fail(files[0], row, "--by", "logit")
    assert "cannot read" in fail(*files, "--candidates", str(tmp_path / "absent"))


def test_an_empty_run_counts_every_query_as_zero(score: Score) -> None:
    """A system that found nothing has a value, with the reason beside it."""
    found = score("q 0 a 1\n", "", "-m", "RR")
    assert (found["measures"], found["missing"]) == ({"RR": 0.0}, ["q"])
    assert "the run is empty" in found["warnings"][0]
    none = score("q 0 a 1\n", "z Q0 a 1 1.0 t\n", "-m", "RR", "--queries", "intersection")
    assert (none["measures"], none["n"]) == ({"RR": None}, 0)
    assert "no query of the run is judged" in none["warnings"][0]


def test_hash_signs_in_ids_and_comments(score: Score) -> None:
    """A line that has the shape of a row is a row, also where its query begins with `#`."""
    qrels = "# judgments of the first batch, by hand\n#q1 0 d 1\n"
    run = "# run of today\n#q1 Q0 d 1 2.0 my tag\n# Q0 d 1 2.0\n"
    found = score(qrels, run, "-m", "RR")
    assert (found["measures"]["RR"], found["n_judgments"]) == (1.0, 1)


def test_all_kinds_of_files_give_the_same(score: Score, tmp_path: Path) -> None:
    """TREC, gzip, JSONL, candidate lists, JSON of ranx and MTEB predictions, Parquet."""
    rows = [("q1", "a", 0.25), ("q1", "b", 0.5), ("q2", "a", 0.125)]
    nested = {"q1": {"a": 0.25, "b": 0.5}, "q2": {"a": 0.125}}
    meta = {"mteb_model_meta": {"model_name": "m", "revision": "r"}, "ko": {"dev": nested}}
    table = pa.table({"q_id": [q for q, _, _ in rows], "doc_id": [d for _, d, _ in rows],
                      "score": [s for _, _, s in rows]})  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    forms: dict[str, str | bytes] = {
        "r.txt": "".join(f"{q} Q0 {d} 1 {s!r} t\n" for q, d, s in rows),
        "r.jsonl": lines({"qid": q, "docid": d, "score": s} for q, d, s in rows),
        "c.jsonl": lines(
            {"query_id": q, "candidates": list(map(list, d.items()))} for q, d in nested.items()
        ),
        "r.json": json.dumps(nested),
        "p.json": json.dumps(meta),
        "r.parquet": (tmp_path / "t.parquet").read_bytes(),
    }  # fmt: skip
    qrels = "q1 0 a 1\nq1 0 b 2\nq2 0 z 1\n"
    found = {n: score(qrels, t, "-m", "nDCG@10", "RR", names=("q", n)) for n, t in forms.items()}
    values = [(item["measures"], item["per_query"], item["n_pairs"]) for item in found.values()]
    assert all(value == values[0] for value in values)
    assert values[0][0] == {"nDCG@10": 0.5, "RR": 0.5}


def test_values_per_query_as_a_table(score: Score, tmp_path: Path) -> None:
    """--to writes the long Parquet form or JSONL; both hold what the JSON says."""
    path, wide = tmp_path / "values.parquet", tmp_path / "values.jsonl"
    found = score(*MISSING, "-m", "RR", "P@2", "--to", str(path))
    rows = pq.read_table(path).to_pylist()
    assert {(r["query_id"], r["measure"]): r["value"] for r in rows} == {
        (query, name): value for query, d in found["per_query"].items() for name, value in d.items()
    }
    score(*MISSING, "-m", "RR", "P@2", "--to", str(wide))
    read = [json.loads(line) for line in wide.read_text().splitlines()]
    assert [(row["query_id"], row["RR"], row["P@2"]) for row in read] == [
        ("q1", 1, 0.5),
        ("q2", 0, 0),
    ]


def test_several_runs_and_their_deltas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON line a run; six queries all better: exact p = 2 / 2^6, Holm over two measures."""
    qrels = "".join(f"q{i} 0 a 1\nq{i} 0 b 0\n" for i in range(6))
    base = "".join(f"q{i} Q0 b 1 2.0 t\nq{i} Q0 a 2 1.0 t\n" for i in range(6))
    best = "".join(f"q{i} Q0 a 1 2.0 t\nq{i} Q0 b 2 1.0 t\n" for i in range(6))
    paths = [tmp_path / name for name in ("qrels", "base", "best")]
    for path, text in zip(paths, (qrels, base, best), strict=True):
        path.write_text(text)
    words = ["score-run", "--qrels", str(paths[0]), "--run", str(paths[1]), str(paths[2])]
    assert main([*words, "-m", "RR", "R@2", "--compare", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert "comparison" not in first
    rr, recall = second["comparison"]
    assert (rr["mean_delta"], rr["improved"], rr["n"]) == (0.5, 6, 6)
    assert (rr["p_value"], rr["p_holm"], rr["tests"]) == (2 / 64, 4 / 64, 2)
    assert (recall["mean_delta"], recall["p_value"]) == (0.0, 1.0)
    assert main([*words, "-m", "RR", "--compare", "--per-query"]) == 0
    text = capsys.readouterr().out
    assert "+0.5000" in text
    assert "q5" in text


def test_what_stage_1_allows_does_not_depend_on_the_run(score: Score, tmp_path: Path) -> None:
    """The run dropped a relevant candidate, and a whole query: the ceiling stays stage 1's."""
    listed = [{"qid": "q1", "candidates": [{"docid": d} for d in "bac"]},
              {"qid": "q2", "candidates": [{"docid": "x"}]}]  # fmt: skip
    (tmp_path / "c.jsonl").write_text(lines(listed))
    qrels = "q1 0 a 1\nq1 0 c 1\nq2 0 x 1\n"
    run = "q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\n"
    names = [
        "candidate_recall",
        "candidate_recall@2",
        "oracle(nDCG@10)",
        "headroom(nDCG@10)",
        "R@5",
    ]
    found = score(qrels, run, "-m", *names, "--candidates", str(tmp_path / "c.jsonl"))
    ndcg = 1 / (1 + 1 / LOG2_3)
    values = [1.0, (0.5 + 1) / 2, 1.0, 1 - ndcg / 2, 0.25]
    assert list(found["measures"].values()) == pytest.approx(values, abs=1e-12)
    assert found["unreachable"] == []


def test_the_first_stage_does_not_replace_the_runs_own_ranks(score: Score, tmp_path: Path) -> None:
    """--order rank goes by the run's rank column, --tie input by the first stage's; equal texts
    count once in the ceiling as well."""
    rows = [{"docid": d, "text": t} for d, t in [("b", "x"), ("a", "y"), ("c", "y")]]
    (tmp_path / "c.jsonl").write_text(lines([{"qid": "q1", "candidates": rows}]))
    words = ["-m", "RR", "--candidates", str(tmp_path / "c.jsonl")]
    run = "q1 Q0 a 1 1.0 t\nq1 Q0 b 2 1.0 t\n"
    assert score("q1 0 a 1\n", run, *words, "--order", "rank")["measures"]["RR"] == 1.0
    assert score("q1 0 a 1\n", run, *words, "--tie", "input")["measures"]["RR"] == 0.5
    names = ["candidate_recall@2", "oracle(nDCG@10)"]
    both = "q1 0 a 1\nq1 0 c 1\n"
    plain = score(both, run, *words, "-m", *names)["measures"]
    assert [plain[name] for name in names] == [0.5, 1.0]
    once = score(both, run, *words, "-m", *names, "--dedupe", "text")["measures"]
    assert [once[name] for name in names] == [1.0, 1.0]


def test_beir_fields_are_parted_by_tabs(score: Score, fail: Fail) -> None:
    """After BEIR's header an id may hold a blank; the header amid the rows is an error."""
    head = "query-id\tcorpus-id\tscore\n"
    run = '{"q1": {"New York": 1.0, "York": 2.0}}'
    found = score(head + "q1\tNew York\t1\n", run, "-m", "RR", names=("q.tsv", "r.json"))
    assert found["measures"]["RR"] == 0.5
    assert "amid the rows" in fail(f"q1\ta\t1\n{head}", run, names=("q.tsv", "r.json"))
    assert "has 4 fields, 3 expected" in fail(f"{head}q1\t0\ta\t1\n", run, names=("q", "r.json"))


def test_ranks_that_cannot_decide_are_errors(fail: Fail, score: Score, tmp_path: Path) -> None:
    """Rank 0 without scores would tie with rank 1; nulls and fractions of Parquet are ignored."""
    rows = [{"qid": "q1", "docid": "b", "rank": 1}, {"qid": "q1", "docid": "a", "rank": 0}]
    assert "line 2, field 'rank': 0 is not a rank from 1" in fail(
        "q1 0 a 1\n", lines(rows), names=("q", "r.jsonl")
    )
    table = pa.table({"query_id": ["q1"] * 2, "doc_id": ["a", "b"], "rank": [1, None],
                      "score": [2.0, 1.0]})  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    found = score("q1 0 a 1\n", data, "-m", "RR", names=("q", "r.parquet"))
    assert found["measures"]["RR"] == 1.0
    assert "it is ignored" in found["warnings"][0]
    assert "no whole-number ranks" in fail(
        "q1 0 a 1\n", data, "--order", "rank", names=("q", "r.parquet")
    )


def test_subtopics_of_every_kind_of_file(score: Score, tmp_path: Path) -> None:
    """TREC diversity qrels, JSONL and Parquet give the same subtopic recall."""
    rows = [("q1", "1", "a"), ("q1", "2", "b")]
    table = pa.table({"query_id": ["q1", "q1"], "subtopic": ["1", "2"], "doc_id": ["a", "b"],
                      "grade": [1, 1]})  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    forms: dict[str, Text] = {
        "q": "".join(f"{q} {t} {d} 1\n" for q, t, d in rows),
        "q.jsonl": lines({"qid": q, "subtopic": t, "docid": d, "grade": 1} for q, t, d in rows),
        "q.parquet": (tmp_path / "t.parquet").read_bytes(),
    }
    for name, qrels in forms.items():
        found = score(qrels, "q1 Q0 a 1 2.0 t\n", "-m", "subtopic_recall@1", names=(name, "r"))
        assert found["measures"] == {"subtopic_recall@1": 0.5}


def test_an_empty_list_is_not_a_missing_query(score: Score) -> None:
    """pytrec_eval and mteb count a query with an empty dictionary as 0; so does every preset."""
    run = '{"q1": {}, "q2": {"a": 1.0}}'
    for words in ([], ["--compat", "pytrec_eval"], ["--compat", "mteb"]):
        found = score("q1 0 a 1\nq2 0 a 1\n", run, "-m", "RR", *words, names=("q", "r.json"))
        assert (found["measures"]["RR"], found["n"]) == (0.5, 2)
        assert (found["missing"], found["empty_lists"]) == ([], ["q1"])


def test_a_name_for_json_is_not_needed(score: Score) -> None:
    """Kinds are told from content: gzip without .gz, JSONL in a .txt."""
    packed = gzip.compress(b"q Q0 a 1 1.0 t\n")
    assert score("q 0 a 1\n", packed, "-m", "RR")["measures"]["RR"] == 1.0
    row = '{"qid": "q", "docid": "a", "score": 1.0}\n'
    assert score("q 0 a 1\n", row, "-m", "RR", names=("q", "r.txt"))["measures"]["RR"] == 1.0


@pytest.mark.parametrize(
    ("run", "name", "words"),
    [
        (gzip.compress(b"q Q0 a 1 1.0 t\n" * 200)[:30] + b"\xff" * 100, "r.gz", "cannot read"),
        ('{"\\ud800": {"a": 1}}', "r.json", "lone surrogate"),
        ('{"mteb_model_meta": {}, "default": [1]}', "r.json", "hold 0 (none)"),
        ('{"mteb_model_meta": {}, "default": {"test": [1]}}', "r.json", "default/test"),
        ('{"qid": "q", "docid": "a", "rank": 99999999999999999999999}\n', "r.jsonl", "not a rank"),
        ('{"qid": "q", "docid": "a", "score": 1, "score": 3}\n', "r.jsonl", "'score' occurs twice"),
        ('{"qid": "", "docid": "a", "score": 1}\n', "r.jsonl", "the query_id is empty"),
        ("q Q0 a 1 2.0 t\rq Q0 b 2 1.0 t\r", "r", "carriage return"),
        ('{"q": {"a": NaN}}', "r.json", "r.json: NaN score for q/a"),
    ],
)
def test_damaged_runs_are_one_sentence(fail: Fail, run: Text, name: str, words: str) -> None:
    """Whatever is wrong inside: no traceback, no guess."""
    assert words in fail("q 0 a 1\n", run, names=("q", name))


def test_sentences_speak_of_the_command_line(fail: Fail, tmp_path: Path) -> None:
    """Options as they are spelled there, and what to give where something is missing."""
    assert "use --on-duplicate max" in fail(*TWICE)
    assert "give the first stage's list by --candidates" in fail(*TWICE, "-m", "candidate_recall@5")
    assert "there is no such folder" in fail(*TWICE, "--to", str(tmp_path / "no" / "x.jsonl"))
    assert "float64 can add up" in fail(
        "q 0 a 1100\n", "q Q0 a 1 1.0 t\n", "--gains", "exp2", "-m", "nDCG@10"
    )
    assert "is not a whole number from 1" in fail(*TWICE, "-m", "P@05")


def test_json_is_told_by_its_beginning(score: Score) -> None:
    """Dictionaries in a .txt, pretty-printed or not; a rank that stands twice is no saturation."""
    for text in ('{"q":{"a":2,"b":1}}', '{\n  "q": {\n    "a": 2, "b": 1\n  }\n}'):
        found = score("q 0 a 1\n", text, "-m", "RR", names=("q", "r.txt"))
        assert found["measures"]["RR"] == 1.0
    twice = score("q 0 a 1\n", "q\ta\t1\nq\tb\t1\n", "-m", "RR")
    assert not any("saturate" in line for line in twice["warnings"])

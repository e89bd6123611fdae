"""`rerank check`: small folders with known trouble, all of it told at once; exit codes.

Oracles: the rows written here, counted by hand; the published MIRACL list, whose relevant documents
stand first in 213 of 213 lists, against honest runs with published values.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.__main__ import main
from tests.conftest import write_jsonl

Words = list[str]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict]]:
    """Exit code, and kind -> finding (of several leaks the first)."""

    def run(*words: object) -> tuple[int, dict]:
        code = main(["check", *map(str, words), "--json"])
        said = json.loads(capsys.readouterr().out)
        assert said["exit_code"] == code
        found: dict[str, dict] = {}
        for finding in said["findings"]:
            found.setdefault(finding["kind"], finding)
        return code, found

    return run


def broken_folder(folder: Path) -> Path:
    """A BEIR folder with one of everything; counts are in the test."""
    folder.mkdir(parents=True)
    corpus = [
        '{"_id": "d1", "text": "reset the filter of the pump"}',
        '{"_id": "d1", "text": "again"}',
        '{"_id": 2, "text": "an id that is a number"}',
        "not json",
        '{"_id": "d3", "text": "   "}',
        '{"_id": "d4", "text": "warranty"}',
        '{"_id": "d5", "text": "warranty"}',
        '{"_id": "d6", "title": "T", "text": null}',
        '{"_id": "d7"}',
    ]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    queries = ['{"_id": "q1", "text": "reset"}', '{"_id": "q1", "text": "reset"}']
    queries += ['{"_id": "q2", "text": "warranty"}', '{"_id": "q9", "text": "nobody judged"}']
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    qrels = ["q1 0 d1 1", "q1 0 d1 2", "q1 0 gone 1", "q2 0 d4 0.5", "q3 0 d4 -1", "q2 0 d5"]
    (folder / "qrels.trec").write_text("\n".join(qrels) + "\n")
    return folder


def test_all_trouble_is_told_at_once(tmp_path: Path, check: Callable[..., tuple]) -> None:
    """Every wrong row of every file, with its count; exit 2."""
    code, found = check(broken_folder(tmp_path / "b"))
    assert code == 2
    expected = {
        "unreadable_rows": 4,  # the number as an id, not json, d7 without text, 3 fields
        "doubled_ids_of_documents": 1,
        "doubled_ids_of_queries": 1,
        "judged_twice": 1,
        "judged_queries_without_text": 1,  # q3
        "judged_documents_without_text": 1,  # gone
        "queries_without_judgments": 1,  # q9
        "queries_without_relevant": 2,  # q2 (0.5), q3 (-1)
        "fractions": 1,
        "negative_grades": 1,
        "empty_documents": 1,  # d3; of d6 the title is the text
        "doubled_documents": 1,  # d4 = d5
    }
    assert {kind: found[kind]["count"] for kind in expected} == expected
    assert found["judged_documents_without_text"]["examples"] == ["q1 gone (grade 1)"]
    assert found["doubled_documents"]["examples"] == ["d4 = d5"]
    assert found["grades"]["values"]["grades"] == {"-1": 1, "0.5": 1, "1": 2, "2": 1}
    assert found["counts"]["values"]["documents"] == 5
    where = " ".join(found["unreadable_rows"]["examples"])
    assert all(f"line {n}" in where for n in (3, 4, 9, 6))


def test_a_clean_folder_has_facts_alone(
    make_task: Callable[..., Path], check: Callable[..., tuple]
) -> None:
    """Counts of the generated task: 12 queries, 40 documents, 24 judgments of grades 1 and 2."""
    code, found = check(make_task())
    assert code == 0
    assert found["counts"]["values"]["queries"] == 12
    assert found["counts"]["values"]["documents"] == 40
    assert found["grades"]["values"] == {"grades": {"1": 12, "2": 12}, "relevant_a_query": 2.0}
    assert "candidate_recall" in found
    assert (
        "chosen by bm25, analyzer whitespace (the default: a folder names none)"
        in (found["candidates"]["message"])
    )


def test_a_task_names_its_own_analyzer(
    make_task: Callable[..., Path], tmp_path: Path, check: Callable[..., tuple]
) -> None:
    """What the candidates rest on is said; nothing is called a default."""
    task = tmp_path / "t.yaml"
    task.write_text(json.dumps({"folder": str(make_task()), "analyzer": "bigram"}))
    _, found = check(task)
    assert found["candidates"]["message"].endswith("chosen by bm25, analyzer bigram")


def test_a_relevant_document_outside_the_corpus_is_exit_1(
    make_task: Callable[..., Path], check: Callable[..., tuple]
) -> None:
    """Freezing takes it, but recall is bounded; of grade 0 it harms nothing."""
    folder = make_task()
    with (folder / "judgments.jsonl").open("a") as stream:
        stream.write('{"query_id": "q00", "doc_id": "gone", "grade": 0}\n')
    code, found = check(folder)
    assert (code, found["judged_documents_without_text"]["harms"]) == (0, False)
    with (folder / "judgments.jsonl").open("a") as stream:
        stream.write('{"query_id": "q00", "doc_id": "gone too", "grade": 2}\n')
    code, found = check(folder)
    assert (code, found["judged_documents_without_text"]["count"]) == (1, 2)
    assert found["judged_documents_without_text"]["values"] == {"relevant": 1}


def test_candidates_without_text_and_without_list(
    make_task: Callable[..., Path], tmp_path: Path, check: Callable[..., tuple]
) -> None:
    """A run that names a strange document (freezing refuses: 2) and leaves a query out."""
    folder = make_task()
    rows = [f"q{n:02d} Q0 d{n:03d} 1 {9 - n / 10} t" for n in range(11)] + ["q00 Q0 odd 2 1 t"]
    (folder / "first.run").write_text("\n".join(rows) + "\n")
    task = tmp_path / "t.yaml"
    task.write_text(json.dumps({"folder": str(folder), "first_stage": "run", "run": "first.run"}))
    code, found = check(task)
    assert code == 2
    assert found["candidates_without_text"]["examples"] == ["q00 odd"]
    assert found["judged_queries_without_candidates"]["examples"] == ["q11"]
    assert found["judged_queries_without_candidates"]["harms"]


def test_frozen_candidates(tmp_path: Path, check: Callable[..., tuple]) -> None:
    """Inline grades, a query nobody judged, a candidate twice, one id with two texts."""
    rows = [
        {
            "query_id": "q1",
            "query": "reset",
            "candidates": [
                {"doc_id": "a", "text": "one", "grade": 1},
                {"doc_id": "b", "text": "two", "grade": 0},
            ],
        },
        {"query_id": "q2", "query": "x", "candidates": [{"doc_id": "a", "text": "another"}]},
    ]
    path = write_jsonl(tmp_path / "c.jsonl", rows)
    code, found = check(path)
    assert code == 1  # freezing takes it, each query with its own text
    assert found["texts_disagree"]["examples"] == ["a"]
    assert (found["texts_disagree"]["level"], found["texts_disagree"]["harms"]) == ("warning", True)
    assert "each query's own" in found["texts_disagree"]["message"]
    assert found["queries_without_judgments"]["level"] == "warning"
    assert found["grades_of_candidates"]["values"] == {"0": 1, "1": 1, "unjudged": 1}
    rows[1]["candidates"] *= 2
    code, found = check(write_jsonl(path, rows))
    assert (code, found["listed_twice"]["count"]) == (2, 1)


def test_texts_that_disagree_hide_no_error(tmp_path: Path, check: Callable[..., tuple]) -> None:
    """An expected count that is wrong beside them is still exit 2."""
    rows = [
        {"query_id": q, "query": q, "candidates": [{"doc_id": "a", "text": q, "grade": 1}]}
        for q in ("q1", "q2")
    ]
    write_jsonl(tmp_path / "c.jsonl", rows)
    task = tmp_path / "t.yaml"
    spec = {"source": "frozen_jsonl", "folder": str(tmp_path), "candidates": "c.jsonl"}
    task.write_text(json.dumps({**spec, "expected": {"queries": 3}}))
    code, found = check(task)
    assert code == 2
    assert "3" in found["source"]["examples"][0]
    assert found["texts_disagree"]["level"] == "warning"


def test_nothing_relevant_is_frozen_and_harms(
    make_task: Callable[..., Path], check: Callable[..., tuple]
) -> None:
    """Grades of 0 alone: exit 1, as freezing takes them."""
    folder = make_task()
    rows = [json.loads(line) for line in (folder / "judgments.jsonl").read_text().splitlines()]
    write_jsonl(folder / "judgments.jsonl", [{**row, "grade": 0} for row in rows])
    code, found = check(folder)
    assert code == 1
    finding = found["nothing_relevant"]
    assert (finding["level"], finding["harms"]) == ("warning", True)


def test_unjudged_counts_only_candidates_that_stand_there(
    tmp_path: Path, check: Callable[..., tuple]
) -> None:
    """q1 lists 3 documents, 2 unjudged; q2 12, of the first 10 all unjudged; q3 none: 12 of 13."""
    qrels = tmp_path / "q.trec"
    qrels.write_text("q1 0 a 1\nq2 0 m11 1\nq3 0 a 1\n")
    rows = [f"q1 Q0 {name} 1 {9 - n} t" for n, name in enumerate("abc")]
    rows += [f"q2 Q0 m{n:02d} 1 {90 - n} t" for n in range(12)]
    path = tmp_path / "a.run"
    path.write_text("\n".join(rows) + "\n")
    _, found = check(path, "--qrels", qrels)
    assert "92.3% of the 13 candidates at ranks 1 to 10" in found["unjudged"]["message"]
    assert found["unjudged"]["values"] == {"unjudged@10": 12 / 13, "candidates": 13}
    path.write_text("other Q0 a 1 1 t\n")
    code, found = check(path, "--qrels", qrels)
    assert code == 2  # no candidate of any judged query: freezing refuses it
    assert found["judged_queries_without_candidates"]["level"] == "error"
    assert found["unjudged"]["message"] == "unjudged: no judged query has a candidate"
    path.write_text("")
    code, found = check(path, "--qrels", qrels)
    assert (code, found["no_candidates"]["message"]) == (2, "there are no candidates")
    assert "unjudged" not in found


def test_judgments_of_another_collection(tmp_path: Path, check: Callable[..., tuple]) -> None:
    """Queries are shared and no listed document is judged for its query; one that is, ends it."""
    path, qrels = tmp_path / "a.run", tmp_path / "q.trec"
    path.write_text("1 Q0 a 1 2 t\n2 Q0 b 1 2 t\n")
    qrels.write_text("1 0 b 1\n2 0 a 1\n")
    code, found = check(path, "--qrels", qrels)
    assert code == 1
    assert found["nothing_listed_is_judged"]["harms"]
    assert found["nothing_listed_is_judged"]["message"].endswith(
        "no listed document is judged: are these the judgments of another collection?"
    )
    qrels.write_text("1 0 b 1\n2 0 a 1\n2 0 b 0\n")
    code, found = check(path, "--qrels", qrels)
    assert (code, "nothing_listed_is_judged" in found) == (0, False)


def test_one_is_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 error, 0 warnings: a line that is no row, beside one that is."""
    path = tmp_path / "a.run"
    path.write_text("q Q0 d 1 1 t\nq Q0\n")
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 error, 0 warnings, ")


def test_a_missing_file_of_a_task_is_called_a_file(
    make_task: Callable[..., Path], check: Callable[..., tuple]
) -> None:
    """Not rows of it."""
    folder = make_task()
    (folder / "queries.jsonl").unlink()
    code, found = check(folder)
    assert code == 2
    assert "queries.jsonl" in found["unreadable_files"]["examples"][0]
    assert found["unreadable_files"]["message"].startswith("files cannot be read")
    assert "unreadable_rows" not in found


def test_what_freezing_refuses_is_never_clean(
    make_task: Callable[..., Path], tmp_path: Path, check: Callable[..., tuple]
) -> None:
    """A wrong expected count and an unknown analyzer are errors of the source and first stage."""
    task = tmp_path / "t.yaml"
    spec = {"folder": str(make_task()), "expected": {"queries": 13}}
    task.write_text(json.dumps(spec))
    code, found = check(task)
    assert code == 2
    assert "13" in found["source"]["examples"][0]
    task.write_text(json.dumps({**spec, "expected": {}, "analyzer": "nobody"}))
    code, found = check(task)
    assert (code, found["first_stage"]["level"]) == (2, "error")


def test_the_published_list_gives_its_labels_away(
    data_folder: Path, check: Callable[..., tuple]
) -> None:
    """MIRACL: gold first in 213 of 213; the finding says so, and the exit code is 1."""
    folder = data_folder / "miracl_ko_stage1"
    qrels = data_folder / "miracl_ko_dev_qrels/qrels.trec"
    code, found = check(folder / "MIRACLRetrieval_id.jsonl", "--qrels", qrels)
    assert code == 1
    values = found["leak"]["values"]
    assert (values["rule"], values["separated"], values["lists"]) == ("first", 213, 213)
    assert values["chance"] < 1e-9
    assert found["leak"]["harms"]


@pytest.mark.parametrize("name", ["Belebele", "MultiLongDoc", "PublicHealthQA"])
def test_the_other_published_lists_are_suspicious_without_judgments(
    data_folder: Path, check: Callable[..., tuple], name: str
) -> None:
    """No document repeats at the first place as documents do at the second."""
    (path,) = (data_folder / "miracl_ko_stage1").glob(f"{name}*.jsonl")
    code, found = check(path)
    assert code == 0  # a suspicion, no proof
    most = found["first_place_stands_apart"]["values"]["most_frequent_by_place"]
    assert most[0] <= 2 < 5 <= min(most[1:])


HONEST = [
    ("autorag_ko/bm25_top50.jsonl", "autorag_ko"),
    ("korquad_v1_dev/bm25_top50_s300.jsonl", "korquad_v1_dev"),
    ("trec_dl_runs/dl19.SPLADE_P_P_ENSEMBLE_DISTIL.top100.run.gz", "dl19_passage_qrels"),
    ("trec_dl_runs/dl20.REP_LLAMA.top100.run.gz", "dl20_passage_qrels"),
]


def test_gold_moved_to_the_front_is_told_with_one_gold_a_query(
    data_folder: Path, tmp_path: Path, check: Callable[..., tuple]
) -> None:
    """AutoRAG-ko: BM25's list with the one gold document of each of 114 queries put first."""
    folder = data_folder / "autorag_ko"
    gold: dict[str, set[str]] = {}
    for line in (folder / "qrels.trec").read_text().splitlines():
        query_id, _, doc_id, _ = line.split()
        gold.setdefault(query_id, set()).add(doc_id)
    rows = []
    for line in (folder / "bm25_top50.jsonl").read_text().splitlines():
        row = json.loads(line)
        query_id, gold_ids = row["query_id"], sorted(gold[row["query_id"]])
        rest = [doc_id for doc_id, _ in row["candidates"] if doc_id not in gold_ids]
        rows.append({"query_id": query_id, "relevance_ids": gold_ids + rest})
    moved = write_jsonl(tmp_path / "moved.jsonl", rows)
    code, found = check(moved, "--qrels", folder / "qrels.trec")
    assert code == 1
    assert found["relevant_nearly_all_first"]["values"] == {"separated": 114, "lists": 114}
    assert "leak" not in found


@pytest.mark.parametrize(("run", "judged"), HONEST)
def test_an_honest_first_stage_is_no_leak(
    data_folder: Path, check: Callable[..., tuple], run: str, judged: str
) -> None:
    """Also one that has the relevant document first in 279 of 300 lists."""
    code, found = check(data_folder / run, "--qrels", data_folder / judged / "qrels.trec")
    assert "leak" not in found
    assert "first_place_stands_apart" not in found
    assert "relevant_nearly_all_first" not in found
    assert "nothing_listed_is_judged" not in found
    assert code in (0, 1)  # 1: the list is of a part of the queries


def test_a_set_of_ids_leaks_without_harm_and_an_ordered_list_with(
    tmp_path: Path, make_task: Callable[..., Path], check: Callable[..., tuple]
) -> None:
    """first_stage ids: relevant first in 12 of 12 lists; as a set the order is not used."""
    folder = make_task()
    gold: dict[str, list[str]] = {}
    for line in (folder / "judgments.jsonl").read_text().splitlines():
        row = json.loads(line)
        gold.setdefault(row["query_id"], []).append(row["doc_id"])
    every = [f"d{n:03d}" for n in range(40)]
    lists = [
        {"query_id": query, "relevance_ids": mine + [d for d in every[::-1] if d not in mine]}
        for query, mine in gold.items()
    ]
    # 12 lists of two relevant ones each are few: 0.9^12 is not below the threshold, so repeat
    # the judgments of more queries
    for n in range(12, 80):
        query, mine = f"q{n}", [every[n % 40], every[(n * 7 + 3) % 40]]
        with (folder / "queries.jsonl").open("a") as stream:
            stream.write(json.dumps({"_id": query, "text": "filter"}) + "\n")
        with (folder / "judgments.jsonl").open("a") as stream:
            for doc_id in dict.fromkeys(mine):
                row = {"query_id": query, "doc_id": doc_id, "grade": 1}
                stream.write(json.dumps(row) + "\n")
        mine = list(dict.fromkeys(mine))
        rest = [d for d in every[::-1] if d not in mine]
        lists.append({"query_id": query, "relevance_ids": mine + rest})
    write_jsonl(folder / "ids.jsonl", lists)
    task = tmp_path / "t.yaml"
    spec = {"folder": str(folder), "first_stage": "ids", "ids": "ids.jsonl", "depth": 40}
    for ordered, expected in ((True, 1), (False, 0)):
        task.write_text(json.dumps({**spec, "ids_ordered": ordered}))
        code, found = check(task)
        assert (code, found["leak"]["harms"]) == (expected, ordered)
        assert found["leak"]["values"]["separated"] == 80
        assert "relevant_nearly_all_first" not in found  # told once
        depths = {"1", "5", "10", "20", "40"} if ordered else {"40"}
        assert found["candidate_recall"]["values"].keys() == depths
        assert ("they are sets" in found["candidate_recall"]["message"]) != ordered
        assert ("unjudged" in found) == ordered


def test_gzip_byte_order_mark_and_carriage_returns(
    tmp_path: Path, check: Callable[..., tuple]
) -> None:
    """What the readers accept is no trouble."""
    run = tmp_path / "a.run.gz"
    run.write_bytes(gzip.compress(b"\xef\xbb\xbfq1 Q0 d1 1 2.5 t\r\nq1 Q0 d2 2 1.5 t\r\n"))
    qrels = tmp_path / "q.tsv"
    qrels.write_bytes(b"query-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n")
    code, found = check(run, "--qrels", qrels)
    assert code == 0
    assert found["candidate_recall"]["values"] == {"1": 1.0, "2": 1.0}


@pytest.mark.parametrize("text", ["<script>|\u202e", "\x1b[31mred", "가" * 3000])
def test_hostile_ids_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """No control character of a file reaches the terminal, and no line is endless."""
    corpus = [{"_id": text, "text": "x"}, {"_id": text + "3", "text": ""}]
    write_jsonl(tmp_path / "t/corpus.jsonl", corpus)
    write_jsonl(tmp_path / "t/queries.jsonl", [{"_id": text, "text": "x"}])
    judged = {"query_id": text, "doc_id": text + "2", "grade": 1}
    write_jsonl(tmp_path / "t/judgments.jsonl", [judged])
    assert main(["check", str(tmp_path / "t")]) == 1
    said = capsys.readouterr().out
    assert not any(sign in said for sign in ("\x1b", "\u202e"))
    assert max(map(len, said.splitlines())) < 700
    assert "  ! (1) judged documents are not in the corpus" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["absent.jsonl"], "absent.jsonl does not exist"),
        (["."], "holds neither corpus.jsonl"),
        (["nobody"], "unknown task"),
        (["t.run", "--qrels", "nope.trec"], "--qrels nope.trec is no file"),
        (["t.run", "--similarity", "0"], "--similarity is above 0"),
        ([".", "--corpus", "c.jsonl"], "belong to a run or id-list file"),
    ],
)
def test_wrong_words_are_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: Words,
    sentence: str,
) -> None:
    """Exit 2."""
    monkeypatch.chdir(tmp_path)
    Path("t.run").write_text("q Q0 d 1 1 t\n")
    assert main(["check", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_help_states_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """0, 1 and 2."""
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "exit codes: 0 clean" in said

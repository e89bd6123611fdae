"""Files for other tools. Oracles: pytrec_eval's and ranx's own loaders, csv.reader as BEIR uses it,
and the expected bytes written by hand.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest
import pytrec_eval

from rerank.errors import InputError
from rerank.files import exchange
from rerank.files.formats import Judgment
from rerank.freezing import freeze
from rerank.sources import read_beir
from rerank.store import Store
from rerank.tasks import TaskSpec
from tests.conftest import write_jsonl

ROWS = [
    ("q2", "a", 0.1 + 0.2),
    ("q1", "b", 1.0),
    ("q1", "한글", 1.0),
    ("q1", "a", None),
    ("q1", "c", 5e-324),
    ("q1", "d", -1e22),
    ("q1", "e", 2.0),
]
JUDGMENTS = [Judgment("q1", "b", 2), Judgment("q1", "x", -1), Judgment("q3", "c", 0)]


@pytest.fixture
def scores() -> exchange.Scores:
    columns = zip(*ROWS, strict=True)
    table = pa.table(dict(zip(("query_id", "doc_id", "score"), map(list, columns), strict=True)))
    return exchange.best_first(table)


def test_scores_are_best_first_and_ties_go_by_id_descending(scores: exchange.Scores) -> None:
    """U+D55C is above `b` in UTF-8 bytes, so it comes first; a pair without a score has no row."""
    assert list(scores) == ["q1", "q2"]
    assert list(scores["q1"]) == ["e", "한글", "b", "c", "d"]
    assert scores["q2"] == {"a": 0.30000000000000004}


def test_a_trec_run_read_by_pytrec_eval_has_the_same_scores(scores: exchange.Scores) -> None:
    """17 significant digits, subnormal and large numbers included; ranks from 1."""
    data = exchange.trec_run(scores, "model").decode()
    assert data.splitlines()[0] == "q1 Q0 e 1 2.0 model"
    assert data.splitlines()[-1] == "q2 Q0 a 1 0.30000000000000004 model"
    assert pytrec_eval.parse_run(io.StringIO(data)) == scores


def test_trec_qrels_read_by_pytrec_eval_have_the_same_grades() -> None:
    """A negative grade stays one."""
    data = exchange.trec_qrels(JUDGMENTS).decode()
    assert data == "q1 0 b 2\nq1 0 x -1\nq3 0 c 0\n"
    assert pytrec_eval.parse_qrel(io.StringIO(data)) == exchange.grades_of(JUDGMENTS)


@pytest.mark.parametrize("name", ["a b", "a\tb", "a\nb", "a\x0bb", ""])
def test_trec_refuses_an_ascii_blank_in_an_id(name: str) -> None:
    """Conformance 19: only ASCII blanks part fields; U+3000 in an id is written as it is."""
    with pytest.raises(InputError, match="ASCII blank"):
        exchange.trec_qrels([Judgment("q", name, 1)])
    with pytest.raises(InputError, match="ASCII blank"):
        exchange.trec_run({name: {"d": 1.0}}, "model")
    assert exchange.trec_qrels([Judgment("q", "a\u3000b", 1)]) == "q 0 a\u3000b 1\n".encode()


def test_every_judged_query_has_a_list_and_no_other_query_has(scores: exchange.Scores) -> None:
    """q3 is judged and has no score, q2 is not judged."""
    lists, left_out = exchange.judged_lists(scores, ["q3", "q1"])
    assert lists == {"q1": scores["q1"], "q3": {}}
    assert left_out == 1


def test_ranx_loads_runs_and_qrels(tmp_path: Path) -> None:
    """Same dictionaries; a judged query with an empty list counts as 0: (1 + 0) / 2 in ranx."""
    import ranx

    lists, _ = exchange.judged_lists({"q1": {"b b": 0.1 + 0.2, "a": 1e-9}}, ["q1", "q2"])
    grades = {"q1": {"b b": 1, "a": 0}, "q2": {"c": 1}}
    (tmp_path / "run.json").write_bytes(exchange.plain_json(lists))
    (tmp_path / "qrels.json").write_bytes(exchange.plain_json(grades))
    run = ranx.Run.from_file(str(tmp_path / "run.json"), kind="json")
    qrels = ranx.Qrels.from_file(str(tmp_path / "qrels.json"), kind="json")
    assert run.to_dict() == lists
    assert qrels.to_dict() == grades
    assert ranx.evaluate(qrels, run, "mrr") == 0.5


def test_json_has_no_nan() -> None:
    """A score that is not finite is a mistake upstream, never written."""
    with pytest.raises(ValueError, match="JSON compliant"):
        exchange.plain_json({"q": {"d": float("nan")}})


def test_beir_qrels_are_read_back_by_csv_reader() -> None:
    """beir 2.2 reads them so; an id may hold blanks, commas and inner quotes (conformance 21)."""
    judged = [Judgment("q 1", 'd,"1"', 2), Judgment("q2", "d'2", 0)]
    rows = list(csv.reader(io.StringIO(exchange.beir_qrels(judged).decode()), delimiter="\t"))
    assert rows == [["query-id", "corpus-id", "score"], ["q 1", 'd,"1"', "2"], ["q2", "d'2", "0"]]


@pytest.mark.parametrize("name", ["a\tb", "a\rb", "a\nb", '"a', ""])
def test_beir_qrels_refuse_ids_that_need_quoting(name: str) -> None:
    """The format has no quoting."""
    with pytest.raises(InputError, match="BEIR's TSV cannot carry"):
        exchange.beir_qrels([Judgment("q", name, 1)])


def frozen(folder: Path, second: str) -> TaskSpec:
    """Two queries that offer document d, with its text as `second` for the other query."""
    rows = [
        {
            "query_id": query_id,
            "query": f" {query_id}\u3000",
            "weight": 2.5,
            "attributes": {"language": "ko"},
            "candidates": [{"doc_id": "d", "text": text, "grade": 1}],
        }
        for query_id, text in (("q1", " 본문\n둘째 줄"), ("q2", second))
    ]
    write_jsonl(folder / "candidates.jsonl", rows)
    (folder / "qrels").write_text("q1 0 gone 1\n")
    return TaskSpec(name="t", source="frozen_jsonl", folder=str(folder), qrels="qrels")


def test_a_beir_folder_gives_back_texts_queries_and_judgments(tmp_path: Path) -> None:
    """Read by this project's own BEIR reader, byte for byte; `gone` has no text."""
    task = freeze(frozen(tmp_path, " 본문\n둘째 줄"), Store(tmp_path / "store"))
    texts = exchange.document_texts(task)
    judged = exchange.judgments_of(task)
    (tmp_path / "beir/qrels").mkdir(parents=True)
    (tmp_path / "beir/corpus.jsonl").write_bytes(exchange.beir_corpus(texts))
    (tmp_path / "beir/queries.jsonl").write_bytes(exchange.beir_queries(task.queries))
    (tmp_path / "beir/qrels/test.tsv").write_bytes(exchange.beir_qrels(judged))
    found = read_beir(
        TaskSpec(name="t", folder=str(tmp_path / "beir"), query_attributes=("language",))
    )
    assert found.documents == {"d": " 본문\n둘째 줄"}
    assert found.queries["q1"].text == " q1\u3000"
    assert found.queries["q1"].weight == 2.5
    assert found.queries["q1"].attributes == {"language": "ko"}
    assert [(row.query_id, row.doc_id, row.grade) for row in found.judgments] == [
        ("q1", "d", 1),
        ("q1", "gone", 1),
        ("q2", "d", 1),
    ]
    note = exchange.beir_note(task, 1, 1).decode()
    assert "holds the 1 documents that stage 1 offered" in note
    assert task.fingerprint in note


def test_a_corpus_has_one_text_an_id(tmp_path: Path) -> None:
    """Frozen lists may give one id two texts; a BEIR corpus cannot."""
    task = freeze(frozen(tmp_path, "other"), Store(tmp_path / "store"))
    with pytest.raises(InputError, match="document 'd' has two different texts"):
        exchange.document_texts(task)

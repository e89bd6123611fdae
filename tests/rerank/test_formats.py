"""Files of the field, odd ones too. Oracles: the conformance cases, written as literals."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rerank.errors import InputError
from rerank.files.formats import write_qrels, write_run
from rerank.files.qrels_files import read_qrels
from rerank.files.run_files import read_run


def file(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def pairs(path: Path) -> list[tuple[str, str, int]]:
    return [(row.query_id, row.doc_id, row.grade) for row in read_qrels(path)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("007 0 0010 1\n007 0 10 0\n", [("007", "0010", 1), ("007", "10", 0)]),
        ("\ufeffq1\t0  a\t1\r\n\r\nq1 0 b 0", [("q1", "a", 1), ("q1", "b", 0)]),
        ("질의1 0 문서\u30001 1\n", [("질의1", "문서\u30001", 1)]),
        ("q 0 a\u0085b 1\nq 0 a\u00a0b 2\n", [("q", "a\u0085b", 1), ("q", "a\u00a0b", 2)]),
        ("# a comment of six words here\n#q1 0 d 2\n", [("#q1", "d", 2)]),
        ("query-id\tcorpus-id\tscore\nq1\treport,_1992\t1\nq1\t\"x\t-1\n",
         [("q1", "report,_1992", 1), ("q1", '"x', -1)]),
        ("q1\td1\t2\n", [("q1", "d1", 2)]),
    ],
    ids=["zeros", "bom-tabs-crlf", "u3000", "u0085-u00a0", "comments", "beir", "beir-no-header"],
)  # fmt: skip
def test_qrels_are_read_by_bytes_not_by_guess(
    tmp_path: Path, text: str, expected: list[tuple[str, str, int]]
) -> None:
    """Only ASCII blanks part fields; ids stay strings; no CSV quoting."""
    assert pairs(file(tmp_path, "qrels", text)) == expected


def test_qrels_may_be_gzipped_or_jsonl_with_provenance(tmp_path: Path) -> None:
    """Both forms give the same judgment; JSONL keeps provenance and attributes."""
    packed = file(tmp_path, "q.trec.gz", gzip.compress(b"q1 0 d1 3\n"))
    rich = file(
        tmp_path,
        "q.jsonl",
        '{"query_id":"q1","doc_id":"d1","grade":3,"provenance":"human","attributes":{"b":"1","a":"2"}}\n',
    )
    assert pairs(packed) == pairs(rich) == [("q1", "d1", 3)]
    (row,) = read_qrels(rich)
    assert (row.provenance, list(row.attributes)) == ("human", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("q1 0 a 0.5\n", ["line 1", "grade", "0.5", "not an integer"]),
        ("q1 0 a 1\nq1 0 a 1\n", ["lines 1 and 2", "'a'", "twice"]),
        ("q1 0 a 1\nq1 0 b\n", ["line 2", "3 fields", "4 expected"]),
        (b"q1 0 \xff 1\n", ["line 1", "not UTF-8"]),
    ],
)
def test_wrong_qrels_name_file_line_and_field(
    tmp_path: Path, text: str | bytes, words: list[str]
) -> None:
    """A grade is never cut to an integer, a duplicate never wins silently."""
    path = file(tmp_path, "qrels.txt", text)
    with pytest.raises(InputError) as caught:
        read_qrels(path)
    assert all(word in str(caught.value) for word in [*words, str(path)])


def test_an_integer_id_in_json_is_an_error_not_a_cast(tmp_path: Path) -> None:
    """Casting 1 and "1" together, or not, would be a guess (conformance 18)."""
    path = file(tmp_path, "q.jsonl", '{"query_id": 1, "doc_id": "d", "grade": 1}\n')
    with pytest.raises(InputError, match="int, must be a string"):
        read_qrels(path)


def test_runs_of_three_and_six_and_seven_columns(tmp_path: Path) -> None:
    """MS MARCO's score is 1/rank; a tag with a blank is a tag (conformance 25)."""
    three = read_run(file(tmp_path, "run3.tsv", "q1\ta\t1\nq1\tb\t2\n"))
    seven = read_run(file(tmp_path, "run7.txt", "q1 Q0 a 1 2.0 my tag\nq1 Q0 b 2 1.0 my tag\n"))
    assert [(row.doc_id, row.score) for row in three] == [("a", 1.0), ("b", 0.5)]
    assert [(row.doc_id, row.score) for row in seven] == [("a", 2.0), ("b", 1.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("q1 Q0 a 1 2.0\n", ["line 1", "5 fields", "6 expected"]),
        ("q1 Q0 a 1 5.0 t\nq1 Q0 b 2 3.0 t\nq1 Q0 a 3 1.0 t\n", ["lines 1 and 3", "'a'"]),
        ("q1 Q0 a 1 nan t\n", ["line 1", "score", "not finite"]),
        ("q1 Q0 a 1 0,9 t\n", ["line 1", "score", "not a number"]),
    ],
)
def test_wrong_runs_name_file_line_and_field(tmp_path: Path, text: str, words: list[str]) -> None:
    """trec_eval reads `0,9` as 0 and goes on; we do not."""
    with pytest.raises(InputError) as caught:
        read_run(file(tmp_path, "run.txt", text))
    assert all(word in str(caught.value) for word in words)


def test_a_run_that_is_written_reads_back_to_the_last_bit(tmp_path: Path) -> None:
    """Scores are written with repr: 17 significant digits where needed."""
    score = 0.1 + 0.2
    data = write_run([("q　1", "문서", 1, score), ("q　1", "b", 2, -1e-300)], "us")
    rows = read_run(file(tmp_path, "run.txt", data))
    assert [(row.query_id, row.doc_id, row.score) for row in rows] == [
        ("q　1", "문서", score),
        ("q　1", "b", -1e-300),
    ]
    with pytest.raises(InputError, match="ASCII blank"):
        write_run([("q 1", "d", 1, 1.0)], "us")


def test_qrels_that_are_written_read_back(tmp_path: Path) -> None:
    """Including negative grades."""
    rows = read_qrels(file(tmp_path, "a", "q1 0 a -1\nq1 0 b 3\n"))
    assert pairs(file(tmp_path, "b", write_qrels(rows))) == [("q1", "a", -1), ("q1", "b", 3)]

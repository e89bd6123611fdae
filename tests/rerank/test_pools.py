"""Depth-k pools by hand: the union of the first ranks, its blind order, and the way back.

Oracles: sets and arithmetic in each test, csv and json of the standard library.
"""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import pytest

from rerank import pools
from rerank.errors import InputError
from rerank.files.formats import Judgment
from rerank.files.qrels_files import read_qrels

ONE = {"q1": ["a", "b", "c"], "q2": ["d"]}
TWO = {"q1": ["c", "a", "z"], "q3": ["e", "f"]}
TEXT = 'comma, "quote",\r\nline\rend\nand 한글\u2028= 1\x00'


def test_a_pool_is_the_union_of_the_first_ranks_that_nobody_judged() -> None:
    """Depth 2: q1 a b | c a, q2 d, q3 e f; a and e are judged. Of 6 pairs 2 are judged."""
    pool = pools.pool_of([ONE, TWO], {("q1", "a"), ("q3", "e"), ("q9", "x")}, depth=2, seed=1)
    assert set(pool.pairs) == {("q1", "b"), ("q1", "c"), ("q2", "d"), ("q3", "f")}
    assert (pool.systems, pool.pooled) == (2, 6)
    assert pool.judged_share == pytest.approx(2 / 6)
    assert pools.pool_of([], set(), depth=1, seed=1).judged_share == 1.0


def test_the_order_is_blind_and_stable() -> None:
    """The same pairs in any ranking and any order of systems; queries by bytes; a seed shuffles."""
    names = [f"d{i}" for i in range(30)]
    shuffled = random.Random(5).sample(names, 30)
    first = pools.pool_of([{"é": names, "q1": names[:3]}], set(), depth=30, seed=1)
    second = pools.pool_of(
        [{"q1": names[2::-1]}, {"é": shuffled[:20]}, {"é": shuffled[20:]}], set(), depth=30, seed=1
    )
    assert first.pairs == second.pairs
    assert [query for query, _ in first.pairs] == ["q1"] * 3 + ["é"] * 30
    order = [doc for query, doc in first.pairs if query == "é"]
    assert order not in (names, sorted(names), shuffled)
    assert pools.pool_of([{"é": names}], set(), depth=30, seed=2).pairs[3:] != first.pairs[6:]


def test_a_negative_grade_is_not_a_judgment() -> None:
    """trec_eval: in the pool, not judged; so it is offered again."""
    rows = [Judgment("q", "a", -1), Judgment("q", "b", 0), Judgment("q", "c", 2)]
    assert pools.judged_pairs(rows) == {("q", "b"), ("q", "c")}


def test_a_pool_file_has_ids_texts_and_nothing_of_the_systems() -> None:
    """Keys are the columns; a text that nobody gave is null in JSONL and empty in CSV."""
    pool = pools.pool_of([{"q": ["a"]}, {"q": ["b"]}], set(), depth=1, seed=17)
    rows = list(pools.pool_rows("t", pool, {"q": "질문"}, {("q", "a"): TEXT}))
    read = [json.loads(line) for line in pools.pool_jsonl(rows).decode().split("\n")[:-1]]
    assert sorted(read, key=lambda row: row["doc_id"]) == [
        dict(zip(pools.COLUMNS, ("t", "q", "a", "질문", TEXT, None), strict=True)),
        dict(zip(pools.COLUMNS, ("t", "q", "b", "질문", None, None), strict=True)),
    ]
    table = csv.reader(io.StringIO(pools.pool_csv(rows).decode(), newline=""))
    header, *cells = table
    assert tuple(header) == pools.COLUMNS
    assert sorted(cells) == [
        ["t", "q", "a", "질문", TEXT, ""],
        ["t", "q", "b", "질문", "", ""],
    ]


def graded_csv(path: Path, grades: list[str], bom: bool = False) -> Path:
    """A pool of documents d0, d1, ... with grades, as a spreadsheet saves it."""
    rows = [
        dict(zip(pools.COLUMNS, ("t", "q", f"d{i}", "?", TEXT * 9000, grade), strict=True))
        for i, grade in enumerate(grades)
    ]
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + pools.pool_csv(rows))
    return path


@pytest.mark.parametrize("bom", [False, True])
def test_graded_rows_of_a_csv(tmp_path: Path, bom: bool) -> None:
    """Cells of 300,000 characters with line ends; blank grades are unjudged; lines are counted."""
    path = graded_csv(tmp_path / "pool.csv", ["2", "", " ", " 0 "], bom)
    before = csv.field_size_limit()
    graded, unjudged = pools.read_graded(path, "human")
    assert [row.judgment for row in graded] == [
        Judgment("q", "d0", 2, "human"),
        Judgment("q", "d3", 0, "human"),
    ]
    assert unjudged == 2
    assert graded[0].line == 2
    assert graded[1].line > 2 + 3 * 9000
    assert csv.field_size_limit() == before


def test_graded_rows_of_jsonl_may_say_more(tmp_path: Path) -> None:
    """Provenance and attributes of a row; grades as numbers or text; other tasks left out."""
    path = tmp_path / "pool.jsonl"
    rows = [
        {"task": "t", "query_id": "q", "doc_id": "a", "grade": 1, "provenance": "synthetic"},
        {"task": "t", "query_id": "q", "doc_id": "b", "grade": "3", "attributes": {"kind": "표"}},
        {"task": "u", "query_id": "q", "doc_id": "a", "grade": 0},
        {"task": "t", "query_id": "q", "doc_id": "c"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    graded, unjudged = pools.read_graded(path, "human", "t")
    assert [row.judgment for row in graded] == [
        Judgment("q", "a", 1, "synthetic"),
        Judgment("q", "b", 3, "human", {"kind": "표"}),
    ]
    assert unjudged == 1
    with pytest.raises(InputError, match="has no row of the task 'v'"):
        pools.read_graded(path, "human", "v")
    with pytest.raises(InputError, match="holds the tasks t, u"):
        pools.read_graded(path, "human")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("p.csv", "query_id,doc_id,grade\nq,a,1\nq,b,1.0\n", "line 3, field 'grade': '1.0'"),
        ("p.csv", "query_id,doc_id,grade\nq,a,good\n", "line 2, field 'grade': 'good'"),
        ("p.csv", "query_id;doc_id;grade\n", "line 1: column 'query_id' is missing"),
        ("p.csv", "query_id,doc_id\n", "line 1: column 'grade' is missing"),
        ("p.csv", "", "line 1: column 'query_id' is missing"),
        ("p.csv", "query_id,doc_id,grade\nq,a\n", "line 2: 2 cells, the header has 3"),
        ("p.csv", "query_id,doc_id,grade\nq,a,1,2\n", "line 2: 4 cells, the header has 3"),
        ("p.csv", 'query_id,doc_id,grade\nq,"a"b,1\n', "line 2: not CSV"),
        ("p.csv", "query_id,doc_id,grade\nq,a,1\n\nq,a,1\n", "lines 2 and 4"),
        ("p.jsonl", '{"query_id": "q", "doc_id": 7, "grade": 1}', "line 1, field 'doc_id'"),
        ("p.jsonl", '{"query_id": "q", "doc_id": "a", "grade": 0.5}', "line 1, field 'grade'"),
        ("p.jsonl", '{"query_id": "q", "doc_id": "a", "grade": true}', "line 1, field 'grade'"),
        (
            "p.jsonl",
            '{"query_id": "q", "doc_id": "a", "grade": 1, "provenance": "me"}',
            "line 1, field 'provenance'",
        ),
    ],
)
def test_wrong_grades_name_file_line_and_field(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    """Grades are integers; a float is never cut."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        pools.read_graded(path, "human")
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_csv_that_is_not_utf8_names_its_line(tmp_path: Path) -> None:
    """A Korean spreadsheet saves cp949 unless told otherwise."""
    path = tmp_path / "p.csv"
    path.write_bytes("query_id,doc_id,grade\nq,문서,1\n".encode("cp949"))
    with pytest.raises(InputError, match=r"p\.csv, line 2: not UTF-8"):
        pools.read_graded(path, "human")
    with pytest.raises(InputError, match="cannot read"):
        pools.read_graded(tmp_path / "absent.csv", "human")


def graded(*judgments: Judgment) -> list[pools.Graded]:
    return [pools.Graded(row, line) for line, row in enumerate(judgments, 2)]


def test_merging_keeps_the_old_and_adds_the_new(tmp_path: Path) -> None:
    """By id bytes; the same grade is known, a negative one is replaced; read_qrels reads it."""
    old = [
        Judgment("q2", "b", 1, "synthetic", {"kind": "x"}),
        Judgment("q1", "z", 0),
        Judgment("q1", "n", -1),
    ]
    new = graded(
        Judgment("q1", "a b", 2, "human"),
        Judgment("q2", "b", 1, "human"),
        Judgment("q1", "n", 1, "human"),
        Judgment("q0", "é", 0, "human"),
    )
    found = pools.merge_graded(old, new, pool=Path("p"), judgments=Path("j"))
    assert found.judgments == [
        Judgment("q0", "é", 0, "human"),
        Judgment("q1", "a b", 2, "human"),
        Judgment("q1", "n", 1, "human"),
        Judgment("q1", "z", 0),
        Judgment("q2", "b", 1, "synthetic", {"kind": "x"}),
    ]
    assert (found.added, found.known, found.new_queries) == (3, 1, 1)
    path = tmp_path / "v2.jsonl"
    path.write_bytes(pools.judgments_jsonl(found.judgments))
    assert read_qrels(path) == found.judgments
    assert len(old) == 3


def test_another_grade_for_a_judged_pair_is_refused() -> None:
    """Neither is right by itself: the sentence holds both, and where they stand."""
    with pytest.raises(InputError) as caught:
        pools.merge_graded(
            [Judgment("q", "d", 1)],
            graded(Judgment("q", "d", 2)),
            pool=Path("pool.csv"),
            judgments=Path("qrels.trec"),
        )
    assert str(caught.value) == (
        "pool.csv, line 2, field 'grade': document 'd' of query 'q' has grade 2 here and 1 in "
        "qrels.trec; make them agree"
    )

"""Judgments as files: TREC and BEIR qrels, JSONL, JSON and Parquet become one `QrelsFile`.

Duplicates and fractions are kept as they are written, with their lines, for the conventions of
`metrics` to judge. `read_qrels` is the strict reader for freezing. Conventions: trec_eval 9 and 10,
BEIR 2.2, ranx 0.3, ir_measures 0.4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metrics.arrays import Floats
from metrics.ids import Ids, coded, objects
from rerank.errors import InputError
from rerank.files.file_kinds import (
    ID_OF_DOCUMENT,
    ID_OF_QUERY,
    FileRows,
    kind_of,
    parquet_columns,
    read_json,
)
from rerank.files.formats import (
    BEIR_HEADER,
    SCORE,
    Judgment,
    attributes_of,
    checked_text,
    columns_of,
    grade_of,
    id_field,
    json_lines,
    lines,
    provenance_of,
)

INTEGER = re.compile("[+-]?[0-9]+")
GRADES = ("grade", "relevance_grade", "relevance", "label", "score")
SUBTOPICS = ("subtopic", "iteration")


@dataclass(frozen=True)
class QrelsFile(FileRows):
    """Judgments as they are written; parallel arrays, one row a judgment.

    query_ids, doc_ids, provenances: (n,). grades: (n,) float64. subtopics: (n,), the second column
    of TREC qrels.
    """

    query_ids: Ids
    doc_ids: Ids
    grades: Floats
    subtopics: Ids
    provenances: Ids


@dataclass
class _Row:
    """One judgment as it is written: the grade is still what the file holds."""

    line: int
    query_id: str
    doc_id: str
    grade: Any
    where: str
    subtopic: str = "0"
    provenance: Any = None
    attributes: Any = None


def read_qrels_file(path: Path, *, fractions: bool = False) -> QrelsFile:
    """The judgments of a file; its kind is told from its content. InputError names the line.

    fractions: grades may be fractions; without it 0.5 and 1.0 are errors, never cut to integers.
    """
    kind = kind_of(path)
    if kind == "parquet":
        return _parquet_qrels(path, fractions)
    graded = [(row, _number(row, fractions)) for row in _rows(path)]
    rows = [row for row, _ in graded]
    nested = kind == "json"
    return QrelsFile(
        path=path,
        lines=None if nested else np.array([row.line for row in rows], np.int64),
        unit="" if nested else "line",
        query_ids=coded(objects([row.query_id for row in rows])),
        doc_ids=coded(objects([row.doc_id for row in rows])),
        grades=np.array([grade for _, grade in graded], np.float64),
        subtopics=coded(objects([row.subtopic for row in rows])),
        provenances=coded(objects([_provenance(row, "unstated") for row in rows])),
    )


def read_qrels(path: Path, provenance: str = "unstated") -> list[Judgment]:
    """Judgments to freeze: integer grades, each pair once. InputError where not.

    JSONL rows: query_id, doc_id, grade and optional provenance and attributes.
    """
    seen: dict[tuple[str, str], int] = {}
    judgments = []
    for row in _rows(path):
        pair = (row.query_id, row.doc_id)
        if pair in seen:
            raise InputError(
                f"{path}, lines {seen[pair]} and {row.line}: document '{row.doc_id}' is judged "
                f"twice for query '{row.query_id}'; keep one line"
            )
        seen[pair] = row.line
        judgments.append(
            Judgment(
                *pair,
                grade_of(row.grade, row.where),
                _provenance(row, provenance),
                attributes_of({} if row.attributes is None else row.attributes, row.where),
            )
        )
    return judgments


def _rows(path: Path) -> Iterator[_Row]:
    kind = kind_of(path)
    if kind == "jsonl":
        return _jsonl_rows(path)
    if kind == "json":
        return _nested_rows(read_json(path), str(path))
    if kind == "parquet":
        raise InputError(
            f"{path}: judgments to freeze are qrels or JSONL, not Parquet; export them"
        )
    return _column_rows(path)


def _column_rows(path: Path) -> Iterator[_Row]:
    """TREC (query iteration document grade) or BEIR (query document grade, header optional).

    After BEIR's header fields are parted by tabs alone, so that its ids may hold blanks.
    """
    width, tabs = 0, False
    for number, text in lines(path):
        parts = text.split("\t") if tabs else columns_of(text)
        if not text.strip() or (text.startswith("#") and _is_comment(parts)):
            continue
        where = f"{path}, line {number}"
        if tuple(columns_of(text)) == BEIR_HEADER:
            if width:
                raise InputError(f"{where}: BEIR's header stands amid the rows; remove it")
            width, tabs = 3, "\t" in text
            continue
        width = width or len(parts)
        if width not in (3, 4) or len(parts) != width or not all(parts):
            raise InputError(
                f"{where} has {len(parts)} fields, {width if width in (3, 4) else 4} expected "
                "(TREC: query iteration document grade; BEIR: query document grade)"
            )
        yield _Row(number, parts[0], parts[-2], parts[-1], where, parts[1] if width == 4 else "0")


def _is_comment(parts: list[str]) -> bool:
    """Whether a line that begins with `#` is a comment: it does not read as a judgment."""
    return len(parts) not in (3, 4) or not SCORE.fullmatch(parts[-1])


def _jsonl_rows(path: Path) -> Iterator[_Row]:
    """A judgment a line, or a query a line with its graded `candidates`; null = unjudged."""
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        query_id = id_field(row, ID_OF_QUERY, where)
        entries = row.get("candidates", [row])
        if not isinstance(entries, list) or not all(isinstance(item, dict) for item in entries):
            raise InputError(f"{where}, field 'candidates': must be a list of objects")
        for place, entry in enumerate(entries, 1):
            inside = f"{where}, candidate {place}" if "candidates" in row else where
            doc_id = id_field(entry, ID_OF_DOCUMENT, inside)
            field = next((name for name in GRADES if name in entry), None)
            if field is None:
                raise InputError(
                    f"{inside}, field 'grade': is missing; the line has {sorted(entry)}"
                )
            if entry[field] is None and "candidates" in row:
                continue
            subtopic = next((entry[name] for name in SUBTOPICS if name in entry), "0")
            if not isinstance(subtopic, str):
                raise InputError(f"{inside}, field 'subtopic': {subtopic!r} must be a string")
            yield _Row(
                number,
                query_id,
                doc_id,
                entry[field],
                inside,
                subtopic,
                entry.get("provenance"),
                entry.get("attributes"),
            )


def _nested_rows(value: dict[str, Any], where: str) -> Iterator[_Row]:
    """{query: {document: grade}} as ranx, pytrec_eval and mteb hold it."""
    for number, (query_id, documents) in enumerate(value.items(), 1):
        if not isinstance(documents, dict):
            raise InputError(
                f"{where}, query '{query_id:.60}': must be an object of document: grade"
            )
        for doc_id, grade in documents.items():
            place = f"{where}, query '{query_id:.60}', document '{doc_id:.60}'"
            checked_text(query_id + doc_id, place)
            yield _Row(number, query_id, doc_id, grade, place)


def _parquet_qrels(path: Path, fractions: bool) -> QrelsFile:
    table = parquet_columns(
        path,
        {"query": ID_OF_QUERY, "document": ID_OF_DOCUMENT},
        {"grade": GRADES, "subtopic": SUBTOPICS, "provenance": ("provenance",)},
    )
    if "grade" not in table:
        raise InputError(f"{path}: no column 'grade'; judgments need one")
    queries, grades = table["query"].ids(), table["grade"].numbers()
    kinds = (
        table["provenance"].ids() if "provenance" in table else _constant("unstated", len(grades))
    )
    for kind in kinds.present():
        provenance_of(kind, f"{path}, column 'provenance'")
    topics = table["subtopic"].ids() if "subtopic" in table else _constant("0", len(grades))
    found = QrelsFile(
        path=path,
        lines=None,
        unit="row",
        query_ids=queries,
        doc_ids=table["document"].ids(),
        grades=grades,
        subtopics=topics,
        provenances=kinds,
    )
    whole = np.isfinite(grades) & ((grades == np.floor(grades)) | fractions)
    wrong = ~(whole & (np.abs(grades) < 2.0**31))
    if wrong.any():
        row = int(np.argmax(wrong))
        _number(_Row(row + 1, "", "", float(grades[row]), found.place(row)), fractions)
    return found


def _constant(name: str, n: int) -> Ids:
    return Ids(np.zeros(n, np.int64), objects([name]))


def _number(row: _Row, fractions: bool) -> float:
    """The grade as a number; a fraction only where it is asked for, and never cut."""
    value = row.grade
    text = isinstance(value, str)
    fraction = isinstance(value, float) or (
        text and SCORE.fullmatch(value) and not INTEGER.fullmatch(value)
    )
    if not fraction:
        return float(grade_of(value, row.where))
    if not math.isfinite(float(value)):
        raise InputError(f"{row.where}, field 'grade': {value} is not a finite number")
    if abs(float(value)) >= 2.0**31:
        raise InputError(f"{row.where}, field 'grade': {value} does not fit 32 bits")
    if not fractions:
        raise InputError(
            f"{row.where}, field 'grade': {value} is not an integer; --gains float uses it as a "
            "gain"
        )
    return float(value)


def _provenance(row: _Row, otherwise: str) -> str:
    return provenance_of(otherwise if row.provenance is None else row.provenance, row.where)

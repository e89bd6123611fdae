"""The field's file formats, read line by line: TREC and BEIR qrels, TREC and MS MARCO runs, JSONL.

Fields of TREC files are parted by ASCII blanks and tabs only, so ids may hold U+3000 or quotes.
A UTF-8 BOM, CRLF, blank lines and gzip are accepted; anything doubtful is an InputError that
names file, line and field. Conventions: trec_eval 9 and 10, BEIR 2.2, ir_measures 0.4.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerank.errors import InputError

BLANKS = re.compile("[ \t\r\f\v]+")  # ASCII only: str.split() would also cut at U+3000 and U+0085
BEIR_HEADER = ("query-id", "corpus-id", "score")
GRADE = re.compile("[+-]?[0-9]{1,12}")  # int() would also take 1_0 and other digits
GRADE_RANGE = range(-(2**31), 2**31)
PROVENANCES = ("human", "derived", "synthetic", "translated", "unstated")


@dataclass(frozen=True)
class Judgment:
    """One judged (query, document) pair; `attributes` may slice results (document, failure)."""

    query_id: str
    doc_id: str
    grade: int
    provenance: str = "unstated"
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRow:
    """One line of a run: what a first stage or a reranker gave a document."""

    query_id: str
    doc_id: str
    rank: int | None
    score: float


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """(1-based number, text without line end) of every line; cut at LF only."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            for number, raw in enumerate(stream, 1):
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                try:
                    yield number, data.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file"
                    ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot read {path}: {reason}; check the file and its path in the task's YAML"
        ) from error


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line of a JSONL file."""
    for number, text in lines(path):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}); mend the line") from error
        if not isinstance(value, dict):
            raise InputError(f"{path}, line {number}: must be a JSON object, is {value!r:.40}")
        if "\\ud" in text.lower():  # an escape that may be half a pair
            checked_text(json.dumps(value, ensure_ascii=False), f"{path}, line {number}")
        yield number, value


def text_field(row: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    """The first of `names` in a JSON row as text; an integer id is an error, never cast."""
    for name in names:
        if name in row:
            value = row[name]
            if not isinstance(value, str):
                raise InputError(
                    f"{where}, field '{name}': {value!r:.40} is {type(value).__name__}, must be a "
                    "string; write ids and texts in quotes"
                )
            return checked_text(value, f"{where}, field '{name}'")
    raise InputError(f"{where}: field '{names[0]}' is missing; the line has {sorted(row)}")


def checked_text(value: str, where: str) -> str:
    """`value` if it can be written as UTF-8: a lone surrogate has no bytes to freeze."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: holds a lone surrogate (character {error.start}), which is no Unicode text; "
            "mend the source"
        ) from error
    return value


def read_qrels(path: Path, provenance: str = "unstated") -> list[Judgment]:
    """Judgments from TREC qrels (4 columns), BEIR TSV (3 columns, header optional) or JSONL.

    JSONL rows: query_id, doc_id, grade and optional provenance and attributes.
    """
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = _jsonl_judgments(path, provenance)
    else:
        rows = _column_judgments(path, provenance)
    return list(_without_duplicates(rows, path))


def _jsonl_judgments(path: Path, provenance: str) -> Iterator[tuple[int, Judgment]]:
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        yield (
            number,
            Judgment(
                text_field(row, ("query_id", "qid"), where),
                text_field(row, ("doc_id", "document_id", "docid"), where),
                grade_of(row.get("grade"), where),
                provenance_of(row.get("provenance", provenance), where),
                attributes_of(row.get("attributes", {}), where),
            ),
        )


def _column_judgments(path: Path, provenance: str) -> Iterator[tuple[int, Judgment]]:
    width = 0
    for number, text in lines(path):
        parts = _columns(text)
        if not parts or tuple(parts) == BEIR_HEADER:
            continue
        if text.startswith("#") and len(parts) not in (3, 4):
            continue
        width = width or len(parts)
        if width not in (3, 4) or len(parts) != width:
            raise InputError(
                f"{path}, line {number}: {len(parts)} fields, {width if width in (3, 4) else 4} "
                "expected (TREC: query iteration document grade; BEIR: query document grade)"
            )
        where = f"{path}, line {number}"
        yield number, Judgment(parts[0], parts[-2], grade_of(parts[-1], where), provenance)


def _without_duplicates(rows: Iterator[tuple[int, Judgment]], path: Path) -> Iterator[Judgment]:
    seen: dict[tuple[str, str], int] = {}
    for number, row in rows:
        pair = (row.query_id, row.doc_id)
        if pair in seen:
            raise InputError(
                f"{path}, lines {seen[pair]} and {number}: document '{row.doc_id}' is judged twice "
                f"for query '{row.query_id}'; keep one line"
            )
        seen[pair] = number
        yield row


def grade_of(value: Any, where: str) -> int:
    """An integer grade; a float or a text that is no integer is an error, never cut."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{where}, field 'grade': {value!r} is not an integer")
    if isinstance(value, str) and not GRADE.fullmatch(value):
        raise InputError(f"{where}, field 'grade': '{value:.60}' is not an integer")
    grade = int(value)
    if grade not in GRADE_RANGE:
        raise InputError(f"{where}, field 'grade': {grade} does not fit 32 bits")
    return grade


def provenance_of(value: Any, where: str) -> str:
    """One of `PROVENANCES`."""
    if value not in PROVENANCES:
        raise InputError(f"{where}, field 'provenance': {value!r} is none of {PROVENANCES}")
    return str(value)


def attributes_of(value: Any, where: str) -> dict[str, str]:
    """Slice attributes: a flat object of strings, its keys sorted."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InputError(f"{where}, field 'attributes': must be an object of strings, is {value!r}")
    return {checked_text(key, where): checked_text(value[key], where) for key in sorted(value)}


def read_run(path: Path) -> list[RunRow]:
    """A run: TREC (6 columns or more), MS MARCO (query, document, rank) or candidate-list JSONL.

    MS MARCO runs carry no score: it is 1/rank. JSONL rows hold query_id and candidates, each
    `[doc_id, score]`, or query_id, doc_id and score.
    """
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = list(_jsonl_run(path))
    else:
        rows = list(_column_run(path))
    seen: dict[tuple[str, str], int] = {}
    for number, row in rows:
        pair = (row.query_id, row.doc_id)
        if pair in seen:
            raise InputError(
                f"{path}, lines {seen[pair]} and {number}: document '{row.doc_id}' is listed twice "
                f"for query '{row.query_id}'; keep one"
            )
        seen[pair] = number
    return [row for _, row in rows]


def _column_run(path: Path) -> Iterator[tuple[int, RunRow]]:
    for number, text in lines(path):
        parts = _columns(text)
        if not parts or (text.startswith("#") and len(parts) not in (3, 6)):
            continue
        where = f"{path}, line {number}"
        if len(parts) == 3:
            rank = rank_of(parts[2], where)
            yield number, RunRow(parts[0], parts[1], rank, 1.0 / rank)
        elif len(parts) >= 6:
            yield number, RunRow(parts[0], parts[2], None, score_of(parts[4], where))
        else:
            raise InputError(
                f"{where}: {len(parts)} fields, 6 expected (TREC run: query Q0 document rank "
                "score tag) or 3 (MS MARCO: query document rank)"
            )


def _jsonl_run(path: Path) -> Iterator[tuple[int, RunRow]]:
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        query_id = text_field(row, ("query_id", "qid"), where)
        if "candidates" not in row:
            doc_id = text_field(row, ("doc_id", "document_id", "docid"), where)
            yield number, RunRow(query_id, doc_id, None, score_of(row.get("score"), where))
            continue
        if not isinstance(row["candidates"], list):
            raise InputError(f"{where}, field 'candidates': must be a list of [document id, score]")
        for entry in row["candidates"]:
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)):
                raise InputError(f"{where}: candidates must be [document id, score] pairs")
            yield number, RunRow(query_id, entry[0], None, score_of(entry[1], where))


def rank_of(value: str, where: str) -> int:
    """A 1-based rank."""
    if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) < 1:
        raise InputError(f"{where}, field 'rank': '{value}' is not a rank from 1")
    return int(value)


def score_of(value: Any, where: str) -> float:
    """A finite score."""
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}, field 'score': {value!r:.60} is not a number") from error
    if not math.isfinite(score):
        raise InputError(f"{where}, field 'score': {value} is not finite; remove the line")
    return score


def _columns(text: str) -> list[str]:
    return [part for part in BLANKS.split(text) if part]


def write_run(rows: list[tuple[str, str, int, float]], tag: str) -> bytes:
    """TREC run bytes from (query, document, rank, score) rows, 17 significant digits.

    InputError where an id holds an ASCII blank: the format has no way to write it.
    """
    for query_id, doc_id, _, _ in rows:
        for name in (query_id, doc_id):
            if not name or BLANKS.search(name) or "\n" in name:
                raise InputError(
                    f"id {name!r:.80} holds an ASCII blank; a TREC file cannot carry it"
                )
    text = "".join(f"{q} Q0 {d} {rank} {score!r} {tag}\n" for q, d, rank, score in rows)
    return text.encode("utf-8")


def write_qrels(judgments: list[Judgment]) -> bytes:
    """TREC qrels bytes."""
    return "".join(f"{j.query_id} 0 {j.doc_id} {j.grade}\n" for j in judgments).encode("utf-8")

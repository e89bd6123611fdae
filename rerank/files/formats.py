"""The field's file formats line by line: how lines, fields, ids, grades and scores are read.

Fields of TREC files are parted by ASCII blanks and tabs only, so ids may hold U+3000 or quotes.
A UTF-8 BOM, CRLF, blank lines and gzip are accepted; anything doubtful is an InputError that
names file, line and field. Whole runs are read in `run_files`, judgments in `qrels_files`.
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
from typing import Any, BinaryIO, cast

from rerank.errors import InputError

BLANKS = re.compile("[ \t\r\f\v]+")  # ASCII only: str.split() would also cut at U+3000 and U+0085
BEIR_HEADER = ("query-id", "corpus-id", "score")
GRADE = re.compile("[+-]?[0-9]{1,12}")  # int() would also take 1_0 and other digits
SCORE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
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


UNREADABLE = (OSError, EOFError, zlib.error)  # what a missing or damaged file raises


def opened(path: Path) -> BinaryIO:
    """The file's bytes, unpacked where it begins as gzip does, whatever its name says."""
    with open(path, "rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else open(path, "rb")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """(1-based number, text without line end) of every line; cut at LF only."""
    try:
        with opened(path) as stream:
            for number, raw in enumerate(stream, 1):
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                yield number, _line(data, f"{path}, line {number}")
    except UNREADABLE as error:
        raise cannot_read(path, error) from error


def _line(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 ({error.reason}); convert the file") from error
    if "\r" in text:
        raise InputError(
            f"{where}: holds a carriage return; write line ends as LF or CR LF, one row a line"
        )
    return text


def cannot_read(path: Path, error: Exception) -> InputError:
    """The error for a file that the system will not open or that is not what it says it is."""
    reason = getattr(error, "strerror", None) or error
    return InputError(f"cannot read {path}: {reason}; check the file and its path")


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line of a JSONL file."""
    for number, text in lines(path):
        if not text.strip():
            continue
        try:
            value = json.loads(text, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}); mend the line") from error
        if not isinstance(value, dict):
            raise InputError(f"{path}, line {number}: must be a JSON object, is {value!r:.40}")
        if "\\ud" in text.lower():  # an escape that may be half a pair
            checked_text(json.dumps(value, ensure_ascii=False), f"{path}, line {number}")
        yield number, value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are each once: a plain parser would keep the last without a word."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key '{twice:.80}' occurs twice in one object")
    return value


def id_field(row: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    """The first of `names` in a JSON row as an id: text that is not empty."""
    found = text_field(row, names, where)
    if not found:
        raise InputError(f"{where}: the {names[0]} is empty; give it an id")
    return found


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


def rank_of(value: str, where: str) -> int:
    """A 1-based rank."""
    if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) < 1:
        raise InputError(f"{where}, field 'rank': '{value}' is not a rank from 1")
    return int(value)


def score_of(value: str, where: str) -> float:
    """A score as text: a number, nan or inf; float() alone would also take 1_0 and other digits."""
    if not SCORE.fullmatch(value):
        raise InputError(f"{where}, field 'score': {value!r:.60} is not a number")
    return float(value)


def finite_score(value: Any, where: str) -> float:
    """A finite score of JSON, a number or its text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where}, field 'score': {value!r:.60} is not a number")
    try:
        score = score_of(value, where) if isinstance(value, str) else float(value)
    except OverflowError as error:
        raise InputError(f"{where}, field 'score': is not a number that fits float64") from error
    if not math.isfinite(score):
        raise InputError(f"{where}, field 'score': {score} is not finite; remove the line")
    return score


def columns_of(text: str) -> list[str]:
    """The fields of a line, parted by ASCII blanks and tabs."""
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

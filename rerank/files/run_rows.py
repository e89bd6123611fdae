"""The rows of a run as its file writes them, one generator a kind of file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerank.errors import InputError
from rerank.files.file_kinds import ID_OF_DOCUMENT, ID_OF_QUERY
from rerank.files.formats import (
    SCORE,
    checked_text,
    columns_of,
    id_field,
    json_lines,
    lines,
    rank_of,
    score_of,
)

TEXT = ("text", "document", "contents")
RANKS = ("rank", "retrieval_rank")
SCORES = ("score", "retrieval_score")
PREDICTIONS = "mteb_model_meta"  # the key that MTEB's predictions begin with


@dataclass
class RunLine:
    """One row; score and rank None where it has none. No document: an empty list of the query."""

    line: int
    query_id: str
    doc_id: str | None
    score: float | None = None
    rank: int | None = None
    text: str | None = None


def column_rows(path: Path, notes: list[str]) -> Iterator[RunLine]:
    """TREC (query Q0 document rank score tag) or MS MARCO (query document rank)."""
    width = 0
    wide = 0
    for number, text in lines(path):
        parts = columns_of(text)
        if not parts or (text.startswith("#") and _is_comment(parts)):
            continue
        where = f"{path}, line {number}"
        width = width or (3 if len(parts) == 3 else 6)
        if width == 3 and len(parts) == 3:
            yield RunLine(number, parts[0], parts[1], None, rank_of(parts[2], where))
        elif width == 6 and len(parts) >= 6:
            wide += len(parts) > 6
            yield RunLine(number, parts[0], parts[2], score_of(parts[4], where), _rank(parts[3]))
        else:
            raise InputError(
                f"{where} has {len(parts)} fields, {width} expected (TREC run: query Q0 document "
                "rank score tag; MS MARCO: query document rank)"
            )
    if wide:
        notes.append(f"more than 6 fields in {wide} lines: the tag is the 6th, the rest is ignored")


def _is_comment(parts: list[str]) -> bool:
    """Whether a line that begins with `#` is a comment: it does not read as a row of a run.

    A query id may begin with `#`, as trec_eval 9 and ir_measures read it.
    """
    if len(parts) == 3:
        return not parts[2].isdigit()
    return len(parts) < 6 or not SCORE.fullmatch(parts[4])


def _rank(text: str) -> int | None:
    """A rank as written; None where it is no whole number: trec_eval does not read it either."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def jsonl_rows(path: Path, by: str) -> Iterator[RunLine]:
    """A (query, document) a line, or a query a line with its `candidates` or `relevance_ids`."""
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        query_id = id_field(row, ID_OF_QUERY, where)
        listed = next((name for name in ("candidates", "relevance_ids") if name in row), None)
        if listed is None:
            yield _json_row(number, query_id, row, by, where)
            continue
        entries = row[listed]
        if not isinstance(entries, list):
            raise InputError(f"{where}, field '{listed}': must be a list, is {entries!r:.40}")
        if not entries:
            yield RunLine(number, query_id, None)
        for place, entry in enumerate(entries, 1):
            yield _candidate(number, query_id, entry, place, by, f"{where}, candidate {place}")


def _candidate(number: int, query_id: str, entry: Any, place: int, by: str, where: str) -> RunLine:
    """An object with doc_id, a [document id, score] pair, or a document id alone."""
    if isinstance(entry, dict):
        return _json_row(number, query_id, entry, by, where, place)
    if isinstance(entry, str):
        return RunLine(number, query_id, _id(entry, where), None, place)
    if isinstance(entry, list) and len(entry) == 2:
        return RunLine(number, query_id, _id(entry[0], where), _score(entry[1], where))
    raise InputError(
        f"{where}: candidates must be [document id, score] pairs, objects with doc_id, or ids"
    )


def _json_row(
    number: int,
    query_id: str,
    row: dict[str, Any],
    by: str,
    where: str,
    place: int | None = None,
) -> RunLine:
    doc_id = id_field(row, ID_OF_DOCUMENT, where)
    named = [name for name in ((by,) if by else SCORES) if name in row]
    if by and not named:
        raise InputError(f"{where}: no field '{by}' to rank by; the line has {sorted(row)}")
    # a candidate list without any score is an order; null beside a `score` is a bad score
    scoreless = not named or (named[0] == "retrieval_score" and row[named[0]] is None)
    score = None if scoreless else _score(row[named[0]], f"{where}, field '{named[0]}'")
    if scoreless and place is None and not any(name in row for name in RANKS):
        raise InputError(f"{where}, field 'score': is missing; the line has {sorted(row)}")
    rank = next((row[name] for name in RANKS if row.get(name) is not None), place)
    if rank is not None and (
        isinstance(rank, bool) or not isinstance(rank, int) or abs(rank) >= 2**53
    ):
        raise InputError(f"{where}, field 'rank': {rank!r:.40} is not a rank")
    text = next((row[name] for name in TEXT if isinstance(row.get(name), str)), None)
    return RunLine(number, query_id, doc_id, score, rank, text)


def _score(value: Any, where: str) -> float:
    """A number of JSON; null is NaN, a bad score."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: {value!r:.60} is not a number; write scores without quotes")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{where}: is not a number that fits float64") from error


def nested_rows(value: dict[str, Any], where: str) -> Iterator[RunLine]:
    """{query: {document: score}} as ranx, pytrec_eval and BEIR write it, or MTEB predictions."""
    queries = _predictions(value, where) if PREDICTIONS in value else value
    for number, (query_id, documents) in enumerate(queries.items(), 1):
        inside = f"{where}, query '{query_id:.60}'"
        _id(query_id, where)
        if not isinstance(documents, dict):
            raise InputError(f"{inside}: must be an object of document: score")
        if not documents:
            yield RunLine(number, query_id, None)
        for doc_id, score in documents.items():
            place = f"{inside}, document '{doc_id:.60}'"
            yield RunLine(number, query_id, _id(doc_id, place), _score(score, place))


def _predictions(value: dict[str, Any], where: str) -> dict[str, Any]:
    """The one {query: {document: score}} of MTEB predictions: subset, split, queries."""
    subsets = {name: splits for name, splits in value.items() if name != PREDICTIONS}
    found = [
        (f"{subset}/{split}", queries)
        for subset, splits in subsets.items()
        if isinstance(splits, dict)
        for split, queries in splits.items()
    ]
    if len(found) != 1 or not isinstance(found[0][1], dict):
        names = ", ".join(name for name, _ in found) or "none"
        raise InputError(
            f"{where}: MTEB predictions must hold one subset and split of queries, and hold "
            f"{len(found)} ({names}); keep one in the file"
        )
    queries: dict[str, Any] = found[0][1]
    return queries


def _id(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: id {value!r:.40} must be a string that is not empty")
    return checked_text(value, where)

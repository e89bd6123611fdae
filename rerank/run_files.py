"""Runs as files, whoever wrote them: TREC, MS MARCO, JSONL, JSON and Parquet become one `RunFile`.

Nothing is decided here that could move a number: duplicates, bad scores and ties are kept as they
are written, with their lines, for the conventions of `metrics` to judge. `read_run` is the strict
reader for freezing. Conventions: trec_eval 9 and 10, ranx 0.3, ir_measures 0.4, mteb 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metrics.arrays import Floats, Integers, Objects
from metrics.ids import Ids, coded, objects
from rerank.errors import InputError
from rerank.file_kinds import (
    ID_OF_DOCUMENT,
    ID_OF_QUERY,
    FileRows,
    kind_of,
    parquet_columns,
    read_json,
)
from rerank.formats import (
    RunRow,
    checked_text,
    columns_of,
    json_lines,
    lines,
    rank_of,
    score_of,
    text_field,
)

TEXT = ("text", "document", "contents")
RANK = ("rank", "retrieval_rank")
SCORE = ("score", "retrieval_score")
PREDICTIONS = "mteb_model_meta"  # the key that MTEB's predictions begin with


@dataclass(frozen=True)
class RunFile(FileRows):
    """One run as it is written; parallel arrays, one row a (query, document).

    query_ids, doc_ids: (n,). scores: (n,) float64, NaN where null or NaN is written.
    ranks: (n,) int64 as written, None where the file has no ranks. scored: False where the file
    holds ranks alone; the scores are then 1 / rank. texts: (n,) object, str or None; None where the
    file has no texts. notes: to be told.
    """

    query_ids: Ids
    doc_ids: Ids
    scores: Floats
    ranks: Integers | None
    texts: Objects | None
    scored: bool = True
    notes: tuple[str, ...] = ()


@dataclass
class _Row:
    """One line as it is written; score and rank None where the line has none."""

    line: int
    query_id: str
    doc_id: str
    score: float | None
    rank: int | None = None
    text: str | None = None


def read_run_file(path: Path, by: str = "") -> RunFile:
    """The run of a file; its kind is told from its content. InputError names file, line, field.

    by: the field that holds the score in JSONL or Parquet; default `score`.
    """
    kind = kind_of(path)
    if kind == "parquet":
        return _parquet_run(path, by)
    notes: list[str] = []
    if kind == "columns":
        if by:
            raise InputError(
                f"{path} has columns without names; --by {by} is for JSONL and Parquet"
            )
        rows = list(_column_rows(path, notes))
    elif kind == "json":
        rows = list(_nested_rows(read_json(path), str(path)))
    else:
        rows = list(_jsonl_rows(path, by, notes))
    return _run_file(path, rows, notes)


def read_run(path: Path) -> list[RunRow]:
    """A run to freeze: each document once a query, every score finite. InputError where not."""
    run = read_run_file(path)
    seen: dict[tuple[str, str], int] = {}
    rows = []
    for at, (query_id, doc_id) in enumerate(zip(run.query_ids, run.doc_ids, strict=True)):
        line, score = run.line(at), float(run.scores[at])
        if (query_id, doc_id) in seen:
            raise InputError(
                f"{path}, lines {seen[query_id, doc_id]} and {line}: document '{doc_id}' is listed "
                f"twice for query '{query_id}'; keep one"
            )
        if not math.isfinite(score):
            raise InputError(
                f"{path}, line {line}, field 'score': {score} is not finite; remove the line"
            )
        seen[query_id, doc_id] = line
        # the rank column of a scored run is not to be trusted (BEIR writes 0): the score decides
        rank = None if run.scored or run.ranks is None else int(run.ranks[at])
        rows.append(RunRow(query_id, doc_id, rank, score))
    return rows


def _run_file(path: Path, rows: list[_Row], notes: list[str]) -> RunFile:
    scored = [row.score is not None for row in rows]
    ranked = [row.rank is not None for row in rows]
    if any(scored) and not all(scored):
        row = rows[scored.index(False)]
        raise InputError(
            f"{path}, line {row.line}: no score, though other lines have one; score every candidate"
        )
    ranks = np.array([row.rank or 0 for row in rows], np.int64) if all(ranked) and rows else None
    if rows and not any(scored):
        ranks = ranks if ranks is not None else _places(rows)
        scores = 1.0 / np.maximum(ranks, 1)
        notes.append("no scores in the file: score = 1 / rank")
    else:
        scores = np.array([row.score for row in rows], np.float64)
    texts = (
        objects([row.text for row in rows]) if any(row.text is not None for row in rows) else None
    )
    return RunFile(
        path=path,
        query_ids=coded(objects([row.query_id for row in rows])),
        doc_ids=coded(objects([row.doc_id for row in rows])),
        scores=scores,
        ranks=ranks,
        texts=texts,
        lines=np.array([row.line for row in rows], np.int64),
        scored=any(scored),
        notes=tuple(notes),
    )


def _column_rows(path: Path, notes: list[str]) -> Iterator[_Row]:
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
            yield _Row(number, parts[0], parts[1], None, rank_of(parts[2], where))
        elif width == 6 and len(parts) >= 6:
            wide += len(parts) > 6
            yield _Row(number, parts[0], parts[2], score_of(parts[4], where), _rank(parts[3]))
        else:
            raise InputError(
                f"{where} has {len(parts)} fields, {width} expected (TREC run: query Q0 document "
                "rank score tag; MS MARCO: query document rank)"
            )
    if wide:
        notes.append(f"more than 6 fields in {wide} lines: the tag is the 6th, the rest is ignored")


def _is_comment(parts: list[str]) -> bool:
    """Whether a line that begins with `#` is a comment: it has not the shape of a run line.

    A query id may begin with `#`, as trec_eval 9 and ir_measures read it.
    """
    if len(parts) == 3:
        return parts[0] == "#" and not parts[2].isdigit()
    if len(parts) < 6:
        return True
    return (parts[0] == "#" or len(parts) > 6) and not _is_number(parts[4])


def _is_number(text: str) -> bool:
    try:
        score_of(text, "")
    except InputError:
        return False
    return True


def _rank(text: str) -> int | None:
    """A rank as written; None where it is no whole number: trec_eval does not read it either."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def _jsonl_rows(path: Path, by: str, notes: list[str]) -> Iterator[_Row]:
    """A (query, document) a line, or a query a line with its `candidates` or `relevance_ids`."""
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        query_id = text_field(row, ID_OF_QUERY, where)
        if "candidates" in row:
            yield from _candidate_rows(number, query_id, row["candidates"], by, where)
        elif "relevance_ids" in row:
            for place, doc_id in enumerate(_list(row["relevance_ids"], "relevance_ids", where), 1):
                yield _Row(number, query_id, _id(doc_id, where), None, place)
        else:
            yield _json_row(number, query_id, row, by, where)


def _candidate_rows(
    number: int, query_id: str, candidates: Any, by: str, where: str
) -> Iterator[_Row]:
    for place, entry in enumerate(_list(candidates, "candidates", where), 1):
        inside = f"{where}, candidate {place}"
        if isinstance(entry, dict):
            yield _json_row(number, query_id, entry, by, inside, place)
        elif isinstance(entry, list) and len(entry) == 2:
            yield _Row(number, query_id, _id(entry[0], inside), _json_score(entry[1], inside))
        else:
            raise InputError(
                f"{inside}: candidates must be [document id, score] pairs or objects with doc_id"
            )


def _json_row(
    number: int,
    query_id: str,
    row: dict[str, Any],
    by: str,
    where: str,
    place: int | None = None,
) -> _Row:
    doc_id = text_field(row, ID_OF_DOCUMENT, where)
    named = [name for name in ((by,) if by else SCORE) if name in row]
    if by and not named:
        raise InputError(f"{where}: no field '{by}' to rank by; the line has {sorted(row)}")
    # a candidate list without any score is an order; null beside a `score` is a bad score
    scoreless = not named or (named[0] == "retrieval_score" and row[named[0]] is None)
    score = None if scoreless else _json_score(row[named[0]], f"{where}, field '{named[0]}'")
    if scoreless and place is None and not any(name in row for name in RANK):
        raise InputError(f"{where}, field 'score': is missing; the line has {sorted(row)}")
    rank = next((row[name] for name in RANK if row.get(name) is not None), place)
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int)):
        raise InputError(f"{where}, field 'rank': {rank!r:.40} is not a whole number")
    text = next((row[name] for name in TEXT if isinstance(row.get(name), str)), None)
    return _Row(number, query_id, doc_id, score, rank, text)


def _json_score(value: Any, where: str) -> float:
    """A number of JSON; null is NaN, a bad score."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: {value!r:.60} is not a number; write scores without quotes")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{where}: is not a number that fits float64") from error


def _nested_rows(value: Any, where: str) -> Iterator[_Row]:
    """{query: {document: score}} as ranx, pytrec_eval and BEIR write it, or MTEB predictions."""
    queries = _predictions(value, where) if PREDICTIONS in value else value
    for number, (query_id, documents) in enumerate(queries.items(), 1):
        if not isinstance(documents, dict):
            raise InputError(
                f"{where}, query '{query_id:.60}': must be an object of document: score"
            )
        for doc_id, score in documents.items():
            place = f"{where}, query '{query_id:.60}', document '{doc_id:.60}'"
            yield _Row(number, query_id, _id(doc_id, place), _json_score(score, place))


def _predictions(value: dict[str, Any], where: str) -> dict[str, Any]:
    found = [
        (subset, split, queries)
        for subset, splits in value.items()
        if subset != PREDICTIONS
        for split, queries in splits.items()
    ]
    if len(found) != 1:
        names = ", ".join(f"{subset}/{split}" for subset, split, _ in found) or "none"
        raise InputError(
            f"{where}: MTEB predictions with {len(found)} subset/split ({names}); "
            "keep one of them in the file"
        )
    queries: dict[str, Any] = found[0][2]
    return queries


def _parquet_run(path: Path, by: str) -> RunFile:
    table = parquet_columns(
        path,
        {"query": ID_OF_QUERY, "document": ID_OF_DOCUMENT},
        {"score": (by,) if by else SCORE, "rank": RANK, "text": TEXT},
    )
    ranks = table["rank"].numbers().astype(np.int64) if "rank" in table else None
    notes: tuple[str, ...] = ()
    if "score" in table:
        scores = table["score"].numbers()
    elif ranks is not None and not by:
        scores, notes = 1.0 / np.maximum(ranks, 1), ("no scores in the file: score = 1 / rank",)
    else:
        raise InputError(f"{path}: no column '{by or 'score'}' to rank by")
    return RunFile(
        path=path,
        query_ids=table["query"].ids(),
        doc_ids=table["document"].ids(),
        scores=scores,
        ranks=ranks,
        texts=table["text"].texts() if "text" in table else None,
        lines=None,
        scored="score" in table,
        notes=notes,
    )


def _places(rows: list[_Row]) -> Integers:
    """1-based place of each row among those of its query, as written: (n,) int64."""
    seen: dict[str, int] = {}
    places = np.empty(len(rows), np.int64)
    for at, row in enumerate(rows):
        seen[row.query_id] = places[at] = seen.get(row.query_id, 0) + 1
    return places


def _list(value: Any, field: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}, field '{field}': must be a list, is {value!r:.40}")
    return value


def _id(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(
            f"{where}: document id {value!r:.40} is {type(value).__name__}, must be a string"
        )
    return checked_text(value, where)

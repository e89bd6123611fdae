"""Runs and id lists read row by row: the candidate lists of a file, and what could not be read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerank.checking.material import CandidateList
from rerank.checking.rows import Troubles, json_objects, text_lines
from rerank.errors import InputError
from rerank.files.file_kinds import ID_OF_DOCUMENT, ID_OF_QUERY, kind_of
from rerank.files.formats import SCORE, columns_of, id_field, opened, rank_of, score_of
from rerank.files.run_files import RunFile, read_run_file
from rerank.files.run_rows import RANKS, SCORES

Row = tuple[str, str, float | None, int | None, str]  # query, document, score, rank, where


def read_lists(path: Path, troubles: Troubles) -> dict[str, CandidateList]:
    """The candidate lists of a run or an id-list file; a document listed twice stays once."""
    kind = kind_of(path)
    nested = kind == "json" and not _begins_a_list(path)
    if kind == "parquet" or nested:
        return _lists(_whole_rows(read_run_file(path)), troubles)
    rows = _column_rows(path, troubles) if kind == "columns" else _json_rows(path, troubles)
    return _lists(rows, troubles)


def _begins_a_list(path: Path) -> bool:
    with opened(path) as stream:
        return stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _whole_rows(run: RunFile) -> Iterator[Row]:
    ids = zip(run.query_ids, run.doc_ids, strict=True)
    for at, (query_id, doc_id) in enumerate(ids):
        score = float(run.scores[at]) if run.scored else None
        rank = None if run.ranks is None else int(run.ranks[at])
        yield query_id, doc_id, score, rank, run.place(at)


def _column_rows(path: Path, troubles: Troubles) -> Iterator[Row]:
    width = 0
    for number, text in text_lines(path, troubles):
        parts, where = columns_of(text), f"{path}, line {number}"
        if text.startswith("#") and not _is_row(parts):
            continue
        width = width or (3 if len(parts) == 3 else 6)
        if len(parts) < width or (width == 3 and len(parts) > 3):
            troubles["unreadable_rows"].append(f"{where}: {len(parts)} fields, {width} expected")
        elif width == 3:
            rank = troubles.attempt(rank_of, parts[2], where)
            if rank is not None:
                yield parts[0], parts[1], None, rank, where
        else:
            score = troubles.attempt(score_of, parts[4], where)
            if score is not None:
                yield parts[0], parts[2], score, None, where


def _is_row(parts: list[str]) -> bool:
    if len(parts) == 3:
        return parts[2].isdigit()
    return len(parts) >= 6 and SCORE.fullmatch(parts[4]) is not None


def _json_rows(path: Path, troubles: Troubles) -> Iterator[Row]:
    for where, row in json_objects(path, troubles):
        query_id = troubles.attempt(id_field, row, ID_OF_QUERY, where)
        listed = next((name for name in ("candidates", "relevance_ids") if name in row), None)
        entries = [row] if listed is None else row[listed]
        if query_id is None or not isinstance(entries, list):
            if query_id is not None:
                troubles["unreadable_rows"].append(f"{where}, field '{listed}': must be a list")
            continue
        for entry in entries:
            found = troubles.attempt(_entry, entry, where)
            if found is not None:
                yield (query_id, *found, where)


def _entry(entry: Any, where: str) -> tuple[str, float | None, int | None]:
    """A document id, a [document id, score] pair, or an object."""
    if isinstance(entry, str) and entry:
        return entry, None, None
    if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str):
        return entry[0], _number(entry[1], where), None
    if isinstance(entry, dict):
        score = next((entry[name] for name in SCORES if entry.get(name) is not None), None)
        rank = next((entry[name] for name in RANKS if isinstance(entry.get(name), int)), None)
        doc_id = id_field(entry, ID_OF_DOCUMENT, where)
        return doc_id, None if score is None else _number(score, where), rank
    raise InputError(f"{where}: candidate {entry!r:.40} is no id, pair or object")


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: score {value!r:.40} is not a number")
    return float(value)


def _lists(rows: Iterator[Row], troubles: Troubles) -> dict[str, CandidateList]:
    """Rows grouped by query; by rank where there are ranks and no scores, else as written."""
    grouped: dict[str, dict[str, tuple[float | None, int | None]]] = {}
    for query_id, doc_id, score, rank, where in rows:
        mine = grouped.setdefault(query_id, {})
        if doc_id in mine:
            troubles["listed_twice"].append(f"{where}: {query_id} {doc_id}")
        elif score is not None and not math.isfinite(score):
            troubles["scores_not_finite"].append(f"{where}: {query_id} {doc_id} {score}")
        else:
            mine[doc_id] = (score, rank)
    return {query_id: _list(mine) for query_id, mine in grouped.items()}


def _list(mine: dict[str, tuple[float | None, int | None]]) -> CandidateList:
    scores = [score for score, _ in mine.values() if score is not None]
    if len(scores) == len(mine):
        return CandidateList(tuple(mine), tuple(scores))
    ranks = {doc_id: rank for doc_id, (_, rank) in mine.items() if rank is not None}
    order = sorted(mine, key=ranks.__getitem__) if len(ranks) == len(mine) else list(mine)
    return CandidateList(tuple(order))

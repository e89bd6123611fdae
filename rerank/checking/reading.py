"""Texts and judgments of a task read row by row, so that all of the trouble is told at once.

What a row may hold is what the readers for freezing accept (rerank.files, rerank.sources); only
stopping at the first wrong line is different here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerank.checking.material import Judged
from rerank.checking.rows import Troubles, json_objects, text_lines
from rerank.errors import InputError
from rerank.files.file_kinds import ID_OF_DOCUMENT, ID_OF_QUERY, kind_of
from rerank.files.formats import (
    BEIR_HEADER,
    SCORE,
    columns_of,
    grade_of,
    id_field,
    text_field,
)
from rerank.files.qrels_files import GRADES, read_qrels_file

DOCUMENT_IDS = ("document_id", "doc_id", "docid", "_id", "id")
QUERY_IDS = ("query_id", "qid", "_id", "id")


def read_documents(path: Path, troubles: Troubles) -> dict[str, str]:
    """Document id -> text with its title, as `read_corpus` joins them; the first of an id stays."""
    rows = json_objects(path, troubles)
    return _texts(rows, DOCUMENT_IDS, ("text", "contents"), "documents", troubles)


def read_query_texts(path: Path, troubles: Troubles) -> dict[str, str]:
    """Query id -> text of JSONL or of `id<TAB>text` lines; the first of an id stays."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = json_objects(path, troubles)
        return _texts(rows, QUERY_IDS, ("text", "query"), "queries", troubles)
    found: dict[str, str] = {}
    for number, text in text_lines(path, troubles):
        where = f"{path}, line {number}"
        query_id, tab, query = text.partition("\t")
        if not tab:
            troubles["unreadable_rows"].append(f"{where}: no tab; a line is `query id<TAB>text`")
        else:
            _put(found, query_id, query, f"{where}: {query_id}", "queries", troubles)
    return found


def _texts(
    rows: Iterator[tuple[str, dict[str, Any]]],
    ids: tuple[str, ...],
    names: tuple[str, ...],
    kind: str,
    troubles: Troubles,
) -> dict[str, str]:
    found: dict[str, str] = {}
    for where, row in rows:
        key = troubles.attempt(text_field, row, ids, where)
        text = troubles.attempt(_text, row, names, where)
        title = troubles.attempt(_text, row, ("title",), where, otherwise="")
        if key is not None and text is not None and title is not None:
            titled = kind == "documents" and title
            whole = f"{title} {text}" if titled and text else text or (title if titled else "")
            _put(found, key, whole, f"{where}: {key}", kind, troubles)
    return found


def _text(
    row: dict[str, Any], names: tuple[str, ...], where: str, otherwise: str | None = None
) -> str:
    """A text; null is the empty one."""
    if any(name in row and row[name] is None for name in names):
        return ""
    if otherwise is not None and not any(name in row for name in names):
        return otherwise
    return text_field(row, names, where)


def _put(
    found: dict[str, str], key: str, text: str, where: str, kind: str, troubles: Troubles
) -> None:
    if key in found:
        troubles[f"doubled_ids_of_{kind}"].append(where)
    else:
        found[key] = text


def read_judgments(path: Path, troubles: Troubles) -> list[Judged]:
    """Judgments of TREC or BEIR qrels or JSONL, fractions kept; a pair may stand twice."""
    kind = kind_of(path)
    if kind == "jsonl":
        rows = _json_judgments(path, troubles)
    elif kind == "columns":
        rows = _column_judgments(path, troubles)
    else:
        whole = read_qrels_file(path, fractions=True)
        grades = whole.grades.tolist()
        rows = (
            (str(path), Judged(*row))
            for row in zip(whole.query_ids, whole.doc_ids, grades, strict=True)
        )
    found: list[Judged] = []
    seen: set[tuple[str, str]] = set()
    for where, row in rows:
        if row[:2] in seen:
            troubles["judged_twice"].append(f"{where}: {row.query_id} {row.doc_id}")
        seen.add(row[:2])
        found.append(row)
    return found


def _json_judgments(path: Path, troubles: Troubles) -> Iterator[tuple[str, Judged]]:
    for where, row in json_objects(path, troubles):
        entries = row.get("candidates", [row])
        for entry in entries if isinstance(entries, list) else [entries]:
            found = troubles.attempt(_json_judgment, row, entry, where)
            if found is not None:
                yield where, found


def _json_judgment(row: dict[str, Any], entry: Any, where: str) -> Judged:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: a judged candidate must be an object, is {entry!r:.40}")
    name = next((name for name in GRADES if name in entry), None)
    if name is None:
        raise InputError(f"{where}, field 'grade': is missing; the line has {sorted(entry)}")
    query_id, doc_id = id_field(row, ID_OF_QUERY, where), id_field(entry, ID_OF_DOCUMENT, where)
    return Judged(query_id, doc_id, _grade(entry[name], where))


def _column_judgments(path: Path, troubles: Troubles) -> Iterator[tuple[str, Judged]]:
    width, tabs = 0, False
    for number, text in text_lines(path, troubles):
        if tuple(columns_of(text)) == BEIR_HEADER and not width:
            width, tabs = 3, "\t" in text
            continue
        parts = text.split("\t") if tabs else columns_of(text)
        where = f"{path}, line {number}"
        if text.startswith("#") and (len(parts) not in (3, 4) or not SCORE.fullmatch(parts[-1])):
            continue
        width = width or (len(parts) if len(parts) in (3, 4) else 4)
        if len(parts) != width or not all(parts):
            troubles["unreadable_rows"].append(f"{where}: {len(parts)} fields, {width} expected")
            continue
        grade = troubles.attempt(_grade, parts[-1], where)
        if grade is not None:
            yield where, Judged(parts[0], parts[-2], grade)


def _grade(value: Any, where: str) -> float:
    """A whole grade, or a fraction, which is told later."""
    if isinstance(value, float) or (isinstance(value, str) and SCORE.fullmatch(value)):
        number = float(value)
        if math.isfinite(number) and (isinstance(value, float) or not number.is_integer()):
            return number
    return float(grade_of(value, where))

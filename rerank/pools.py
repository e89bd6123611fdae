"""Depth-k pools: the unjudged documents that the systems rank first, out for judging and back.

A pool is the union over all systems of their first k documents of every query (Sparck Jones and
van Rijsbergen 1975; TREC). It is written in an order that tells nothing of system or rank. Graded,
it is merged into a new judgments file: JSONL of query_id, doc_id, grade, provenance, attributes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerank.errors import InputError
from rerank.files.formats import (
    Judgment,
    attributes_of,
    grade_of,
    json_lines,
    provenance_of,
    text_field,
)
from rerank.fingerprint import canonical_json

COLUMNS = ("task", "query_id", "doc_id", "query", "text", "grade")
Pair = tuple[str, str]  # query id, document id


@dataclass(frozen=True)
class Pool:
    """The pairs to judge of one task, in blind order, and what the pool was cut from."""

    pairs: tuple[Pair, ...]
    systems: int
    pooled: int  # distinct pairs in the first k ranks of any system, judged ones too

    @property
    def judged_share(self) -> float:
        """Share of the pooled pairs that is judged; 1 where nothing was pooled."""
        return 1 - len(self.pairs) / self.pooled if self.pooled else 1.0


@dataclass(frozen=True)
class Graded:
    """One graded row of a pool file."""

    judgment: Judgment
    line: int


@dataclass(frozen=True)
class Merged:
    """Judgments old and new, by id bytes, and what the pool added."""

    judgments: list[Judgment]
    added: int
    known: int  # graded pairs that had the same grade before
    new_queries: int  # queries that had no judgment before


def pool_of(
    systems: Iterable[Mapping[str, Sequence[str]]], judged: set[Pair], *, depth: int, seed: int
) -> Pool:
    """The pool of ranked lists: each system maps a query to its documents, best first.

    Queries by id bytes; within a query by a hash of seed and ids, so the order is the same
    wherever and whenever it is made, and is blind to systems and ranks.
    """
    pooled: set[Pair] = set()
    count = 0
    for ranked in systems:
        count += 1
        pooled |= {(query, doc) for query, docs in ranked.items() for doc in docs[:depth]}
    waiting = sorted(
        pooled - judged, key=lambda pair: (pair[0].encode("utf-8"), _blind(seed, pair))
    )
    return Pool(pairs=tuple(waiting), systems=count, pooled=len(pooled))


def _blind(seed: int, pair: Pair) -> bytes:
    return hashlib.sha256(canonical_json([seed, *pair]).encode("utf-8")).digest()


def judged_pairs(judgments: Iterable[Judgment]) -> set[Pair]:
    """Pairs with a grade; a negative one is in the pool but not judged (trec_eval)."""
    return {(row.query_id, row.doc_id) for row in judgments if row.grade >= 0}


def pool_rows(
    task: str, pool: Pool, queries: Mapping[str, str], texts: Mapping[Pair, str]
) -> Iterator[dict[str, str | None]]:
    """Rows of a pool file; a text that nobody gave is None, and so is the grade."""
    for query_id, doc_id in pool.pairs:
        yield {
            "task": task,
            "query_id": query_id,
            "doc_id": doc_id,
            "query": queries.get(query_id),
            "text": texts.get((query_id, doc_id)),
            "grade": None,
        }


def pool_jsonl(rows: Iterable[Mapping[str, str | None]]) -> bytes:
    """One JSON object a row."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return text.encode("utf-8")


def pool_csv(rows: Iterable[Mapping[str, str | None]]) -> bytes:
    """CSV as RFC 4180 has it, UTF-8, with a header; what is None is an empty cell."""
    sink = io.StringIO(newline="")
    writer = csv.DictWriter(sink, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode("utf-8")


WRITERS: dict[str, Callable[[Iterable[Mapping[str, str | None]]], bytes]] = {
    ".jsonl": pool_jsonl,
    ".csv": pool_csv,
}


def read_graded(path: Path, provenance: str, task: str = "") -> tuple[list[Graded], int]:
    """The graded rows of a pool file, and how many have no grade yet.

    `task` chooses one of several tasks in the file. A row may state its own provenance and, in
    JSONL, attributes. InputError names file, line and field.
    """
    graded: list[Graded] = []
    unjudged = 0
    seen: dict[tuple[str, Pair], int] = {}
    tasks: set[str] = set()
    for line, row in _rows(path):
        where = f"{path}, line {line}"
        pair = text_field(row, ("query_id",), where), text_field(row, ("doc_id",), where)
        mine = str(row.get("task") or "")
        if task and mine != task:
            continue
        tasks.add(mine)
        if _blank(row.get("grade")):
            unjudged += 1
            continue
        if (mine, pair) in seen:
            raise InputError(
                f"{path}, lines {seen[mine, pair]} and {line}: document '{pair[1]}' is graded "
                f"twice for query '{pair[0]}'; keep one line"
            )
        seen[mine, pair] = line
        graded.append(Graded(_judgment(row, pair, provenance, where), line))
    if task and not tasks:
        raise InputError(f"{path} has no row of the task '{task}'; correct --task")
    if len(tasks) > 1:
        raise InputError(
            f"{path} holds the tasks {', '.join(sorted(tasks))}; merge them one by one, "
            "choosing with --task NAME"
        )
    return graded, unjudged


def _blank(grade: Any) -> bool:
    return grade is None or (isinstance(grade, str) and not grade.strip())


def _judgment(row: Mapping[str, Any], pair: Pair, provenance: str, where: str) -> Judgment:
    grade = row["grade"]
    return Judgment(
        *pair,
        grade_of(grade.strip() if isinstance(grade, str) else grade, where),
        provenance_of(row.get("provenance") or provenance, where),
        attributes_of(row.get("attributes") or {}, where),
    )


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return _csv_rows(path) if path.suffix.lower() == ".csv" else json_lines(path)


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(first line of the row, cells) of a CSV with a header; a cell may hold line ends."""
    reader = csv.reader(io.StringIO(_decoded(path), newline=""), strict=True)
    limit = csv.field_size_limit(sys.maxsize)  # a cell may hold a whole document
    line = 1
    try:
        header = next(reader, [])
        _check_header(header, path)
        line = reader.line_num + 1
        for cells in reader:
            if cells and len(cells) != len(header):
                raise InputError(
                    f"{path}, line {line}: {len(cells)} cells, the header has {len(header)}; quote "
                    "cells that hold commas or line ends"
                )
            if cells:  # a blank line is no row
                yield line, dict(zip(header, cells, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {line}: not CSV ({error}); save it as CSV with commas, UTF-8"
        ) from error
    finally:
        csv.field_size_limit(limit)


def _decoded(path: Path) -> str:
    """The text of a CSV, line ends inside cells as they are; spreadsheets may put a BOM first."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: not UTF-8 ({error.reason}); save it as CSV UTF-8"
        ) from error


def _check_header(names: Sequence[str], path: Path) -> None:
    for name in ("query_id", "doc_id", "grade"):
        if name not in names:
            raise InputError(
                f"{path}, line 1: column '{name}' is missing, the file has {list(names)!r:.200}; "
                "save it as CSV with commas and its header"
            )


def merge_graded(
    old: Sequence[Judgment], graded: Sequence[Graded], *, pool: Path, judgments: Path
) -> Merged:
    """Old judgments with the pool's; InputError where a pair is judged with another grade.

    A negative old grade says that the pair was pooled and not judged: the new grade replaces it.
    """
    merged = {(row.query_id, row.doc_id): row for row in old}
    queries = {row.query_id for row in old}
    added = 0
    for row in graded:
        new = row.judgment
        before = merged.get((new.query_id, new.doc_id))
        if before is not None and before.grade >= 0:
            if before.grade != new.grade:
                raise InputError(
                    f"{pool}, line {row.line}, field 'grade': document '{new.doc_id}' of query "
                    f"'{new.query_id}' has grade {new.grade} here and {before.grade} in "
                    f"{judgments}; make them agree"
                )
            continue
        merged[new.query_id, new.doc_id] = new
        added += 1
    return Merged(
        judgments=sorted(
            merged.values(), key=lambda row: (row.query_id.encode(), row.doc_id.encode())
        ),
        added=added,
        known=len(graded) - added,
        new_queries=len({row.judgment.query_id for row in graded} - queries),
    )


def judgments_jsonl(judgments: Iterable[Judgment]) -> bytes:
    """A judgments file as `rerank.files.formats` reads it."""
    rows = (
        {
            "query_id": row.query_id,
            "doc_id": row.doc_id,
            "grade": row.grade,
            "provenance": row.provenance,
            "attributes": row.attributes,
        }
        for row in judgments
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")

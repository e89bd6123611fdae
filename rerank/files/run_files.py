"""Runs as files, whoever wrote them: TREC, MS MARCO, JSONL, JSON and Parquet become one `RunFile`.

Nothing is decided here that could move a number: duplicates, bad scores and ties are kept as they
are written, with their lines, for the conventions of `metrics` to judge. `read_run` is the strict
reader for freezing. Conventions: trec_eval 9 and 10, ranx 0.3, ir_measures 0.4, mteb 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from metrics.arrays import Floats, Integers, Objects
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
from rerank.files.formats import RunRow
from rerank.files.run_rows import (
    RANKS,
    SCORES,
    TEXT,
    RunLine,
    column_rows,
    jsonl_rows,
    nested_rows,
)

BY_RANK = "no scores in the file: score = 1 / rank"


@dataclass(frozen=True)
class RunFile(FileRows):
    """One run as it is written; parallel arrays, one row a (query, document).

    query_ids, doc_ids: (n,). scores: (n,) float64, NaN where null or NaN is written.
    ranks: (n,) int64 as written, None where the file has no ranks. texts: (n,) object, str or None;
    None where the file has no texts. empty: queries that are listed without a document. scored:
    False where the file holds ranks alone; the scores are then 1 / rank. notes: what to tell.
    """

    query_ids: Ids
    doc_ids: Ids
    scores: Floats
    ranks: Integers | None
    texts: Objects | None
    empty: tuple[str, ...] = ()
    scored: bool = True
    notes: tuple[str, ...] = ()


def read_run_file(path: Path, by: str = "") -> RunFile:
    """The run of a file; its kind is told from its content. InputError names file, line, field.

    by: the field that holds the score in JSONL or Parquet; default `score`.
    """
    kind = kind_of(path)
    if by and kind in ("columns", "json"):
        raise InputError(f"{path} has no field to choose by name; --by {by} is for JSONL, Parquet")
    notes: list[str] = []
    if kind == "parquet":
        return _parquet_run(path, by)
    if kind == "columns":
        return _run_file(path, list(column_rows(path, notes)), notes, "line")
    if kind == "json":
        return _run_file(path, list(nested_rows(read_json(path), str(path))), notes, "")
    return _run_file(path, list(jsonl_rows(path, by)), notes, "line")


def read_run(path: Path) -> list[RunRow]:
    """A run to freeze: each document once a query, every score finite. InputError where not."""
    run = read_run_file(path)
    seen: dict[tuple[str, str], int] = {}
    rows = []
    for at, (query_id, doc_id) in enumerate(zip(run.query_ids, run.doc_ids, strict=True)):
        score = float(run.scores[at])
        if (query_id, doc_id) in seen:
            raise InputError(
                f"{run.place(seen[query_id, doc_id], at)}: document '{doc_id}' is listed twice for "
                f"query '{query_id}'; keep one"
            )
        if not math.isfinite(score):
            raise InputError(
                f"{run.place(at)}, field 'score': {score} of {query_id}/{doc_id} is not finite; "
                "remove the line"
            )
        seen[query_id, doc_id] = at
        # the rank column of a scored run is not to be trusted (BEIR writes 0): the score decides
        rank = None if run.scored or run.ranks is None else int(run.ranks[at])
        rows.append(RunRow(query_id, doc_id, rank, score))
    return rows


def _run_file(path: Path, found: list[RunLine], notes: list[str], unit: str) -> RunFile:
    rows = [row for row in found if row.doc_id is not None]
    unscored = [row for row in rows if row.score is None]
    if unscored and len(unscored) < len(rows):
        raise InputError(
            f"{path}, line {unscored[0].line}: document '{unscored[0].doc_id}' has no score, but "
            "others have one; score every candidate"
        )
    ranked = bool(rows) and all(row.rank is not None for row in rows)
    ranks = np.array([row.rank for row in rows], np.int64) if ranked else None
    queries = coded(objects([row.query_id for row in rows]))
    if unscored:
        ranks = places(queries) if ranks is None else ranks
        notes.append(BY_RANK)
    lines = np.array([row.line for row in rows], np.int64)
    run = RunFile(
        path=path,
        lines=lines if unit else None,
        unit=unit,
        query_ids=queries,
        doc_ids=coded(objects([row.doc_id for row in rows])),
        scores=np.array([row.score for row in rows], np.float64),
        ranks=ranks,
        texts=_texts(rows),
        empty=tuple(dict.fromkeys(row.query_id for row in found if row.doc_id is None)),
        scored=not unscored,
        notes=tuple(notes),
    )
    return replace(run, scores=_of_ranks(run)) if unscored else run


def _texts(rows: list[RunLine]) -> Objects | None:
    texts = [row.text for row in rows]
    return objects(texts) if any(text is not None for text in texts) else None


def _of_ranks(run: RunFile) -> Floats:
    """1 / rank; InputError where a rank is below 1, which would tie or turn the order."""
    assert run.ranks is not None
    if np.any(run.ranks < 1):
        row = int(np.argmax(run.ranks < 1))
        raise InputError(
            f"{run.place(row)}, field 'rank': {run.ranks[row]} is not a rank from 1; without "
            "scores the ranks decide, so count them from 1"
        )
    scores: Floats = 1.0 / run.ranks
    return scores


def _parquet_run(path: Path, by: str) -> RunFile:
    table = parquet_columns(
        path,
        {"query": ID_OF_QUERY, "document": ID_OF_DOCUMENT},
        {"score": (by,) if by else SCORES, "rank": RANKS, "text": TEXT},
    )
    ranks = table["rank"].whole_numbers() if "rank" in table else None
    notes: tuple[str, ...] = ()
    if "rank" in table and ranks is None:
        notes = ("the rank column holds nulls or fractions: it is ignored",)
    scored = "score" in table
    if not scored and (ranks is None or by):
        raise InputError(f"{path}: no column '{by or 'score'}' to rank by, and no whole ranks")
    queries = table["query"].ids()
    run = RunFile(
        path=path,
        lines=None,
        unit="row",
        query_ids=queries,
        doc_ids=table["document"].ids(),
        scores=table["score"].numbers() if scored else np.empty(len(queries)),
        ranks=ranks,
        texts=table["text"].texts() if "text" in table else None,
        scored=scored,
        notes=notes if scored else (BY_RANK,),
    )
    return run if scored else replace(run, scores=_of_ranks(run))


def places(queries: Ids) -> Integers:
    """1-based place of each row among those of its query, as written: (n,) int64."""
    order = np.argsort(queries.codes, kind="stable")
    ordered = queries.codes[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    lengths = np.diff(np.append(begins, len(ordered)))
    found = np.empty(len(ordered), np.int64)
    found[order] = np.arange(len(ordered)) - np.repeat(begins, lengths) + 1
    return found

"""Checks at the door, then run and judgments joined: ids become integers, grouped by query.

Ids never pass through a dictionary per pair: documents are coded by hash, and the coding is proved
exact by comparing neighbours, so joins are sorts and binary searches over integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers, Objects
from metrics.errors import MetricError
from metrics.records import Conventions, Judgments, Run


@dataclass(frozen=True)
class Pairs:
    """Scored pairs with their grades, and all judgments; flat, rows of a query adjacent.

    query_ids: evaluated queries in byte order. lengths, judged_lengths: (n_queries,) rows of each.
    doc_ids, doc_codes, scores, positions, grades: (n_pairs,); scores NaN = bad, grades NaN =
        unjudged; codes are equal exactly where ids are.
    judged_grades: (n_judged,) descending within a query.
    """

    query_ids: tuple[str, ...]
    lengths: Integers
    doc_ids: Objects
    doc_codes: Integers
    scores: Floats
    positions: Integers
    grades: Floats
    judged_lengths: Integers
    judged_grades: Floats
    missing: tuple[str, ...]
    unjudged_queries: tuple[str, ...]


@dataclass(frozen=True)
class _Rows:
    """Parallel columns of one table; `row` is the 0-based row in the caller's arrays."""

    query: Integers
    doc_ids: Objects
    doc_codes: Integers
    value: Floats  # score or grade
    row: Integers

    def take(self, which: Array) -> _Rows:
        return _Rows(
            self.query[which],
            self.doc_ids[which],
            self.doc_codes[which],
            self.value[which],
            self.row[which],
        )


def join(run: Run, judgments: Judgments, conventions: Conventions) -> Pairs:
    """Check both tables, choose the evaluated queries, give every scored pair its grade."""
    ours = _ids("run", run.query_ids), _ids("run", run.doc_ids)
    theirs = _ids("judgments", judgments.query_ids), _ids("judgments", judgments.doc_ids)
    scores = _column("run", "scores", run.scores, len(ours[0]), len(ours[1]))
    grades = _column("judgments", "grades", judgments.grades, len(theirs[0]), len(theirs[1]))
    _check_grades(grades, theirs, conventions)
    positions = _positions(run, len(scores))

    retrieved, judged = set(ours[0].tolist()), set(theirs[0].tolist())
    wanted = judged if conventions.queries == "qrels" else judged & retrieved
    query_ids = tuple(sorted(wanted))  # str order is UTF-8 byte order
    codes = dict(zip(query_ids, range(len(query_ids)), strict=True))
    doc_codes = exact_codes(np.concatenate([ours[1], theirs[1]]))
    n = len(scores)
    pool = _rows(theirs, codes, doc_codes[n:], grades)
    pool = _each_once(pool, query_ids, conventions, "judgments", "on_conflict")
    pairs = _rows(ours, codes, doc_codes[:n], scores.astype(conventions.score_dtype))
    if conventions.ignore_identical_ids:
        pairs = pairs.take(pairs.doc_ids != ours[0][pairs.row])
    _check_scores(pairs, query_ids, conventions)
    pairs = _each_once(pairs, query_ids, conventions, "run", "on_duplicate")
    found = grades_of(pairs, pool)
    if conventions.judged_only:
        judged_rows = found >= 0
        pairs, found = pairs.take(judged_rows), found[judged_rows]
    best_first = np.lexsort((-pool.value, pool.query))
    return Pairs(
        query_ids=query_ids,
        lengths=np.bincount(pairs.query, minlength=len(query_ids)),
        doc_ids=pairs.doc_ids,
        doc_codes=pairs.doc_codes,
        scores=pairs.value,
        positions=positions[pairs.row],
        grades=found,
        judged_lengths=np.bincount(pool.query, minlength=len(query_ids)),
        judged_grades=pool.value[best_first],
        missing=tuple(sorted(judged - retrieved)),
        unjudged_queries=tuple(sorted(retrieved - judged)),
    )


def exact_codes(ids: Objects) -> Integers:
    """Integers from 0, equal exactly where the ids are equal: (n,) object -> (n,) int64.

    Hashes put equal ids next to each other; comparing neighbours then proves that no two different
    ids share a hash. Should they (about 1 in 10^7 for a million ids), a dictionary codes them.
    """
    hashes = np.fromiter(map(hash, ids.tolist()), dtype=np.int64, count=len(ids))
    order = np.argsort(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    if not np.all(ids[order[1:][same]] == ids[order[:-1][same]]):
        first_seen = dict.fromkeys(ids.tolist())
        numbers = dict(zip(first_seen, range(len(first_seen)), strict=True))
        return np.fromiter(map(numbers.__getitem__, ids.tolist()), np.int64, len(ids))
    codes = np.empty(len(ids), dtype=np.int64)
    codes[order] = np.concatenate([np.zeros(min(1, len(ids)), np.int64), np.cumsum(~same)])
    return codes


def grades_of(pairs: _Rows, pool: _Rows) -> Floats:
    """Grade of every pair, NaN where it is unjudged: (n_pairs,) float64."""
    width = 1 + max(pairs.doc_codes.max(initial=0), pool.doc_codes.max(initial=0))
    keys, pool_keys = pairs.query * width + pairs.doc_codes, pool.query * width + pool.doc_codes
    if not len(pool_keys):
        return np.full(len(keys), np.nan)
    order = np.argsort(pool_keys)
    at = np.searchsorted(pool_keys[order], keys).clip(max=len(pool_keys) - 1)
    found = pool_keys[order][at] == keys
    grades: Floats = np.where(found, pool.value[order][at], np.nan)
    return grades


def _rows(
    ids: tuple[Objects, Objects], codes: dict[str, int], doc_codes: Integers, value: Floats
) -> _Rows:
    """The rows of evaluated queries, grouped by query, else in their order."""
    query = np.fromiter(map(codes.get, ids[0].tolist(), repeat(-1)), np.int64, len(value))
    rows = _Rows(query, ids[1], doc_codes, value.astype(np.float64), np.arange(len(value)))
    if np.any(query < 0):
        rows = rows.take(query >= 0)
    in_order = np.all(rows.query[1:] >= rows.query[:-1])
    return rows if in_order else rows.take(np.argsort(rows.query, kind="stable"))


def _each_once(
    rows: _Rows, query_ids: tuple[str, ...], how: Conventions, table: str, option: str
) -> _Rows:
    """Each (query, document) once; MetricError unless `option` says to keep the highest value."""
    twice = _first_repeat(rows)
    if twice is None:
        return rows
    if getattr(how, option) == "error":
        raise MetricError(
            f"query {query_ids[rows.query[twice[0]]]!r} has document {rows.doc_ids[twice[0]]!r} "
            f"twice in the {table} (rows {rows.row[twice[0]] + 1} and {rows.row[twice[1]] + 1}); "
            f"remove one, or set {option}='max' to keep the highest",
            rows.row[twice],
        )
    return rows.take(_best_of_each(rows))


def _first_repeat(rows: _Rows) -> Integers | None:
    """The two rows of the first (query, document) that occurs twice, or None: (2,) int64."""
    keys = rows.query * (1 + rows.doc_codes.max(initial=0)) + rows.doc_codes
    order = np.argsort(keys, kind="stable")
    repeats = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(repeats):
        return None
    both = np.stack([order[repeats], order[repeats + 1]])
    earliest: Integers = both[:, np.argmin(both[0])]
    return earliest


def _best_of_each(rows: _Rows) -> Integers:
    """Of each (query, document) the row with the highest value; NaN only where all are NaN."""
    order = np.lexsort((rows.row, -rows.value, rows.doc_codes, rows.query))
    query, document = rows.query[order], rows.doc_codes[order]
    new = (query[1:] != query[:-1]) | (document[1:] != document[:-1])
    kept: Integers = np.sort(order[np.concatenate([[True], new])])
    return kept


def _ids(table: str, ids: Array) -> Objects:
    """The column as a 1-d object array of str; MetricError names the first id of another type."""
    column: Objects = np.asarray(ids, dtype=object)
    if column.ndim != 1:
        raise MetricError(f"ids of the {table} have {column.ndim} dimensions; pass 1-d arrays")
    if all(issubclass(kind, str) for kind in set(map(type, column.tolist()))):
        return column
    row = next(at for at, value in enumerate(column) if not isinstance(value, str))
    raise MetricError(
        f"id {column[row]!r} of the {table} (row {row + 1}) is {type(column[row]).__name__}, "
        "not text; convert the ids of run and judgments to str in the same way",
        [row],
    )


def _column(table: str, name: str, values: Array, *lengths: int) -> Floats:
    column: Floats = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or any(length != len(column) for length in lengths):
        raise MetricError(
            f"columns of the {table} differ in length: {' and '.join(map(str, lengths))} ids, "
            f"{name} of shape {column.shape}; pass one value a row"
        )
    return column


def _positions(run: Run, n: int) -> Integers:
    if run.positions is None:
        return np.arange(n)
    positions: Integers = np.asarray(run.positions, dtype=np.int64)
    if positions.shape != (n,):
        raise MetricError(f"positions of the run have shape {positions.shape}, its scores ({n},)")
    return positions


def _check_grades(grades: Floats, ids: tuple[Objects, Objects], how: Conventions) -> None:
    """Grades are finite, and integers unless fractions are asked for; never truncated."""
    wrong = ~np.isfinite(grades)
    if how.gains != "float":
        wrong |= grades != np.floor(grades)
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    remedy = "" if not np.isfinite(grades[row]) else "; set gains='float' to use it as a gain"
    raise MetricError(
        f"grade {grades[row]:g} of {ids[0][row]}/{ids[1][row]} (row {row + 1} of the judgments) "
        f"is not {'a finite number' if not remedy else 'an integer'}{remedy}",
        [row],
    )


def _check_scores(rows: _Rows, query_ids: tuple[str, ...], how: Conventions) -> None:
    bad: Booleans = np.isnan(rows.value)
    if how.on_bad_score == "worst" or not bad.any():
        return
    first = int(np.argmax(bad))
    raise MetricError(
        f"NaN score for {query_ids[rows.query[first]]}/{rows.doc_ids[first]} "
        f"(row {rows.row[first] + 1} of the run); score it again, or set on_bad_score='worst' "
        "to rank it last",
        rows.row[bad],
    )

"""Checks at the door, then run and judgments joined: ids become integers, grouped by query.

Only distinct ids pass through a dictionary; joins are sorts and binary searches over integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metrics.arrays import Array, Booleans, Floats, Integers, Objects
from metrics.errors import MetricError
from metrics.ids import IdColumn, Ids, coded, objects, recoded
from metrics.matching import Spans, matched_grades
from metrics.records import Conventions, Judgments, Run
from metrics.rows import Rows, best_of_each_document, each_once
from metrics.subtopics import Subtopics, index_subtopics


@dataclass(frozen=True)
class _Queries:
    """Ids in byte order: evaluated, judged but not in the run, in the run but not judged.

    number: (n_names,) int64, place among the evaluated ones, -1 for others.
    """

    evaluated: tuple[str, ...]
    missing: tuple[str, ...]
    unjudged: tuple[str, ...]
    number: Integers


@dataclass(frozen=True)
class Pairs:
    """Scored pairs with their grades, and all judgments; flat, rows of a query adjacent.

    query_ids: evaluated queries in byte order. starts, lengths: (n_queries,) where the pairs of
        each begin, and how many it has. judged_starts, judged_lengths: of its judgments.
    query: (n_pairs,) number of the query; -1 = not evaluated, such pairs are passed over.
    doc_codes, scores, grades: (n_pairs,); scores NaN = bad, grades NaN = unjudged;
        doc_names[code] is the id.
    judged_query, judged_grades: (n_judged,), rows of a query adjacent.
    positions, subtopics: stage-1 ranks, grades per subtopic; None unless they are asked for.
    """

    query_ids: tuple[str, ...]
    starts: Integers
    lengths: Integers
    query: Integers
    doc_names: Objects
    doc_codes: Integers
    scores: Floats
    positions: Integers | None
    grades: Floats
    judged_starts: Integers
    judged_lengths: Integers
    judged_query: Integers
    judged_grades: Floats
    missing: tuple[str, ...]
    unjudged_queries: tuple[str, ...]
    subtopics: Subtopics | None = None


def join(
    run: Run,
    judgments: Judgments,
    conventions: Conventions,
    *,
    by_subtopic: bool = False,
    by_position: bool = False,
) -> Pairs:
    """Check both tables, choose the evaluated queries, give every scored pair its grade.

    A document judged once a subtopic has its highest grade; by_subtopic keeps the others beside.
    by_position: stage-1 ranks are wanted as well.
    """
    ours = _ids("run", run.query_ids), _ids("run", run.doc_ids)
    theirs = _ids("judgments", judgments.query_ids), _ids("judgments", judgments.doc_ids)
    scores = _column("run", "scores", run.scores, len(ours[0]), len(ours[1]))
    grades = _column("judgments", "grades", judgments.grades, len(theirs[0]), len(theirs[1]))
    _check_grades(grades, theirs, conventions)
    positions = _positions(run, len(scores))

    judged_queries, query_names = recoded(theirs[0], ours[0].names)
    listed = ours[0].codes
    if run.empty:
        empty, query_names = recoded(coded(objects(run.empty)), query_names)
        listed = np.append(listed, empty)
    queries = _chosen(listed, judged_queries, query_names, conventions.queries)
    query_ids = queries.evaluated
    judged_docs, names = recoded(theirs[1], ours[1].names)
    rows = _rows(judged_queries, queries.number, judged_docs, grades, len(names))
    rows = rows if rows.query.min(initial=0) >= 0 else rows.take(rows.query >= 0)
    if judgments.subtopics is not None:
        codes = _subtopic_codes(judgments.subtopics, len(grades))
        rows = replace(rows, subtopic=codes if rows.row is None else codes[rows.row])
    if by_subtopic or rows.subtopic is not None:
        rows = each_once(rows, query_ids, names, conventions, "judgments", "on_conflict")
    pool = rows if rows.subtopic is None else best_of_each_document(rows)
    compared = _compared(scores, conventions)
    pairs = _rows(ours[0].codes, queries.number, ours[1].codes, compared, len(names))
    if conventions.ignore_identical_ids:
        own, _ = recoded(coded(objects(list(query_ids))), names)
        pairs = pairs.take(pairs.doc_codes != own[pairs.query])
    _check_scores(pairs, query_ids, names, conventions)
    at, judged_at = _spans(pairs, len(query_ids)), _spans(pool, len(query_ids))
    given = matched_grades(at, judged_at, pool.value)
    if given is None:  # a document stands twice: sorting a whole table tells where
        pool = each_once(pool, query_ids, names, conventions, "judgments", "on_conflict")
        pairs = each_once(pairs, query_ids, names, conventions, "run", "on_duplicate")
        at, judged_at = _spans(pairs, len(query_ids)), _spans(pool, len(query_ids))
        given = matched_grades(at, judged_at, pool.value)
        assert given is not None, "each document stands once now"
    return Pairs(
        query_ids=query_ids,
        starts=at.starts,
        lengths=at.lengths,
        query=pairs.query,
        doc_names=names,
        doc_codes=pairs.doc_codes,
        scores=pairs.value,
        positions=_of_rows(positions, pairs.row, len(scores)) if by_position else None,
        grades=given,
        judged_starts=judged_at.starts,
        judged_lengths=judged_at.lengths,
        judged_query=pool.query,
        judged_grades=pool.value,
        missing=queries.missing,
        unjudged_queries=queries.unjudged,
        subtopics=index_subtopics(rows, pairs, names, len(query_ids)) if by_subtopic else None,
    )


def _compared(scores: Floats, how: Conventions) -> Floats:
    """Scores as they are compared: float32 rounds, and takes what it cannot hold for infinite."""
    with np.errstate(over="ignore"):
        return scores.astype(how.score_dtype, copy=False).astype(np.float64, copy=False)


def _chosen(ours: Integers, theirs: Integers, names: Objects, which: str) -> _Queries:
    """Queries of the run (n_pairs,) and of the judgments (n_judged,), as codes among `names`."""
    retrieved, judged = (_occurring(codes, len(names)) for codes in (ours, theirs))
    wanted = judged if which == "qrels" else judged & retrieved
    ids = names.tolist()
    evaluated = np.array(sorted(np.flatnonzero(wanted).tolist(), key=ids.__getitem__), np.int64)
    number = np.full(len(names), -1)
    number[evaluated] = np.arange(len(evaluated))
    return _Queries(
        evaluated=tuple(names[evaluated]),
        missing=tuple(sorted(names[judged & ~retrieved])),  # str order is UTF-8 byte order
        unjudged=tuple(sorted(names[retrieved & ~judged])),
        number=number,
    )


def _rows(
    queries: Integers, number: Integers, doc_codes: Integers, value: Floats, width: int
) -> Rows:
    """Rows grouped by query, else in their order; query -1 where it is not evaluated.

    queries: (n,) codes. Files list a query's rows together, and then nothing is moved.
    """
    heads = _heads(queries)
    query = np.repeat(number[queries[heads]], np.diff(heads, append=len(queries)))
    rows = Rows(query, doc_codes, value, None, width)
    if len(heads) == np.count_nonzero(_occurring(queries[heads], len(number))):
        return rows
    return rows.take(np.argsort(query, kind="stable"))


def _heads(codes: Integers) -> Integers:
    """Where each stretch of equal codes begins: (n,) -> (n_stretches,) int64."""
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.concatenate([np.zeros(min(1, len(codes)), np.int64), changes])


def _occurring(codes: Integers, n: int) -> Booleans:
    """Which of n codes there are: (n,) bool."""
    found = np.zeros(n, dtype=bool)
    found[codes] = True
    return found


def _spans(rows: Rows, n_queries: int) -> Spans:
    """Where the adjacent rows of each evaluated query begin, and how many it has."""
    heads = _heads(rows.query)
    sizes = np.diff(heads, append=len(rows.query))
    evaluated = rows.query[heads] >= 0
    at = rows.query[heads[evaluated]]
    starts, lengths = np.zeros(n_queries, np.int64), np.zeros(n_queries, np.int64)
    starts[at], lengths[at] = heads[evaluated], sizes[evaluated]
    return Spans(starts, lengths, rows.doc_codes)


def _ids(table: str, ids: IdColumn) -> Ids:
    """The column coded; MetricError names the first id that is no str."""
    if isinstance(ids, Ids):
        return ids
    column: Objects = np.asarray(ids, dtype=object)
    if column.ndim != 1:
        raise MetricError(f"ids of the {table} have {column.ndim} dimensions; pass 1-d arrays")
    if all(issubclass(kind, str) for kind in set(map(type, column.tolist()))):
        return coded(column)
    row = next(at for at, value in enumerate(column) if not isinstance(value, str))
    raise MetricError(
        f"id {column[row]!r} of the {table} (row {row + 1}) is {type(column[row]).__name__}, "
        "not text; convert the ids of run and judgments to str in the same way",
        [row],
        table,
    )


def _column(table: str, name: str, values: Array, *lengths: int) -> Floats:
    column: Floats = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or any(length != len(column) for length in lengths):
        raise MetricError(
            f"columns of the {table} differ in length: {' and '.join(map(str, lengths))} ids, "
            f"{name} of shape {column.shape}; pass one value a row"
        )
    return column


def _subtopic_codes(subtopics: IdColumn, n: int) -> Integers:
    """Number of each subtopic's name by UTF-8 bytes: (n,) object -> (n,) int64."""
    names = _ids("judgments", subtopics)
    if len(names) != n:
        raise MetricError(f"subtopics of the judgments are {len(names)}, its grades {n}")
    codes: Integers = np.unique(names.names[names.codes], return_inverse=True)[1]
    return codes


def _positions(run: Run, n: int) -> Integers | None:
    """Stage-1 ranks, None where the run states none."""
    if run.positions is None:
        return None
    positions: Integers = np.asarray(run.positions, dtype=np.int64)
    if positions.shape != (n,):
        raise MetricError(f"positions of the run have shape {positions.shape}, its scores ({n},)")
    return positions


def _of_rows(positions: Integers | None, rows: Integers | None, n: int) -> Integers:
    """Positions of the rows that are left; the numbers of the rows where none are stated."""
    numbers = np.arange(n) if positions is None else positions
    return numbers if rows is None else numbers[rows]


def _check_grades(grades: Floats, ids: tuple[Ids, Ids], how: Conventions) -> None:
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
        "judgments",
    )


def _check_scores(rows: Rows, query_ids: tuple[str, ...], names: Objects, how: Conventions) -> None:
    bad: Booleans = np.isnan(rows.value)
    if how.on_bad_score == "worst" or not bad.any():
        return
    bad &= rows.query >= 0
    if not bad.any():
        return
    first = int(np.argmax(bad))
    query, document = query_ids[rows.query[first]], names[rows.doc_codes[first]]
    sources = rows.sources(bad)
    raise MetricError(
        f"NaN score for {query}/{document} (row {sources[0] + 1} of the run); score it again, or "
        "set on_bad_score='worst' to rank it last",
        sources,
        "run",
    )

"""Documents of one query with the same text under several ids: found, and on request taken as one.

A deterministic model gives them one score, so their order is the tie rule's, and a copy of the
right answer under an unjudged id counts as a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metrics import Judgments, Run
from metrics.arrays import Array, Integers, Objects


@dataclass(frozen=True)
class Merged:
    """A run and its judgments; rows, judgment_rows: their rows in the files, None = the same."""

    run: Run
    judgments: Judgments
    rows: Integers | None = None
    judgment_rows: Integers | None = None


def text_groups(run: Run, texts: Objects) -> tuple[tuple[str, ...], ...]:
    """Ids of the documents of a query with equal text, in the order of the run; pairs and more."""
    return tuple(
        tuple(dict.fromkeys(run.doc_ids[rows].tolist()))
        for rows in _equal_rows(run, texts)
        if len(set(run.doc_ids[rows].tolist())) > 1
    )


def merged_duplicates(run: Run, judgments: Judgments, texts: Objects) -> Merged:
    """Each text once a query, with the best grade and the best score of its documents.

    The document with the best grade (then the best score, then the first) stays; judgments of the
    others go, so that the number of relevant documents counts texts.
    """
    grades = _grade_of(judgments)
    scores = np.array(run.scores, np.float64)
    dropped: set[int] = set()
    gone: set[tuple[str, str]] = set()
    for rows in _equal_rows(run, texts):
        names = {row: (run.query_ids[row], run.doc_ids[row]) for row in rows}
        if len(set(names.values())) < 2:
            continue
        best = min(rows, key=lambda row: (-grades.get(names[row], -np.inf), -scores[row], row))
        scores[best] = np.nanmax(scores[rows]) if not np.isnan(scores[rows]).all() else np.nan
        dropped.update(row for row in rows if row != best)
        gone.update(names[row] for row in rows if names[row] != names[best])
    kept = np.array([row for row in range(len(scores)) if row not in dropped], np.int64)
    stays = np.array(
        [
            pair not in gone
            for pair in zip(judgments.query_ids.tolist(), judgments.doc_ids.tolist(), strict=True)
        ],
        dtype=bool,
    )
    return Merged(
        _rows_of(run, scores, kept), _judgments_of(judgments, stays), kept, np.flatnonzero(stays)
    )


def _equal_rows(run: Run, texts: Objects) -> list[list[int]]:
    """Rows with the same query and text, groups of two and more in order of their first row."""
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(run.query_ids.tolist(), texts.tolist(), strict=True)):
        if key[1] is not None:
            groups.setdefault(key, []).append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def _grade_of(judgments: Judgments) -> dict[tuple[str, str], float]:
    grades: dict[tuple[str, str], float] = {}
    pairs = zip(judgments.query_ids.tolist(), judgments.doc_ids.tolist(), strict=True)
    for pair, grade in zip(pairs, judgments.grades.tolist(), strict=True):
        grades[pair] = max(grade, grades.get(pair, grade))
    return grades


def _rows_of(run: Run, scores: Array, rows: Integers) -> Run:
    return Run(
        query_ids=run.query_ids[rows],
        doc_ids=run.doc_ids[rows],
        scores=scores[rows],
        positions=None if run.positions is None else run.positions[rows],
    )


def _judgments_of(judgments: Judgments, stays: Array) -> Judgments:
    return replace(
        judgments,
        query_ids=judgments.query_ids[stays],
        doc_ids=judgments.doc_ids[stays],
        grades=judgments.grades[stays],
        subtopics=None if judgments.subtopics is None else judgments.subtopics[stays],
    )

"""Runs and judgments from dictionaries, and random ones that hold every oddity at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from metrics import Judgments, Run

Scores = Mapping[str, Mapping[str, float]]

# Latin, Korean, U+1F600 (after U+FF5E in UTF-8, before it in UTF-16), a blank that is not ASCII
IDS = [
    "d1",
    "d10",
    "d2",
    "D1",
    "문서",
    "문서2",
    "\U0001f600",
    "\uff5e",
    "a\u3000b",
    "0010",
    "é",
    "e",
]
QUERIES = ["q1", "q10", "q2", "질의", "\U0001f600", "\uff5e"]
TIED_SCORES = st.sampled_from([-1.5, 0.0, -0.0, 0.25, 1.0, 2.0, float("inf"), float("-inf")])
GRADES = st.integers(-2, 3)


def run_of(scores: Scores) -> Run:
    rows = [(q, d, s) for q, documents in scores.items() for d, s in documents.items()]
    return Run(
        query_ids=np.array([row[0] for row in rows], dtype=object),
        doc_ids=np.array([row[1] for row in rows], dtype=object),
        scores=np.array([row[2] for row in rows], dtype=np.float64),
    )


def judgments_of(grades: Scores) -> Judgments:
    run = run_of(grades)
    return Judgments(run.query_ids, run.doc_ids, run.scores)


def tables(values: st.SearchStrategy[float], *, at_least: int) -> st.SearchStrategy[Scores]:
    """{query: {document: value}} with some queries and documents of a small, mixed set."""
    documents = st.dictionaries(st.sampled_from(IDS), values, min_size=at_least, max_size=10)
    return st.dictionaries(st.sampled_from(QUERIES), documents, min_size=1, max_size=5)

"""What there is to check: texts, judgments and candidate lists, as far as they could be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Judged(NamedTuple):
    """One judgment. The grade may be a fraction here: that it is one is a finding."""

    query_id: str
    doc_id: str
    grade: float


@dataclass(frozen=True)
class CandidateList:
    """The candidates of a query in the order of their file, each document once.

    scores: aligned with doc_ids; None where the file has no scores, so that its order is all
    there is.
    """

    doc_ids: tuple[str, ...]
    scores: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Material:
    """All that is checked together; None is what nobody gave.

    queries, documents: id -> text. lists: query id -> its candidates. judged: were any judgments
    given? computed: the lists were made here, by the task's own first stage, and not read from a
    file; chosen_by: that first stage in words, with its analyzer. by_score: scores order the
    lists, as freezing a run does, where there are any.
    evaluates_all: every query counts in the means, judged or not (frozen candidates).
    """

    judgments: list[Judged]
    queries: dict[str, str] | None = None
    documents: dict[str, str] | None = None
    lists: dict[str, CandidateList] | None = None
    judged: bool = True
    computed: bool = False
    chosen_by: str = ""
    by_score: bool = False
    evaluates_all: bool = False
    language: str = ""

    @cached_property
    def grades(self) -> dict[str, dict[str, float]]:
        """Query id -> document id -> grade; the first of a pair that is judged twice."""
        found: dict[str, dict[str, float]] = {}
        for query_id, doc_id, grade in self.judgments:
            found.setdefault(query_id, {}).setdefault(doc_id, grade)
        return found

    @cached_property
    def relevant(self) -> dict[str, set[str]]:
        """Query id -> its documents with a grade from 1; queries without any are left out."""
        found = {
            query_id: {doc_id for doc_id, grade in graded.items() if grade >= 1}
            for query_id, graded in self.grades.items()
        }
        return {query_id: doc_ids for query_id, doc_ids in found.items() if doc_ids}

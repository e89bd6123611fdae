"""What a source hands over: queries, documents, judgments, and the candidates it may bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rerank.files.formats import Judgment, RunRow


@dataclass(frozen=True)
class Query:
    """A query's text with its traffic weight and slice attributes."""

    query_id: str
    text: str
    weight: float = 1.0
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """One document that the first stage offers for a query, with the text a model sees."""

    doc_id: str
    text: str
    rank: int
    score: float | None


@dataclass(frozen=True)
class Collection:
    """All a task's source holds. `candidates` is set where the source brings its own lists.

    `excluded` names documents that may not be offered for a query, whatever the first stage finds.
    """

    queries: dict[str, Query]
    documents: dict[str, str]
    judgments: list[Judgment]
    candidates: dict[str, list[Candidate]] | None = None
    run: dict[str, list[RunRow]] | None = None
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

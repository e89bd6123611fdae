"""Injection: which of the found documents become candidates, and where gold that is added stands.

`GOLD_RULES` lists the rules. Injection is never silent: every injected row is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rerank.files.formats import Judgment
from rerank.first_stage.id_lists import unordered
from rerank.sources import Candidate

Scores = Mapping[str, float | None]


@dataclass(frozen=True)
class Row:
    """One candidate row before it is frozen."""

    candidate: Candidate
    injected: bool


@dataclass(frozen=True)
class Offer:
    """What a first stage says of one query.

    found: document id -> its score, None where it gives none, best first. gold: the same for gold
    documents that it did not find. ordered: False where `found` is a set, in the order of ids.
    """

    found: Scores
    gold: Scores
    ordered: bool = True


def chosen_rows(
    offer: Offer, gold: frozenset[str], documents: Mapping[str, str], depth: int, rule: str
) -> list[Row]:
    """The candidates of one query: the best found, with the gold where its own score puts it.

    A gold document that the first stage did not find stands last, behind everything it did, so
    candidate order never favours an injected document. In a set it stands where its id puts it.
    Without injection `gold` is empty and this is the plain top `depth`.
    """
    plain = set(list(offer.found)[:depth])
    chosen = GOLD_RULES[rule](list(offer.found), gold, depth)
    kept = {*chosen, *gold} if offer.ordered else offer.found.keys()
    order = [doc_id for doc_id in offer.found if doc_id in kept]
    order += sorted(
        offer.gold, key=lambda doc_id: (offer.gold[doc_id] or 0.0, doc_id.encode()), reverse=True
    )
    order = order if offer.ordered else unordered(order)
    scores = {**offer.gold, **offer.found}
    return [
        Row(
            Candidate(doc_id, documents[doc_id], rank, scores[doc_id]),
            injected=doc_id in gold and doc_id not in plain,
        )
        for rank, doc_id in enumerate(order, 1)
    ]


def _beside(found: list[str], gold: frozenset[str], depth: int) -> list[str]:
    """The top `depth` that are not gold: every query has as many wrong candidates."""
    return [doc_id for doc_id in found if doc_id not in gold][:depth]


def _union(found: list[str], gold: frozenset[str], depth: int) -> list[str]:
    """The top `depth`, to which the gold is added."""
    return found[:depth]


def _within(found: list[str], gold: frozenset[str], depth: int) -> list[str]:
    """The best that are not gold, as many as `depth` has room for beside the gold."""
    return _beside(found, gold, max(0, depth - len(gold)))


def gold_documents(judgments: list[Judgment]) -> dict[str, set[str]]:
    """Query id -> ids of its relevant (grade at least 1) documents."""
    gold: dict[str, set[str]] = {}
    for row in judgments:
        if row.grade >= 1:
            gold.setdefault(row.query_id, set()).add(row.doc_id)
    return gold


# which of the found documents stand beside the gold that is injected
GOLD_RULES: dict[str, Callable[[list[str], frozenset[str], int], list[str]]] = {
    "beside": _beside,
    "union": _union,
    "within": _within,
}

"""One query's documents as a system ranked them, what moved between two systems, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.app.material import Candidate, QueryMaterial, Scored
from jobs.app.wording import Words
from rerank.reporting.markup import Content, Markup, chip, details, element, join, spoken
from rerank.reporting.visible import clipped
from rerank.reporting.wording import number

SHOWN_TEXT = 160  # characters of a document in a ranking; the rest unfolds
UNFOLDED_TEXT = 6000
LISTED_MOVES = 4
CUTOFF = 10  # ranks that the reasons look at


@dataclass(frozen=True)
class Ranked:
    """A document at its place. rank: 1-based; tied: another document has the same score."""

    rank: int
    candidate: Candidate
    scored: Scored
    tied: bool


def ranking(material: QueryMaterial, system: str, tie: str) -> list[Ranked]:
    """The system's order, ties broken as the evaluation breaks them; without a score last.

    Where the suite takes the mean over orders of ties (expected) or their extremes, no one order is
    the evaluated one: ties are then shown in trec's order.
    """
    scores = material.scores.get(system, {})
    known = [candidate for candidate in material.candidates if candidate.doc_id in scores]

    def place(candidate: Candidate) -> tuple[float, Any]:
        score = scores[candidate.doc_id].score
        first = math.inf if score is None else -score
        return (first, _tie_key(candidate, tie))

    ordered = sorted(known, key=place)
    counts: dict[float | None, int] = {}
    for candidate in ordered:
        score = scores[candidate.doc_id].score
        counts[score] = counts.get(score, 0) + 1
    return [
        Ranked(at, candidate, found := scores[candidate.doc_id], counts[found.score] > 1)
        for at, candidate in enumerate(ordered, 1)
    ]


def _tie_key(candidate: Candidate, tie: str) -> Any:
    """What orders documents of one score: stage-1 rank, id by bytes, or id by bytes backwards."""
    if tie == "input":
        return candidate.rank
    raw = candidate.doc_id.encode("utf-8", "surrogatepass")
    return raw if tie == "docid_asc" else tuple(-byte for byte in raw) + (1,)


def reasons(
    first: Sequence[Ranked], second: Sequence[Ranked], material: QueryMaterial, words: Words
) -> list[str]:
    """Why the value moved, in sentences: relevant documents first, then what else is different."""
    if not any((entry.candidate.grade or 0) > 0 for entry in first):
        return [words.of("why_nothing" if not material.missed else "why_missed")]
    found = []
    best = [_first_relevant(side) for side in (first, second)]
    if best[0] != best[1] and None not in best:
        found.append(words.of("why_first", best[0], best[1]))
    before = {entry.candidate.doc_id: entry for entry in first}
    moves = []
    for entry in second:
        worth, old = entry.candidate.grade or 0, before.get(entry.candidate.doc_id)
        if worth > 0 and old is not None and old.rank != entry.rank:
            gain = worth * (1 / math.log2(entry.rank + 1) - 1 / math.log2(old.rank + 1))
            moves.append((gain, old, entry))
    moves.sort(key=lambda move: -abs(move[0]))
    for gain, old, entry in moves[:LISTED_MOVES]:
        name, grade = clipped(entry.candidate.doc_id, 60), entry.candidate.grade
        key = "why_up" if gain > 0 else "why_down"
        found.append(words.of(key, name, grade, old.rank, entry.rank))
        if entry.scored.truncated:
            found.append(words.of("why_cut", name))
        if entry.tied:
            found.append(words.of("why_tied", name))
        if entry.scored.failure is not None:
            found.append(words.of("why_failed", name, clipped(entry.scored.failure, 120)))
    unjudged = [
        sum(entry.candidate.grade is None for entry in side[:CUTOFF]) for side in (first, second)
    ]
    if unjudged[0] != unjudged[1]:
        found.append(words.of("why_unjudged", CUTOFF, *unjudged))
    if material.missed:
        found.append(words.of("why_some_missed", len(material.missed)))
    return found or [words.of("why_same")]


def _first_relevant(side: Sequence[Ranked]) -> int | None:
    return next((entry.rank for entry in side if (entry.candidate.grade or 0) > 0), None)


def ranking_html(
    system: str, side: Sequence[Ranked], other: Sequence[Ranked], shown: int, words: Words
) -> Markup:
    """A ranking as a list of cards: place and move, grade, score, marks, and the text."""
    places = {entry.candidate.doc_id: entry.rank for entry in other}
    cards = [_card(entry, places.get(entry.candidate.doc_id), words) for entry in side[:shown]]
    return element(
        "section",
        element("h4", spoken(clipped(system, 80))),
        element("ol", *cards, class_="ranking"),
        class_="side",
    )


def _card(entry: Ranked, other: int | None, words: Words) -> Markup:
    candidate, scored = entry.candidate, entry.scored
    marks: list[Content] = [
        chip(words.of("first_stage_rank", candidate.rank)),
        chip(words.of("cut", scored.tokens), "notice") if scored.truncated else None,
        chip(words.of("tied_score"), "notice") if entry.tied else None,
        chip(words.of("injected"), "notice") if candidate.injected else None,
        chip(f"{words.of('no_score')}: {clipped(scored.failure, 120)}", "notice")
        if scored.failure is not None
        else None,
    ]
    return element(
        "li",
        element(
            "div",
            element("b", f"{entry.rank}", class_="place"),
            _move(entry.rank, other),
            _grade(candidate.grade, words),
            element("code", clipped(candidate.doc_id, 60)),
            element("span", number(scored.score), class_="score"),
            class_="head",
        ),
        element("div", *marks, class_="marks"),
        _text(candidate.text, words),
        class_=f"card {_tone(candidate.grade)}",
    )


def _move(rank: int, other: int | None) -> Markup:
    """Where the document stands on the other side: ▲2 is two places higher here."""
    if other is None or other == rank:
        return element("span", "=", class_="move")
    up = other > rank
    return element(
        "span", f"{'▲' if up else '▼'}{abs(other - rank)}", class_=f"move {'up' if up else 'down'}"
    )


def _grade(grade: int | None, words: Words) -> Markup:
    text = words.of("unjudged_document") if grade is None else words.of("grade", grade)
    return element("span", text, class_=f"grade {_tone(grade)}")


def _tone(grade: int | None) -> str:
    if grade is None:
        return "unjudged"
    return f"g{min(max(grade, 0), 3)}"


def _text(text: str, words: Words) -> Markup:
    if len(text) <= SHOWN_TEXT:
        return element("p", spoken(text), class_="text")
    beginning = f"{text[:SHOWN_TEXT].rstrip()}…"
    return join(
        [
            element("p", spoken(beginning), class_="text"),
            details(
                words.of("whole_text", f"{len(text):,}"),
                element("p", spoken(clipped(text, UNFOLDED_TEXT)), class_="text"),
            ),
        ]
    )


def test_case(material: QueryMaterial, fingerprint: str) -> str:
    """The query as one line of frozen candidates, as `source: frozen_jsonl` reads it.

    Texts byte for byte; unjudged candidates have no grade. Judged documents that are no candidates
    have no place in the form and are left out.
    """
    line = {
        "query_id": material.query_id,
        "query": material.query,
        "weight": material.weight,
        **({"attributes": material.attributes} if material.attributes else {}),
        "candidate_source": material.task,
        "corpus_version": fingerprint,
        "candidates": [
            {
                "document_id": candidate.doc_id,
                "text": candidate.text,
                "retrieval_rank": candidate.rank,
                "retrieval_score": candidate.retrieval_score,
                **({} if candidate.grade is None else {"relevance_grade": candidate.grade}),
            }
            for candidate in material.candidates
        ],
    }
    return json.dumps(line, ensure_ascii=False, allow_nan=False)

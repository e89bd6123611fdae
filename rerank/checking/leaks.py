"""Does the order of candidate lists give the labels away? Three rules, each an exact test.

A list shows something if it holds a relevant document and another; its relevant documents are
*first* if every one of them stands before every other document. Where a query's relevant
documents are all missing from its list, they are not first.

1. *Order beyond scores.* In a scored file documents of one score may stand in any order, so the
   chance that the relevant come first is known: 1 where the scores put them there, 0 where the
   scores put another before, and 1 / C(r + o, r) for r relevant and o others that share a score.
   More lists than these chances allow, with probability below 1e-6: the file's order holds what no
   score says. The same for the order by document id (all scores equal), both ways.
2. *Relevant first* in at least 95% of the lists, where a ranker that gets this right for 99% of
   queries with one relevant document, 90% with two and 80% with three or more would do so with
   probability below 0.001 (below 1e-6 for a file with scores, since scores are evidence of a
   ranker). No ranker known to us is as good: the best published ones put the one relevant document
   of an easy set first in 98 to 99 of 100 queries, and all of several first in well under 90.
3. *Relevant last* in at least half of the lists, where a ranker that does so for 10% of the queries
   would with probability below 1e-6: gold was appended.

The tail of a sum of unequal chances is exact (Poisson binomial, by convolution).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from metrics.arrays import Floats
from rerank.checking.material import CandidateList

HONEST = {1: 0.99, 2: 0.9, 3: 0.8}  # relevant in a list -> chance of a ranker beyond all known
HONEST_LAST = 0.1
NEARLY_ALL = 0.95
UNSCORED_ALPHA = 1e-3
SCORED_ALPHA = 1e-6


@dataclass(frozen=True)
class Leak:
    """kind: beyond_scores, first, last, ids_ascending or ids_descending.

    separated of lists: in how many the relevant stand apart. chance: the tail's probability.
    """

    kind: str
    separated: int
    lists: int
    chance: float


@dataclass(frozen=True)
class _Shown:
    """A list that shows something: relevant flags in the order of the file, and the scores."""

    relevant: tuple[bool, ...]
    scores: tuple[float, ...] | None
    doc_ids: tuple[str, ...]


def find_leaks(lists: Mapping[str, CandidateList], relevant: Mapping[str, set[str]]) -> list[Leak]:
    """The rules that a file's lists break; empty where nothing is suspicious.

    relevant: query id -> documents with a grade from 1.
    """
    shown = [_shown(entry, relevant[query]) for query, entry in lists.items() if query in relevant]
    told = [entry for entry in shown if entry is not None]
    if not told:
        return []
    rules = (_beyond_scores, _first, _last, _ids_ascending, _ids_descending)
    return [leak for rule in rules if (leak := rule(told)) is not None]


def _shown(entry: CandidateList, relevant: set[str]) -> _Shown | None:
    flags = tuple(doc_id in relevant for doc_id in entry.doc_ids)
    if all(flags):  # nothing else is listed, or nothing at all
        return None
    return _Shown(flags, entry.scores, entry.doc_ids)


def _beyond_scores(lists: list[_Shown]) -> Leak | None:
    """Rule 1: the file's order against random orders of equal scores."""
    scored = [entry for entry in lists if entry.scores is not None]
    chances = [chance_first(entry.relevant, entry.scores or ()) for entry in scored]
    found = sum(first(entry.relevant) for entry in scored)
    if found <= sum(chance == 1 for chance in chances):  # the scores say all of it
        return None
    chance = tail(chances, found)
    return Leak("beyond_scores", found, len(scored), chance) if chance < SCORED_ALPHA else None


def _first(lists: list[_Shown]) -> Leak | None:
    """Rule 2, on the order that scores give where there are any, ties as the file has them."""
    flags = [_by_score(entry) for entry in lists]
    found = sum(first(entry) for entry in flags)
    if found < NEARLY_ALL * len(lists):
        return None
    chance = tail([HONEST[min(max(sum(entry), 1), 3)] for entry in flags], found)
    scored = any(entry.scores is not None for entry in lists)
    alpha = SCORED_ALPHA if scored else UNSCORED_ALPHA
    return Leak("first", found, len(lists), chance) if chance < alpha else None


def _last(lists: list[_Shown]) -> Leak | None:
    """Rule 3."""
    flags = [_by_score(entry)[::-1] for entry in lists]
    found = sum(first(entry) for entry in flags)
    if found < len(lists) / 2:
        return None
    chance = tail([HONEST_LAST] * len(flags), found)
    return Leak("last", found, len(lists), chance) if chance < SCORED_ALPHA else None


def _ids_ascending(lists: list[_Shown]) -> Leak | None:
    return _by_id(lists, "ids_ascending", lambda flags: flags)


def _ids_descending(lists: list[_Shown]) -> Leak | None:
    return _by_id(lists, "ids_descending", lambda flags: flags[::-1])


def _by_id(
    lists: list[_Shown],
    kind: str,
    turned: Callable[[tuple[bool, ...]], tuple[bool, ...]],
) -> Leak | None:
    """Rule 1 for the order by id, which decides between documents that a model ties."""
    ordered = [
        turned(
            tuple(
                flag
                for _, flag in sorted(
                    zip(entry.doc_ids, entry.relevant, strict=True),
                    key=lambda pair: pair[0].encode("utf-8", "surrogatepass"),
                )
            )
        )
        for entry in lists
    ]
    found = sum(map(first, ordered))
    if found < len(lists) / 2:  # ids follow topics and dates a little in honest corpora
        return None
    chance = tail([1 / math.comb(len(flags), sum(flags)) for flags in ordered], found)
    return Leak(kind, found, len(lists), chance) if chance < SCORED_ALPHA else None


def _by_score(entry: _Shown) -> tuple[bool, ...]:
    if entry.scores is None:
        return entry.relevant
    order = sorted(range(len(entry.scores)), key=lambda at: -(entry.scores or ())[at])
    return tuple(entry.relevant[at] for at in order)


def first(flags: tuple[bool, ...]) -> bool:
    """Does every relevant document stand before every other, and is there one?"""
    return any(flags) and all(flags[: sum(flags)])


def chance_first(flags: tuple[bool, ...], scores: tuple[float, ...]) -> float:
    """The chance that the relevant come first if equal scores are ordered at random."""
    if not any(flags):
        return 0.0
    lowest = min(score for score, flag in zip(scores, flags, strict=True) if flag)
    others = [score for score, flag in zip(scores, flags, strict=True) if not flag]
    if any(score > lowest for score in others):
        return 0.0
    tied_others = sum(score == lowest for score in others)
    tied = sum(score == lowest for score, flag in zip(scores, flags, strict=True) if flag)
    return 1 / math.comb(tied + tied_others, tied)


def tail(chances: list[float], found: int) -> float:
    """P(X >= found) for X a sum of independent 0-1 variables with these chances."""
    total: Floats = np.ones(1)
    for chance in chances:
        total = np.convolve(total, [1 - chance, chance])
    return float(min(1.0, total[found:].sum()))

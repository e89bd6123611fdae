"""A weightless reranker: how many terms query and document share. For tests, and as a floor."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rerank.models.pointwise import Pointwise, Reading, distinct_items
from rerank.records import Item, ModelSpec, Placement, QueryGroup

WORD = re.compile(r"\w+")
# Hangul, kana and Han runs: Korean endings and unspaced Chinese or Japanese make words useless
CJK = re.compile(
    r"[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)


@dataclass(frozen=True)
class OverlapParams:
    """No settings: the formula is the whole model."""


def terms(text: str) -> frozenset[str]:
    """The distinct terms of a text, case folded.

    Words are runs of letters, digits and underscores. A run of CJK characters inside a word counts
    as its character bigrams (as itself where it is a single character); the rest of the word stays
    a term, so "S2모델의" gives "s2", "모델" and "델의".
    """
    found: set[str] = set()
    for word in WORD.findall(text.casefold()):
        for run in CJK.findall(word):
            bigrams = {first + second for first, second in pairwise(run)}
            found |= bigrams or {run}
        found |= set(CJK.sub(" ", word).split())
    return frozenset(found)


class Overlap(Pointwise):
    """Score = |Q and D| / sqrt(|Q| |D|), the cosine of the two sets of terms, in [0, 1].

    0.0 where either side has no terms. No collection statistics: a pair's score depends on the
    pair alone. An item's `tokens` is |Q| + |D|.
    """

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct (shared, query, document) count of terms."""
        texts = {text for group in groups for text in (group.query, *group.documents)}
        known = {text: terms(text) for text in texts}
        readings = []
        for group in groups:
            query = known[group.query]
            for document in (known[text] for text in group.documents):
                counts = (len(query & document), len(query), len(document))
                readings.append(Reading(counts, tokens=len(query) + len(document)))
        return distinct_items(groups, readings)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, 1) float32: the cosine of each item's counts."""
        return np.asarray([[_cosine(*item.payload.value)] for item in items], dtype=np.float32)

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return {"formula": "|Q and D| / sqrt(|Q| |D|) over words and CJK character bigrams"}


def _cosine(shared: int, query_terms: int, document_terms: int) -> float:
    return shared / math.sqrt(query_terms * document_terms) if shared else 0.0


def load(spec: ModelSpec, placement: Placement) -> Overlap:
    """An `Overlap`; it needs nothing from the machine."""
    return Overlap()

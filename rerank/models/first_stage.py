"""The baseline without a reranker: the order of stage 1, through the same loop as every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.models.pointwise import Pointwise, Reading, distinct_items
from rerank.records import Item, ModelSpec, Placement, QueryGroup


@dataclass(frozen=True)
class FirstStageParams:
    """No settings: the order is that of the frozen candidates."""


class FirstStage(Pointwise):
    """Score = -rank (1-based stage-1 rank), so that the highest score is the first candidate.

    The retrieval score itself is not used: an imported run may lack it or hold ties that its rank
    column has already decided.
    """

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct rank; no text is read, so an item has no tokens."""
        readings = [Reading(value=rank, tokens=0) for group in groups for rank in group.ranks]
        return distinct_items(groups, readings)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, 1) float32: minus the rank, exact up to rank 2**24."""
        ranks = [item.payload.value for item in items]
        return -np.asarray(ranks, dtype=np.float32).reshape(-1, 1)

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return {"formula": "-rank"}


def load(spec: ModelSpec, placement: Placement) -> FirstStage:
    """A `FirstStage`; it needs nothing from the machine."""
    return FirstStage()

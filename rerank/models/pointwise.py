"""What adapters of single pairs share: equal inputs once, scores back to their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.records import GroupScores, Item, QueryGroup


@dataclass(frozen=True)
class Reading:
    """What the model reads of one (query, document) pair. Equal readings have equal scores.

    value: what `forward` takes, for example token ids; tokens: its length; truncated: was text cut
    to reach it; failure: why the adapter refuses the pair, None where it does not.
    """

    value: Hashable
    tokens: int
    truncated: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class PairInput:
    """Payload of an item: the model's input, and the (group, row) places that it scores."""

    value: Any
    rows: tuple[tuple[int, int], ...]


def pair_label(group: QueryGroup, row: int) -> str:
    """The name of a pair in messages."""
    return f"query '{group.query_id}', document '{group.doc_ids[row]}'"


def distinct_items(groups: Sequence[QueryGroup], readings: Sequence[Reading]) -> list[Item]:
    """One item per distinct reading, in order of first appearance.

    readings: one per pair, all of the first group, then all of the second, and so on.
    """
    places = [(number, row) for number, group in enumerate(groups) for row in range(len(group))]
    rows: dict[Reading, list[tuple[int, int]]] = {}
    for reading, place in zip(readings, places, strict=True):
        rows.setdefault(reading, []).append(place)
    return [
        Item(
            payload=PairInput(reading.value, tuple(found)),
            tokens=reading.tokens,
            truncated=reading.truncated,
            label=pair_label(groups[found[0][0]], found[0][1]),
            failure=reading.failure,
        )
        for reading, found in rows.items()
    ]


def empty_scores(groups: Sequence[QueryGroup]) -> list[GroupScores]:
    """Arrays of the right shapes for each group, NaN until they are filled in place."""
    return [
        GroupScores(
            scores=np.full(len(group), np.nan, dtype=np.float64),
            tokens=np.zeros(len(group), dtype=np.int32),
            truncated=np.zeros(len(group), dtype=np.bool_),
            failures=(None,) * len(group),
        )
        for group in groups
    ]


def scatter(
    groups: Sequence[QueryGroup],
    items: Sequence[Item],
    outputs: Sequence[np.ndarray | None],
    failures: Sequence[str | None],
) -> list[GroupScores]:
    """Each item's single output to all rows that share it; see `Scorer.combine`."""
    results = empty_scores(groups)
    reasons: list[list[str | None]] = [[None] * len(group) for group in groups]
    for item, output, failure in zip(items, outputs, failures, strict=True):
        for number, row in item.payload.rows:
            results[number].tokens[row] = item.tokens
            results[number].truncated[row] = item.truncated
            reasons[number][row] = failure
            if failure is None and output is not None:
                results[number].scores[row] = float(output[0])
    return [
        GroupScores(result.scores, result.tokens, result.truncated, tuple(reason))
        for result, reason in zip(results, reasons, strict=True)
    ]


class Pointwise:
    """Base of scorers whose items are `PairInput`s with one score each."""

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        """See `Scorer.combine`."""
        return scatter(groups, items, outputs, failures)

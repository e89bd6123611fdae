"""Slices: which queries belong to which value of which attribute, of what is computed, or of two.

An attribute may be the query's own (language, intent) or stand on judgments (document, failure).
A query belongs to a judgment attribute's value if any of its judged documents carries it, so it
can be in several slices of one attribute at once. What is computed (COMPUTED_SLICES, at the end)
is a number a query, put into literal buckets, so that slices of two suites are the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rerank.errors import ConfigError

Slice = tuple[str, str]  # attribute, value
Stated = tuple[str, str, str]  # query id, attribute, value
Members = dict[Slice, np.ndarray]  # bool, aligned with the queries
CROSS = "*"  # language*intent: every pair of their values


@dataclass(frozen=True)
class ComputedSlice:
    """A number a query in buckets: (label, lowest number in it), ascending."""

    description: str
    buckets: tuple[tuple[str, int], ...]

    def members(self, attribute: str, numbers: np.ndarray) -> Members:
        """(attribute, label) -> bool array over the queries, in the order of the buckets."""
        found = np.searchsorted([low for _, low in self.buckets], numbers, side="right") - 1
        return {
            (attribute, label): found == position
            for position, (label, _) in enumerate(self.buckets)
        }


def slice_members(
    query_ids: Sequence[str],
    stated: Sequence[Stated],
    attributes: Sequence[str],
    computed: Mapping[str, np.ndarray],
) -> Members:
    """Members of every slice that has any, by the order of `attributes`, then by value.

    stated: from `stated_attributes`. computed: name of COMPUTED_SLICES -> (n_queries,) numbers, at
    least for those that are asked for.
    ConfigError where the data have an attribute of a computed slice's name.
    """
    single = list(dict.fromkeys(part for name in attributes for part in parts_of(name)))
    of: dict[str, Members] = {name: {} for name in single}
    for found, inside in sorted(_stated_members(query_ids, stated, single).items()):
        of[found[0]][found] = inside
    for name in single:
        if name in COMPUTED_SLICES:
            of[name] = COMPUTED_SLICES[name].members(name, computed[name])
    for name in attributes:
        if CROSS in name:
            first, second = parts_of(name)
            of[name] = _crossed(of[first], of[second])
    return {
        found: inside for name in attributes for found, inside in of[name].items() if inside.any()
    }


def stated_attributes(queries: pa.Table, judgments: pa.Table) -> list[Stated]:
    """What queries and judgments state, row by row."""
    return [
        (query_id, attribute, value)
        for table in (queries, judgments)
        for query_id, pairs in zip(
            table["query_id"].to_pylist(), table["attributes"].to_pylist(), strict=True
        )
        for attribute, value in pairs
    ]


def _stated_members(
    query_ids: Sequence[str], stated: Sequence[Stated], attributes: Sequence[str]
) -> Members:
    """Slices of the attributes that queries and judgments state."""
    position = {query_id: index for index, query_id in enumerate(query_ids)}
    members: Members = {}
    for query_id, attribute, value in stated:
        if query_id not in position or attribute not in attributes:
            continue
        if attribute in COMPUTED_SLICES:
            raise ConfigError(
                f"query '{query_id}' has an attribute '{attribute}', which is also the name of a "
                f"computed slice ({COMPUTED_SLICES[attribute].description}); rename the attribute "
                "in the task's files, or leave it out of the suite's slices"
            )
        empty = np.zeros(len(query_ids), dtype=bool)
        members.setdefault((attribute, value), empty)[position[query_id]] = True
    return members


def _crossed(first: Members, second: Members) -> Members:
    """Every value of one attribute with every value of the other."""
    members: Members = {}
    for (left, left_value), left_inside in first.items():
        for (right, right_value), right_inside in second.items():
            name = (f"{left}{CROSS}{right}", f"{left_value}{CROSS}{right_value}")
            if name in members:
                raise ConfigError(
                    f"two crossings of {name[0]} would both be called '{name[1]}'; take the "
                    f"'{CROSS}' out of the attributes' values"
                )
            members[name] = left_inside & right_inside
    return members


def parts_of(name: str) -> list[str]:
    """`language*intent` -> ["language", "intent"]; a plain attribute is its only part."""
    return name.split(CROSS)


def check_slice_names(names: Sequence[str]) -> None:
    """ConfigError unless each is an attribute or a crossing of two different ones, each once."""
    for name in names:
        parts = parts_of(name)
        if not all(parts) or len(parts) > 2 or len(set(parts)) != len(parts):
            raise ConfigError(
                f"slices: '{name}' must be an attribute, as in language, or a crossing of two "
                "different ones, as in language*intent"
            )
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise ConfigError(f"slices: '{repeated[0]}' stands there twice; name it once")


def parse_slice(text: str) -> Slice:
    """`language=ko` -> ("language", "ko"); `language*intent=ko*exact_id` likewise."""
    attribute, equals, value = text.partition("=")
    if not equals or not attribute or not value:
        raise ConfigError(f"slice '{text}' must be written attribute=value, as in language=ko")
    return attribute, value


COMPUTED_SLICES: dict[str, ComputedSlice] = {
    "query_length": ComputedSlice(
        "characters of the query", (("0-20", 0), ("21-40", 21), ("41-80", 41), ("81+", 81))
    ),
    "gold_rank": ComputedSlice(
        "stage-1 rank of the best placed relevant document, injected ones not counted",
        (("none", 0), ("1", 1), ("2-3", 2), ("4-10", 4), ("11+", 11)),
    ),
    "relevant": ComputedSlice(
        "judged documents of grade 1 or more",
        (("none", 0), ("1", 1), ("2-4", 2), ("5+", 5)),
    ),
    "document_length": ComputedSlice(
        "mean characters of the relevant documents among the candidates",
        (("none", -1), ("0-250", 0), ("251-1000", 251), ("1001-4000", 1001), ("4001+", 4001)),
    ),
    "truncated": ComputedSlice("did the model cut any of the texts", (("no", 0), ("yes", 1))),
    "tied": ComputedSlice(
        "do two documents of the query have the same score", (("no", 0), ("yes", 1))
    ),
}

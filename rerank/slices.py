"""Slices: which queries belong to which value of which attribute.

An attribute may be the query's own (language, intent) or stand on judgments (document, failure).
A query belongs to a judgment attribute's value if any of its judged documents carries it, so it
can be in several slices of one attribute at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rerank.errors import ConfigError

Slice = tuple[str, str]  # attribute, value


def slice_members(
    query_ids: Sequence[str],
    queries: pa.Table,
    judgments: pa.Table,
    attributes: Sequence[str],
) -> dict[Slice, np.ndarray]:
    """(attribute, value) -> bool array over `query_ids`, sorted by attribute order then value."""
    position = {query_id: index for index, query_id in enumerate(query_ids)}
    members: dict[Slice, np.ndarray] = {}
    for table in (queries, judgments):
        ids = table["query_id"].to_pylist()
        for query_id, pairs in zip(ids, table["attributes"].to_pylist(), strict=True):
            if query_id not in position:
                continue
            for attribute, value in pairs:
                if attribute in attributes:
                    found = members.setdefault(
                        (attribute, value), np.zeros(len(query_ids), dtype=bool)
                    )
                    found[position[query_id]] = True
    order = {attribute: index for index, attribute in enumerate(attributes)}
    return dict(sorted(members.items(), key=lambda item: (order[item[0][0]], item[0][1])))


def parse_slice(text: str) -> Slice:
    """`language=ko` -> ("language", "ko")."""
    attribute, equals, value = text.partition("=")
    if not equals or not attribute or not value:
        raise ConfigError(f"slice '{text}' must be written attribute=value, as in language=ko")
    return attribute, value

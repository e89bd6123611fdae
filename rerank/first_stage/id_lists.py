"""Id lists: candidates as ids alone, `{"query_id", "relevance_ids"}` a query; read and written.

The order in such a file may mean anything: lists are in use in which the relevant documents stand
first. So a list is a set, unless whoever reads it says that its order is a ranking.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rerank.errors import InputError
from rerank.files.formats import checked_text, id_field, json_lines, lines, unique_keys


def read_id_lists(path: Path) -> dict[str, list[str]]:
    """Query id -> document ids as written; JSONL, or one JSON list of the same objects.

    InputError names file and line for a query or document that stands twice, and for what is no
    list of ids.
    """
    found: dict[str, list[str]] = {}
    for where, row in _rows(path):
        query_id = id_field(row, ("query_id",), where)
        if query_id in found:
            raise InputError(f"{where}: query '{query_id}' stands twice; join its lists")
        found[query_id] = _ids(row.get("relevance_ids"), where)
    return found


def write_id_lists(lists: Mapping[str, Iterable[str]]) -> bytes:
    """JSONL bytes, a query a line, ids in the order given."""
    rows = ({"query_id": key, "relevance_ids": list(ids)} for key, ids in lists.items())
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of a JSON list or of JSONL, told by the first character that is no blank."""
    first = next((text.lstrip()[0] for _, text in lines(path) if text.strip()), "")
    if first != "[":
        yield from ((f"{path}, line {number}", row) for number, row in json_lines(path))
        return
    text = "\n".join(text for _, text in lines(path))
    try:
        rows = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); mend the file") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, entry {number}: must be a JSON object, is {row!r:.40}")
        yield f"{path}, entry {number}", row


def _ids(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise InputError(
            f"{where}, field 'relevance_ids': must be a list of document ids, each a string that "
            "is not empty"
        )
    if len(set(value)) < len(value):
        twice = next(item for item in value if value.count(item) > 1)
        raise InputError(f"{where}: document '{twice}' is listed twice; keep one")
    return [checked_text(item, where) for item in value]


def unordered(ids: Sequence[str]) -> list[str]:
    """The ids in an order that owes nothing to the file: descending by UTF-8 bytes."""
    return sorted(ids, key=str.encode, reverse=True)

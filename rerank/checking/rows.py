"""Lines and JSON objects of a file one by one: a wrong one is told, and the next is read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from rerank.errors import InputError
from rerank.files.formats import UNREADABLE, cannot_read, checked_text, opened, unique_keys

Read = TypeVar("Read")
Given = ParamSpec("Given")


class Troubles(defaultdict[str, list[str]]):
    """What could not be read: kind -> one sentence each, in the order met."""

    def __init__(self) -> None:
        super().__init__(list)

    def attempt(
        self, read: Callable[Given, Read], *words: Given.args, **options: Given.kwargs
    ) -> Read | None:
        """What `read` gives; None, and its sentence kept, where it raises InputError."""
        return self._attempt("unreadable_rows", read, *words, **options)

    def attempt_file(
        self, read: Callable[Given, Read], *words: Given.args, **options: Given.kwargs
    ) -> Read | None:
        """As `attempt`, of a whole file: it is missing, or not of its kind."""
        return self._attempt("unreadable_files", read, *words, **options)

    def _attempt(
        self,
        kind: str,
        read: Callable[Given, Read],
        *words: Given.args,
        **options: Given.kwargs,
    ) -> Read | None:
        try:
            return read(*words, **options)
        except InputError as error:
            self[kind].append(str(error))
            return None


def text_lines(path: Path, troubles: Troubles) -> Iterator[tuple[int, str]]:
    """(1-based number, text) of every UTF-8 line; InputError where the file will not open."""
    try:
        with opened(path) as stream:
            for number, raw in enumerate(stream, 1):
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                text = troubles.attempt(_decoded, data, f"{path}, line {number}")
                if text is not None and text.strip():
                    yield number, text
    except UNREADABLE as error:
        raise cannot_read(path, error) from error


def _decoded(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 ({error.reason})") from error
    if "\r" in text:
        raise InputError(f"{where}: holds a carriage return inside")
    return text


def json_objects(path: Path, troubles: Troubles) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, object) of every line that is a JSON object; of a JSON list, of every entry."""
    if path.name.removesuffix(".gz").endswith(".json"):
        yield from _listed_objects(path, troubles)
        return
    for number, text in text_lines(path, troubles):
        where = f"{path}, line {number}"
        row = troubles.attempt(_object, text, where)
        if row is not None:
            yield where, row


def _listed_objects(path: Path, troubles: Troubles) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with opened(path) as stream:
            entries = json.loads(stream.read().decode("utf-8-sig"), object_pairs_hook=unique_keys)
    except UNREADABLE as error:
        raise cannot_read(path, error) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); mend the file") from error
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
        if isinstance(entry, dict):
            yield f"{path}, entry {number}", entry
        else:
            troubles["unreadable_rows"].append(f"{path}, entry {number}: must be an object")


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be a JSON object, is {value!r:.40}")
    checked_text(json.dumps(value, ensure_ascii=False), where)
    return value

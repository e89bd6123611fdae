"""Identity: one hash for everything that can change a number, and nothing else.

A permissive `str(value)` would let two different recipes share a hash, or one recipe fork into
two, so a value without one stable written form raises.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

FINGERPRINT_LENGTH = 16  # hex digits: 64 bits, far beyond the number of runs anyone will keep


def canonical(value: Any) -> Any:
    """`value` as JSON types with one form only; TypeError for what has no stable form."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} has no stable JSON form; use None or a string")
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: canonical(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"keys of a fingerprinted mapping must be strings: {list(value)}")
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [canonical(item) for item in value]
    raise TypeError(
        f"{type(value).__name__} has no stable form for a fingerprint; "
        "turn it into a string, a number, a list or a frozen dataclass first"
    )


def canonical_json(value: Any) -> str:
    """Sorted keys, no blanks, UTF-8 as is: the same bytes on every machine."""
    return json.dumps(
        canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def fingerprint(value: Any) -> str:
    """sha256 of the canonical JSON of `value`, its first 16 hex digits."""
    text = canonical_json(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:FINGERPRINT_LENGTH]


def sha256_bytes(data: bytes) -> str:
    """`sha256:` and 64 hex digits of `data`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """`sha256:` and 64 hex digits of a file's bytes, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return "sha256:" + digest.hexdigest()


def sha256_rows(rows: Iterable[Sequence[Any]]) -> str:
    """Digest of a table's content, independent of the Parquet writer's version.

    Every field is written as its type's letter, its length in bytes and its bytes, so no two
    tables share a form. Fields may be str, int, float, bool, None or a str-to-str dict.
    """
    digest = hashlib.sha256()
    for row in rows:
        digest.update(b"".join([_field(value) for value in row]))
    return "sha256:" + digest.hexdigest()


def _field(value: Any) -> bytes:
    if isinstance(value, str):
        data = value.encode("utf-8")
        return b"s%d:%b" % (len(data), data)
    kind = type(value)
    if kind is int or (kind is float and math.isfinite(value)):
        data = repr(value).encode()  # as JSON writes them, in a third of the time
    else:
        data = canonical_json(value).encode("utf-8")
    return b"j%d:%b" % (len(data), data)

"""The store: a tree of whole files. A file that exists is complete.

    STORE/frozen/TASK/FINGERPRINT/{manifest.json, candidates/, queries.parquet, judgments.parquet}
    STORE/runs/TASK/MODEL/FINGERPRINT/{run.json, scores/, receipts/, attempts/, failures/}
    STORE/evaluations/SUITE/...   STORE/reports/SUITE/...

Every write goes to a temporary name in the same folder, is synced, and is renamed, so a reader
sees all of a file or none of it, whatever is killed and however full the disk is.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rerank.errors import ConfigError, FrozenDataError, RerankError

TEMPORARY = ".tmp-"


class Store:
    """Whole-file reads and atomic whole-file writes below one root folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()

    def path(self, key: str) -> Path:
        """The file of `key`; ConfigError where a name would leave the store."""
        parts = Path(key).parts
        if Path(key).is_absolute() or ".." in parts or "\0" in key:
            raise ConfigError(f"'{key}' is not a path inside the store {self.root}")
        return self.root / key

    def exists(self, key: str) -> bool:
        return self.path(key).is_file()

    def read(self, key: str) -> bytes:
        """The bytes of a file; FileNotFoundError where there is none."""
        return self.path(key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """Put `data` at `key` in one step; RerankError, and nothing left behind, on failure."""
        target = self.path(key)
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                temporary.unlink(missing_ok=True)
            raise RerankError(
                f"could not write {target} ({error.strerror}); nothing that was finished is lost: "
                "free space or fix the permissions, then run the same command again"
            ) from error

    def remove(self, key: str) -> None:
        self.path(key).unlink(missing_ok=True)

    def files(self, folder: str) -> list[str]:
        """Names of the complete files directly in `folder`, sorted; empty if it is missing."""
        where = self.path(folder)
        if not where.is_dir():
            return []
        with os.scandir(where) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(TEMPORARY) and entry.is_file()
            )

    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in `folder`, sorted; empty if it is missing."""
        where = self.path(folder)
        if not where.is_dir():
            return []
        return sorted(entry.name for entry in where.iterdir() if entry.is_dir())

    def read_json(self, key: str) -> Any:
        """A JSON file; FrozenDataError where its text is not JSON (it was edited by hand)."""
        try:
            return json.loads(self.read(key))
        except ValueError as error:
            raise FrozenDataError(
                f"{self.path(key)} is not JSON ({error}); remove it and run again"
            ) from error

    def read_record(self, key: str, keys: set[str]) -> dict[str, Any] | None:
        """A JSON object that has `keys`; None where there is none: a torn record does not count."""
        try:
            value = json.loads(self.read(key))
        except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) and value.keys() >= keys else None

    def write_json(self, key: str, value: Any) -> None:
        """Strict JSON (no NaN), sorted keys, one form for one value."""
        self.write(key, json_bytes(value))

    def write_table(self, key: str, table: pa.Table) -> bytes:
        """Put a table as Parquet and return its bytes."""
        data = parquet_bytes(table)
        self.write(key, data)
        return data

    def read_table(self, key: str) -> pa.Table:
        """A Parquet file as a table; FrozenDataError where it cannot be read."""
        return table_from_bytes(self.read(key), str(self.path(key)))


def finite_or_none(value: float) -> float | None:
    """None instead of NaN and infinities: JSON has no word for them."""
    return float(value) if math.isfinite(value) else None


def json_bytes(value: Any) -> bytes:
    """Strict, sorted, indented JSON with a final newline."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def parquet_bytes(table: pa.Table, row_group_size: int | None = None) -> bytes:
    """Parquet bytes that depend on the table alone (and the writer's version)."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=row_group_size)
    return sink.getvalue()


def table_from_bytes(data: bytes, where: str) -> pa.Table:
    """Parquet bytes as a table; FrozenDataError naming the file where they are not Parquet."""
    try:
        # one thread: Arrow's pool may abort a process that ends right after an error
        return pq.read_table(io.BytesIO(data), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise FrozenDataError(f"{where} is not a readable Parquet file: {error}") from error

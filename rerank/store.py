"""The store: a tree of whole files. A file that exists is complete.

    STORE/frozen/TASK/FINGERPRINT/{manifest.json, candidates/, queries.parquet, judgments.parquet}
    STORE/runs/TASK/MODEL/FINGERPRINT/{run.json, scores/, receipts/, attempts/, failures/}
    STORE/indexes/FINGERPRINT/{index.json, vocabulary.parquet, *.npy}
    STORE/evaluations/SUITE/...   STORE/reports/SUITE/...   STORE/progress/MODEL/...
    STORE/efficiency/TASK/MODEL/RUN/...

STORE is a folder, local or shared, or a URL: s3://BUCKET/PREFIX, gs://, any scheme of fsspec. A
write is one step everywhere (a rename in a folder, one put in a bucket), so a reader sees all of a
file or none of it, whatever is killed and however full the disk is. Nothing read is ever unpickled.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rerank.errors import ConfigError, FrozenDataError, RerankError
from rerank.filesystems import LocalFiles, files_at
from rerank.store_address import CREDENTIALS, check_key, is_url

REREADS = 4  # of JSON that does not parse, on a remote store


class Store:
    """Whole-file reads and atomic whole-file writes below one root: a path or a URL.

    root: the absolute folder, or the URL; `Store(str(store.root))` is the same store elsewhere.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.backend = files_at(os.fspath(root))
        here = self.backend
        self.root: Path | str = here.root if isinstance(here, LocalFiles) else os.fspath(root)

    @property
    def is_local(self) -> bool:
        """Are its files on a disk, or a mounted one, of this machine?"""
        return isinstance(self.backend, LocalFiles)

    def where(self, key: str) -> str:
        """The full address of `key`, for messages; ConfigError where it would leave the store."""
        self._check(key)
        return self.backend.where(key)

    def below(self, folder: str) -> Store:
        """The store whose root is a folder of this one."""
        self._check(folder)
        if isinstance(self.root, Path):
            return Store(self.root / folder)
        place, question, options = self.root.partition("?")
        return Store(f"{place.rstrip('/')}/{folder}{question}{options}")

    def exists(self, key: str) -> bool:
        with self._told("read", key):
            return self.backend.exists(key)

    def read(self, key: str) -> bytes:
        """The bytes of a file; FileNotFoundError where there is none, RerankError where refused."""
        with self._told("read", key):
            return self.backend.read(key)

    def write(self, key: str, data: bytes) -> None:
        """Put `data` at `key` in one step; RerankError, and nothing left behind, on failure."""
        with self._told("write", key):
            self.backend.write(key, data)

    def remove(self, key: str) -> None:
        """Remove a file; no error where there is none."""
        with self._told("remove", key):
            self.backend.remove(key)

    def files(self, folder: str) -> list[str]:
        """Names of the complete files directly in `folder`, sorted; empty if it is missing."""
        with self._told("list", folder):
            return self.backend.entries(folder)[0]

    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in `folder`, sorted; empty if it is missing."""
        with self._told("list", folder):
            return self.backend.entries(folder)[1]

    def _check(self, key: str) -> None:
        check_key(key, str(self.root), remote=not self.is_local)

    @contextmanager
    def _told(self, verb: str, key: str) -> Iterator[None]:
        """Check the key, and turn a refusal into one sentence. An absent file is no refusal."""
        self._check(key)
        try:
            yield
        except FileNotFoundError:
            if verb == "write":
                raise RerankError(
                    self._refusal(verb, key, "its folder is not there, or went away")
                ) from None
            raise
        except OSError as error:
            raise RerankError(self._refusal(verb, key, error.strerror or str(error))) from error

    def _refusal(self, verb: str, key: str, reason: str) -> str:
        if self.is_local:
            what = f" ({reason})"
            remedy = (
                f"{'free space' if verb == 'write' else 'check the disk'} or fix the permissions"
            )
        else:
            scheme = str(self.root).partition(":")[0].lower()
            what, remedy = diagnose(reason, CREDENTIALS.get(scheme, "see its library"))
            what = f": {what}"
        return (
            f"could not {verb} {self.backend.where(key)}{what}; nothing that was finished is lost: "
            f"{remedy}, then run the same command again"
        )

    def read_json(self, key: str) -> Any:
        """A JSON file; FrozenDataError where its text is not JSON (it was edited by hand)."""
        try:
            return self._parsed(key)
        except ValueError as error:
            raise FrozenDataError(
                f"{self.where(key)} is not JSON ({error}); remove it and run again"
            ) from error

    def read_record(self, key: str, keys: set[str]) -> dict[str, Any] | None:
        """A JSON object that has `keys`; None where there is none: a torn record does not count."""
        try:
            value = self._parsed(key)
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) and value.keys() >= keys else None

    def _parsed(self, key: str) -> Any:
        """JSON; read again where it is none because a bucket's object was replaced meanwhile."""
        for _ in range(0 if self.is_local else REREADS):
            with suppress(ValueError):
                return json.loads(self.read(key))
        return json.loads(self.read(key))

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
        return table_from_bytes(self.read(key), self.where(key))


# what an object store's refusal holds -> what it means, and what to do
REFUSALS = (
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist|ContainerNotFound",
        "the bucket does not exist",
        "create it or correct the store's address",
    ),
    (
        r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|FORBIDDEN"
        r"|UNAUTHORIZED|EXPIRED_TOKEN|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|status 40[13]"
        r"|PERMISSION_DENIED|UNAUTHENTICATED|[Cc]redentials|[Aa]uthenticat",
        "access is denied",
        "set credentials that may get, put, list and delete there ({credentials})",
    ),
    (
        r"NETWORK_CONNECTION|curlCode|[Cc]onnect|[Rr]esolve|[Tt]imed? ?out|UNAVAILABLE",
        "its endpoint does not answer",
        "check the address, its endpoint_override and scheme, and the network",
    ),
)


def diagnose(reason: str, credentials: str) -> tuple[str, str]:
    """What an object store's error means, with its own last words, and the remedy."""
    words = re.sub(r"\s*\(Request ID: [^)]*\)| error_info=.*", "", " ".join(reason.split()))
    words = re.split(r" operation: |; Details: | last message of ", words)[-1].strip(" .")[:200]
    for pattern, what, remedy in REFUSALS:
        if re.search(pattern, reason):
            return f"{what} ({words})", remedy.format(credentials=credentials)
    return words, "wait a moment"


def store_and_key(file: str) -> tuple[Store, str]:
    """The store and the key of one file, by its path or URL; ConfigError where it names none."""
    place, question, options = file.partition("?") if is_url(file) else (file, "", "")
    folder, slash, name = place.rpartition("/")
    if name in ("", ".", "..") or folder.endswith(":/"):
        raise ConfigError(f"'{file}' is no file; name one, as in out/verdict.json")
    return Store(f"{folder or slash or '.'}{question}{options}"), name


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

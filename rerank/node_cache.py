"""What a node has fetched from a remote store: files named by their sha256, so that none is stale.

They lie in `candidates` below RERANK_CACHE (default: ~/.cache/rerank-replay),
which all workers of a node share. RERANK_CACHE_GIB bounds them (default 20): what was not read for
longest goes first. A cache that cannot be used is a warning, never an error.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rerank.errors import ConfigError, RerankError
from rerank.fingerprint import sha256_bytes
from rerank.store import Store

DEFAULT_GIB = 20.0


def cached(digest: str, fetch: Callable[[], bytes]) -> bytes:
    """The bytes of that digest (`sha256:HEX`), from this node's cache or else by `fetch()`.

    One worker fetches, others that want the same file wait for it. The bytes are hashed at every
    read: a damaged file is fetched anew. Raises what `fetch` raises.
    """
    folder, limit = cache_folder() / "candidates", cache_limit()
    name = digest.removeprefix("sha256:")
    with _turn(folder, name):
        data = _found(folder / name, digest)
        if data is None:
            data = fetch()
            _keep(folder, name, data, limit)
        return data


def cache_folder() -> Path:
    """Where a node keeps what it can fetch or make again."""
    named = os.environ.get("RERANK_CACHE")
    if named:
        return Path(named).absolute()
    try:
        return Path.home() / ".cache" / "rerank-replay"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / f"rerank-replay-{os.getuid()}"


def cache_limit() -> int:
    """Bytes that the cache may hold; ConfigError where RERANK_CACHE_GIB is no size."""
    text = os.environ.get("RERANK_CACHE_GIB", str(DEFAULT_GIB))
    try:
        limit = int(float(text) * 2**30)
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise ConfigError(f"RERANK_CACHE_GIB must be a size in GiB from 0, is '{text}'")
    return limit


@contextmanager
def _turn(folder: Path, name: str) -> Iterator[None]:
    """One worker at a time for one file; the lock goes with the process that holds it."""
    try:
        locks = folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(locks / name[:2], os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        _warn(folder, error)
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks: then two may fetch
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _found(file: Path, digest: str) -> bytes | None:
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if sha256_bytes(data) != digest:
        return None
    with suppress(OSError):
        os.utime(file)  # read just now: the last to go
    return data


def _keep(folder: Path, name: str, data: bytes, limit: int) -> None:
    if len(data) > limit:
        return
    try:
        Store(folder).write(name, data)
        _make_room(folder, name, limit)
    except (RerankError, OSError) as error:
        _warn(folder, error)


def _make_room(folder: Path, newest: str, limit: int) -> None:
    """Remove the files read longest ago until the cache holds `limit` bytes at most."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another worker made room
                if entry.is_file():
                    status = entry.stat()
                    files.append((entry.name != newest, status.st_mtime, status.st_size, entry))
    total = sum(size for _, _, size, _ in files)
    for removable, _, size, entry in sorted(files, key=lambda file: file[1]):
        if total <= limit:
            return
        if removable:
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
            total -= size


def _warn(folder: Path, error: Exception) -> None:
    logging.getLogger(__name__).warning(
        "the cache %s cannot be used (%s), so files are fetched again and again; "
        "name a folder that can be written in RERANK_CACHE",
        folder,
        error,
    )

"""The cache of a node: one fetch a node, bytes checked at each read, bounded.

Oracle: the count of fetches, and the files of the folder.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rerank.errors import ConfigError, FrozenDataError
from rerank.fingerprint import sha256_bytes
from rerank.freezing import freeze
from rerank.frozen import open_frozen
from rerank.node_cache import cached
from rerank.store import Store
from rerank.tasks import TaskSpec

MIB = 2**20


class Source:
    """Bytes that count how often they are fetched."""

    def __init__(self, data: bytes) -> None:
        self.data, self.digest, self.fetched = data, sha256_bytes(data), 0

    def __call__(self) -> bytes:
        self.fetched += 1
        time.sleep(0.05)  # others come while it is fetched
        return self.data

    def get(self) -> bytes:
        return cached(self.digest, self)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RERANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "candidates"


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if entry.is_file()}


def test_a_file_is_fetched_once(folder: Path) -> None:
    source = Source(b"candidates")
    assert [source.get(), source.get()] == [b"candidates"] * 2
    assert source.fetched == 1
    assert names(folder) == {source.digest.removeprefix("sha256:")}


def test_many_workers_at_once_fetch_it_once(folder: Path) -> None:
    source, found = Source(b"x" * MIB), []
    threads = [threading.Thread(target=lambda: found.append(source.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (source.fetched, found) == (1, [source.data] * 8)


def test_a_damaged_file_is_fetched_anew(folder: Path) -> None:
    source = Source(b"candidates")
    source.get()
    (folder / source.digest.removeprefix("sha256:")).write_bytes(b"candidate")
    assert (source.get(), source.fetched) == (b"candidates", 2)
    assert (source.get(), source.fetched) == (b"candidates", 2)


def test_what_was_not_read_for_longest_goes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for three: the second, the oldest by its last read, makes way for the fourth."""
    monkeypatch.setenv("RERANK_CACHE_GIB", str(3 * MIB / 2**30))
    sources = [Source(bytes([number]) * MIB) for number in range(4)]
    for age, source in enumerate(sources[:3]):
        source.get()
        os.utime(folder / source.digest.removeprefix("sha256:"), (1000 + age, 1000 + age))
    sources[0].get()
    sources[3].get()
    kept = [sources[number].digest.removeprefix("sha256:") for number in (0, 2, 3)]
    assert names(folder) == set(kept)
    assert sources[0].fetched == 1


def test_a_file_larger_than_the_cache_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_CACHE_GIB", "0")
    source = Source(b"candidates")
    assert [source.get(), source.get(), source.fetched] == [b"candidates", b"candidates", 2]
    assert names(folder) == set()


@pytest.mark.parametrize("size", ["much", "-1", "nan", "inf"])
def test_a_size_that_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("RERANK_CACHE_GIB", size)
    with pytest.raises(ConfigError, match="RERANK_CACHE_GIB"):
        Source(b"").get()


def test_a_cache_that_cannot_be_used_is_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file stands where the folder would be."""
    folder.parent.write_text("")
    with caplog.at_level(logging.WARNING):
        assert Source(b"candidates").get() == b"candidates"
    assert "name a folder that can be written in RERANK_CACHE" in caplog.text


def test_candidates_of_a_remote_store_are_cached_and_checked(
    folder: Path, tmp_path: Path, make_task: Callable[..., Path]
) -> None:
    """Read from the node once it has them; a change in the store is found at the first fetch."""
    spec = TaskSpec(name="tiny", folder=str(make_task()))
    remote, local = Store(f"memory://{tmp_path.name}"), Store(tmp_path / "s")
    tasks = [freeze(spec, store) for store in (remote, local)]
    (shard,) = tasks[0].shards
    tables = [task.candidates(shard) for task in tasks]
    assert tables[0].equals(tables[1])
    assert names(folder) == {shard.sha256.removeprefix("sha256:")}
    key = f"{tasks[0].folder}/{shard.file}"
    remote.write(key, b"changed")
    assert tasks[0].candidates(shard).equals(tables[1])
    (folder / shard.sha256.removeprefix("sha256:")).unlink()
    with pytest.raises(FrozenDataError, match="memory://.*was changed after freezing"):
        tasks[0].candidates(shard)
    assert names(folder) == set()


def test_a_missing_shard_of_a_remote_store_is_found_by_listing(
    folder: Path, tmp_path: Path, make_task: Callable[..., Path]
) -> None:
    """Before anything is scored, and without reading the shards."""
    store = Store(f"memory://{tmp_path.name}")
    spec = TaskSpec(name="tiny", folder=str(make_task()), shard_pairs=30)
    task = freeze(spec, store)
    opened = open_frozen(store, "tiny", task.fingerprint)
    opened.verify()
    assert not folder.exists()
    store.remove(f"{task.folder}/{task.shards[1].file}")
    with pytest.raises(FrozenDataError, match=f"{task.shards[1].file} is missing"):
        opened.verify()

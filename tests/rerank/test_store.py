"""The store: whole files or nothing, and no name that leads out of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rerank.errors import ConfigError, FrozenDataError, RerankError
from rerank.store import Store, json_bytes


def test_a_full_disk_loses_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOSPC while syncing: the old file stays, no temporary file stays, one sentence."""
    store = Store(tmp_path)
    store.write("a/b.json", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RerankError, match="No space left on device.*nothing that was finished is lost"
    ):
        store.write("a/b.json", b"new")
    assert store.read("a/b.json") == b"old"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def test_half_written_files_are_not_listed(tmp_path: Path) -> None:
    """What a killed writer leaves has a temporary name, and no list shows it."""
    store = Store(tmp_path)
    store.write("a/done.json", b"{}")
    (tmp_path / "a" / ".tmp-123").write_bytes(b"{")
    assert store.files("a") == ["done.json"]
    assert store.files("missing") == []


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/x", "a\0b"])
def test_a_name_cannot_leave_the_store(tmp_path: Path, key: str) -> None:
    """Paths are made of task and model names, which come from files."""
    with pytest.raises(ConfigError, match="not a path inside"):
        Store(tmp_path).write(key, b"")


def test_json_is_strict() -> None:
    """NaN is no JSON: other parsers refuse it."""
    with pytest.raises(ValueError, match="Out of range"):
        json_bytes({"a": float("nan")})


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Both kinds of file say which one and what to do."""
    store = Store(tmp_path)
    store.write("x", b"not what it says")
    with pytest.raises(FrozenDataError, match="is not JSON"):
        store.read_json("x")
    with pytest.raises(FrozenDataError, match="not a readable Parquet"):
        store.read_table("x")

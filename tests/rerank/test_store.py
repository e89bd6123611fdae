"""The store: whole files or nothing, no name that leads out of it, the same on every file system.

One contract runs over a folder, a bucket of a real S3 server (moto), memory:// and a scheme of
fsspec without whole puts. Oracle of what is visible: a listing by another client, or the disk's.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from rerank.errors import ConfigError, FrozenDataError, RerankError
from rerank.filesystems import TEMPORARY
from rerank.store import Store, diagnose, json_bytes, store_and_key
from tests.conftest import ROOT
from tests.s3_server import KEYS, S3Server, s3_server

LARGE = 11 * 2**20  # bytes: more than pyarrow sends as one part
BACKENDS = ["folder", "s3", "memory", "other"]


class Other(LocalFileSystem):
    """A file system that fsspec knows and we do not."""

    protocol = "rerank-test"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).removeprefix("rerank-test://").strip("/")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as state:
        state.client().create_dir("bucket")
        yield state


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server with nothing refused, and its keys in the environment."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    server.refuse = lambda method, path, query: False
    server.requests.clear()
    return server


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return Store(tmp_path)
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        return Store(server.url(f"bucket/{tmp_path.name}"))
    if request.param == "memory":
        return Store(f"memory://{tmp_path.name}")
    fsspec.register_implementation("rerank-test", Other, clobber=True)
    return Store(f"rerank-test://{tmp_path}")


class TestContract:
    """What every file system gives."""

    def test_a_file_is_read_as_it_was_written(self, store: Store) -> None:
        for key, data in {"a/b.json": b"{}", "필터 1/x+y%20.bin": b"\0\xff", "e": b""}.items():
            assert not store.exists(key)
            store.write(key, data)
            assert (store.exists(key), store.read(key)) == (True, data)
        store.write("a/b.json", b"other")
        assert store.read("a/b.json") == b"other"
        assert store.files("필터 1") == ["x+y%20.bin"]

    def test_what_is_absent(self, store: Store) -> None:
        """Also where the key is a folder of others, or lies below a file."""
        store.write("a/b", b"1")
        for key in ("x", "a", "a/b/c"):
            with pytest.raises(FileNotFoundError):
                store.read(key)
            assert not store.exists(key)
        assert store.read_record("x", set()) is None
        assert store.files("x") == store.folders("x") == store.files("a/b") == []
        store.remove("x")

    def test_listings(self, store: Store) -> None:
        """Direct children only, sorted, folders apart from files."""
        for key in ("t/b/1", "t/a/2", "t/a/3", "t/z", "t/y", "u"):
            store.write(key, b"1")
        assert (store.files("t"), store.folders("t")) == (["y", "z"], ["a", "b"])
        assert store.files("t/a") == ["2", "3"]
        store.remove("t/a/2")
        assert store.files("t/a") == ["3"]

    def test_more_files_than_one_answer_of_a_bucket_holds(self, store: Store) -> None:
        names = [f"{number:05d}" for number in range(1100)]
        if not store.is_local and not str(store.root).startswith("s3"):
            names = names[:20]
        for name in names:
            store.write(f"many/{name}", b"")
        assert store.files("many") == names

    def test_a_large_file(self, store: Store) -> None:
        data = os.urandom(2**20) * (2 * LARGE // 2**20)
        store.write("large", data)
        assert store.read("large") == data

    def test_it_is_rebuilt_from_its_address(self, store: Store) -> None:
        """As workers do; and a folder of it is a store itself."""
        store.write("a/b/c", b"1")
        assert Store(str(store.root)).read("a/b/c") == b"1"
        assert Store(str(store.below("a").root)).read("b/c") == b"1"
        assert store.where("a/b/c").endswith("/a/b/c")
        address, mark, options = str(store.root).partition("?")
        other, key = store_and_key(f"{address}/a/b/c{mark}{options}")
        assert (other.read(key), key) == (b"1", "c")

    def test_two_writers_of_one_key(self, store: Store) -> None:
        """What is there is always one of them, whole; afterwards the last."""
        texts = [json_bytes({"writer": n, "text": f"{n}" * 3000 * n}) for n in (1, 2, 3)]
        store.write("key", texts[0])
        torn = []

        def write(data: bytes) -> None:
            for _ in range(15):
                store.write("key", data)
                found = store.read_json("key")  # a torn file would not be JSON
                if json_bytes(found) not in texts:
                    torn.append(found)

        threads = [threading.Thread(target=write, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torn == []
        store.write("key", texts[1])
        assert store.read("key") == texts[1]

    @pytest.mark.parametrize(
        "key", ["../x", "a/../../x", "/etc/x", "a\0b", "", "a//b", "a/", "./a", "a/..", "."]
    )
    def test_a_name_cannot_leave_the_store(self, store: Store, key: str) -> None:
        """Paths are made of task and model names, which come from files."""
        for action in (store.read, store.exists, store.remove, store.files, store.where):
            with pytest.raises(ConfigError, match="not a path inside"):
                action(key)
        with pytest.raises(ConfigError, match="not a path inside"):
            store.write(key, b"")

    def test_a_damaged_file_is_named(self, store: Store) -> None:
        """Both kinds of file say which one and what to do."""
        store.write("x", b"not what it says")
        with pytest.raises(FrozenDataError, match="/x is not JSON"):
            store.read_json("x")
        with pytest.raises(FrozenDataError, match="/x is not a readable Parquet"):
            store.read_table("x")


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
    (tmp_path / "a" / f"{TEMPORARY}123").write_bytes(b"{")
    assert store.files("a") == ["done.json"]
    assert store.files("missing") == []


def test_a_file_system_of_fsspec_that_fails_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new bytes are written beside: the old file stays, nothing else does."""
    fsspec.register_implementation("rerank-test", Other, clobber=True)
    store = Store(f"rerank-test://{tmp_path}")
    store.write("a/x", b"old")

    def broken(self: Other, *paths: str, **options: object) -> None:
        raise RuntimeError("the connection is gone")

    monkeypatch.setattr(Other, "mv", broken)
    with pytest.raises(RerankError, match="could not write rerank-test://.*/a/x.*connection is go"):
        store.write("a/x", b"new")
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == {"x": b"old"}


PUT_LARGE = f"""
import sys
from rerank.errors import RerankError
from rerank.store import Store
try:
    Store(sys.argv[1]).write("big", b"x" * {2 * LARGE})
except RerankError as error:
    print(error)
"""


@pytest.mark.parametrize("part", ["uploads", "partNumber=1", "partNumber=2", "partNumber=3"])
def test_a_part_that_the_bucket_refuses_leaves_no_object(s3: S3Server, part: str) -> None:
    """pyarrow would publish the parts it has when its stream goes away, at the latest at exit."""
    place = f"bucket/parts-{part[-1]}"
    s3.refuse = lambda method, path, query: part in query
    done = subprocess.run(
        [sys.executable, "-c", PUT_LARGE, s3.url(place)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.startswith(f"could not write s3://{place}/big: access is denied"), done
    assert (done.returncode, s3.objects(place)) == (0, {})
    s3.refuse = lambda method, path, query: False
    Store(s3.url(place)).write("big", b"x" * (2 * LARGE))
    assert s3.objects(place) == {f"{place}/big": 2 * LARGE}


def test_ctrl_c_cannot_cut_a_put_in_two(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of a put runs in the main thread, where signals arrive: see ArrowFiles.write."""
    store, ran = Store(s3.url("bucket/signal")), []
    real = store.backend.files.open_output_stream

    class Spy:
        def open_output_stream(self, *words: object, **options: object) -> object:
            ran.append(threading.current_thread() is threading.main_thread())
            return real(*words, **options)

    monkeypatch.setattr(store.backend, "files", Spy())
    store.write("x", b"1")
    assert (ran, s3.read("bucket/signal/x")) == ([False], b"1")


def test_a_small_write_is_one_request(s3: S3Server) -> None:
    """And none of them is a temporary name, a rename or a folder."""
    store = Store(s3.url("bucket/count"))
    store.write("deep/er/x", b"1" * 2**20)
    assert s3.requests == [("PUT", "/bucket/count/deep/er/x", "")]
    assert s3.objects("bucket/count") == {"bucket/count/deep/er/x": 2**20}


def test_a_bucket_that_is_missing(s3: S3Server) -> None:
    """Not an empty store: every question says so."""
    store = Store(s3.url("nobody/x"))
    for question in (store.read, store.exists, store.files, store.folders, store.remove):
        with pytest.raises(RerankError, match="s3://nobody/x/a: the bucket does not exist.*create"):
            question("a")
    with pytest.raises(RerankError, match="could not write s3://nobody/x/a: the bucket does not"):
        store.write("a", b"")


def test_a_bucket_that_refuses(s3: S3Server) -> None:
    """The sentence names the variables that hold the credentials."""
    s3.refuse = lambda method, path, query: True
    store = Store(s3.url("bucket/x"))
    for question in (store.read, store.exists, store.files, store.remove):
        with pytest.raises(RerankError, match="access is denied.*AWS_ACCESS_KEY_ID"):
            question("a")


def test_an_endpoint_that_is_down(s3: S3Server) -> None:
    """A port where nobody listens; one sentence that names what to check."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = Store(f"s3://bucket/x?endpoint_override=http://127.0.0.1:{port}")
    with pytest.raises(
        RerankError, match="could not read s3://bucket/x/a: its endpoint does not a"
    ):
        store.read("a")
    with pytest.raises(RerankError, match="could not write.*endpoint_override"):
        store.write("a", b"")


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("AWS Error NO_SUCH_BUCKET during PutObject operation: gone", "the bucket does not exist"),
        ("AWS Error UNKNOWN (HTTP status 403) during X operation: no", "access is denied"),
        ("google::cloud::Status(UNAVAILABLE: Retry policy exhausted)", "its endpoint does not"),
        ("AWS Error SLOW_DOWN during PutObject operation: Reduce (Request ID: A)", "Reduce"),
    ],
)
def test_what_refusals_mean(reason: str, meaning: str) -> None:
    """Messages as the clients give them."""
    assert diagnose(reason, "X")[0].startswith(meaning)
    assert "Request ID" not in diagnose(reason, "X")[0]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://key:secret@bucket/x", "holds credentials.*AWS_ACCESS_KEY_ID"),
        ("s3://bucket/x?secret_key=hush", "holds the secret 'secret_key'"),
        ("s3://bucket/x?nonsense=1", "unknown option.*endpoint_override"),
        ("s3:/bucket/x", "two slashes"),
        ("s3://", "is no place"),
        ("s3://bucket/../other", "not a path inside"),
        ("s3://bucket/x#y", "is no place"),
        ("nothing-known://x/y", "unknown scheme 'nothing-known'"),
    ],
)
def test_addresses_that_are_none(address: str, message: str) -> None:
    """And no message repeats a secret."""
    with pytest.raises(ConfigError, match=message) as caught:
        Store(address).exists("a")
    assert "hush" not in str(caught.value)
    assert ":secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["a\\b", "a\nb"])
def test_names_that_buckets_and_folders_take_apart(s3: S3Server, key: str) -> None:
    with pytest.raises(ConfigError, match="not a path inside"):
        Store(s3.url("bucket/x")).write(key, b"")


@pytest.mark.parametrize("name", ["out/", "s3://bucket", "..", ""])
def test_a_file_must_have_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="is no file"):
        store_and_key(name)


def test_json_is_strict() -> None:
    """NaN is no JSON: other parsers refuse it."""
    with pytest.raises(ValueError, match="Out of range"):
        json_bytes({"a": float("nan")})


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own words, the file, and what to do; no traceback."""
    store = Store(tmp_path)
    store.write("a", b"1")

    def denied(self: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(RerankError, match="could not read .*/a .Permission denied.; .*permissions"):
        store.read("a")

"""Where a store's files lie: a folder, an S3 or Google bucket, or a file system of fsspec.

Three backends with the same few methods over checked keys. They raise FileNotFoundError for a key
that is absent and OSError for everything else; `Store` makes sentences of those. An object store
knows whole objects only: no folders, no renames, no temporary names, one put a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyarrow import fs

from rerank.errors import ConfigError
from rerank.store_address import URL, Address, is_url, parse_address

TEMPORARY = ".tmp-"
CONNECT_SECONDS, SILENT_SECONDS, RETRY_SECONDS = 3, 10, 15  # of an endpoint that does not answer
# schemes of fsspec that put whole objects; on others a file is written beside and renamed
WHOLE_PUTS = {"memory", "abfs", "abfss", "az", "gcs", "oci", "oss", "s3a", "tos"}
NO_BUCKET = "NO_SUCH_BUCKET during this operation: so says the server"

Result = TypeVar("Result")


class Files(Protocol):
    """What a store needs of a file system. Keys are relative, with `/`."""

    def where(self, key: str) -> str: ...
    def read(self, key: str) -> bytes: ...
    def write(self, key: str, data: bytes) -> None: ...
    def remove(self, key: str) -> None: ...
    def exists(self, key: str) -> bool: ...
    def entries(self, folder: str) -> tuple[list[str], list[str]]: ...  # names of files, folders


class LocalFiles:
    """A folder of this machine, or of a file system that it has mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def where(self, key: str) -> str:
        return str(self.root / key)

    def read(self, key: str) -> bytes:
        try:
            return (self.root / key).read_bytes()
        except (IsADirectoryError, NotADirectoryError) as error:
            raise FileNotFoundError(self.where(key)) from error

    def write(self, key: str, data: bytes) -> None:
        """Temporary name, sync, rename: a reader sees the old file or the new one."""
        target = self.root / key
        temporary = target.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
        except OSError:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                temporary.unlink(missing_ok=True)
            raise

    def remove(self, key: str) -> None:
        (self.root / key).unlink(missing_ok=True)

    def exists(self, key: str) -> bool:
        return (self.root / key).is_file()

    def entries(self, folder: str) -> tuple[list[str], list[str]]:
        where = self.root / folder
        if not where.is_dir():
            return [], []
        with os.scandir(where) as found:
            return _split((entry.name, entry.is_file(), entry.is_dir()) for entry in found)


class ArrowFiles:
    """An S3 or Google bucket, through pyarrow. Nothing is asked of it before the first use."""

    def __init__(self, address: Address, connect: Callable[[Address], fs.FileSystem]) -> None:
        self.address = address
        self.connect = connect
        self.bucket_seen = False

    @cached_property
    def files(self) -> fs.FileSystem:
        return self.connect(self.address)

    def where(self, key: str) -> str:
        return self.address.where(key)

    def read(self, key: str) -> bytes:
        """The object. Where another takes its place meanwhile, pyarrow gives that one's bytes with
        the size of the first: `Store` reads JSON again then, and all else is read by its digest.
        """
        return bytes(self._asked(lambda: self.files.open_input_file(self._path(key)).read()))

    def write(self, key: str, data: bytes) -> None:
        """One put of the whole object.

        A stream of pyarrow completes its object when it is destroyed, with what it has by then. So
        nothing may come between its opening and its closing, not even Ctrl-C: they run in a
        thread, where no signal arrives. And a stream that failed is never destroyed, not even at
        the end of the process, where it would publish what it has or wait for ever.
        """

        def put() -> None:
            stream = self.files.open_output_stream(self._path(key), compression=None)
            try:
                stream.write(data)
                stream.close()
            except BaseException:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
                raise

        with ThreadPoolExecutor(1, "put") as thread:
            try:
                _as_os_errors(thread.submit(put).result)
            except FileNotFoundError as error:  # as Google says it
                raise OSError(NO_BUCKET) from error

    def remove(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._asked(lambda: self.files.delete_file(self._path(key)))

    def exists(self, key: str) -> bool:
        try:
            self._asked(lambda: self.files.open_input_file(self._path(key)).close())
        except FileNotFoundError:
            return False
        return True

    def entries(self, folder: str) -> tuple[list[str], list[str]]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        found = self._asked(lambda: self.files.get_file_info(selector))
        if not found:
            self._require_bucket()
        kinds = fs.FileType
        return _split((i.base_name, i.type == kinds.File, i.type == kinds.Directory) for i in found)

    def _path(self, key: str) -> str:
        return f"{self.address.place}/{key}"

    def _asked(self, question: Callable[[], Result]) -> Result:
        try:
            return _as_os_errors(question)
        except FileNotFoundError:
            self._require_bucket()
            raise

    def _require_bucket(self) -> None:
        """OSError where the bucket is what is absent: else a wrong name would be an empty store."""
        if self.bucket_seen:
            return
        bucket = self.address.place.partition("/")[0]
        try:
            found = self.files.get_file_info(bucket).type
        except OSError:
            found = None  # one may have the right to its objects and none to ask for the bucket
        if found == fs.FileType.NotFound:
            raise OSError(NO_BUCKET)
        self.bucket_seen = True


class SpecFiles:
    """Any file system that fsspec has a name for."""

    def __init__(self, address: Address) -> None:
        self.address = address

    @cached_property
    def files(self) -> Any:
        import fsspec  # type: ignore[import-untyped]

        scheme = self.address.scheme
        try:
            kind = fsspec.get_filesystem_class(scheme)
        except ValueError as error:
            raise ConfigError(
                f"unknown scheme '{scheme}' of a store's address; known are s3://, gs://, file:// "
                "and those of fsspec whose package is installed"
            ) from error
        except ImportError as error:
            raise ConfigError(f"a store at {scheme}:// needs a package: {error}") from error
        options = {**kind._get_kwargs_from_urls(self._url()), **self.address.options}
        return kind(**options)

    def where(self, key: str) -> str:
        return self.address.where(key)

    def read(self, key: str) -> bytes:
        try:
            return bytes(_as_os_errors(lambda: self.files.cat_file(self._path(key))))
        except (IsADirectoryError, NotADirectoryError) as error:
            raise FileNotFoundError(self.where(key)) from error

    def write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        if self.address.scheme in WHOLE_PUTS:
            _as_os_errors(lambda: self.files.pipe_file(path, data))
        else:
            _as_os_errors(lambda: self._write_beside(path, data))

    def _write_beside(self, path: str, data: bytes) -> None:
        folder = path.rpartition("/")[0]
        temporary = f"{folder}/{TEMPORARY}{uuid.uuid4().hex}"
        self.files.makedirs(folder, exist_ok=True)
        try:
            self.files.pipe_file(temporary, data)
            self.files.mv(temporary, path)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self.files.rm_file(temporary)
            raise

    def remove(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            _as_os_errors(lambda: self.files.rm_file(self._path(key)))

    def exists(self, key: str) -> bool:
        try:
            return bool(_as_os_errors(lambda: self._info(key))["type"] == "file")
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _info(self, key: str) -> Any:
        self.files.invalidate_cache()
        return self.files.info(self._path(key))

    def entries(self, folder: str) -> tuple[list[str], list[str]]:
        path = self._path(folder)
        try:
            found = _as_os_errors(lambda: self._list(path))
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        rows = [(entry["name"].rstrip("/"), entry["type"]) for entry in found]
        return _split(
            (name.rpartition("/")[2], kind == "file", kind == "directory")
            for name, kind in rows
            if name.strip("/") != path.strip("/")  # a file lists itself
        )

    def _list(self, path: str) -> Any:
        self.files.invalidate_cache()
        return self.files.ls(path, detail=True)

    def _url(self) -> str:
        return f"{self.address.scheme}://{self.address.place}"

    def _path(self, key: str) -> str:
        return f"{str(self.files._strip_protocol(self._url())).rstrip('/')}/{key}"


def _as_os_errors(action: Callable[[], Result]) -> Result:
    """Arrow has errors beside OSError, and each file system of fsspec those of its library."""
    try:
        return action()
    except (OSError, ConfigError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _split(entries: Iterable[tuple[str, bool, bool]]) -> tuple[list[str], list[str]]:
    """(name, is a file, is a folder) -> sorted names of files and of folders."""
    rows = [row for row in entries if not row[0].startswith(TEMPORARY)]
    files = sorted(name for name, is_file, _ in rows if is_file)
    return files, sorted(name for name, _, is_folder in rows if is_folder)


def files_at(root: str) -> Files:
    """The backend of a store's root: a path or a URL. ConfigError where it is neither."""
    if not is_url(root):
        return LocalFiles(Path(root).absolute())
    address = parse_address(root)
    if address.scheme in ("file", "local"):
        return LocalFiles(Path(f"/{address.place}"))
    if address.scheme in CONNECT:
        return ArrowFiles(address, CONNECT[address.scheme])
    return SpecFiles(address)


def _s3(address: Address) -> fs.FileSystem:
    options = dict(address.options)
    endpoint = options.pop("endpoint_override", None)
    if endpoint and URL.match(endpoint):
        options["scheme"], _, endpoint = endpoint.rstrip("/").partition("://")
    return fs.S3FileSystem(
        region=options.pop("region", None) or _s3_region(address, endpoint),
        endpoint_override=endpoint,
        scheme=options.pop("scheme", None),
        anonymous=_is_true(options.pop("anonymous", "")),
        force_virtual_addressing=_is_true(options.pop("force_virtual_addressing", "")),
        tls_ca_file_path=options.pop("tls_ca_file_path", None),
        connect_timeout=CONNECT_SECONDS,
        request_timeout=SILENT_SECONDS,
        allow_delayed_open=True,  # a small object is one request, not three
        background_writes=True,  # else a part that fails may be left out of its object
    )


def _s3_region(address: Address, endpoint: str | None) -> str:
    """The environment's region; else the bucket's own, which only Amazon can be asked for."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    elsewhere = endpoint or os.environ.get("AWS_ENDPOINT_URL")
    if named or elsewhere:
        return named or "us-east-1"
    return str(fs.resolve_s3_region(address.place.partition("/")[0]))


def _gs(address: Address) -> fs.FileSystem:
    options = dict(address.options)
    return fs.GcsFileSystem(
        anonymous=_is_true(options.pop("anonymous", "")),
        retry_time_limit=timedelta(seconds=RETRY_SECONDS),
        **options,
    )


def _is_true(word: str) -> bool:
    return word.lower() in ("true", "1", "yes")


CONNECT: dict[str, Callable[[Address], fs.FileSystem]] = {"s3": _s3, "gs": _gs}

"""A real S3 server for tests: moto behind HTTP, with a log of requests and faults on request."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow.fs as fs
import pytest

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@dataclass
class S3Server:
    """`refuse(method, path, query)` says which requests are answered with 403."""

    port: int = 0
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, query
    refuse: Callable[[str, str, str], bool] = lambda method, path, query: False

    def url(self, place: str) -> str:
        """The address of a store at bucket and prefix `place`."""
        return f"s3://{place}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def client(self) -> fs.S3FileSystem:
        """A client that is none of the product's: what it lists is the oracle."""
        return fs.S3FileSystem(
            access_key="test",
            secret_key="test",
            region="us-east-1",
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
            allow_bucket_creation=True,
        )

    def objects(self, place: str) -> dict[str, int]:
        """Path -> size of every object below bucket and prefix."""
        found = self.client().get_file_info(
            fs.FileSelector(place, recursive=True, allow_not_found=True)
        )
        return {info.path: info.size for info in found if info.type == fs.FileType.File}

    def read(self, path: str) -> bytes:
        return self.client().open_input_file(path).read()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """The server, on a free port of this machine; skips the test where moto is not installed."""
    pytest.importorskip("moto", reason="moto[s3], flask and flask-cors are of the dev extra")
    from moto.moto_api._internal.models import moto_api_backend
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto_api_backend.reset()  # its buckets are the process's, whatever the number of servers
    moto, state = DomainDispatcherApplication(create_backend_app), S3Server()

    def application(environ, start_response):
        request = (environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"])
        state.requests.append(request)
        if state.refuse(*request):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [DENIED]
        return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()

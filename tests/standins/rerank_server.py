"""A rerank server on this machine: real HTTP, scripted trouble.

It speaks the three dialects. A document's score stands in its own text ("doc 0.25" has 0.25), so a
test knows the right score of every pair without a model; answers come sorted by score, as real
servers give them. `script` holds what befalls the next requests, first come first served.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What the server does with a request. body: JSON value, or bytes as they are.

    claimed: bytes announced beyond those sent, so that the answer breaks off; drop: close without
    any answer; drip: seconds between single bytes.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds
    claimed: int = 0
    drop: bool = False
    drip: float = 0.0


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def query(self) -> str:
        return str(self.body.get("query") or self.body.get("text_1") or "")

    @property
    def documents(self) -> list[str]:
        found = (self.body.get(key) for key in ("documents", "texts", "text_2"))
        return next((texts for texts in found if texts is not None), [])


def score_of(document: str) -> float:
    """The score that a document's text states."""
    return float(document.split()[-1])


def answer(asked: Asked) -> Any:
    """The right answer in the dialect asked, best first."""
    scores = [(index, score_of(text)) for index, text in enumerate(asked.documents)]
    scores.sort(key=lambda pair: -pair[1])
    if "texts" in asked.body:
        return [{"index": index, "score": score} for index, score in scores]
    if "text_2" in asked.body:
        return {"data": [{"index": i, "object": "score", "score": score} for i, score in scores]}
    return {"results": [{"index": i, "relevance_score": score} for i, score in scores]}


class RerankServer:
    """The server's state, seen by tests. `always` decides a reply where the script is empty."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: list[Reply] = []
        self.always: Callable[[Asked], Reply | None] = lambda asked: None
        self.at_once = 0  # requests in work
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.url = ""

    def reply_to(self, asked: Asked) -> Reply:
        with self.lock:
            self.asked.append(asked)
            if self.script:
                return self.script.pop(0)
        return self.always(asked) or Reply(body=answer(asked))

    @contextmanager
    def working(self) -> Iterator[None]:
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield
        finally:
            with self.lock:
                self.at_once -= 1


@contextmanager
def rerank_server() -> Iterator[RerankServer]:
    """A server on a free port of 127.0.0.1, for as long as the block lasts."""
    state = RerankServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802  (the name that http.server calls)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            with state.working(), suppress(OSError):  # the client may have given up, as it should
                self.send(state.reply_to(asked))

        def send(self, reply: Reply) -> None:
            time.sleep(reply.delay)
            self.close_connection = bool(reply.drop or reply.claimed or reply.drip)
            if reply.drop:
                return
            raw = isinstance(reply.body, bytes)
            data = reply.body if raw else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(data) + reply.claimed))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if not reply.drip:
                self.wfile.write(data)
                return
            for byte in data:
                self.wfile.write(bytes([byte]))
                time.sleep(reply.drip)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests read `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

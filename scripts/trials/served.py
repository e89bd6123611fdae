"""A rerank server of fixed latency: it sleeps instead of computing, so that two cores will do.

It speaks the dialect of text-embeddings-inference, and counts what it was asked.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Served:
    """latency: seconds a request. asked: (query, document) -> how often it was scored."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.asked: Counter[tuple[str, str]] = Counter()
        self.lock = threading.Lock()
        self.url = ""

    def answer(self, query: str, texts: list[str]) -> list[dict[str, float]]:
        with self.lock:
            self.asked.update((query, text) for text in texts)
        time.sleep(self.latency)
        return [{"index": at, "score": score(query, text)} for at, text in enumerate(texts)]


def score(query: str, text: str) -> float:
    """A number in [0, 1) that only this pair has."""
    return int.from_bytes(hashlib.sha256(f"{query}|{text}".encode()).digest()[:3], "big") / 2**24


@contextmanager
def serving(latency: float) -> Iterator[Served]:
    """A server on loopback for the length of a `with` block."""
    served = Served(latency)
    server = _Server(("127.0.0.1", 0), _handler(served))
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # connections of many workers at once

    def handle_error(self, request: object, client_address: object) -> None:
        """A worker that was killed leaves a broken connection: that is what is tried here."""


def _handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(served.answer(body["query"], body["texts"])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are counted, not printed."""

    return Handler

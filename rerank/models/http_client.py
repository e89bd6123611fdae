"""Sending JSON to a scoring server: timeouts, retries, rate, and a key that is never written.

What comes back is an answer, a refusal of this input for good, or trouble that may pass, which is
tried again with growing pauses. Everything else is an error in the configuration.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx2

from rerank.errors import ScoringError

REFUSED = frozenset({400, 413, 422})  # this input, for good
# 408, 425, 429: later; 424: text-embeddings-inference's word for a failed forward
RETRIED = frozenset({408, 424, 425, 429, *range(500, 600)})
FIRST_PAUSE = 1.0  # seconds; doubled after each try
LONGEST_PAUSE = 60.0  # seconds, of a pause that the server did not ask for
LONGEST_WAIT = 600.0  # seconds; a server that asks for more gets its request in another run
MESSAGE_CHARACTERS = 200  # of a server's own words
MESSAGE_KEYS = ("message", "error", "detail")  # where servers put them

Wait = Callable[[threading.Event, float], bool]


@dataclass(frozen=True)
class Answered:
    """The JSON value of a 2xx answer."""

    value: Any


@dataclass(frozen=True)
class Refused:
    """Why the server will never score this input: status and its own words."""

    reason: str


@dataclass(frozen=True)
class Trouble:
    """What went wrong with one try, and how many seconds the server asks to wait, if it does."""

    reason: str
    wait: float | None = None


class Stopped(Exception):  # noqa: N818  (not a fault of this request)
    """Not sent, or not sent again, because another request of the same batch failed for good."""


class Pace:
    """When the next request may start, for all threads of a client. Not below `60 / per_minute`
    seconds after the last one (0: no limit), and not before a server's Retry-After is over."""

    def __init__(self, per_minute: float, clock: Callable[[], float]) -> None:
        self.interval = 60.0 / per_minute if per_minute else 0.0
        self.clock = clock
        self.next = clock()
        self.lock = threading.Lock()

    def turn(self) -> float:
        """0.0 where a request may start now, which takes the turn; else the seconds until then."""
        with self.lock:
            now = self.clock()
            if now < self.next:
                return self.next - now
            self.next = now + self.interval
            return 0.0

    def hold(self, seconds: float) -> None:
        """No request starts for that long."""
        with self.lock:
            self.next = max(self.next, self.clock() + seconds)


class Client:
    """Posts bodies to one url. Safe for as many threads as `concurrency` says.

    key: sent as a bearer token ('' for none); it is in no message, attribute dump or log of this
    class. connect_timeout and timeout are seconds, of the connection and of the whole answer: a
    server that sends a byte now and then is cut off too. retries: tries after the first.
    wait and clock: how to pause (true: stopped meanwhile) and what time it is, for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        key_variable: str,
        connect_timeout: float,
        timeout: float,
        retries: int,
        concurrency: int,
        requests_per_minute: float,
        wait: Wait = threading.Event.wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            self.url = str(httpx2.URL(url))
        except httpx2.InvalidURL as error:
            raise ScoringError(f"url {url}: {error}; correct it in the model's YAML") from error
        self.key_variable = key_variable
        self.timeout = timeout
        self.retries = retries
        self.pace = Pace(requests_per_minute, clock)
        self._wait = wait
        self._secrets = written_forms(key)
        headers = {"Content-Type": "application/json", "User-Agent": "rerank-replay"}
        self._http = httpx2.Client(
            headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx2.Timeout(timeout, connect=connect_timeout),
            limits=httpx2.Limits(max_connections=concurrency),
        )

    def post(self, body: bytes, label: str, stop: threading.Event) -> Answered | Refused:
        """What the server says to a JSON body; `label` names the input in errors.

        ScoringError: trouble after all retries, or a status that no retry can change. Stopped:
        `stop` was set before an answer came; a request on its way is waited for all the same.
        """
        trouble = Trouble("")
        for failed in range(self.retries + 1):
            if failed:
                self._pause(trouble, failed, label, stop)
            self._take_turn(stop)
            outcome = self._try(body, label)
            if not isinstance(outcome, Trouble):
                return outcome
            trouble = outcome
        raise ScoringError(
            f"{label}: {self.url} gave no answer in {self.retries + 1} tries (the last: "
            f"{trouble.reason}); see to the server, then run again: what is missing is asked again"
        )

    def said(self, text: str) -> str:
        """A server's or a library's words as they may be shown: one line, cut, without the key."""
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        printable = "".join(letter if letter.isprintable() else " " for letter in text)
        line = " ".join(printable.split())
        return line[:MESSAGE_CHARACTERS] + ("…" if len(line) > MESSAGE_CHARACTERS else "")

    def _take_turn(self, stop: threading.Event) -> None:
        while not stop.is_set():
            seconds = self.pace.turn()
            if seconds <= 0:
                return
            self._wait(stop, seconds)
        raise Stopped

    def _pause(self, trouble: Trouble, failed: int, label: str, stop: threading.Event) -> None:
        """Wait before the next try; jitter keeps requests that failed together apart."""
        if trouble.wait is None:
            seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (failed - 1)) * random.uniform(0.5, 1.0)
        elif trouble.wait <= LONGEST_WAIT:
            self.pace.hold(trouble.wait)
            seconds = trouble.wait + random.uniform(0.0, FIRST_PAUSE)
        else:
            raise ScoringError(
                f"{label}: {self.url} asks to wait {trouble.wait:.0f} seconds ({trouble.reason}); "
                "run again after that"
            )
        if self._wait(stop, seconds):
            raise Stopped

    def _try(self, body: bytes, label: str) -> Answered | Refused | Trouble:
        # no error is chained: a library's own text may quote the headers, and with them the key
        try:
            status, headers, answer = self._exchange(body)
        except httpx2.RequestError as error:
            return Trouble(self.said(f"{type(error).__name__}: {error}"))
        if 200 <= status < 300:
            try:
                return Answered(json.loads(answer))
            except (ValueError, RecursionError):
                text = answer.decode("utf-8", "replace")
                return Trouble(f"status {status} and no whole JSON: '{self.said(text)}'")
        reason = f"status {status}: {self.said(server_message(answer)) or 'no message'}"
        if status in REFUSED:
            return Refused(f"the server refuses this input, {reason}")
        if status in RETRIED:
            return Trouble(reason, retry_after(headers.get("retry-after"), datetime.now(UTC)))
        raise ScoringError(f"{label}: {self.url} answered {reason}; {self._remedy(status)}")

    def _exchange(self, body: bytes) -> tuple[int, httpx2.Headers, bytes]:
        """Status, headers and body of one answer; httpx2.RequestError where none came whole."""
        deadline = time.monotonic() + self.timeout
        with self._http.stream("POST", self.url, content=body) as response:
            parts: list[bytes] = []
            late = False
            for part in response.iter_bytes():
                if late:  # more came after the deadline; an answer that ends late is still one
                    raise httpx2.ReadTimeout(f"no whole answer in {self.timeout:g} seconds")
                parts.append(part)
                late = time.monotonic() > deadline
            return response.status_code, response.headers, b"".join(parts)

    def _remedy(self, status: int) -> str:
        if status in (401, 403) and self.key_variable:
            return f"put a key that may use this model into ${self.key_variable}"
        if status in (401, 403):
            return "name the environment variable that holds the key as `key_variable`"
        if status == 404:
            return "check `url` (without the path), `dialect` and `model`"
        if 300 <= status < 400:
            return "redirects are not followed: set `url` to where it leads"
        return "check `url`, `dialect`, `model` and the account behind the key"


def written_forms(key: str) -> tuple[str, ...]:
    """The ways in which an answer may quote a key: as it is, in JSON, in a url. () without one."""
    return tuple(dict.fromkeys((key, json.dumps(key)[1:-1], quote(key, safe="")))) if key else ()


def server_message(body: bytes) -> str:
    """The message in an error's body, however deep `MESSAGE_KEYS` lead; else the body itself."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    while isinstance(value, dict):
        value = next((value[key] for key in MESSAGE_KEYS if key in value), None)
    return value if isinstance(value, str) else text


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds from `now` that a Retry-After header asks for, as seconds or an HTTP date (RFC 9110,
    10.2.3); None where it is missing or neither."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())

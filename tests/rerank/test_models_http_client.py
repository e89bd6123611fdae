"""http: what befalls requests (delays, limits, faults), and the key that is never written."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from jobs.__main__ import main
from rerank.errors import ConfigError, ScoringError
from rerank.models import load_scorer
from rerank.models.http import HttpParams
from rerank.models.http_client import Answered, Client, Pace, Refused, retry_after, server_message
from rerank.records import ModelSpec, Placement
from tests.standins.rerank_server import Asked, Reply, RerankServer, rerank_server

KEY = 'sk-TEST/7"Q+x9~secret'  # with letters that JSON and urls write in other ways
BODY = json.dumps({"query": "q", "documents": ["document 1.5"]}).encode()
RIGHT = Answered({"results": [{"index": 0, "relevance_score": 1.5}]})
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever proxy the machine uses, 127.0.0.1 is not asked for through it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with rerank_server() as state:
        yield state


class FakeTime:
    """A clock that only waiting moves; `waits` has what was waited, in seconds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return stop.is_set()


def client_of(server: RerankServer, time: FakeTime, **settings: Any) -> Client:
    values: dict[str, Any] = {
        "key": KEY,
        "key_variable": "TEST_KEY",
        "connect_timeout": 5.0,
        "timeout": 5.0,
        "retries": 3,
        "concurrency": 2,
        "requests_per_minute": 0.0,
        **settings,
    }
    url = values.pop("url", f"{server.url}/rerank")
    return Client(url, wait=time.wait, clock=lambda: time.now, **values)


def post(client: Client) -> Answered | Refused:
    return client.post(BODY, "query 'q'", threading.Event())


# trouble that passes -----------------------------------------------------------------------

TROUBLE = {
    "limited": Reply(429, {"message": "slow down"}),
    "failed": Reply(500, {"error": "boom"}),
    "unavailable": Reply(503, b""),
    "inference failed": Reply(424, {"error": "CUDA", "error_type": "Backend"}),
    "request timeout": Reply(408, b""),
    "no answer": Reply(drop=True),
    "too late": Reply(body={}, delay=1.0),
    "byte by byte": Reply(body={"results": ["x" * 200]}, drip=0.02),
    "broken off": Reply(body={"results": []}, claimed=50),
    "half a JSON": Reply(body=b'{"results": [{"index": 0, "relev'),
    "no JSON": Reply(body=b"<html>Sign in to the proxy</html>"),
    "no UTF-8": Reply(body=b'{"results": "\xff"}'),
    "too deep": Reply(body=b"[" * 100_000),
    "no gzip": Reply(body=b"plain", headers={"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_tried_again(server: RerankServer, name: str) -> None:
    """Twice in trouble, then the right answer; the first pauses are 0.5 to 1 and 1 to 2 seconds."""
    time = FakeTime()
    server.script = [TROUBLE[name]] * 2
    client = client_of(server, time, timeout=0.3)
    assert post(client) == RIGHT
    assert len(server.asked) == 3
    assert 0.5 <= time.waits[0] <= 1.0 <= time.waits[1] <= 2.0


def test_trouble_that_stays_is_an_error_after_the_last_retry(server: RerankServer) -> None:
    """1 + 9 tries, pauses doubling up to a minute, the server's last words in the error."""
    time = FakeTime()
    server.always = lambda asked: Reply(502, {"message": "no upstream"})
    with pytest.raises(ScoringError, match=r"query 'q'.* in 10 tries .*502: no upstream"):
        post(client_of(server, time, retries=9))
    assert len(server.asked) == 10
    for wait, longest in zip(time.waits, (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert longest / 2 <= wait <= longest


def test_a_server_that_is_not_there_is_an_error_after_the_last_retry() -> None:
    """The port was free a moment ago."""
    with rerank_server() as gone:
        pass
    with pytest.raises(ScoringError, match="in 2 tries .*ConnectError.*see to the server"):
        post(client_of(gone, FakeTime(), retries=1))


def test_retry_after_is_respected_and_holds_all_requests(server: RerankServer) -> None:
    """In seconds and as a date; what another thread would send meanwhile waits as well."""
    held: list[float] = []

    class AnotherThread(FakeTime):
        def wait(self, stop: threading.Event, seconds: float) -> bool:
            held.append(client.pace.turn())
            return super().wait(stop, seconds)

    time = AnotherThread()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    server.script = [Reply(429, b"", {"Retry-After": "30"}), Reply(503, b"", {"Retry-After": date})]
    client = client_of(server, time)
    assert post(client) == RIGHT
    assert 30 <= time.waits[0] <= 31
    assert 80 < time.waits[1] <= 91
    assert held[0] == 30.0
    assert 80 < held[1] <= 90


def test_a_server_that_asks_for_hours_gets_none_of_them(server: RerankServer) -> None:
    """The shard fails at once and says when to come again."""
    time = FakeTime()
    server.script = [Reply(429, {"message": "monthly quota"}, {"Retry-After": "86400"})]
    with pytest.raises(ScoringError, match=r"wait 86400 seconds .*monthly quota.*run again"):
        post(client_of(server, time))
    assert time.waits == []


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("17", 17.0),
        (" 2.5 ", 2.5),
        ("0", 0.0),
        ("Fri, 02 Jan 2026 03:05:05 GMT", 60.0),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 0.0),  # over already
        ("Friday, 02-Jan-26 03:04:35 GMT", 30.0),  # RFC 850, still to be read
        ("soon", None),
        ("-3", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_in_seconds_and_dates(value: str | None, seconds: float | None) -> None:
    """RFC 9110, section 10.2.3; by hand."""
    assert retry_after(value, NOW) == seconds


def test_requests_per_minute_spaces_requests(server: RerankServer) -> None:
    """30 a minute: five start at seconds 0, 2, 4, 6, 8. A retry counts as a request."""
    time = FakeTime()
    client = client_of(server, time, requests_per_minute=30.0)
    for _ in range(5):
        post(client)
    assert time.now == 108.0
    pace = Pace(30.0, lambda: time.now)
    assert [pace.turn(), pace.turn(), pace.turn()] == [0.0, 2.0, 2.0]


# what no retry can change ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "variable", "words"),
    [
        (401, "TEST_KEY", r"may use this model into \$TEST_KEY"),
        (403, "TEST_KEY", r"may use this model into \$TEST_KEY"),
        (401, "", "name the environment variable .* `key_variable`"),
        (404, "TEST_KEY", r"check `url` \(without the path\), `dialect` and `model`"),
        (302, "TEST_KEY", "redirects are not followed"),
        (402, "TEST_KEY", "the account behind the key"),
        (405, "TEST_KEY", "check `url`"),
    ],
)
def test_a_wrong_configuration_is_an_error_at_once(
    server: RerankServer, status: int, variable: str, words: str
) -> None:
    """What, where and what to do; asked once."""
    server.always = lambda asked: Reply(status, {"detail": "not so"}, {"Location": server.url})
    pattern = rf"query 'q': {server.url}/rerank answered status {status}: not so; .*{words}"
    with pytest.raises(ScoringError, match=pattern):
        post(client_of(server, FakeTime(), key_variable=variable))
    assert len(server.asked) == 1


def test_a_url_that_the_library_cannot_use_is_an_error() -> None:
    """Before anything is sent."""
    with pytest.raises(ScoringError, match="correct it in the model's YAML"):
        client_of(RerankServer(), FakeTime(), url="http://host\x01/rerank")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "too long"}', "too long"),  # Cohere
        (b'{"error": "too long", "error_type": "Validation"}', "too long"),  # TEI
        (b'{"error": {"message": "too long", "code": 400}}', "too long"),  # vLLM
        (b'{"detail": "too long"}', "too long"),  # FastAPI, Jina
        (b'{"detail": [{"loc": ["body"]}]}', '{"detail": [{"loc": ["body"]}]}'),  # FastAPI 422
        (b"too long", "too long"),
        (b"", ""),
    ],
)
def test_the_servers_own_words(body: bytes, words: str) -> None:
    """As the servers write their errors."""
    assert server_message(body) == words


def test_what_a_server_says_becomes_one_printable_line(server: RerankServer) -> None:
    """Terminal escapes, line ends and lone surrogates do not reach files or terminals."""
    server.always = lambda asked: Reply(400, b'{"message": "a\\u001b[31m\\n b \\ud800 c"}')
    assert post(client_of(server, FakeTime())) == Refused(
        "the server refuses this input, status 400: a [31m b c"
    )


# the key -----------------------------------------------------------------------------------


def leaks(text: str) -> list[str]:
    """Pieces of the key in a text, as it is or as JSON and urls write it."""
    return re.findall(r"sk-TEST|Q\+x9|Q%2Bx9|~secret", text)


def model_yaml(folder: Path, url: str, **settings: Any) -> None:
    values = {"adapter": "http", "url": url, "model": "served", "recipe": "unverified"}
    values |= {"key_variable": "TEST_KEY", "retries": 1, "concurrency": 2, **settings}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "served.yaml").write_text(json.dumps(values))
    (folder / "first_stage.yaml").write_text('{"adapter": "first_stage"}')


@pytest.fixture
def project(tmp_path: Path, make_task: Callable[..., Path], server: RerankServer) -> list[str]:
    """A suite with the served model; gives the words that follow `rerank run`."""
    configs = tmp_path / "configs"
    model_yaml(configs / "models", server.url)
    for name, values in {
        "tasks/tiny": {"folder": str(make_task(queries=4)), "depth": 5, "shard_pairs": 10},
        "suites/s": {
            "tasks": ["tiny"],
            "models": ["first_stage", "served"],
            "baseline": "first_stage",
            "measures": ["nDCG@10"],
            "samples": 10,
        },
    }.items():
        (configs / name).parent.mkdir(exist_ok=True)
        (configs / f"{name}.yaml").write_text(json.dumps(values))
    return [str(configs / "suites/s.yaml"), f"store={tmp_path / 'store'}"]


def by_length(asked: Asked) -> Reply:
    results = [
        {"index": row, "relevance_score": len(text) / 1000}
        for row, text in enumerate(asked.documents)
    ]
    return Reply(body={"results": results[::-1]})


def echo(status: int, body: Callable[[str], bytes]) -> Callable[[Asked], Reply]:
    """A server that quotes the key it was sent."""
    return lambda asked: Reply(status, body(asked.headers["authorization"].removeprefix("Bearer ")))


ECHOES = {
    "scores": (0, by_length),
    "refused": (1, echo(400, lambda key: json.dumps({"message": f"for {key}: no"}).encode())),
    "wrong key": (1, echo(401, lambda key: json.dumps({"key": key}).encode())),
    "wrong key, plain": (1, echo(403, lambda key: b"not for " + key.encode())),
    "wrong key, linked": (1, echo(404, lambda key: f"/keys/{quote(key, safe='')}".encode())),
    "failed": (1, echo(500, lambda key: key.encode())),
    "no JSON": (1, echo(200, lambda key: b"<p>" + key.encode())),
    "no list": (1, echo(200, lambda key: json.dumps({"you": key}).encode())),
    "cut": (1, echo(400, lambda key: b"x" * 195 + key.encode())),
}


@pytest.mark.parametrize("name", ECHOES)
def test_the_key_is_sent_and_never_written(
    server: RerankServer,
    project: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """Not in the store, the reports, the terminal or debug logs, whatever the server quotes."""
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr("rerank.models.http_client.FIRST_PAUSE", 0.01)
    code, server.always = ECHOES[name]
    with caplog.at_level(logging.DEBUG):
        assert main(["run", *project]) == code
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    seen = capsys.readouterr()
    assert leaks(seen.out + seen.err) == []
    logged = [record.getMessage() for record in caplog.records]
    assert any("HTTP Request: POST" in message for message in logged)
    assert leaks("".join(logged)) == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "run.json" for path in files)
    assert any(path.parent.name in ("receipts", "failures") for path in files)
    assert [path for path in files if leaks(path.read_bytes().decode("latin-1"))] == []


def test_errors_and_objects_do_not_hold_the_key_in_sight(
    server: RerankServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """repr, description, and an error with all that it chains."""
    monkeypatch.setenv("TEST_KEY", KEY)
    params = HttpParams(url=server.url, model="served", key_variable="TEST_KEY")
    scorer = load_scorer(
        ModelSpec("m", "http", recipe="unverified", params=params),
        Placement("cpu", "float32", "none"),
    )
    shown = [repr(params), repr(scorer), repr(scorer.client), repr(scorer.client._http.headers)]
    assert leaks(" ".join([*shown, json.dumps(scorer.describe())])) == []
    server.always = echo(401, lambda key: key.encode())
    with pytest.raises(ScoringError) as caught:
        scorer.client.post(BODY, "query 'q'", threading.Event())
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "[key]" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "is not set"), ("", "is not set"), (f"{KEY}\n", "holds what no header can carry")],
)
def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, words: str
) -> None:
    """A line end behind it (`export KEY=$(cat file)` keeps none, a mounted secret does)."""
    monkeypatch.delenv("TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("TEST_KEY", value)
    params = HttpParams(url="http://one", model="served", key_variable="TEST_KEY")
    with pytest.raises(ScoringError, match=f"TEST_KEY {words}") as caught:
        load_scorer(
            ModelSpec("m", "http", recipe="unverified", params=params),
            Placement("cpu", "float32", "none"),
        )
    assert leaks(str(caught.value)) == []


@pytest.mark.parametrize(
    "values",
    [
        {"key_variable": "sk-TEST"},
        {"url": "https://user:sk-TEST@host/v2"},
        {"url": "https://host/v2?key=sk-TEST"},
        {"url": "https://host/v2#sk-TEST"},
    ],
)
def test_a_key_in_the_configuration_is_refused_and_not_repeated(values: dict[str, Any]) -> None:
    """Where people put them by mistake."""
    with pytest.raises(ConfigError, match="key_variable") as caught:
        HttpParams(**values)
    assert leaks(str(caught.value)) == []

"""http: scores of a served reranker, against a real server whose documents state their scores."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.__main__ import main
from rerank.errors import ConfigError, ScoringError
from rerank.fingerprint import canonical_json
from rerank.ledger import Attempt, Session
from rerank.models import load_scorer, model_identity, resolve_weights
from rerank.models.http import RECIPE, HttpParams, ServedReranker, contract
from rerank.models.http_dialects import DIALECTS, as_float32, read_scores
from rerank.records import ModelSpec, Placement, QueryGroup
from rerank.scoring import score_groups
from rerank.store import Store
from tests.standins.rerank_server import Asked, Reply, RerankServer, answer, rerank_server

NOWHERE = Placement("cpu", "float32", "none")
SCORES = {"a": (0.5, -3.25, 7.0, 0.0), "b": (2.0,), "c": (-1.0, 4.0, 1.5)}
BUDGET = 2_048


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever proxy the machine uses, 127.0.0.1 is not asked for through it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("rerank.models.http_client.FIRST_PAUSE", 0.01)


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with rerank_server() as state:
        yield state


def group(query_id: str, scores: tuple[float, ...]) -> QueryGroup:
    documents = tuple(f"text of {query_id} with {score}" for score in scores)
    names = tuple(f"{query_id}{row}" for row in range(len(scores)))
    return QueryGroup(
        query_id, f"query {query_id}", names, documents, tuple(range(1, len(names) + 1))
    )


GROUPS = [group(query_id, scores) for query_id, scores in SCORES.items()]


def model(url: str, **params: Any) -> ModelSpec:
    params = {"model": "served", "retries": 2, "timeout": 5.0, **params}
    return ModelSpec("m", "http", recipe="unverified", params=HttpParams(url=url, **params))


def scorer_of(server: RerankServer, **params: Any) -> ServedReranker:
    found = load_scorer(model(server.url, **params), NOWHERE)
    assert isinstance(found, ServedReranker)
    return found


def scores_of(scorer: ServedReranker, groups: list[QueryGroup] = GROUPS) -> list[list[float]]:
    return [result.scores.tolist() for result in score_groups(scorer, groups, BUDGET)[0]]


# what is asked and what is made of the answers ---------------------------------------------

BODIES = {
    "cohere": (
        "/rerank",
        lambda group: {
            "model": "served",
            "query": group.query,
            "documents": list(group.documents),
            "top_n": len(group),
        },
    ),
    "tei": (
        "/rerank",
        lambda group: {
            "query": group.query,
            "texts": list(group.documents),
            "raw_scores": True,
            "truncate": False,
        },
    ),
    "vllm_score": (
        "/score",
        lambda group: {
            "model": "served",
            "text_1": group.query,
            "text_2": list(group.documents),
        },
    ),
}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_each_dialect_asks_in_its_words_and_joins_scores_by_index(
    server: RerankServer, dialect: str
) -> None:
    """Bodies as the servers document them; answers come sorted by score, not in the order sent
    (T11), and the right score of a document stands in its text."""
    scorer = scorer_of(server, dialect=dialect, concurrency=1)
    results, report = score_groups(scorer, GROUPS, BUDGET)
    assert [result.scores.tolist() for result in results] == [list(s) for s in SCORES.values()]
    path, body = BODIES[dialect]
    asked = sorted(server.asked, key=lambda asked: asked.query)
    assert [(one.path, one.body) for one in asked] == [(path, body(group)) for group in GROUPS]
    assert all(one.headers["content-type"] == "application/json" for one in asked)
    assert "authorization" not in asked[0].headers
    assert all(result.tokens.tolist() == [0] * len(result.scores) for result in results)
    assert report.counts == {"requests": 3, "collapsed": 0, "looks_like_probabilities": 0}


def test_answers_that_overtake_each_other_stay_with_their_queries(server: RerankServer) -> None:
    """All four at once: the server answers none before it has all; the first sent answers last."""
    together = threading.Barrier(4)
    groups = [group(query_id, (float(row), -float(row))) for row, query_id in enumerate("abcd")]

    def late(asked: Asked) -> Reply:
        together.wait(timeout=20)
        place = "abcd".index(asked.query[-1])
        return Reply(body=answer(asked), delay=0.02 * (3 - place))

    server.always = late
    found = scores_of(scorer_of(server, concurrency=4), groups)
    assert found == [[float(row), -float(row)] for row in range(4)]
    assert server.most_at_once == 4


def test_never_more_requests_at_once_than_concurrency(server: RerankServer) -> None:
    """Twelve requests through two."""
    server.always = lambda asked: Reply(body=answer(asked), delay=0.01)
    groups = [group(f"q{row}", (1.0, 2.0)) for row in range(12)]
    scores_of(scorer_of(server, concurrency=2), groups)
    assert len(server.asked) == 12
    assert server.most_at_once <= 2


def test_a_list_is_split_only_where_the_configuration_says_so(server: RerankServer) -> None:
    """Two documents a request: 4, 1 and 3 documents make 2 + 1 + 2 requests, same scores."""
    scorer = scorer_of(server, documents_per_request=2, list_atomic=False)
    results, report = score_groups(scorer, GROUPS, BUDGET)
    assert [result.scores.tolist() for result in results] == [list(s) for s in SCORES.values()]
    assert sorted(len(asked.documents) for asked in server.asked) == [1, 1, 2, 2, 2]
    assert report.counts["requests"] == 5


def test_a_list_that_must_stay_whole_is_not_split() -> None:
    """T12: the default is whole lists, and documents_per_request contradicts it."""
    with pytest.raises(ConfigError, match="list_atomic: false"):
        HttpParams(documents_per_request=2)


def test_extra_fields_are_sent_and_cannot_replace_the_dialects_own(server: RerankServer) -> None:
    """vLLM's `use_activation: false` asks for logits."""
    scores_of(scorer_of(server, dialect="vllm_score", extra_body={"use_activation": False}))
    assert all(asked.body["use_activation"] is False for asked in server.asked)
    with pytest.raises(ConfigError, match="text_2"):
        HttpParams(dialect="vllm_score", extra_body={"text_2": []})


def test_an_empty_list_is_never_sent(server: RerankServer) -> None:
    """Neither by the loop nor by the adapter."""
    scorer = scorer_of(server)
    assert scorer.encode([group("e", ())]) == []
    assert scores_of(scorer, [group("e", ())]) == [[]]
    assert server.asked == []


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_input_is_recorded_and_the_rest_is_scored(
    server: RerankServer, status: int
) -> None:
    """Every document of the refused request carries the reason, the server's words cut to 200."""
    words = "batch size 4 > maximum 3 " + "x" * 300
    refusal = Reply(status, {"error": {"message": words}})
    server.always = lambda asked: refusal if asked.query == "query a" else None
    results, _ = score_groups(scorer_of(server), GROUPS, BUDGET)
    reason = f"the server refuses this input, status {status}: {words[:200]}…"
    assert results[0].failures == (reason,) * 4
    assert np.isnan(results[0].scores).all()
    assert results[1].scores.tolist() == [2.0]
    assert results[2].scores.tolist() == [-1.0, 4.0, 1.5]
    assert len(server.asked) == 3


def cohere(*results: Any) -> dict[str, Any]:
    return {"results": list(results)}


def row(index: Any, score: Any = 1.0) -> dict[str, Any]:
    return {"index": index, "relevance_score": score}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (cohere(row(0), row(0)), "document 0 of 2 has two scores"),
        (cohere(row(1)), "1 of 2 documents have no score.*number 0"),
        (cohere(), "2 of 2 documents have no score"),
        (cohere(row(0), row(2)), "index 2 .*documents are 0 to 1"),
        (cohere(row(0), row(-1)), "index -1"),
        (cohere(row(0), row(True)), "whole number as `index`"),
        (cohere(row(0), row("1")), "whole number as `index`"),
        (cohere(row(0), row(1.0)), "whole number as `index`"),
        (cohere(row(0), [1, 2.0]), "whole number as `index`"),
        (cohere(row(0), {"index": 1}), "`relevance_score` of document 1.*None"),
        (cohere(row(0), row(1, "0.5")), "document 1 is no finite float32 number: '0.5'"),
        (cohere(row(0), row(1, True)), "document 1 .*True"),
        (cohere(row(0), row(1, None)), "document 1 .*None"),
        (cohere(row(0), row(1, float("nan"))), "document 1 .*nan"),
        (cohere(row(0), row(1, float("-inf"))), "document 1 .*-inf"),
        (cohere(row(0), row(1, 1e39)), "document 1 .*1e\\+39"),
        (cohere(row(0), row(1, 10**400)), "document 1 is no finite"),
        ({"error": "later"}, "no list of results under `results`"),
        ([row(0), row(1)], "no list of results under `results`"),
        ({"results": {"0": 1.0}}, "no list of results"),
    ],
)
def test_an_answer_without_one_finite_score_a_document_is_an_error(
    server: RerankServer, found: Any, words: str
) -> None:
    """Named with its query; nothing is filled in, and it is not asked for again."""
    server.always = lambda asked: Reply(body=found)
    with pytest.raises(ScoringError, match=words) as caught:
        scores_of(scorer_of(server), [group("a", (1.0, 2.0))])
    assert "query 'a', documents 'a0' to 'a1'" in str(caught.value)
    assert len(server.asked) == 1


def test_an_answer_that_is_the_list_itself_is_tei_alone() -> None:
    """And tei takes no other."""
    result = [{"index": 0, "score": 3}]
    assert read_scores(DIALECTS["tei"], result, 1).tolist() == [3.0]
    with pytest.raises(ScoringError, match="as the whole answer"):
        read_scores(DIALECTS["tei"], {"results": result}, 1)


def test_scores_that_fall_together_in_float32_are_counted(server: RerankServer) -> None:
    """0.1 and the next float64 are one float32; 0.2 twice was a tie before. By numpy's cast."""
    near = (0.1, float(np.nextafter(0.1, 1)), 0.2, 0.2, 5.0)
    (result,), report = score_groups(scorer_of(server), [group("n", near)], BUDGET)
    assert result.scores.tolist() == np.float32(near).astype(np.float64).tolist()
    assert report.counts["collapsed"] == 1
    assert as_float32(np.array([1e-50, 1e-60]))[1] == 1


def test_a_shard_of_numbers_from_0_to_1_is_marked(server: RerankServer) -> None:
    """Not where a single score lies outside."""
    scorer = scorer_of(server)
    _, report = score_groups(scorer, [group("p", (0.0, 0.5)), group("q", (1.0,))], BUDGET)
    assert report.counts["looks_like_probabilities"] == 3
    _, report = score_groups(scorer, [group("p", (0.0, 0.5)), group("q", (1.1,))], BUDGET)
    assert report.counts["looks_like_probabilities"] == 0


# answers that were paid for ----------------------------------------------------------------


def fail_on(*queries: str) -> Callable[[Asked], Reply | None]:
    return lambda asked: Reply(500, b"down") if asked.query in queries else None


def test_a_shard_tried_again_asks_only_for_what_is_missing(server: RerankServer) -> None:
    """In one process; afterwards nothing is kept, so a third time asks for everything."""
    scorer = scorer_of(server, retries=0, concurrency=1)
    server.always = fail_on("query c")
    with pytest.raises(ScoringError, match="query 'c'.*gave no answer in 1 tries"):
        scores_of(scorer)
    assert [asked.query for asked in server.asked] == ["query a", "query c"]  # longest first
    server.asked.clear()
    server.always = lambda asked: None
    assert scores_of(scorer) == [list(scores) for scores in SCORES.values()]
    assert [asked.query for asked in server.asked] == ["query c", "query b"]
    assert scorer.answered == {}
    scores_of(scorer)
    assert len(server.asked) == 5


def test_requests_on_their_way_are_kept_and_no_others_sent_after_a_failure(
    server: RerankServer,
) -> None:
    """`a` fails while `b` is being answered; `c` waits for a free thread and is never sent."""
    on_its_way = threading.Event()

    def slow(asked: Asked) -> Reply:
        if asked.query == "query a":
            on_its_way.wait(20)
            return Reply(401, {"message": "who?"})
        on_its_way.set()
        return Reply(body=answer(asked), delay=0.1)

    server.always = slow
    scorer = scorer_of(server, concurrency=2)
    items = {item.label[7]: item for item in scorer.encode(GROUPS)}
    with pytest.raises(ScoringError, match="401"):
        scorer.forward([items[name] for name in "abc"])
    assert sorted(asked.query for asked in server.asked) == ["query a", "query b"]
    server.always = lambda asked: None
    assert [row.tolist() for row in scorer.forward([items["b"]])] == [[2.0, 0.0]]
    assert len(server.asked) == 2


def test_a_journal_keeps_answers_for_the_next_process(tmp_path: Path, server: RerankServer) -> None:
    """Batches that ended before the failure are recalled; a budget of 8 makes one of each list."""
    store = Store(tmp_path)
    session = Session.new("inline")
    server.always = fail_on("query b")
    first = Attempt(store, "run", "0", session)
    with pytest.raises(ScoringError, match="query 'b'"):
        score_groups(scorer_of(server, retries=0), GROUPS, 8, journal=first)
    first.end()
    server.asked.clear()
    server.always = lambda asked: None
    again = Attempt(store, "run", "0", session)
    results, _ = score_groups(scorer_of(server), GROUPS, 8, journal=again)
    assert [result.scores.tolist() for result in results] == [list(s) for s in SCORES.values()]
    assert [asked.query for asked in server.asked] == ["query b"]


def test_a_replay_that_failed_asks_only_for_the_rest(
    tmp_path: Path, server: RerankServer, make_task: Callable[..., Path]
) -> None:
    """`rerank replay` twice, two scorers: what was answered (and paid) is in the shard's ledger."""
    task = {"folder": str(make_task(queries=6)), "depth": 4, "shard_pairs": 1_000}
    settings = {"adapter": "http", "recipe": "unverified", "url": server.url, "model": "served"}
    files = {
        "tasks/tiny.yaml": task,
        "models/served.yaml": {**settings, "retries": 0, "concurrency": 1},
        "suites/s.yaml": {"tasks": ["tiny"], "models": ["served"], "baseline": "served"},
    }
    for name, values in files.items():
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    words = [str(tmp_path / "configs/suites/s.yaml"), f"store={tmp_path}/store", "token_budget=8"]

    def reply(asked: Asked) -> Reply | None:
        if failing and len(server.asked) > 3:
            return Reply(status=500)
        scores = [{"index": n, "relevance_score": -n} for n in range(len(asked.documents))]
        return Reply(body={"results": scores})

    server.always = reply
    failing = True
    assert main(["freeze", *words]) == 0
    assert main(["replay", *words]) == 1
    assert len(server.asked) == 4  # three answers and the failure
    server.asked.clear()
    failing = False
    assert main(["replay", *words]) == 0
    assert len(server.asked) == 3  # of six queries


# what a run says of itself -----------------------------------------------------------------

BASE = model("http://one:1")


def identity(spec: ModelSpec) -> str:
    return canonical_json(model_identity(spec, NOWHERE, resolve_weights(spec)))


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "https://two/v2"},
        {"key_variable": "OTHER_KEY"},
        {"connect_timeout": 1.0},
        {"timeout": 1.0},
        {"retries": 0},
        {"concurrency": 9},
        {"requests_per_minute": 5.0},
        {"list_atomic": False},
    ],
)
def test_how_a_server_is_reached_is_no_part_of_the_identity(changed: dict[str, Any]) -> None:
    """A moved server or a slower rate takes up the same run."""
    assert identity(replace(BASE, params=replace(BASE.params, **changed))) == identity(BASE)


@pytest.mark.parametrize(
    "changed",
    [
        {"dialect": "vllm_score"},
        {"model": "other"},
        {"model_revision": "2"},
        {"dialect": "tei", "truncate": True},
        {"extra_body": {"use_activation": False}},
        {"list_atomic": False, "documents_per_request": 8},
    ],
)
def test_what_the_server_computes_is(changed: dict[str, Any]) -> None:
    """As far as a client can tell."""
    assert identity(replace(BASE, params=replace(BASE.params, **changed))) != identity(BASE)


def test_describe_is_the_same_for_every_shard_and_pace(server: RerankServer) -> None:
    """The shards of a run must agree on it, whatever was answered, and after a change of pace."""
    scorer = scorer_of(server, model_revision="a1")
    before = scorer.describe()
    scores_of(scorer)
    assert scorer.describe() == before
    changed = {"retries": 0, "concurrency": 9, "timeout": 1.0, "list_atomic": False}
    assert scorer_of(server, model_revision="a1", **changed).describe() == before


def test_describe_and_contract_say_what_is_not_known(server: RerankServer) -> None:
    """The recipe, the tokenizer, and a revision that nobody states."""
    said = scorer_of(server).describe()
    assert said["recipe"] == RECIPE
    assert said["model_revision"].startswith("unpinned")
    pinned = scorer_of(server, model_revision="a1").describe()
    assert pinned["model_revision"] == "a1"
    assert (said["url"], pinned["url"]) == (server.url, None)
    made = contract(model(server.url))
    assert made.facts["recipe"] == RECIPE
    assert made.facts["readout"] == "results[].relevance_score joined by index"
    json.dumps(made.facts)
    reading = made.read("query", "document")
    assert reading.sequences == ()
    assert reading.refusal == "the server tokenises; ask its operator what it reads of a pair"
    assert server.asked == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"params": HttpParams(model="served")}, "name `url` and `model`"),
        ({"params": HttpParams(url="http://one")}, "name `url` and `model`"),
        ({"params": None}, "name `url` and `model`"),
        ({"max_length": 512}, "max_length would have no effect"),
        ({"weights": "x", "revision": "y"}, "weights, revision would have no effect"),
        ({"recipe": "verified"}, "recipe: unverified"),
    ],
)
def test_settings_that_only_the_server_could_follow_are_refused(
    changed: dict[str, Any], words: str
) -> None:
    """Where the model is loaded and where its contract is shown."""
    for door in (lambda spec: load_scorer(spec, NOWHERE), contract):
        with pytest.raises(ConfigError, match=words):
            door(replace(BASE, **changed))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dialect": "coher"}, "Did you mean 'cohere'"),
        ({"url": "localhost:8080"}, "http\\(s\\)://HOST"),
        ({"url": "ftp://host"}, "http\\(s\\)://HOST"),
        ({"url": "http://host:99999"}, "http\\(s\\)://HOST"),
        ({"url": "http://[::1"}, "http\\(s\\)://HOST"),
        ({"timeout": 0.0}, "above 0"),
        ({"connect_timeout": -1.0}, "above 0"),
        ({"retries": -1}, "from 0"),
        ({"concurrency": 0}, "from 1"),
        ({"requests_per_minute": -1.0}, "from 0"),
        ({"documents_per_request": 0, "list_atomic": False}, "from 1"),
        ({"truncate": True}, "dialect 'cohere' has no truncate"),
        ({"extra_body": ["a"]}, "must be a mapping"),
        ({"extra_body": {"a": float("nan")}}, "JSON"),
        ({"extra_body": {"a": {1}}}, "JSON"),
    ],
)
def test_senseless_settings_are_refused_at_the_door(values: dict[str, Any], words: str) -> None:
    """When the YAML is read."""
    with pytest.raises(ConfigError, match=words):
        HttpParams(**values)


def test_params_are_plain_values() -> None:
    """They travel to workers and into YAML."""
    assert HttpParams(**asdict(BASE.params)) == BASE.params

"""Conformance cases 50, 51 and 52 on a Ray cluster of two nodes. Oracle: their expected.json, as
literals (the case is in the test's name)."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from metrics import evaluate
from tests.cluster.fields import Field, listed_task, wait_for
from tests.cluster.nodes import nodes
from tests.metrics.tables import judgments_of, run_of

CASE_51 = {"a": (3, 0.1), "b": (2, 0.9), "c": (1, 0.5)}  # document -> (seconds of sleep, score)


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with nodes({}) as cluster:
        yield cluster


def test_50_a_poison_pair_costs_one_score(two_nodes: Any, make_field: Callable[..., Field]) -> None:
    """(q1, b) fits alone only; (q2, a) ends its process: it is given up after five deaths, the
    other four have scores, the command ends with 1, and with 0 where one failure is allowed."""
    texts = {
        "q1": {"a": "ok", "b": "__OOM__", "c": "ok"},
        "q2": {"a": "__CRASH__", "b": "ok"},
    }
    field = listed_task(make_field("poison"), "case50", texts)
    code, said = field.finish("ray", address=two_nodes.address, workers=2)
    assert code == 1, said
    rows = {(row["query_id"], row["doc_id"]): row for row in field.rows()}
    scored = [key for key, row in rows.items() if row["score"] is not None]
    failed = [key for key, row in rows.items() if row["failure"]]
    assert sorted(scored) == [("q1", "a"), ("q1", "b"), ("q1", "c"), ("q2", "b")]
    assert failed == [("q2", "a")]
    assert field.forwarded()["q1 b"] > 1
    assert field.forwarded()["q2 a"] == 5
    code, _ = field.finish("ray", address=two_nodes.address, max_failed_pairs=1)
    assert code == 0


def test_51_scores_are_joined_by_id_and_files_are_sorted(
    two_nodes: Any, make_field: Callable[..., Field]
) -> None:
    """The slowest pair comes first, and so does the slowest shard: b, c, a, RR 1; two runs, with
    one and with two workers, give the same bytes."""
    queries = {
        f"q{number}": {
            doc: f"__SLEEP={seconds / number / 10}__ __SCORE={score}__ {'x ' * (seconds + 1)}"
            for doc, (seconds, score) in CASE_51.items()
        }
        for number in range(1, 5)
    }
    fields = [
        listed_task(make_field(name), "case51", queries, shard_pairs=3) for name in ("one", "two")
    ]
    for workers, field in enumerate(fields, 1):
        code, said = field.finish("ray", address=two_nodes.address, workers=workers, token_budget=1)
        assert code == 0, said
    rows = fields[1].rows()
    assert [(row["query_id"], row["doc_id"]) for row in rows] == [
        (f"q{number}", doc) for number in range(1, 5) for doc in "abc"
    ]
    first = {row["doc_id"]: row["score"] for row in rows if row["query_id"] == "q1"}
    assert sorted(first, key=first.__getitem__, reverse=True) == ["b", "c", "a"]
    found = evaluate(run_of({"q1": first}), judgments_of({"q1": {"b": 1}}), ["RR"])
    assert found.mean("RR") == 1.0
    assert fields[0].score_bytes() == fields[1].score_bytes()


def test_52_a_killed_job_scores_the_rest_and_another_recipe_scores_all(
    two_nodes: Any, make_field: Callable[..., Field]
) -> None:
    """One query is done, the other's receipt is torn: two workers, where there was one, score its
    two pairs and nothing else; with another max_length no row is reused."""
    texts = {"q1": {"a": "ok", "b": "ok"}, "q2": {"a": "ok", "b": "ok"}}
    field = listed_task(make_field("killed"), "case52", texts, shard_pairs=2)
    first = field.start("ray", address=two_nodes.address, workers=1, delay=0.5)
    wait_for(lambda: len(field.receipts()) == 1, first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(3)  # an orphaned actor may still commit: let it
    (receipts,) = field.store.glob("runs/*/*/*/receipts")
    done = min(field.receipts())
    torn = 1 - int(done)
    (receipts / f"{torn:05}.json").write_text(f'{{"shard": {torn}, "candida')
    before = field.forwarded()
    code, said = field.finish("ray", address=two_nodes.address, workers=2)
    assert code == 0, said
    assert field.forwarded() - before == Counter([f"q{torn + 1} a", f"q{torn + 1} b"])
    rows = [(row["query_id"], row["doc_id"]) for row in field.rows()]
    assert rows == [("q1", "a"), ("q1", "b"), ("q2", "a"), ("q2", "b")]
    before = field.forwarded()
    code, said = field.finish("ray", address=two_nodes.address, workers=2, max_length=256)
    assert code == 0, said
    assert field.forwarded() - before == Counter(["q1 a", "q1 b", "q2 a", "q2 b"])

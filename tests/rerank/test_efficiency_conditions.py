"""What else ran, and what a served model's time is made of. Oracles: readings by hand, and a server
on this machine that answers after a stated time."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerank.efficiency.latency import run_load, summary
from rerank.efficiency.load import Load
from rerank.efficiency.other_load import CpuTimes, OtherLoad, other_share
from rerank.efficiency.served import Served
from rerank.models.http_params import HttpParams
from rerank.records import ModelSpec, QueryGroup
from tests.standins.rerank_server import Reply, answer, rerank_server

GROUP = QueryGroup("q", "a query", ("d1", "d2"), ("doc 0.25", "doc 0.75"), (1, 2))


def test_other_processes_are_what_is_busy_and_not_ours(tmp_path: Path) -> None:
    """1,000 ticks of two processors: 600 busy, 250 of them ours, so 35 % went to others."""
    before, after = CpuTimes(5_000, 2_000, 100), CpuTimes(6_000, 2_600, 350)
    assert other_share(before, after) == pytest.approx(0.35)
    assert other_share(before, CpuTimes(6_000, 2_100, 350)) == 0.0  # children end: never below 0
    assert other_share(None, after) is None
    (tmp_path / "self").mkdir()
    (tmp_path / "stat").write_text("cpu  10 1 5 80 4 2 3 1 7 0\ncpu0 ...\n")
    (tmp_path / "self/stat").write_text("17 (a ) b) R " + " ".join(map(str, range(1, 40))))
    found = CpuTimes.now(tmp_path)
    assert found == CpuTimes(total=106, busy=22, own=11 + 12 + 13 + 14)
    assert CpuTimes.now(tmp_path / "nowhere") is None


def test_a_shared_machine_says_why() -> None:
    assert OtherLoad(0.04, 3.0, None).reasons == []
    assert OtherLoad(0.4, 3.0, None).reasons == ["other processes took 40% of the processors' time"]
    gpu = {"utilisation": 90, "others": 2, "others_memory": 0}
    assert OtherLoad(None, None, gpu).reasons == ["2 other process(es) used the GPU"]
    hidden = {"utilisation": 90, "others": None, "others_memory": 3 * 2**30}
    assert OtherLoad(None, None, hidden).reasons == ["others held 3.0 GiB of the GPU's memory"]
    quiet = {"utilisation": 0, "others": 0, "others_memory": 1}
    assert OtherLoad(0.0, 0.0, quiet).record()["shared"] == []


def served(url: str, **settings: object) -> ModelSpec:
    params = HttpParams(url=url, dialect="tei", model="m", **settings)  # type: ignore[arg-type]
    return ModelSpec("m", "http", params=params)


def test_a_served_models_time_is_network_and_nothing_of_it_compute() -> None:
    """Answers after 50 ms: the network takes that long, and the parts hold the whole."""
    with rerank_server() as server:
        server.always = lambda asked: Reply(body=answer(asked), delay=0.05)
        load = Load(concurrency=2, warm_up=2, requests=10)
        timings, batches = run_load(lambda: Served(served(server.url), 2), [GROUP], load)
    assert batches == []
    found = summary(load, timings)
    assert (found["n"], found["retries"], found["timeouts"]) == (10, 0, 0)
    for timing in timings:
        assert timing.parts["network"] >= 0.05
        assert timing.parts["compute"] == timing.parts["tokenization"] == 0.0
        assert abs(timing.unaccounted) < 0.02 * timing.seconds


def test_a_rate_limit_is_a_queue() -> None:
    """600 requests a minute: one every 0.1 s, however quick the server is."""
    with rerank_server() as server:
        load = Load(concurrency=4, warm_up=0, requests=6)
        spec = served(server.url, requests_per_minute=600.0, concurrency=4)
        timings, _ = run_load(lambda: Served(spec, 4), [GROUP], load)
    found = summary(load, timings)
    assert found["requests_per_second"] <= 6 / 0.49
    assert found["parts"]["queue"]["share"] > 0.5


def test_retries_and_timeouts_of_the_client_are_counted() -> None:
    """The first answer comes too late for a patience of 0.2 s, the second one is a 503; the time
    that both cost, pauses included, is `retried`."""
    with rerank_server() as server:
        server.script = [Reply(delay=0.6), Reply(status=503)]
        load = Load(concurrency=1, warm_up=0, requests=1)
        spec = served(server.url, timeout=0.2, retries=3)
        (timing,), _ = run_load(lambda: Served(spec, 1), [GROUP], load)
    assert (timing.retries, timing.timeouts, timing.error) == (2, 1, "")
    assert timing.parts["retried"] > 0.2 + 0.5 + 1.0  # a late answer, and two pauses at least
    assert abs(timing.unaccounted) < 0.02 * timing.seconds

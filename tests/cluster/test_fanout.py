"""Scheduling on a Ray cluster of real processes: waiting, nodes that come and go, SIGTERM, models
that cannot be loaded, metrics.

Oracle: an undisturbed run of the same shards for what is scored, the receipts for what is counted.
Custom resources (`slot`) stand in for GPUs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rerank.records import ModelSpec
from tests.cluster.fields import LIMIT, Field, poisoned_task, wait_for
from tests.cluster.nodes import nodes
from tests.conftest import ROOT

SLOT = {"slot": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with nodes(head={"num_cpus": 2}) as started:
        yield started


def test_models_that_cannot_load_leave_the_others_alone(
    cluster: Any, make_field: Callable[..., Field]
) -> None:
    """One raises, one ends its process each time; the third is scored. Both are named, exit 2."""
    field = make_field("many")
    code, said = field.finish(
        "ray", address=cluster.address, models=["raises", "faulty", "dies"], workers=1
    )
    assert code == 2, said
    error = said[said.rindex("model 'raises' cannot be loaded") :]
    assert "a tensor is missing" in error
    assert re.search(r"; model 'dies': 3 processes on \S+ died while they loaded it", error)
    assert len(field.receipts("faulty")) == 12
    states = {value["model"]: value["state"] for value in field.progress()}
    assert states == {"faulty": "complete", "raises": "refused", "dies": "refused"}
    (done,) = field.progress("faulty")
    assert (done["shards_done"], done["pairs_done"]) == (12, 240)


def test_it_waits_for_room_and_survives_the_loss_of_nodes(
    cluster: Any, make_field: Callable[..., Field]
) -> None:
    """Queued until a node joins; the node is lost midway and another joins; no death is charged to
    any shard, bytes as undisturbed."""
    calm, field = make_field("calm"), make_field("spot")
    assert calm.finish("inline")[0] == 0
    process = field.start("ray", address=cluster.address, resources=SLOT, workers=2, delay=0.02)
    wait_for(lambda: [value["state"] for value in field.progress()] == ["queued"], process)
    (value,) = field.progress()
    assert value["message"] == (
        "queued: waiting for 1 slot (0 of 0 free); no node of this cluster has as much, so it "
        "waits for one to join"
    )
    spot = cluster.add_node(num_cpus=1, resources=SLOT, object_store_memory=80 * 2**20)
    wait_for(lambda: len(field.receipts()) >= 3, process)
    cluster.remove_node(spot, allow_graceful=False)
    lost = len(field.receipts())
    other = cluster.add_node(num_cpus=1, resources=SLOT, object_store_memory=80 * 2**20)
    out, err = process.communicate(timeout=LIMIT)
    cluster.remove_node(other)
    assert process.returncode == 0, out + err
    assert lost < len(calm.receipts())
    assert out.count("queued: waiting for 1 slot") == 1
    assert field.score_bytes() == calm.score_bytes()
    receipts = field.receipts().values()
    assert len({receipt["node"] for receipt in receipts}) == 2
    assert [receipt["deaths"] for receipt in receipts] == [0] * len(receipts)


def test_sigterm_to_a_worker_is_no_death(cluster: Any, make_field: Callable[..., Field]) -> None:
    """The shard is given up and taken up by another process; nothing is charged or left over."""
    calm, field = make_field("calm"), make_field("told")
    assert calm.finish("inline")[0] == 0
    process = field.start("ray", address=cluster.address, workers=1, delay=0.05)
    wait_for(lambda: len(field.receipts()) >= 2 and bool(owners(field)), process)
    pid = owners(field)[0]["pid"]
    os.kill(pid, signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, out + err
    assert field.score_bytes() == calm.score_bytes()
    assert Counter(receipt["deaths"] for receipt in field.receipts().values()) == {0: 12}
    assert field.attempts() == []


def test_sigterm_to_the_driver_ends_it_with_the_command_that_finishes(
    cluster: Any, make_field: Callable[..., Field]
) -> None:
    """Exit 1, one sentence, the progress file says so, and the rest is done later."""
    field = make_field("stopped")
    process = field.start("ray", address=cluster.address, workers=1, delay=0.05)
    wait_for(lambda: len(field.receipts()) >= 2, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, out + err
    assert out.rstrip().endswith(
        "stopped; every committed shard is kept, finish the rest with: the same command"
    )
    assert "Traceback" not in out + err
    (value,) = field.progress()
    assert (value["state"], value["message"]) == ("incomplete", "stopped")
    assert 1 <= value["shards_done"] < 12
    code, said = field.finish("ray", address=cluster.address, workers=2)
    assert code == 0, said
    assert {receipt["deaths"] for receipt in field.receipts().values()} == {0}


def test_metrics_and_log_lines_agree_with_the_receipts(
    cluster: Any, make_field: Callable[..., Field]
) -> None:
    """What the nodes' metrics ports say, summed, is what the receipts hold; a JSON line a shard."""
    field = poisoned_task(make_field, "measured", {"q1 b": "__OOM__", "q2 a": "__BIG__"})
    field.environment = {"RERANK_LOG": "json"}
    code, said = field.finish("ray", address=cluster.address, workers=1, token_budget=512)
    assert code == 1, said
    (receipt,) = field.receipts().values()
    deadline = time.monotonic() + LIMIT
    while "rerank_shards" not in (found := scraped(cluster, "measured")):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    report = receipt["report"]
    assert found["rerank_pairs"] == 4
    assert found["rerank_failed_pairs"] == 1
    assert found["rerank_shards"] == {"committed": 1}
    assert found["rerank_tokens"] == report["tokens"] > 0
    assert found["rerank_oom_halvings"] == report["oom_halvings"] > 0
    assert found["rerank_token_budget"] == 512
    stages = found["rerank_stage_seconds"]
    assert stages.keys() == {"read", "encode", "forward", "write"}
    assert stages["forward"] == pytest.approx(report["seconds_forward"])
    assert stages["read"] == pytest.approx(receipt["seconds_read"])
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["event"] == "shard"]
    assert (line["task"], line["model"], line["shard"]) == ("measured", "faulty", 0)
    assert (line["status"], line["pairs"], line["failed_pairs"]) == ("committed", 5, 1)
    assert line["node"] == receipt["node"] != ""


def test_weights_come_once_to_every_node(cluster: Any, tmp_path: Path) -> None:
    """Each node that can hold a worker fetches outside of it, one that joins later when its worker
    starts; the worker itself never asks the hub, and finds the files of the pinned revision."""
    import ray

    from cluster.waiting import Demand
    from cluster.weights import OFFLINE, fetch_everywhere, hold_weights

    commit = "0123456789" * 4
    snapshot = tmp_path / "hub/models--o--m/snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"")
    model = ModelSpec("m", "pair_encoder", weights="o/m", weights_from="hub", revision=commit)
    log = tmp_path / "log"

    def fake(model: ModelSpec) -> None:
        here = ray.get_runtime_context().get_node_id()
        with log.open("a") as stream:
            stream.write(f"{here} {model.revision} {os.environ.get(OFFLINE, 'online')}\n")

    def in_a_worker() -> tuple[str, str, str, bool]:
        here = ray.get_runtime_context().get_node_id()
        hold_weights(model, here, fake)
        from huggingface_hub import constants

        from rerank.models.weights import resolve_folder

        found = resolve_folder(model)
        return here, found.folder, found.revision, constants.HF_HUB_OFFLINE

    variables = {"HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    other = cluster.add_node(num_cpus=1, resources={"room": 1}, object_store_memory=80 * 2**20)
    ray.init(address=cluster.address, runtime_env={"env_vars": variables}, log_to_driver=False)
    try:
        assert fetch_everywhere(model, Demand({"CPU": 1}, {}), fake) == 2
        lines = log.read_text().split()
        assert len(set(lines[::3])) == 2
        assert (lines[1::3], lines[2::3]) == ([commit] * 2, ["online"] * 2)
        assert fetch_everywhere(model, Demand({"room": 1}, {}), fake) == 1
        assert fetch_everywhere(ModelSpec("w", "overlap"), Demand({"CPU": 1}, {}), fake) == 0
        late = cluster.add_node(num_cpus=1, resources={"late": 1}, object_store_memory=80 * 2**20)
        before = log.read_text()
        task = ray.remote(resources={"late": 1})(in_a_worker)
        here, folder, revision, offline = ray.get(task.remote())
        assert (folder, revision, offline) == (str(snapshot), commit, True)
        assert log.read_text() == before + f"{here} {commit} online\n"
        assert here not in before
    finally:
        ray.shutdown()
    cluster.remove_node(late)
    cluster.remove_node(other)


def owners(field: Field) -> list[dict]:
    """Who works at a shard just now."""
    found = []
    for file in field.store.glob("runs/*/*/*/attempts/*/*.attempt.json"):
        try:
            found.append(json.loads(file.read_text()))
        except FileNotFoundError:  # it has just ended
            continue
    return found


def scraped(cluster: Any, task: str) -> dict[str, Any]:
    """Sums over the nodes' metrics ports: name -> value, or own tag -> value."""
    found: dict[str, Any] = {}
    for node in cluster.list_all_nodes():
        url = f"http://{node.node_ip_address}:{node.metrics_export_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        for name, tags, value in re.findall(r"^ray_(rerank_\w+)\{(.*)\} (\S+)$", text, re.M):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', tags))
            if labels.get("task") != task:
                continue
            assert labels["model"] == "faulty"
            assert name.endswith("_total") == (name != "rerank_token_budget")
            key = name.removesuffix("_total")
            own = labels.get("stage") or labels.get("status")
            if own:
                sums = found.setdefault(key, {})
                sums[own] = sums.get(own, 0.0) + float(value)
            else:
                found[key] = found.get(key, 0.0) + float(value)
    return found

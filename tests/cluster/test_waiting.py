"""What a worker asks for and what the user is told while there is no room. Oracle: by hand, over
rows as `ray.nodes()` gives them."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.waiting import GIB, Demand, queued_message
from rerank.records import ModelSpec


def node(alive: bool = True, labels: dict[str, str] | None = None, **resources: float) -> Any:
    return {"Alive": alive, "Resources": resources, "Labels": labels or {}}


L4 = ModelSpec("m", "pair_encoder", num_gpus=0.5, num_cpus=4, memory_gib=20, accelerator="L4")


def test_a_demand_is_what_the_model_states() -> None:
    """Memory in bytes; on CPUs neither a GPU nor its kind; custom resources in both."""
    assert Demand.of(L4, "cuda") == Demand(
        {"CPU": 4, "GPU": 0.5, "memory": 20 * GIB}, {"ray.io/accelerator-type": "L4"}
    )
    assert Demand.of(L4, "cpu") == Demand({"CPU": 4, "memory": 20 * GIB}, {})
    slots = ModelSpec("m", "overlap", resources={"slot": 2})
    assert Demand.of(slots, "cpu").actor_options == {
        "num_cpus": 1.0,
        "num_gpus": 0.0,
        "resources": {"slot": 2},
    }
    assert Demand.of(L4, "cuda").actor_options == {
        "num_cpus": 4,
        "num_gpus": 0.5,
        "memory": 20 * GIB,
        "label_selector": {"ray.io/accelerator-type": "L4"},
    }


@pytest.mark.parametrize(
    ("row", "count"),
    [
        (node(CPU=16, GPU=2, memory=200 * GIB, labels={"ray.io/accelerator-type": "L4"}), 4),
        (node(CPU=9, GPU=2, memory=200 * GIB, labels={"ray.io/accelerator-type": "L4"}), 2),
        (node(CPU=16, GPU=2, memory=30 * GIB, labels={"ray.io/accelerator-type": "L4"}), 1),
        (node(CPU=16, GPU=2, memory=200 * GIB, labels={"ray.io/accelerator-type": "T4"}), 0),
        (node(CPU=16, memory=200 * GIB, labels={"ray.io/accelerator-type": "L4"}), 0),
        (node(False, {"ray.io/accelerator-type": "L4"}, CPU=16, GPU=2, memory=200 * GIB), 0),
    ],
)
def test_how_many_workers_a_node_holds(row: Any, count: int) -> None:
    """The scarcest resource decides; the label and being alive too."""
    assert Demand.of(L4, "cuda").fits(row) == count


def test_the_message_names_what_is_short() -> None:
    """CPUs are there, GPUs are not; dead nodes have none."""
    gpu = Demand({"CPU": 1, "GPU": 1}, {})
    rows = [node(CPU=8, GPU=2), node(CPU=8, GPU=2), node(False, CPU=8, GPU=9)]
    assert queued_message(gpu, {"CPU": 12.0}, rows) == "queued: waiting for 1 GPU (0 of 4 free)"


def test_the_message_says_where_no_node_can_hold_it() -> None:
    """Two on no node, though four in all; and a kind of GPU that is not there."""
    assert queued_message(Demand({"GPU": 4}, {}), {"GPU": 4.0}, [node(GPU=2), node(GPU=2)]) == (
        "queued: waiting for 4 GPU (4 of 4 free); no node of this cluster has as much, so it "
        "waits for one to join"
    )
    kind = Demand({"GPU": 1, "memory": 2 * GIB}, {"ray.io/accelerator-type": "H100"})
    assert queued_message(kind, {"GPU": 1.0, "memory": 9 * GIB}, [node(GPU=1, memory=9 * GIB)]) == (
        "queued: waiting for 1 GPU (1 of 1 free) and 2 GiB of memory (9 of 9 free) on a node with "
        "ray.io/accelerator-type=H100; no node of this cluster has as much, so it waits for one "
        "to join"
    )

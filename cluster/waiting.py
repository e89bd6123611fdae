"""Room for a worker: what one asks for, what the cluster has, and waiting until there is some.

A dataset that waits for resources is ended by Ray Data's no-progress timeout, and Ray gives all
GPUs to whoever comes first. So the driver waits before it starts its dataset. It waits with a
placement group: that is what an autoscaler takes for a demand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rerank.errors import ScoringError
from rerank.records import ModelSpec

POLL = 2.0  # seconds
ACCELERATOR = "ray.io/accelerator-type"  # Ray's own label of a node
GIB = 2**30
UNITS = {"CPU": "CPU", "GPU": "GPU", "memory": "GiB of memory"}


@dataclass(frozen=True)
class Demand:
    """What one worker asks of a node: resources as Ray names them (memory in bytes), and labels."""

    resources: Mapping[str, float]
    labels: Mapping[str, str]

    @staticmethod
    def of(model: ModelSpec, device: str) -> Demand:
        """The demand of a model's worker on `device` (cpu or cuda)."""
        on_gpu = device == "cuda"
        resources = {
            "CPU": model.num_cpus,
            "GPU": model.num_gpus if on_gpu else 0.0,
            "memory": (model.memory_gib or 0.0) * GIB,
            **model.resources,
        }
        labels = {ACCELERATOR: model.accelerator} if on_gpu and model.accelerator else {}
        return Demand({name: need for name, need in resources.items() if need > 0}, labels)

    @property
    def actor_options(self) -> dict[str, Any]:
        """The demand as Ray takes it for an actor."""
        custom = {k: v for k, v in self.resources.items() if k not in UNITS}
        options = {
            "num_cpus": self.resources.get("CPU", 0.0),
            "num_gpus": self.resources.get("GPU", 0.0),
            "memory": self.resources.get("memory"),
            "resources": custom or None,
            "label_selector": dict(self.labels) or None,
        }
        return {name: value for name, value in options.items() if value is not None}

    def fits(self, node: Mapping[str, Any]) -> int:
        """How many such workers a whole node holds (a row of `ray.nodes()`), 0 where it is dead."""
        labels = node.get("Labels") or {}
        if not node["Alive"] or any(labels.get(k) != v for k, v in self.labels.items()):
            return 0
        return min(int(node["Resources"].get(k, 0) / need) for k, need in self.resources.items())


def places(demand: Demand) -> int:
    """How many such workers the nodes of the connected cluster hold, were they empty."""
    import ray

    return sum(demand.fits(node) for node in ray.nodes())


def wait_for_place(demand: Demand, tell: Callable[[str], None], *, can_grow: bool) -> None:
    """Return when one worker can be placed; until then `tell` hears why not, every few seconds.

    A demand that no node of the cluster could ever hold is waited for as well, since a node may
    join; ScoringError where none can (`can_grow` is False: an embedded Ray).
    """
    import ray
    from ray.util import placement_group, remove_placement_group

    if not can_grow and not places(demand):
        raise ScoringError(
            f"a worker needs {_wanted(demand)}, and this machine has {_totals(demand)}; use "
            "cluster= for a Ray cluster that has it, or lower num_gpus, num_cpus or memory_gib in "
            "the model's YAML"
        )
    group = placement_group(
        [dict(demand.resources)],
        bundle_label_selector=[dict(demand.labels)] if demand.labels else None,
    )
    try:
        while not group.wait(timeout_seconds=POLL):
            tell(queued_message(demand, ray.available_resources(), ray.nodes()))
    finally:
        remove_placement_group(group)


def queued_message(demand: Demand, free: Mapping[str, float], nodes: list[dict[str, Any]]) -> str:
    """`queued: waiting for 1 GPU (0 of 4 free)`: what is short, or all of it."""
    have = [node for node in nodes if node["Alive"]]
    total = {k: sum(node["Resources"].get(k, 0) for node in have) for k in demand.resources}
    short = [k for k, need in demand.resources.items() if free.get(k, 0.0) < need]
    parts = [
        f"{_amount(k, demand.resources[k])} ({_number(k, free.get(k, 0.0))} of "
        f"{_number(k, total[k])} free)"
        for k in short or demand.resources
    ]
    kind = "".join(f" on a node with {k}={v}" for k, v in demand.labels.items())
    message = f"queued: waiting for {' and '.join(parts)}{kind}"
    if not any(map(demand.fits, have)):
        message += "; no node of this cluster has as much, so it waits for one to join"
    return message


def _wanted(demand: Demand) -> str:
    return " and ".join(_amount(name, need) for name, need in demand.resources.items())


def _totals(demand: Demand) -> str:
    import ray

    have = ray.cluster_resources()
    return " and ".join(_amount(name, have.get(name, 0.0)) for name in demand.resources)


def _amount(name: str, value: float) -> str:
    return f"{_number(name, value)} {UNITS.get(name, name)}"


def _number(name: str, value: float) -> str:
    return f"{value / GIB if name == 'memory' else value:.4g}"

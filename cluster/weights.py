"""Weights from the hub, fetched once on each node, outside the workers that will hold its GPUs.

A task that asks for no CPU fetches the pinned revision into the node's own cache; the hub's file
locks make others on that node wait for it. Workers then load with the hub offline, so that a
hundred of them ask it nothing. A node that joins later is served when its first worker starts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from cluster.waiting import Demand
from rerank.models.adapters import comes_from_hub
from rerank.models.weights import resolve_folder
from rerank.records import ModelSpec

OFFLINE = "HF_HUB_OFFLINE"
Fetch = Callable[[ModelSpec], None]


def fetch(model: ModelSpec) -> None:
    """The model's files into this machine's cache. ScoringError says what is missing."""
    resolve_folder(model)


def fetch_everywhere(model: ModelSpec, demand: Demand, fetching: Fetch = fetch) -> int:
    """Fetch on every node that can hold a worker, all at once; how many nodes succeeded.

    A node that fails is logged and left to its workers: they try once more and give the reason.
    """
    import ray

    if not comes_from_hub(model):
        return 0
    nodes = [node["NodeID"] for node in ray.nodes() if demand.fits(node)]
    pending = {node: _start(node, model, fetching) for node in nodes}
    done = 0
    for node, reference in pending.items():
        try:
            ray.get(reference)
            done += 1
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            logging.getLogger(__name__).warning(
                "node %s could not fetch %s: %s", node, model.weights, reason
            )
    return done


def hold_weights(model: ModelSpec, node: str, fetching: Fetch = fetch) -> None:
    """In a worker, before anything is loaded: its node has the files, and the hub stays offline.

    ScoringError where the files cannot be fetched.
    """
    import ray

    if not comes_from_hub(model) or OFFLINE in os.environ:
        return
    # fetched elsewhere than in this process, which reads the switch when it imports the library
    os.environ[OFFLINE] = "1"
    try:
        ray.get(_start(node, model, fetching))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


def _start(node: str, model: ModelSpec, fetching: Fetch) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    task = ray.remote(num_cpus=0, max_retries=1, scheduling_strategy=strategy)(fetching)
    return task.remote(model)

"""A Ray cluster of several nodes on this machine, for as long as a `with` block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scripts.trials.nodes import ray_cluster

SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "dashboard_agent_listen_port": 0}


@contextmanager
def nodes(*rows: dict[str, Any], head: dict[str, Any] | None = None) -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` with a small head and a small node for each of `rows`.

    Its `address` is what `cluster=` takes. Custom resources stand in for GPUs: `resources={"slot":
    1}` in a row.
    """
    with ray_cluster({**SMALL, **(head or {})}) as started:
        for row in rows:
            started.add_node(**{**SMALL, **row})
        yield started

"""A Ray cluster of several nodes on this machine, each a set of processes that can be killed.

A slot, a custom resource, stands in for a GPU. The head has none: it runs drivers and the Jobs API.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cluster.connection import LOOPBACK, QUIET
from scripts.trials.suite_files import SLOT

# the object store takes descriptors and outcomes alone; agents of several nodes need several ports
SMALL = {"object_store_memory": 100 * 2**20, "dashboard_agent_listen_port": 0}
HEAD = {
    "num_cpus": 4,
    "include_dashboard": True,
    "dashboard_host": "127.0.0.1",
    "dashboard_port": 0,
    **SMALL,
}


class Nodes:
    """The nodes of a cluster; `workers` are those with slots."""

    def __init__(self, cluster: Any, slots: int = 1) -> None:
        self.cluster = cluster
        self.slots = slots
        self.workers: list[Any] = []

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def dashboard(self) -> str:
        return f"http://{self.cluster.head_node.webui_url}"

    def add(self) -> None:
        """One more node."""
        node = self.cluster.add_node(num_cpus=2 * self.slots, resources={SLOT: self.slots}, **SMALL)
        self.workers.append(node)

    def kill(self, which: int) -> None:
        """SIGKILL for a node and everything on it."""
        self.cluster.remove_node(self.workers.pop(which), allow_graceful=False)


@contextmanager
def nodes(count: int, slots: int = 1) -> Iterator[Nodes]:
    """A head and `count` worker nodes for the length of a `with` block."""
    with ray_cluster(HEAD) as cluster:
        found = Nodes(cluster, slots)
        for _ in range(count):
            found.add()
        yield found


@contextmanager
def ray_cluster(head: Mapping[str, Any]) -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` with a head node only, in a Ray folder of its own.

    So no other cluster of this machine is found or hidden by it. Its nodes ask for no token: a
    driver that offers one would not be understood by them, and a head writes one into the home.
    """
    # short: Ray's sockets lie below it, and their paths may have 107 bytes
    with tempfile.TemporaryDirectory(prefix="rr-", ignore_cleanup_errors=True) as folder:
        own = {**QUIET, **LOOPBACK, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder}
        with environment(own):
            from ray.cluster_utils import Cluster

            cluster = Cluster(initialize_head=True, head_node_args=dict(head))
            try:
                yield cluster
            finally:
                cluster.shutdown()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables of the environment for the length of a `with` block, and then the old."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""A Ray cluster of several nodes on this machine, each a set of processes that can be killed.

A slot, a custom resource, stands in for a GPU. The head has none: it runs drivers and the Jobs API.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cluster.connection import LOOPBACK, QUIET
from scripts.trials.suite_files import SLOT

# the object store takes descriptors and outcomes alone; agents of several nodes need several ports
SMALL = {"object_store_memory": 100 * 2**20, "dashboard_agent_listen_port": 0}


class Nodes:
    """The nodes of a cluster; `workers` are those with slots."""

    def __init__(self, slots: int = 1) -> None:
        from ray.cluster_utils import Cluster

        self.slots = slots
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 4,
                "include_dashboard": True,
                "dashboard_host": "127.0.0.1",
                "dashboard_port": 0,
                **SMALL,
            },
        )
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
    # its nodes ask for no token, and a driver that offers one would not be understood by them
    os.environ.update({**QUIET, **LOOPBACK, "RAY_AUTH_MODE": "disabled"})
    # a folder of its own, so that no other cluster of this machine is found or hidden by it; short,
    # since sockets lie below it and their paths may have 107 bytes
    with tempfile.TemporaryDirectory(prefix="rr-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        cluster = Nodes(slots)
        try:
            for _ in range(count):
                cluster.add()
            yield cluster
        finally:
            cluster.cluster.shutdown()

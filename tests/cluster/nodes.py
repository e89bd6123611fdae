"""A Ray cluster of several nodes on this machine, for as long as a `with` block lasts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.connection import LOOPBACK, QUIET

SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "dashboard_agent_listen_port": 0}


@contextmanager
def nodes(*rows: dict[str, Any], head: dict[str, Any] | None = None) -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` with a small head and a small node for each of `rows`.

    Its `address` is what `cluster=` takes. Custom resources stand in for GPUs: `resources={"slot":
    1}` in a row.
    """
    # without tokens: they are another test's, and a head writes one into the home folder
    settings = {**QUIET, **LOOPBACK, "RAY_AUTH_MODE": "disabled"}
    # short: Ray's sockets lie below it, and their paths may have 107 bytes
    with (
        tempfile.TemporaryDirectory(prefix="rr-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in {**settings, "RAY_TMPDIR": folder}.items():
            environment.setenv(name, value)
        from ray.cluster_utils import Cluster

        started = Cluster(initialize_head=True, head_node_args={**SMALL, **(head or {})})
        try:
            for row in rows:
                started.add_node(**{**SMALL, **row})
            yield started
        finally:
            started.shutdown()

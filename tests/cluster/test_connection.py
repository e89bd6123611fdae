"""Connecting to Ray: embedded on loopback alone, or a cluster that is already there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.connection import connected
from rerank.errors import ConfigError
from tests.conftest import ROOT

EMBEDDED = """
import json, os
from cluster.connection import connected
with connected("", 1):
    import ray

    @ray.remote
    def nothing():
        return os.getpid()

    ray.get(nothing.remote())
    from tests.cluster.test_connection import listening
    print("PORTS", json.dumps(listening()))
"""


def listening() -> list[str]:
    """Addresses on which this process or a descendant listens, read from /proc."""
    mine = sockets_of(descendants(os.getpid()))
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in mine:
                raw = bytes.fromhex(fields[1].split(":")[0])
                words = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
                found.append(socket.inet_ntop(family, words))
    return found


def descendants(root: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return family


def sockets_of(pids: set[int]) -> set[str]:
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(descriptor)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return inodes


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_an_embedded_ray_listens_on_loopback_alone() -> None:
    """No port of any of its processes can be reached from outside."""
    answer = subprocess.run(
        [sys.executable, "-c", EMBEDDED], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    addresses = json.loads(answer.stdout.split("PORTS")[1])
    assert len(addresses) > 3
    assert set(addresses) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.fixture
def head() -> str:
    """The address of a cluster of one node, as `ray start --head` makes it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ray = str(Path(sys.executable).with_name("ray"))
    words = ["--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    started = subprocess.Popen(
        [ray, "start", *words, "--block", "--disable-usage-stats"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert started.stdout is not None
    for line in started.stdout:
        if "Ray runtime started" in line:
            break
    yield f"127.0.0.1:{port}"
    for pid in descendants(started.pid):  # a polite stop drains the node for half a minute
        os.kill(pid, signal.SIGKILL)
    started.wait(60)


def test_replay_runs_on_a_cluster_that_is_there(
    head: str, tmp_path: Path, make_task: Callable[..., Path]
) -> None:
    """`cluster=ADDRESS`: the driver joins it, scores, and leaves it running."""
    files = {
        "tasks/tiny.yaml": {"folder": str(make_task()), "depth": 10, "shard_pairs": 40},
        "models/overlap.yaml": {"adapter": "overlap"},
        "suites/s.yaml": {"tasks": ["tiny"], "models": ["overlap"], "baseline": "overlap"},
    }
    for name, values in files.items():
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    words = [str(tmp_path / "configs/suites/s.yaml"), f"store={tmp_path}/store", f"cluster={head}"]
    answer = subprocess.run(
        [sys.executable, "-m", "jobs", "run", *words, "workers=1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert "3 committed" in answer.stdout
    receipts = list((tmp_path / "store").glob("runs/tiny/overlap/*/receipts/*.json"))
    assert len(receipts) == 3


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere.invalid:6379"])
def test_a_cluster_that_does_not_answer_is_one_sentence(address: str) -> None:
    """At once: Ray itself would try for minutes."""
    with (
        pytest.raises(ConfigError, match="no Ray cluster answers at"),
        connected(address),
    ):
        pass

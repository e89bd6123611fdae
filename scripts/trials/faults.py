"""What goes wrong in the chaos trial. Every fault returns what it did, or None if it could not yet.

`FAULTS` lists them with how often each happens in the short and in the long form.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.trials.nodes import Nodes
from scripts.trials.processes import below

FULL_SECONDS = 4.0  # how long the disk stays full
WORKER, SUPERVISOR, DRIVER = "RayWorker", "ray::JobSupervisor", "-m jobs replay"


@dataclass(frozen=True)
class Field:
    """Where faults happen. disk: a small file system of its own that holds the store."""

    nodes: Nodes
    store: Path
    disk: bool
    rng: random.Random


def kill_actor(field: Field) -> str | None:
    """SIGKILL for one worker that holds a model."""
    found = [
        pid
        for node in field.nodes.workers
        for pid, command in below(_raylet(node)).items()
        if WORKER in command
    ]
    return _kill(found, field)


def kill_driver(field: Field) -> str | None:
    """SIGKILL for one `rerank replay` on the head."""
    head = below(_raylet(field.nodes.cluster.head_node))
    return _kill([pid for pid, command in head.items() if DRIVER in command], field)


def kill_supervisor(field: Field) -> str | None:
    """SIGKILL for the actor in which the Jobs API runs a driver."""
    head = below(_raylet(field.nodes.cluster.head_node))
    return _kill([pid for pid, command in head.items() if command.startswith(SUPERVISOR)], field)


def kill_node(field: Field) -> str | None:
    """SIGKILL for a whole node, where another is left."""
    if len(field.nodes.workers) < 2:
        return None
    field.nodes.kill(field.rng.randrange(len(field.nodes.workers)))
    return f"{len(field.nodes.workers)} left"


def add_node(field: Field) -> str | None:
    """A node joins."""
    field.nodes.add()
    return f"{len(field.nodes.workers)} now"


def fill_disk(field: Field) -> str | None:
    """No room, or (where no file system could be mounted) no permission, for some seconds."""
    folders = list(field.store.glob("runs/*/*/*/scores"))
    if not folders:
        return None
    if field.disk:
        ballast = field.store / "ballast"
        _fill(ballast)
        time.sleep(FULL_SECONDS)
        ballast.unlink()
        return "no space left"
    for folder in folders:
        folder.chmod(0o555)
    time.sleep(FULL_SECONDS)
    for folder in folders:
        folder.chmod(0o755)
    return "no permission"


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as stream:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    stream.write(b"\0" * size)
            except OSError:
                continue


def corrupt_scores(field: Field) -> str | None:
    """One byte of a committed score file changes."""
    receipts = sorted(field.store.glob("runs/*/*/*/receipts/*.json"))
    if not receipts:
        return None
    receipt = field.rng.choice(receipts)
    run, shard = receipt.parent.parent, receipt.stem
    file = field.rng.choice(sorted((run / "scores").glob(f"{shard}.*.parquet")))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(bytes(data))
    return f"shard {shard}"


FAULTS: dict[str, tuple[Callable[[Field], str | None], int, int]] = {
    # name: (what happens, times in the short form, in the long form)
    "actor killed": (kill_actor, 2, 8),
    "node killed": (kill_node, 1, 3),
    "node added": (add_node, 1, 3),
    "driver killed": (kill_driver, 1, 3),
    "supervisor killed": (kill_supervisor, 1, 2),
    "disk full": (fill_disk, 1, 2),
    "score file corrupted": (corrupt_scores, 1, 3),
}


def _raylet(node: object) -> int:
    return int(node.all_processes["raylet"][0].process.pid)  # type: ignore[attr-defined]


def _kill(found: list[int], field: Field) -> str | None:
    if not found:
        return None
    victim = field.rng.choice(sorted(found))
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"process {victim}"

"""A Ray head with a dashboard and a token of its own, in folders that are thrown away."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOKEN = "0123456789abcdef0123456789abcdef"
LIMIT = 90  # seconds for a head to start


@dataclass(frozen=True)
class Head:
    """`environment` shows the head's token; `folder` is its home, and marks its processes."""

    url: str
    folder: Path
    environment: dict[str, str]


@contextmanager
def ray_head(num_cpus: int = 2) -> Iterator[Head]:
    """A head on free ports of this machine, for as long as the block lasts."""
    # short: Ray's sockets lie below it, and their paths may have 107 bytes
    with tempfile.TemporaryDirectory(prefix="rr-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        token = folder / "token"
        token.write_text(TOKEN)
        ports = free_ports(3)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        client = {
            **clean,
            "HOME": name,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        words = [
            *("start", "--head", "--block", "--port=0", f"--num-cpus={num_cpus}"),
            *("--include-dashboard=true", "--dashboard-host=127.0.0.1"),
            f"--dashboard-port={ports[0]}",
            f"--dashboard-agent-listen-port={ports[1]}",
            f"--ray-client-server-port={ports[2]}",
            *("--min-worker-port=0", "--max-worker-port=0"),  # else 10002-19999 may hold the others
            *("--disable-usage-stats", "--object-store-memory=100000000"),
        ]
        log = folder / "head.log"
        with log.open("wb") as out:
            started = subprocess.Popen(
                [str(Path(sys.executable).with_name("ray")), *words],
                env={**client, "RAY_TMPDIR": name},
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=name,
            )
        try:
            deadline = time.monotonic() + LIMIT
            while "Ray runtime started" not in log.read_text():
                assert started.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, "the head did not start in time"
                time.sleep(0.2)
            yield Head(f"http://127.0.0.1:{ports[0]}", folder, client)
        finally:
            # a polite stop drains the node for half a minute, and `ray stop` ends others' clusters
            while pids := processes_of(folder):
                for pid in pids:
                    kill(pid)
                time.sleep(0.1)
            started.wait(60)


def processes_of(folder: Path) -> set[int]:
    """Processes that were started with this folder as RAY_TMPDIR, whoever their parent is now."""
    mark = f"RAY_TMPDIR={folder}".encode()
    found = set()
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in file.read_bytes().split(b"\0"):
                found.add(int(file.parent.name))
        except OSError:
            continue
    return found


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()

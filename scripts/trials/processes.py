"""The processes below a Ray node, found in /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def below(root: int) -> dict[int, str]:
    """Process id -> command line of all descendants of a process."""
    parents, commands = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while the folder was read
        if state[0] != "Z":
            parents[int(folder.name)] = int(state[1])
            commands[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return {pid: commands[pid] for pid in parents if _descends(pid, root, parents)}


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
        if pid == root:
            return True
    return False


def peak_mib(pid: int | None = None) -> float:
    """Highest resident memory so far of a process (default: this one), MiB."""
    text = Path(f"/proc/{pid or os.getpid()}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024

"""Peak memory of this process and all below it, sampled from /proc (Linux)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SAMPLED_EVERY = 0.5  # seconds


@dataclass
class Peak:
    """The largest sum seen so far, bytes. Pages that processes share are counted once (PSS)."""

    bytes: int = 0

    @property
    def gib(self) -> float:
        return self.bytes / 2**30


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """A `Peak` that grows for the length of a `with` block."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while True:
            peak.bytes = max(peak.bytes, sum(map(_proportional, _tree(os.getpid()))))
            if done.wait(SAMPLED_EVERY):
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _tree(root: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # the name in brackets may hold blanks and brackets itself
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def _proportional(process: int) -> int:
    """Proportional set size, bytes; 0 for a process that has ended."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) * 1024

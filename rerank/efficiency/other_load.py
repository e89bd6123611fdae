"""What else ran on the machine while something was measured: processors, and the GPU."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MOST_CPU = 0.05  # of all processors' time, taken by others: more is said
MOST_GPU_MEMORY = 256 * 2**20  # bytes held by others, beyond what a context itself takes
LOOK = 1.0  # seconds, before anything is measured


@dataclass(frozen=True)
class CpuTimes:
    """Clock ticks since boot: of all processors, those that were busy, and this process's own."""

    total: int
    busy: int
    own: int

    @staticmethod
    def now(proc: Path = Path("/proc")) -> CpuTimes | None:
        """None where the system does not tell (no /proc)."""
        try:
            first = (proc / "stat").read_text().splitlines()[0].split()
            own = (proc / "self/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return None
        ticks = [int(word) for word in first[1:9]]  # guest time is part of user time
        idle = ticks[3] + ticks[4]
        return CpuTimes(sum(ticks), sum(ticks) - idle, sum(map(int, own[11:15])))


@dataclass(frozen=True)
class OtherLoad:
    """cpu_share: of all processors' time that others took, None where unknown; loadavg: of the last
    minute; gpu: what nvidia-smi says of the GPU and its processes, None without one.
    """

    cpu_share: float | None
    loadavg: float | None
    gpu: dict[str, Any] | None

    @property
    def reasons(self) -> list[str]:
        """Why the machine counts as shared; empty where it does not."""
        found = []
        if self.cpu_share is not None and self.cpu_share > MOST_CPU:
            found.append(f"other processes took {self.cpu_share:.0%} of the processors' time")
        if self.gpu is not None and self.gpu["others"]:
            found.append(f"{self.gpu['others']} other process(es) used the GPU")
        elif self.gpu is not None and (self.gpu["others_memory"] or 0) > MOST_GPU_MEMORY:
            held = self.gpu["others_memory"] / 2**30
            found.append(f"others held {held:.1f} GiB of the GPU's memory")
        return found

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"shared": self.reasons}


def other_share(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Share of all processors' time between two readings that went to other processes."""
    if before is None or after is None or after.total <= before.total:
        return None
    others = (after.busy - before.busy) - (after.own - before.own)
    return max(0.0, others / (after.total - before.total))


class LoadWatch:
    """Watches from its making to `stop`. device: cpu | cuda."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.before = CpuTimes.now()

    def stop(self) -> OtherLoad:
        """What went on meanwhile; the GPU as it is now."""
        share = other_share(self.before, CpuTimes.now())
        loadavg = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        return OtherLoad(share, loadavg, gpu_load() if self.device == "cuda" else None)


def look(device: str) -> OtherLoad:
    """The other load of one second, before a measurement."""
    watch = LoadWatch(device)
    time.sleep(LOOK)
    return watch.stop()


def gpu_load() -> dict[str, Any]:
    """The current CUDA device: utilisation in percent, processes and memory of others.

    others is None where nvidia-smi is missing or sees no processes, as in some containers; the
    memory that is held and is not this process's own is known in any case.
    """
    import torch

    free, total = torch.cuda.mem_get_info()
    own = torch.cuda.memory_reserved()
    index = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    index = index if index.startswith("GPU-") else f"GPU-{index}"
    used = _smi("--query-gpu=utilization.gpu", index)
    apps = _smi("--query-compute-apps=pid", index)
    others = None
    if apps is not None:
        others = len({pid for pid in apps if pid.isdecimal()} - {str(os.getpid())})
    return {
        "utilisation": int(used[0]) if used and used[0].isdecimal() else None,
        "others": others,
        # a context and its kernels take some hundred MiB that torch does not count
        "others_memory": max(0, total - free - own - 512 * 2**20),
    }


def _smi(query: str, index: str) -> list[str] | None:
    """Lines that nvidia-smi answers of one GPU, None where there is no answer."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", f"--id={index}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]

"""Clocks that time forward calls: CUDA events on a GPU, a monotonic clock on a CPU."""

from __future__ import annotations

import os
import time
from typing import Any, Protocol

from rerank.probing import CudaMemory, Memory


class ForwardClock(Protocol):
    """Times spans. A device may still be at work when `stop` returns; `seconds` waits for it."""

    def start(self) -> None:
        """A span begins."""
        ...

    def stop(self) -> None:
        """The span ends."""
        ...

    def seconds(self) -> float:
        """Sum of all spans since the last call, and forget them."""
        ...

    def forget(self) -> None:
        """Forget all spans, one that began and never ended among them."""
        ...


class MonotonicClock:
    """`time.perf_counter`, for devices that have finished when a call returns."""

    name = "monotonic clock"

    def __init__(self) -> None:
        self.started = self.total = 0.0

    def start(self) -> None:
        self.started = time.perf_counter()

    def stop(self) -> None:
        self.total += time.perf_counter() - self.started

    def seconds(self) -> float:
        total, self.total = self.total, 0.0
        return total

    def forget(self) -> None:
        self.total = 0.0


class CudaEventClock:
    """A pair of CUDA events around each span, on the current stream."""

    name = "CUDA events"

    def __init__(self) -> None:
        import torch

        self.cuda: Any = torch.cuda
        self.spans: list[tuple[Any, Any]] = []

    def start(self) -> None:
        event = self.cuda.Event(enable_timing=True)
        event.record()
        self.spans.append((event, self.cuda.Event(enable_timing=True)))

    def stop(self) -> None:
        self.spans[-1][1].record()

    def seconds(self) -> float:
        self.cuda.synchronize()
        spans, self.spans = self.spans, []
        return sum(float(start.elapsed_time(end)) for start, end in spans) / 1000

    def forget(self) -> None:
        self.spans = []


class ProcessMemory:
    """Main memory of this process (Linux): the peak is read from /proc, and reset there."""

    def reset_peak(self) -> None:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def peak(self) -> int:
        return _status("VmHWM")

    def limit(self) -> int:
        with open("/proc/meminfo") as file:
            facts = dict(line.split(":", 1) for line in file)
        return _kib(facts["MemAvailable"]) + _status("VmRSS")


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        facts = dict(line.split(":", 1) for line in file)
    return _kib(facts[name])


def _kib(text: str) -> int:
    return int(text.split()[0]) * 1024


def clock_of(device: str) -> MonotonicClock | CudaEventClock:
    """The clock of a device: cpu | cuda."""
    return CudaEventClock() if device == "cuda" else MonotonicClock()


def memory_of(device: str) -> Memory | None:
    """The memory that is watched on a device; None where this system does not tell."""
    if device == "cuda":
        return CudaMemory()
    return ProcessMemory() if os.access("/proc/self/clear_refs", os.W_OK) else None

"""What the user sees while work goes on: lines, a progress bar, pairs per second, time left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY = 10.0  # seconds between two progress lines where there is no terminal


def say(message: str) -> None:
    """One line on standard output, at once.

    Where the reader has gone (`| head`) the rest is not shown; the work and its exit code stay.
    """
    try:
        print(message, flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (until the end)


@dataclass
class PairProgress:
    """Counts scored pairs; draws a bar on a terminal, prints a line now and then elsewhere."""

    label: str
    total: int
    bar: Progress | None = None
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    spoken: float = field(default_factory=time.monotonic)

    def advance(self, pairs: int) -> None:
        self.done += pairs
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.done, rate=self.rate())
        elif time.monotonic() - self.spoken > LINE_EVERY:
            self.spoken = time.monotonic()
            say(f"{self.label}: {self.done:,} of {self.total:,} pairs, {self.rate()}{self.left()}")

    def rate(self) -> str:
        seconds = time.monotonic() - self.started
        return f"{self.done / seconds:,.0f} pairs/s" if self.done and seconds else "starting"

    def left(self) -> str:
        if not self.done:
            return ""
        seconds = (time.monotonic() - self.started) * (self.total - self.done) / self.done
        return f", {seconds:,.0f} s left"


@contextmanager
def pair_progress(label: str, total: int) -> Iterator[PairProgress]:
    """A `PairProgress` for the length of a `with` block."""
    if not sys.stderr.isatty():
        yield PairProgress(label, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} pairs"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        bar.add_task(label, total=total, rate="starting")
        yield PairProgress(label, total, bar)

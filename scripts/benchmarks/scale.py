"""How far `rerank replay` scales: in workers, in pairs and in shards.

Throughput (the default) is a weak scaling: as many shards for each worker, whatever their number,
on simulated nodes whose slots stand in for GPUs, against a served model that sleeps instead of
computing. Times are those of the receipts. The steady window of a replay begins when all its
workers have done their first shard and are in another at once, and ends when they last are in one
at once; a shard counts there by the share of its time that lies in it. What a worker does between
two shards (commit, ledger, the way through Ray) is in the window, and slows it; start-up and the
last shards are not. The whole run is from the command's start to the last finished shard.
`linear_at_16` is (steady pairs/s of 16 workers / 16) / (steady pairs/s of 1).

`--memory`: peak resident memory of the driver, in replays of 10^4 pairs and up, shards of one size.
`--listing`: seconds until a replay commits the one shard that is missing among very many.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.config import load_suite
from jobs.freeze import freeze_tasks
from rerank.store import Store
from scripts.benchmarks.large_tasks import commit_all_but_last, write_large_suite
from scripts.trials.nodes import nodes
from scripts.trials.processes import peak_mib
from scripts.trials.served import serving
from scripts.trials.suite_files import Size, write_suite

MODEL = "served"
NODES = 2
SMALLEST = 10**4  # pairs
SHARD_PAIRS, CANDIDATES = 10_000, 100
TOKEN_BUDGET = 100  # batches a shard of these texts: about 100, as many as a GPU would make


@dataclass(frozen=True)
class Extent:
    """Numbers of workers, shards for each of them, and seconds of each of a shard's requests."""

    workers: tuple[int, ...]
    shards: int
    latency: float


LONG, SHORT = Extent((1, 2, 4, 8, 16), 16, 0.45), Extent((1, 2, 4), 4, 0.1)


@dataclass(frozen=True)
class Worked:
    """One shard in work: Unix seconds."""

    started: float
    finished: float
    pairs: int


@dataclass(frozen=True)
class Rates:
    """One replay. Rates in pairs per second, spans in seconds; shard: mean seconds of one."""

    steady: float
    steady_span: float
    whole: float
    whole_span: float
    shard: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=1, help="of all numbers of workers")
    parser.add_argument("--short", action="store_true", help="1, 2 and 4 workers, a minute")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--memory", type=int, nargs="?", const=10**7, metavar="PAIRS",
        help="instead: peak memory of the driver, from 10^4 pairs to so many (10^7)",
    )  # fmt: skip
    instead.add_argument(
        "--listing", type=int, nargs="?", const=100_000, metavar="SHARDS",
        help="instead: start of a replay that lacks one of so many shards (100,000)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.memory:
            return driver_memory(folder, arguments.memory)
        if arguments.listing:
            return start_of_replay(folder, arguments.listing, arguments.rounds)
        return throughput(folder, SHORT if arguments.short else LONG, arguments.rounds)


# throughput ----------------------------------------------------------------------------------


def throughput(folder: Path, extent: Extent, rounds: int) -> dict[str, Any]:
    """Rates by number of workers, all on one cluster; the figures of the last line."""
    most = extent.workers[-1]
    found: dict[int, list[Rates]] = {workers: [] for workers in extent.workers}
    with ExitStack() as stack:
        served = stack.enter_context(serving(extent.latency))
        cluster = stack.enter_context(nodes(NODES, slots=-(-most // NODES)))
        heads = ("workers", "steady pairs/s", "of linear", "window s", "whole pairs/s",
                 "of linear", "whole s", "shard s")  # fmt: skip
        print(*(f"{head:>14}" for head in heads), flush=True)
        for number in range(rounds):
            for workers in extent.workers:
                size = Size(shards=workers * extent.shards)
                suite = write_suite(folder / f"{number}-{workers}", size, {MODEL: served.url})
                found[workers].append(measure(suite, cluster.address, workers))
                print_rates(workers, found[workers][-1], found[extent.workers[0]][-1])
    median = {
        workers: {
            kind: statistics.median(getattr(rates, kind) for rates in many)
            for kind in ("steady", "whole")
        }
        for workers, many in found.items()
    }
    return {
        f"linear_at_{most}": round(linear(median, "steady"), 4),
        f"whole_linear_at_{most}": round(linear(median, "whole"), 4),
        **{
            f"{kind}_pairs_per_second": {n: round(of[kind], 2) for n, of in median.items()}
            for kind in ("steady", "whole")
        },
        "shards_a_worker": extent.shards,
    }


def measure(suite: Path, address: str, workers: int) -> Rates:
    """Freeze and replay a suite with so many workers on the cluster."""
    store = suite.parents[2] / "store"
    freeze_tasks(load_suite(suite), Store(store), progress=lambda message: None)
    began = time.time()
    words = [f"cluster={address}", "engine=ray", f"workers={workers}"]
    subprocess.run([*command("replay"), str(suite), *words], stdout=subprocess.DEVNULL, check=True)
    return rates_of(shards_in_work(store), workers, began)


def command(verb: str) -> list[str]:
    return [sys.executable, "-m", "jobs", verb]


def shards_in_work(store: Path) -> list[Worked]:
    """What the receipts of a store tell."""
    receipts = [json.loads(file.read_text()) for file in store.glob("runs/*/*/*/receipts/*.json")]
    return [Worked(r["started"], r["finished"], r["rows"]) for r in receipts]


def rates_of(shards: Sequence[Worked], workers: int, began: float) -> Rates:
    """began: Unix seconds of the command's start."""
    begin, end = steady_window(shards, workers)
    whole = max(shard.finished for shard in shards) - began
    return Rates(
        steady=pairs_within(shards, begin, end) / (end - begin),
        steady_span=end - begin,
        whole=sum(shard.pairs for shard in shards) / whole,
        whole_span=whole,
        shard=statistics.mean(shard.finished - shard.started for shard in shards),
    )


def steady_window(shards: Sequence[Worked], workers: int) -> tuple[float, float]:
    """First and last moment, Unix seconds, at which so many shards are in work at once; the first
    one of those after the first shards of all workers, which load what later ones find loaded.

    A worker has one shard in work, so all workers are up then. ValueError where they never are.
    """
    begins, ends = at_once(shards, workers)
    warm = max((s.finished for s in shards if begins and s.started <= begins[0]), default=0.0)
    after = [moment for moment in begins if moment >= warm]
    if not after:
        raise ValueError(
            f"{workers} workers were not at work at once after their first shards: too few or too "
            "short shards for them"
        )
    return after[0], ends[-1]


def at_once(shards: Sequence[Worked], workers: int) -> tuple[list[float], list[float]]:
    """The moments at which so many shards begin, and cease, to be in work at once; ascending."""
    events = [(shard.started, 1) for shard in shards] + [(shard.finished, -1) for shard in shards]
    begins, ends, count = [], [], 0
    for moment, change in sorted(events):  # of equal moments, the end of a shard comes first
        if change < 0 and count == workers:
            ends.append(moment)
        count += change
        if change > 0 and count == workers:
            begins.append(moment)
    return begins, ends


def pairs_within(shards: Sequence[Worked], begin: float, end: float) -> float:
    """Pairs of all shards, each by the share of its time that lies in the window."""
    return sum(
        shard.pairs
        * max(0.0, min(end, shard.finished) - max(begin, shard.started))
        / (shard.finished - shard.started)
        for shard in shards
    )


def linear(rates: dict[int, dict[str, float]], kind: str) -> float:
    """Pairs per second and worker, of the most workers over the fewest."""
    most, fewest = max(rates), min(rates)
    return rates[most][kind] / most / (rates[fewest][kind] / fewest)


def print_rates(workers: int, rates: Rates, fewest: Rates) -> None:
    cells = [
        f"{rates.steady:,.1f}", f"{rates.steady / workers / fewest.steady:.3f}",
        f"{rates.steady_span:.1f}", f"{rates.whole:,.1f}",
        f"{rates.whole / workers / fewest.whole:.3f}", f"{rates.whole_span:.1f}",
        f"{rates.shard:.3f}",
    ]  # fmt: skip
    print(*(f"{cell:>14}" for cell in (workers, *cells)), flush=True)


# memory --------------------------------------------------------------------------------------


def driver_memory(folder: Path, most: int) -> dict[str, Any]:
    """Peak MiB of the driver by number of pairs; two workers, the weightless overlap model."""
    print(*(f"{head:>12}" for head in ("pairs", "shards", "peak MiB", "replay s")), flush=True)
    peaks: dict[int, float] = {}
    pairs = SMALLEST
    while pairs <= most:
        shards = pairs // SHARD_PAIRS
        suite = write_large_suite(
            folder / str(pairs), shards, SHARD_PAIRS // CANDIDATES, CANDIDATES, TOKEN_BUDGET
        )
        peaks[pairs], seconds, _ = watch(
            [*command("replay"), str(suite), "engine=ray", "workers=2"]
        )
        cells = (f"{pairs:,}", f"{shards:,}", f"{peaks[pairs]:.1f}", f"{seconds:.1f}")
        print(*(f"{cell:>12}" for cell in cells), flush=True)
        pairs *= 10
    fewest, last = min(peaks), max(peaks)
    growth = peaks[last] - peaks[fewest]
    more = (last - fewest) // SHARD_PAIRS
    return {
        "driver_growth_mib": round(growth, 1),
        "driver_kib_per_shard": round(1024 * growth / more, 2) if more else None,
        "driver_peak_mib": {size: round(peak, 1) for size, peak in peaks.items()},
        "shard_pairs": SHARD_PAIRS,
    }


def watch(words: Sequence[str], awaited: Path | None = None) -> tuple[float, float, float]:
    """(peak MiB, seconds, seconds until a file exists) of a command that must succeed."""
    began = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    peak, seen = 0.0, float("nan")
    while process.poll() is None:
        with suppress(FileNotFoundError, ProcessLookupError, StopIteration):  # it just ended
            peak = max(peak, peak_mib(process.pid))
        if awaited is not None and seen != seen and awaited.exists():
            seen = time.monotonic() - began
        time.sleep(0.02)
    seconds = time.monotonic() - began
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(words))
    return peak, seconds, seen


# listing -------------------------------------------------------------------------------------


def start_of_replay(folder: Path, shards: int, rounds: int) -> dict[str, Any]:
    """Seconds until the last shard of many is committed, by engine, medians over rounds."""
    suite = write_large_suite(folder, shards, queries=1, candidates=1, token_budget=TOKEN_BUDGET)
    missing = commit_all_but_last(suite)
    print(
        *(f"{head:>14}" for head in ("engine", "first commit s", "end s", "peak MiB")), flush=True
    )
    first: dict[str, list[float]] = {"inline": [], "ray": []}
    for _ in range(rounds):
        for engine, found in first.items():
            words = [*command("replay"), str(suite), f"engine={engine}", "workers=1"]
            peak, seconds, seen = watch(words, awaited=missing)
            found.append(seen)
            missing.unlink()
            cells = (engine, f"{seen:.1f}", f"{seconds:.1f}", f"{peak:.0f}")
            print(*(f"{cell:>14}" for cell in cells), flush=True)
    return {
        "first_commit_seconds": {
            engine: round(statistics.median(found), 1) for engine, found in first.items()
        },
        "shards": shards,
    }

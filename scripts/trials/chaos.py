"""Chaos: two models replayed by submitted jobs on three nodes while everything dies in turn.

The same suite is first scored undisturbed by the inline engine. Then it is submitted to a cluster
of simulated nodes; at random moments workers, a node, a driver and a Jobs supervisor are killed, a
node joins, the disk fills up and a score file is changed. Whoever operates it does one thing: the
same `rerank submit` again, until it says that all is complete. In the end every pair must have its
score exactly once, in the bytes of the undisturbed run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.trials.faults import FAULTS, Field
from scripts.trials.nodes import nodes
from scripts.trials.served import Served, serving
from scripts.trials.suite_files import Size, write_suite

MODELS = ("served-a", "served-b")
SHORT, LONG = Size(shards=32), Size(shards=120)
LATENCY = 0.2  # seconds a request, of which a shard has four
# seconds until the trial gives up; the short form takes two to five minutes on two idle cores
SHORT_LIMIT, LONG_LIMIT = 600.0, 3600.0
DISK = "64m"
SUBMITS = 30  # that an operator would try
LINES = 4  # of what a submit said that did not end well
IDLE = 20.0  # seconds after the last shard in which a fault may still come


@dataclass
class Told:
    """What happened: rows of the table."""

    fault: str
    what: str
    second: float
    committed: int  # shards at that moment
    repeated: int  # pairs that had been asked for more than once until then


@dataclass
class Trial:
    """A trial under way."""

    suite: Path
    store: Path
    size: Size
    servers: list[Served]
    deadline: float
    began: float = field(default_factory=time.monotonic)
    told: list[Told] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    submits: int = 0

    @property
    def shards(self) -> int:
        return self.size.shards * len(MODELS)

    def committed(self) -> int:
        return sum(1 for _ in self.store.glob("runs/*/*/*/receipts/*.json"))

    def repeated(self) -> int:
        return sum(sum(served.asked.values()) - len(served.asked) for served in self.servers)

    def tell(self, fault: str, what: str) -> None:
        row = Told(fault, what, time.monotonic() - self.began, self.committed(), self.repeated())
        self.told.append(row)
        done = f"{row.committed} of {self.shards} shards"
        print(f"{row.second:6.1f} s  {fault:<21} {what:<18} {done}", flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--short", action="store_true", help="fewer shards and faults: 5 minutes")
    parser.add_argument("--seed", type=int, default=None, help="of the moments and the victims")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of the last line."""
    size = SHORT if arguments.short else LONG
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}; {len(MODELS)} models x {size.shards} shards x {size.pairs // size.shards} "
          "pairs on 3 nodes")  # fmt: skip
    rng = random.Random(seed)
    limit = SHORT_LIMIT if arguments.short else LONG_LIMIT
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(serving(0.0)) for _ in MODELS]
        store, disk = stack.enter_context(small_disk(folder / "disk"))
        cluster = stack.enter_context(nodes(3, slots=2))
        urls = {name: served.url for name, served in zip(MODELS, servers, strict=True)}
        suite = write_suite(
            folder, size, urls, dashboard=cluster.dashboard, store=str(store), workers=3
        )
        calm = undisturbed(suite, folder / "calm")
        for served in servers:
            served.latency = LATENCY
            served.asked.clear()
        trial = Trial(suite, store, size, servers, time.monotonic() + limit)
        place = Field(cluster, store, disk, rng)
        with ThreadPoolExecutor(1) as operator:
            operating = operator.submit(operate, trial)
            try:
                raise_storm(
                    trial, place, arguments.short
                )  # Ray makes nodes in the main thread alone
            finally:
                trial.over.set()
        print_table(trial)
        return figures(trial, calm, operating.result(), seed)


@contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """A folder on a file system of its own, small enough to fill; False where none may be made."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    mounted = (
        bool(shutil.which("mount")) and not subprocess.run(mount, capture_output=True).returncode
    )
    try:
        yield folder / "store", mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def undisturbed(suite: Path, store: Path) -> dict[tuple[str, str], bytes]:
    """Score files of the inline engine: (model, shard) -> bytes."""
    command = [sys.executable, "-m", "jobs"]
    overrides = [str(suite), f"store={store}", "engine=inline"]
    for verb in ("freeze", "replay"):
        subprocess.run([*command, verb, *overrides], check=True, stdout=subprocess.DEVNULL)
    return score_files(store)


def score_files(store: Path) -> dict[tuple[str, str], bytes]:
    """What the receipts name: (model, shard) -> bytes."""
    found = {}
    for file in sorted(store.glob("runs/*/*/*/receipts/*.json")):
        run_folder = file.parent.parent
        scores = run_folder / "scores" / json.loads(file.read_text())["file"]
        found[run_folder.parent.name, file.stem] = scores.read_bytes()
    return found


def operate(trial: Trial) -> bool:
    """`rerank submit --wait`, again and again until nothing is left to do."""
    command = [sys.executable, "-m", "jobs", "submit", str(trial.suite), "cluster=trial", "--wait"]
    while trial.submits < SUBMITS and time.monotonic() < trial.deadline:
        trial.submits += 1
        still = trial.over.is_set()  # what is complete now stays so
        left = max(1.0, trial.deadline - time.monotonic())
        with contextlib.suppress(subprocess.TimeoutExpired):
            answer = subprocess.run(command, capture_output=True, text=True, timeout=left)
            if answer.returncode == 0 and still:
                return True
            if answer.returncode:
                print(f"submit {trial.submits} ended with {answer.returncode}:", flush=True)
                print(*(f"    {line}" for line in said(answer)[-LINES:]), sep="\n", flush=True)
        time.sleep(1.0)
    return False


def said(answer: subprocess.CompletedProcess[str]) -> list[str]:
    """What a command printed, line by line."""
    return (answer.stdout + answer.stderr).strip().splitlines()


def raise_storm(trial: Trial, place: Field, short: bool) -> None:
    """The faults in random order, spread over the progress of the work."""
    planned = [
        name for name, (_, few, many) in FAULTS.items() for _ in range(few if short else many)
    ]
    place.rng.shuffle(planned)
    for number, name in enumerate(planned):
        due = trial.shards * (number + place.rng.random()) / (len(planned) + 1)
        while trial.committed() < due and time.monotonic() < trial.deadline:
            time.sleep(0.1)
        strike(trial, place, name)


def strike(trial: Trial, place: Field, name: str) -> None:
    """One fault, as soon as it can happen; told as impossible where all work is done before."""
    idle_since = time.monotonic()
    while time.monotonic() < trial.deadline:
        what = FAULTS[name][0](place)
        if what is not None:
            trial.tell(name, what)
            return
        if trial.committed() < trial.shards:
            idle_since = time.monotonic()
        if time.monotonic() - idle_since > IDLE:
            print(f"{name}: nothing left that it could happen to", flush=True)
            return
        time.sleep(0.2)


def print_table(trial: Trial) -> None:
    """What was killed, how often, and how many pairs were asked for again until the next fault."""
    again: Counter[str] = Counter()
    ends = [*(row.repeated for row in trial.told), trial.repeated()][1:]
    for row, end in zip(trial.told, ends, strict=True):
        again[row.fault] += end - row.repeated
    print(f"\n{'fault':<22}{'times':>6}{'pairs scored again after it':>30}")
    for name in FAULTS:
        times = sum(row.fault == name for row in trial.told)
        print(f"{name:<22}{times:>6}{again[name]:>30}")


def figures(
    trial: Trial, calm: dict[tuple[str, str], bytes], complete: bool, seed: int
) -> dict[str, Any]:
    """The last line; lost and duplicated count pairs in the files that receipts name."""
    stormy = score_files(trial.store)
    expected, found = pairs_of(calm), pairs_of(stormy)
    return {
        "lost": sum((expected - found).values()),
        "duplicated": sum((found - expected).values()),
        "bytes_equal": stormy == calm,
        "complete": complete,
        "faults": len(trial.told),
        "submits": trial.submits,
        "pairs": sum(expected.values()),
        "scored_again": trial.repeated(),
        "seconds": round(time.monotonic() - trial.began, 1),
        "seed": seed,
    }


def pairs_of(files: dict[tuple[str, str], bytes]) -> Counter[tuple[str, str, str]]:
    """(model, query, document) -> rows with a score."""
    import io

    import pyarrow.parquet as pq

    found: Counter[tuple[str, str, str]] = Counter()
    for (model, _), data in files.items():
        table = pq.read_table(io.BytesIO(data), columns=["query_id", "doc_id", "score"])
        for row in table.to_pylist():
            found[model, row["query_id"], row["doc_id"]] += row["score"] is not None
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    add_arguments(parser)
    last = run(parser.parse_args())
    print(json.dumps(last))
    good = last["complete"] and last["bytes_equal"] and not last["lost"] + last["duplicated"]
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[2]))
    sys.exit(main())

"""A scorer that fails on purpose, and a driver process around it that tests can kill.

Texts say what goes wrong: __OOM__ (at any batch size above 1), __BIG__ (even alone), __CRASH__
(SIGKILL of its process), __SEGV__, __EXIT__ (sys.exit), __RAISE__, __NAN__, __HANG__; or what comes
of it: __SLEEP=3__ (seconds), __SCORE=0.5__. Every forward is written to a log, one line an input,
so that a test can count what was scored how often.

    FAULTY_LOG=log FAULTY_DELAY=0.01 python -m tests.faulty STORE TASK_YAML '{"engine": "ray"}'

Beside the keys of a suite the options are: address (of a Ray cluster), models (names; `raises` and
`dies` cannot be loaded), max_length, resources (that a worker asks for), retry_failed, only_failed,
shards.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rerank.models import adapters
from rerank.models.pointwise import Reading, distinct_items, scatter
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup


@dataclass(frozen=True)
class FaultyParams:
    """What goes wrong with a pair is circumstance and comes by environment, not by identity."""

    load: str = ""  # raises: loading is an error | dies: it ends the process


class Faulty:
    def __init__(self) -> None:
        self.log = os.environ.get("FAULTY_LOG", "")
        self.delay = float(os.environ.get("FAULTY_DELAY", "0"))  # seconds an input
        # a file: the first worker that can remove it dies in its first forward
        self.crash_once = os.environ.get("FAULTY_CRASH_ONCE", "")

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        readings = [
            Reading(value=(group.query_id, doc_id, text), tokens=8 + len(text) % 24)
            for group in groups
            for doc_id, text in zip(group.doc_ids, group.documents, strict=True)
        ]
        return distinct_items(groups, readings)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        values = [item.payload.value for item in items]
        self._note(values)
        time.sleep(self.delay * len(items))
        for _, _, text in values:
            self._fail(text, len(items))
        return np.array([[score(*value)] for value in values], dtype=np.float32)

    def _note(self, values: list[tuple[str, str, str]]) -> None:
        if self.log:
            lines = "".join(f"{query} {doc}\n" for query, doc, _ in values)
            descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(descriptor, lines.encode())
            os.close(descriptor)
        if self.crash_once:
            try:
                os.unlink(self.crash_once)
            except FileNotFoundError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    def _fail(self, text: str, rows: int) -> None:
        import torch

        if ("__OOM__" in text and rows > 1) or "__BIG__" in text:
            raise torch.OutOfMemoryError("CUDA out of memory. (as a test)")
        if "__CRASH__" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "__SEGV__" in text:
            ctypes.string_at(0)
        if "__EXIT__" in text:
            sys.exit(3)
        if "__RAISE__" in text:
            raise ValueError("this model refuses the shard")
        if "__HANG__" in text:
            time.sleep(3600)
        time.sleep(_stated("SLEEP", text) or 0.0)

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        return scatter(groups, items, outputs, failures)

    def describe(self) -> dict[str, Any]:
        return {"purpose": "test"}


def score(query_id: str, doc_id: str, text: str) -> float:
    """A number that only this pair has; NaN, or the one that its text states, on request."""
    if "__NAN__" in text:
        return float("nan")
    stated = _stated("SCORE", text)
    if stated is not None:
        return stated
    return (
        int.from_bytes(hashlib.sha256(f"{query_id}|{doc_id}".encode()).digest()[:3], "big") / 2**24
    )


def _stated(what: str, text: str) -> float | None:
    found = re.search(f"__{what}=([0-9.]+)__", text)
    return float(found.group(1)) if found else None


def load(spec: ModelSpec, placement: Placement) -> Faulty:
    if spec.params.load == "raises":
        raise ValueError("a tensor is missing")
    if spec.params.load == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return Faulty()


def register() -> None:
    """Add the row to ADAPTERS, in this process; Ray workers run it before they work."""
    adapters.ADAPTERS["faulty"] = adapters.Adapter(
        params=FaultyParams, load=load, weightless=True, description="fails on purpose"
    )


def main(store_root: str, task_file: str, options: str) -> int:
    from jobs.config import Suite, load_task
    from jobs.replay import finishing, replay_models
    from jobs.selection import Selection
    from rerank.errors import RerankError
    from rerank.freezing import freeze
    from rerank.store import Store
    from rerank.suite.suites import SuiteSpec

    register()
    chosen = json.loads(options)
    engine = chosen.pop("engine")
    retry = chosen.pop("retry_failed", False)
    address = chosen.pop("address", "")
    names = chosen.pop("models", ["faulty"])
    resources = chosen.pop("resources", {})
    max_length = chosen.pop("max_length", None)
    numbers = chosen.pop("shards", None)
    task = load_task(Path(task_file).parent, task_file)
    selection = Selection(
        only_failed=chosen.pop("only_failed", False),
        shards=numbers and {task.name: frozenset(numbers)},
    )
    store = Store(store_root)
    models = tuple(
        ModelSpec(
            name,
            "faulty",
            params=FaultyParams(load=name if name in ("raises", "dies") else ""),
            resources=resources,
            max_length=max_length,
        )
        for name in names
    )
    spec = SuiteSpec(
        "t", (task.name,), tuple(names), baseline=names[0], engine=engine, cluster=address, **chosen
    )
    suite = Suite(spec, (task,), models)
    try:
        with finishing("the same command"):
            if engine == "ray":
                start_ray(address)
            tasks = [freeze(task, store)]
            replay_models(suite, store, tasks, retry_failed=retry, selection=selection)
    except RerankError as error:
        print(error)
        return error.exit_code
    return 0


def start_ray(address: str) -> None:
    """A Ray whose workers know the adapter, and have this process's FAULTY_ variables."""
    import ray

    from cluster.connection import LOOPBACK, QUIET

    for name, value in {**QUIET, **LOOPBACK}.items():
        os.environ.setdefault(name, value)
    before = signal.getsignal(signal.SIGTERM)
    own = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100 * 2**20}
    ray.init(
        address=address or "local",
        **({} if address else own),
        log_to_driver=bool(os.environ.get("FAULTY_VERBOSE")),
        runtime_env={
            "worker_process_setup_hook": register,
            # the hook runs before sys.path is set
            "env_vars": {
                "PYTHONPATH": os.getcwd(),
                **{k: v for k, v in os.environ.items() if k.startswith("FAULTY_")},
            },
        },
    )
    signal.signal(signal.SIGTERM, before)  # Ray puts its own exit there


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

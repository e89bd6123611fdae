"""Measurements in the store: written once, found by task, model and run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rerank.store import Store

KEYS = {
    "schema",
    "id",
    "task",
    "model",
    "run",
    "depth",
    "throughput",
    "latency",
    "conditions",
    "num_gpus",
}

Record = dict[str, Any]


def write_measurement(store: Store, record: Record) -> str:
    """Put a record; its key."""
    key = f"{folder_of(record['task'], record['model'], record['run'])}/{record['id']}.json"
    store.write_json(key, record)
    return key


def newest(store: Store, task: str, model: str, run: str) -> Record | None:
    """The latest measurement of a run's recipe, None where there is none that is whole."""
    return next(records_of(store, task, model, run), None)


def records_of(store: Store, task: str, model: str, run: str) -> Iterator[Record]:
    """Every measurement of a run's recipe that is whole, the latest first."""
    folder = folder_of(task, model, run)
    for name in reversed(store.files(folder)):
        record = store.read_record(f"{folder}/{name}", KEYS)
        if record is not None:
            yield record


def newest_of_model(store: Store, task: str, model: str) -> list[Record]:
    """The latest measurement of each recipe that a model of this name was measured with."""
    prints = store.folders(f"efficiency/{task}/{model}")
    found = [newest(store, task, model, print_) for print_ in prints]
    return [record for record in found if record is not None]


def folder_of(task: str, model: str, run: str) -> str:
    return f"efficiency/{task}/{model}/{run}"


def best_curve(record: Record) -> Record | None:
    """The curve that a replay's forwards follow: with shared beginnings where the model has them.

    None where no forward was timed, as of a server.
    """
    throughput = record["throughput"]
    if throughput is None:
        return None
    found: Record = throughput["shared"] or throughput["whole"]
    return found


def pairs_per_second(record: Record) -> float | None:
    """The fastest batch size's value of `best_curve`."""
    curve = best_curve(record)
    return None if curve is None else float(curve["best"]["pairs_per_second"])

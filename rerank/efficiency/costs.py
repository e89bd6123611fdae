"""What a configuration costs: worker seconds, GPU-hours and money, from a measured speed.

All models of one chart have their speed from the same kind of source: forwards alone by the
protocol (`measured`), or the whole of a replay's shards, reading and writing included (`receipts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rerank.efficiency.results import newest, pairs_per_second, records_of
from rerank.efficiency.sweeps import Configuration
from rerank.errors import ConfigError, unknown_name
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec
from rerank.runs import Run
from rerank.store import Store
from rerank.suite.efficiency import NotMeasured, timed_receipts
from rerank.suite.plan import on_gpu

SPEEDS = ("auto", "measured", "receipts")
# key of a cost -> what one unit of it is; all are of one worker and its GPUs
COSTS = {
    "seconds": "worker seconds a query",
    "p95": "worker seconds of a query, 95th percentile, without waiting",
    "latency": "seconds, measured p95 of one client's requests",
    "gpu_hours": "GPU-hours for 1,000 queries",
    "price": "price of 1,000 queries",
    "pairs": "pairs a query",
}


@dataclass(frozen=True)
class Speed:
    """Of one model on one task. gpus: that a worker holds; latency: measured p95 of one client, by
    the depth of its requests (None: all candidates); kind: measured or receipts."""

    pairs_per_second: float
    kind: str
    source: str
    gpus: float
    latency: Mapping[int | None, float]
    served: bool = False


def speeds_of(store: Store, runs: Sequence[tuple[ModelSpec, Run]], kind: str) -> dict[str, Speed]:
    """Speed of each model by name, all of the same kind; a first stage has none.

    kind: auto takes measurements where all models with weights have one, else receipts. A model
    without weights has no forward to measure, and always has the speed of its receipts.
    ConfigError: a model lacks what is asked for; the message says how to get it.
    """
    if kind not in SPEEDS:
        raise unknown_name("speed", kind, SPEEDS)
    rerankers = [(model, run) for model, run in runs if model.adapter != "first_stage"]
    receipts = {m.name: (m, run) for m, run in rerankers}
    weighty = [(m, run) for m, run in rerankers if not ADAPTERS[m.adapter].weightless]
    measured = {model.name: _measured(store, model, run) for model, run in weighty}
    lacking = [name for name, speed in measured.items() if speed is None]
    if kind == "measured" and lacking:
        raise ConfigError(
            f"no pairs/s measured of {', '.join(lacking)} with the recipe of this suite; run "
            "`rerank measure` with it, or use --speed receipts"
        )
    chosen = {name: speed for name, speed in measured.items() if speed is not None}
    by_protocol = kind == "measured" or (kind == "auto" and not lacking and bool(measured))
    return {
        name: (by_protocol and chosen.get(name)) or _from_receipts(store, *placed)
        for name, placed in receipts.items()
    }


def _measured(store: Store, model: ModelSpec, run: Run) -> Speed | None:
    record = newest(store, run.task.name, model.name, run.fingerprint)
    rate = None if record is None else pairs_per_second(record)
    if record is None or rate is None:
        return None
    source = f"efficiency/{run.task.name}/{model.name}/{run.fingerprint}/{record['id']}.json"
    if record["conditions"]["other_load"]["shared"]:
        source += " (others used the machine)"
    return Speed(rate, "measured", source, float(record["num_gpus"]), _latency(store, model, run))


def _from_receipts(store: Store, model: ModelSpec, run: Run) -> Speed:
    try:
        receipts = timed_receipts(run)
    except NotMeasured as reason:
        raise ConfigError(f"{model.name} on {run.task.name} has no speed: {reason}") from reason
    seconds = sum(receipt["finished"] - receipt["started"] for receipt in receipts)
    rows = sum(receipt["rows"] for receipt in receipts)
    gpus = model.num_gpus if on_gpu(model) and run.identity.get("attention") != "none" else 0.0
    worker = receipts[0].get("worker")
    gpus = gpus if isinstance(worker, dict) and worker.get("device") == "cuda" else 0.0
    source = f"{len(receipts)} receipts of {run.key}"
    rate, latency = rows / max(seconds, 1e-9), _latency(store, model, run)
    return Speed(rate, "receipts", source, gpus, latency, served=model.adapter == "http")


def _latency(store: Store, model: ModelSpec, run: Run) -> dict[int | None, float]:
    """Measured p95 of one client, by depth (None: all candidates), the latest of each depth; a load
    of which a request got no answer has none: its slowest are not in it."""
    found: dict[int | None, float] = {}
    for record in records_of(store, run.task.name, model.name, run.fingerprint):
        for load in record["latency"] if record["depth"] not in found else ():
            if load["load"]["concurrency"] == 1 and load["n"] and not load["unanswered"]:
                found[record["depth"]] = float(load["latency"]["p95"]["value"])
    return found


def costs_of(
    configuration: Configuration, speeds: Mapping[str, Speed], price: float | None
) -> dict[str, float | None]:
    """Every row of COSTS for a configuration; None where nothing is known.

    price: of one GPU for an hour, or of a machine where a worker holds none.
    """
    seconds = np.zeros(1)
    gpu_seconds = money = pairs = 0.0
    billed = any(speeds[model].served for model in configuration.pairs)  # by its server, not here
    for model, counts in configuration.pairs.items():
        speed = speeds[model]
        spent = counts / speed.pairs_per_second
        seconds = seconds + spent
        gpu_seconds += float(spent.mean()) * speed.gpus
        money += float(spent.mean()) * (speed.gpus or 1.0)
        pairs += float(counts.mean())
    return {
        "seconds": float(seconds.mean()),
        "p95": float(np.quantile(seconds, 0.95)),
        "latency": _measured_latency(configuration, speeds),
        "gpu_hours": 1000 * gpu_seconds / 3600,
        "price": None if price is None or billed else 1000 * money / 3600 * price,
        "pairs": pairs,
    }


def _measured_latency(configuration: Configuration, speeds: Mapping[str, Speed]) -> float | None:
    """Of one model at one depth; a cascade's was not measured as one."""
    if not configuration.pairs:
        return 0.0
    if len(configuration.pairs) > 1:
        return None
    (model,) = configuration.pairs
    depth = configuration.settings.get("depth")
    return speeds[model].latency.get(None if depth is None else int(depth))

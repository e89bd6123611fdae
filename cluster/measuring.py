"""Measuring on Ray: one actor that has its GPU, or with `exclusive` its node's CPUs, to itself."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from cluster.fanout import embedded_or
from cluster.waiting import Demand, wait_for_place
from cluster.weights import fetch_everywhere
from rerank.efficiency.measuring import Measurement, measure
from rerank.errors import RerankError, ScoringError

SAID, DONE, REFUSED = "said", "done", "refused"

Say = Callable[[str], None]


class Measurer:
    """The actor. It tells what goes on as it comes, and the record at the end."""

    def measure(self, work: Measurement) -> Iterator[tuple[str, Any]]:
        """(said, text) any number of times, then (done, record) or (refused, why)."""
        news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

        def whole() -> None:
            try:
                news.put((DONE, measure(work, lambda text: news.put((SAID, text)))))
            except RerankError as error:
                news.put((REFUSED, str(error)))
            except Exception as error:
                # whatever else a model meets reaches the user as one sentence
                news.put((REFUSED, f"model '{work.model.name}' cannot be measured: {error!r}"))

        worker = threading.Thread(target=whole, daemon=True)
        worker.start()
        while True:
            kind, value = news.get()
            yield kind, value
            if kind != SAID:
                return


def measure_on_ray(
    work: Measurement, address: str, num_cpus: int | None, say: Say
) -> dict[str, Any]:
    """The record of `measure`, made by one actor of the cluster at `address` ('': embedded).

    ScoringError: what refused the measurement, or that its actor died.
    """
    with embedded_or(address, num_cpus):
        import ray
        import ray.exceptions

        demand = exclusive_demand(work)
        wait_for_place(demand, say, can_grow=bool(address))
        fetch_everywhere(work.model, demand)
        actor = ray.remote(Measurer).options(max_restarts=0, **demand.actor_options).remote()
        try:
            for answer in actor.measure.options(num_returns="streaming").remote(work):
                kind, value = ray.get(answer)
                if kind == DONE:
                    found: dict[str, Any] = value
                    return found
                if kind == REFUSED:
                    raise ScoringError(value)
                say(value)
        except ray.exceptions.RayError as error:
            raise ScoringError(
                f"model '{work.model.name}': the process that measured it died "
                f"({type(error).__name__}), as where memory is short; give it more memory, or "
                "lower max_length"
            ) from error
        finally:
            ray.kill(actor)
    raise ScoringError(f"model '{work.model.name}': its measurement ended without a record")


def exclusive_demand(work: Measurement) -> Demand:
    """What the model's worker asks for, its GPUs whole; with `exclusive` all CPUs of a node that
    holds it, so that no other actor is placed there."""
    demand = Demand.of(work.model, work.placement.device)
    resources = dict(demand.resources)
    if "GPU" in resources:
        resources["GPU"] = float(math.ceil(resources["GPU"]))
    whole = replace(demand, resources=resources)
    if not work.exclusive:
        return whole
    import ray

    fitting = [node for node in ray.nodes() if whole.fits(node)]
    if fitting:
        resources["CPU"] = max(float(node["Resources"].get("CPU", 0)) for node in fitting)
    return replace(demand, resources=resources)

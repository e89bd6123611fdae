"""`rerank plan SUITE`: pairs, tokens, shards, GPU-hours and cost, before anything is spent."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobs.config import Suite, load_cluster, parse_overrides
from jobs.console import say
from jobs.replay import runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import table
from rerank.errors import ConfigError, ScoringError, unknown_name
from rerank.freezing import spec_identity
from rerank.frozen import FrozenTask, current_frozen
from rerank.store import Store, json_bytes
from rerank.suite.plan import PEAK_TFLOPS, UTILISATION, Figure, Machine, Part, plan_model, total

PRICE = "price_per_hour"
MARKS = {"measured": "", "estimated": "~", "unknown": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--gpu",
        choices=sorted(PEAK_TFLOPS),
        help="kind of GPU that hours are estimated for (default: `accelerator` of each model's "
        "YAML, else H100)",
    )
    parser.add_argument(
        "--utilisation",
        type=float,
        default=UTILISATION,
        help=f"share of the GPU's peak that estimates assume (default: {UTILISATION})",
    )
    parser.add_argument("--json", action="store_true", help="strict JSON on standard output")
    parser.epilog = (
        f"{PRICE}=2.5 among the words is the price of one GPU for an hour (default: that of the "
        "cluster's file). Figures with ~ are estimated; what they rest on stands below the table, "
        "and after = where measured hours come from: receipts, or `rerank measure`."
    )


def run(arguments: argparse.Namespace) -> int:
    """0: a plan is no promise. Nothing is frozen, fetched or scored."""
    if not 0 < arguments.utilisation <= 1:
        raise ConfigError(f"--utilisation must lie in (0, 1], is {arguments.utilisation}")
    price = _price_of(arguments)
    suite, store = suite_of(arguments)
    if price is None and suite.spec.cluster:
        price = load_cluster(suite.root, suite.spec.cluster).price_per_hour
    tasks, missing = _frozen(suite, store)
    notes = list(missing)
    parts: dict[str, list[Part]] = {}
    for model in suite.models:
        machine = _machine(arguments, model.accelerator, price)
        try:
            runs = runs_of(store, tasks, model)
        except ScoringError as error:
            runs = None
            notes.append(f"{model.name}: taken as not scored at all: {error}")
        parts[model.name] = plan_model(store, tasks, model, runs, machine)
    if arguments.json:
        say(json_bytes(record(suite, tasks, missing, parts, price)).decode().rstrip())
        return 0
    say_plan(tasks, parts, notes, price)
    return 0


def _price_of(arguments: argparse.Namespace) -> float | None:
    """Take `price_per_hour=` out of the words: it is no key of a suite."""
    own = [word for word in arguments.overrides if word.startswith(f"{PRICE}=")]
    arguments.overrides = [word for word in arguments.overrides if word not in own]
    value = parse_overrides(own).get(PRICE)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ConfigError(f"{PRICE} must be a price from 0, is {value!r}")
    return float(value)


def _frozen(suite: Suite, store: Store) -> tuple[list[FrozenTask], list[str]]:
    """The tasks that are frozen, and why the others are not planned."""
    found, missing = [], []
    for spec in suite.tasks:
        try:
            found.append(current_frozen(store, spec.name, spec_identity(spec)))
        except ConfigError as error:
            missing.append(str(error))
    return found, missing


def _machine(arguments: argparse.Namespace, accelerator: str, price: float | None) -> Machine:
    gpu = arguments.gpu or accelerator or "H100"
    if gpu not in PEAK_TFLOPS:
        raise unknown_name("accelerator (name one by --gpu)", gpu, PEAK_TFLOPS)
    return Machine(gpu, PEAK_TFLOPS[gpu], arguments.utilisation, price)


def say_plan(
    tasks: Sequence[FrozenTask],
    parts: dict[str, list[Part]],
    notes: Sequence[str],
    price: float | None,
) -> None:
    for task in tasks:
        counts = task.counts
        say(
            f"{task.name}: {counts['queries']:,} queries, {counts['pairs']:,} pairs, "
            f"{len(task.shards)} shards"
        )
    rows = [_row(model, own) for model, own in parts.items()]
    everything = [part for own in parts.values() for part in own]
    rows.append(_row("all", everything))
    say("")
    head = ["model", "pairs left", "tokens", "shards left", "worker-hours", "GPU-hours", "cost"]
    say(table(head, rows))
    sources = dict.fromkeys(
        figure.source
        for part in everything
        for figure in (part.tokens, part.hours)
        if figure.basis != "measured" and part.pairs_left
    )
    for source in sources:
        say(f"~ {source}")
    for part in everything:
        if part.hours.basis == "measured" and part.pairs_left:
            say(f"= {part.model} on {part.task}: {part.hours.source}")
    if price is None:
        say(f"no cost: give {PRICE}=, the price of one GPU for an hour")
    for note in notes:
        say(f"note: {note}")


def _row(name: str, parts: Sequence[Part]) -> list[str]:
    return [
        name,
        f"{sum(part.pairs_left for part in parts):,} of {sum(part.pairs for part in parts):,}",
        _shown(_sum(parts, "tokens"), ",.0f"),
        f"{sum(part.shards_left for part in parts):,} of {sum(part.shards for part in parts):,}",
        *(_shown(_sum(parts, key), ",.2f") for key in ("hours", "gpu_hours", "cost")),
    ]


def _shown(figure: Figure, form: str) -> str:
    return "—" if figure.value is None else f"{MARKS[figure.basis]}{figure.value:{form}}"


def record(
    suite: Suite,
    tasks: Sequence[FrozenTask],
    missing: Sequence[str],
    parts: dict[str, list[Part]],
    price: float | None,
) -> dict[str, Any]:
    """The plan as JSON types; every figure with its basis and source."""
    everything = [part for own in parts.values() for part in own]
    figures = ("tokens", "hours", "gpu_hours", "cost")
    return {
        "suite": suite.spec.name,
        PRICE: price,
        "not_frozen": list(missing),
        "tasks": [{"task": task.name, "fingerprint": task.fingerprint} for task in tasks],
        "parts": [asdict(part) for part in everything],
        "models": [
            {"model": name, **{key: asdict(_sum(own, key)) for key in figures}}
            for name, own in parts.items()
        ],
        "total": {key: asdict(_sum(everything, key)) for key in figures},
    }


def _sum(parts: Sequence[Part], key: str) -> Figure:
    return total([getattr(part, key) for part in parts])

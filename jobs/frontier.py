"""`rerank frontier SUITE`: depths and cascades by quality and cost, from scores that are there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from jobs.config import Suite, load_cluster
from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import MISSING, interval_text, number, signed, table
from rerank.efficiency.costs import COSTS, SPEEDS
from rerank.efficiency.curves import Grid, task_frontier
from rerank.efficiency.facts import frontier_key
from rerank.errors import ConfigError, unknown_name
from rerank.reporting.frontier import standalone_picture, verdict_words
from rerank.store import Store, json_bytes

Record = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    add = parser.add_argument
    add("--depths", default="5,10,20,50,100", help="ranks of stage 1 that a model reranks")
    add("--tops", default="5,10,20", help="documents that a cascade's large model sees")
    add(
        "--cascades",
        default="all",
        help="SMALL:LARGE,...; all: every slower model after every faster one; none",
    )
    add("--gap-shares", default="0.5", help="shares of queries that a gap sends on ('' for none)")
    add("--cost", default="seconds", help=f"what is to be low: {', '.join(COSTS)}")
    add("--speed", default="auto", help=f"where speeds come from: {', '.join(SPEEDS)}")
    add("--measure", default="", help="a measure of the suite (default: its primary)")
    add("--json", action="store_true", help="strict JSON on standard output")
    parser.epilog = (
        "No model is asked: quality is that of the scores of a replay, speed that of `rerank "
        "measure` or of the replay's receipts. `rerank report` shows what was written last."
    )


def run(arguments: argparse.Namespace) -> int:
    """Every task's options with their verdicts; written to the store for the report, and each
    task's picture as a file of its own."""
    suite, store = suite_of(arguments)
    record = record_of(suite, store, grid_of(arguments, suite))
    store.write_json(frontier_key(suite.spec.name), record)
    for task in record["tasks"]:
        key = f"evaluations/{suite.spec.name}/frontier-{task['task']}.svg"
        store.write(key, standalone_picture(task, record).encode("utf-8"))
    if arguments.json:
        say(json_bytes(record).decode().rstrip())
        return 0
    for task in record["tasks"]:
        say_task(task, record)
    say(f"written: {store.where(frontier_key(suite.spec.name))}")
    return 0


def grid_of(arguments: argparse.Namespace, suite: Suite) -> Grid:
    """What is swept. ConfigError: an option's value is none."""
    if arguments.cost not in COSTS:
        raise unknown_name("cost", arguments.cost, COSTS)
    measure = arguments.measure or suite.spec.primary
    known = dict.fromkeys([suite.spec.primary, *suite.spec.measures])
    if measure not in known:
        raise unknown_name("measure of this suite", measure, known)
    price = (
        load_cluster(suite.root, suite.spec.cluster).price_per_hour
        if (suite.spec.cluster)
        else None
    )
    if arguments.cost == "price" and price is None:
        raise ConfigError(
            "--cost price: name a cluster whose file has price_per_hour: cluster=NAME"
        )
    return Grid(
        depths=_numbers(arguments.depths, int, "--depths", "5,10,20"),
        tops=_numbers(arguments.tops, int, "--tops", "5,10"),
        cascades=_cascades(arguments.cascades, suite),
        gap_shares=_numbers(arguments.gap_shares, float, "--gap-shares", "0.25,0.5"),
        cost=arguments.cost,
        speed=arguments.speed,
        measure=measure,
        price=price,
    )


def _cascades(words: str, suite: Suite) -> tuple[tuple[str, str], ...] | None:
    """The stated pairs, None for every one that makes sense."""
    if words == "all":
        return None
    models = [model.name for model in suite.models if model.adapter != "first_stage"]
    found = []
    for word in [] if words == "none" else words.split(","):
        small, colon, large = (part.strip() for part in word.partition(":"))
        if not colon:
            raise ConfigError(f"--cascades '{word}': write SMALL:LARGE, all or none")
        for name in (small, large):
            if name not in models:
                raise unknown_name("model in --cascades", name, models)
        if small == large:
            raise ConfigError(f"--cascades '{word}': a cascade is of two models; name another")
        found.append((small, large))
    return tuple(dict.fromkeys(found))


def _numbers(words: str, kind: type[Any], option: str, example: str) -> tuple[Any, ...]:
    try:
        values = tuple(sorted({kind(word) for word in words.split(",") if word.strip()}))
    except ValueError as error:
        raise ConfigError(f"{option} '{words}': write numbers with commas: {example}") from error
    top = 1.0 if kind is float else 1e9
    if not all(0 < value <= top for value in values):
        raise ConfigError(f"{option} '{words}': every number is above 0, as in {example}")
    return values


def record_of(suite: Suite, store: Store, grid: Grid) -> Record:
    """The frontier of every task, as JSON types. IncompleteRun where scores are missing."""
    tasks = frozen_tasks(suite, store)
    found = [
        task_frontier(
            store,
            [(model, placed) for model in suite.models for placed in runs_of(store, [task], model)],
            suite.spec,
            grid,
        )
        for task in tasks
    ]
    return {
        "suite": suite.spec.name,
        "measure": grid.measure,
        "confidence": suite.spec.confidence,
        "cost": grid.cost,
        "unit": COSTS[grid.cost],
        "price_per_hour": grid.price,
        "tasks": found,
    }


def say_task(task: Record, record: Record) -> None:
    """One table, cheapest first, and where the speeds come from."""
    say(f"{task['task']}: {record['measure']} against {record['unit']}, n={task['n']}")
    head = ["configuration", record["measure"], f"{record['confidence']:.0%} interval"]
    head += [record["cost"], "pairs", "verdict", "delta", "its interval"]
    say(table(head, [_row(row, record["cost"]) for row in task["rows"]]))
    for note in notes_of(task):
        say(f"note: {note}")
    say("")


def notes_of(task: Record) -> Sequence[str]:
    return [
        f"speed of {name}: {speed['pairs_per_second']:,.1f} pairs/s ({speed['kind']}: "
        f"{speed['source']})"
        for name, speed in task["speeds"].items()
    ] + list(task["notes"])


def _row(row: Record, cost: str) -> list[str]:
    return [
        row["name"],
        number(row["mean"]),
        interval_text(row["interval"]),
        MISSING if row["costs"][cost] is None else f"{row['costs'][cost]:.4g}",
        f"{row['costs']['pairs']:.4g}",
        verdict_words(row),
        signed(row["delta"]),
        interval_text(row["delta_interval"]),
    ]

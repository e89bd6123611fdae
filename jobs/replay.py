"""`rerank replay SUITE`: score what is missing, shard by shard, with every model of the suite."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from jobs.config import Suite
from jobs.driver import Driver, Problem
from jobs.freeze import frozen_tasks
from jobs.selection import EVERYTHING, Selection, add_selection_arguments, selection_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from rerank.devices import planned_placement
from rerank.errors import ConfigError, IncompleteRun, RerankError, ScoringError
from rerank.frozen import FrozenTask
from rerank.models.adapters import ADAPTERS, model_identity, planned_weights
from rerank.records import ModelSpec, Placement
from rerank.runs import Run
from rerank.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    add_retry_argument(parser)
    add_selection_arguments(parser)


def add_retry_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="also take up again what failed for good: poisoned shards and pairs without a score",
    )


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    tasks = frozen_tasks(suite, store)
    with finishing(command_of(arguments)):
        replay_models(
            suite,
            store,
            tasks,
            retry_failed=arguments.retry_failed,
            selection=selection_of(arguments, tasks),
        )
    return 0


def command_of(arguments: argparse.Namespace) -> str:
    """The command line that finishes what this one began."""
    return shlex.join(["rerank", arguments.verb, arguments.suite, *arguments.overrides])


@contextmanager
def finishing(command: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into IncompleteRun, with the command that does the rest."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if main else None
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:  # while Ray starts, SIGTERM is its own exit
        raise IncompleteRun(
            f"stopped; every committed shard is kept, finish the rest with: {command}"
        ) from error
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def replay_models(
    suite: Suite,
    store: Store,
    tasks: list[FrozenTask],
    *,
    retry_failed: bool = False,
    selection: Selection = EVERYTHING,
) -> list[Run]:
    """Complete runs of all models over all tasks.

    Every model is tried before the error says what is still missing, and which models could not be
    loaded: IncompleteRun where the same command can do more, ScoringError where none can.
    """
    runs: list[Run] = []
    problems: list[Problem] = []
    with ExitStack() as connection:
        driver = Driver(suite, store, tasks, selection, connection, retry_failed=retry_failed)
        for model in suite.models:
            try:
                placement, placed = placement_of(model), runs_of(store, tasks, model)
            except (ScoringError, ConfigError) as error:
                problems.append(driver.refuse(model, error))
                continue
            runs += placed
            try:
                problems += driver.replay(model, placement, placed)
            except ScoringError as error:
                problems.append(driver.refuse(model, error))
    if problems:
        raise _error(problems)
    return runs


def _error(problems: list[Problem]) -> RerankError:
    text = "; ".join(problem.text for problem in problems)
    return ScoringError(text) if all(p.refused for p in problems) else IncompleteRun(text)


def runs_of(store: Store, tasks: list[FrozenTask], model: ModelSpec) -> list[Run]:
    """The runs of one model over the tasks, by identity; nothing is scored."""
    identity = model_identity(model, placement_of(model), planned_weights(model))
    return [Run(store, task, model.name, identity) for task in tasks]


def placement_of(model: ModelSpec) -> Placement:
    return planned_placement(model, ADAPTERS[model.adapter].weightless)

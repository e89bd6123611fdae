"""Which shards a replay takes up: all that are missing, those that failed, or some by number."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerank.errors import ConfigError, unknown_name
from rerank.frozen import FrozenTask, Shard
from rerank.runs import Run


@dataclass(frozen=True)
class Selection:
    """only_failed: shards with a record of failure; shards: task -> numbers, None for all."""

    only_failed: bool = False
    shards: Mapping[str, frozenset[int]] | None = None

    def of(self, run_: Run) -> list[Shard]:
        """The shards of a run that are meant, done or not."""
        chosen = run_.task.shards
        if self.shards is not None:
            numbers = self.shards.get(run_.task.name, frozenset())
            chosen = [shard for shard in chosen if shard.number in numbers]
        if self.only_failed:
            failed = run_.failures()
            chosen = [shard for shard in chosen if shard.number in failed]
        return chosen


EVERYTHING = Selection()


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only-failed",
        action="store_true",
        help="leave alone what was never tried: take up shards with a record of failure "
        "(add --retry-failed for poisoned ones)",
    )
    parser.add_argument(
        "--shards",
        action="append",
        default=[],
        metavar="[TASK:]3,5",
        help="these shards alone, by number; TASK: where the suite has several; may be repeated",
    )


def selection_of(arguments: argparse.Namespace, tasks: Sequence[FrozenTask]) -> Selection:
    """The selection of a command line. ConfigError: a task or a number that there is not."""
    if not arguments.shards:
        return Selection(arguments.only_failed)
    chosen: dict[str, frozenset[int]] = {}
    for words in arguments.shards:
        task, numbers = _parse(words, tasks)
        chosen[task] = chosen.get(task, frozenset()) | numbers
    return Selection(arguments.only_failed, chosen)


def _parse(words: str, tasks: Sequence[FrozenTask]) -> tuple[str, frozenset[int]]:
    name, colon, listed = words.rpartition(":")
    names = [task.name for task in tasks]
    if not colon and len(tasks) > 1:
        raise ConfigError(
            f"--shards {words}: the suite has the tasks {', '.join(names)}; write TASK:{words}"
        )
    if colon and name not in names:
        raise unknown_name(f"task in --shards {words}", name, names)
    task = tasks[names.index(name)] if colon else tasks[0]
    return task.name, frozenset(_number(word, task) for word in listed.split(","))


def _number(word: str, task: FrozenTask) -> int:
    known = [shard.number for shard in task.shards]
    if not word.strip().isdecimal() or int(word) not in known:
        span = f"{known[0]} to {known[-1]}" if known else "none"
        raise ConfigError(f"--shards: '{word}' is no shard of {task.name}; its shards are {span}")
    return int(word)

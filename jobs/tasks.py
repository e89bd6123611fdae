"""`rerank tasks`: what the tasks of the configs folder measure, their traps, and all their keys."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from jobs.config import load_task, named_file, suite_spec, suite_tasks
from jobs.console import say
from rerank.analyzers import ANALYZERS
from rerank.errors import ConfigError
from rerank.sources import SOURCES
from rerank.sources.expected import expected_queries
from rerank.sources.layouts import LAYOUTS
from rerank.tasks import TaskSpec

SHOWN = (
    *("name", "title", "source", "dataset", "revision", "splits", "subset", "language"),
    *("licence", "measures", "trap", "first_stage", "depth", "inject_gold"),
)
TRAP_WIDTH = 90  # characters of a trap in the list; the file has it whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configs", default="configs", help="the configs folder")
    parser.add_argument("--suite", help="only the tasks of this suite, as it sets them")
    parser.add_argument(
        "--json", action="store_true", help="a JSON list, one object a task, and nothing else"
    )


def run(arguments: argparse.Namespace) -> int:
    root = Path(arguments.configs)
    rows = _of_suite(root, arguments.suite) if arguments.suite else _all(root)
    if arguments.json:
        say(json.dumps([_facts(row) for row in rows], ensure_ascii=False, indent=1))
        return 0
    for row in rows:
        say(_line(row) if isinstance(row, TaskSpec) else f"{row[0]}: {row[1]}")
    say("\nkeys of every task: base, " + ", ".join(field.name for field in fields(TaskSpec)))
    say("sources: " + ", ".join(SOURCES))
    say("layouts of source hub: " + ", ".join(LAYOUTS))
    say("analyzers: " + ", ".join(ANALYZERS))
    return 0


Broken = tuple[str, str]  # name and error of a file that cannot be read on this machine


def _of_suite(root: Path, name: str) -> list[TaskSpec | Broken]:
    file = named_file(root, "suites", name)
    return list(suite_tasks(suite_spec(file), file.resolve().parent.parent))


def _all(root: Path) -> list[TaskSpec | Broken]:
    files = sorted((root / "tasks").glob("*.yaml"), key=lambda file: file.stem)
    if not files:
        raise ConfigError(f"no task file in {root}/tasks; run in the checkout or give --configs")
    rows: list[TaskSpec | Broken] = []
    for file in files:
        try:
            rows.append(load_task(root, file.stem))
        except ConfigError as error:
            rows.append((file.stem, str(error)))
    return rows


def _facts(row: TaskSpec | Broken) -> dict[str, Any]:
    if not isinstance(row, TaskSpec):
        return {"name": row[0], "error": row[1]}
    facts: dict[str, Any] = {key: getattr(row, key) for key in SHOWN}
    return {**facts, "queries": expected_queries(row)}


def _line(task: TaskSpec) -> str:
    """Name, language, queries, what is measured, and the trap as far as it fits."""
    queries = expected_queries(task)
    parts = [
        task.language or "language unstated",
        "queries not stated" if queries is None else f"{queries:,} queries",
        task.measures or task.title or task.source,
    ]
    trap = task.trap if len(task.trap) <= TRAP_WIDTH else f"{task.trap[:TRAP_WIDTH].rstrip()}…"
    return f"{task.name}: {'; '.join(parts)}" + (f" | trap: {trap}" if trap else "")

"""`rerank tasks`: the tasks of the configs folder, with sources, analyzers and keys."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from jobs.config import load_task
from jobs.console import say
from rerank.analyzers import ANALYZERS
from rerank.errors import ConfigError
from rerank.sources import SOURCES
from rerank.tasks import TaskSpec


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configs", default="configs", help="the configs folder")


def run(arguments: argparse.Namespace) -> int:
    root = Path(arguments.configs)
    files = sorted((root / "tasks").glob("*.yaml"))
    if not files:
        raise ConfigError(f"no task file in {root}/tasks; run in the checkout or give --configs")
    for file in files:
        try:
            task = load_task(root, file.stem)
        except ConfigError as error:
            say(f"{file.stem}: {error}")
            continue
        say(f"{task.name}: {task.language or 'language unstated'}; {task.title or task.source}")
    say("\nkeys of every task: " + ", ".join(field.name for field in fields(TaskSpec)))
    say("sources: " + ", ".join(SOURCES))
    say("analyzers: " + ", ".join(ANALYZERS))
    return 0

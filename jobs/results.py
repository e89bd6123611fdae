"""`rerank results FILE...`: read published result files, list their scores, write strict JSON.

mteb writes bare NaN, which jq, JavaScript and strict parsers refuse; here it becomes null.
"""

from __future__ import annotations

import argparse
import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs.config import Suite
from jobs.console import say
from jobs.tables import number, table
from rerank.errors import ConfigError, InputError
from rerank.files.mteb_results import read_result, result_rows, strict_json
from rerank.files.published_results import PublishedScore, is_mteb_result, read_published
from rerank.store import Store
from rerank.suite.findings import compared_measures
from rerank.suite.imported import column_labels, imported_block, plain_mean
from rerank.suite.suites import ImportedResults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="TASK.json as mteb or reranker-simple-benchmark writes it, a JSON list of such rows, "
        "or a TSV or CSV table with a column `model` and a column a task",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help='print {"results": [one object a file, split and subset]} with every metric; of other '
        "forms one object a model, task and measure",
    )
    parser.add_argument(
        "--measure", default="", help="of a table without a column `measure`; else the one to list"
    )
    parser.add_argument(
        "--ignore", nargs="+", default=[], metavar="COLUMN", help="columns that are no task"
    )
    parser.add_argument(
        "--write",
        default="",
        metavar="OUT",
        help="write the one FILE back as strict JSON, with all its keys, null for NaN",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.write and len(arguments.files) > 1:
        raise ConfigError(
            f"--write {arguments.write} takes one result file, {len(arguments.files)} are given; "
            "write them one by one"
        )
    others = [name for name in arguments.files if not is_mteb_result(Path(name))]
    results = {name: read_result(Path(name)) for name in arguments.files if name not in others}
    if arguments.write:
        if others:
            raise ConfigError(f"--write is for a result of mteb, which {others[0]} is not")
        target = Path(arguments.write)
        Store(target.parent).write(target.name, strict_json(results[arguments.files[0]]))
    rows = [
        {"file": name, **row} for name, result in results.items() for row in result_rows(result)
    ]
    published = {
        name: read_published(Path(name), measure=arguments.measure, ignored=arguments.ignore)
        for name in others
    }
    if arguments.json:
        flat = [_flat(name, score) for name, scores in published.items() for score in scores]
        say(strict_json({"results": rows + flat}).decode("utf-8").rstrip("\n"))
        return 0
    if rows:
        say(listing(rows))
    for name, scores in published.items():
        say(published_listing(name, scores, arguments.measure))
    return 0


def _flat(name: str, score: PublishedScore) -> dict[str, Any]:
    return {
        "file": name,
        "model": score.model,
        "task_name": score.task,
        "split": score.split or None,
        "hf_subset": score.subset or None,
        "stage": score.stage or None,
        "measure": score.measure or None,
        "value": score.value,
        **score.facts,
    }


def published_listing(name: str, scores: Sequence[PublishedScore], asked: str = "") -> str:
    """A table a stage and measure: models, a column a task, the mean where none is missing.

    asked: the one measure to show; default: nDCG@10 where there is one, and what is no measure of
    ours (pairs per second).
    """
    if not scores:
        raise ConfigError(f"{name} holds no score; check the file")
    found = dict.fromkeys((score.stage, score.measure) for score in scores)
    kept = [pair for pair in found if _is_shown(pair[1], [m for _, m in found], asked)]
    if not kept:
        raise ConfigError(
            f"{name} has no {asked}; it has {', '.join(dict.fromkeys(m for _, m in found))}"
        )
    blocks = []
    for stage, measure in kept:
        mine = [s for s in scores if (s.stage, s.measure) == (stage, measure)]
        title = ", ".join(part for part in (name, stage, measure or "measure not stated") if part)
        blocks.append(f"{title}\n{_models_by_tasks(mine)}\n")
    return "\n".join(blocks)


def _is_shown(measure: str, known: Sequence[str], asked: str) -> bool:
    if asked:
        return measure == asked
    return measure == "nDCG@10" or "@" not in measure or "nDCG@10" not in known


def _models_by_tasks(scores: Sequence[PublishedScore]) -> str:
    labels = column_labels(scores)
    columns = list(dict.fromkeys(labels.values()))
    cells: dict[str, dict[str, float | None]] = {}
    for score in scores:
        label = labels[score.task, score.subset, score.split]
        cells.setdefault(score.model, {})[label] = score.value
    rows = []
    for model, values in cells.items():
        mine = [values.get(column) for column in columns]
        rows.append([model, *map(number, mine), number(plain_mean(mine))])
    return table(["model", *columns, "mean"], rows)


def published_scores(entry: ImportedResults) -> list[PublishedScore]:
    """The scores of all files of a suite's entry; InputError where a pattern finds none."""
    found: list[PublishedScore] = []
    for pattern in entry.files:
        names = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else [pattern]
        if not names:
            raise InputError(f"no file is named like {pattern}; correct `files` of `imported`")
        for name in names:
            found += read_published(
                Path(name),
                model=entry.model,
                measure=entry.measure,
                ignored=entry.ignored,
                mean=entry.mean,
            )
    return found


def listing(rows: list[dict[str, Any]]) -> str:
    """A line a (file, split, subset); the file only where there are several."""
    several = len({row["file"] for row in rows}) > 1
    names = ["task_name", "hf_subset", "split"] + (["file"] if several else [])
    cells = [[*(str(row[name]) for name in names), number(row["main_score"])] for row in rows]
    return table(["task", *names[1:], "main_score"], cells)


def imported_blocks(suite: Suite) -> list[dict[str, Any]]:
    """The suite's published results, read from their files; InputError, ConfigError where wrong."""
    measures = compared_measures(suite.spec)
    return [
        imported_block(
            entry,
            published_scores(entry),
            [task.name for task in suite.tasks],
            measures,
            f"suite '{suite.spec.name}', imported {number}",
        )
        for number, entry in enumerate(suite.spec.imported, 1)
    ]

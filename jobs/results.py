"""`rerank results FILE...`: read result files of MTEB, list their scores, write strict JSON.

mteb writes bare NaN, which jq, JavaScript and strict parsers refuse; here it becomes null.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from jobs.console import say
from jobs.tables import number, table
from rerank.errors import ConfigError
from rerank.files.mteb_results import read_result, result_rows, strict_json
from rerank.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="TASK.json as mteb writes it")
    parser.add_argument(
        "--json",
        action="store_true",
        help='print {"results": [one object a file, split and subset]} with every metric',
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
    results = {name: read_result(Path(name)) for name in arguments.files}
    if arguments.write:
        target = Path(arguments.write)
        Store(target.parent).write(target.name, strict_json(results[arguments.files[0]]))
    rows = [
        {"file": name, **row} for name, result in results.items() for row in result_rows(result)
    ]
    if arguments.json:
        say(strict_json({"results": rows}).decode("utf-8").rstrip("\n"))
    else:
        say(listing(rows))
    return 0


def listing(rows: list[dict[str, Any]]) -> str:
    """A line a (file, split, subset); the file only where there are several."""
    several = len({row["file"] for row in rows}) > 1
    names = ["task_name", "hf_subset", "split"] + (["file"] if several else [])
    cells = [[*(str(row[name]) for name in names), number(row["main_score"])] for row in rows]
    return table(["task", *names[1:], "main_score"], cells)

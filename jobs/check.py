"""`rerank check PATH`: what is missing, doubled or odd in a task's files; labels given away."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from jobs.config import load_task
from jobs.console import say
from rerank.checking import Finding, examine, exit_code
from rerank.checking.findings import LEVELS
from rerank.checking.loading import Loaded, load_files
from rerank.checking.loading import load_task as load_material
from rerank.checking.near_duplicates import SIMILAR
from rerank.checking.rows import Troubles, json_objects
from rerank.errors import ConfigError, InputError
from rerank.reporting.visible import clipped, visible
from rerank.reporting.wording import count
from rerank.tasks import TaskSpec

EPILOG = (
    "exit codes: 0 clean, facts, or warnings that leave the measures right; 1 a warning after "
    "which measures would be wrong (marked !: labels given away by the order or the ids, relevant "
    "documents missing from the corpus, no relevant document at all, judged queries without "
    "candidates, judgments of another collection, one id with several texts); 2 errors, "
    "which freezing refuses"
)
HEADS = {"error": "errors", "warning": "warnings", "fact": "facts"}
FILES = (".gz", ".json", ".jsonl", ".parquet", ".run", ".trec", ".tsv", ".txt")
SIDES = ("--qrels", "--corpus", "--queries")
SHOWN_EXAMPLE = 200  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "path",
        metavar="PATH",
        help="a task's YAML file or its name in the configs folder; a folder in BEIR layout; a "
        "frozen-candidates JSONL; a run or id-list file (with --qrels)",
    )
    parser.add_argument("--configs", default="configs", help="the configs folder, for a name")
    parser.add_argument(
        "--qrels", default="", metavar="FILE", help="judgments of a run or frozen file"
    )
    parser.add_argument("--corpus", default="", metavar="FILE", help="texts of a run's documents")
    parser.add_argument("--queries", default="", metavar="FILE", help="texts of a run's queries")
    parser.add_argument("--split", default="test", help="of a BEIR folder: qrels/SPLIT.tsv")
    parser.add_argument(
        "--similarity",
        type=float,
        default=SIMILAR,
        metavar="J",
        help="Jaccard similarity of shingles from which documents are near duplicates "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--json", action="store_true", help='print {"findings": [...], "exit_code": N}'
    )


def run(arguments: argparse.Namespace) -> int:
    if not 0 < arguments.similarity <= 1:
        raise ConfigError(f"--similarity is above 0 and at most 1, not {arguments.similarity:g}")
    loaded = loaded_from(arguments)
    findings = loaded.findings + examine(
        loaded.material, ordered=loaded.ordered, similarity=arguments.similarity
    )
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    code = exit_code(findings)
    if arguments.json:
        rows = [asdict(finding) for finding in findings]
        said = {"path": arguments.path, "findings": rows, "exit_code": code}
        say(json.dumps(said, ensure_ascii=False, indent=1, allow_nan=False))
    else:
        say(listing(findings, arguments.path))
    return code


def loaded_from(arguments: argparse.Namespace) -> Loaded:
    """What PATH stands for, read."""
    path = Path(arguments.path)
    if not path.exists() and (len(path.parts) > 1 or path.suffix in FILES):
        raise InputError(f"{path} does not exist; check the path, or give a task's name")
    sides = [arguments.qrels, arguments.corpus, arguments.queries]
    is_list = path.is_file() and path.suffix not in (".yaml", ".yml") and not _is_frozen(path)
    if not is_list and (any(sides[1:]) or (arguments.qrels and not path.is_file())):
        raise ConfigError(
            f"--qrels, --corpus and --queries belong to a run or id-list file, which "
            f"'{arguments.path}' is not; a task names its own"
        )
    for option, name in zip(SIDES, sides, strict=True):
        if name and not Path(name).is_file():
            raise InputError(f"{option} {name} is no file; check the path")
    if is_list:
        return load_files(path, *(Path(name) if name else None for name in sides))
    return load_material(task_of(arguments), stated=not path.is_dir())


def task_of(arguments: argparse.Namespace) -> TaskSpec:
    """The task of a YAML file, of a name, or of a folder or file without any."""
    path = Path(arguments.path)
    if path.is_dir():
        return _folder_task(path, arguments.split)
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        return TaskSpec(
            name=path.stem,
            source="frozen_jsonl",
            folder=str(path.parent),
            candidates=path.name,
            qrels=str(Path(arguments.qrels).absolute()) if arguments.qrels else "",
        )
    return load_task(Path(arguments.configs), arguments.path)


def _folder_task(folder: Path, split: str) -> TaskSpec:
    if (folder / "corpus.jsonl").is_file():
        return TaskSpec(name=folder.resolve().name, folder=str(folder), split=split)
    if (folder / "candidates.jsonl").is_file():
        return TaskSpec(name=folder.resolve().name, source="frozen_jsonl", folder=str(folder))
    raise ConfigError(
        f"{folder} holds neither corpus.jsonl (with queries.jsonl and judgments) nor "
        "candidates.jsonl; name the task's YAML file"
    )


def _is_frozen(path: Path) -> bool:
    """Does the first row bring a query's text and candidates, as frozen candidates do?"""
    if not path.name.removesuffix(".gz").endswith(".jsonl"):
        return False
    _, row = next(json_objects(path, Troubles()), ("", {}))
    return "candidates" in row and ("query" in row or "text" in row)


def listing(findings: list[Finding], name: str) -> str:
    """Findings by level, each with its count and first examples."""
    lines = []
    for level in LEVELS:
        mine = [finding for finding in findings if finding.level == level]
        if mine:
            lines += [f"{HEADS[level]} of {visible(name)}", *(_line(one) for one in mine), ""]
    counted = ", ".join(
        count(sum(one.level == level for one in findings), level) for level in LEVELS
    )
    return "\n".join([*lines, counted])


def _line(finding: Finding) -> str:
    number = "" if finding.count is None or finding.level == "fact" else f"({finding.count:,}) "
    mark = "! " if finding.harms else "- "
    line = f"  {mark}{number}{visible(finding.message)}"
    examples = [clipped(visible(text), SHOWN_EXAMPLE) for text in finding.examples]
    more = (finding.count or 0) - len(examples)
    if examples and more > 0:
        examples.append(f"and {more:,} more")
    return "\n".join([line, *(f"      {text}" for text in examples)])

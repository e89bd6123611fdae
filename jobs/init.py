"""`rerank init NAME`: a task folder with a working example, to be replaced by one's own data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from jobs.console import say
from jobs.example_task import EXAMPLES, README, Example
from jobs.suite_checks import NAME
from rerank.errors import ConfigError
from rerank.suite.suites import MACRO

MODELS = ("first_stage", "overlap")  # neither needs weights
ANALYZERS = {"ko": "mecab", "en": "english"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the task, its folder, its YAML files and its suite")
    parser.add_argument("--configs", default="configs", help="the configs folder")
    parser.add_argument(
        "--language",
        default="",
        choices=sorted(EXAMPLES),
        help="of the example, and the analyzer that goes with it (default: both languages)",
    )


def run(arguments: argparse.Namespace) -> int:
    root = Path(arguments.configs)
    check_name(arguments.name)
    texts = task_files(arguments.name, arguments.language)
    for model in MODELS:
        if not (root / f"models/{model}.yaml").exists():
            texts[f"models/{model}.yaml"] = f"adapter: {model}\n"
    write_new(root, texts)
    say(f"written: {root / 'tasks' / arguments.name} (corpus, queries, judgments, README.md)")
    say(next_steps(root, arguments.name, arguments.configs))
    return 0


def check_name(name: str) -> None:
    """ConfigError for a name that is no plain folder name: it could leave the configs folder."""
    if not NAME.fullmatch(name) or name == MACRO or name.endswith((".yaml", ".yml")):
        raise ConfigError(
            f"'{name:.80}' cannot be a task's name; use up to 100 letters, digits, dots, dashes "
            f"and underscores, and not '{MACRO}' or a file's name"
        )


def task_files(name: str, language: str) -> dict[str, str]:
    """Path below the configs folder -> text of every file of the example."""
    parts = [EXAMPLES[language]] if language else list(EXAMPLES.values())
    languages = language or ", ".join(EXAMPLES)
    folder = f"tasks/{name}"
    return {
        f"{folder}/corpus.jsonl": _jsonl(corpus_rows(parts)),
        f"{folder}/queries.jsonl": _jsonl(query_rows(parts)),
        f"{folder}/judgments.jsonl": _jsonl(judgment_rows(parts)),
        f"{folder}/README.md": README.format(name=name),
        f"tasks/{name}.yaml": task_yaml(name, languages, ANALYZERS.get(language, "mecab")),
        f"suites/{name}.yaml": suite_yaml(name),
    }


def corpus_rows(parts: list[Example]) -> list[dict[str, object]]:
    return [
        {"_id": doc_id, "title": title, "text": text}
        for part in parts
        for doc_id, (title, text) in part.documents.items()
    ]


def query_rows(parts: list[Example]) -> list[dict[str, object]]:
    return [
        {"_id": query_id, "text": text, "metadata": {"language": part.language}}
        for part in parts
        for query_id, text in part.queries.items()
    ]


def judgment_rows(parts: list[Example]) -> list[dict[str, object]]:
    return [
        {"query_id": query_id, "doc_id": doc_id, "grade": grade, "provenance": "synthetic"}
        for part in parts
        for query_id, graded in part.grades.items()
        for doc_id, grade in graded.items()
    ]


def task_yaml(name: str, languages: str, analyzer: str) -> str:
    return f"""\
# What the keys mean and which others there are: `rerank tasks`, and the README.
title: {name} (an example with synthetic labels; replace it)
description: Written by `rerank init` to show the layout; says nothing about real search
language: {languages}
licence: Apache-2.0  # of the example; write your data's own
source: beir
folder: {name}
qrels: judgments.jsonl
query_attributes: [language]  # keys of a query's metadata by which results are sliced

first_stage: bm25  # or run, with run: FILE, for the candidates of your own search
analyzer: {analyzer}
depth: 50  # candidates a query
"""


def suite_yaml(name: str) -> str:
    return f"""\
title: {name}
tasks: [{name}]
models: [{", ".join(MODELS)}]  # more: `rerank models`
baseline: {MODELS[0]}
measures: [nDCG@10, RR@10, R@10]
primary: nDCG@10
slices: [language]
"""


def write_new(root: Path, texts: Mapping[str, str]) -> None:
    """All files or none; ConfigError where one of them is there already."""
    there = [str(root / name) for name in texts if (root / name).exists()]
    if there:
        raise ConfigError(
            f"{there[0]} is there already ({len(there)} of {len(texts)} files are); nothing was "
            "written: choose another name, or remove them yourself"
        )
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)


def next_steps(root: Path, name: str, configs: str) -> str:
    elsewhere = "" if configs == "configs" else f" --configs {configs}"
    suite = root / "suites" / f"{name}.yaml"
    return (
        "next:\n"
        f"  rerank check {name}{elsewhere}  # counts, missing ids, duplicates, leaks\n"
        f"  rerank run {suite}  # freeze, replay two baselines without weights, report\n"
        f"then put your own rows into {root / 'tasks' / name}, and again"
    )


def _jsonl(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

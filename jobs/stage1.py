"""`rerank stage1 SUITE`: first stages compared, recall, precision, nDCG and F1 by analyzer.

No model takes part. Every task of the suite is searched with BM25 over each of `analyzers`; nothing
is injected. `--ids` writes what was found as id lists, which `first_stage: ids` reads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import metrics
from jobs.config import Suite
from jobs.console import say
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import number, table
from jobs.tokenising import tokenise_of
from rerank.analyzers import analyzer_versions
from rerank.errors import ConfigError
from rerank.first_stage import candidates
from rerank.first_stage.id_lists import write_id_lists
from rerank.first_stage.saved_index import index_of_corpus
from rerank.freezing import evaluated_queries
from rerank.sources import Collection, Query, load_collection
from rerank.store import Store
from rerank.suite.suites import MACRO
from rerank.tasks import TaskSpec

CUTOFFS = (1, 3, 5, 10, 50, 100)
MEASURES = ("R", "P", "nDCG", "F1")
DEPTH = 1000  # of the id lists

Found = Mapping[str, candidates.Found]  # by query id


@dataclass(frozen=True)
class Stage1:
    """One task searched with one analyzer. values: measure -> mean over the judged queries."""

    task: str
    analyzer: str
    packages: dict[str, str]
    queries: int
    documents: int
    values: dict[str, float | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--cutoffs",
        type=_positive,
        nargs="+",
        default=list(CUTOFFS),
        metavar="K",
        help=f"ranks at which to measure (default: {' '.join(map(str, CUTOFFS))})",
    )
    parser.add_argument(
        "--ids",
        default="",
        metavar="FOLDER",
        help="write FOLDER/TASK.ANALYZER.jsonl: ids best first, for first_stage: ids",
    )
    parser.add_argument(
        "--depth", type=_positive, default=DEPTH, help=f"ids a query (default: {DEPTH})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    quiet = bool(arguments.json)
    cutoffs = sorted(set(arguments.cutoffs))
    depth = max(cutoffs[-1], arguments.depth if arguments.ids else 0)
    results = []
    for spec in suite.tasks:
        collection = _with_corpus(spec)
        queries = evaluated_queries(collection, spec)
        for name in suite.spec.analyzers or (spec.analyzer,):
            one = replace(spec, analyzer=name)
            if not quiet:
                say(f"{spec.name}, {name}: {len(queries):,} queries")
            found = search(suite, store, one, collection, queries, depth, quiet=quiet)
            results.append(_measured(suite, one, collection, found, cutoffs))
            if arguments.ids:
                where = _write_ids(arguments.ids, one, found, arguments.depth)
                if not quiet:
                    say(f"{spec.name}, {name}: ids in {where}")
    say(as_json(results) if quiet else as_table(results, cutoffs))
    return 0


def search(
    suite: Suite,
    store: Store,
    spec: TaskSpec,
    collection: Collection,
    queries: dict[str, Query],
    depth: int,
    *,
    quiet: bool,
) -> Found:
    """BM25's `depth` best documents of every query; the index is read from the store or saved."""

    def told(message: str) -> None:
        if not quiet:
            say(f"{spec.name}, {spec.analyzer}: {message}")

    corpus = index_of_corpus(
        collection.documents,
        spec.analyzer,
        candidates.settings_of(spec),
        store,
        tokenise=tokenise_of(suite),
        progress=told,
    )
    stage = candidates.Stage(
        spec, collection, queries, candidates.FirstStageFiles(), lambda: corpus
    )
    found = candidates.search(stage, list(queries), [depth] * len(queries))
    return dict(zip(queries, found, strict=True))


def _with_corpus(spec: TaskSpec) -> Collection:
    collection = load_collection(spec)
    if collection.candidates is not None:
        raise ConfigError(
            f"task '{spec.name}' brings its own candidates and no corpus, so there is nothing to "
            "search; leave it out of tasks="
        )
    return collection


def _measured(
    suite: Suite, spec: TaskSpec, collection: Collection, found: Found, cutoffs: Sequence[int]
) -> Stage1:
    rows = [(q, d, score) for q, scores in found.items() for d, score in scores.items()]
    judged = [row for row in collection.judgments if row.query_id in found]
    names = [f"{measure}@{k}" for measure in MEASURES for k in cutoffs]
    evaluation = metrics.evaluate(
        metrics.Run(
            query_ids=np.array([row[0] for row in rows], dtype=object),
            doc_ids=np.array([row[1] for row in rows], dtype=object),
            scores=np.array([row[2] for row in rows], dtype=np.float64),
            empty=tuple(query_id for query_id, scores in found.items() if not scores),
        ),
        metrics.Judgments(
            query_ids=np.array([row.query_id for row in judged], dtype=object),
            doc_ids=np.array([row.doc_id for row in judged], dtype=object),
            grades=np.array([row.grade for row in judged], dtype=np.float64),
        ),
        names,
        metrics.Conventions(tie=suite.spec.tie, no_relevant=suite.spec.no_relevant),
    )
    means = {name: evaluation.mean(name) for name in names}
    return Stage1(
        task=spec.name,
        analyzer=spec.analyzer,
        packages=analyzer_versions(spec.analyzer),
        queries=len(evaluation.query_ids),
        documents=len(collection.documents),
        values={name: None if np.isnan(mean) else float(mean) for name, mean in means.items()},
    )


def _write_ids(folder: str, spec: TaskSpec, found: Found, depth: int) -> str:
    """Where the id lists of one task and analyzer now stand."""
    target, key = Store(folder), f"{spec.name}.{spec.analyzer}.jsonl"
    lists = {query_id: list(scores)[:depth] for query_id, scores in found.items()}
    target.write(key, write_id_lists(lists))
    return target.where(key)


def means_over_tasks(results: Sequence[Stage1]) -> list[Stage1]:
    """For each analyzer that searched every task, the plain mean of the tasks' values."""
    tasks = {result.task for result in results}
    means = []
    for name in dict.fromkeys(result.analyzer for result in results):
        mine = [result for result in results if result.analyzer == name]
        if len(tasks) > 1 and len(mine) == len(tasks):
            values = {key: _mean([result.values[key] for result in mine]) for key in mine[0].values}
            queries = sum(result.queries for result in mine)
            documents = sum(result.documents for result in mine)
            means.append(Stage1(MACRO, name, mine[0].packages, queries, documents, values))
    return means


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if len(defined) == len(values) else None


def f1_of_means(values: dict[str, float | None], k: int) -> float | None:
    """2PR / (P + R) of the mean P@k and the mean R@k, as published tables of analyzers have it.

    Not F1@k, the mean of each query's own F1 (the harmonic mean is not linear).
    """
    precision, recall = values[f"P@{k}"], values[f"R@{k}"]
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def as_table(results: Sequence[Stage1], cutoffs: Sequence[int]) -> str:
    """A line for each task, measure and analyzer; the cutoffs side by side."""
    everything = [*results, *means_over_tasks(results)]
    rows = [
        [
            f"{result.task} {measure} {result.analyzer}",
            *(number(result.values[f"{measure}@{k}"]) for k in cutoffs),
            str(result.queries),
        ]
        for task in dict.fromkeys(result.task for result in everything)
        for measure in MEASURES
        for result in everything
        if result.task == task
    ]
    head = ["task, measure, analyzer", *(f"@{k}" for k in cutoffs), "n"]
    return table(head, rows)


def as_json(results: Sequence[Stage1]) -> str:
    """The same numbers, unrounded, with the versions of what decided the tokens."""
    rows: list[dict[str, Any]] = []
    for result in [*results, *means_over_tasks(results)]:
        cutoffs = [int(key.partition("@")[2]) for key in result.values if key.startswith("F1@")]
        extra = {f"F1_of_means@{k}": f1_of_means(result.values, k) for k in cutoffs}
        rows.append({**vars(result), "values": {**result.values, **extra}})
    return json.dumps({"stage1": rows}, ensure_ascii=False, indent=1)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return value

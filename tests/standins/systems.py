"""Systems whose scores are written by hand, over a task of two candidates a query.

Each query has `good` (grade 1) and `bad` (grade 0) and a relevant document that no list holds, so
nDCG has one of two values, FIRST and LAST, with `good` on rank 1 and on rank 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rerank.freezing import freeze
from rerank.records import GroupScores
from rerank.replay import ShardJob, commit, read_groups, score_table
from rerank.runs import Run
from rerank.store import Store
from rerank.suite.evaluation import SystemEvaluation, evaluate_run, view_task
from rerank.suite.suites import SuiteSpec
from rerank.tasks import TaskSpec
from tests.conftest import write_jsonl

SECOND = 1 / math.log2(3)  # discount of rank 2
IDEAL = 1 + SECOND
FIRST, LAST = 1 / IDEAL, SECOND / IDEAL
SUITE = SuiteSpec(
    name="s",
    tasks=("one", "two"),
    models=("base", "new"),
    baseline="base",
    measures=("nDCG@10", "RR"),
    slices=("language", "failure"),
    samples=200,
)


def task_folder(
    folder: Path, queries: int, *, attributes: list[dict[str, str]] | None = None
) -> Path:
    """Query n has weight n + 1; the first is Korean, the others English, or as `attributes` say."""
    stated = attributes or [{"language": "ko" if n == 0 else "en"} for n in range(queries)]
    rows = [
        {
            "query_id": f"q{number}",
            "query": f"query {number}",
            "weight": float(number + 1),
            "attributes": stated[number],
            "candidates": [
                {
                    "document_id": "bad",
                    "text": "b",
                    "relevance_grade": 0,
                    "attributes": {"failure": "outdated"},
                },
                {"document_id": "good", "text": "g", "relevance_grade": 1},
            ],
        }
        for number in range(queries)
    ]
    write_jsonl(folder / "candidates.jsonl", rows)
    (folder / "qrels").write_text("".join(f"q{n} 0 absent 1\n" for n in range(queries)))
    return folder


def scored_system(
    root: Path,
    folder: Path,
    name: str,
    model: str,
    good: list[float | None],
    bad: float | None = 0.5,
    *,
    suite: SuiteSpec = SUITE,
    circumstances: dict[str, Any] | None = None,
    shard_pairs: int = 2000,
) -> SystemEvaluation:
    """Scores of `good` for each query and of `bad` for all, committed to a store in `root`.

    None: the pair has no score. circumstances: what the receipts say beside the scores.
    """
    rows = {f"q{number}": [bad, score] for number, score in enumerate(good)}
    return scored_rows(
        root,
        folder,
        name,
        model,
        rows,
        suite=suite,
        circumstances=circumstances,
        shard_pairs=shard_pairs,
    )


def scored_rows(
    root: Path,
    folder: Path,
    name: str,
    model: str,
    scores: Mapping[str, Sequence[float | None]],
    *,
    suite: SuiteSpec = SUITE,
    circumstances: dict[str, Any] | None = None,
    shard_pairs: int = 2000,
) -> SystemEvaluation:
    """Query id -> scores of its candidates in stage-1 order, committed and evaluated."""
    store = Store(root / "store")
    spec = TaskSpec(
        name=name,
        source="frozen_jsonl",
        folder=str(folder),
        qrels="qrels",
        shard_pairs=shard_pairs,
    )
    task = freeze(spec, store)
    run = Run(store, task, model, {"adapter": "by hand", "dtype": "float32", "attention": "none"})
    for shard in task.shards:
        job = ShardJob(run.key, run.fingerprint, task.folder, shard)
        groups = read_groups(store, job)
        results = [_scores(scores[group.query_id]) for group in groups]
        commit(store, job, score_table(groups, results), {}, circumstances or {"worker": {}})
    return evaluate_run(run, view_task(task), suite)


def _scores(row: Sequence[float | None]) -> GroupScores:
    return GroupScores(
        scores=np.array([np.nan if score is None else score for score in row]),
        tokens=np.full(len(row), 3, dtype=np.int32),
        truncated=np.zeros(len(row), dtype=bool),
        failures=tuple("out of memory" if score is None else None for score in row),
    )

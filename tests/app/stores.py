"""Stores for the app's tests: scores by hand, hostile texts, an evaluation by the product's code.

Task `one` has twelve queries with four candidates, task `two` four. `base` keeps the first stage's
order, `new` turns it round, `broken` gives one query of task `one` no score, `partial` is taken
out of task `two`. Candidate n has grade `GRADES[n]`; a fifth relevant document is no candidate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rerank.freezing import freeze
from rerank.records import ModelSpec
from rerank.replay import ShardJob, commit, read_groups, score_table
from rerank.runs import Run
from rerank.store import Store
from rerank.suite.aggregates import aggregates_key, write_aggregates
from rerank.suite.evaluation import SystemEvaluation, evaluate_run, view_task
from rerank.suite.findings import Findings, find
from rerank.suite.suites import GateRule, SuiteSpec
from rerank.tasks import TaskSpec
from tests.conftest import write_jsonl
from tests.standins.systems import _scores

HTML = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
MARKDOWN = "**bold** [link](javascript:window.hacked=1) `code` $x$ :red[red] # head"
RIGHT_TO_LEFT = "\u202eevil\u202c \u05e9\u05dc\u05d5\u05dd"
NUL = "before\x00after"
LONG = "긴 글 " * 4000
HOSTILE = (
    HTML,
    MARKDOWN,
    RIGHT_TO_LEFT,
    NUL,
    LONG,
    "| a | b |\n|---|---|",
    "</style></div>",
    "=1+1",
)
GRADES: dict[int, int | None] = {0: 0, 1: 2, 2: None, 3: 1}  # None: nobody judged it
QUERIES = {"one": 12, "two": 4}
SUITE = SuiteSpec(
    name="trial",
    title=f"Trial {HTML}",
    tasks=("one", "two"),
    models=("base", "new", "broken", "partial"),
    baseline="base",
    measures=("nDCG@10", "RR@10", "P@1"),
    slices=("language", "kind", "tied"),
    samples=200,
    min_slice_n=3,
    gate=(GateRule(challengers=("new",), max_drop=0.5), GateRule(max_failed_share=0.0)),
)
MODELS = (
    ModelSpec("base", "by hand", licence="MIT", recipe="verified"),
    ModelSpec("new", "by hand", licence="Apache-2.0", recipe="verified", parameters=0.5),
    ModelSpec("broken", "by hand", licence=f"CC {HTML}", parameters=4.0),
    ModelSpec("partial", "by hand"),
)


def query_ids(task: str) -> list[str]:
    """The third has an id that is hostile itself."""
    return [f"{task}-{n:02d}" if n != 2 else f"{task}-<b>&'\"" for n in range(QUERIES[task])]


def write_source(folder: Path, task: str) -> None:
    rows: list[dict[str, Any]] = []
    for n, query_id in enumerate(query_ids(task)):
        candidates = [
            {
                "document_id": f"d{rank}",
                "text": f"{HOSTILE[(n + rank) % len(HOSTILE)]} document {rank}",
                "retrieval_rank": rank + 1,
                "retrieval_score": 10.0 - rank,
                **({} if grade is None else {"relevance_grade": grade}),
            }
            for rank, grade in GRADES.items()
        ]
        rows.append(
            {
                "query_id": query_id,
                "query": f"query {n} {HOSTILE[n % len(HOSTILE)]}",
                "attributes": {"language": "ko" if n % 2 else "en", "kind": f"k{n % 3}"},
                "candidates": candidates,
            }
        )
    write_jsonl(folder / "candidates.jsonl", rows)
    lines = [{"query_id": query_id, "doc_id": "gone", "grade": 1} for query_id in query_ids(task)]
    write_jsonl(folder / "judgments.jsonl", lines)


def frozen(root: Path, task: str) -> Any:
    folder = root / "sources" / task
    write_source(folder, task)
    spec = TaskSpec(
        name=task,
        source="frozen_jsonl",
        folder=str(folder),
        qrels="judgments.jsonl",
        language="ko" if task == "one" else "en",
        shard_pairs=16,
        provenance="synthetic",
    )
    return freeze(spec, Store(root / "store"))


# model -> scores of a query's four candidates
ORDERS: dict[str, list[float]] = {
    "base": [4.0, 3.0, 2.0, 1.0],
    "new": [1.0, 4.0, 3.0, 2.0],
    "broken": [1.0, 1.0, 1.0, 0.5],
    "partial": [1.0, 2.0, 3.0, 4.0],
}


def committed(root: Path, task: Any, model: str, *, shards: int | None = None) -> Run:
    """The run's scores, of the first shards alone where a number is given."""
    store = Store(root / "store")
    identity = {"adapter": "by hand", "dtype": "float32", "attention": "none", "weights": model}
    run = Run(store, task, model, identity)
    store.write_json(
        f"{run.key}/run.json",
        {
            "task": task.name,
            "model": model,
            "fingerprint": run.fingerprint,
            "task_fingerprint": task.fingerprint,
            "identity": identity,
            "circumstances": {"platform": "test"},
        },
    )
    for shard in task.shards[:shards]:
        job = ShardJob(run.key, run.fingerprint, task.folder, shard)
        groups = read_groups(store, job)
        scores = [_query_scores(model, group.query_id) for group in groups]
        times = {"worker": {"host": "h"}, "started": 0.0, "finished": 2.0, "deaths": 0}
        table = score_table(groups, [_scores(row) for row in scores])
        commit(store, job, table, {}, times)
    return run


def _query_scores(model: str, query_id: str) -> list[float | None]:
    """`new` is worse on every fourth query; `broken` has no score on the first of task one."""
    if model == "broken" and query_id == "one-00":
        return [None, None, 1.0, 0.5]
    if model == "new" and query_id.endswith(("3", "7")):
        return [4.0, 1.0, 3.0, 2.0]
    return list(ORDERS[model])


def evaluated(root: Path, *, imported: list[dict[str, Any]] | None = None) -> Findings:
    """The whole trial: frozen, scored, evaluated, aggregates written."""
    systems: list[SystemEvaluation] = []
    for name in ("one", "two"):
        task = frozen(root, name)
        view = view_task(task)
        for model in ORDERS:
            systems.append(evaluate_run(committed(root, task, model), view, SUITE))
    findings = find(SUITE, systems)
    write_aggregates(Store(root / "store"), findings, MODELS, imported or [])
    leave_out(Store(root / "store"), "two", "partial")
    return findings


def leave_out(store: Store, task: str, system: str) -> None:
    """Take a system's task out of the aggregates: as if it had never been run on it."""
    key = f"{aggregates_key(SUITE.name)}/index.json"
    index = store.read_json(key)
    (found,) = [entry for entry in index["systems"] if entry["name"] == system]
    del found["runs"][task]
    for name in ("results", "systems", "unjudged"):
        place = f"{aggregates_key(SUITE.name)}/{index['stamp']}/{name}.parquet"
        table = store.read_table(place)
        gone = pc.and_(
            pc.is_in(table["task"], value_set=pa.array([task, "macro"])),
            pc.equal(table["system"], system),
        )
        store.write_table(place, table.filter(pc.invert(gone)))
    store.write_json(key, index)

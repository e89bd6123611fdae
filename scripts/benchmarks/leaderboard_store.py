"""A store as evaluate leaves it for very many systems, tasks and queries, written without scoring.

Aggregates are written for every system and task, with values that look like nDCG. One task is
really frozen, and two systems have scores of it, so that a query can be opened.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.config import load_suite
from jobs.freeze import frozen_tasks
from rerank.fingerprint import sha256_bytes
from rerank.frozen import FrozenTask
from rerank.schemas import table_of
from rerank.store import Store, parquet_bytes
from rerank.suite.aggregate_queries import RESAMPLES
from rerank.suite.aggregate_tables import DEPTHS, UNJUDGED_AT, table_of_rows
from rerank.suite.aggregates import VERSION, aggregates_key
from scripts.benchmarks.large_tasks import PROCESSES, QUERIES, Unsynced, write_large_suite

SUITE, STAMP, PRIMARY = "large", "0123456789abcdef", "nDCG@10"
MEASURES = (PRIMARY, "RR@10", "AP", "P@5", "R@5", "Success@1")
LANGUAGES, INTENTS = ("ko", "en", "mixed"), tuple(f"intent-{n}" for n in range(12))
LICENCES = ("MIT", "Apache-2.0", "CC-BY-NC-4.0", "")
SHARD_QUERIES, CANDIDATES = 100, 30  # of the task that is really frozen
REAL = "large"  # its name
Row = dict[str, Any]


def write_store(folder: Path, systems: int, tasks: int, queries: int) -> Path:
    """The store's folder; `queries` a task, a multiple of SHARD_QUERIES."""
    suite = write_large_suite(
        folder, queries // SHARD_QUERIES, SHARD_QUERIES, CANDIDATES, token_budget=10_000
    )
    root = folder / "store"
    store = Unsynced(root)
    (frozen,) = frozen_tasks(load_suite(suite), Store(root))
    names = system_names(systems)
    for system in names[:2]:
        _write_run(store, frozen, system)
    places = [REAL, *(f"task-{at:02d}" for at in range(1, tasks))]
    make = partial(_write_task, str(root), names, queries)
    with ProcessPoolExecutor(PROCESSES) as pool:
        means = list(pool.map(make, range(tasks), places))
    _write_tables(store, names, places, means, queries)
    store.write_json(f"{aggregates_key(SUITE)}/index.json", _index(names, places, frozen, queries))
    return root


def system_names(systems: int) -> list[str]:
    return ["first_stage", *(f"reranker-{at:02d}" for at in range(1, systems))]


def _key(name: str) -> str:
    return f"{aggregates_key(SUITE)}/{STAMP}/{name}.parquet"


def _write_task(root: str, systems: list[str], queries: int, at: int, task: str) -> np.ndarray:
    """Queries, values and resamples of one task; (systems, measures) means."""
    store, rng = Unsynced(Path(root)), np.random.default_rng(at)
    ids = pa.array([f"q{number:09d}" for number in range(queries)])
    store.write_table(_key(f"queries/{task}"), _queries(ids, queries, rng))
    hardness = rng.beta(2, 2, queries)
    primaries, means = [], []
    for strength in np.linspace(0.35, 0.8, len(systems)):
        noise = rng.normal(0, 0.18, queries)
        value = np.clip(np.round((hardness + strength) / 2 + noise, 3), 0, 1)
        columns: Row = {
            "query_id": ids,
            "failed": pa.array(np.zeros(queries, bool)),
            "truncated": pa.array(rng.random(queries) < 0.08),
            "tied_share": np.where(rng.random(queries) < 0.05, 0.1, 0.0),
        }
        every = [value]
        every += [np.clip(np.round(value * 20 + extra) / 20, 0, 1) for extra in range(1, 6)]
        columns |= {f"m:{name}": column for name, column in zip(MEASURES, every, strict=True)}
        table = pa.table(columns)
        store.write_table(_key(f"values/{task}/{systems[len(primaries)]}"), table)
        primaries.append(value)
        means.append([float(column.mean()) for column in every])
    found = np.array(primaries).mean(axis=1)
    spread = np.array(primaries).std(axis=1) / np.sqrt(queries)
    drawn = rng.normal(found, spread, (RESAMPLES, len(systems))).astype(np.float32)
    columns = {name: drawn[:, number] for number, name in enumerate(systems)}
    store.write_table(_key(f"resamples/{task}"), pa.table(columns))
    return np.array(means)


def _queries(ids: pa.Array, queries: int, rng: np.random.Generator) -> pa.Table:
    languages = rng.integers(0, len(LANGUAGES), queries).tolist()
    intents = rng.integers(0, len(INTENTS), queries).tolist()
    slices = [
        [f"language={LANGUAGES[one]}", f"intent={INTENTS[two]}"]
        for one, two in zip(languages, intents, strict=True)
    ]
    texts = [f"{QUERIES[number % len(QUERIES)]} 질의 {number}" for number in range(queries)]
    gold = rng.integers(0, 20, queries)
    return pa.table(
        {
            "query_id": ids,
            "query": pa.array(texts, pa.large_string()),
            "weight": np.ones(queries),
            "slices": pa.array(slices, pa.list_(pa.string())),
            "candidates": np.full(queries, CANDIDATES),
            "relevant": np.ones(queries, np.int64),
            "gold_rank": gold,
            "shard": np.arange(queries) // SHARD_QUERIES,
        }
    )


def _write_tables(
    store: Store, systems: list[str], tasks: list[str], means: list[np.ndarray], queries: int
) -> None:
    half = 0.004
    results, facts, compared, depths, golds, unjudged = ([] for _ in range(6))
    for task, table in zip(tasks, means, strict=True):
        for system, row in zip(systems, table.tolist(), strict=True):
            if (task, system) == (tasks[-1], systems[-1]):
                continue  # this system lacks this task
            results += [
                _result(task, system, measure, value, queries, half)
                for measure, value in zip(MEASURES, row, strict=True)
            ]
            facts.append(_facts(task, system, row[0], queries, systems.index(system)))
            unjudged += [
                {"task": task, "system": system, "k": k, "value": 0.3} for k in UNJUDGED_AT
            ]
        for system, row in zip(systems[1:], table[1:], strict=True):
            compared += _comparisons(task, system, row - table[0], queries, half)
        depths += [
            {"task": task, "depth": d, "coverage": 0.9, "recall": 0.8, "oracle": 0.9}
            for d in DEPTHS
        ]
        golds += [{"task": task, "rank": rank, "queries": queries // 20} for rank in range(20)]
    for name, rows in {
        "results": results,
        "systems": facts,
        "comparisons": compared,
        "depths": depths,
        "gold_ranks": golds,
        "unjudged": unjudged,
    }.items():
        store.write_table(_key(name), table_of_rows(name, rows))


def _result(task: str, system: str, measure: str, mean: float, queries: int, half: float) -> Row:
    return {
        **{"task": task, "system": system, "measure": measure, "mean": mean, "n": queries},
        **{"low": mean - half, "high": mean + half, "kind": "percentile", "degenerate": False},
        **{"weighted_mean": mean, "rank_best": 1, "rank_worst": 3, "beaten": 0.5},
    }


def _facts(task: str, system: str, mean: float, queries: int, at: int) -> Row:
    return {
        **{"task": task, "system": system, "run": _run(system), "pairs": queries * CANDIDATES},
        **{"failed_pairs": 0, "failed_queries": 0, "missing_queries": 0},
        **{"tied_share": 0.01, "tie_low": mean, "tie_high": mean},
        **{"truncated_share": 0.08, "truncated_queries": queries // 12},
        **{"oracle": 0.9, "headroom": 0.9 - mean, "recovered": 0.2},
        **{"replay_pps": 500.0 + at, "pps": 20_000.0 / (1 + at), "p95": 0.01 * (1 + at)},
        "load": "closed 1",
    }


def _comparisons(
    task: str, system: str, deltas: np.ndarray, queries: int, half: float
) -> list[Row]:
    slices = [("language", name) for name in LANGUAGES] + [("intent", name) for name in INTENTS]
    wholes = [(measure, "", "", d) for measure, d in zip(MEASURES, deltas.tolist(), strict=True)]
    parts = [(PRIMARY, attribute, value, wholes[0][3]) for attribute, value in slices]
    return [
        {
            **{"task": task, "challenger": system, "measure": measure, "attribute": attribute},
            **{"value": value, "n": queries, "mean": mean, "low": mean - half},
            **{"high": mean + half, "kind": "percentile", "degenerate": False},
            **{"p_value": 0.001, "corrected_p": 0.04, "agrees": True, "improved": queries // 2},
            **{"tied": 0, "regressed": queries // 2, "small": False, "left_out": 0},
            "warnings": [],
        }
        for measure, attribute, value, mean in [*wholes, *parts]
    ]


def _run(system: str) -> str:
    return f"run-of-{system}"


def _index(systems: list[str], tasks: list[str], frozen: FrozenTask, queries: int) -> Row:
    suite = {
        **{"name": SUITE, "title": "Generated", "description": "", "baseline": systems[0]},
        **{"primary": PRIMARY, "confidence": 0.95, "samples": 10_000, "seed": 17},
        **{"min_slice_n": 5, "interval": "percentile", "clusters": "", "test": "randomization"},
        **{"correction": "holm", "alpha": 0.05, "effect": 0.01, "slices": ["language", "intent"]},
        **{"tie": "trec", "tests": 1000},
    }
    found = [_system(name, tasks, at) for at, name in enumerate(systems)]
    del found[-1]["runs"][tasks[-1]]  # so that the rule of exclusion has something to do
    return {
        "version": VERSION,
        "stamp": STAMP,
        "suite": suite,
        "measures": list(MEASURES),
        "tasks": [_task(name, frozen.fingerprint, queries, at) for at, name in enumerate(tasks)],
        "systems": found,
        "gate": {"passed": None, "rules": []},
        "warnings": [],
    }


def _task(name: str, print_: str, queries: int, at: int) -> Row:
    return {
        **{"name": name, "title": "", "language": LANGUAGES[at % 3], "licence": "Apache-2.0"},
        **{"description": "", "fingerprint": print_, "queries": queries, "documents": queries},
        **{"pairs": queries * CANDIDATES, "judgments": queries, "provenance": {"human": queries}},
        **{"injected": 0, "depth": CANDIDATES, "first_stage": "bm25", "analyzer": "mecab"},
        **{"candidate_recall": 0.8, "candidate_coverage": 0.9, "no_relevant": 0},
        "unreachable": 0,
        "slices": [*(f"language={n}" for n in LANGUAGES), *(f"intent={n}" for n in INTENTS)],
    }


def _system(name: str, tasks: list[str], at: int) -> Row:
    return {
        **{"name": name, "adapter": "overlap", "description": "", "weights": ""},
        **{"licence": LICENCES[at % len(LICENCES)], "recipe": "verified"},
        **{"parameters": 0.05 * at if at else None, "is_baseline": at == 0},
        **{"dtype": "float32", "attention": "none", "max_length": None},
        "runs": {task: _run(name) for task in tasks},
    }


def _write_run(store: Store, frozen: FrozenTask, system: str) -> None:
    """Scores and receipts of every shard, as a replay commits them."""
    key, rng = f"runs/{frozen.name}/{system}/{_run(system)}", np.random.default_rng(len(system))
    for shard in frozen.shards:
        rows = frozen.candidates(shard)
        n = rows.num_rows
        scores = {
            "query_id": rows["query_id"],
            "doc_id": rows["doc_id"],
            "score": rng.normal(size=n),
            "tokens": np.full(n, 20, np.int32),
            "truncated": np.zeros(n, bool),
            "failure": [None] * n,
        }
        data, file = parquet_bytes(table_of("scores", scores)), f"{shard.name}.made.parquet"
        store.write(f"{key}/scores/{file}", data)
        receipt = {
            **{"shard": shard.number, "fingerprint": _run(system), "candidates": shard.content},
            **{"file": file, "sha256": sha256_bytes(data), "rows": n, "failed": 0, "worker": {}},
        }
        store.write_json(f"{key}/receipts/{shard.name}.json", receipt)
    record = {
        **{"task": frozen.name, "model": system, "fingerprint": _run(system)},
        **{"task_fingerprint": frozen.fingerprint, "identity": {"adapter": "overlap"}},
    }
    store.write_json(f"{key}/run.json", record)

"""Frozen tasks of very many pairs or shards, and runs that are complete but for one shard.

They are made shard by shard with the product's own functions, since a source of 10^7 pairs does not
fit into memory at once; and without a sync after each file, which would be most of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from jobs.config import load_suite
from jobs.driver import write_run_record
from jobs.freeze import frozen_tasks
from jobs.replay import placement_of, runs_of
from rerank.files.formats import Judgment
from rerank.filesystems import LocalFiles
from rerank.fingerprint import fingerprint, sha256_bytes
from rerank.freezing import (
    ROW_GROUP,
    Row,
    candidates_table,
    judgments_table,
    queries_table,
    spec_identity,
)
from rerank.frozen import CANDIDATES, FrozenTask, Shard, content_digest, frozen_key, remember
from rerank.ledger import Session
from rerank.replay import ShardJob, ShardWorker, WorkerSpec, commit
from rerank.schemas import table_of
from rerank.sources import Candidate, Query
from rerank.store import Store, parquet_bytes
from scripts.trials.suite_files import write_configs

PROCESSES = 2
# 40 documents and 8 queries of different lengths: 320 inputs that differ for a model
DOCUMENTS = [" ".join(f"w{word}" for word in range(length)) for length in range(1, 41)]
QUERIES = DOCUMENTS[:8]
# what a receipt says beside what `commit` puts there
CIRCUMSTANCES = ("attempt", "deaths", "session", "load_seconds", "started", "finished", "report",
                 "worker", "node", "recipe")  # fmt: skip


class Unsynced(Store):
    """A store on this machine whose writes are neither synced nor atomic: for making data."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.backend = _UnsyncedFiles(root)


class _UnsyncedFiles(LocalFiles):
    def write(self, key: str, data: bytes) -> None:
        target = self.root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def write_large_suite(
    folder: Path, shards: int, queries: int, candidates: int, token_budget: int
) -> Path:
    """A suite's file with the overlap model and one frozen task: so many shards, each of so many
    queries with so many candidates. The store is `folder`/store."""
    files = {
        "tasks/large.yaml": {"source": "frozen_jsonl", "folder": str(folder)},
        "models/overlap.yaml": {"adapter": "overlap"},
        "suites/large.yaml": {
            "tasks": ["large"],
            "models": ["overlap"],
            "baseline": "overlap",
            "store": str(folder / "store"),
            "token_budget": token_budget,
        },
    }
    suite = write_configs(folder, files) / "suites/large.yaml"
    freeze_large(suite, folder / "store", shards, queries, candidates)
    return suite


def freeze_large(suite: Path, root: Path, shards: int, queries: int, candidates: int) -> None:
    """What `rerank.freezing.freeze` would leave of such a source, but for the source's digests."""
    (spec,) = load_suite(suite).tasks
    recipe = {"spec": spec_identity(spec), "sources": {}}
    drafts = f"frozen/{spec.name}/draft"  # the fingerprint is known when all shards are
    make = partial(_write_shard, root, drafts, queries, candidates)
    with ProcessPoolExecutor(PROCESSES) as pool:
        facts = list(pool.map(make, range(shards), chunksize=-(-shards // (8 * PROCESSES))))
    asked = {key: query for number in range(shards) for key, query in _asked(number, queries)}
    judgments = [Judgment(key, "d0", 1, "synthetic", {}) for key in asked]
    side = {"queries": queries_table(asked), "judgments": judgments_table(judgments)}
    identity = {
        "recipe": recipe,
        "candidates": [shard["content"] for shard in facts],
        **{name: content_digest(table) for name, table in side.items()},
    }
    print_ = fingerprint(identity)
    store, task_folder = Unsynced(root), frozen_key(spec.name, print_)
    (root / drafts).rename(root / task_folder)
    digests = {
        f"{name}.parquet": sha256_bytes(store.write_table(f"{task_folder}/{name}.parquet", table))
        for name, table in side.items()
    }
    manifest = {
        "task": spec.name,
        "fingerprint": print_,
        "recipe_fingerprint": fingerprint(recipe),
        "identity": identity,
        "shards": facts,
        "files": digests,
        "counts": {"queries": len(asked), "pairs": len(asked) * candidates},
    }
    store.write_json(f"{task_folder}/manifest.json", manifest)
    remember(store, FrozenTask(store, task_folder, manifest))


def _asked(shard: int, queries: int) -> Iterator[tuple[str, Query]]:
    """The queries of a shard, ids in the order of their bytes."""
    for number in range(shard * queries, (shard + 1) * queries):
        key = f"q{number:09d}"
        yield key, Query(key, QUERIES[number % len(QUERIES)])


def _write_shard(
    root: Path, folder: str, queries: int, candidates: int, number: int
) -> dict[str, Any]:
    """Write one shard of candidates; its entry in the manifest."""
    asked = dict(_asked(number, queries))
    texts = [DOCUMENTS[at % len(DOCUMENTS)] for at in range(candidates)]
    listed = [
        Row(Candidate(f"d{at}", text, at + 1, None), injected=False)
        for at, text in enumerate(texts)
    ]
    table = candidates_table(list(asked), asked, dict.fromkeys(asked, listed))
    data = parquet_bytes(table, row_group_size=ROW_GROUP)
    shard = Shard(
        number=number,
        file=f"{CANDIDATES}/{number:05d}.parquet",
        rows=table.num_rows,
        queries=queries,
        characters=queries * sum(map(len, texts)),
        content=content_digest(table),
        sha256=sha256_bytes(data),
    )
    Unsynced(root).write(f"{folder}/{shard.file}", data)
    return asdict(shard)


def commit_all_but_last(suite_file: Path) -> Path:
    """Receipts and score files of all shards but the last, whose receipt's path is returned.

    The first shard is scored. All others hold one pair too, and get its score and circumstances.
    """
    suite = load_suite(suite_file)
    store = Unsynced(Path(suite.spec.store))
    (task,), (model,) = frozen_tasks(suite, store), suite.models
    (run_,) = runs_of(store, [task], model)
    write_run_record(run_)
    jobs = [ShardJob(run_.key, run_.fingerprint, task.folder, shard) for shard in task.shards]
    worker = ShardWorker(
        WorkerSpec(
            store_root=str(store.root),
            model=model,
            placement=placement_of(model),
            revision=str(run_.identity["weights"]),
            session=Session.new("inline"),
            token_budget=suite.spec.token_budget,
        )
    )
    worker(jobs[0])
    receipt = store.read_json(f"{run_.key}/receipts/{task.shards[0].name}.json")
    circumstances = {name: receipt[name] for name in CIRCUMSTANCES}
    row = run_.shard_scores(task.shards[0], receipt).to_pylist()[0]
    for job in jobs[1:-1]:
        ((query_id, _),) = _asked(job.shard.number, 1)
        columns = {name: [value] for name, value in {**row, "query_id": query_id}.items()}
        commit(store, job, table_of("scores", columns), receipt["plan"], circumstances)
    return Path(store.root) / run_.key / "receipts" / f"{task.shards[-1].name}.json"

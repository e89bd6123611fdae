"""The store's runs: how far each is, what failed, what it is and what it was made with."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.app.wording import Words
from rerank.errors import RerankError
from rerank.frozen import FrozenTask, open_frozen
from rerank.progress import COMPLETE
from rerank.reporting.grid import Grid, GridColumn, Value
from rerank.store import Store

RUN_KEYS = {"task", "model", "fingerprint", "task_fingerprint", "identity"}
RECEIPTS = 50  # of one run that are shown, the newest
FAILURES = 20
SILENT = 300.0  # seconds without news after which a replay may have died


@dataclass(frozen=True)
class RunState:
    """One run of the store, by listings. problem: why it cannot be told more."""

    task: str
    model: str
    fingerprint: str
    done: int = 0
    total: int = 0
    failed: int = 0
    evaluated: bool = False
    problem: str = ""


def tasks_with_runs(store: Store) -> list[str]:
    return list(dict.fromkeys([*store.folders("runs"), *store.folders("frozen")]))


def run_states(store: Store, task: str, evaluated: Mapping[str, str]) -> list[RunState]:
    """Every run of a task. evaluated: model -> fingerprint of the run that evaluate read."""
    found = []
    frozen: dict[str, FrozenTask] = {}
    for model in store.folders(f"runs/{task}"):
        for print_ in store.folders(f"runs/{task}/{model}"):
            key = f"runs/{task}/{model}/{print_}"
            record = store.read_record(f"{key}/run.json", RUN_KEYS)
            if record is None:
                found.append(RunState(task, model, print_, problem="run.json"))
                continue
            try:
                of = record["task_fingerprint"]
                frozen.setdefault(of, open_frozen(store, task, of))
            except (RerankError, FileNotFoundError) as error:
                found.append(RunState(task, model, print_, problem=str(error)))
                continue
            names = {f"{shard.name}.json" for shard in frozen[of].shards}
            receipts = names.intersection(store.files(f"{key}/receipts"))
            failures = names.intersection(store.files(f"{key}/failures")) - receipts
            found.append(
                RunState(
                    task,
                    model,
                    print_,
                    done=len(receipts),
                    total=len(names),
                    failed=len(failures),
                    evaluated=evaluated.get(model) == print_,
                )
            )
    return found


def runs_grid(states: list[RunState], words: Words) -> Grid:
    rows: list[dict[str, Value]] = [
        {
            "task": state.task,
            "model": state.model,
            "fingerprint": state.fingerprint,
            "done": state.done,
            "total": state.total,
            "failed": state.failed,
            "state": _state(state, words),
        }
        for state in states
    ]
    return Grid(
        name="runs",
        columns=(
            GridColumn("model", words.of("system")),
            GridColumn("state", words.of("state")),
            GridColumn("done", words.of("shards_done"), "count"),
            GridColumn("total", words.of("shards"), "count"),
            GridColumn("failed", words.of("shards_failed"), "count"),
            GridColumn("fingerprint", words.of("fingerprint"), "code"),
        ),
        rows=tuple(rows),
        tones={
            (at, "state"): "worse"
            for at, state in enumerate(states)
            if state.failed or state.problem
        },
    )


def _state(state: RunState, words: Words) -> str:
    if state.problem:
        return f"{words.of('unreadable')}: {state.problem}"
    if state.done < state.total:
        return words.of("incomplete_failed" if state.failed else "incomplete")
    return words.of("evaluated" if state.evaluated else "not_evaluated")


def progress_rows(store: Store, now: float | None = None) -> list[dict[str, Any]]:
    """The newest news of every model whose replay is not complete."""
    found = []
    for model in store.folders("progress"):
        records = [
            record
            for name in store.files(f"progress/{model}")
            if (record := store.read_record(f"progress/{model}/{name}", {"state", "updated"}))
        ]
        newest = max(records, key=lambda record: record["updated"], default=None)
        if newest is not None and newest["state"] != COMPLETE:
            silent = (time.time() if now is None else now) - newest["updated"]
            found.append({**newest, "model": model, "silent": silent > SILENT})
    return found


def progress_grid(rows: list[dict[str, Any]], words: Words) -> Grid:
    """What replays say of themselves, as far as they are not complete."""
    shown: list[dict[str, Value]] = [
        {
            "model": row["model"],
            "suite": str(row.get("suite", "")),
            "state": words.state(row["state"])
            + (f" ({words.of('silent')})" if row["silent"] else ""),
            "shards": f"{row.get('shards_done', 0):,} / {row.get('shards_total', 0):,}",
            "pairs": f"{row.get('pairs_done', 0):,} / {row.get('pairs_total', 0):,}",
            "message": str(row.get("message", "")),
        }
        for row in rows
    ]
    return Grid(
        name="progress",
        columns=(
            GridColumn("model", words.of("system")),
            GridColumn("state", words.of("state")),
            GridColumn("shards", words.of("shards")),
            GridColumn("pairs", words.of("pairs")),
            GridColumn("suite", words.of("suite")),
            GridColumn("message", words.of("message"), "prose"),
        ),
        rows=tuple(shown),
    )


def run_facts(store: Store, state: RunState) -> list[tuple[str, str]]:
    """What the run is (identity) and what it was made with (circumstances), as run.json has it."""
    record = store.read_record(
        f"runs/{state.task}/{state.model}/{state.fingerprint}/run.json", RUN_KEYS
    )
    facts: list[tuple[str, str]] = []
    for part in ("fingerprint", "task_fingerprint", "identity", "circumstances", "recipe"):
        facts += _flat(part, (record or {}).get(part))
    return facts


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            fact for key, part in sorted(value.items()) for fact in _flat(f"{name}.{key}", part)
        ]
    if value is None or value == "":
        return []
    return [(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]


def receipts_grid(store: Store, state: RunState, words: Words) -> Grid:
    """The newest receipts of a run: who scored the shard, in what time, with what failures."""
    folder = f"runs/{state.task}/{state.model}/{state.fingerprint}/receipts"
    rows: list[dict[str, Value]] = []
    for name in store.files(folder)[-RECEIPTS:]:
        receipt = store.read_record(f"{folder}/{name}", {"rows", "failed"})
        if receipt is None:
            rows.append({"shard": name, "worker": words.of("unreadable")})
            continue
        worker = receipt.get("worker") or {}
        timed = {"started", "finished"} <= receipt.keys()
        rows.append(
            {
                "shard": name.removesuffix(".json"),
                "rows": receipt["rows"],
                "failed": receipt["failed"],
                "truncated": receipt.get("truncated"),
                "seconds": receipt["finished"] - receipt["started"] if timed else None,
                "deaths": receipt.get("deaths"),
                "worker": " · ".join(
                    str(worker[key])
                    for key in ("host", "gpu", "device", "dtype")
                    if worker.get(key)
                ),
                "file": receipt.get("file"),
            }
        )
    return Grid(
        name=f"receipts-{state.model}",
        columns=(
            GridColumn("shard", words.of("shard")),
            GridColumn("rows", words.of("pairs"), "count"),
            GridColumn("failed", words.of("failed_pairs"), "count"),
            GridColumn("truncated", words.of("truncated_pairs"), "count"),
            GridColumn("seconds", words.of("seconds"), "number", 1),
            GridColumn("deaths", words.of("deaths"), "count"),
            GridColumn("worker", words.of("worker")),
            GridColumn("file", words.of("file"), "code"),
        ),
        rows=tuple(rows),
    )


def failure_messages(store: Store, state: RunState) -> list[str]:
    """Why shards have no receipt, each reason once with its first shard."""
    folder = f"runs/{state.task}/{state.model}/{state.fingerprint}"
    done = set(store.files(f"{folder}/receipts"))
    found: dict[str, str] = {}
    for name in store.files(f"{folder}/failures"):
        if name in done:
            continue
        record = store.read_record(f"{folder}/failures/{name}", {"message"})
        message = str(record["message"]) if record else name
        found.setdefault(message, name.removesuffix(".json"))
        if len(found) >= FAILURES:
            break
    return [f"{shard}: {message}" for message, shard in found.items()]

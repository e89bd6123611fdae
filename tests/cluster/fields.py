"""A store, a task and drivers in processes of their own, for tests that kill some of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from tests.conftest import ROOT, write_jsonl

LIMIT = 150  # seconds: nothing here may hang


class Field:
    """A store, a task file and a log of what was forwarded."""

    def __init__(self, folder: Path, task_file: Path) -> None:
        self.store = folder / "store"
        self.task_file = task_file
        self.log = folder / "log"
        self.environment: dict[str, str] = {}

    def start(
        self, engine: str, delay: float = 0.0, crash_once: str = "", **options: object
    ) -> subprocess.Popen:
        environment = {
            **os.environ,
            **self.environment,
            "FAULTY_LOG": str(self.log),
            "FAULTY_DELAY": str(delay),
            "FAULTY_CRASH_ONCE": crash_once,
        }
        words = [str(self.store), str(self.task_file), json.dumps({"engine": engine, **options})]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faulty", *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, engine: str, **options: object) -> tuple[int, str]:
        process = self.start(engine, **options)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode in (0, 1, 2, -9, -11), err[-2000:]
        return process.returncode, out + err

    def receipts(self, model: str = "*") -> dict[str, dict]:
        files = sorted(self.store.glob(f"runs/*/{model}/*/receipts/*.json"))
        return {file.stem: json.loads(file.read_text()) for file in files}

    def score_bytes(self) -> dict[str, bytes]:
        """Shard -> bytes of the score file that its receipt names."""
        (scores,) = self.store.glob("runs/*/*/*/scores")
        return {
            name: (scores / receipt["file"]).read_bytes()
            for name, receipt in self.receipts().items()
        }

    def rows(self) -> list[dict]:
        (scores,) = self.store.glob("runs/*/*/*/scores")
        return [
            row
            for receipt in self.receipts().values()
            for row in pq.read_table(scores / receipt["file"]).to_pylist()
        ]

    def forwarded(self) -> Counter[str]:
        return Counter(self.log.read_text().splitlines()) if self.log.exists() else Counter()

    def progress(self, model: str = "*") -> list[dict]:
        """The progress files, oldest first."""
        found = [json.loads(f.read_text()) for f in self.store.glob(f"progress/{model}/*.json")]
        return sorted(found, key=lambda value: value["started"])

    def attempts(self) -> list[str]:
        """Names of the files of the ledger."""
        return sorted(f.name for f in self.store.glob("runs/*/*/*/attempts/*/*.json"))


def listed_task(
    field: Field, name: str, queries: dict[str, dict[str, str]], **task: object
) -> Field:
    """Give the field a task of these texts: query id -> document id -> text."""
    rows = [
        {
            "query_id": query_id,
            "query": "x",
            "candidates": [
                {"document_id": doc_id, "text": text, "relevance_grade": 1}
                for doc_id, text in documents.items()
            ],
        }
        for query_id, documents in queries.items()
    ]
    folder = field.task_file.parent / f"{name}-source"
    write_jsonl(folder / "candidates.jsonl", rows)
    field.task_file = field.task_file.with_name(f"{name}.yaml")
    settings = {"source": "frozen_jsonl", "folder": str(folder), **task}
    field.task_file.write_text(json.dumps(settings))
    return field


def poisoned_task(make_field: Callable[..., Field], name: str, texts: dict[str, str]) -> Field:
    """Conformance 50: two queries; q1 has a, b, c and q2 has a, b. One shard holds them all."""
    queries = {
        query_id: {doc_id: texts.get(f"{query_id} {doc_id}", f"ok {doc_id}") for doc_id in doc_ids}
        for query_id, doc_ids in (("q1", "abc"), ("q2", "ab"))
    }
    return listed_task(make_field(name), name, queries)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.02)

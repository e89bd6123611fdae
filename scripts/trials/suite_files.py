"""A configs folder for a trial: one task of given size, served models, a suite, a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SLOT = "slot"  # the custom resource that stands in for a GPU


@dataclass(frozen=True)
class Size:
    """A task of `shards` shards, each of `queries` queries with `candidates` candidates."""

    shards: int
    queries: int = 4
    candidates: int = 10

    @property
    def pairs(self) -> int:
        return self.shards * self.queries * self.candidates


def write_suite(
    folder: Path, size: Size, models: Mapping[str, str], dashboard: str = "", **settings: Any
) -> Path:
    """The suite's file. models: name -> url of the server that scores for it."""
    source = folder / "source"
    source.mkdir(parents=True)
    with (source / "candidates.jsonl").open("w") as stream:
        for number in range(size.shards * size.queries):
            stream.write(json.dumps(_query(number, size.candidates)) + "\n")
    task = {
        "source": "frozen_jsonl",
        "folder": str(source),
        "shard_pairs": size.queries * size.candidates,
    }
    files = {
        "tasks/trial.yaml": task,
        "suites/trial.yaml": {
            "tasks": ["trial"],
            "models": list(models),
            "baseline": next(iter(models)),
            "store": str(folder / "store"),
            "token_budget": size.candidates,  # a batch is one request
            **settings,
        },
        "clusters/trial.yaml": {"dashboard": dashboard, "local": True},
    }
    for name, url in models.items():
        files[f"models/{name}.yaml"] = {
            "adapter": "http", "url": url, "dialect": "tei", "model": name, "concurrency": 1,
            "retries": 2, "resources": {SLOT: 1},
        }  # fmt: skip
    return write_configs(folder, files) / "suites/trial.yaml"


def write_configs(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> Path:
    """The folder `configs` in `folder`, with the files: path below it -> keys (JSON is YAML)."""
    configs = folder / "configs"
    for name, values in files.items():
        file = configs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    return configs


def _query(number: int, candidates: int) -> dict[str, Any]:
    listed = [
        {
            "document_id": f"d{number}-{at}",
            "text": f"document {at} for query {number}",
            "relevance_grade": int(at == 0),
        }
        for at in range(candidates)
    ]
    return {"query_id": f"q{number:06d}", "query": f"query {number}", "candidates": listed}

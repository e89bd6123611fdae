"""What the tests of drivers and workers share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.fields import Field


@pytest.fixture
def make_field(tmp_path: Path, make_task: Callable[..., Path]) -> Callable[..., Field]:
    def make(name: str, shard_pairs: int = 12, **task: object) -> Field:
        source = make_task(queries=24, documents=40)
        file = tmp_path / "tiny.yaml"
        settings = {"folder": str(source), "depth": 10, "shard_pairs": shard_pairs, **task}
        file.write_text(json.dumps(settings))
        folder = tmp_path / name
        folder.mkdir()
        return Field(folder, file)

    return make

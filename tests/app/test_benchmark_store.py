"""The store that `scripts/bench leaderboard` makes. Oracle: the app's own reading of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.app.material import query_material
from jobs.app.reading import Aggregates, read_index
from jobs.app.views.finding import Search, find_queries
from jobs.app.views.overview import overview
from jobs.app.views.scope import Scope
from jobs.app.wording import Words
from rerank.store import Store
from scripts.benchmarks.leaderboard_store import REAL, system_names, write_store


def test_a_small_one_is_read_as_an_evaluation(tmp_path: Path) -> None:
    """Five systems by rising strength, the last without the last task; a query can be opened."""
    pytest.importorskip("duckdb", reason="the app's own packages are not installed (extra app)")
    store = Store(write_store(tmp_path, systems=5, tasks=3, queries=200))
    data = Aggregates(store, read_index(store, "large"))
    names = system_names(5)
    assert data.systems == names
    grid = overview(data, Scope(tuple(data.tasks), tuple(names), data.primary), Words())
    means = {row["system"]: row["mean"] for row in grid.rows}
    assert means[names[-1]] is None
    ordered = [means[name] for name in names[:-1]]
    assert ordered == sorted(ordered)
    for task in data.tasks:
        value = data.values(task, names[1], data.primary).mean()
        assert value == pytest.approx(data.results()[task, names[1], data.primary]["mean"])
    _, total = find_queries(data, Search("", names[0], names[1], data.primary, "every"))
    assert total == 600
    material = query_material(data, REAL, "q000000123", names[:2])
    assert len(material.candidates) == len(material.scores[names[1]]) == 30

"""The trial's store, made once for all tests of the app that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.app.reading import Aggregates, read_index
from rerank.store import Store
from tests.app.stores import SUITE, evaluated


@pytest.fixture(scope="session")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder whose `store` holds the evaluated trial."""
    folder = tmp_path_factory.mktemp("trial")
    evaluated(folder)
    return folder


@pytest.fixture(scope="session")
def data(trial: Path) -> Aggregates:
    store = Store(trial / "store")
    return Aggregates(store, read_index(store, SUITE.name))

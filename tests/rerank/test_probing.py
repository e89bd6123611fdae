"""The token budget of a device: found by measuring a fake one that really runs out of memory."""

from __future__ import annotations

import subprocess
import sys
import weakref
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rerank.errors import ScoringError
from rerank.probing import (
    CPU_TOKEN_BUDGET,
    MAX_TOKEN_BUDGET,
    find_token_budget,
    probe,
)
from rerank.records import GroupScores, Item, Placement, QueryGroup
from rerank.scoring import score_groups
from tests.conftest import ROOT

CPU = Placement("cpu", "float32", "sdpa")
MIB = 2**20


class FakeDevice(TorchDispatchMode):
    """Counts the bytes of live tensor storages; raises torch.OutOfMemoryError above `capacity`.

    Also the `Memory` that probing reads.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.live, self.highest = capacity, 0, 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if torch.is_tensor(leaf):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        if self.live + size > self.capacity:
            raise torch.OutOfMemoryError("CUDA out of memory. (a fake device)")
        self.known.add(key)
        self.live += size
        self.highest = max(self.highest, self.live)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.live -= size

    def reset_peak(self) -> None:
        self.highest = self.live

    def peak(self) -> int:
        return self.highest

    def limit(self) -> int:
        return self.capacity


class Layers:
    """A model whose memory grows with rows x length (flash) or rows x length^2 (eager)."""

    def __init__(self, *, eager: bool = False, length: int = 256) -> None:
        self.eager, self.length, self.rows = eager, length, [0]

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        return [
            Item(
                min(len(text.split()), self.length), min(len(text.split()), self.length), False, ""
            )
            for group in groups
            for text in group.documents
        ]

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        rows, length = len(items), max(item.payload for item in items)
        self.rows.append(rows)
        states = torch.zeros(rows, length, 64)
        for _ in range(3):
            wide = torch.relu(states.repeat(1, 1, 4))
            if self.eager:
                scores = torch.zeros(rows, 8, length, length)
                scores = torch.relu(scores)
            states = wide[..., :64] + 1
        return states[:, 0, :1].numpy().astype(np.float32)

    def combine(self, *arguments: Any) -> list[GroupScores]:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {}


def largest_rows(model: Layers, capacity: int, length: int) -> int:
    """The true limit, by bisection: more rows never need less memory."""
    item = Item(length, length, False, "")

    def fits(rows: int) -> bool:
        with FakeDevice(capacity):
            try:
                model.forward([item] * rows)
            except torch.OutOfMemoryError:
                return False
        return True

    return bisect_left(range(1, 1_000), True, key=lambda rows: not fits(rows))


@pytest.mark.parametrize("eager", [False, True])
def test_the_budget_fits_and_uses_most_of_the_device(eager: bool) -> None:
    """Between 40 % (0.9, then down to a power of two) and 100 % of what truly fits; no halving."""
    model = Layers(eager=eager)
    true = largest_rows(Layers(eager=eager), 16 * MIB, 256) * 256
    device = FakeDevice(16 * MIB)
    with device:
        found = probe(model, device)
    assert 0.4 * true <= found.token_budget <= true
    assert found.length == 256
    assert found.halvings == 0
    assert found.token_budget & (found.token_budget - 1) == 0


def test_under_flash_the_budget_holds_at_every_length() -> None:
    """rows x length is what counts: the budget of length 256 also fits at 64."""
    model = Layers()
    device = FakeDevice(16 * MIB)
    with device:
        budget = probe(model, device).token_budget
        model.forward([Item(64, 64, False, "")] * (budget // 64))


def test_a_device_smaller_than_its_measurements_suggest_is_halved_for() -> None:
    """The verifying forward decides: the memory claims twice of what is there."""
    model = Layers()
    device = FakeDevice(12 * MIB)
    device.limit = lambda: 48 * MIB  # type: ignore[method-assign]
    with device:
        found = probe(model, device)
    assert found.halvings >= 1
    assert found.token_budget <= largest_rows(Layers(), 12 * MIB, 256) * 256


def test_measuring_stops_at_the_first_size_that_does_not_fit() -> None:
    """A device for fewer than 4 rows still gets a budget."""
    model = Layers()
    capacity = 3 * MIB
    rows = largest_rows(Layers(), capacity, 256)
    assert 2 <= rows < 4
    device = FakeDevice(capacity)
    with device:
        found = probe(model, device)
    assert 256 <= found.token_budget <= rows * 256


def test_an_input_that_does_not_fit_alone_is_an_error() -> None:
    """With what to do about it."""
    model = Layers()
    device = FakeDevice(MIB // 4)
    with device, pytest.raises(ScoringError, match="lower max_length"):
        probe(model, device)


def test_a_huge_device_is_capped() -> None:
    """So that cards of different sizes make the same batches."""
    model = Layers(length=8)
    device = FakeDevice(2**50)
    with device:
        found = probe(model, device)
    assert found.token_budget == MAX_TOKEN_BUDGET


def test_the_cpu_is_not_probed() -> None:
    """A constant, so that every CPU makes the same batches, and the model is not run for it."""
    model = Layers()
    assert find_token_budget(model, [], CPU) == CPU_TOKEN_BUDGET
    assert model.rows == [0]


def test_the_budget_does_not_depend_on_the_groups() -> None:
    """Workers that start with other shards must agree."""
    groups = [QueryGroup("q", "a", ("d",), ("b",), (1,))]
    budgets = []
    for given in ([], groups):
        device = FakeDevice(16 * MIB)
        with device:
            budgets.append(find_token_budget(Layers(), given, CPU, memory=device))
    assert budgets[0] == budgets[1]


def test_memory_of_a_failed_forward_is_gone_before_the_halves_run() -> None:
    """The error's traceback pins the activations; kept, the halves would not fit either."""

    class Scoring(Layers):
        def combine(self, groups: Any, items: Any, outputs: Any, failures: Any) -> Any:
            assert all(output is not None for output in outputs)
            n = len(outputs)
            empty = np.zeros(n)
            return [GroupScores(empty, empty, empty, (None,) * n)]

    rows = largest_rows(Layers(), 12 * MIB, 256)
    model = Scoring()
    texts = ("a " * 256,) * (rows + 1)
    names = tuple(map(str, range(rows + 1)))
    group = QueryGroup("q", "q", names, texts, tuple(range(rows + 1)))
    with FakeDevice(12 * MIB):
        _, report = score_groups(model, [group], 256 * (rows + 1))
    assert report.oom_halvings == 1


def test_asking_whether_memory_ran_out_never_imports_torch() -> None:
    """A weightless run stays light."""
    code = (
        "import sys; from rerank.probing import is_out_of_memory, release_memory; "
        "assert is_out_of_memory(MemoryError()); "
        "assert not is_out_of_memory(RuntimeError('CUDA out of memory')); release_memory(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)

"""scripts/bench: every row of its table is a command; a ratio is of the medians over rounds."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from scripts.benchmarks.__main__ import BENCHMARKS
from scripts.benchmarks.models import Measured, fastest, figures

REPORT = SimpleNamespace(padding_share=0.25, tokens=600, reused_tokens=400, pairs=10)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_command(name: str) -> None:
    """--help goes through the module's own arguments."""
    command = [sys.executable, "-m", "scripts.benchmarks", name, "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"usage: scripts/bench {name}" in answer.stdout
    assert "--rounds" in answer.stdout


def test_a_ratio_is_of_medians_with_the_peers_best_batch_size() -> None:
    """Batch size 16 was given up after the first round, though it was the fastest then."""
    ours = [(30.0, 15.0), (10.0, 5.0), (20.0, 10.0)]
    peer = {
        4: [(10.0, 9.0), (12.0, 9.0), (11.0, 9.0)],
        8: [(15.0, 8.0), (5.0, 8.0), (9.0, 8.0)],
        16: [(99.0, 99.0)],
    }
    assert fastest(peer, "cpu") == (4, 8)
    row = figures(Measured(1_000, ours, peer, 1e-6, REPORT), "cpu")
    assert (row["ours"], row["peer"], row["batch_size"]) == (20.0, 11.0, 4)
    assert row["ratio"] == pytest.approx(20 / 11, abs=1e-3)
    assert (row["wall_ours"], row["wall_peer"]) == (10.0, 9.0)
    assert (row["tokens_per_second"], row["shared_share"]) == (1_200, 0.4)
    assert figures(Measured(1_000, ours, peer, 1e-6, REPORT), "cuda")["ratio"] == 1.111

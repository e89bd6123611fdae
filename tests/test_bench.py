"""scripts/bench: every row of its table is a command; a ratio is of the medians over rounds."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.benchmarks import metrics as metrics_benchmark
from scripts.benchmarks.__main__ import BENCHMARKS
from scripts.benchmarks.evaluation_data import write_collection
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


def test_the_metrics_benchmark_runs_and_checks_itself() -> None:
    """Small: both ways agree on every value, and the last line holds the figures alone."""
    command = [sys.executable, "-m", "scripts.benchmarks", "metrics", "--rounds", "1"]
    command += ["--queries", "40", "--candidates", "12", "--deep", "30"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    last = json.loads(answer.stdout.splitlines()[-1])
    assert list(last) == [
        "whole_speedup_over_pytrec_eval",
        "measures_speedup_over_pytrec_eval",
        "bootstrap_scipy_units",
        "whole_speedup_over_row_by_row",
        "join_to_values_speedup",
        "evaluate_speedup_with_tie_ranges",
        "ranked_lists_speedup",
        "bootstrap_scipy_percentile_units",
        "peak_gib",
    ]
    assert all(value > 0 for value in last.values())


def test_metric_figures_are_ratios_of_medians() -> None:
    """Three rounds by hand; the peak is left out where it was not measured."""
    columns = {
        "ours, whole": (1.0, 2.0, 9.0),
        "pytrec_eval, rows": (5.0, 12.0, 10.0),
        "pytrec_eval, columns": (4.0, 4.0, 4.0),
        "ours, measures": (0.5, 0.25, 0.125),
        "ours, of ranked lists": (0.3, 0.2, 0.1),
        "ours, evaluate": (2.0, 2.0, 2.0),
        "ours, join to values": (1.5, 1.5, 1.5),
        "pytrec_eval, evaluate": (3.0, 2.0, 9.0),
        "ours, bootstrap": (4.0, 5.0, 3.0),
        "scipy, BCa": (0.5, 0.1, 2.0),
        "scipy, percentile": (1.0, 1.0, 1.0),
    }
    assert tuple(columns) == metrics_benchmark.WAYS
    rounds = [{way: column[at] for way, column in columns.items()} for at in range(3)]
    assert metrics_benchmark.figures(rounds, None) == {
        "whole_speedup_over_pytrec_eval": 4 / 2,
        "measures_speedup_over_pytrec_eval": 3 / 0.25,
        "bootstrap_scipy_units": 4 / 0.5,
        "whole_speedup_over_row_by_row": 10 / 2,
        "join_to_values_speedup": 3 / 1.5,
        "evaluate_speedup_with_tie_ranges": 3 / 2,
        "ranked_lists_speedup": 3 / 0.2,
        "bootstrap_scipy_percentile_units": 4 / 1,
    }
    assert metrics_benchmark.figures(rounds, 1.25)["peak_gib"] == 1.25


@pytest.mark.parametrize("measure", ["nDCG@10", "AP"])
def test_a_wrong_value_stops_the_benchmark(measure: str) -> None:
    """One value off by 1e-9 fails against pytrec_eval and against the written formula."""
    listed = {"q1": {"a": 0.9, "b": 0.5, "c": 0.5}}
    judged = {"q1": {"b": 1, "c": 2, "d": 1}}
    ideal = 2 + 1 / math.log2(3) + 1 / 2
    right = {"nDCG@10": (2 / math.log2(3) + 1 / 2) / ideal, "AP": (1 / 2 + 2 / 3) / 3}
    metrics_benchmark.check_formulas({"q1": right}, listed, judged)
    metrics_benchmark.check_values({"q1": right}, {"q1": right})
    wrong = {"q1": {**right, measure: right[measure] + 1e-9}}
    with pytest.raises(AssertionError):
        metrics_benchmark.check_formulas(wrong, listed, judged)
    with pytest.raises(AssertionError):
        metrics_benchmark.check_values(wrong, {"q1": right})


def test_the_benchmarks_data_are_what_they_say(tmp_path: Path) -> None:
    """Every document once in a query, 6 of 8 judged ones among the candidates, some ties."""
    run, qrels = write_collection(tmp_path, 30, 51)
    listed = metrics_benchmark.from_rows(run, "score")
    judged = metrics_benchmark.from_columns(qrels, "grade")
    assert len(listed) == len(judged) == 30
    for query in listed:
        assert (len(listed[query]), len(judged[query])) == (51, 8)
        assert len(listed[query].keys() & judged[query].keys()) == 6
    assert any(len(set(scores.values())) < 51 for scores in listed.values())

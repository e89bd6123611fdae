"""`rerank plan`. Oracle: sums by hand over texts of known length and receipts of known seconds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from jobs import plan
from rerank.errors import ConfigError
from rerank.frozen import open_frozen
from rerank.records import ModelSpec
from rerank.store import Store
from rerank.suite.plan import (
    ESTIMATED,
    MEASURED,
    UNKNOWN,
    Figure,
    Machine,
    Speed,
    characters_per_token,
    hours_of,
    plan_model,
    tokens_of,
    total,
)
from tests.conftest import write_jsonl

H100 = Machine("H100", 989.0, utilisation=0.5, price_per_hour=3.0)
COMMIT = "0" * 40
BIG = ModelSpec("big", "pair_encoder", device="cuda", num_gpus=2, parameters=8.0)


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A suite of one task: two queries of 10 characters, each with 2 documents of 100; Korean."""
    write_jsonl(
        tmp_path / "source/candidates.jsonl",
        [
            {
                "query_id": query_id,
                "query": "x" * 10,
                "candidates": [
                    {"document_id": f"{query_id}-{n}", "text": f"{n}" * 100, "relevance_grade": n}
                    for n in range(2)
                ],
            }
            for query_id in ("q1", "q2")
        ],
    )
    task = {"source": "frozen_jsonl", "folder": "../../source", "language": "ko", "shard_pairs": 2}
    suite = {
        "tasks": ["t"],
        "models": ["first_stage", "big"],
        "store": str(tmp_path / "store"),
    }
    big = {
        "adapter": "pair_encoder", "weights": "o/big", "weights_from": "hub", "revision": COMMIT,
        "device": "cuda", "dtype": "bfloat16", "attention": "sdpa", "num_gpus": 2,
        "parameters": 8.0,
    }  # fmt: skip
    files = {
        "tasks/t.yaml": task,
        "suites/s.yaml": suite,
        "models/big.yaml": big,
        "models/first_stage.yaml": {"adapter": "first_stage"},
    }
    for name, value in files.items():
        file = tmp_path / "configs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    return tmp_path / "configs/suites/s.yaml"


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    plan.add_arguments(parser)
    return parser.parse_args(list(words))


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert plan.run(arguments(*words, "--json")) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def freeze(suite: Path) -> Store:
    from jobs.config import load_suite
    from rerank.freezing import freeze as freeze_task

    loaded = load_suite(suite)
    store = Store(loaded.spec.store)
    for task in loaded.tasks:
        freeze_task(task, store)
    return store


def test_a_task_that_is_not_frozen_is_named_and_nothing_is_written(
    configs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is not frozen on the way."""
    found = planned(capsys, str(configs))
    assert found["parts"] == []
    assert "task 't' is not frozen" in found["not_frozen"][0]
    assert not (tmp_path / "store").exists()


def test_an_estimate_from_parameters(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4 pairs of (10 + 100) characters at 1.9 a token and 4 more; 2 x 8e9 x tokens at 35 % of 989
    TFLOP/s on 2 GPUs; no weights are fetched (the hub id does not exist)."""
    freeze(configs)
    found = planned(capsys, str(configs), "price_per_hour=3", "models=[first_stage,big]")
    (part,) = [part for part in found["parts"] if part["model"] == "big"]
    assert (part["pairs"], part["pairs_left"], part["shards"], part["shards_left"]) == (4, 4, 2, 2)
    tokens = 4 * (110 / 1.9 + 4)
    assert part["tokens"]["value"] == pytest.approx(tokens)
    assert (part["tokens"]["basis"], part["tokens"]["source"]) == (
        ESTIMATED,
        "1.9 characters a token (ko)",
    )
    hours = 2 * 8e9 * tokens / (989e12 * 0.35 * 2) / 3600
    assert part["hours"]["value"] == pytest.approx(hours)
    assert part["gpu_hours"]["value"] == pytest.approx(2 * hours)
    assert part["cost"]["value"] == pytest.approx(3 * 2 * hours)
    assert part["cost"]["basis"] == ESTIMATED
    assert "8 billion parameters at 35% of 989 TFLOP/s (H100)" in part["hours"]["source"]
    assert found["total"]["cost"]["value"] == pytest.approx(3 * 2 * hours)


def receipt(number: int, seconds: float, device: str = "cuda", deaths: int = 0) -> dict[str, Any]:
    return {
        "shard": number, "rows": 2, "tokens": 60, "started": 1000.0, "finished": 1000.0 + seconds,
        "deaths": deaths, "worker": {"device": device},
    }  # fmt: skip


def test_receipts_of_the_same_model_are_measured(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another recipe's run: 2 pairs, 60 tokens in 9 s, so 4 pairs are 120 tokens in 18 s. A shard
    whose process died, and one scored on CPUs, say nothing."""
    store = freeze(configs)
    for number, value in enumerate(
        [receipt(0, 9.0), receipt(1, 500.0, deaths=1), receipt(2, 500.0, device="cpu")]
    ):
        store.write_json(f"runs/t/big/other/receipts/{number:05d}.json", value)
    found = planned(capsys, str(configs))
    (part,) = [part for part in found["parts"] if part["model"] == "big"]
    assert part["tokens"] == {
        "value": 120.0, "basis": MEASURED, "source": "tokens of its receipts"
    }  # fmt: skip
    assert part["hours"]["value"] == pytest.approx(18 / 3600)
    assert part["hours"]["basis"] == MEASURED
    assert part["gpu_hours"]["value"] == pytest.approx(36 / 3600)
    assert part["cost"] == {"value": None, "basis": UNKNOWN, "source": "no price_per_hour"}


def test_the_table_marks_estimates(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """~ before what is estimated, its assumptions below; the first stage needs no GPU."""
    freeze(configs)
    assert plan.run(arguments(str(configs), "--gpu", "L4", "--utilisation", "0.2")) == 0
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if line.startswith("big ")]
    assert line.split()[1:4] == ["4", "of", "4"]
    assert "~248" in line
    assert "~ 8 billion parameters at 20% of 121 TFLOP/s (L4)" in said
    assert "no cost: give price_per_hour=" in said


def test_what_is_scored_is_not_planned_again(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a replay of the first stage nothing of it is left, and the total is the other model."""
    from jobs.__main__ import main

    freeze(configs)
    assert main(["replay", str(configs), "models=[first_stage]"]) == 0
    capsys.readouterr()
    found = planned(capsys, str(configs))
    left = {part["model"]: (part["pairs_left"], part["shards_left"]) for part in found["parts"]}
    assert left == {"first_stage": (0, 0), "big": (4, 2)}
    (total_of,) = [row for row in found["models"] if row["model"] == "first_stage"]
    assert total_of["hours"] == {"value": 0.0, "basis": MEASURED, "source": ""}


def test_without_receipts_and_parameters_hours_are_unknown(configs: Path) -> None:
    """They are not guessed, and the source says what to do."""
    store = freeze(configs)
    (print_,) = [name for name in store.folders("frozen/t") if name != "current"]
    task = open_frozen(store, "t", print_)
    odd = ModelSpec("odd", "pair_encoder", weights="o/odd", device="cuda")
    (part,) = plan_model(store, [task], odd, None, H100)
    assert (part.hours.value, part.hours.basis) == (None, UNKNOWN)
    assert "parameters" in part.hours.source


def test_the_speed_of_other_tasks_is_an_estimate(configs: Path) -> None:
    """30 tokens a second elsewhere."""
    store = freeze(configs)
    (print_,) = [name for name in store.folders("frozen/t") if name != "current"]
    task = open_frozen(store, "t", print_)
    tokens = tokens_of(task, BIG, 4, 400, Speed())
    hours = hours_of(BIG, 4, tokens, {"t": Speed(), "u": Speed(10, 300, 10.0)}, "t", H100)
    assert hours.basis == ESTIMATED
    assert hours.value == pytest.approx(4 * (110 / 1.9 + 4) / 30 / 3600)


@pytest.mark.parametrize(
    ("language", "factor"), [("ko", 1.9), ("ko, en", 2 / (1 / 1.9 + 1 / 4.1)), ("de", 3), ("", 3)]
)
def test_factors_of_languages(language: str, factor: float) -> None:
    """Two languages in equal parts: the tokens of both are added, not their factors."""
    assert characters_per_token(language) == pytest.approx(factor)


def test_sums_say_the_weakest_basis() -> None:
    """One unknown part makes the sum unknown, one estimate makes it an estimate."""
    measured, estimated = Figure(1.0, MEASURED, "a"), Figure(2.0, ESTIMATED, "b")
    assert total([measured, measured]) == Figure(2.0, MEASURED, "a")
    assert total([measured, estimated]) == Figure(3.0, ESTIMATED, "a; b")
    assert total([measured, Figure(None, UNKNOWN, "c")]).value is None


@pytest.mark.parametrize(
    "word", ["price_per_hour=-1", "price_per_hour=cheap", "price_per_hour=.nan"]
)
def test_a_price_that_is_none(configs: Path, word: str) -> None:
    with pytest.raises(ConfigError, match="price_per_hour must be a price"):
        plan.run(arguments(str(configs), word))

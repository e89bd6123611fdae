"""`rerank measure` and `rerank frontier`. Oracles: the evaluation of the same runs, a count of the
forward calls, receipts of known seconds, and real data where this machine has them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs import frontier, measure, plan
from jobs.__main__ import main
from jobs.config import load_suite
from jobs.evaluate import findings_of
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from rerank.efficiency.facts import efficiency_facts
from rerank.efficiency.results import newest, write_measurement
from rerank.errors import ConfigError, ScoringError
from rerank.models.overlap import Overlap
from rerank.models.pair_encoder import PairEncoder
from rerank.reporting import render_html, render_markdown
from rerank.store import Store
from rerank.suite.efficiency import NotMeasured, p95_latency
from rerank.suite.evaluation import evaluate_run, view_task
from rerank.suite.summary import document
from tests.jobs.small_suite import replayed_suite

ROOT = Path(__file__).resolve().parent.parent.parent


def run(verb: Any, *words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    parser.set_defaults(verb=verb.__name__.rpartition(".")[2])
    return int(verb.run(parser.parse_args(list(words))))


def as_json(capsys: pytest.CaptureFixture[str], verb: Any, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(verb, *words, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


FEW = ("--requests", "72", "--warm-up", "2", "--concurrency", "1,2", "--rates", "200")


def test_a_measurement_holds_its_conditions_and_is_found_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """overlap has no weights, so no pairs/s by the protocol; its requests are timed. The first
    stage is no model. The record is the one that the store gives back."""
    words = replayed_suite(tmp_path)
    found = as_json(capsys, measure, *words, *FEW)
    (record,) = found["measurements"]
    assert (record["model"], record["task"], record["throughput"]) == ("overlap", "tiny", None)
    assert [row["name"] for row in record["latency"]] == ["1 client", "2 clients", "200 requests/s"]
    for row in record["latency"]:
        assert (row["n"], row["unanswered"], row["load"]["warm_up"]) == (72, 0, 2)
        assert abs(row["unaccounted_share"]) < 0.02
        assert row["parts"]["compute"]["share"] > 0
        level = row["latency"]["p95"]
        assert level["low"] <= level["value"] <= level["high"]
    conditions = record["conditions"]
    assert conditions["candidate_depth"] == {"most": 4, "mean": 4.0}
    assert (conditions["dtype"], conditions["revision"]) == ("float32", "none")
    assert conditions["machine"]["device"] == "cpu"
    share = conditions["other_load"]["cpu_share"]
    assert share is None or share >= 0
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    (placed,) = runs_of(store, frozen_tasks(suite, store), suite.models[1])
    assert newest(store, "tiny", "overlap", placed.fingerprint) == record
    assert p95_latency(placed)[0] == record["latency"][0]["latency"]["p95"]["value"]
    cut = as_json(capsys, measure, *words, *FEW, "--depth", "2")["measurements"][0]
    assert cut["conditions"]["candidate_depth"]["most"] == 2
    with pytest.raises(NotMeasured, match="several queries"):
        p95_latency(placed)  # the newest measurement is of two candidates a request


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--concurrency", "0"), "every number must be above 0"),
        (("--concurrency", "one"), "write numbers with commas"),
        (("--requests", "0"), "--requests must be at least 1"),
        (("--depth", "0"), "--depth must be at least 1"),
        (("--timeout", "-1"), "--timeout must be above 0"),
        (("models=[first_stage]",), "names no model to measure"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    suite = replayed_suite(tmp_path)
    with pytest.raises(ConfigError, match=message):
        run(measure, *suite, *words)
    assert not (tmp_path / "store/efficiency").exists()


def test_the_protocol_runs_for_real_on_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A random BERT of two layers over 8 pairs: batch size 8 alone, three timed passes, FLOP and
    peak memory known; the report draws the curve, and the frontier takes this speed."""
    from scripts.benchmarks.overhead import write_model

    words = replayed_suite(tmp_path)
    write_model(tmp_path / "weights", layers=2, hidden=64)
    model = {
        "adapter": "pair_encoder", "weights_from": "folder", "weights": str(tmp_path / "weights"),
        "device": "cpu", "num_gpus": 0, "max_length": 64,
    }  # fmt: skip
    (tmp_path / "configs/models/bert.yaml").write_text(json.dumps(model))
    words += ["models=[first_stage,bert]", "engine=inline"]
    assert main(["replay", *words]) == 0
    (record,) = as_json(capsys, measure, *words, *FEW, "--sample", "8")["measurements"]
    throughput = record["throughput"]
    (point,) = throughput["whole"]["points"]
    assert (point["batch_size"], len(point["seconds"]), throughput["shared"]) == (8, 3, None)
    assert point["pairs_per_second"] == pytest.approx(3 * 8 / sum(point["seconds"]))
    assert 0 <= point["padding_share"] < 1
    assert 0 < point["share_of_peak"] < 1
    assert point["peak_memory"] is None or point["peak_memory"] > 2**20
    assert record["conditions"]["quantisation"] == "none"
    (task,) = as_json(capsys, frontier, *words)["tasks"]
    assert task["speeds"]["bert"]["kind"] == "measured"
    assert task["speeds"]["bert"]["pairs_per_second"] == point["pairs_per_second"]
    assert main(["report", *words]) == 0
    page = (tmp_path / "store/reports/s/report.html").read_text()
    assert "pairs/s at 1 batch sizes, fastest at 8" in page


def test_a_served_model_is_timed_with_its_network_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server on this machine: no pairs/s, no batcher, time on the network and none computing; the
    frontier and the report label it."""
    from tests.standins.rerank_server import Asked, Reply, rerank_server

    def scored(asked: Asked) -> Reply:
        return Reply(body=[{"index": at, "score": float(at)} for at in range(len(asked.documents))])

    words = replayed_suite(tmp_path)
    with rerank_server() as server:
        server.always = scored
        model = {"adapter": "http", "url": server.url, "dialect": "tei", "model": "m"}
        (tmp_path / "configs/models/served.yaml").write_text(json.dumps(model))
        words += ["models=[first_stage,served]", "engine=inline"]
        assert main(["replay", *words]) == 0
        (record,) = as_json(capsys, measure, *words, *FEW)["measurements"]
    assert (record["served"], record["throughput"], record["batcher"]) == (True, None, None)
    assert record["conditions"]["input_tokens"] is None
    for row in record["latency"]:
        assert row["parts"]["network"]["share"] > 0
        assert row["parts"]["compute"]["share"] == 0
        assert row["batches"] is None
    (task,) = as_json(capsys, frontier, *words)["tasks"]
    assert {row["name"]: row["served"] for row in task["rows"]} == {
        "first_stage": False,
        "served": True,
    }
    assert "network and rate limit included" in task["notes"][0]
    assert run(measure, *words[:2], "models=[first_stage,overlap]", *FEW) == 0
    assert "p95 ms" in capsys.readouterr().out


def test_an_exclusive_measurement_refuses_a_shared_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rerank.efficiency import measuring
    from rerank.efficiency.other_load import OtherLoad

    monkeypatch.setattr(measuring, "look", lambda device: OtherLoad(0.4, 1.0, None))
    with pytest.raises(ScoringError, match="other processes took 40%"):
        run(measure, *replayed_suite(tmp_path), *FEW, "--exclusive")
    assert not (tmp_path / "store/efficiency").exists()


def test_the_whole_list_is_the_evaluation_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mean and n of the options first_stage and overlap are those of `rerank evaluate`."""
    words = replayed_suite(tmp_path)
    found = as_json(capsys, frontier, *words, "--depths", "2")
    (task,) = found["tasks"]
    rows = {row["name"]: row for row in task["rows"]}
    assert set(rows) == {"first_stage", "overlap", "overlap @2"}
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    for system in findings_of(suite, store, frozen_tasks(suite, store)).systems:
        expected = system.values("nDCG@10")
        assert rows[system.model]["mean"] == pytest.approx(float(np.nanmean(expected)), abs=1e-12)
        assert rows[system.model]["n"] == len(expected)
    assert rows["overlap @2"]["costs"]["pairs"] == 2.0
    assert rows["first_stage"]["costs"]["seconds"] == 0.0
    assert task["speeds"]["overlap"]["kind"] == "receipts"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cost", "money"), "unknown cost 'money'"),
        (("--speed", "guessed"), "unknown speed 'guessed'"),
        (("--measure", "nDCG@11"), "unknown measure of this suite"),
        (("--cascades", "overlap"), "write SMALL:LARGE"),
        (("--cascades", "overlap:bge"), "unknown model in --cascades 'bge'"),
        (("--cascades", "first_stage:overlap"), "unknown model in --cascades 'first_stage'"),
        (("--cascades", "overlap:overlap"), "a cascade is of two models"),
        (("--cost", "price"), "price_per_hour"),
        (("--depths", "0"), "every number is above 0"),
        (("--gap-shares", "1.5"), "every number is above 0"),
    ],
)
def test_wrong_options_of_a_frontier(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    suite = replayed_suite(tmp_path)
    with pytest.raises(ConfigError, match=message):
        run(frontier, *suite, *words)


def test_an_actor_that_measures_has_whole_gpus() -> None:
    """A share of a GPU would leave the rest to others; CPUs are as the model's file says."""
    from cluster.measuring import exclusive_demand
    from rerank.efficiency.measuring import Measurement
    from rerank.records import ModelSpec, Placement

    model = ModelSpec("m", "pair_encoder", num_gpus=0.25, num_cpus=2)
    placement = Placement("cuda", "bfloat16", "sdpa")
    demand = exclusive_demand(Measurement("s", "t", "f", "r", model, placement))
    assert dict(demand.resources) == {"CPU": 2, "GPU": 1.0}


def measurement(model: str, run_: str, rate: float, device: str = "cpu") -> dict[str, Any]:
    point = {"batch_size": 8, "pairs_per_second": rate, "tokens_per_second": 50 * rate}
    return {
        "schema": 1, "id": f"2026-{rate}", "task": "tiny", "model": model, "run": run_,
        "throughput": {"whole": {"best": point}, "shared": None}, "latency": [], "depth": None,
        "conditions": {"machine": {"device": device}}, "num_gpus": 0.0,
    }  # fmt: skip


def test_a_plan_takes_measured_pairs_per_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 pairs without a receipt, 2 pairs/s measured: 6 s, said to be measured and where. Another
    recipe of the same name that was quicker is no ground for hope; what was measured on a GPU says
    nothing of a model that is planned for CPUs."""
    from tests.jobs.small_suite import write_suite

    words = write_suite(tmp_path)
    assert main(["freeze", *words]) == 0
    store = Store(tmp_path / "store")
    for record in (
        measurement("overlap", "slow", 2.0),
        measurement("overlap", "quick", 5.0),
        measurement("overlap", "gpu", 0.001, "cuda"),
    ):
        write_measurement(store, record)
    found = as_json(capsys, plan, *words)
    (part,) = [part for part in found["parts"] if part["model"] == "overlap"]
    assert part["pairs_left"] == 12
    assert part["hours"]["value"] == pytest.approx(12 / 2.0 / 3600)
    assert part["hours"]["basis"] == "measured"
    assert (
        "2.0 pairs/s measured, forwards alone (efficiency/tiny/overlap/slow/"
        in (part["hours"]["source"])
    )
    assert run(plan, *words) == 0
    assert "= overlap on tiny: 2.0 pairs/s measured" in capsys.readouterr().out


def test_the_report_shows_what_is_on_file_of_its_own_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing at first; then frontier and measurement; a frontier of other runs is left out."""
    words = replayed_suite(tmp_path)
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    findings = findings_of(suite, store, frozen_tasks(suite, store))
    report = document(findings, suite.models, [])
    report["efficiency"] = efficiency_facts(store, findings)
    assert "Nothing is on file" in render_html(report)
    as_json(capsys, frontier, *words)
    as_json(capsys, measure, *words, *FEW)
    report["efficiency"] = efficiency_facts(store, findings)
    page, text = render_html(report), render_markdown(report)
    assert "worker seconds a query" in page
    assert '<circle cx="5.50%"' in page  # what costs nothing stands on the left edge
    assert "### Frontier: tiny" in text
    assert "### Measured: overlap on tiny" in text
    assert "2 requests warm up, 72 measured" in text
    key = f"evaluations/{suite.spec.name}/frontier.json"
    record = store.read_json(key)
    record["tasks"][0]["runs"]["overlap"] = "another"
    store.write_json(key, record)
    facts = efficiency_facts(store, findings)
    assert facts["frontier"] is None
    assert facts["notes"] == ["a frontier on file is of other runs; run rerank frontier again"]


REAL = {
    "noveleval": {"source": "frozen_jsonl", "language": "en", "provenance": "human"},
    "autorag": {
        "source": "beir", "language": "ko", "provenance": "human", "first_stage": "run",
        "run": "bm25_top50.jsonl",
    },
}  # fmt: skip
FOLDERS = {"noveleval": "noveleval_en", "autorag": "autorag_ko"}


@pytest.mark.parametrize("name", REAL)
def test_curves_on_real_data_need_no_model(
    name: str,
    data_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Depths and cascades of overlap and a tiny cross-encoder (NovelEval only: 5,700 pairs take it
    half a minute), with every model's forward and loading forbidden after the replay."""
    weights = data_folder / "small-models/ce_tiny_en_msmarco"
    models: dict[str, dict[str, Any]] = {
        "first_stage": {"adapter": "first_stage"},
        "overlap": {"adapter": "overlap"},
    }
    if name == "noveleval" and weights.is_dir():
        models["ce"] = {
            "adapter": "pair_encoder", "weights_from": "folder", "weights": str(weights),
            "max_length": 128, "num_gpus": 0, "device": "cpu",
        }  # fmt: skip
    task = REAL[name] | {"folder": str(data_folder / FOLDERS[name]), "qrels": "qrels.trec"}
    files = {f"tasks/{name}.yaml": task, "suites/s.yaml": {"tasks": [name], "models": [*models]}}
    files |= {f"models/{model}.yaml": values for model, values in models.items()}
    for file, values in files.items():
        path = tmp_path / "configs" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    words = [str(tmp_path / "configs/suites/s.yaml"), f"store={tmp_path}/store", "engine=inline"]
    assert main(["freeze", *words]) == 0
    assert main(["replay", *words]) == 0

    def forbidden(*_: object) -> None:
        raise AssertionError("a model was asked")

    monkeypatch.setattr(Overlap, "forward", forbidden)
    monkeypatch.setattr(PairEncoder, "forward", forbidden)
    monkeypatch.setattr("rerank.models.adapters.load_scorer", forbidden)
    found = as_json(capsys, frontier, *words, "--depths", "5,10,20")
    rows = {row["name"]: row for row in found["tasks"][0]["rows"]}
    depths = [rows[f"overlap @{depth}"] for depth in (5, 10)] + [rows["overlap"]]
    pairs = [row["costs"]["pairs"] for row in depths]
    assert pairs == sorted(pairs)
    assert pairs[:2] == [5.0, 10.0]
    costs = [row["costs"]["seconds"] for row in found["tasks"][0]["rows"]]
    assert costs == sorted(costs)
    assert all(row["interval"]["low"] <= row["mean"] <= row["interval"]["high"] for row in depths)
    if "ce" in models:
        cascades = [row for row in rows.values() if len(row["models"]) == 2]
        assert cascades
        # of 20 candidates 10 are seen twice
        assert rows["overlap → ce @10"]["costs"]["pairs"] == 30.0
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    (frozen,) = frozen_tasks(suite, store)
    (whole,) = runs_of(store, [frozen], suite.models[1])
    expected = evaluate_run(whole, view_task(frozen), suite.spec).values("nDCG@10")
    assert rows["overlap"]["mean"] == pytest.approx(float(expected.mean()), abs=1e-12)

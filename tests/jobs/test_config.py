"""Configuration: what is wrong is said with file, key, and the nearest spelling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.config import load_model, load_suite, load_task
from rerank.errors import ConfigError
from rerank.models.adapters import ADAPTERS
from tests.conftest import ROOT


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A configs folder with one suite, task and model."""
    files = {
        "suites/s.yaml": {"tasks": ["t"], "models": ["overlap"], "baseline": "overlap"},
        "tasks/t.yaml": {"folder": "texts", "depth": 7},
        "models/overlap.yaml": {"adapter": "overlap"},
    }
    for name, values in files.items():
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    return tmp_path / "configs"


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_names_stand_for_files_and_folders_are_the_files_own(configs: Path) -> None:
    """A task's folder is relative to its YAML, wherever the command runs."""
    suite = load_suite(configs / "suites/s.yaml", ["workers=2", "measures=[nDCG@5]", "seed=3"])
    assert (suite.spec.name, suite.spec.workers, suite.spec.seed) == ("s", 2, 3)
    assert suite.spec.measures == ("nDCG@5",)
    assert suite.tasks[0].folder == str(configs / "tasks/texts")
    assert (suite.tasks[0].depth, suite.models[0].adapter) == (7, "overlap")


@pytest.mark.parametrize(
    ("file", "values", "words"),
    [
        ("suites/s.yaml", {"taskz": []}, ["s.yaml", "'taskz'", "Did you mean 'tasks'"]),
        (
            "suites/s.yaml",
            {"models": ["overlap", "overlapp"]},
            ["unknown model", "Did you mean 'overlap'"],
        ),
        ("suites/s.yaml", {"tasks": ["u"]}, ["unknown task", "Known: t"]),
        ("suites/s.yaml", {"baseline": "b"}, ["baseline 'b'"]),
        ("suites/s.yaml", {"samples": "many"}, ["samples", "must be int", "'many'"]),
        ("suites/s.yaml", {"samples": True}, ["samples", "must be int"]),
        ("suites/s.yaml", {"gate": [{"max_dorp": 1}]}, ["gate rule 1", "Did you mean 'max_drop'"]),
        ("suites/s.yaml", {"gate": 3}, ["gate must be a list of rules"]),
        ("suites/s.yaml", {"gate": [None]}, ["gate must be a list of rules"]),
        ("suites/s.yaml", {"gate": [{"max_drop": 1e301}]}, ["must be a finite number"]),
        ("suites/s.yaml", {"gate": [{"task": "u"}]}, ["unknown task in", "gate rule 1"]),
        ("suites/s.yaml", {"gate": [{"slice": "lang=ko"}]}, ["unknown slice attribute"]),
        ("suites/s.yaml", {"gate": [{"challengers": ["overlap"]}]}, ["cannot be a challenger"]),
        ("suites/s.yaml", {"gate": [{"bound": "Mean"}]}, ["Did you mean 'mean'"]),
        ("suites/s.yaml", {"gate": [{"max_drop": -0.5}]}, ["max_drop is from 0"]),
        ("suites/s.yaml", {"interval": "bcaa"}, ["interval", "Did you mean 'bca'"]),
        ("suites/s.yaml", {"test": "ttest"}, ["test", "Known: randomization, sign, t, wilcoxon"]),
        ("suites/s.yaml", {"correction": "hlom"}, ["correction", "Did you mean 'holm'"]),
        ("suites/s.yaml", {"alpha": 1.0}, ["alpha must lie between 0 and 1"]),
        ("suites/s.yaml", {"effect": 0.0}, ["effect must be above 0"]),
        ("suites/s.yaml", {"slices": ["a*b*c"]}, ["s.yaml", "'a*b*c'", "crossing of two"]),
        ("suites/s.yaml", {"slices": ["a", "a"]}, ["'a' stands there twice"]),
        ("suites/s.yaml", {"gate": [{"max_cost": 1}]}, ["gate rule 1", "needs price_per_hour"]),
        ("suites/s.yaml", {"gate": [{"max_drop": None}]}, ["it judges nothing"]),
        ("suites/s.yaml", {"gate": [{"max_failed_share": 5}]}, ["a share from 0 to 1, is 5"]),
        ("suites/s.yaml", {"gate": [{"price_per_hour": 2.0}]}, ["price_per_hour is for max_cost"]),
        ("suites/s.yaml", {"gate": [{"measure": "unjudged@10"}]}, ["less is better"]),
        ("suites/s.yaml", {"primary": "unjudged@10"}, ["less is better"]),
        ("suites/s.yaml", {"gate": [{"superior": True, "max_drop": 0.1}]}, ["allows no drop"]),
        ("suites/s.yaml", {"gate": [{"max_p95_latency": -1}]}, ["max_p95_latency is from 0"]),
        ("tasks/t.yaml", {"name": "macro"}, ["stands for the mean over tasks"]),
        ("suites/s.yaml", {"confidence": 1.5}, ["confidence must lie between 0 and 1"]),
        ("suites/s.yaml", {"samples": 0}, ["samples must be at least 1"]),
        ("suites/s.yaml", {"seed": -1}, ["seed"]),
        ("suites/s.yaml", {"name": "a/b"}, ["cannot be a folder"]),
        ("suites/s.yaml", {"name": "a" * 300}, ["cannot be a folder"]),
        ("suites/s.yaml", {"primary": "oracle(nDCG@10)"}, ["name the measure itself"]),
        ("suites/s.yaml", {"measures": ["oracle(oracle(RR))"]}, ["oracle"]),
        ("models/overlap.yaml", {"adapter": ["overlap"]}, ["adapter"]),
        ("tasks/t.yaml", {"folder": "a\0b"}, ["NUL"]),
        ("tasks/t.yaml", {"dept": 3}, ["t.yaml", "Did you mean 'depth'"]),
        ("models/overlap.yaml", {"adapter": "overlab"}, ["adapter", "Did you mean 'overlap'"]),
        ("models/overlap.yaml", {"max_lenght": 3}, ["Did you mean 'max_length'"]),
        ("models/overlap.yaml", {"num_gpus": "two"}, ["num_gpus", "must be float"]),
    ],
)
def test_a_wrong_key_or_value_is_one_sentence(
    configs: Path, file: str, values: dict, words: list[str]
) -> None:
    """File, key and the nearest known spelling."""
    edit(configs / file, **values)
    with pytest.raises(ConfigError) as caught:
        load_suite(configs / "suites/s.yaml")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_statistics_slices_and_limits_of_a_suite_are_read(configs: Path) -> None:
    """Every key as it is written, and the defaults of the others."""
    edit(
        configs / "suites/s.yaml",
        interval="bca",
        clusters="topic",
        test="wilcoxon",
        correction="bh",
        alpha=0.01,
        effect=0.02,
        slices=["language*gold_rank", "tied"],
        gate=[
            {"superior": True},
            {"slice": "language*gold_rank=ko*2-3", "critical": True},
            {"max_drop": None, "max_unjudged_share": 0.3, "max_p95_latency": 0.2},
            {"max_drop": None, "max_cost": 0.5, "price_per_hour": 3},
        ],
    )
    spec = load_suite(configs / "suites/s.yaml").spec
    assert (spec.interval, spec.clusters, spec.test) == ("bca", "topic", "wilcoxon")
    assert (spec.correction, spec.alpha, spec.effect) == ("bh", 0.01, 0.02)
    assert spec.gate[0].superior
    assert spec.gate[2].max_drop is None
    assert (spec.gate[3].max_cost, spec.gate[3].price_per_hour) == (0.5, 3.0)
    plain = load_suite(ROOT / "configs/suites/demo.yaml").spec
    assert (plain.test, plain.correction, plain.clusters) == ("randomization", "holm", "")


def test_broken_yaml_and_missing_variables_name_the_file(
    configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser's line, the variable's name."""
    path = configs / "tasks/t.yaml"
    path.write_text("a: [1\nb: 2")
    with pytest.raises(ConfigError, match=r"t\.yaml is not YAML.*line 2"):
        load_task(configs, "t")
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    path.write_text("folder: ${oc.env:NOT_SET_ANYWHERE}/x")
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        load_task(configs, "t")
    with pytest.raises(ConfigError, match="is no override"):
        load_suite(configs / "suites/s.yaml", ["workers"])


@pytest.mark.parametrize("kind", ["models", "tasks", "suites"])
def test_every_file_of_the_project_loads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With RERANK_DATA set to anything: loading reads no data."""
    monkeypatch.setenv("RERANK_DATA", "/data")
    files = sorted((ROOT / "configs" / kind).glob("*.yaml"))
    assert files
    for file in files:
        if kind == "models":
            model = load_model(ROOT / "configs", file.stem)
            assert isinstance(model.params, ADAPTERS[model.adapter].params)
        elif kind == "tasks":
            assert load_task(ROOT / "configs", file.stem).name == file.stem
        else:
            assert load_suite(file).spec.name == file.stem


def test_a_recipe_is_verified_only_where_the_file_says_so(configs: Path) -> None:
    """A misspelt word must not lose the mark; without a word nobody has checked anything."""
    file = configs / "models/m.yaml"
    model = {"adapter": "bi_encoder", "weights": "w"}
    for value, expected in ((None, "unverified"), ("verified", "verified")):
        file.write_text(json.dumps(model | ({"recipe": value} if value else {})))
        assert load_model(configs, "m").recipe == expected
    file.write_text(json.dumps({"adapter": "overlap"}))
    assert load_model(configs, "m").recipe == "verified"  # this project's own formula
    file.write_text(json.dumps(model | {"recipe": "unverifed"}))
    with pytest.raises(ConfigError, match="Did you mean 'unverified'"):
        load_model(configs, "m")

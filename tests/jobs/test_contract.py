"""`rerank contract`: what a model reads of a pair, and where two recipes differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoTokenizer

from jobs.__main__ import main
from tests.conftest import ROOT
from tests.standins import decoders, encoders


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real configs over stand-ins: Qwen3, one with another instruction, a cross-encoder."""
    root = tmp_path_factory.mktemp("contract")
    qwen = str(decoders.build("qwen3", root / "qwen3"))
    bert = str(encoders.build("bert", root / "bert"))
    (root / "configs/models").mkdir(parents=True)

    def write(name: str, like: str, **changes: Any) -> None:
        values = yaml.safe_load((ROOT / f"configs/models/{like}.yaml").read_text())
        values |= {"weights_from": "folder", **changes}
        (root / f"configs/models/{name}.yaml").write_text(json.dumps(values))

    write("qwen", "qwen3-reranker-0.6b", weights=qwen, max_length=256)
    write("same", "kure-reranker-base", weights=qwen, max_length=256)
    write("other", "qwen3-reranker-0.6b", weights=qwen, max_length=200, instruction="Given a code")
    write("bert", "ms-marco-minilm-l6-v2", weights=bert, max_length=48)
    write("first_stage", "first_stage", weights_from="auto")
    return root / "configs"


def run(configs: Path, *words: str) -> int:
    return main(["contract", *words, "--configs", str(configs)])


def test_a_pair_is_shown_as_ids_and_text(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Oracle: transformers' tokenizer on the rendered pieces; every id stands in the table."""
    assert run(configs, "qwen", "--query", "필터?", "--document", "석 달마다") == 0
    out = capsys.readouterr().out
    tokenizer = AutoTokenizer.from_pretrained(configs.parent / "qwen3")
    values = json.loads((configs / "models/qwen.yaml").read_text())
    ids: list[int] = []
    for piece in values["prompt"]:
        text = piece.replace("{instruction}", values["instruction"])
        text = text.replace("{query}", "필터?").replace("{document}", "석 달마다")
        ids += tokenizer(text, add_special_tokens=False)["input_ids"]
    assert f"prompt: {len(ids)} tokens" in out
    section = out.split("tokens\n", 1)[1].split("as text:")[0]
    shown = [line.split()[0] for line in section.splitlines()[2:] if line.strip()]
    assert shown == [str(number) for number in ids]
    assert "<Query>: 필터?" in out
    assert "max_length" in out
    assert "sha256:" in out


def test_what_a_longer_pair_loses_is_said(
    configs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An over-long document of a file, an endless document and an endless query."""
    file = tmp_path / "document.txt"
    file.write_text("replace the filter " * 200, encoding="utf-8")
    assert run(configs, "qwen", "--document-file", str(file)) == 0
    out = capsys.readouterr().out
    assert "max_length 256" in out
    assert "the query leaves no token" in out
    assert run(configs, "bert") == 0
    assert "max_length 48" in capsys.readouterr().out


def test_equal_recipes_are_said_to_be_equal(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """KURE-Reranker-base uses Qwen3-Reranker's prompt byte for byte."""
    assert run(configs, "qwen", "same") == 0
    assert "qwen and same read pairs alike" in capsys.readouterr().out


def test_every_difference_is_named(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Instruction, length, and the ids that follow from them; then another adapter altogether."""
    assert run(configs, "qwen", "other") == 1
    out = capsys.readouterr().out
    for word in ("instruction", "max_length", "rendered_ids", "token ids of"):
        assert any(line.startswith(word) for line in out.splitlines()), word
    assert "tokenizer vocabulary" not in out
    assert run(configs, "qwen", "bert") == 1
    out = capsys.readouterr().out
    for word in ("adapter", "tokenizer vocabulary", "tokenizer normalizer", "truncation"):
        assert any(line.startswith(word) for line in out.splitlines()), word


def test_models_without_an_input_and_too_many_models(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, exit 2."""
    assert run(configs, "first_stage") == 2
    assert "no contract to show" in capsys.readouterr().err
    assert run(configs, "qwen", "same", "bert") == 2
    assert "two to compare" in capsys.readouterr().err


def test_weights_are_not_needed(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tokenizer and configuration decide what is read."""
    weights = configs.parent / "qwen3/model.safetensors"
    hidden = weights.rename(weights.with_suffix(".hidden"))
    try:
        assert run(configs, "qwen") == 0
    finally:
        hidden.rename(weights)
    assert "prompt:" in capsys.readouterr().out

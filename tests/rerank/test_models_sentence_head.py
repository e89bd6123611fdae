"""Heads of sentence-transformers modules, against sentence_transformers.CrossEncoder itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rerank.errors import ConfigError, ScoringError
from rerank.models.pair_encoder import PairEncoderParams
from rerank.models.sentence_head import has_modular_head
from tests.standins.encoders import LENGTH, ROWS, build
from tests.standins.pairs import CPU, loaded, reference, scores_of

HEAD = {"head": "st_modules", "truncation": "longest_first"}


@pytest.fixture(scope="module")
def ettin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("ettin", tmp_path_factory.mktemp("modular") / "ettin")


@pytest.fixture
def copy(ettin: Path, tmp_path: Path) -> Path:
    return shutil.copytree(ettin, tmp_path / "copy")


def edit(path: Path, **changes: Any) -> None:
    """Set keys of a JSON object, or delete those set to None."""
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


@pytest.mark.parametrize("pooling", ["cls", "mean", "lasttoken"])
@pytest.mark.parametrize("residual", [False, True])
def test_scores_are_those_of_cross_encoder(pooling: str, residual: bool, tmp_path: Path) -> None:
    """Oracle: CrossEncoder of the folder that it saved, batch size 1, on the whole row set."""
    folder = build("ettin", tmp_path / "ettin", pooling=pooling, residual=residual)
    expected = reference(folder, ROWS)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores_of(loaded(folder, **HEAD), ROWS), expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": None},  # sentence-transformers' default: tanh
        {"activation_function": "torch.nn.modules.activation.SiLU"},
        {"module_output_name": None},  # its default: what the layer reads
    ],
)
def test_defaults_of_a_dense_layer(changes: dict[str, Any], copy: Path) -> None:
    """Oracle: CrossEncoder on the same edited folder; and the activation does count."""
    before = scores_of(loaded(copy, **HEAD), ROWS)
    edit(copy / "2_Dense" / "config.json", **changes)
    found = scores_of(loaded(copy, **HEAD), ROWS)
    np.testing.assert_allclose(found, reference(copy, ROWS), atol=1e-5)
    assert (np.abs(found - before).max() > 1e-3) == ("activation_function" in changes)


def test_a_residual_of_another_width_is_projected(tmp_path: Path) -> None:
    """Two inner layers, 32 -> 16 with its own residual projection, then Normalize and Dropout."""
    folder = custom(tmp_path)
    expected = reference(folder, ROWS)
    np.testing.assert_allclose(scores_of(loaded(folder, **HEAD), ROWS), expected, atol=1e-5)
    assert "residual.weight" in load_file(folder / "2_Dense" / "model.safetensors")


def custom(tmp_path: Path) -> Path:
    """A modular folder with every module that is supported."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Dropout, Pooling

    from tests.standins.weights import fill

    encoder = build("ettin", tmp_path / "ettin").parent / "ettin-encoder"
    head = [
        Pooling(32, "mean"),
        Dense(32, 16, use_residual=True),
        Dropout(0.5),
        Normalize(),
        Dense(16, 1, activation_function=torch.nn.Identity(), module_output_name="scores"),
    ]
    model = CrossEncoder(modules=[Transformer(str(encoder)), *map(fill, head)], device="cpu")
    model.save_pretrained(str(tmp_path / "custom"))
    return tmp_path / "custom"


def test_one_label_of_several(tmp_path: Path) -> None:
    """The last Dense has three outputs: `label_index` picks one, as for any other head."""
    folder = build("ettin", tmp_path / "ettin", labels=3)
    with pytest.raises(ScoringError, match="3 labels; set `label_index`"):
        loaded(folder, **HEAD)
    found = scores_of(loaded(folder, label_index=2, **HEAD), ROWS)
    np.testing.assert_allclose(found, reference(folder, ROWS)[:, 2], atol=1e-5)


def test_dense_layers_are_fp32_beside_a_bf16_encoder(ettin: Path) -> None:
    """Weights as in the file, scores off the bf16 grid, and near those of fp32."""
    scorer = loaded(ettin, replace(CPU, dtype="bfloat16"), **HEAD)
    assert next(scorer.model.parameters()).dtype == torch.bfloat16
    assert scorer.head is not None
    names = ("2_Dense", "3_LayerNorm", "4_Dense")
    for stage, name in zip(scorer.head.stages[1:], names, strict=True):
        saved = load_file(ettin / name / "model.safetensors")
        for key, weight in stage.weights.state_dict().items():
            assert weight.dtype == torch.float32
            assert torch.equal(weight, saved[key])
    scores = torch.tensor(scores_of(scorer, ROWS), dtype=torch.float32)
    assert (scores == scores.bfloat16().float()).float().mean() < 0.5
    exact = scores_of(loaded(ettin, **HEAD), ROWS)
    assert np.abs(scores.numpy() - exact).max() < 0.1 * np.ptp(exact)


def test_a_modular_folder_needs_the_setting(ettin: Path) -> None:
    """Trap 16: its architecture's own head would be random."""
    with pytest.raises(ScoringError, match="set head: st_modules in its YAML"):
        loaded(ettin)


def test_the_setting_needs_a_modular_folder(tmp_path: Path) -> None:
    """Also where modules.json lists only the transformer, as CrossEncoder saves plain models."""
    folder = build("modernbert", tmp_path)
    modules = [{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}]
    for _ in range(2):
        assert not has_modular_head("m", folder)
        with pytest.raises(ScoringError, match="set head: auto in its YAML"):
            loaded(folder, **HEAD)
        (folder / "modules.json").write_text(json.dumps(modules))
    loaded(folder)


def test_an_unknown_head_is_named() -> None:
    """A word in the YAML."""
    with pytest.raises(ConfigError, match="Did you mean 'st_modules'"):
        PairEncoderParams(head="st_module")


def drop_weight(folder: Path) -> None:
    save_file(
        {"linear.weight": load_file(folder / "4_Dense/model.safetensors")["linear.weight"]},
        folder / "4_Dense" / "model.safetensors",
    )


def add_weight(folder: Path) -> None:
    path = folder / "3_LayerNorm" / "model.safetensors"
    save_file({**load_file(path), "norm.scale": torch.ones(32)}, path)


def rename_weight(folder: Path) -> None:
    path = folder / "2_Dense" / "model.safetensors"
    save_file({"dense.weight": load_file(path)["linear.weight"]}, path)


def reshape_weight(folder: Path) -> None:
    edit(folder / "2_Dense" / "config.json", out_features=16)


def own_module(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(path.read_text().replace(
        "sentence_transformers.sentence_transformer.modules.layer_norm.LayerNorm",
        "custom_st.LayerNorm",
    ))  # fmt: skip


def own_activation(folder: Path) -> None:
    edit(folder / "2_Dense" / "config.json", activation_function="os.abort")


def a_layer_as_activation(folder: Path) -> None:
    edit(folder / "2_Dense" / "config.json", activation_function="torch.nn.modules.linear.Linear")


def outside(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(path.read_text().replace("2_Dense", "../2_Dense"))


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (drop_weight, r"linear\.bias missing"),
    (add_weight, r"norm\.scale missing, unexpected"),
    (rename_weight, r"dense\.weight, linear\.weight missing"),
    (reshape_weight, r"linear\.weight missing, unexpected or of another shape"),
    (own_module, r"does not compute: custom_st\.LayerNorm"),
    (own_activation, "only activations of torch.nn"),
    (a_layer_as_activation, "only activations of torch.nn"),
    (outside, "leads out of its folder"),
    (lambda folder: (folder / "2_Dense" / "model.safetensors").unlink(), "needs model.safetensors"),
    (lambda folder: (folder / "modules.json").write_text("[{}]"), "cannot be loaded"),
    (
        lambda folder: edit(folder / "2_Dense" / "config.json", normalize=True),
        "does not know: normalize",
    ),
    (lambda folder: edit(folder / "2_Dense" / "config.json", in_features=None), "no in_features"),
    (
        lambda folder: edit(folder / "2_Dense" / "config.json", module_input_name="cls"),
        "reads 'cls', which no module",
    ),
    (
        lambda folder: edit(folder / "1_Pooling" / "config.json", pooling_mode=["cls", "mean"]),
        "pools by cls, mean",
    ),
    (
        lambda folder: edit(folder / "sentence_bert_config.json", transformer_task="fill-mask"),
        "transformer_task: fill-mask",
    ),
    (
        lambda folder: edit(
            folder / "config_sentence_transformers.json",
            prompts={"web": "Rank: "}, default_prompt_name="web",
        ),
        "states a default prompt",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_whatever_is_not_computed_exactly_is_refused(
    damage: Callable[[Path], None], words: str, copy: Path
) -> None:
    """One sentence each, at load; nothing is filled in or left out."""
    damage(copy)
    with pytest.raises(ScoringError, match=words):
        loaded(copy, **HEAD)


def test_max_seq_length_of_the_folder_is_the_limit(copy: Path) -> None:
    """sentence_bert_config.json: as for bi-encoders, below the model's positions."""
    edit(copy / "sentence_bert_config.json", max_seq_length=40)
    assert loaded(copy, **HEAD).reader.max_length == 40
    assert loaded(copy, max_length=LENGTH, **HEAD).reader.max_length == LENGTH


def test_lower_case_that_the_tokenizer_does_not_make_is_refused(copy: Path) -> None:
    """sentence-transformers would put a Lowercase normalizer before the file's own."""
    edit(copy / "sentence_bert_config.json", do_lower_case=True)
    with pytest.raises(ScoringError, match="add a Lowercase normalizer"):
        loaded(copy, **HEAD)

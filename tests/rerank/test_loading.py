"""Loading is safe: no code or pickle unasked, no random weight, no tokenizer but the file's own."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, normalizers
from tokenizers import pre_tokenizers as pre

from rerank.errors import ScoringError
from rerank.models import transformer
from rerank.models.loading import restore_methods, shared_methods
from rerank.models.tokenizer_probe import PROBE_TEXTS
from rerank.records import ModelSpec
from tests.standins.encoders import COMMON, ROWS, SHORT, build
from tests.standins.pairs import CPU, groups_of, loaded, reference, scores_of, spec_of
from tests.standins.weights import fill

CODE = """
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from .sizes import WIDTH


class OwnConfig(PreTrainedConfig):
    model_type = "own_reranker"
    vocab_size: int = 400


class OwnReranker(PreTrainedModel):
    config_class = OwnConfig
    base_model_prefix = "encoder"
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.encoder = nn.Embedding(config.vocab_size, WIDTH)
        self.classifier = nn.Linear(WIDTH, 1)
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        states = self.encoder(input_ids) * attention_mask.unsqueeze(-1)
        return SequenceClassifierOutput(logits=self.classifier(states.sum(1)))
"""
PATCHES = """
import sentence_transformers
import transformers

sentence_transformers.CrossEncoder.predict = lambda self, pairs: [1.0 for _ in pairs]
sentence_transformers.CrossEncoder.to = lambda self, device: self
transformers.BertForSequenceClassification.forward = None
"""  # what a published reranker's code did at import (trap 21), and worse


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """transformers copies a folder's code below this folder and imports it from there."""
    from transformers import dynamic_module_utils

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("modules")
        patch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(folder))
        patch.setattr(sys, "path", list(sys.path))
        yield


def own_code(folder: Path, code: str = CODE, prefix: str = "") -> Path:
    """A folder with a model class of its own, which nothing but its two .py files defines."""
    build("bert", folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    (folder / "modeling.py").write_text(code)
    (folder / "sizes.py").write_text("WIDTH = 8\n")
    config = {
        "model_type": "own_reranker",
        "num_labels": 1,
        "vocab_size": 400,
        "auto_map": {
            "AutoConfig": f"{prefix}modeling.OwnConfig",
            "AutoModelForSequenceClassification": f"{prefix}modeling.OwnReranker",
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(0)
    shapes = {"encoder.weight": (400, 8), "classifier.weight": (1, 8), "classifier.bias": (1,)}
    weights = {key: torch.tensor(rng.normal(size=shape)).float() for key, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.usefixtures("modules")
def test_code_of_a_folder_runs_only_where_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a prompt; and with trust_code the class is the folder's, its scores by hand."""
    folder = own_code(tmp_path / "own")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked a question"))
    with pytest.raises(ScoringError, match=r"own code \(modeling\.OwnConfig.*set trust_code: true"):
        loaded(folder)
    scorer = loaded(folder, trust_code=True)
    assert type(scorer.model).__name__ == "OwnReranker"
    weights = load_file(folder / "model.safetensors")
    (ids, _), *_ = (item.payload.value for item in scorer.encode(groups_of(SHORT[:1])))
    states = weights["encoder.weight"][list(ids)].sum(0)
    expected = (weights["classifier.weight"] @ states + weights["classifier.bias"]).item()
    assert scores_of(scorer, SHORT[:1])[0] == pytest.approx(expected, abs=1e-5)


def test_code_is_refused_even_where_a_known_class_could_stand_in(tmp_path: Path) -> None:
    """transformers silently takes its own class of that model_type; the folder means another."""
    folder = build("bert", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForSequenceClassification": "modeling.Own"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match=r"own code \(modeling\.Own\)"):
        loaded(folder)


def test_code_of_a_tokenizer_is_code(tmp_path: Path) -> None:
    """tokenizer_config.json names classes too, in a list."""
    folder = build("bert", tmp_path)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["auto_map"] = {"AutoTokenizer": ["tokenization.Own", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match=r"own code \(tokenization\.Own\)"):
        loaded(folder)


def test_code_of_another_repository_is_refused(tmp_path: Path) -> None:
    """The folder's revision does not pin it: it could change under a finished run."""
    folder = own_code(tmp_path / "own", prefix="someone/new-impl--")
    with pytest.raises(ScoringError, match="lies in another repository.*copy those files"):
        loaded(folder, trust_code=True)


@pytest.mark.usefixtures("modules")
def test_the_librarys_classes_are_what_they_were(tmp_path: Path) -> None:
    """Trap 21: well-behaved code changes no method of transformers or sentence-transformers."""
    before = shared_methods()
    loaded(own_code(tmp_path / "own"), trust_code=True)
    assert restore_methods(before) == []


@pytest.mark.usefixtures("modules")
def test_code_that_replaces_methods_of_the_library_is_refused(tmp_path: Path) -> None:
    """Trap 21: the sentence names them, and they are what they were before."""
    methods = (CrossEncoder.predict, CrossEncoder.to, CrossEncoder.__dict__.get("to"))
    forward = transformers.BertForSequenceClassification.forward
    folder = own_code(tmp_path / "patching", CODE + PATCHES)
    with pytest.raises(ScoringError, match=r"replaces .*CrossEncoder\.predict.*CrossEncoder\.to"):
        loaded(folder, trust_code=True)
    assert methods == (CrossEncoder.predict, CrossEncoder.to, CrossEncoder.__dict__.get("to"))
    assert transformers.BertForSequenceClassification.forward is forward


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("code", ["import no_such_package_anywhere", "1 / 0", "class Other: pass"])
def test_code_that_does_not_run_is_one_sentence(code: str, tmp_path: Path) -> None:
    """A missing package, an error, a class that is not there."""
    folder = own_code(tmp_path / "broken", code)
    with pytest.raises(ScoringError, match="cannot be loaded: "):
        loaded(folder, trust_code=True)


def pickled(folder: Path) -> Path:
    """The same weights in pytorch_model.bin."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_pickled_weights_only_where_the_yaml_says_so(tmp_path: Path) -> None:
    """And then they give the scores of the same weights in safetensors."""
    folder = build("bert", tmp_path)
    expected = loaded(folder)
    pickled(folder)
    with pytest.raises(ScoringError, match="set pickled_weights: true"):
        loaded(folder)
    found = loaded(folder, pickled_weights=True)
    for name, weight in expected.model.state_dict().items():
        assert torch.equal(weight, found.model.state_dict()[name])
    np.testing.assert_allclose(scores_of(found, SHORT), scores_of(expected, SHORT), atol=1e-6)


def test_safetensors_are_taken_before_a_pickle(tmp_path: Path) -> None:
    """A rotten .bin beside them is never opened."""
    folder = build("bert", tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"rotten")
    loaded(folder, pickled_weights=True)


class Bomb:
    """Unpickled, it writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize(
    "save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))]
)
@pytest.mark.parametrize("part", ["pytorch_model.bin", "2_Dense/pytorch_model.bin"])
def test_a_pickle_runs_no_code(save: Callable[..., Any], part: str, tmp_path: Path) -> None:
    """Tensors only, for the model and for the modules of a head."""
    kind, head = ("ettin", "st_modules") if "/" in part else ("bert", "auto")
    folder = build(kind, tmp_path / kind)
    (folder / part).with_name("model.safetensors").unlink()
    save({"linear.weight": Bomb(tmp_path / "ran")}, folder / part)
    with pytest.raises(ScoringError, match="cannot be loaded: its pickled file holds other"):
        loaded(folder, head=head, pickled_weights=True)
    assert not (tmp_path / "ran").exists()


def test_a_head_of_pickled_modules(tmp_path: Path) -> None:
    """Layers that older sentence-transformers saved as pytorch_model.bin."""
    folder = build("ettin", tmp_path / "ettin")
    settings = {"head": "st_modules", "truncation": "longest_first"}
    expected = scores_of(loaded(folder, **settings), ROWS)
    pickled(folder / "2_Dense")
    with pytest.raises(ScoringError, match="pickled_weights: true"):
        loaded(folder, **settings)
    found = scores_of(loaded(folder, pickled_weights=True, **settings), ROWS)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "xlmr", "modernbert", "ettin"])
def test_a_model_saved_again_gives_the_same_scores(kind: str, tmp_path: Path) -> None:
    """Trap 16: bit for bit; whatever was random would differ."""
    settings = {"truncation": "longest_first", "head": "st_modules" if kind == "ettin" else "auto"}
    folder = build(kind, tmp_path / kind)
    first = loaded(folder, **settings)
    expected = scores_of(first, ROWS)
    first.model.save_pretrained(folder)
    torch.manual_seed(99)
    assert scores_of(loaded(folder, **settings), ROWS).tolist() == expected.tolist()


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def rename(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    return lambda weights: weights.update({new: weights.pop(old)})


@pytest.mark.parametrize(
    ("kind", "change", "key"),
    [
        ("bert", lambda weights: weights.pop("classifier.weight"), "classifier.weight"),
        ("bert", rename("classifier.bias", "classifier.bais"), "classifier.bias"),
        (
            "xlmr",
            rename("classifier.out_proj.weight", "score.weight"),
            "classifier.out_proj.weight",
        ),
        ("modernbert", lambda weights: weights.pop("head.norm.weight"), "head.norm.weight"),
        ("modernbert", rename("model.layers.1.mlp.Wi.weight", "layers.1.w"), "mlp.Wi.weight"),
        (
            "bert",
            lambda weights: weights.update({"classifier.bias": torch.zeros(2)}),
            "classifier.bias",
        ),
    ],
)
def test_a_weight_that_is_not_in_the_file_is_never_random(
    kind: str, change: Callable[[dict[str, Any]], None], key: str, tmp_path: Path
) -> None:
    """Trap 16: missing, renamed, of another shape, in the head or inside the encoder."""
    folder = build(kind, tmp_path)
    rewrite(folder, change)
    with pytest.raises(ScoringError, match=f"would be random: .*{key}"):
        loaded(folder)


def qwen(folder: Path, architecture: str, **settings: Any) -> Path:
    config = transformers.Qwen3Config(
        vocab_size=50, num_key_value_heads=2, head_dim=8, pad_token_id=0, **COMMON, **settings
    )
    fill(getattr(transformers, architecture)(config)).save_pretrained(folder)
    return folder


def test_a_missing_score_weight_is_refused(tmp_path: Path) -> None:
    """Trap 16: a causal model loaded as a classifier lacks exactly its head."""
    spec = ModelSpec("m", "pair_encoder")
    auto = "AutoModelForSequenceClassification"
    classifier = qwen(tmp_path / "classifier", "Qwen3ForSequenceClassification", num_labels=1)
    transformer.load_model(auto, spec, CPU, str(classifier))
    causal = qwen(tmp_path / "causal", "Qwen3ForCausalLM", num_labels=1)
    with pytest.raises(ScoringError, match=r"lacks 1 weights .*random: score\.weight"):
        transformer.load_model(auto, spec, CPU, str(causal))


def test_a_tied_weight_is_not_missing(tmp_path: Path) -> None:
    """The head that shares the embeddings' weight is in the file once; untied, it is missing."""
    spec = ModelSpec("m", "prompt_decoder")
    folder = qwen(tmp_path, "Qwen3ForCausalLM", tie_word_embeddings=True)
    saved = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in saved
    model = transformer.load_model("AutoModelForCausalLM", spec, CPU, str(folder))
    assert torch.equal(model.lm_head.weight, saved["model.embed_tokens.weight"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    with pytest.raises(ScoringError, match=r"random: lm_head\.weight"):
        transformer.load_model("AutoModelForCausalLM", spec, CPU, str(folder))
    (folder / "config.json").write_text(json.dumps(config))
    rewrite(folder, lambda weights: weights.pop("model.embed_tokens.weight"))
    with pytest.raises(ScoringError, match=r"random: .*embed_tokens\.weight"):
        transformer.load_model("AutoModelForCausalLM", spec, CPU, str(folder))


def with_class(folder: Path, name: str | None) -> Path:
    """Say that the tokenizer is of class `name`, as the folders of real models do."""
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config.pop("tokenizer_class")
    path.write_text(json.dumps(config | ({"tokenizer_class": name} if name else {})))
    return folder


@pytest.mark.parametrize("name", ["XLMRobertaTokenizer", "XLMRobertaTokenizerFast", None])
def test_ids_are_those_of_the_tokenizer_file(name: str | None, tmp_path: Path) -> None:
    """Oracle: tokenizers.Tokenizer.from_file. transformers 5 rebuilds the pipeline of this class.

    The file has NFKC and a bare Metaspace; the class has no normalizer and splits at white space.
    """
    folder = with_class(build("xlmr", tmp_path), name)
    texts = [text for row in ROWS for text in row] + list(PROBE_TEXTS)
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    expected = [own.encode(text, add_special_tokens=False).ids for text in texts]
    tokenizer = transformer.load_tokenizer(spec_of(folder), str(folder), None)
    assert transformer.token_ids(tokenizer, texts, split_special_tokens=False) == expected
    rebuilt = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(rebuilt).__name__ == "XLMRobertaTokenizer"
    differs = transformer.token_ids(rebuilt, texts, split_special_tokens=False) != expected
    assert differs, "transformers keeps the file's pipeline again: file_tokenizer can go"
    assert tokenizer.pad_token_id == rebuilt.pad_token_id == 1
    assert tokenizer.model_input_names == rebuilt.model_input_names


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_a_class_lends_what_the_file_does_not_hold(kind: str, tmp_path: Path) -> None:
    """Input names with token types for BERT, none for ModernBERT, and special tokens by role."""
    folder = with_class(build(kind, tmp_path), {"bert": "BertTokenizer"}.get(kind))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for key in ("model_input_names", "mask_token", "unk_token"):
        config.pop(key)
    if kind == "bert":
        config.pop("pad_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = transformer.load_tokenizer(spec_of(folder), str(folder), None)
    assert ("token_type_ids" in tokenizer.model_input_names) == (kind == "bert")
    assert tokenizer.pad_token == "[PAD]"
    found = scores_of(loaded(folder, truncation="longest_first"), ROWS)
    np.testing.assert_allclose(found, reference(folder, ROWS), atol=1e-5)


@pytest.mark.parametrize("value", [True, False])
def test_files_that_contradict_each_other_are_refused(value: bool, tmp_path: Path) -> None:
    """transformers goes by tokenizer_config.json, other readers by tokenizer.json."""
    folder = with_class(build("bert", tmp_path), "BertTokenizer")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": value}))
    if value:
        loaded(folder)
        return
    with pytest.raises(ScoringError, match="do_lower_case: False, .*says lowercase: True"):
        loaded(folder)


def test_a_folder_without_tokenizer_json_is_refused(tmp_path: Path) -> None:
    """transformers would make a tokenizer with an almost empty vocabulary, or convert one."""
    folder = build("bert", tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ScoringError, match="has no tokenizer.json"):
        loaded(folder)


def tokenizer_ids(folder: Path) -> str:
    return str(loaded(folder).describe()["tokenizer_ids"])


def test_a_tokenizer_is_pinned_by_its_ids(tmp_path: Path) -> None:
    """Trap 17: the digest that a run reports can be written into the YAML, and holds it there."""
    folder = build("xlmr", tmp_path)
    found = tokenizer_ids(folder)
    assert found.startswith("sha256:")
    loaded(folder, tokenizer_ids=found)
    with pytest.raises(ScoringError, match="gives other ids .*correct `tokenizer_ids`"):
        loaded(folder, tokenizer_ids="sha256:" + "0" * 64)


@pytest.mark.parametrize(
    "change",
    [
        lambda own: setattr(own, "normalizer", normalizers.NFC()),
        lambda own: setattr(own, "normalizer", normalizers.Sequence([normalizers.NFKC(),
                                                                     normalizers.Strip()])),
        lambda own: setattr(own, "pre_tokenizer", pre.Sequence([pre.WhitespaceSplit(),
                                                                pre.Metaspace()])),
        lambda own: setattr(own, "pre_tokenizer", pre.Metaspace(prepend_scheme="never")),
        lambda own: own.add_tokens(["서울"]),
    ],
)  # fmt: skip
def test_the_probe_sees_small_changes_of_a_tokenizer(
    change: Callable[[Tokenizer], None], tmp_path: Path
) -> None:
    """Trap 17: compatibility forms, white space at the ends, runs of it, prefixes, added words."""
    folder = build("xlmr", tmp_path, vocab_size=500)
    before = tokenizer_ids(folder)
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    change(own)
    own.save(str(folder / "tokenizer.json"))
    assert tokenizer_ids(folder) != before


def test_the_probe_is_what_it_was() -> None:
    """Stored digests rest on it: twenty distinct texts, in this order, to the character."""
    assert len(set(PROBE_TEXTS)) == 20
    digest = transformer._ids_digest(list(PROBE_TEXTS))
    assert digest == "sha256:2917ddd7930f7bd68e86e4742c914ce6442213078c78b3a9b932307556640870"


def test_each_load_makes_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    """Trap 20: nothing made for one template or vocabulary is found again under another."""
    folder = build("bert", tmp_path / "one")
    other = shutil.copytree(folder, tmp_path / "two")
    first = transformer.load_tokenizer(spec_of(folder), str(folder), None)
    first.chat_template = "{{ messages }}"
    first.truncation_side = "left"
    second = transformer.load_tokenizer(spec_of(folder), str(folder), None)
    assert second.chat_template is None
    assert second.truncation_side == "right"
    own = Tokenizer.from_file(str(other / "tokenizer.json"))
    own.normalizer = normalizers.BertNormalizer(lowercase=False)
    own.save(str(other / "tokenizer.json"))
    own.save(str(folder / "tokenizer.json"))  # changed in place, under the same name
    third, fourth = (
        transformer.load_tokenizer(spec_of(path), str(path), None) for path in (folder, other)
    )
    ids = [
        transformer.token_ids(tokenizer, ["FILTER"], split_special_tokens=False)
        for tokenizer in (second, third, fourth)
    ]
    assert ids[0] != ids[1] == ids[2]

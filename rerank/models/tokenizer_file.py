"""A tokenizer as its tokenizer.json states it, not as a library version rebuilds it.

transformers 5 makes the tokenizers of many classes anew from the vocabulary and the defaults of
their class: XLMRobertaTokenizer loses the file's normalizer and pre-tokenizer (huggingface/
transformers#45488, #45701). Ids then differ between versions of a library, for the same files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rerank.errors import ScoringError
from rerank.models.loading import loading, read_json
from rerank.records import ModelSpec

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# (section of tokenizer.json, its type, its key, key of tokenizer_config.json): settings that
# transformers 4 takes from the second file, and tokenizer.json has too
SAID_TWICE = (
    ("normalizer", "BertNormalizer", "lowercase", "do_lower_case"),
    ("normalizer", "BertNormalizer", "strip_accents", "strip_accents"),
    ("normalizer", "BertNormalizer", "handle_chinese_chars", "tokenize_chinese_chars"),
    ("pre_tokenizer", "ByteLevel", "add_prefix_space", "add_prefix_space"),
)


def file_tokenizer(spec: ModelSpec, folder: str) -> Any:
    """A transformers tokenizer whose ids are those of the folder's tokenizer.json.

    Its class lends only what the file does not hold: special tokens by role, input names, sides.
    A tokenizer class of the folder's own code is taken as it is. ScoringError: files are missing,
    unreadable, or contradict each other.
    """
    if not (Path(folder) / "tokenizer.json").is_file():
        raise ScoringError(
            f"model '{spec.name}': {folder} has no tokenizer.json; save the tokenizer once with "
            "AutoTokenizer.from_pretrained(...).save_pretrained(folder)"
        )
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    with loading(spec, folder, "tokenizer"):
        named = AutoTokenizer.from_pretrained(folder, trust_remote_code=spec.trust_code)
        if type(named) is PreTrainedTokenizerFast or not _is_from_library(named):
            return named
        plain = PreTrainedTokenizerFast.from_pretrained(
            folder, model_input_names=named.model_input_names
        )
    check_said_twice(spec, folder, plain)
    plain.padding_side, plain.truncation_side = named.padding_side, named.truncation_side
    vocabulary = plain.get_vocab()
    for role in ROLES:
        token = getattr(named, role)
        if getattr(plain, role) is None and token in vocabulary:
            setattr(plain, role, token)
    return plain


def _is_from_library(tokenizer: Any) -> bool:
    return type(tokenizer).__module__.split(".")[0] == "transformers"


def check_said_twice(spec: ModelSpec, folder: str, tokenizer: Any) -> None:
    """ScoringError where tokenizer_config.json and tokenizer.json contradict each other."""
    path = Path(folder) / "tokenizer_config.json"
    stated = read_json(spec.name, path) if path.is_file() else {}
    pipeline = json.loads(tokenizer.backend_tokenizer.to_str())
    for section, kind, key, config_key in SAID_TWICE:
        step = pipeline[section] or {}
        if step.get("type") == kind and stated.get(config_key, step[key]) != step[key]:
            raise ScoringError(
                f"model '{spec.name}': {path} says {config_key}: {stated[config_key]}, but the "
                f"{kind} in tokenizer.json says {key}: {step[key]}; correct the file that is wrong"
            )


def with_pad_token(spec: ModelSpec, tokenizer: Any, pad_token: str | None) -> Any:
    """The tokenizer with a pad token: its own, or the one that the YAML names.

    ScoringError: it has none, or the one named is not in its vocabulary.
    """
    if pad_token is not None:
        if pad_token not in tokenizer.get_vocab():
            raise ScoringError(
                f"model '{spec.name}': pad_token '{pad_token}' is not in the vocabulary; "
                "name a token that is (the model is never resized)"
            )
        tokenizer.pad_token = pad_token
    if tokenizer.pad_token_id is None:
        raise ScoringError(
            f"model '{spec.name}': its tokenizer has no pad token; set `pad_token` in the model's "
            f'YAML, for example pad_token: "{tokenizer.eos_token or tokenizer.sep_token}"'
        )
    return tokenizer


def match_tokenizer(spec: ModelSpec, tokenizer: Any, model: Any) -> None:
    """Make sure that a tokenizer and a model belong together, and agree on the pad token.

    A model whose config names none (or, of a folder's own code, has no such key) is told its id.
    ScoringError: the tokenizer has ids that the model has no embedding of.
    """
    highest = max(tokenizer.get_vocab().values())
    rows = int(model.get_input_embeddings().num_embeddings)
    if highest >= rows:
        raise ScoringError(
            f"model '{spec.name}': its tokenizer has ids up to {highest}, the model {rows} "
            "embeddings (it is never resized); restore the tokenizer files that belong to it"
        )
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id

"""What a sentence-transformers folder says about itself, checked against the YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerank.errors import ScoringError
from rerank.models.loading import read_json
from rerank.models.transformer import token_ids

# names of sentence-transformers: one flag per pooling, or (since 5.x) one word
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
POOLING_WORDS = {"cls": "cls", "mean": "mean", "lasttoken": "last"}
STATES, EMBEDDING, SCORES = "token_embeddings", "sentence_embedding", "scores"  # features
# what a Transformer before a modular head may say; anything else would be left out silently
ENCODER_SAYS: dict[str, tuple[Any, ...]] = {
    "transformer_task": ("feature-extraction",),
    "module_output_name": (STATES,),
    "modality_config": (
        {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    ),
    "processing_kwargs": ({}, None),
    "query_expansion": (None,),
}
OWN_PACKAGE = "sentence_transformers."  # before the class names of modules.json that we know


@dataclass(frozen=True)
class SentenceModule:
    """One line of modules.json.

    kind: its class name, with the package where that is not sentence-transformers; folder: where
    its files lie; config: what its config.json holds, {} without one.
    """

    kind: str
    folder: Path
    config: dict[str, Any]


def modules_of(name: str, folder: Path) -> list[SentenceModule]:
    """The modules that modules.json lists, in order; none where there is no such file."""
    path = folder / "modules.json"
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        found = [(str(entry["type"]), folder / str(entry["path"])) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScoringError(
            f"model '{name}': {path} cannot be loaded: {error!r}; fetch the file again"
        ) from error
    outside = [str(own) for _, own in found if not own.resolve().is_relative_to(folder.resolve())]
    if outside:
        raise ScoringError(f"model '{name}': {path} leads out of its folder, to {outside[0]}")
    return [_module(name, kind, own) for kind, own in found]


def _module(name: str, kind: str, folder: Path) -> SentenceModule:
    if kind.startswith(OWN_PACKAGE):
        kind = kind.split(".")[-1]
    config = folder / "config.json"
    known = kind != "Transformer" and config.is_file()
    return SentenceModule(kind, folder, read_json(name, config) if known else {})


def transformer_settings(name: str, folder: Path) -> dict[str, Any]:
    """What sentence_bert_config.json says of the first module, {} where there is no such file."""
    path = folder / "sentence_bert_config.json"
    return read_json(name, path) if path.exists() else {}


def check_encoder(name: str, folder: Path, first: SentenceModule) -> None:
    """ScoringError unless the first module is a bare encoder in the folder itself."""
    settings = transformer_settings(name, folder)
    said = [
        f"{key}: {settings[key]}"
        for key, allowed in ENCODER_SAYS.items()
        if key in settings and settings[key] not in allowed
    ]
    if first.kind != "Transformer" or first.folder != folder:
        said.append(f"{first.kind} in {first.folder} comes first")
    if said:
        raise ScoringError(
            f"model '{name}': head: st_modules takes an encoder in {folder} itself and reads its "
            f"last states; this folder has {', '.join(said)}; leave this model out"
        )


def max_seq_length(name: str, folder: Path) -> int | None:
    """sentence-transformers' `max_seq_length`, which is shorter than the model's positions."""
    limit = transformer_settings(name, folder).get("max_seq_length")
    return int(limit) if limit else None


def check_lower_case(name: str, folder: Path, tokenizer: Any) -> None:
    """ScoringError where the folder wants lower case and its tokenizer.json does not make it."""
    if not transformer_settings(name, folder).get("do_lower_case"):
        return
    upper, lower = token_ids(tokenizer, ["FILTER", "filter"], split_special_tokens=False)
    if upper != lower:
        raise ScoringError(
            f"model '{name}': sentence_bert_config.json in {folder} says do_lower_case: true, but "
            "its tokenizer.json keeps capitals; add a Lowercase normalizer there"
        )


def check_prompt(name: str, folder: Path) -> None:
    """ScoringError where the folder states a prompt that goes before every pair."""
    path = folder / "config_sentence_transformers.json"
    stated = read_json(name, path) if path.exists() else {}
    prompt = (stated.get("prompts") or {}).get(stated.get("default_prompt_name"))
    if prompt:
        raise ScoringError(
            f"model '{name}': {path} states a default prompt ({prompt[:40]!r}), which no "
            "pair_encoder writes; use an adapter with a prompt, or clear default_prompt_name"
        )


def check_modules(name: str, folder: Path, *, pooling: str, similarity: str) -> None:
    """ScoringError where a sentence-transformers folder says otherwise than the YAML.

    Its modules must be a transformer, a pooling of the stated kind, and at most a normalisation:
    a Dense layer in modules.json would be left out silently.
    """
    modules = {module.kind: module for module in modules_of(name, folder)}
    others = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if others:
        raise ScoringError(
            f"model '{name}': {folder / 'modules.json'} has modules that a bi_encoder does not "
            f"compute: {', '.join(others)}; leave this model out"
        )
    if "Normalize" in modules and similarity != "cosine":
        raise ScoringError(
            f"model '{name}': its folder normalises embeddings; set similarity: cosine"
        )
    if "Pooling" in modules:
        stated = stated_poolings(modules["Pooling"].config)
        if stated != {pooling}:
            raise ScoringError(
                f"model '{name}': pooling is {pooling}, but its folder states "
                f"{', '.join(sorted(stated))}; correct `pooling` in its YAML"
            )


def stated_poolings(config: dict[str, Any]) -> set[str]:
    """Poolings that a Pooling config turns on, in our words where we have one."""
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        modes = [mode] if isinstance(mode, str) else mode
        return {POOLING_WORDS.get(word, word) for word in modes}
    flags = {key for key, value in config.items() if key.startswith("pooling_mode_") and value}
    return {POOLING_FLAGS.get(flag, flag) for flag in flags}

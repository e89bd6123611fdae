"""What a sentence-transformers folder says about itself, checked against the YAML."""

from __future__ import annotations

import json
from pathlib import Path

from rerank.errors import ScoringError

# names of sentence-transformers: one flag per pooling, or (since 5.x) one word
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
POOLING_WORDS = {"cls": "cls", "mean": "mean", "lasttoken": "last"}


def max_seq_length(folder: Path) -> int | None:
    """sentence-transformers' `max_seq_length`, which is shorter than the model's positions."""
    path = folder / "sentence_bert_config.json"
    if not path.exists():
        return None
    limit = json.loads(path.read_text()).get("max_seq_length")
    return int(limit) if limit else None


def check_modules(name: str, folder: Path, *, pooling: str, similarity: str) -> None:
    """ScoringError where a sentence-transformers folder says otherwise than the YAML.

    Its modules must be a transformer, a pooling of the stated kind, and at most a normalisation:
    a Dense layer in modules.json would be left out silently.
    """
    path = folder / "modules.json"
    if not path.exists():
        return
    modules = {
        entry["type"].split(".")[-1]: entry["path"] for entry in json.loads(path.read_text())
    }
    others = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if others:
        raise ScoringError(f"model '{name}': {path} has modules not supported: {others}")
    if "Normalize" in modules and similarity != "cosine":
        raise ScoringError(
            f"model '{name}': its folder normalises embeddings; set similarity: cosine"
        )
    if "Pooling" in modules:
        stated = stated_poolings(folder / modules["Pooling"] / "config.json")
        if stated != {pooling}:
            raise ScoringError(
                f"model '{name}': pooling is {pooling}, but its folder states "
                f"{', '.join(sorted(stated))}; correct `pooling` in its YAML"
            )


def stated_poolings(path: Path) -> set[str]:
    """Poolings that a Pooling config turns on, in our words where we have one."""
    config = json.loads(path.read_text())
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        modes = [mode] if isinstance(mode, str) else mode
        return {POOLING_WORDS.get(word, word) for word in modes}
    flags = {key for key, value in config.items() if key.startswith("pooling_mode_") and value}
    return {POOLING_FLAGS.get(flag, flag) for flag in flags}

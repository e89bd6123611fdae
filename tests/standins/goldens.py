"""The golden files of scripts/goldens/run that score one prompt or pair at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.standins import decoders, xlmr

GOLDEN = Path(__file__).parents[1] / "golden"
# golden -> labels whose logits make its score (a number is an id), None for a class with a head
LABELS: dict[str, tuple[str | int, ...] | None] = {
    "flag_reranker": None,
    "flag_llm_reranker": ("Yes",),
    "mxbai": ("1", "0"),
    "qwen3": ("yes", "no"),
    "qwen3_st": ("yes", "no"),
    "seqcls": None,
    "zerank": ("Yes",),
    "ctxl": (0,),
    "ctxl_6b": (0,),
    "lighton_pw": ("Yes", "No"),
    "nemotron": None,
}
GOLDENS: dict[str, dict[str, Any]] = {
    name: json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")) for name in LABELS
}


def ids_of(name: str) -> dict[str, list[int]]:
    """Token ids that the reference fed, by the name of the row."""
    return {row["name"]: row["ids"] for row in GOLDENS[name]["rows"]}


def scores_of(name: str) -> np.ndarray:
    """Scores of the reference in the order of its rows, float64."""
    return np.array([row["score"] for row in GOLDENS[name]["rows"]])


def standin(kind: str, root: Path) -> Path:
    """The folder of a golden's stand-in under `root`, built if it is not there."""
    folder = root / kind
    if not folder.exists():
        if kind == "xlmr":
            xlmr.build(folder)
        else:
            decoders.build(kind, folder)
    return folder


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text by itself, no special tokens added."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])

"""Tiny listwise rerankers with the architectures, tokenizers and file layouts of the real ones.

`build(kind, folder)` writes a folder as a model hub has it. Kinds and what they stand for:
jina: jina-reranker-v3, a Qwen3 decoder named model.* and a projector, config.json naming code that
is not there. jina_hybrid: v3.5, three layers with a window of WINDOW tokens and two without.
zephyr: RankZephyr, a Mistral whose tokenizer adds one <s> and whose template has system turns.
lighton: LightOn-rerank-LW, Qwen3.5's linear and full attention.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from tests.standins import decoders
from tests.standins.decoder_tokenizers import QWEN_TOKENS, THINK, qwen, write_tokenizer
from tests.standins.weights import fill

MARKERS = {"<|embed_token|>": True, "<|rerank_token|>": True}
TOKENS = QWEN_TOKENS | THINK | MARKERS
WINDOW = 24  # tokens that jina_hybrid's sliding layers see
WIDTH = 512  # of jina's projector
POSITIONS = 131_072
ZEPHYR_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content']"
    " + eos_token + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}"
    "{% endif %}"
)
HYBRID = {
    "num_hidden_layers": 5,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"] * 2,
    "use_sliding_window": True,
    "sliding_window": WINDOW,
}


def build(kind: str, folder: Path, **options: Any) -> Path:
    """Write the stand-in into `folder`, which is made, and return it. options: of its config."""
    folder.mkdir(parents=True, exist_ok=True)
    KINDS[kind](folder, options)
    return folder


def _jina(folder: Path, options: dict[str, Any]) -> None:
    facts = replace(
        decoders.KINDS["qwen3"],
        model="Qwen3Model",
        tokenizer=lambda: qwen("qwen", TOKENS),
        tokens=TOKENS,
        options={"max_position_embeddings": POSITIONS, **options},
    )
    tokenizer = facts.tokenizer()
    decoders.write_tokenizer(tokenizer, facts.tokens, facts.settings, folder)
    model = fill(decoders.empty(facts, tokenizer))
    hidden = model.config.hidden_size
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    for name, rows, columns in (("0", hidden // 2, hidden), ("2", WIDTH, hidden // 2)):
        layer = fill(torch.nn.ModuleDict({name: torch.nn.Linear(columns, rows, bias=False)}))
        weights[f"projector.{name}.weight"] = layer[name].weight.detach()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = ["JinaForRanking"]
    model.config.auto_map = {"AutoModel": "modeling.JinaForRanking"}
    model.config.save_pretrained(folder)


def _zephyr(folder: Path, options: dict[str, Any]) -> None:
    original = decoders.KINDS["mistral"]
    facts = replace(
        original,
        settings={**original.settings, "chat_template": ZEPHYR_TEMPLATE},
        options={**original.options, **options},
    )
    _causal(folder, facts).save_pretrained(folder)


def _lighton(folder: Path, options: dict[str, Any]) -> None:
    original = decoders.KINDS["qwen3_5"]
    model = _causal(folder, replace(original, options={**original.options, **options}))
    decoders.centre_norms(model)
    decoders.lengthen_memory(model)
    model.save_pretrained(folder)


def _causal(folder: Path, facts: decoders.Kind) -> Any:
    """The model of a kind, its tokenizer written."""
    tokenizer = facts.tokenizer()
    write_tokenizer(tokenizer, facts.tokens, facts.settings, folder)
    return fill(decoders.empty(facts, tokenizer))


KINDS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "jina": _jina,
    "jina_hybrid": lambda folder, options: _jina(folder, {**HYBRID, **options}),
    "zephyr": _zephyr,
    "lighton": _lighton,
}


def set_config(folder: Path, name: str = "config.json", **values: Any) -> None:
    """Change values of a JSON file in a folder."""
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def digest(folder: Path) -> str:
    """Of what a stand-in's results depend on: its tokenizer and the values of its weights."""
    found = hashlib.sha256((folder / "tokenizer.json").read_bytes())
    for name, tensor in sorted(load_file(folder / "model.safetensors").items()):
        found.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        found.update(tensor.tobytes())
    return found.hexdigest()


def passages(count: int, seed: int = 0) -> list[str]:
    """Short texts that differ, in Korean and English."""
    words = ["필터", "교체", "주기", "reset", "filter", "every", "months", "question", "오류", "2"]
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, size=rng.integers(2, 9))) for _ in range(count)]

"""Tiny decoders with the architectures, tokenizers and file layouts of the real rerankers.

`build(kind, folder)` writes a folder as a model hub has it: config.json, model.safetensors,
tokenizer.json, tokenizer_config.json. Vocabulary and weights are the same in every environment
(tests/golden states their digests); transformers 4.57 and 5 both read the folders.

Kinds and what they stand for (special tokens and pre-tokenizers as the originals have them):
qwen3, qwen3_tied: Qwen3-Reranker, KURE-Reranker-base, zerank-2, ctxl 1b/2b. qwen3_seqcls: the same
weights with score.weight = lm_head[yes] - lm_head[no]. qwen2: mxbai-rerank v2. gemma:
bge-reranker-v2-gemma. llama: llama-nemotron-rerank, whose tokenizer and config have no pad token,
whose attention is bidirectional and whose score is read off the mean of the states
(`pooling: avg` in its config; NVIDIA's LlamaBidirectionalForSequenceClassification). mistral:
ctxl 6b; its tokenizer adds one <s>. qwen3_5: LightOn-rerank-PW, linear and full attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer

from tests.standins.decoder_tokenizers import (
    GEMMA_TOKENS,
    LLAMA_TOKENS,
    MISTRAL_TOKENS,
    QWEN_TOKENS,
    THINK,
    gemma,
    llama,
    mistral,
    qwen,
    write_tokenizer,
)
from tests.standins.rows import ROWS
from tests.standins.templates import CHAT_TEMPLATES
from tests.standins.weights import fill

__all__ = ["KINDS", "ROWS", "build"]

QWEN_SETTINGS = {
    "tokenizer_class": "Qwen2Tokenizer",
    "padding_side": "left",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "bos_token": None,
    "unk_token": None,
    "add_prefix_space": False,
    "add_bos_token": False,
}
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast", "padding_side": "left"}


@dataclass(frozen=True)
class Kind:
    """A model class, its config, and the tokenizer it comes with.

    settings: the kind's own part of tokenizer_config.json. options: of the model's config.
    """

    model: str
    config: str
    tokenizer: Callable[[], Tokenizer]
    tokens: dict[str, bool]
    settings: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)


SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
HYBRID = {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}


def qwen3(model: str = "Qwen3ForCausalLM", **options: Any) -> Kind:
    """A kind with Qwen3's tokenizer and layers."""
    tokens = QWEN_TOKENS | THINK
    settings = {
        **QWEN_SETTINGS,
        "model_max_length": 131_072,
        "chat_template": CHAT_TEMPLATES["qwen3"],
    }
    return Kind(model, "Qwen3Config", lambda: qwen("qwen", tokens), tokens, settings, options)


KINDS: dict[str, Kind] = {
    "qwen3": qwen3(),
    "qwen3_tied": qwen3(tie_word_embeddings=True),
    "qwen3_seqcls": qwen3(
        "Qwen3ForSequenceClassification", num_labels=1, pad_token_id="<|endoftext|>"
    ),
    "qwen2": Kind(
        "Qwen2ForCausalLM",
        "Qwen2Config",
        lambda: qwen("qwen", QWEN_TOKENS),
        QWEN_TOKENS,
        {**QWEN_SETTINGS, "model_max_length": 32_768},
        {"tie_word_embeddings": True},
    ),
    "gemma": Kind(
        "GemmaForCausalLM",
        "GemmaConfig",
        gemma,
        GEMMA_TOKENS,
        {
            "tokenizer_class": "GemmaTokenizer",
            "padding_side": "left",
            "model_max_length": 1_000_000_000_000_000_019_884_624_838_656,
            "add_bos_token": True,
            "add_eos_token": False,
            **{role: f"<{role[:3]}>" for role in ("bos_token", "eos_token", "pad_token")},
            "unk_token": "<unk>",
        },
        {
            "tie_word_embeddings": True,
            "head_dim": 16,
            "num_key_value_heads": 1,
            "bos_token_id": "<bos>",
            "eos_token_id": "<eos>",
            "pad_token_id": "<pad>",
        },
    ),
    "llama": Kind(
        "LlamaForSequenceClassification",
        "LlamaConfig",
        llama,
        LLAMA_TOKENS,
        {
            **GENERIC,
            "model_max_length": 131_072,
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|end_of_text|>",
        },
        {
            "num_labels": 1,
            "bos_token_id": "<|begin_of_text|>",
            "eos_token_id": "<|end_of_text|>",
            "pooling": "avg",
            "temperature": 1.0,
        },
    ),
    "mistral": Kind(
        "MistralForCausalLM",
        "MistralConfig",
        mistral,
        MISTRAL_TOKENS,
        {
            **GENERIC,
            "model_max_length": 32_768,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "</s>",
        },
        {"bos_token_id": "<s>", "eos_token_id": "</s>", "sliding_window": None},
    ),
    "qwen3_5": Kind(
        "Qwen3_5ForCausalLM",
        "Qwen3_5TextConfig",
        lambda: qwen("qwen3_5", QWEN_TOKENS | THINK),
        QWEN_TOKENS | THINK,
        {
            **QWEN_SETTINGS,
            "tokenizer_class": "Qwen3_5Tokenizer",
            "model_max_length": 16_384,
            "chat_template": CHAT_TEMPLATES["qwen3_5"],
        },
        {**HYBRID, "tie_word_embeddings": True},
    ),
}

# their norms multiply by 1 + weight
ZERO_CENTRED = ("gemma", "qwen3_5")
NORMS = ("layernorm.weight", "q_norm.weight", "k_norm.weight", "model.norm.weight")


def build(kind: str, folder: Path) -> Path:
    """Write the stand-in into `folder`, which is made, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = KINDS[kind]
    tokenizer = facts.tokenizer()
    write_tokenizer(tokenizer, facts.tokens, facts.settings, folder)
    model = fill(empty(facts, tokenizer))
    if kind in ZERO_CENTRED:
        centre_norms(model)
    if kind == "qwen3_5":
        lengthen_memory(model)
    if kind == "qwen3_seqcls":
        read_labels(model, tokenizer)
    model.save_pretrained(folder)
    return folder


def empty(facts: Kind, tokenizer: Tokenizer) -> Any:
    """The kind's model with whatever weights transformers gives it.

    The embedding has a few rows more than the tokenizer has ids, as the originals have.
    """
    options = {
        name: tokenizer.token_to_id(value) if name.endswith("_token_id") else value
        for name, value in facts.options.items()
    }
    rows = -(-tokenizer.get_vocab_size() // 16) * 16
    config = getattr(transformers, facts.config)(**{**SIZES, "vocab_size": rows, **options})
    with torch.random.fork_rng():
        return getattr(transformers, facts.model)(config)


def centre_norms(model: Any) -> None:
    """Gains that the architecture adds to 1 are about 0: gains of 2 would amplify rounding."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(NORMS):
                weight -= 1


def lengthen_memory(model: Any) -> None:
    """Decays near 0.95 a token, so that the whole text reaches the score; outputs small enough that
    rounding stays below 1e-5 of it."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("A_log"):
                weight -= 3
            elif name.endswith("conv1d.weight"):
                weight *= 2
            elif name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")):
                weight *= 0.5


def read_labels(model: Any, tokenizer: Tokenizer) -> None:
    """The head of a converted causal model: its row for yes minus its row for no."""
    facts = KINDS["qwen3"]
    head = fill(empty(facts, tokenizer)).lm_head.weight
    yes, no = (tokenizer.token_to_id(label) for label in ("yes", "no"))
    with torch.no_grad():
        model.score.weight.copy_((head[yes] - head[no])[None])

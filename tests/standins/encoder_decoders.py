"""Tiny T5, mT5 and T5Gemma2 folders with tokenizers of the same make as the real ones.

Vocabularies are written down and weights drawn by name (`weights.fill`), so that the folders are
the same wherever they are built: golden scores depend on it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import transformers
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast

from tests.standins.weights import fill

LENGTH = 64  # the tokenizers' model_max_length
WINDOW = 8  # tokens of T5Gemma2's sliding window

LONG = "필터 교체 주기는 석 달이다. Replace the filter every three months. " * 4
NFD = "\u1112\u1161\u11ab\u1100\u1173\u11af"  # "한글" in conjoining jamo
# short, empty, over-long document, query and both, special tokens, CJK, emoji, NFD, line breaks
ROWS = [
    ("필터 교체", "필터는 석 달마다 교체한다."),
    ("which filter?", "Replace the filter every month."),
    ("filter", ""),
    ("", "replace the filter"),
    ("", ""),
    ("필터 교체 주기", LONG),
    (LONG, "석 달"),
    (LONG, LONG),
    ("</s> <bos> filter <end_of_turn>", "a <eos> b </s> <pad> c <start_of_turn> d </s>"),
    ("東京の水", "水は東京の名物ではない。"),
    ("reset 😀", "😀😀 reset 🙂"),
    ("reset 😀🙂😀🙂😀", "🙂" * 20),
    (NFD, NFD + " filter"),
    ("filter\n", "replace\n\tthe  filter \n"),
]

WRITTEN = """
Query: Document: Relevant: true false yes no Judge whether the meets requirements based on and
Instruct provided. Note that answer can only be "yes" or "no". Given a query, retrieve documents
filter replace Replace every month months which reset three query. document
"""
WORDS = WRITTEN.split()
LINES = ["Judge", "user", "model", "<Document>:", "<Query>:", "<Instruct>:"]  # without a space
HANGUL = "필터교체주기는석달이다마한글"  # other letters are bytes to Gemma, <unk> to T5
ASCII = [chr(code) for code in range(33, 127)]


def unigram() -> tuple[Tokenizer, dict[str, str]]:
    """T5's: Unigram with Metaspace, no bytes, </s> after a text; what it does not know is <unk>."""
    names = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    pieces = [*names.values(), "▁", *ASCII, *HANGUL, *(f"▁{word}" for word in WORDS)]
    # a word costs less than its letters, a known letter less than <unk>
    scores = [0.0, 0.0, 0.0, *(-8.0 if len(piece) == 1 else -6.0 for piece in pieces[3:])]
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=2))
    tokenizer.normalizer = normalizers.NFKC()
    split = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer, names


def byte_pairs() -> tuple[Tokenizer, dict[str, str]]:
    """Gemma's: BPE over the whole text with byte fallback, line breaks as tokens, <bos> before."""
    names = {"pad": "<pad>", "eos": "<eos>", "bos": "<bos>", "unk": "<unk>", "mask": "<mask>"}
    turns = ["<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"]
    breaks = ["\n\n", "\n\n\n", "\n\n\n\n"]
    vocabulary = [*names.values(), *turns, *breaks, *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary += ["▁", "\n", "\t", *ASCII, *HANGUL]
    merges: list[tuple[str, str]] = []
    for word in ["yes", "no", *(f"▁{word}" for word in WORDS), *LINES]:
        left = word[0]
        for right in word[1:]:
            if left + right not in vocabulary:
                merges.append((left, right))
                vocabulary.append(left + right)
            left += right
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    bpe = models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens([*names.values(), *turns])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in breaks])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", 2)]
    )
    return tokenizer, names


def t5(vocabulary: int, **changes: Any) -> Any:
    """Original T5: ReLU, scaled decoder outputs."""
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**_t5_settings(vocabulary) | changes)
    )


def mt5(vocabulary: int, **changes: Any) -> Any:
    """mT5: gated GELU, decoder outputs as they are."""
    return transformers.MT5ForConditionalGeneration(
        transformers.MT5Config(**_t5_settings(vocabulary) | changes)
    )


def _t5_settings(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary + 3,  # real ones have more rows than pieces, too
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }


def t5gemma2(vocabulary: int, **changes: Any) -> Any:
    """T5Gemma2: a sliding and a full layer, grouped queries, and the image tower it comes with."""
    text = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "max_position_embeddings": 512,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"],
        **changes,
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "image_size": 8,
        "patch_size": 4,
    }
    encoder = {
        "text_config": text,
        "vision_config": vision,
        "mm_tokens_per_image": 4,
        "boi_token_index": 7,
        "eoi_token_index": 8,
        "image_token_index": 4,
    }
    config = transformers.T5Gemma2Config(encoder=encoder, decoder=text, image_token_index=4)
    return transformers.T5Gemma2ForConditionalGeneration(config)


KINDS = {
    "t5": (t5, unigram, "right"),
    "mt5": (mt5, unigram, "right"),
    "t5gemma2": (t5gemma2, byte_pairs, "left"),  # Gemma's tokenizers pad on the left
}


def build(kind: str, folder: Path, **changes: Any) -> Path:
    """Save a tiny model of a kind, settings of its text configuration changed at will."""
    make, tokenizer_of, side = KINDS[kind]
    tokenizer, names = tokenizer_of()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LENGTH,
        padding_side=side,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{role}_token": token for role, token in names.items()},
    ).save_pretrained(folder)
    fill(make(tokenizer.get_vocab_size(), **changes)).save_pretrained(folder)
    return folder


def digest(folder: Path) -> str:
    """sha256 over vocabulary and weights of a folder, whatever the libraries write around them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="float32")
    found = hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    for name, weight in sorted(model.named_parameters()):
        found.update(f"{name} {tuple(weight.shape)}\n".encode())
        found.update(weight.detach().numpy().tobytes())
    return found.hexdigest()

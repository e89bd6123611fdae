"""Tokenizers of the decoder stand-ins: pre-tokenizer, special tokens and frame of the originals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors
from tokenizers import pre_tokenizers as pre

from tests.standins.vocabulary import byte_level, metaspace

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "qwen": CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "qwen3_5": CONTRACTIONS
    + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
    + TAIL,
    "llama": CONTRACTIONS
    + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    + TAIL,
    "mistral": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL,
}
# name -> special (False: an added token that decoding with skip_special_tokens keeps)
QWEN_TOKENS = {
    "<|endoftext|>": True,
    "<|im_start|>": True,
    "<|im_end|>": True,
    "<|object_ref_start|>": True,
    "<|object_ref_end|>": True,
    "<tool_call>": False,
    "</tool_call>": False,
    "<|fim_prefix|>": False,
    "<|fim_pad|>": False,
}
THINK = {"<tool_response>": False, "</tool_response>": False, "<think>": False, "</think>": False}
LLAMA_TOKENS = dict.fromkeys(
    (
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ),
    True,
)
GEMMA_TOKENS = dict.fromkeys(
    ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"), True
)
MISTRAL_TOKENS = dict.fromkeys(("<unk>", "<s>", "</s>", "[INST]", "[/INST]"), True)


def qwen(pattern: str, tokens: dict[str, bool]) -> Tokenizer:
    """Byte-level BPE after NFC; punctuation takes the line breaks that follow it."""
    merges, vocabulary = byte_level()
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(vocabulary)}, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split(pattern)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=s) for t, s in tokens.items()])
    return tokenizer


def split(pattern: str) -> pre.PreTokenizer:
    """Split by a regular expression, then write the bytes of each piece."""
    return pre.Sequence(
        [
            pre.Split(Regex(PATTERNS[pattern]), behavior="isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def llama() -> Tokenizer:
    """Llama 3: byte-level BPE; a pair gets a second <|begin_of_text|>."""
    merges, vocabulary = byte_level()
    ids = {token: n for n, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = split("llama")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in LLAMA_TOKENS])
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), begin_with(tokenizer, "<|begin_of_text|>")]
    )
    return tokenizer


def mistral() -> Tokenizer:
    """Tekken: byte-level BPE whose first ids are its special tokens, so id 0 is <unk>."""
    merges, vocabulary = byte_level()
    vocabulary = [*MISTRAL_TOKENS, *vocabulary]
    ids = {token: n for n, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = split("mistral")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in MISTRAL_TOKENS])
    tokenizer.post_processor = begin_with(tokenizer, "<s>")
    return tokenizer


def gemma() -> Tokenizer:
    """BPE with byte fallback over whole texts, spaces written as the metaspace."""
    merges, vocabulary = metaspace(GEMMA_TOKENS)
    ids = {token: n for n, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(
        models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in GEMMA_TOKENS])
    tokenizer.post_processor = begin_with(tokenizer, "<bos>")
    return tokenizer


def begin_with(tokenizer: Tokenizer, token: str) -> processors.PostProcessor:
    """One beginning-of-text token before each text."""
    return processors.TemplateProcessing(
        single=f"{token} $A",
        pair=f"{token} $A {token} $B:1",
        special_tokens=[(token, tokenizer.token_to_id(token))],
    )


def write_tokenizer(
    tokenizer: Tokenizer, tokens: dict[str, bool], settings: dict[str, Any], folder: Path
) -> None:
    """tokenizer.json and tokenizer_config.json in the layout that every release reads."""
    tokenizer.save(str(folder / "tokenizer.json"))
    added = {
        tokenizer.token_to_id(token): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": special,
        }
        for token, special in tokens.items()
    }
    stated = {
        "added_tokens_decoder": {str(number): added[number] for number in sorted(added)},
        "clean_up_tokenization_spaces": False,
        **settings,
    }
    text = json.dumps(stated, ensure_ascii=False, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")

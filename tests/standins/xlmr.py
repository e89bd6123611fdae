"""A tiny XLM-R cross-encoder: bge-reranker-v2-m3 and its fine-tunes.

The vocabulary is written down, not trained. It has no normalizer: the original's is a compiled
table, and transformers 5 keeps no other one of a tokenizer.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, models, processors
from tokenizers import pre_tokenizers as pre

from tests.standins.rows import ROWS
from tests.standins.vocabulary import pieces
from tests.standins.weights import fill

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3; <mask> is the last id
POSITIONS = 514  # rows of the position table; the model reads two tokens less
SETTINGS = {
    "tokenizer_class": "XLMRobertaTokenizer",
    "model_max_length": POSITIONS - 2,
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
    "clean_up_tokenization_spaces": False,
}


def vocabulary() -> list[tuple[str, float]]:
    """Pieces and log-probabilities: words, then single characters of the rows but for emoji."""
    words = [f"▁{piece.strip()}" for piece in pieces() if piece.strip().isalpha()]
    text = "".join(character for _, *texts in ROWS for text in texts for character in text)
    characters = sorted({c for c in text if c < "\U00010000" and not c.isspace()} | {"▁"})
    ordered = dict.fromkeys([*words, *characters])
    return [
        *((token, 0.0) for token in SPECIALS),
        *(
            (piece, -4.0 - rank / 64 if len(piece) > 1 else -9.0)
            for rank, piece in enumerate(ordered)
        ),
    ]


def build(folder: Path, positions: int = POSITIONS) -> Path:
    """Write XLMRobertaForSequenceClassification with one label and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.Unigram(vocabulary(), unk_id=3))
    tokenizer.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIALS])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {**SETTINGS, "model_max_length": positions - 2}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    config = transformers.XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=positions,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        num_labels=1,
    )
    with torch.random.fork_rng():
        model = transformers.XLMRobertaForSequenceClassification(config)
    fill(model).save_pretrained(folder)
    return folder

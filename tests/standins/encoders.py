"""Tiny encoders of the real architectures, saved as any model is: BERT, XLM-R, ModernBERT, ettin.

`build(kind, folder)` is the way in; tests read the rows that the tokenizers were trained on here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.standins import rows
from tests.standins.weights import fill

LENGTH = 48  # tokens of the models' inputs
LONG = rows.LONG
SPECIALS = (
    ("[SEP] </s> filter", "a <s> b </s> [CLS] c <mask> [MASK] d"),
    ("filter <pad> [PAD]", "<pad> replace </s> [PAD] [SEP]"),
    ("filter", "replace the filter[PAD]<pad>"),
    ("filter", " \t "),
    ("", ""),
)
# (query, document): the row set of all families, and special tokens of encoders in texts
ROWS = [*((query, document) for _, query, document in rows.ROWS), *SPECIALS]
SHORT = [row for row in ROWS if row[0] is not LONG]  # those whose query fits

Made = tuple[Tokenizer, dict[str, str]]


def bert_tokenizer() -> Made:
    """WordPiece with BERT's frame and two token types."""
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    _train(tokenizer, trainers.WordPieceTrainer(vocab_size=400, special_tokens=[*names.values()]))
    tokenizer.post_processor = _frame(tokenizer, "[CLS] $A [SEP]", "$B:1 [SEP]:1")
    return tokenizer, names


def xlmr_tokenizer() -> Made:
    """Unigram with Metaspace and XLM-R's frame; <pad> is 1."""
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=[*names.values()], unk_token="<unk>"
    )
    _train(tokenizer, trainer)
    tokenizer.post_processor = _frame(tokenizer, "<s> $A </s>", "</s> $B </s>")
    return tokenizer, {**names, "cls": "<s>", "sep": "</s>"}


def modernbert_tokenizer() -> Made:
    """Byte-level BPE after NFC with ModernBERT's frame, which has one token type."""
    names = {"unk": "[UNK]", "pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[*names.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    _train(tokenizer, trainer)
    tokenizer.post_processor = _frame(tokenizer, "[CLS] $A [SEP]", "$B [SEP]")
    return tokenizer, names


def _train(tokenizer: Tokenizer, trainer: Any) -> None:
    tokenizer.train_from_iterator([text for row in ROWS for text in row], trainer)


def _frame(tokenizer: Tokenizer, single: str, rest: str) -> Any:
    specials = ("[CLS]", "[SEP]", "<s>", "</s>")
    ids = [(token, tokenizer.token_to_id(token)) for token in specials]
    return processors.TemplateProcessing(
        single=single,
        pair=f"{single} {rest}",
        special_tokens=[(token, number) for token, number in ids if number is not None],
    )


@dataclass(frozen=True)
class Kind:
    """An architecture: how its tokenizer is made, its classes, and the settings it is told by.

    config: keyword arguments of the configuration class beside the common sizes.
    """

    tokenizer: Callable[[], Made]
    family: str  # transformers' prefix: "Bert" has BertConfig, BertForSequenceClassification
    token_types: bool = False
    config: dict[str, Any] = field(default_factory=dict)


MODERNBERT = Kind(
    modernbert_tokenizer,
    "ModernBert",
    # a window of 4 tokens to each side in two layers of three: most rows are longer
    config={
        "num_hidden_layers": 3,
        "max_position_embeddings": LENGTH,
        "local_attention": 8,
        "classifier_pooling": "cls",
        "cls_token_id": 2,
        "bos_token_id": 2,
        "sep_token_id": 3,
        "eos_token_id": 3,
        "pad_token_id": 1,
    },
)
KINDS = {
    "bert": Kind(
        bert_tokenizer,
        "Bert",
        token_types=True,
        config={"max_position_embeddings": LENGTH, "pad_token_id": 0},
    ),
    "xlmr": Kind(
        xlmr_tokenizer,
        "XLMRoberta",
        # two rows of the table are lost to padding_idx
        config={"max_position_embeddings": LENGTH + 2, "pad_token_id": 1, "type_vocab_size": 1},
    ),
    "modernbert": MODERNBERT,
    "modernbert_mean": replace(
        MODERNBERT, config={**MODERNBERT.config, "classifier_pooling": "mean"}
    ),
}
COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def build(
    kind: str, folder: Path, *, labels: int = 1, pad_token: bool = True, **config: Any
) -> Path:
    """Save the stand-in `kind` with a classification head, or for "ettin" with modules of its own.

    labels: outputs of the head; pad_token: does the tokenizer name one; config: any setting of the
    model's configuration in place of the stand-in's.
    """
    if kind == "ettin":
        return build_ettin(folder, labels=labels, **config)
    facts = KINDS[kind]
    vocabulary = save_tokenizer(facts, folder, pad_token=pad_token)
    settings = {**COMMON, **facts.config, "vocab_size": vocabulary, "num_labels": labels, **config}
    architecture = getattr(transformers, f"{facts.family}ForSequenceClassification")
    model = architecture(getattr(transformers, f"{facts.family}Config")(**settings))
    fill(model).save_pretrained(folder)
    return folder


def save_tokenizer(kind: Kind, folder: Path, *, pad_token: bool = True) -> int:
    """Save a kind's tokenizer; the number of its tokens."""
    tokenizer, names = kind.tokenizer()
    if not pad_token:
        del names["pad"]
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LENGTH,
        model_input_names=["input_ids", "attention_mask"]
        + (["token_type_ids"] if kind.token_types else []),
        **{f"{role}_token": token for role, token in names.items()},
    ).save_pretrained(folder)
    return int(tokenizer.get_vocab_size())


def build_ettin(
    folder: Path, *, labels: int = 1, pooling: str = "cls", residual: bool = False, **config: Any
) -> Path:
    """A modular cross-encoder, saved by sentence-transformers: ModernBERT, Pooling, Dense with
    GELU, LayerNorm, Dense that writes `scores`; the order and settings of ettin-reranker-*-v1."""
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
    from torch import nn

    encoder = folder.parent / f"{folder.name}-encoder"
    vocabulary = save_tokenizer(MODERNBERT, encoder)
    settings = {**COMMON, **MODERNBERT.config, "vocab_size": vocabulary, **config}
    bare = transformers.ModernBertModel(transformers.ModernBertConfig(**settings))
    fill(bare).save_pretrained(encoder)
    size = COMMON["hidden_size"]
    inner = Dense(size, size, False, nn.GELU(), use_residual=residual)
    score = Dense(size, labels, True, nn.Identity(), module_output_name="scores")
    head = [Pooling(size, pooling), inner, LayerNorm(size), score]
    model = CrossEncoder(
        modules=[Transformer(str(encoder)), *map(fill, head)],
        num_labels=labels,
        activation_fn=nn.Identity(),
        device="cpu",
    )
    model.save_pretrained(str(folder))
    return folder

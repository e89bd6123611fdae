"""Random rerankers of a few tens of millions of parameters, and texts of realistic mixed lengths.

Only what decides the speed of a forward is modelled on the originals: architecture, layer shapes,
tokenizer algorithm, prompt, and how long queries and documents are. Scores mean nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CANDIDATES = 50  # of one query
VOCABULARY = 16_000  # tokens: a larger table would outweigh the layers and is never multiplied
MAX_LENGTH = 1_024  # tokens, for both sides; no text reaches it
SYLLABLES = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "n", "r", "s")]


def words(count: int) -> list[str]:
    """Distinct made-up words, common ones first and shorter."""
    rng = random.Random(17)
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = rng.randint(1, 2) if len(found) < 300 else rng.randint(2, 4)
        found["".join(rng.choices(SYLLABLES, k=syllables))] = None
    return list(found)


def pairs_by_query(pairs: int) -> list[tuple[str, list[str]]]:
    """Queries of 3 to 12 words with `CANDIDATES` documents each, `pairs` documents at least.

    Document lengths are log-normal about 55 words (mean about 65, longest 300): passages, with
    some long ones. Words follow Zipf's law; the rare ones are several tokens.
    """
    rng = random.Random(23)
    known = words(20_000)
    weights = [1 / (rank + 10) for rank in range(len(known))]

    def text(length: int) -> str:
        return " ".join(rng.choices(known, weights, k=length)) + "."

    def document() -> str:
        return text(min(300, max(5, round(rng.lognormvariate(4.0, 0.6)))))

    return [
        (text(rng.randint(3, 12)), [document() for _ in range(CANDIDATES)])
        for _ in range(-(-pairs // CANDIDATES))
    ]


def scale(model: Any) -> Any:
    """Weights that keep the size of what they are given, so that scores spread at any width."""
    import torch

    generator = torch.Generator().manual_seed(17)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                spread = parameter.shape[-1] ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return model.eval()


def train_bpe(tokenizer: Any, specials: list[str]) -> None:
    """A byte-level vocabulary of the made-up words, and of Qwen's prompt so that it is short."""
    from tokenizers import AddedToken, pre_tokenizers, trainers

    from tests.standins.prompts import RECIPES

    known = words(20_000)
    common = [" ".join(known[: len(known) // part]) for part in (1, 2, 4, 8, 16)]
    prompt = [text for text in RECIPES["qwen3"]["prompt"] for _ in range(100)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    corpus = [*common, *prompt, *["yes no", "yes", "no", "\n\n"] * 100]
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in specials])


def write_tokenizer(tokenizer: Any, folder: Path, **settings: Any) -> None:
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **settings})
    )


def write_xlmr(folder: Path) -> None:
    """Unigram pieces over the metaspace; absolute positions, post-norm layers."""
    from tokenizers import AddedToken, Tokenizer, models, processors
    from tokenizers import pre_tokenizers as pre
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

    specials = ("<s>", "<pad>", "</s>", "<unk>")
    known = words(VOCABULARY - 100)
    letters = sorted({letter for word in known for letter in word} | {".", "▁"})
    scores = [(f"▁{word}", -4.0 - rank / 2_000) for rank, word in enumerate(known)]
    entries = [*((token, 0.0) for token in specials), *scores, *((one, -14.0) for one in letters)]
    tokenizer = Tokenizer(models.Unigram(entries, unk_id=3))
    tokenizer.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    names |= {"pad_token": "<pad>", "unk_token": "<unk>"}
    write_tokenizer(tokenizer, folder, model_max_length=MAX_LENGTH, **names)
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=384,
        num_hidden_layers=8,
        num_attention_heads=6,
        intermediate_size=1536,
        max_position_embeddings=MAX_LENGTH + 2,
        type_vocab_size=1,
        num_labels=1,
    )
    scale(XLMRobertaForSequenceClassification(config)).save_pretrained(folder)


def write_modernbert(folder: Path) -> None:
    """Byte-level BPE; rotary positions, gated layers, two of three with a window of 128."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import ModernBertConfig, ModernBertForSequenceClassification

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["[CLS]", "[SEP]", "[PAD]"]
    train_bpe(tokenizer, specials)
    ids = {token: tokenizer.token_to_id(token) for token in specials}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    write_tokenizer(
        tokenizer,
        folder,
        model_max_length=MAX_LENGTH,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        model_input_names=["input_ids", "attention_mask"],
    )
    config = ModernBertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=384,
        num_hidden_layers=10,
        num_attention_heads=6,
        intermediate_size=576,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=ids["[PAD]"],
        bos_token_id=ids["[CLS]"],
        cls_token_id=ids["[CLS]"],
        eos_token_id=ids["[SEP]"],
        sep_token_id=ids["[SEP]"],
        num_labels=1,
    )
    scale(ModernBertForSequenceClassification(config)).save_pretrained(folder)


def write_qwen3(folder: Path) -> None:
    """Qwen's tokenizer and chat template; grouped keys and values, heads of 64."""
    from tokenizers import Tokenizer, models, normalizers
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from tests.standins.decoder_tokenizers import QWEN_TOKENS, THINK, split
    from tests.standins.templates import CHAT_TEMPLATES

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split("qwen")
    train_bpe(tokenizer, [*QWEN_TOKENS, *THINK])
    write_tokenizer(
        tokenizer,
        folder,
        model_max_length=MAX_LENGTH,
        padding_side="left",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATES["qwen3"],
    )
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        intermediate_size=1536,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
    )
    scale(Qwen3ForCausalLM(config)).save_pretrained(folder)


@dataclass(frozen=True)
class Reranker:
    """A model to measure. write: makes its folder; adapter: of ours; prompt: is it a decoder?"""

    write: Callable[[Path], None]
    adapter: str
    prompt: bool = False


RERANKERS = {
    "xlmr": Reranker(write_xlmr, "pair_encoder"),
    "modernbert": Reranker(write_modernbert, "pair_encoder"),
    "qwen3": Reranker(write_qwen3, "prompt_decoder", prompt=True),
}

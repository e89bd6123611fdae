"""Encoder-decoders: the encoder reads the document, the decoder answers with one of two words.

Covers KaLM-Reranker on T5Gemma2 (query in the decoder, encoder states averaged over four tokens)
and monoT5 on T5 and mT5 (both texts in the encoder). The score is the margin of two logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rerank.batching import Length, cheapest_split, parts
from rerank.errors import ScoringError
from rerank.models import transformer
from rerank.models.contract import Contract, sequence
from rerank.models.contract import Reading as PairContract
from rerank.models.encoder_decoder_answer import (
    Answer,
    Architecture,
    answer_of,
    architecture_of,
    fp32_modules,
    label_ids,
)
from rerank.models.encoder_decoder_prompts import QUERY
from rerank.models.encoder_decoder_reader import EncoderDecoderParams, PairReader
from rerank.models.pointwise import Pointwise, Reading, distinct_items
from rerank.models.weights import input_folder, resolve_folder
from rerank.records import Item, ModelSpec, Placement, QueryGroup

AUTO_CLASS = "AutoModelForSeq2SeqLM"
PART_TOKENS = 256  # a forward of the encoder costs about as much as these tokens of padding do


class EncoderDecoder(Pointwise):
    """A loaded encoder-decoder; see `Scorer`. Scores are fp32 margins of two logits."""

    segment_pairs = 4_096  # pairs of one document are found within a segment

    def __init__(
        self,
        stacks: tuple[Any, Any],
        answer: Answer,
        reader: PairReader,
        *,
        device: str,
        facts: dict[str, Any],
    ) -> None:
        self.encoder, self.decoder = stacks
        self.answer = answer
        self.reader = reader
        self.device = device
        self.facts = facts
        self.encoder_positions = positions_of(self.encoder)

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct input. Pairs of equal documents share the encoder's tokens."""
        pairs = [(group.query, document) for group in groups for document in group.documents]
        readings = [
            Reading(
                value=None if found.refusal else (found.encoder, found.decoder),
                tokens=len(found.encoder) + len(found.decoder),
                truncated=bool(found.cuts),
                failure=found.refusal,
            )
            for found in self.reader.read(pairs)
        ]
        items = distinct_items(groups, readings)
        return items if QUERY in self.reader.encoder.fields else with_shares(items)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, 1) float32 margins. Equal encoder inputs are encoded once."""
        import torch

        encoder, decoder = zip(*(item.payload.value for item in items), strict=True)
        distinct = {ids: row for row, ids in enumerate(dict.fromkeys(encoder))}
        with torch.inference_mode():
            states, mask = self._encoded(list(distinct))
            rows = torch.tensor([distinct[ids] for ids in encoder], device=self.device)
            margins = np.empty((len(items), 1), dtype=np.float32)
            for part in parts([len(ids) for ids in decoder]):
                chosen = rows[part]
                last = self._decoded([decoder[row] for row in part], states[chosen], mask[chosen])
                margins[part] = self.answer.margins(last).cpu().numpy()
        return margins

    def _encoded(self, rows: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """States (n, length, hidden) that the decoder attends to, and their mask (n, length).

        A batch is planned around the decoder, so its documents are of any length: they go through
        the encoder in parts of like length.
        """
        import torch

        found = [(part, *self._states([rows[row] for row in part])) for part in parts_of(rows)]
        width = max(states.shape[1] for _, states, _ in found)
        first = found[0][1]
        whole = first.new_zeros((len(rows), width, first.shape[2]))
        mask = torch.zeros((len(rows), width), dtype=torch.int64, device=self.device)
        for part, states, real in found:
            whole[part, : states.shape[1]] = states
            mask[part, : states.shape[1]] = real
        return whole, mask

    def _states(self, rows: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """States of one part and their mask. States of padding are zero: attention may leave
        anything there, NaN included, where no token is within a layer's window."""
        inputs = self._padded(rows, self.encoder_positions)
        mask = inputs["attention_mask"]
        states = self.encoder(**inputs).last_hidden_state
        states = states.masked_fill(~mask.bool().unsqueeze(-1), 0)
        chunk = self.reader.params.pool_chunk
        return (states, mask) if chunk is None else pooled(states, mask, chunk)

    def _decoded(self, rows: Sequence[tuple[int, ...]], states: Any, mask: Any) -> Any:
        """(n, hidden) states of the last real token of each decoder input."""
        import torch

        longest = max(map(len, rows))
        limit = longest if longest == 1 else self.reader.decoder_positions  # T5's start: no padding
        inputs = self._padded(rows, limit)
        decoded = self.decoder(
            **inputs, encoder_hidden_states=states, encoder_attention_mask=mask, use_cache=False
        ).last_hidden_state
        numbers = torch.arange(len(rows), device=self.device)
        return decoded[numbers, inputs["attention_mask"].sum(dim=1) - 1]

    def _padded(self, rows: Sequence[tuple[int, ...]], positions: int | None) -> dict[str, Any]:
        pad_id = self.reader.tokenizer.pad_token_id
        return transformer.padded_inputs(
            rows, None, pad_id=pad_id, positions=positions, device=self.device
        )

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def with_shares(items: Sequence[Item]) -> list[Item]:
    """Items that begin with the same encoder ids share these, so that they meet in one batch."""
    numbers: dict[tuple[int, ...], int] = {}
    shared = []
    for item in items:
        if item.failure is None:
            ids = item.payload.value[0]
            number = numbers.setdefault(ids, len(numbers))
            item = replace(item, share=number, shared_tokens=len(ids))
        shared.append(item)
    return shared


def parts_of(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Numbers of the rows that are encoded together, longest first, at the least cost in tokens."""
    order = sorted(range(len(rows)), key=lambda row: (-len(rows[row]), row))
    lengths = [Length(PART_TOKENS + len(rows[row]), None, PART_TOKENS) for row in order]
    parts = []
    for size in cheapest_split(lengths, sum(length.tokens for length in lengths) * 8):
        parts.append(order[:size])
        order = order[size:]
    return parts


def pooled(states: Any, mask: Any, chunk: int) -> tuple[Any, Any]:
    """Mean over each `chunk` consecutive tokens: (n, length, hidden) -> (n, chunks, hidden).

    The first chunk begins at the first token, which is real: rows are padded on the right. Only
    real tokens are averaged; a chunk without any is masked. Means are taken in fp32.
    """
    import torch

    short = -states.shape[1] % chunk
    states = torch.nn.functional.pad(states, (0, 0, 0, short))
    mask = torch.nn.functional.pad(mask, (0, short))
    counts = mask.unflatten(1, (-1, chunk)).sum(dim=2)
    sums = states.unflatten(1, (-1, chunk)).float().sum(dim=2)
    means = sums / counts.clamp(min=1).unsqueeze(-1)
    return means.to(states.dtype), (counts > 0).to(mask.dtype)


def positions_of(stack: Any) -> int | None:
    """Most tokens of an encoder or decoder, None where its positions are relative (T5)."""
    stated = getattr(stack.config.get_text_config(), "max_position_embeddings", None)
    return int(stated) if stated else None


@dataclass(frozen=True)
class Recipe:
    """What is known of a model before its weights are read."""

    reader: PairReader
    architecture: Architecture
    labels: tuple[int, int]
    facts: dict[str, Any]


def recipe_of(spec: ModelSpec, folder: str) -> Recipe:
    """Tokenizer and configuration of a model, checked. ScoringError: labels, lengths, kind."""
    params: EncoderDecoderParams = spec.params or EncoderDecoderParams()
    tokenizer = transformer.load_tokenizer(spec, folder, params.pad_token)
    model = transformer.empty_model(AUTO_CLASS, spec, folder)
    architecture = architecture_of(spec, model)
    vocabulary = len(model.get_output_embeddings().weight)
    labels = label_ids(spec, params, tokenizer, vocabulary)
    positions = positions_of(model.get_encoder())
    reader = PairReader(
        tokenizer,
        params,
        max_length=transformer.input_limit(spec, tokenizer, positions),
        decoder_start=getattr(model.config, "decoder_start_token_id", None),
        decoder_positions=positions_of(model.get_decoder()),
    )
    pair = reader.read([("a query", "a document")])[0]
    rendered = (*pair.encoder, *pair.decoder)
    facts = reader.facts() | {
        "position_limit": positions,
        "label_ids": list(labels),
        "head_dtype": "float32",
        "normalisation": None,
        **transformer.describe_tokenizer(folder, rendered, tokenizer),
    }
    return Recipe(reader, architecture, labels, facts)


def load(spec: ModelSpec, placement: Placement) -> EncoderDecoder:
    """Load an encoder-decoder. ScoringError: files, labels, positions or dtype are wrong."""
    weights = resolve_folder(spec)
    recipe = recipe_of(spec, weights.folder)
    if placement.dtype == "float16" and not recipe.architecture.float16:
        raise ScoringError(
            f"model '{spec.name}': states of this kind of model exceed the range of float16, and "
            "its scores are not finite; set dtype: bfloat16 or float32"
        )
    model = transformer.load_model(AUTO_CLASS, spec, placement, weights.folder)
    answer = answer_of(model, recipe.labels, placement.device)
    keep = fp32_modules(model) if placement.dtype == "float16" else []
    facts = {"model_class": type(model).__name__, "weights": weights.revision}
    placed = transformer.place(model, spec, placement, keep)
    return EncoderDecoder(
        (placed.get_encoder(), placed.get_decoder()),
        answer,
        recipe.reader,
        device=placement.device,
        facts=facts | recipe.facts,
    )


def contract(spec: ModelSpec) -> Contract:
    """The input contract, from the tokenizer and the configuration alone."""
    recipe = recipe_of(spec, input_folder(spec))
    tokenizer = recipe.reader.tokenizer

    def read(query: str, document: str) -> PairContract:
        (pair,) = recipe.reader.read([(query, document)])
        sequences = (
            sequence("encoder", tokenizer, pair.encoder),
            sequence("decoder", tokenizer, pair.decoder),
        )
        return PairContract(sequences, pair.cuts, pair.refusal)

    return Contract(recipe.facts, read)

"""Listwise embedding rerankers: one prompt holds a query's documents, states of markers are scored.

jina-reranker-v3 and v3.5 are a stock Qwen3 decoder and a two-layer projector, so the decoder is
loaded by transformers' own class and the projector from the model's safetensors: no code of the
model's repository runs. A score depends on the other documents and on their order, so one query's
candidates are never parted or reordered; several blocks are joined as modeling.py does.

v3.5's transformers recipe is v3's with other caps and with sliding windows in 16 of 28 layers. Its
GGUF and MLX ports write a second query marker, which this adapter does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.errors import ScoringError
from rerank.models import transformer
from rerank.models.contract import Contract, Reading, sequence
from rerank.models.listwise_backbone import (
    MODEL_CLASS,
    attention_layers,
    load_projector,
    stock_config,
    without_own_code,
)
from rerank.models.listwise_blocks import Block, BlockReader, ListwiseEmbeddingParams
from rerank.models.pointwise import empty_scores
from rerank.models.weights import input_folder, resolve_folder
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup


@dataclass(frozen=True)
class BlockInput:
    """Payload of an item: block of the group with this number in its segment."""

    group: int
    block: Block


class ListwiseEmbedding:
    """A loaded listwise embedding reranker; see `Scorer`. Scores are fp32 cosines in [-1, 1].

    An item is one block of one query, its output the fp32 embeddings of the block's documents and
    then of its query, one after the other. projector: the two weight matrices, fp32.
    """

    segment_pairs = 4096

    def __init__(
        self,
        model: Any,
        projector: tuple[Any, Any],
        reader: BlockReader,
        *,
        device: str,
        facts: dict[str, Any],
    ) -> None:
        self.model = model
        self.projector = projector
        self.reader = reader
        self.device = device
        self.facts = facts

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """The blocks of every query, documents in the order of the group."""
        return [
            _item(number, group, block)
            for number, group in enumerate(groups)
            for block in self.reader.read(group.query, group.documents)
        ]

    def forward(self, items: Sequence[Item]) -> list[np.ndarray]:
        """((documents + 1) * width,) float32 of each block."""
        import torch

        rows = [item.payload.block.ids for item in items]
        inputs = transformer.padded_inputs(
            rows,
            None,
            pad_id=self.reader.tokenizer.pad_token_id,
            positions=self.reader.positions,
            device=self.device,
        )
        if len(rows) == 1:  # without padding sdpa needs no mask, which has length x length entries
            inputs = {name: value[:, : len(rows[0])] for name, value in inputs.items()}
        with torch.inference_mode():
            states = self.model(**inputs, use_cache=False).last_hidden_state
            read = [states[row, self._markers(ids)] for row, ids in enumerate(rows)]
            embeddings = self._project(torch.cat(read)).cpu().numpy()
        ends = np.cumsum([len(part) for part in read])[:-1]
        return [part.reshape(-1) for part in np.split(embeddings, ends)]

    def _markers(self, ids: Sequence[int]) -> list[int]:
        """Positions whose states are read: of each document, then of the query."""
        found = np.asarray(ids)
        documents = np.flatnonzero(found == self.reader.document_id)
        return [*documents.tolist(), *np.flatnonzero(found == self.reader.query_id).tolist()]

    def _project(self, states: Any) -> Any:
        """(n, hidden) in the model's dtype -> (n, width) fp32, whatever that dtype is."""
        from torch.nn import functional

        first, second = self.projector
        return functional.linear(functional.linear(states.float(), first).relu(), second)

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        """See `Scorer.combine`. A document's `tokens` is the length of its block's prompt; without
        one of its blocks a query has no score at all, since every block enters every score."""
        members: list[list[int]] = [[] for _ in groups]
        for number, item in enumerate(items):
            members[item.payload.group].append(number)
        results = []
        for group, empty, numbers in zip(groups, empty_scores(groups), members, strict=True):
            own = [items[number] for number in numbers]
            _check_cover(group, own)
            empty.tokens[:] = [item.tokens for item in own for _ in item.payload.block.truncated]
            empty.truncated[:] = [flag for item in own for flag in item.payload.block.truncated]
            reason = next((failures[number] for number in numbers if failures[number]), None)
            found = [output for number in numbers if (output := outputs[number]) is not None]
            if reason is None:
                blocks = [
                    output.reshape(len(item.payload.block.truncated) + 1, -1)
                    for item, output in zip(own, found, strict=True)
                ]
                empty.scores[:] = fused_scores(group.query_id, blocks)
            results.append(
                GroupScores(empty.scores, empty.tokens, empty.truncated, (reason,) * len(group))
            )
        return results

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def _item(number: int, group: QueryGroup, block: Block) -> Item:
    first, last = (
        group.doc_ids[at] for at in (block.start, block.start + len(block.truncated) - 1)
    )
    return Item(
        payload=BlockInput(number, block),
        tokens=len(block.ids),
        truncated=any(block.truncated),
        label=f"query '{group.query_id}', documents '{first}' to '{last}'",
        failure=block.refusal,
    )


def _check_cover(group: QueryGroup, items: Sequence[Item]) -> None:
    """ScoringError unless the blocks hold every document of the query once, in its order."""
    place = 0
    for item in items:
        if item.payload.block.start != place:
            break
        place += len(item.payload.block.truncated)
    else:
        if place == len(group):
            return
    raise ScoringError(
        f"query '{group.query_id}': its blocks are not its {len(group)} documents in order; a "
        "listwise model's candidates must be scored together, so give it whole queries"
    )


def fused_scores(query_id: str, blocks: Sequence[np.ndarray]) -> np.ndarray:
    """(n,) float32 cosines of all documents of a query with its one fused query embedding.

    blocks: (documents + 1, width) float32, the query last. The query embeddings are averaged with
    the block's best (1 + cosine) / 2 as weight. ScoringError where all weights are zero.
    """
    queries = np.stack([block[-1] for block in blocks])
    documents = np.concatenate([block[:-1] for block in blocks])
    cosines = [_cosines(block[-1], block[:-1]) for block in blocks]
    weights = np.array([((1.0 + found) / 2.0).max() for found in cosines], dtype=np.float32)
    if not weights.any():
        raise ScoringError(
            f"query '{query_id}': every document is the query's opposite, so its blocks have no "
            "weight; check the model's weights"
        )
    return _cosines(np.average(queries, axis=0, weights=weights), documents)


def _cosines(query: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """(n,) float32; 0.0 with a zero vector."""
    norms = np.linalg.norm(query) * np.linalg.norm(documents, axis=1)
    products = documents @ query
    cosines: np.ndarray = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return cosines


def _reader(
    spec: ModelSpec, params: ListwiseEmbeddingParams, config: Any, folder: str
) -> tuple[BlockReader, dict[str, Any]]:
    """What turns queries into prompts, and the facts about it."""
    tokenizer = transformer.load_tokenizer(spec, folder, params.pad_token)
    positions = config.max_position_embeddings  # rotary: no table of positions bounds them
    max_length = transformer.input_limit(spec, tokenizer, positions)
    reader = BlockReader(tokenizer, params, max_length=max_length, positions=positions)
    rendered = reader.read("a query", ["a document", "another document"])[0].ids
    return reader, {
        "max_length": max_length,
        "position_limit": positions,
        "attention_layers": attention_layers(spec.name, config, params.sliding_layers),
        **transformer.describe_tokenizer(folder, rendered, tokenizer),
    }


def load(spec: ModelSpec, placement: Placement) -> ListwiseEmbedding:
    """Load a listwise embedding reranker. ScoringError: files, weights or markers are missing."""
    params = spec.params or ListwiseEmbeddingParams()
    weights = resolve_folder(spec)
    stock = without_own_code(spec, weights.folder)
    config = stock_config(stock, weights.folder)
    reader, facts = _reader(stock, params, config, weights.folder)
    first, second = load_projector(spec.name, weights.folder, config.hidden_size)
    model = transformer.load_model(MODEL_CLASS, stock, placement, weights.folder, dtype="auto")
    facts |= {"model_class": MODEL_CLASS, "weights": weights.revision, "head_dtype": "float32"}
    return ListwiseEmbedding(
        transformer.place(model, spec, placement),
        (first.to(placement.device), second.to(placement.device)),
        reader,
        device=placement.device,
        facts=facts,
    )


def contract(spec: ModelSpec) -> Contract:
    """The input contract, from the tokenizer and the configuration alone: a block of one."""
    params = spec.params or ListwiseEmbeddingParams()
    folder = input_folder(spec)
    stock = without_own_code(spec, folder)
    reader, facts = _reader(stock, params, stock_config(stock, folder), folder)

    def read(query: str, document: str) -> Reading:
        (block,) = reader.read(query, [document])
        return Reading((sequence("block", reader.tokenizer, block.ids),), block.cuts, block.refusal)

    return Contract(facts, read)

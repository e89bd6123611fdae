"""Bi-encoders: query and document are embedded apart, the score is the embeddings' similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rerank.errors import unknown_name
from rerank.models import transformer
from rerank.models.contract import Contract, Reading, sequence
from rerank.models.pointwise import empty_scores
from rerank.models.pooling import POOL
from rerank.models.sentence_modules import check_lower_case, check_modules, max_seq_length
from rerank.models.text_reader import TextReader
from rerank.models.text_reader import single_frame as single_frame  # other adapters use it
from rerank.models.tokenizer_file import match_tokenizer
from rerank.models.weights import input_folder, resolve_folder
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup

SIMILARITIES = ("cosine", "dot")


@dataclass(frozen=True)
class BiEncoderParams:
    """Settings of a bi-encoder.

    pooling: mean over the tokens, cls (first token) or last (last token) of the last layer;
    query_prefix, document_prefix: written before the text, exactly as the model was trained;
    similarity: cosine (embeddings are normalised) or dot (they are not);
    split_special_tokens, pad_token: as for pair_encoder.
    """

    pooling: str = "mean"
    query_prefix: str = ""
    document_prefix: str = ""
    similarity: str = "cosine"
    split_special_tokens: bool = False
    pad_token: str | None = None

    def __post_init__(self) -> None:
        if self.pooling not in POOL:
            raise unknown_name("pooling", self.pooling, POOL)
        if self.similarity not in SIMILARITIES:
            raise unknown_name("similarity", self.similarity, SIMILARITIES)

    def query(self, text: str) -> str:
        """A query as the model reads it."""
        return self.query_prefix + text

    def document(self, text: str) -> str:
        """A document as the model reads it."""
        return self.document_prefix + text


class BiEncoder:
    """A loaded bi-encoder; see `Scorer`. An item is one distinct text with its prefix."""

    def __init__(
        self,
        model: Any,
        reader: TextReader,
        params: BiEncoderParams,
        *,
        device: str,
        facts: dict[str, Any],
    ) -> None:
        self.model = model
        self.reader = reader
        self.params = params
        self.device = device
        self.facts = facts
        self.positions = transformer.position_limit(model)

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct text; a text that is both query and document is two inputs
        where the prefixes differ."""
        labels: dict[str, str] = {}
        for group in groups:
            labels.setdefault(self.params.query(group.query), f"query '{group.query_id}'")
            for doc_id, document in zip(group.doc_ids, group.documents, strict=True):
                labels.setdefault(self.params.document(document), f"document '{doc_id}'")
        readings = map(self.reader.read, self.reader.ids(list(labels)))
        return [
            Item((text, ids), len(ids), truncated, label)
            for (text, label), (ids, truncated) in zip(labels.items(), readings, strict=True)
        ]

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, hidden) float32 pooled states, not normalised."""
        import torch

        inputs = transformer.padded_inputs(
            [item.payload[1] for item in items],
            None,
            pad_id=self.reader.tokenizer.pad_token_id,
            positions=self.positions,
            device=self.device,
        )
        with torch.inference_mode():
            states = self.model(**inputs).last_hidden_state.float()
            pooled = POOL[self.params.pooling](states, inputs["attention_mask"])
        embeddings: np.ndarray = pooled.cpu().numpy()
        return embeddings

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        """See `Scorer.combine`. A pair's `tokens` is both texts' together; it is truncated, or has
        failed, where either text is or has."""
        place = {item.payload[0]: number for number, item in enumerate(items)}
        results = []
        for group, empty in zip(groups, empty_scores(groups), strict=True):
            query = place[self.params.query(group.query)]
            reasons: list[str | None] = []
            for row, document in enumerate(group.documents):
                pair = (query, place[self.params.document(document)])
                empty.tokens[row] = sum(items[number].tokens for number in pair)
                empty.truncated[row] = any(items[number].truncated for number in pair)
                empty.scores[row] = self.similarity(*(outputs[number] for number in pair))
                reasons.append(next((failures[at] for at in pair if failures[at]), None))
            results.append(GroupScores(empty.scores, empty.tokens, empty.truncated, tuple(reasons)))
        return results

    def similarity(self, query: np.ndarray | None, document: np.ndarray | None) -> float:
        """Similarity of two (hidden,) embeddings, summed in fp64 and rounded to fp32.

        One pair at a time, so it cannot depend on what else is scored. NaN where either is None;
        0.0 for the cosine with a zero vector.
        """
        if query is None or document is None:
            return float("nan")
        first, second = query.astype(np.float64), document.astype(np.float64)
        product = float((first * second).sum())
        if self.params.similarity == "cosine":
            norms = float(np.sqrt((first * first).sum() * (second * second).sum()))
            product = product / norms if norms else 0.0
        return float(np.float32(product))

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def load(spec: ModelSpec, placement: Placement) -> BiEncoder:
    """Load a bi-encoder. ScoringError: files, positions, pad token or stated pooling are wrong."""
    params = spec.params or BiEncoderParams()
    weights = resolve_folder(spec)
    folder = Path(weights.folder)
    _check_layout(spec, params, folder)
    tokenizer = transformer.load_tokenizer(spec, weights.folder, params.pad_token)
    # a pooler is a head over the first token; embeddings never read it, and many folders lack it
    model = transformer.load_model("AutoModel", spec, placement, weights.folder, unused=("pooler",))
    match_tokenizer(spec, tokenizer, model)
    positions = transformer.position_limit(model)
    reader = _reader(spec, params, tokenizer, positions, folder)
    facts = {
        "model_class": type(model).__name__,
        "weights": weights.revision,
        "max_length": reader.max_length,
        "position_limit": positions,
        **_digests(folder, params, reader),
    }
    placed = transformer.place(model, spec, placement)
    return BiEncoder(placed, reader, params, device=placement.device, facts=facts)


def contract(spec: ModelSpec) -> Contract:
    """What the recipe reads of a query and of a document, which are two inputs."""
    params = spec.params or BiEncoderParams()
    folder = Path(input_folder(spec))
    _check_layout(spec, params, folder)
    tokenizer = transformer.load_tokenizer(spec, str(folder), params.pad_token)
    model = transformer.empty_model("AutoModel", spec, str(folder))
    positions = transformer.position_limit(model)
    reader = _reader(spec, params, tokenizer, positions, folder)
    before, after = (tokenizer.convert_ids_to_tokens(list(ids)) for ids in reader.frame)
    frame = " ".join((*before, "{text}", *after))

    def read(query: str, document: str) -> Reading:
        texts = {"query": params.query(query), "document": params.document(document)}
        found = {name: reader.explain(name, text) for name, text in texts.items()}
        parts = [sequence(name, tokenizer, ids) for name, (ids, _) in found.items()]
        return Reading(tuple(parts), tuple(cut for _, cuts in found.values() for cut in cuts))

    facts = {
        "template": {
            "query": frame.replace("{text}", params.query("{query}")),
            "document": frame.replace("{text}", params.document("{document}")),
        },
        "max_length": reader.max_length,
        "position_limit": positions,
        "truncation_side": tokenizer.truncation_side,
        "readout": f"{params.similarity} of {params.pooling} pooled states, fp32",
        "normalisation": "L2" if params.similarity == "cosine" else None,
    }
    return Contract(facts | _digests(folder, params, reader), read)


def _check_layout(spec: ModelSpec, params: BiEncoderParams, folder: Path) -> None:
    check_modules(spec.name, folder, pooling=params.pooling, similarity=params.similarity)


def _reader(
    spec: ModelSpec,
    params: BiEncoderParams,
    tokenizer: Any,
    positions: int | None,
    folder: Path,
) -> TextReader:
    check_lower_case(spec.name, folder, tokenizer)
    own = max_seq_length(spec.name, folder) if spec.max_length is None else None
    limited = spec if own is None else replace(spec, max_length=own)
    max_length = transformer.input_limit(limited, tokenizer, positions)
    frame = single_frame(tokenizer)
    return TextReader(tokenizer, frame, max_length, params.split_special_tokens)


def _digests(folder: Path, params: BiEncoderParams, reader: TextReader) -> dict[str, str]:
    rendered, _ = reader.read(reader.ids([params.query("a query")])[0])
    return transformer.describe_tokenizer(str(folder), rendered, reader.tokenizer)

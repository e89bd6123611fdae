"""Bi-encoders: query and document are embedded apart, the score is the embeddings' similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rerank.errors import ScoringError, unknown_name
from rerank.models import transformer
from rerank.models.pointwise import empty_scores
from rerank.models.sentence_modules import check_modules, max_seq_length
from rerank.models.weights import resolve_folder
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup

POOLINGS = ("mean", "cls", "last")
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
        if self.pooling not in POOLINGS:
            raise unknown_name("pooling", self.pooling, POOLINGS)
        if self.similarity not in SIMILARITIES:
            raise unknown_name("similarity", self.similarity, SIMILARITIES)


class BiEncoder:
    """A loaded bi-encoder; see `Scorer`. An item is one distinct text with its prefix."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        params: BiEncoderParams,
        *,
        max_length: int,
        device: str,
        facts: dict[str, Any],
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.params = params
        self.max_length = max_length
        self.device = device
        self.facts = facts
        self.positions = transformer.position_limit(model)
        self.before, self.after = single_frame(tokenizer)

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct text; a text that is both query and document is two inputs
        where the prefixes differ."""
        labels: dict[str, str] = {}
        for group in groups:
            labels.setdefault(self._query(group), f"query '{group.query_id}'")
            for doc_id, document in zip(group.doc_ids, group.documents, strict=True):
                labels.setdefault(self._document(document), f"document '{doc_id}'")
        split = self.params.split_special_tokens
        ids = transformer.token_ids(self.tokenizer, list(labels), split_special_tokens=split)
        return [
            self._item(text, label, found)
            for (text, label), found in zip(labels.items(), ids, strict=True)
        ]

    def _query(self, group: QueryGroup) -> str:
        return self.params.query_prefix + group.query

    def _document(self, document: str) -> str:
        return self.params.document_prefix + document

    def _item(self, text: str, label: str, ids: Sequence[int]) -> Item:
        room = self.max_length - len(self.before) - len(self.after)
        kept = transformer.cut(ids, room, self.tokenizer.truncation_side)
        whole = (*self.before, *kept, *self.after)
        return Item((text, whole), len(whole), len(kept) < len(ids), label)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, hidden) float32 pooled states, not normalised."""
        import torch

        inputs = transformer.padded_inputs(
            [item.payload[1] for item in items],
            None,
            pad_id=self.tokenizer.pad_token_id,
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
            query = place[self._query(group)]
            reasons: list[str | None] = []
            for row, document in enumerate(group.documents):
                pair = (query, place[self._document(document)])
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


def _mean(states: Any, mask: Any) -> Any:
    """Mean of the states of real tokens: (n, length, hidden), (n, length) -> (n, hidden)."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def _cls(states: Any, mask: Any) -> Any:
    """State of the first token."""
    return states[:, 0]


def _last(states: Any, mask: Any) -> Any:
    """State of the last real token (inputs are padded on the right)."""
    import torch

    rows = torch.arange(len(states), device=states.device)
    return states[rows, mask.sum(dim=1).clamp(min=1) - 1]


POOL = {"mean": _mean, "cls": _cls, "last": _last}


def single_frame(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Special tokens before and after a single text. ScoringError: the tokenizer has no frame."""
    encoded = tokenizer(["a"], truncation=False, padding=False).encodings[0]
    sides, ids = encoded.sequence_ids, encoded.ids
    if 0 not in sides:
        raise ScoringError("the tokenizer makes no token of the text 'a'")
    start = sides.index(0)
    return tuple(ids[:start]), tuple(ids[start + sides.count(0) :])


def load(spec: ModelSpec, placement: Placement) -> BiEncoder:
    """Load a bi-encoder. ScoringError: files, positions, pad token or stated pooling are wrong."""
    params = spec.params or BiEncoderParams()
    weights = resolve_folder(spec)
    folder = Path(weights.folder)
    check_modules(spec.name, folder, pooling=params.pooling, similarity=params.similarity)
    tokenizer = transformer.load_tokenizer(spec, weights.folder, params.pad_token)
    # a pooler is a head over the first token; embeddings never read it, and many folders lack it
    model = transformer.load_model("AutoModel", spec, placement, weights.folder, unused=("pooler",))
    positions = transformer.position_limit(model)
    own = max_seq_length(folder) if spec.max_length is None else None
    max_length = transformer.input_limit(
        replace(spec, max_length=own or spec.max_length), tokenizer, positions
    )
    facts = {
        "model_class": type(model).__name__,
        "weights": weights.revision,
        "max_length": max_length,
        "position_limit": positions,
    }
    scorer = BiEncoder(
        transformer.place(model, spec, placement),
        tokenizer,
        params,
        max_length=max_length,
        device=placement.device,
        facts=facts,
    )
    group = QueryGroup("q", "a query", (), (), ())
    facts |= transformer.describe_tokenizer(weights.folder, scorer.encode([group])[0].payload[1])
    return scorer

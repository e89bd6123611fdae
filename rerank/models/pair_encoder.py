"""Cross-encoders: an encoder reads query and document together, a head gives one raw logit.

Covers every AutoModelForSequenceClassification with one label (or a stated one of several): BERT,
XLM-R, ModernBERT. The frame of special tokens is reserved before any text is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.errors import ConfigError, ScoringError, unknown_name
from rerank.models import transformer
from rerank.models.pair_frame import TRUNCATIONS, Frame
from rerank.models.pointwise import Reading, distinct_items, scatter
from rerank.models.weights import resolve_folder
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup

TOKEN_TYPES = ("auto", "drop")


@dataclass(frozen=True)
class PairEncoderParams:
    """Settings of a cross-encoder.

    truncation: only_second cuts the document alone; longest_first cuts whichever is longer, as
        sentence-transformers does.
    query_cap: most tokens of a query, an integer, or a fraction of max_length (0.75 is
        FlagEmbedding's 3/4); null never cuts a query under only_second: a pair whose query leaves
        no token to its document is refused, and recorded as a failure.
    token_type_ids: auto passes them where the tokenizer makes them, drop never does.
    label_index: the logit to take where the head has several; null demands exactly one.
    keep_head_fp32: compute the head in fp32 whatever the dtype: bf16 logits come in steps of 1/16.
    split_special_tokens: read "[SEP]" inside a text as text where the tokenizer can (a Unigram one,
        XLM-R's, cannot: its specials are ordinary pieces too); false reads it as the special
        token, as sentence-transformers does.
    pad_token: an existing token to pad with, for tokenizers that have none.
    """

    truncation: str = "only_second"
    query_cap: int | float | None = None
    token_type_ids: str = "auto"
    label_index: int | None = None
    keep_head_fp32: bool = True
    split_special_tokens: bool = False
    pad_token: str | None = None

    def __post_init__(self) -> None:
        if self.truncation not in TRUNCATIONS:
            raise unknown_name("truncation", self.truncation, TRUNCATIONS)
        if self.token_type_ids not in TOKEN_TYPES:
            raise unknown_name("token_type_ids", self.token_type_ids, TOKEN_TYPES)
        cap = self.query_cap
        if cap is not None and (cap <= 0 or (isinstance(cap, float) and cap > 1)):
            raise ConfigError(
                f"query_cap {cap}: give a whole number of tokens, a fraction up to 1.0, or null"
            )

    def query_tokens(self, max_length: int) -> int | None:
        """Most tokens of a query, None for no cap."""
        if isinstance(self.query_cap, float):
            return int(max_length * self.query_cap)
        return self.query_cap


class PairEncoder:
    """A loaded cross-encoder; see `Scorer`. Scores are fp32 logits, never sigmoids of them."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        params: PairEncoderParams,
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
        self.frame = Frame.of(tokenizer)
        self.positions = transformer.position_limit(model)
        self.passes_types = (
            params.token_type_ids == "auto" and "token_type_ids" in tokenizer.model_input_names
        )

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct sequence of ids; each distinct text is tokenised once."""
        texts = dict.fromkeys(text for group in groups for text in (group.query, *group.documents))
        split = self.params.split_special_tokens
        ids = transformer.token_ids(self.tokenizer, list(texts), split_special_tokens=split)
        known = dict(zip(texts, ids, strict=True))
        readings = [
            self.read(known[group.query], known[document])
            for group in groups
            for document in group.documents
        ]
        return distinct_items(groups, readings)

    def read(self, query: Sequence[int], document: Sequence[int]) -> Reading:
        """What the model reads of a pair of token id lists: (ids, token types) in one frame."""
        fitted = self.frame.fit(
            query,
            document,
            max_length=self.max_length,
            query_cap=self.params.query_tokens(self.max_length),
            truncation=self.params.truncation,
            side=self.tokenizer.truncation_side,
        )
        if isinstance(fitted, str):
            tokens = self.frame.length + len(query) + len(document)
            return Reading(value=None, tokens=tokens, failure=fitted)
        ids, types = self.frame.fill(*fitted)
        truncated = len(ids) < self.frame.length + len(query) + len(document)
        return Reading((ids, types), len(ids), truncated)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, 1) float32 raw logits."""
        import torch

        ids, types = zip(*(item.payload.value for item in items), strict=True)
        inputs = transformer.padded_inputs(
            ids,
            types if self.passes_types else None,
            pad_id=self.tokenizer.pad_token_id,
            positions=self.positions,
            device=self.device,
        )
        with torch.inference_mode():
            logits = self.model(**inputs).logits
        column = self.params.label_index or 0
        scores: np.ndarray = logits[:, column : column + 1].float().cpu().numpy()
        return scores

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        """See `Scorer.combine`."""
        return scatter(groups, items, outputs, failures)

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def load(spec: ModelSpec, placement: Placement) -> PairEncoder:
    """Load a cross-encoder. ScoringError: files, head, labels, positions or pad token are wrong."""
    params = spec.params or PairEncoderParams()
    weights = resolve_folder(spec)
    tokenizer = transformer.load_tokenizer(spec, weights.folder, params.pad_token)
    model = transformer.load_model(
        "AutoModelForSequenceClassification", spec, placement, weights.folder
    )
    _check_labels(spec, params, model.config.num_labels)
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    max_length = transformer.input_limit(spec, tokenizer, transformer.position_limit(model))
    keep = transformer.head_modules(model) if params.keep_head_fp32 else []
    facts = {
        "model_class": type(model).__name__,
        "weights": weights.revision,
        "max_length": max_length,
        "position_limit": transformer.position_limit(model),
        "head_dtype": "float32" if params.keep_head_fp32 else placement.dtype,
    }
    placed = transformer.place(model, spec, placement, keep)
    scorer = PairEncoder(
        placed, tokenizer, params, max_length=max_length, device=placement.device, facts=facts
    )
    query, document = transformer.token_ids(
        tokenizer, ["a query", "a document"], split_special_tokens=params.split_special_tokens
    )
    facts |= transformer.describe_tokenizer(weights.folder, scorer.frame.fill(query, document)[0])
    return scorer


def _check_labels(spec: ModelSpec, params: PairEncoderParams, labels: int) -> None:
    if params.label_index is None and labels != 1:
        raise ScoringError(
            f"model '{spec.name}' has {labels} labels; set `label_index` in its YAML to the one "
            "that means relevant (config.json lists them as id2label)"
        )
    if params.label_index is not None and not 0 <= params.label_index < labels:
        raise ScoringError(
            f"model '{spec.name}' has labels 0 to {labels - 1}; label_index is {params.label_index}"
        )

"""Cross-encoders: an encoder reads query and document together, a head gives one raw logit.

Covers every AutoModelForSequenceClassification with one label (or a stated one of several): BERT,
XLM-R, ModernBERT; and encoders with a head of sentence-transformers modules, such as ettin. The
frame of special tokens is reserved before any text is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rerank.errors import ConfigError, ScoringError, unknown_name
from rerank.models import transformer
from rerank.models.contract import Contract
from rerank.models.pair_frame import TRUNCATIONS, Frame
from rerank.models.pair_reader import PairReader
from rerank.models.pointwise import Pointwise, distinct_items
from rerank.models.sentence_head import SentenceHead, has_modular_head, load_head
from rerank.models.sentence_modules import check_lower_case, check_prompt, max_seq_length
from rerank.models.tokenizer_file import match_tokenizer
from rerank.models.weights import input_folder, resolve_folder
from rerank.records import Item, LoadedWeights, ModelSpec, Placement, QueryGroup

TOKEN_TYPES = ("auto", "drop")
# head -> the Auto class that loads what comes before it, or it as well
HEADS = {"auto": "AutoModelForSequenceClassification", "st_modules": "AutoModel"}


@dataclass(frozen=True)
class PairEncoderParams:
    """Settings of a cross-encoder.

    truncation: only_second cuts the document alone; longest_first cuts whichever is longer, as
        sentence-transformers does.
    query_cap: most tokens of a query, an integer, or a fraction of max_length (0.75 is
        FlagEmbedding's 3/4); null never cuts a query under only_second: a pair whose query leaves
        no token to its document is refused, and recorded as a failure.
    head: auto is the architecture's own classification head; st_modules the layers that
        modules.json lists after the encoder, the last of which writes `scores` (ettin).
    token_type_ids: auto passes them where the tokenizer makes them, drop never does.
    label_index: the logit to take where the head has several; null demands exactly one.
    keep_head_fp32: compute the head in fp32 whatever the dtype: bf16 logits come in steps of 1/16
        (a head of st_modules always is).
    split_special_tokens: read "[SEP]" inside a text as text where the tokenizer can (a Unigram one,
        XLM-R's, cannot: its specials are ordinary pieces too); false reads it as the special
        token, as sentence-transformers does.
    pad_token: an existing token to pad with, for tokenizers that have none.
    """

    truncation: str = "only_second"
    query_cap: int | float | None = None
    head: str = "auto"
    token_type_ids: str = "auto"
    label_index: int | None = None
    keep_head_fp32: bool = True
    split_special_tokens: bool = False
    pad_token: str | None = None

    def __post_init__(self) -> None:
        if self.truncation not in TRUNCATIONS:
            raise unknown_name("truncation", self.truncation, TRUNCATIONS)
        if self.head not in HEADS:
            raise unknown_name("head", self.head, HEADS)
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


class PairEncoder(Pointwise):
    """A loaded cross-encoder; see `Scorer`. Scores are fp32 logits, never sigmoids of them.

    head: what turns the model's states into logits, None where the model does it itself.
    """

    segment_pairs = 2_048  # a second or two of tokenising: the next pairs' goes on meanwhile

    def __init__(
        self,
        model: Any,
        head: SentenceHead | None,
        reader: PairReader,
        *,
        label: int,
        device: str,
        facts: dict[str, Any],
    ) -> None:
        self.model = model
        self.head = head
        self.reader = reader
        self.label = label
        self.device = device
        self.facts = facts
        self.positions = transformer.position_limit(model)

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct sequence of ids; each distinct text is tokenised once."""
        texts = dict.fromkeys(text for group in groups for text in (group.query, *group.documents))
        known = dict(zip(texts, self.reader.ids(list(texts)), strict=True))
        readings = [
            self.reader.read(known[group.query], known[document])
            for group in groups
            for document in group.documents
        ]
        return distinct_items(groups, readings)

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, 1) float32 raw logits."""
        import torch

        ids, types = zip(*(item.payload.value for item in items), strict=True)
        inputs = transformer.padded_inputs(
            ids,
            types if self.reader.passes_types else None,
            pad_id=self.reader.tokenizer.pad_token_id,
            positions=self.positions,
            device=self.device,
        )
        with torch.inference_mode():
            logits = self._logits(inputs)
        scores: np.ndarray = logits[:, self.label : self.label + 1].float().cpu().numpy()
        return scores

    def _logits(self, inputs: dict[str, Any]) -> Any:
        if self.head is None:
            return self.model(**inputs).logits
        return self.head(self.model(**inputs).last_hidden_state, inputs["attention_mask"])

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def load(spec: ModelSpec, placement: Placement) -> PairEncoder:
    """Load a cross-encoder. ScoringError: files, head, labels, positions or pad token are wrong."""
    params = spec.params or PairEncoderParams()
    weights = resolve_folder(spec)
    folder = Path(weights.folder)
    _check_layout(spec, params, folder)
    tokenizer = transformer.load_tokenizer(spec, weights.folder, params.pad_token)
    model = transformer.load_model(
        HEADS[params.head], spec, placement, weights.folder, unused=_unused(params)
    )
    head = load_head(spec, folder) if params.head == "st_modules" else None
    _check_labels(spec, params, head.labels if head else model.config.num_labels)
    match_tokenizer(spec, tokenizer, model)
    reader = _reader(spec, params, tokenizer, transformer.position_limit(model), folder)
    if head is not None:
        head.to(placement.device)
    own_head = transformer.head_modules(model) if head is None and params.keep_head_fp32 else []
    return PairEncoder(
        transformer.place(model, spec, placement, keep_fp32=own_head),
        head,
        reader,
        label=params.label_index or 0,
        device=placement.device,
        facts=_facts(weights, model, reader),
    )


def contract(spec: ModelSpec) -> Contract:
    """What the recipe reads of a pair, from tokenizer and configuration files alone."""
    params = spec.params or PairEncoderParams()
    folder = input_folder(spec)
    _check_layout(spec, params, Path(folder))
    tokenizer = transformer.load_tokenizer(spec, folder, params.pad_token)
    model = transformer.empty_model(HEADS[params.head], spec, folder)
    positions = transformer.position_limit(model)
    reader = _reader(spec, params, tokenizer, positions, Path(folder))
    facts = reader.facts() | {
        "position_limit": positions,
        "readout": f"logit {params.label_index or 0} of the head, fp32",
        "normalisation": None,
    }
    return Contract(facts | _digests(folder, reader), reader.explain)


def _reader(
    spec: ModelSpec, params: PairEncoderParams, tokenizer: Any, positions: int | None, folder: Path
) -> PairReader:
    check_lower_case(spec.name, folder, tokenizer)
    own = max_seq_length(spec.name, folder) if spec.max_length is None else None
    limited = spec if own is None else replace(spec, max_length=own)
    max_length = transformer.input_limit(limited, tokenizer, positions)
    makes_types = "token_type_ids" in tokenizer.model_input_names
    return PairReader(
        tokenizer=tokenizer,
        frame=Frame.of(tokenizer),
        max_length=max_length,
        query_cap=params.query_tokens(max_length),
        truncation=params.truncation,
        split_special_tokens=params.split_special_tokens,
        passes_types=params.token_type_ids == "auto" and makes_types,
    )


def _facts(weights: LoadedWeights, model: Any, reader: PairReader) -> dict[str, Any]:
    return {
        "model_class": type(model).__name__,
        "weights": weights.revision,
        "max_length": reader.max_length,
        "position_limit": transformer.position_limit(model),
        **_digests(weights.folder, reader),
    }


def _digests(folder: str, reader: PairReader) -> dict[str, str]:
    rendered, _ = reader.frame.fill(*reader.ids(["a query", "a document"]))
    return transformer.describe_tokenizer(folder, rendered, reader.tokenizer)


def _unused(params: PairEncoderParams) -> tuple[str, ...]:
    """A pooler is a head over the first token, which modular heads never read."""
    return ("pooler",) if params.head == "st_modules" else ()


def _check_layout(spec: ModelSpec, params: PairEncoderParams, folder: Path) -> None:
    """ScoringError where the folder's head is not the one that the YAML states."""
    check_prompt(spec.name, folder)
    modular = has_modular_head(spec.name, folder)
    if modular and params.head != "st_modules":
        raise ScoringError(
            f"model '{spec.name}': the head in {folder} is made of sentence-transformers modules; "
            "set head: st_modules in its YAML (its architecture's own head would be random)"
        )
    if params.head == "st_modules" and not modular:
        raise ScoringError(
            f"model '{spec.name}': {folder} has no modules.json with a Dense layer that writes "
            "scores; set head: auto in its YAML"
        )


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

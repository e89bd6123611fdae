"""Decoders that answer a prompt: the score is read from the state at the prompt's last token.

Covers Qwen3-Reranker and its sequence classifiers, mxbai-rerank-v2, bge-reranker-v2-gemma,
zerank-2, ctxl-rerank-v2, LightOn-rerank-PW and llama-nemotron-rerank: each one YAML file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rerank.errors import ConfigError, unknown_name
from rerank.models import transformer
from rerank.models.bi_encoder import single_frame
from rerank.models.causal import Decoder, Row, can_share, check_direction
from rerank.models.contract import Contract, Reading, sequence
from rerank.models.pointwise import Pointwise, distinct_items
from rerank.models.pointwise import Reading as PairReading
from rerank.models.prompt_reader import (
    LENGTH_COUNTS,
    TRUNCATIONS,
    PromptReader,
    longest_beginning,
)
from rerank.models.prompt_template import Template, template_of_model
from rerank.models.readout import (
    READOUTS,
    Readout,
    classifier_readout,
    label_id,
    vocabulary_readout,
)
from rerank.models.weights import input_folder, resolve_folder
from rerank.records import Item, ModelSpec, Placement, QueryGroup

SPECIALS = ("none", "tokenizer")
DIRECTIONS = ("causal", "bidirectional")
POOLINGS = ("last", "mean")
# which transformers class holds the weights
MODEL_CLASSES = {
    "causal_lm": "AutoModelForCausalLM",
    "sequence_classification": "AutoModelForSequenceClassification",
    "image_text_to_text": "AutoModelForImageTextToText",
}
LEAST_SHARED = 8  # tokens; a shorter beginning is not worth a forward of its own


@dataclass(frozen=True)
class PromptDecoderParams:
    """Settings of a prompt decoder.

    prompt: pieces of the prompt, each tokenised by itself, with {query}, {document} and
        {instruction}; or messages: "ROLE: CONTENT" each, put into the model's own chat template.
    special_tokens: tokenizer writes the tokenizer's own around the prompt (one BOS for Llama,
        Gemma, Mistral), none writes what the prompt says and no more.
    query_cap, document_cap: most tokens of a text, an integer or a fraction of max_length; of its
        piece, label included, where it ends a piece of its own (mxbai, bge-gemma).
    truncation: document cuts the document's end and refuses a pair whose query leaves it no token;
        end cuts what stands before the literal end, the query too, as the Qwen3 snippet does.
    length_counts: what max_length counts: all of the prompt; texts, from the query's piece to the
        document's (mxbai); or flag_embedding, all before the literal end may have max_length tokens
        and as many more as that end.
    readout: difference, logit of `positive_token` less that of `negative_token`; token, the logit
        of `positive_token`; token_id, the logit of vocabulary entry `token_id`; classifier, a
        one-label head.
    pooling: last token's state, or the mean over all tokens (classifier only).
    attention_direction: checked when the model is loaded: does a token see those after it?
    share_beginnings: compute what one query's prompts begin with once a batch.
    split_special_tokens, pad_token: as for pair_encoder.
    """

    prompt: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    instruction: str = ""
    special_tokens: str = "none"
    query_cap: int | float | None = None
    document_cap: int | float | None = None
    truncation: str = "document"
    length_counts: str = "all"
    readout: str = "difference"
    positive_token: str = ""
    negative_token: str = ""
    token_id: int | None = None
    pooling: str = "last"
    model_class: str = "causal_lm"
    attention_direction: str = "causal"
    share_beginnings: bool = field(default=True, metadata={"identity": False})
    split_special_tokens: bool = False
    pad_token: str | None = None

    def __post_init__(self) -> None:
        for name, known in (
            ("special_tokens", SPECIALS),
            ("truncation", TRUNCATIONS),
            ("length_counts", LENGTH_COUNTS),
            ("readout", READOUTS),
            ("pooling", POOLINGS),
            ("model_class", MODEL_CLASSES),
            ("attention_direction", DIRECTIONS),
        ):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        if bool(self.prompt) == bool(self.messages):
            raise ConfigError("state `prompt` or `messages`, and only one of them")
        self._check_readout()
        for cap in (self.query_cap, self.document_cap):
            if cap is not None and (cap <= 0 or (isinstance(cap, float) and cap > 1)):
                raise ConfigError(f"cap {cap}: a number of tokens, a fraction up to 1.0, or null")
        if self.prompt:
            Template.of(self.prompt, self.instruction)

    def _check_readout(self) -> None:
        needed = {
            "difference": ("positive_token", "negative_token"),
            "token": ("positive_token",),
            "token_id": ("token_id",),
            "classifier": (),
        }[self.readout]
        for name in ("positive_token", "negative_token", "token_id"):
            stated = getattr(self, name) not in ("", None)
            if stated != (name in needed):
                raise ConfigError(
                    f"readout {self.readout} takes {', '.join(needed) or 'no label'}; "
                    f"`{name}` is {'missing' if name in needed else 'not among them'}"
                )
        if (self.readout == "classifier") != (self.model_class == "sequence_classification"):
            raise ConfigError("readout classifier goes with model_class sequence_classification")
        if self.pooling == "mean" and self.readout != "classifier":
            raise ConfigError("pooling mean goes with readout classifier")


class PromptDecoder(Pointwise):
    """A loaded prompt decoder; see `Scorer`. Scores are fp32 margins or logits."""

    segment_pairs = 2_048

    def __init__(
        self, decoder: Decoder, readout: Readout, reader: PromptReader, *, shares: bool, facts: Any
    ) -> None:
        self.decoder = decoder
        self.readout = readout
        self.reader = reader
        self.shares = shares
        self.facts: dict[str, Any] = facts

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per distinct prompt; those of one query share what they begin with."""
        pairs = [(group.query, document) for group in groups for document in group.documents]
        readings = [
            PairReading(
                value=found.ids if found.refusal is None else None,
                tokens=len(found.ids),
                truncated=bool(found.cuts),
                failure=found.refusal,
            )
            for found in self.reader.read(pairs)
        ]
        items = distinct_items(groups, readings)
        return with_shares(items) if self.shares else items

    def forward(self, items: Sequence[Item]) -> np.ndarray:
        """(n, 1) float32 scores."""
        rows = [Row(item.payload.value, item.share, item.shared_tokens) for item in items]
        scores: np.ndarray = self.readout.scores(self.decoder.states(rows)).cpu().numpy()
        return scores

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def with_shares(items: Sequence[Item]) -> list[Item]:
    """Items whose prompts belong to one query share the tokens that all of these begin with."""
    queries: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        if item.failure is None:
            queries.setdefault(item.payload.rows[0][0], []).append(number)
    shared = list(items)
    for query, members in queries.items():
        common = longest_beginning([items[number].payload.value for number in members])
        if len(members) > 1 and common >= LEAST_SHARED:
            for number in members:
                shared[number] = replace(items[number], share=query, shared_tokens=common)
    return shared


def make_reader(
    spec: ModelSpec, params: PromptDecoderParams, model: Any, folder: str
) -> tuple[PromptReader, dict[str, Any]]:
    """What turns pairs into ids, and the facts about it. model: with its weights or without.

    ScoringError: tokenizer, template or lengths do not fit the model.
    """
    tokenizer = transformer.load_tokenizer(spec, folder, params.pad_token)
    pieces: Sequence[str] = params.prompt
    instruction = params.instruction
    if params.messages:
        pieces = [template_of_model(spec.name, tokenizer, params.messages, instruction)]
        instruction = ""
    positions = transformer.position_limit(model)
    reader = PromptReader(
        tokenizer,
        Template.of(pieces, instruction),
        params,
        max_length=transformer.input_limit(spec, tokenizer, positions),
        frame=single_frame(tokenizer) if params.special_tokens == "tokenizer" else ((), ()),
    )
    transformer.check_positions(spec, reader.longest(), positions)
    rendered = reader.read([("a query", "a document")])[0].ids
    return reader, {
        "max_length": reader.max_length,
        "position_limit": positions,
        "prompt": [piece.render("{query}", "{document}") for piece in reader.template.pieces],
        **transformer.describe_tokenizer(folder, rendered, tokenizer),
    }


def load(spec: ModelSpec, placement: Placement) -> PromptDecoder:
    """Load a prompt decoder. ScoringError: files, labels, positions or direction are wrong."""
    params = _params(spec)
    weights = resolve_folder(spec)
    model = transformer.load_model(
        MODEL_CLASSES[params.model_class], spec, placement, weights.folder, dtype="auto"
    )
    reader, facts = make_reader(spec, params, model, weights.folder)
    readout = _readout(spec, params, model, reader.tokenizer)
    base = getattr(model, model.base_model_prefix)
    if params.attention_direction == "bidirectional":
        base.config.is_causal = False
    masked = (
        params.attention_direction == "bidirectional" or placement.attention == "flash_attention_2"
    )
    decoder = Decoder(
        transformer.place(base, spec, placement),
        pad_id=reader.tokenizer.pad_token_id,
        device=placement.device,
        masked=masked,
        pooling=params.pooling,
    )
    check_direction(spec.name, decoder, params.attention_direction)
    shares = (
        params.share_beginnings
        and params.pooling == "last"  # a mean needs the states of the beginning too
        and params.attention_direction == "causal"
        and not spec.trust_code  # a cache of the repository's own making is not ours to rely on
        and can_share(base)
    )
    facts |= {
        "model_class": type(model).__name__,
        "weights": weights.revision,
        "head_dtype": "float32",
    }
    return PromptDecoder(decoder, readout.to(placement.device), reader, shares=shares, facts=facts)


def _params(spec: ModelSpec) -> PromptDecoderParams:
    if spec.params is None:
        raise ConfigError(f"model '{spec.name}': a prompt_decoder needs `prompt` or `messages`")
    params: PromptDecoderParams = spec.params
    return params


def _readout(spec: ModelSpec, params: PromptDecoderParams, model: Any, tokenizer: Any) -> Readout:
    if params.readout == "classifier":
        return classifier_readout(spec, model)
    if params.token_id is not None:
        return vocabulary_readout(spec, model, [params.token_id])
    words = [word for word in (params.positive_token, params.negative_token) if word]
    return vocabulary_readout(spec, model, [label_id(spec, tokenizer, word) for word in words])


def contract(spec: ModelSpec) -> Contract:
    """The input contract, from the tokenizer and the configuration alone."""
    params = _params(spec)
    folder = input_folder(spec)
    model = transformer.empty_model(MODEL_CLASSES[params.model_class], spec, folder)
    reader, facts = make_reader(spec, params, model, folder)

    def read(query: str, document: str) -> Reading:
        (found,) = reader.read([(query, document)])
        shown = sequence("prompt", reader.tokenizer, found.ids)
        return Reading((shown,), found.cuts, found.refusal)

    return Contract(facts, read)

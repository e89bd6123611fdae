"""Settings of an encoder-decoder reranker, and what they make it read of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rerank.errors import ConfigError, ScoringError, unknown_name
from rerank.models.bi_encoder import single_frame
from rerank.models.contract import Cut
from rerank.models.encoder_decoder_prompts import (
    DOCUMENT,
    INSTRUCTION,
    QUERY,
    Fitted,
    Ids,
    Rendered,
    Template,
    fit,
    special_pattern,
    tokenise,
)
from rerank.models.transformer import token_ids

TRUNCATIONS = ("document", "end")
SPECIAL_TOKENS = ("none", "tokenizer")


@dataclass(frozen=True)
class EncoderDecoderParams:
    """Settings of an encoder-decoder; the defaults are monoT5's. `max_length` counts the tokens of
    the encoder alone, template and special tokens included.

    encoder_template: what the encoder reads, with {document} and, where the decoder has none,
        {query}; {instruction} may stand in either template.
    decoder_template: what the decoder reads before it answers; empty is its start token alone.
    query_cap: most tokens of a query; null cuts none. A pair whose query leaves no token to its
        document is refused, and recorded as a failure.
    query_round_trip: cut the query as ids, write these as text again, and put that into the
        template, even where nothing is cut (KaLM).
    truncation: document cuts the document's end and keeps the template whole; end cuts the
        encoder's whole text at its end, as mteb does to monoT5, " Relevant:" first.
    special_tokens: of the encoder's text: tokenizer adds what the tokenizer adds to a text (T5's
        </s>), none adds nothing. The decoder's are those that its template states.
    pool_chunk: mean of the encoder's states over this many consecutive tokens; null keeps all.
    positive_token, negative_token: words of one token; score = logit of the first - of the second.
    split_special_tokens: read "<eos>" inside a text as text where the tokenizer can; false reads
        it as the special token, as mteb does. Special tokens of the templates always are.
    pad_token: an existing token to pad with, for tokenizers that have none.
    """

    encoder_template: str = "Query: {query} Document: {document} Relevant:"
    decoder_template: str = ""
    instruction: str = ""
    query_cap: int | None = None
    query_round_trip: bool = False
    truncation: str = "document"
    special_tokens: str = "tokenizer"
    pool_chunk: int | None = None
    positive_token: str = "true"
    negative_token: str = "false"
    split_special_tokens: bool = False
    pad_token: str | None = None

    def __post_init__(self) -> None:
        if self.truncation not in TRUNCATIONS:
            raise unknown_name("truncation", self.truncation, TRUNCATIONS)
        if self.special_tokens not in SPECIAL_TOKENS:
            raise unknown_name("special_tokens", self.special_tokens, SPECIAL_TOKENS)
        for name in ("query_cap", "pool_chunk"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} {value}: give a whole number from 1 on, or null")
        self._check_fields()

    def _check_fields(self) -> None:
        encoder, decoder = (template.fields for template in self.templates())
        if DOCUMENT not in encoder or DOCUMENT in decoder:
            raise ConfigError("the document is read by the encoder: write it in encoder_template")
        if (QUERY in encoder) == (QUERY in decoder):
            raise ConfigError("write {query} in one of encoder_template and decoder_template")
        placed = any(f"{{{INSTRUCTION}}}" in text for text in self._texts())
        if placed != bool(self.instruction):
            raise ConfigError(
                "`instruction` is written where a template says {instruction}: state both or none"
            )

    def _texts(self) -> tuple[str, str]:
        return self.encoder_template, self.decoder_template

    def templates(self) -> tuple[Template, Template]:
        """Of the encoder and of the decoder, the instruction filled in."""
        return (
            Template.of("encoder_template", self.encoder_template, self.instruction),
            Template.of("decoder_template", self.decoder_template, self.instruction),
        )


@dataclass(frozen=True)
class PairIds:
    """What the model reads of one pair; `refusal` says why it reads nothing."""

    encoder: Ids
    decoder: Ids
    cuts: tuple[Cut, ...] = ()
    refusal: str | None = None


class PairReader:
    """Turns pairs into ids of encoder and decoder. Each distinct text is tokenised once a call.

    max_length: of the encoder; decoder_start: id that the decoder begins with where it has no
    template; decoder_positions: most tokens of the decoder, None where it sets no bound.
    ScoringError: the template alone is longer than the encoder's input.
    """

    def __init__(
        self,
        tokenizer: Any,
        params: EncoderDecoderParams,
        *,
        max_length: int,
        decoder_start: int | None,
        decoder_positions: int | None,
    ) -> None:
        self.tokenizer = tokenizer
        self.params = params
        self.max_length = max_length
        self.encoder, self.decoder = params.templates()
        self.start = self._start(decoder_start)
        self.decoder_positions = decoder_positions
        added = params.special_tokens == "tokenizer"
        self.frame: tuple[Ids, Ids] = single_frame(tokenizer) if added else ((), ())
        self.specials = special_pattern(tokenizer) if params.split_special_tokens else None
        empty = self.read([("", "")])[0]
        if empty.refusal is not None or len(empty.encoder) >= max_length:
            raise ScoringError(
                f"the templates alone have {len(empty.encoder)} tokens in the encoder and "
                f"{len(empty.decoder)} in the decoder, and leave no room in max_length "
                f"{max_length} and {decoder_positions} decoder positions; raise max_length"
            )

    def _start(self, decoder_start: int | None) -> Ids:
        if self.decoder.parts:
            return ()
        if decoder_start is None:
            raise ScoringError(
                "config.json states no decoder_start_token_id and decoder_template is empty; "
                "state a decoder_template"
            )
        return (decoder_start,)

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PairIds]:
        """Ids of each (query, document)."""
        queries = self._queries(list(dict.fromkeys(query for query, _ in pairs)))
        room = self.max_length - sum(map(len, self.frame))
        asked = [(queries[query][0], document) for query, document in pairs]
        encoder = self._fitted(self.encoder, asked, room)
        decoder = self._fitted(self.decoder, asked, None)
        return [
            self._pair(queries[query][1], encoded, decoded)
            for (query, _), encoded, decoded in zip(pairs, encoder, decoder, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        """What decides the input and which logits are compared, as JSON types."""
        params = self.params
        return {
            "encoder_template": self.encoder.literal,
            "decoder_template": self.decoder.literal,
            "decoder_start": list(self.start),
            "special_tokens": params.special_tokens,
            "split_special_tokens": params.split_special_tokens,
            "max_length": self.max_length,
            "decoder_position_limit": self.decoder_positions,
            "truncation": params.truncation,
            "query_cap": params.query_cap,
            "query_round_trip": params.query_round_trip,
            "pool_chunk": params.pool_chunk,
            "readout": f"logit({params.positive_token!r}) - logit({params.negative_token!r})",
        }

    def _queries(self, queries: list[str]) -> dict[str, tuple[str, tuple[Cut, ...]]]:
        """Each query as the templates get it, with what the round trip cut."""
        if not self.params.query_round_trip:
            return {query: (query, ()) for query in queries}
        split, cap = self.params.split_special_tokens, self.params.query_cap
        found: dict[str, tuple[str, tuple[Cut, ...]]] = {}
        ids_of = token_ids(self.tokenizer, queries, split_special_tokens=split)
        for query, ids in zip(queries, ids_of, strict=True):
            kept = ids[:cap]
            text = self.tokenizer.decode(
                kept, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            cut = Cut(QUERY, len(ids), len(kept), f"query_cap {cap}")
            found[query] = (text, (cut,) if len(kept) < len(ids) else ())
        return found

    def _fitted(
        self, template: Template, pairs: Sequence[tuple[str, str]], room: int | None
    ) -> list[Fitted]:
        """The template of each pair as ids, cut to `room`; equal fillings are made once."""
        keys = [
            (query if QUERY in template.fields else "", doc if DOCUMENT in template.fields else "")
            for query, doc in pairs
        ]
        rendered = {key: self._render(template, key) for key in keys}
        split = self.params.split_special_tokens
        tokens = tokenise(self.tokenizer, list(rendered.values()), split=split)
        cap = None if self.params.query_round_trip else self.params.query_cap
        fitted = {
            key: fit(
                found,
                text.spans,
                room=room,
                query_cap=cap,
                truncation=self.params.truncation,
            )
            for (key, text), found in zip(rendered.items(), tokens, strict=True)
        }
        return [fitted[key] for key in keys]

    def _render(self, template: Template, key: tuple[str, str]) -> Rendered:
        values: Mapping[str, str] = {QUERY: key[0], DOCUMENT: key[1]}
        return template.render(values, self.specials)

    def _pair(self, cuts: tuple[Cut, ...], encoder: Fitted, decoder: Fitted) -> PairIds:
        ids = (*self.frame[0], *encoder.ids, *self.frame[1])
        read = self.start + decoder.ids
        refusal = encoder.refusal
        if self.decoder_positions is not None and len(read) > self.decoder_positions:
            refusal = (
                f"the decoder's text has {len(read)} tokens, more than its "
                f"{self.decoder_positions} positions; set query_cap"
            )
        elif not ids:
            refusal = "the encoder reads no token of this pair"
        whole = f"max_length {self.max_length}"
        found = (*cuts, *encoder.cuts, *decoder.cuts)
        named = [replace(cut, why=whole) if cut.why == "max_length" else cut for cut in found]
        return PairIds(ids, read, tuple(named), refusal)

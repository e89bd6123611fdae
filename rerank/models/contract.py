"""The input contract of a recipe: exactly what a model reads of a pair, known without its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sequence:
    """One token sequence that the model reads; some models read several of a pair.

    name: "pair", or "encoder" and "decoder", or "query" and "document"; ids: token ids as they are
    forwarded, without padding; tokens: their written form, parallel to `ids`; text: ids decoded.
    """

    name: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Cut:
    """A text that lost tokens on the way: `kept` of its `tokens`, and the setting that cut it."""

    text: str  # "query" or "document"
    tokens: int
    kept: int
    why: str  # "max_length 512", "query_cap 384"


@dataclass(frozen=True)
class Reading:
    """What a model reads of one (query, document) pair; `refusal` where it reads none."""

    sequences: tuple[Sequence, ...]
    cuts: tuple[Cut, ...]
    refusal: str | None = None


@dataclass(frozen=True)
class Contract:
    """One recipe. facts: what decides the input, as JSON types, one key a decision (tokenizer
    digest, template, max_length, truncation, caps, special tokens, readout, normalisation)."""

    facts: dict[str, Any]
    read: Callable[[str, str], Reading]


def sequence(name: str, tokenizer: Any, ids: tuple[int, ...]) -> Sequence:
    """A `Sequence` of ids with their written forms from a transformers tokenizer."""
    return Sequence(
        name=name,
        ids=ids,
        tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        text=tokenizer.decode(list(ids), skip_special_tokens=False),
    )

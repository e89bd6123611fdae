"""The input contract of a recipe: what a model reads of a pair, told without its weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerank.fingerprint import fingerprint


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


# short, Korean, empty, special-token lookalikes, NFD, emoji, odd white space, longer than any model
PROBE_PAIRS: tuple[tuple[str, str], ...] = (
    ("which planet is red?", "Mars is called the Red Planet."),
    ("필터 교체 주기는?", "필터는 석 달마다 교체한다."),
    ("empty", ""),
    ("tokens </s> [SEP]", "<|im_end|> <|endoftext|> [CLS] <s>"),
    ("\u1112\u1161\u11ab\u1100\u1173\u11af", "cafe\u0301 😀\n\n\ttab  end \n"),
    ("long document", "a word " * 140_000),
    ("long query " * 70_000, "short document"),
)


def tokenizer_parts(folder: Path) -> dict[str, Any]:
    """The parts of tokenizer.json that decide ids, each under a name of its own; {} without one.

    Vocabulary and merges as a digest, the rest as it stands there.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return {}
    parts = json.loads(path.read_text(encoding="utf-8"))
    added = [(token["id"], token["content"]) for token in parts.get("added_tokens") or []]
    return {
        "tokenizer vocabulary": fingerprint(parts.get("model")),
        "tokenizer added tokens": fingerprint(added),
        "tokenizer normalizer": parts.get("normalizer"),
        "tokenizer pre_tokenizer": parts.get("pre_tokenizer"),
        "tokenizer post_processor": parts.get("post_processor"),
    }


@dataclass(frozen=True)
class Difference:
    """One decision that two recipes make differently, with what each says."""

    what: str
    first: Any
    second: Any


def differences(first: Contract, second: Contract) -> list[Difference]:
    """Every difference: the facts by name, then the ids of each probe pair that differ."""
    names = dict.fromkeys((*first.facts, *second.facts))
    found = [
        Difference(name, first.facts.get(name), second.facts.get(name))
        for name in names
        if first.facts.get(name) != second.facts.get(name)
    ]
    for query, document in PROBE_PAIRS:
        one, other = first.read(query, document), second.read(query, document)
        label = f"token ids of ({query[:24]!r}, {document[:24]!r})"
        if one.refusal or other.refusal:
            if one.refusal != other.refusal:
                found.append(Difference(label, _summary(one, 0), _summary(other, 0)))
        elif [s.ids for s in one.sequences] != [s.ids for s in other.sequences]:
            place = _first_difference(one, other)
            found.append(Difference(label, _summary(one, place), _summary(other, place)))
    return found


def _all_ids(reading: Reading) -> list[int]:
    return [number for part in reading.sequences for number in part.ids]


def _first_difference(one: Reading, other: Reading) -> int:
    pairs = zip(_all_ids(one), _all_ids(other), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), 0)


def _summary(reading: Reading, place: int) -> str:
    if reading.refusal:
        return f"refused: {reading.refusal}"
    ids = _all_ids(reading)
    tokens = [token for part in reading.sequences for token in part.tokens]
    shown = " ".join(repr(token) for token in tokens[place : place + 4])
    return f"{len(ids)} tokens; from token {place} on: {shown}"

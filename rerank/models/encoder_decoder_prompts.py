"""What an encoder-decoder reads of a pair: its templates filled, its texts cut, as token ids.

A template is tokenised as one string, because a tokenizer may join the last letter of a literal and
the first of a text. Texts are cut in its tokens afterwards: which token belongs to which text is
told by character offsets, so the frame around a text is never lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.errors import ConfigError, unknown_name
from rerank.models.contract import Cut

QUERY, DOCUMENT, INSTRUCTION, FRAME = "query", "document", "instruction", "frame"
PLACEHOLDER = re.compile(r"\{(\w+)\}")

Ids = tuple[int, ...]
Mask = np.ndarray  # (tokens,) bool
Span = tuple[int, int]  # first character, and one past the last


@dataclass(frozen=True)
class Rendered:
    """A filled template. spans: where each field's text stands; specials: where the template's own
    special tokens stand, if texts must not form any."""

    text: str
    spans: Mapping[str, Span]
    specials: tuple[Span, ...] = ()

    def runs(self) -> Iterator[tuple[int, str, bool]]:
        """(first character, text, is it one special token?) in order, no empty ones."""
        start = 0
        for first, end in (*self.specials, (len(self.text), len(self.text))):
            if first > start:
                yield start, self.text[start:first], False
            if end > first:
                yield first, self.text[first:end], True
            start = end


@dataclass(frozen=True)
class Template:
    """Literal text around fields; `parts` are (is it a field?, its name or the literal text)."""

    parts: tuple[tuple[bool, str], ...]

    @staticmethod
    def of(setting: str, text: str, instruction: str) -> Template:
        """Parse "... {query} ... {document} ...". ConfigError: an unknown or repeated field."""
        parts: list[tuple[bool, str]] = []
        for number, piece in enumerate(PLACEHOLDER.split(text)):
            if number % 2 == 0 or piece == INSTRUCTION:
                parts.append((False, instruction if number % 2 else piece))
            elif piece not in (QUERY, DOCUMENT):
                raise unknown_name(f"field of {setting}", piece, (QUERY, DOCUMENT, INSTRUCTION))
            elif (True, piece) in parts:
                raise ConfigError(f"{setting} has {{{piece}}} twice; a text is read once")
            else:
                parts.append((True, piece))
        return Template(tuple(part for part in parts if part[1]))

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields: query, document."""
        return frozenset(name for is_field, name in self.parts if is_field)

    @property
    def literal(self) -> str:
        """The template with its instruction filled in, for records."""
        return "".join(f"{{{text}}}" if is_field else text for is_field, text in self.parts)

    def render(
        self, values: Mapping[str, str], specials: re.Pattern[str] | None = None
    ) -> Rendered:
        """Fill the fields. specials: what to mark in the literals, None to mark nothing."""
        text, spans, marked = "", {}, []
        for is_field, part in self.parts:
            start = len(text)
            if is_field:
                text += values[part]
                spans[part] = (start, len(text))
            else:
                text += part
                found = specials.finditer(part) if specials is not None else ()
                marked += [(start + match.start(), start + match.end()) for match in found]
        return Rendered(text, spans, tuple(marked))


@dataclass(frozen=True)
class Tokens:
    """Token ids of a rendered template; `offsets` says which characters each came from."""

    ids: Ids
    runs: tuple[tuple[int, Any], ...]  # (first character, tokenizers.Encoding)

    @property
    def offsets(self) -> list[Span]:
        """Characters of each token, counted in the whole rendered text."""
        return [
            (start + first, start + end)
            for start, encoding in self.runs
            for first, end in encoding.offsets
        ]


def special_pattern(tokenizer: Any) -> re.Pattern[str]:
    """Matches any special token of a tokenizer, the longest first."""
    added = tokenizer.added_tokens_decoder.values()
    words = sorted((token.content for token in added if token.special), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, words)) if words else r"(?!)")


def tokenise(tokenizer: Any, texts: Sequence[Rendered], *, split: bool) -> list[Tokens]:
    """Ids of each text, nothing added, cut or padded.

    split: read special tokens inside the texts as text, where the tokenizer can; those that the
    templates state (`Rendered.specials`) are read as special tokens all the same.
    """
    runs = [list(text.runs()) for text in texts]
    encodings = {
        special: iter(
            _encodings(
                tokenizer,
                [text for row in runs for _, text, is_special in row if is_special == special],
                split=split and not special,
            )
        )
        for special in (False, True)
    }
    found = []
    for row in runs:
        encoded = tuple((start, next(encodings[special])) for start, _, special in row)
        ids = tuple(id_ for _, encoding in encoded for id_ in encoding.ids)
        found.append(Tokens(ids, encoded))
    return found


def _encodings(tokenizer: Any, texts: list[str], *, split: bool) -> Sequence[Any]:
    if not texts:
        return ()
    encoded = tokenizer(
        texts,
        add_special_tokens=False,
        truncation=False,
        padding=False,
        split_special_tokens=split,
        verbose=False,
    )
    encodings: Sequence[Any] = encoded.encodings
    return encodings


@dataclass(frozen=True)
class Fitted:
    """A sequence that fits, what was cut for it, or why it cannot be read."""

    ids: Ids
    cuts: tuple[Cut, ...] = ()
    refusal: str | None = None


def fit(
    tokens: Tokens,
    spans: Mapping[str, Span],
    *,
    room: int | None = None,
    query_cap: int | None = None,
    truncation: str = "document",
) -> Fitted:
    """Ids cut to at most `room`: the query's tokens beyond `query_cap`, then the document's end.

    truncation: document cuts the document's own tokens and refuses a pair where that leaves none;
    end cuts whatever stands last, the frame too. room None: any number of tokens.
    """
    capped = query_cap is not None and QUERY in spans
    if not capped and (room is None or len(tokens.ids) <= room):
        return Fitted(tokens.ids)
    starts, stops = np.array(tokens.offsets).reshape(-1, 2).T
    held = {name: (starts < end) & (stops > first) for name, (first, end) in spans.items()}
    own = {  # without the tokens that a text shares with the literal beside it
        name: held[name] & (starts >= first) & (stops <= end)
        for name, (first, end) in spans.items()
    }
    kept = np.ones(len(starts), dtype=np.bool_)
    if capped:
        beyond = np.flatnonzero(held[QUERY])[query_cap:]
        kept[beyond] = ~own[QUERY][beyond]
    too_many = 0 if room is None else int(kept.sum()) - room
    if too_many > 0 and truncation == "end":
        kept[np.flatnonzero(kept)[room:]] = False
    elif too_many > 0:
        lost = np.flatnonzero(own[DOCUMENT])[-too_many:]
        if len(lost) < too_many or len(lost) == held[DOCUMENT].sum():
            others = int((kept & ~own[DOCUMENT]).sum())
            return Fitted(tokens.ids, refusal=_refusal(others, room))
        kept[lost] = False
    ids = tuple(np.array(tokens.ids)[kept].tolist())
    return Fitted(ids, _cuts(held, kept, query_cap))


def _cuts(held: Mapping[str, Mask], kept: Mask, cap: int | None) -> tuple[Cut, ...]:
    """What each text, and in the end the frame around them, lost."""
    frame = ~np.logical_or.reduce([*held.values(), np.zeros_like(kept)])
    cuts = []
    for name, members in {**held, FRAME: frame}.items():
        tokens, left = int(members.sum()), int((members & kept).sum())
        why = f"query_cap {cap}" if name == QUERY and left == cap else "max_length"
        if left < tokens:
            cuts.append(Cut(name, tokens, left, why))
    return tuple(cuts)


def _refusal(others: int, room: int | None) -> str:
    return (
        f"template and query have {others} tokens and leave none of the {room} that the encoder "
        "reads to the document; set query_cap, or raise max_length"
    )

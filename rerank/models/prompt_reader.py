"""Prompt pieces, a query and a document to token ids: the frame is kept, texts are cut to fit.

The frame (every literal) is reserved first. What is cut is the document's end, and a text at its
own cap; under `truncation: end` also the query, as code does that cuts the whole string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rerank.errors import ScoringError
from rerank.models.contract import Cut
from rerank.models.prompt_template import DOCUMENT, QUERY, Template
from rerank.models.transformer import token_ids

TRUNCATIONS = ("document", "end")
LENGTH_COUNTS = ("all", "texts", "flag_embedding")

Ids = tuple[int, ...]


class Limits(Protocol):
    """The settings that decide what is cut; see `PromptDecoderParams`."""

    @property
    def truncation(self) -> str: ...
    @property
    def length_counts(self) -> str: ...
    @property
    def query_cap(self) -> int | float | None: ...
    @property
    def document_cap(self) -> int | float | None: ...
    @property
    def split_special_tokens(self) -> bool: ...


@dataclass(frozen=True)
class PromptIds:
    """The ids of a pair's prompt, what was cut to get them, or why there are none."""

    ids: Ids
    cuts: tuple[Cut, ...] = ()
    refusal: str | None = None


@dataclass(frozen=True)
class Capped:
    """A text after its cap; `cut` where the cap took something."""

    text: str
    cut: Cut | None


class PromptReader:
    """Reads pairs. frame: special tokens that the tokenizer writes before and after a text."""

    def __init__(
        self,
        tokenizer: Any,
        template: Template,
        limits: Limits,
        *,
        max_length: int,
        frame: tuple[Ids, Ids],
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.limits = limits
        self.max_length = max_length
        self.frame = frame
        if limits.split_special_tokens:
            self._check_literals()
        self._check_budget()

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[PromptIds]:
        """Ids of each (query, document); every distinct piece is tokenised once a call."""
        queries = {
            query: self._capped(QUERY, query) for query in dict.fromkeys(q for q, _ in pairs)
        }
        documents = {d: self._capped(DOCUMENT, d) for d in dict.fromkeys(d for _, d in pairs)}
        known: dict[str, Ids] = {}
        for piece in self.template.pieces:
            texts = dict.fromkeys(
                piece.render(queries[q].text, documents[d].text) for q, d in pairs
            )
            split = self.limits.split_special_tokens and piece.has_field
            known |= zip(texts, self._ids(list(texts), split=split), strict=True)
        return [self._pair(queries[query], documents[document], known) for query, document in pairs]

    def longest(self) -> int:
        """Most tokens that a prompt can have."""
        place, pieces = self.template.document_piece, self.template.pieces
        literals = [self._ids([piece.render("", "")])[0] for piece in pieces]
        after = sum(map(len, literals[place + 1 :]))
        if self.limits.length_counts == "texts":
            first = next(n for n, piece in enumerate(pieces) if QUERY in piece.parts)
            frame = sum(map(len, (*literals[:first], *self.frame)))
            return self.max_length + frame + after
        extra = 2 * after if self.limits.length_counts == "flag_embedding" else 0
        return self.max_length + extra

    def _ids(self, texts: list[str], *, split: bool = False) -> list[Ids]:
        return [tuple(ids) for ids in token_ids(self.tokenizer, texts, split_special_tokens=split)]

    def _pair(self, query: Capped, document: Capped, known: Mapping[str, Ids]) -> PromptIds:
        place = self.template.document_piece
        pieces = [known[p.render(query.text, document.text)] for p in self.template.pieces]
        whole, own = self._cap_pieces(pieces)
        cuts = own + [cut for cut in (query.cut, document.cut) if cut is not None]
        room = self._room(whole)
        if len(whole[place]) > room:
            fitted = self._fit(whole[place], query.text, document.text, room)
            if fitted.refusal is not None:
                return PromptIds(self._join(whole), tuple(cuts), fitted.refusal)
            cuts += fitted.cuts
            whole[place] = fitted.ids
        return PromptIds(self._join(whole), merged(cuts))

    def _cap_pieces(self, pieces: Sequence[Ids]) -> tuple[list[Ids], list[Cut]]:
        """Pieces that a text has to itself, cut to the text's cap."""
        whole, cuts = list(pieces), []
        for number, piece in enumerate(self.template.pieces):
            for field in (QUERY, DOCUMENT):
                cap = self._cap(field) if piece.ends_with_only(field) else None
                if cap is not None and len(whole[number]) > cap:
                    cuts.append(_cap_cut(field, len(whole[number]), cap))
                    whole[number] = whole[number][:cap]
        return whole, cuts

    def _join(self, pieces: Sequence[Ids]) -> Ids:
        return sum(pieces, self.frame[0]) + self.frame[1]

    def _room(self, pieces: Sequence[Ids]) -> int:
        """Most tokens of the piece that holds the document."""
        place = self.template.document_piece
        before, after = sum(map(len, pieces[:place])), sum(map(len, pieces[place + 1 :]))
        if self.limits.length_counts == "texts":
            first = next(n for n, p in enumerate(self.template.pieces) if QUERY in p.parts)
            return self.max_length - sum(map(len, pieces[first:place]))
        if self.limits.length_counts == "flag_embedding":
            return self.max_length + after - before - len(self.frame[0])
        return self.max_length - before - after - sum(map(len, self.frame))

    def _fit(self, ids: Ids, query: str, document: str, room: int) -> PromptIds:
        """The document's piece in `room` tokens: its literal end is kept, the document's is not.

        A token that the document and the literal after it share is the document's: that literal is
        then tokenised by itself.
        """
        piece = self.template.pieces[self.template.document_piece]
        before, after = piece.around_document(query)
        text = piece.render(query, document)
        offsets = self._offsets(text)[: len(ids)]
        end = len(before) + len(document)
        head = sum(start < end for start, _ in offsets) if after else len(ids)
        first = sum(stop <= len(before) for _, stop in offsets)
        split = self.limits.split_special_tokens
        tail = self._ids([after], split=split)[0] if after else ()
        kept = room - len(tail)
        why = f"max_length {self.max_length}"
        if kept < 0 or (self.limits.truncation == "document" and kept <= first):
            refusal = (
                f"the query leaves no token of the {self.max_length} that the model reads to the "
                "document; set query_cap"
            )
            return PromptIds((), refusal=refusal)
        cuts = []
        if kept < first:
            cuts.append(Cut("query", first, kept, why))
        if head > first:
            cuts.append(Cut("document", head - first, max(0, kept - first), why))
        return PromptIds(ids[: min(kept, head)] + tail, tuple(cuts))

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of each token's characters in `text`."""
        encoded = self.tokenizer(
            [text],
            add_special_tokens=False,
            truncation=False,
            return_offsets_mapping=True,
            split_special_tokens=self.limits.split_special_tokens,
            verbose=False,
        )
        return [tuple(pair) for pair in encoded["offset_mapping"][0]]

    def _cap(self, field: str) -> int | None:
        cap = self.limits.query_cap if field == QUERY else self.limits.document_cap
        return int(self.max_length * cap) if isinstance(cap, float) else cap

    def _capped(self, field: str, text: str) -> Capped:
        """A text cut at the end of its last token within the cap, where its piece holds more."""
        cap = self._cap(field)
        holders = [piece for piece in self.template.pieces if field in piece.parts]
        if cap is None or all(piece.ends_with_only(field) for piece in holders):
            return Capped(text, None)
        offsets = self._offsets(text)
        if len(offsets) <= cap:
            return Capped(text, None)
        for kept in range(cap, 0, -1):
            shorter = text[: offsets[kept - 1][1]]
            found = len(self._offsets(shorter))  # a character of several tokens may exceed the cap
            if found <= cap:
                return Capped(
                    shorter, Cut(field.strip("{}"), len(offsets), found, _why(field, cap))
                )
        return Capped("", Cut(field.strip("{}"), len(offsets), 0, _why(field, cap)))

    def _check_literals(self) -> None:
        """ScoringError where split_special_tokens would break up a literal's special token."""
        specials = [token.content for token in self.tokenizer.added_tokens_decoder.values()]
        for piece in self.template.pieces:
            literals = [part for part in piece.parts if part not in (QUERY, DOCUMENT)]
            found = [s for s in specials if any(s in literal for literal in literals)]
            if found and piece.has_field:
                raise ScoringError(
                    f"split_special_tokens reads '{found[0]}' as text, but the prompt writes it "
                    "beside a query or document; make that literal a piece of its own"
                )

    def _check_budget(self) -> None:
        """ScoringError where the frame alone is longer than the model's input."""
        literals = [
            piece for piece in self.template.pieces if not {QUERY, DOCUMENT} & {*piece.parts}
        ]
        frame = sum(len(self._ids([piece.render("", "")])[0]) for piece in literals)
        if self.limits.length_counts == "all" and frame >= self.max_length:
            raise ScoringError(
                f"the prompt's own {frame} tokens leave nothing of max_length {self.max_length} "
                "to the texts; raise max_length"
            )


def merged(cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    """One cut a text: from what it had first to what it kept last, for the last reason."""
    found: dict[str, Cut] = {}
    for cut in cuts:
        tokens = found[cut.text].tokens if cut.text in found else cut.tokens
        found[cut.text] = Cut(cut.text, tokens, cut.kept, cut.why)
    return tuple(found.values())


def _cap_cut(field: str, tokens: int, cap: int) -> Cut:
    return Cut(field.strip("{}"), tokens, cap, _why(field, cap))


def _why(field: str, cap: int) -> str:
    return f"{field.strip('{}')}_cap {cap}"


def longest_beginning(rows: Sequence[Ids]) -> int:
    """Tokens with which all rows begin alike, at least one less than the shortest has."""
    first, last = min(rows), max(rows)
    common = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        common += 1
    return min(common, min(map(len, rows)) - 1)

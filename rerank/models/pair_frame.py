"""The special tokens around a pair, and how much of each text fits between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rerank.errors import ScoringError
from rerank.models.transformer import cut, token_ids

TRUNCATIONS = ("only_second", "longest_first")

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Frame:
    """`before` QUERY `between` DOCUMENT `after`, as a tokenizer writes a pair.

    The *_types are the token types (segment ids) of each part; the texts have one type each.
    """

    before: Ids
    between: Ids
    after: Ids
    before_types: Ids
    between_types: Ids
    after_types: Ids
    query_type: int
    document_type: int

    @staticmethod
    def of(tokenizer: Any) -> Frame:
        """Read the frame off one tokenised pair. ScoringError: the tokenizer writes none."""
        encoded = tokenizer(["a"], ["b"], truncation=False, padding=False)
        encoding = encoded.encodings[0]
        sides, ids, types = encoding.sequence_ids, encoding.ids, encoding.type_ids
        if 0 not in sides or 1 not in sides:
            raise ScoringError("the tokenizer makes no token of the texts 'a' and 'b'")
        query, document = sides.index(0), sides.index(1)
        query_end, document_end = query + sides.count(0), document + sides.count(1)
        frame = Frame(
            before=tuple(ids[:query]),
            between=tuple(ids[query_end:document]),
            after=tuple(ids[document_end:]),
            before_types=tuple(types[:query]),
            between_types=tuple(types[query_end:document]),
            after_types=tuple(types[document_end:]),
            query_type=types[query],
            document_type=types[document],
        )
        texts = token_ids(tokenizer, ["a", "b"], split_special_tokens=False)
        if frame.fill(*texts) != (tuple(ids), tuple(types)):
            raise ScoringError(
                "the tokenizer does not write a pair as special tokens around its two texts; "
                "this model is not a pair_encoder"
            )
        return frame

    @property
    def length(self) -> int:
        """Tokens of the frame itself."""
        return len(self.before) + len(self.between) + len(self.after)

    @property
    def types(self) -> tuple[int, ...]:
        """Token types of a pair of one-token texts, in order."""
        return self.fill((0,), (0,))[1]

    def template(self, tokenizer: Any) -> str:
        """The frame written out: "[CLS] {query} [SEP] {document} [SEP]"."""
        parts = (self.before, self.between, self.after)
        before, between, after = (tokenizer.convert_ids_to_tokens(list(ids)) for ids in parts)
        return " ".join((*before, "{query}", *between, "{document}", *after))

    def fill(self, query: Sequence[int], document: Sequence[int]) -> tuple[Ids, Ids]:
        """Token ids and token types of a whole pair."""
        ids = (*self.before, *query, *self.between, *document, *self.after)
        types = (
            *self.before_types,
            *(self.query_type,) * len(query),
            *self.between_types,
            *(self.document_type,) * len(document),
            *self.after_types,
        )
        return ids, types

    def fit(
        self,
        query: Sequence[int],
        document: Sequence[int],
        *,
        max_length: int,
        query_cap: int | None,
        truncation: str,
        side: str,
    ) -> tuple[Ids, Ids] | str:
        """Query and document cut so that the pair has at most `max_length` tokens.

        The query is cut to `query_cap` first; what follows is one of `TRUNCATIONS`. A string says
        why the pair cannot be scored: its query leaves no token to a document that has some.
        """
        room = max_length - self.length
        query = query if query_cap is None else cut(query, query_cap, side)
        if truncation == "longest_first":
            lengths = longest_first(len(query), len(document), room)
        else:
            lengths = (len(query), min(len(document), room - len(query)))
        if lengths[0] > room or (document and lengths[1] < 1):
            return (
                f"the query has {len(query)} tokens and leaves none of the {max_length} that the "
                "model reads to the document; set query_cap"
            )
        return cut(query, lengths[0], side), cut(document, max(lengths[1], 0), side)


def longest_first(query: int, document: int, room: int) -> tuple[int, int]:
    """Lengths that `longest_first` keeps of two texts in `room` tokens.

    The shorter text is kept whole where it takes at most half; otherwise each gets half, the
    document the odd token where it is the longer. As huggingface/tokenizers `truncate_encodings`.
    """
    if query + document <= room:
        return query, document
    shorter, longer = sorted((query, document))
    longer = shorter if shorter > room else max(shorter, room - shorter)
    if shorter + longer > room:
        shorter = room // 2
        longer = shorter + room % 2
    return (longer, shorter) if query > document else (shorter, longer)

"""What an encoder of single texts reads: the same for scoring and for the input contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rerank.errors import ScoringError
from rerank.models.contract import Cut
from rerank.models.transformer import cut, token_ids

Ids = tuple[int, ...]


@dataclass(frozen=True)
class TextReader:
    """Tokenizer and rules of one recipe. frame: special tokens before and after a text."""

    tokenizer: Any
    frame: tuple[Ids, Ids]
    max_length: int
    split_special_tokens: bool

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text alone, whole."""
        return token_ids(self.tokenizer, texts, split_special_tokens=self.split_special_tokens)

    def read(self, ids: Sequence[int]) -> tuple[Ids, bool]:
        """The ids that the model reads of a text's ids, and whether some were cut."""
        before, after = self.frame
        room = self.max_length - len(before) - len(after)
        kept = cut(ids, room, self.tokenizer.truncation_side)
        return (*before, *kept, *after), len(kept) < len(ids)

    def explain(self, name: str, text: str) -> tuple[Ids, tuple[Cut, ...]]:
        """The ids that the model reads of a text, and what was cut of it and why."""
        (ids,) = self.ids([text])
        whole, truncated = self.read(ids)
        kept = len(whole) - sum(map(len, self.frame))
        why = f"max_length {self.max_length}"
        return whole, (Cut(name, len(ids), kept, why),) if truncated else ()


def single_frame(tokenizer: Any) -> tuple[Ids, Ids]:
    """Special tokens before and after a single text. ScoringError: the tokenizer has no frame."""
    encoded = tokenizer(["a"], truncation=False, padding=False).encodings[0]
    sides, ids = encoded.sequence_ids, encoded.ids
    if 0 not in sides:
        raise ScoringError("the tokenizer makes no token of the text 'a'")
    start = sides.index(0)
    return tuple(ids[:start]), tuple(ids[start + sides.count(0) :])

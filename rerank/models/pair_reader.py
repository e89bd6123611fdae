"""What a pair encoder reads of two texts: the same for scoring and for the input contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rerank.models import contract
from rerank.models.contract import Cut
from rerank.models.pair_frame import Frame
from rerank.models.pointwise import Reading
from rerank.models.transformer import token_ids


@dataclass(frozen=True)
class PairReader:
    """Tokenizer and rules of one recipe.

    query_cap: most tokens of a query, None for no cap; passes_types: does the model get token
    types; the rest as in `PairEncoderParams`.
    """

    tokenizer: Any
    frame: Frame
    max_length: int
    query_cap: int | None
    truncation: str
    split_special_tokens: bool
    passes_types: bool

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text alone, whole."""
        return token_ids(self.tokenizer, texts, split_special_tokens=self.split_special_tokens)

    def read(self, query: Sequence[int], document: Sequence[int]) -> Reading:
        """What the model reads of a pair of token id lists: (ids, token types) in one frame."""
        fitted = self._fit(query, document)
        if isinstance(fitted, str):
            tokens = self.frame.length + len(query) + len(document)
            return Reading(value=None, tokens=tokens, failure=fitted)
        ids, types = self.frame.fill(*fitted)
        truncated = len(ids) < self.frame.length + len(query) + len(document)
        return Reading((ids, types), len(ids), truncated)

    def explain(self, query: str, document: str) -> contract.Reading:
        """The same for a pair of texts, with what was cut and why."""
        texts = self.ids([query, document])
        fitted = self._fit(*texts)
        if isinstance(fitted, str):
            return contract.Reading((), (), fitted)
        ids, _ = self.frame.fill(*fitted)
        names = ("query", "document")
        cuts = tuple(
            Cut(name, len(whole), len(kept), self._reason(name, len(whole), len(kept)))
            for name, whole, kept in zip(names, texts, fitted, strict=True)
            if len(kept) < len(whole)
        )
        return contract.Reading((contract.sequence("pair", self.tokenizer, ids),), cuts)

    def _fit(
        self, query: Sequence[int], document: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | str:
        return self.frame.fit(
            query,
            document,
            max_length=self.max_length,
            query_cap=self.query_cap,
            truncation=self.truncation,
            side=self.tokenizer.truncation_side,
        )

    def _reason(self, name: str, whole: int, kept: int) -> str:
        capped = whole if self.query_cap is None else min(whole, self.query_cap)
        if name == "query" and kept == capped:
            return f"query_cap {self.query_cap}"
        return f"max_length {self.max_length}"

    def facts(self) -> dict[str, Any]:
        """What decides the input, for contracts: settings in force, not settings as written."""
        return {
            "template": self.frame.template(self.tokenizer),
            "max_length": self.max_length,
            "query_cap": self.query_cap,
            "truncation": self.truncation,
            "truncation_side": self.tokenizer.truncation_side,
            "token_types": list(self.frame.types) if self.passes_types else None,
            "split_special_tokens": self.split_special_tokens,
        }

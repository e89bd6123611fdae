"""One query and a block of its documents as the prompt of a listwise embedding reranker.

The recipe is that of jina-reranker-v3's own modeling.py (read in a copy that others published, not
in the model's repository): texts are cut by a round trip through the tokenizer, markers are removed
from them, blocks are closed by count or by capacity, and everything is tokenised as one string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rerank.errors import ConfigError, ScoringError
from rerank.models.contract import Cut
from rerank.models.transformer import cut, token_ids

SYSTEM = (
    "You are a search relevance expert who can determine a ranking of the passages based on how "
    "relevant they are to the query. If the query is a question, how relevant a passage is depends "
    "on how well it answers the question. If not, try to analyze the intent of the query and "
    "assess how well each passage satisfies the intent. If an instruction is provided, you should "
    "follow the instruction when determining the ranking."
)
START, END = "<|im_start|>", "<|im_end|>"  # Qwen's chat marks

Ids = tuple[int, ...]


@dataclass(frozen=True)
class ListwiseEmbeddingParams:
    """Settings of a listwise embedding reranker (jina-reranker-v3 and v3.5).

    block_size: most documents of one prompt.
    max_query_length, max_document_length: tokens at which a text is cut before it enters the
        prompt. v3's rerank() has 512 and 2048, v3.5's 1024 and 8192; mteb gives v3 3072 and 2048.
    instruction: written between query and documents where it is not empty; rerank() has none.
    sliding_layers: how many layers must attend to a window only; null takes what config.json says.
        A config that states the windows in words that are not understood has none: other scores.
    document_marker, query_marker: the tokens whose states are read; removed from all texts.
    split_special_tokens: read special tokens inside a text as text; false reads them as special
        tokens, as modeling.py does.
    pad_token: an existing token to pad with, for tokenizers that have none.
    """

    block_size: int = 125
    max_query_length: int = 512
    max_document_length: int = 2048
    instruction: str = ""
    sliding_layers: int | None = None
    document_marker: str = "<|embed_token|>"
    query_marker: str = "<|rerank_token|>"
    split_special_tokens: bool = False
    pad_token: str | None = None

    def __post_init__(self) -> None:
        for name in ("block_size", "max_query_length", "max_document_length"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} {getattr(self, name)}: give a whole number from 1 on")
        if self.without_markers(self.instruction) != self.instruction:
            raise ConfigError("the instruction holds a marker token; take it out")

    def without_markers(self, text: str) -> str:
        """`text` without markers, in the order in which modeling.py removes them."""
        return text.replace(self.query_marker, "").replace(self.document_marker, "")


@dataclass(frozen=True)
class Capped:
    """A text as the prompt holds it; `tokens` of the `whole` that it had were kept."""

    text: str
    tokens: int
    whole: int


@dataclass(frozen=True)
class Block:
    """One prompt: documents from number `start` on, then the query. truncated: one a document."""

    start: int
    ids: Ids
    truncated: tuple[bool, ...]
    cuts: tuple[Cut, ...]
    refusal: str | None = None


class BlockReader:
    """Reads queries with their candidates. max_length: the capacity that closes a block, in tokens;
    positions: most tokens that the model has positions for, None for no bound."""

    def __init__(
        self,
        tokenizer: Any,
        params: ListwiseEmbeddingParams,
        *,
        max_length: int,
        positions: int | None,
    ) -> None:
        self.tokenizer = tokenizer
        self.params = params
        self.max_length = max_length
        self.positions = positions
        self.document_id = self._token(params.document_marker)
        self.query_id = self._token(params.query_marker)
        if (
            tokenizer("a")["input_ids"]
            != token_ids(tokenizer, ["a"], split_special_tokens=False)[0]
        ):
            raise ScoringError(
                "the tokenizer adds special tokens to a text, which would enter the lengths and "
                "the prompt of this recipe; it is not a listwise_embedding model's"
            )

    def _token(self, token: str) -> int:
        number = self.tokenizer.get_vocab().get(token)
        if number is None:
            raise ScoringError(
                f"the tokenizer has no token {token}; the model is not a listwise_embedding, or "
                "its markers differ: set document_marker and query_marker in its YAML"
            )
        return int(number)

    def read(self, query: str, documents: Sequence[str]) -> list[Block]:
        """The blocks of one query, which together hold every document once, in order."""
        texts = token_ids(
            self.tokenizer,
            [query, *documents],
            split_special_tokens=self.params.split_special_tokens,
        )
        asked = self._capped(query, texts[0], self.params.max_query_length)
        capped = [
            self._capped(document, ids, self.params.max_document_length)
            for document, ids in zip(documents, texts[1:], strict=True)
        ]
        bounds = block_bounds(
            [document.tokens for document in capped],
            capacity=self.max_length - 2 * asked.tokens,
            block_size=self.params.block_size,
            document_cap=self.params.max_document_length,
        )
        return [self._block(asked, capped[start:end], start) for start, end in bounds]

    def _capped(self, text: str, ids: Sequence[int], cap: int) -> Capped:
        """A text of `cap` tokens or more goes through the tokenizer and back, cut or not."""
        if len(ids) < cap:
            return Capped(text, len(ids), len(ids))
        kept = cut(ids, cap, self.tokenizer.truncation_side)
        return Capped(self.tokenizer.decode(list(kept)), len(kept), len(ids))

    def _block(self, query: Capped, documents: Sequence[Capped], start: int) -> Block:
        ids = self._ids(query.text, [document.text for document in documents])
        limits = ("max_query_length", *["max_document_length"] * len(documents))
        names = ("query", *["document"] * len(documents))
        cuts = tuple(
            Cut(name, text.whole, text.tokens, f"{limit} {getattr(self.params, limit)}")
            for name, limit, text in zip(names, limits, (query, *documents), strict=True)
            if text.tokens < text.whole
        )
        return Block(
            start=start,
            ids=ids,
            truncated=tuple(
                query.tokens < query.whole or document.tokens < document.whole
                for document in documents
            ),
            cuts=cuts,
            refusal=self._refusal(ids, len(documents)),
        )

    def _refusal(self, ids: Ids, documents: int) -> str | None:
        if (ids.count(self.document_id), ids.count(self.query_id)) != (documents, 1):
            return (
                "a text forms a marker token once another marker is removed from it, so the states "
                "to read cannot be told apart; take the markers out of the text"
            )
        if self.positions is not None and len(ids) > self.positions:
            return (
                f"the prompt of a block has {len(ids)} tokens, more than the model's "
                f"{self.positions} positions; lower max_length by {len(ids) - self.positions}"
            )
        return None

    def _ids(self, query: str, documents: Sequence[str]) -> Ids:
        """Token ids of the prompt around texts that are already cut."""
        texts, specials = prompt_parts(self.params, query, documents)
        if not self.params.split_special_tokens:
            whole = "".join(chain.from_iterable(zip(texts, (*specials, ""), strict=True)))
            return tuple(token_ids(self.tokenizer, [whole], split_special_tokens=False)[0])
        # special tokens part a text before anything else does, so what lies between two of them can
        # be tokenised alone, with those that the user wrote read as text
        between = token_ids(self.tokenizer, texts, split_special_tokens=True)
        marks = [(self._token(special),) for special in specials]
        return tuple(
            chain.from_iterable(chain.from_iterable(zip(between, (*marks, ()), strict=True)))
        )


def block_bounds(
    lengths: Sequence[int], *, capacity: int, block_size: int, document_cap: int
) -> list[tuple[int, int]]:
    """(start, end) of each block of documents with these token lengths.

    A block closes after the document that makes it `block_size` long, or that leaves at most
    `document_cap` of its capacity. As rerank() in jina-reranker-v3's modeling.py.
    """
    bounds: list[tuple[int, int]] = []
    start, left = 0, capacity
    for number, length in enumerate(lengths, 1):
        left -= length
        if number - start >= block_size or left <= document_cap:
            bounds.append((start, number))
            start, left = number, capacity
    if start < len(lengths):
        bounds.append((start, len(lengths)))
    return bounds


def prompt_parts(
    params: ListwiseEmbeddingParams, query: str, documents: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Texts of the prompt, and the special token after each of them but the last."""
    query = params.without_markers(query)
    passages = [params.without_markers(document) for document in documents]
    asked = (
        f"user\nI will provide you with {len(passages)} passages, each indicated by a numerical "
        f"identifier. Rank the passages based on their relevance to query: {query}\n"
    )
    if params.instruction:
        asked += f"<instruct>\n{params.instruction}\n</instruct>\n"
    texts = ["", f"system\n{SYSTEM}", "\n"]
    for number, passage in enumerate(passages):
        texts.append(f'{asked}<passage id="{number}">\n{passage}')
        asked = "\n</passage>\n"
    texts += [f"{asked}<query>\n{query}", "\n</query>", "\n", "assistant\n<think>\n\n</think>\n\n"]
    markers = [params.document_marker] * len(passages) + [params.query_marker]
    return texts, [START, END, START, *markers, END, START]

"""BM25: token blocks become an index of scores, with the formula of bm25s, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rerank.errors import ConfigError, unknown_name
from rerank.first_stage.token_blocks import TokenBlock

ARRAYS = ("starts", "documents", "weights", "peaks")


@dataclass(frozen=True)
class BM25Settings:
    """What decides a score, beside the tokens. method: a row of METHODS."""

    method: str = "lucene"
    k1: float = 1.2
    b: float = 0.75

    def check(self) -> None:
        """ConfigError for values that no BM25 has."""
        if self.method not in METHODS:
            raise unknown_name("BM25 method", self.method, METHODS)
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ConfigError(f"BM25: k1 is from 0 and b from 0 to 1, not {self.k1:g}, {self.b:g}")


@dataclass(frozen=True)
class Method:
    """A variant of BM25 (Kamphuis et al. 2020). idf: (documents with the token, documents) ->
    weight. saturation: (frequencies float32, k1, length norms float64) -> float64 factors."""

    idf: Callable[[int, int], float]
    saturation: Callable[[np.ndarray, float, np.ndarray], np.ndarray]


def _idf_lucene(found: int, total: int) -> float:
    return math.log(1 + (total - found + 0.5) / (found + 0.5))


def _idf_robertson(found: int, total: int) -> float:
    return math.log(max(1.0, (total - found + 0.5) / (found + 0.5)))


def _idf_atire(found: int, total: int) -> float:
    return math.log(total / found)


def _saturation(tf: np.ndarray, k1: float, norms: np.ndarray) -> np.ndarray:
    factors: np.ndarray = tf / (k1 * norms + tf)
    return factors


def _saturation_atire(tf: np.ndarray, k1: float, norms: np.ndarray) -> np.ndarray:
    factors: np.ndarray = (tf * (k1 + 1)) / (tf + k1 * norms)
    return factors


METHODS: dict[str, Method] = {
    "lucene": Method(_idf_lucene, _saturation),
    "robertson": Method(_idf_robertson, _saturation),
    "atire": Method(_idf_atire, _saturation_atire),
}


@dataclass(frozen=True)
class BM25Index:
    """The score that each token adds to each document, by token.

    vocabulary: token -> number. starts: (n_vocabulary + 1,) int64; the postings of token t are
    starts[t]:starts[t+1] of documents (n_postings,) int32, ascending, and weights (n_postings,)
    float32. peaks: (n_vocabulary,) float32, the largest weight of each. folder: where the arrays
    are mapped from, '' where they are in memory alone.
    """

    vocabulary: dict[str, int]
    starts: np.ndarray
    documents: np.ndarray
    weights: np.ndarray
    peaks: np.ndarray
    n_documents: int
    folder: str = ""

    def numbers(self, tokens: Iterable[str]) -> np.ndarray:
        """(n,) int64: the numbers of the tokens that the corpus holds, in order, with repeats."""
        known = self.vocabulary
        return np.array([known[token] for token in tokens if token in known], dtype=np.int64)

    def postings(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The documents that hold a token, ascending, and what it adds to each."""
        chosen = slice(self.starts[number], self.starts[number + 1])
        return self.documents[chosen], self.weights[chosen]


def mapped_index(folder: Path, vocabulary: dict[str, int], n_documents: int) -> BM25Index:
    """An index whose arrays are mapped from the files of a folder, which nobody checks here."""
    arrays = {
        name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
        for name in ARRAYS
    }
    return BM25Index(vocabulary, n_documents=n_documents, folder=str(folder), **arrays)


def bm25_index(blocks: Iterable[TokenBlock], settings: BM25Settings) -> BM25Index:
    """The index of a corpus whose documents stand in the order of the blocks.

    Its weights are those of bm25s, to the last bit: computed in float64, rounded to float32 once.
    ConfigError for no document, or blocks tokenised by different versions.
    """
    settings.check()
    vocabulary: dict[str, int] = {}
    merged = [(block, _numbered(block, vocabulary)) for block in _alike(blocks)]
    if not merged:
        raise ConfigError("the corpus holds no document; check the corpus file of the task")
    lengths = np.concatenate([block.lengths for block, _ in merged])
    found = np.zeros(len(vocabulary), np.int64)
    for block, terms in merged:
        found[terms] += block.document_counts
    starts = np.concatenate([[0], np.cumsum(found)])
    documents = np.empty(starts[-1], np.int32)
    weights = np.empty(starts[-1], np.float32)
    heads, first = starts[:-1].copy(), 0
    norms = _length_norms(lengths, settings.b)
    idf = _idf(found, len(lengths), settings.method)
    saturation = METHODS[settings.method].saturation
    for number, (block, terms) in enumerate(merged):
        counts = block.document_counts.astype(np.int64)
        places = np.repeat(heads[terms] - (np.cumsum(counts) - counts), counts)
        places += np.arange(len(places))
        heads[terms] += counts
        mine = block.documents.astype(np.int32) + np.int32(first)
        documents[places] = mine
        tf = block.frequencies.astype(np.float32)
        weights[places] = np.repeat(idf[terms], counts) * saturation(tf, settings.k1, norms[mine])
        first += len(block.lengths)
        merged[number] = (block, terms[:0])  # its numbers are used up
    peaks = np.maximum.reduceat(weights, starts[:-1]) if len(weights) else np.zeros(0, np.float32)
    return BM25Index(vocabulary, starts, documents, weights, peaks, len(lengths))


def _alike(blocks: Iterable[TokenBlock]) -> Iterable[TokenBlock]:
    """The blocks; ConfigError where two were made by different versions (nodes of a cluster)."""
    versions: dict[str, str] | None = None
    for block in blocks:
        versions = versions if versions is not None else block.versions
        if block.versions != versions:
            raise ConfigError(
                f"the corpus was tokenised by different versions, {versions} and {block.versions}; "
                "install the same packages on every node"
            )
        yield block


def _numbered(block: TokenBlock, vocabulary: dict[str, int]) -> np.ndarray:
    """(n_vocabulary of the block,) int64: its tokens' numbers in `vocabulary`, which grows."""
    known = (vocabulary.setdefault(token, len(vocabulary)) for token in block.vocabulary)
    return np.fromiter(known, dtype=np.int64, count=len(block.vocabulary))


def _length_norms(lengths: np.ndarray, b: float) -> np.ndarray:
    """(n_documents,) float64: 1 - b + b * length / mean length."""
    mean = lengths.astype(np.int64).mean() or 1.0  # no token at all: no weight is computed
    norms: np.ndarray = (1 - b) + b * lengths.astype(np.int64) / mean
    return norms


def _idf(found: np.ndarray, total: int, method: str) -> np.ndarray:
    """(n_vocabulary,) float32. The logarithm is math.log's: numpy's may differ in the last bit."""
    distinct, inverse = np.unique(found, return_inverse=True)
    values = [METHODS[method].idf(int(count), total) for count in distinct]
    weights: np.ndarray = np.asarray(values, dtype=np.float32)[inverse]
    return weights

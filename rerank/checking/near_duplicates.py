"""Documents that read almost like a relevant one: judged otherwise, or not at all.

Method: the share of common shingles (Jaccard) of two texts, exact up to collisions of a 64-bit
hash. A shingle is 5 characters of the lower-cased text with every run of blanks as one; a text
counts once. Only relevant documents are indexed, and of each only its rarest shingles (prefix
filtering, Chaudhuri et al. 2006, "A primitive operator for similarity joins"): a text like one of
n shingles has c = ceil(threshold x n) of them, so of any n - c + k it has k. Memory is bounded by
the relevant documents, and the corpus is read once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from metrics.arrays import Array, Integers

SHINGLE = 5  # characters
SIMILAR = 0.8  # Jaccard similarity from which two texts are near duplicates
READ = 10_000  # characters of a text that are compared; the rest is not looked at
MOST_GOLD = 20_000  # relevant documents that are indexed, the first by id; bounds the memory
SPARE = 4  # a quarter of what must be common is asked of the index; the rest is then counted
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication is a bijection of 64 bits


@dataclass(frozen=True)
class Similar:
    """A document that reads like a relevant one; similarity is 1 where their shingles are equal."""

    gold_id: str
    doc_id: str
    similarity: float


def similar_documents(
    documents: Mapping[str, str], gold_ids: Iterable[str], threshold: float = SIMILAR
) -> list[Similar]:
    """Every pair of a relevant document and another with Jaccard >= threshold, by id bytes.

    threshold: above 0, at most 1. Two relevant documents give two pairs, one for each of them.
    """
    known = sorted({name for name in gold_ids if name in documents}, key=str.encode)[:MOST_GOLD]
    gold = {name: shingles(documents[name]) for name in known}
    index = _Index([kept for kept in gold.values()], threshold)
    found = []
    for doc_id, text in documents.items():
        mine = gold.get(doc_id)
        mine = shingles(text) if mine is None else mine
        for at in index.candidates(mine):
            if known[at] == doc_id:
                continue
            likeness = jaccard(gold[known[at]], mine)
            if likeness >= threshold:
                found.append(Similar(known[at], doc_id, likeness))
    return sorted(found, key=lambda pair: (pair.gold_id.encode(), pair.doc_id.encode()))


def shingles(text: str) -> Array:
    """The distinct shingles of a text as sorted hashes: (n,) uint64; none of a blank text."""
    plain = " ".join(text[:READ].lower().split())
    points = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    if not len(points):
        return np.zeros(0, np.uint64)
    width = min(SHINGLE, len(points))
    windows = np.lib.stride_tricks.sliding_window_view(points, width)
    hashes = np.zeros(len(windows), np.uint64)
    for column in range(width):
        hashes = _mixed((hashes ^ windows[:, column]) * _FACTOR)
    return np.unique(hashes)


def _mixed(hashes: Array) -> Array:
    """High bits into low ones, so that the next product spreads them again."""
    return np.asarray(hashes ^ (hashes >> np.uint64(29)))


def jaccard(first: Array, second: Array) -> float:
    """Common shingles / shingles of either; 0 where both have none."""
    at = np.minimum(np.searchsorted(second, first), max(len(second) - 1, 0))
    common = int(np.count_nonzero(second[at] == first)) if len(second) else 0
    either = len(first) + len(second) - common
    return common / either if either else 0.0


class _Index:
    """Rare shingles of the relevant documents -> which of them have it.

    starts, owners: the owners of shingle `keys[i]` are `owners[starts[i] : starts[i + 1]]`. needed:
    (n_gold,) how many of its indexed shingles a similar text must have.
    """

    def __init__(self, gold: list[Array], threshold: float) -> None:
        self.threshold = threshold
        self.sizes = np.array([len(kept) for kept in gold], np.int64)
        common = np.array([math.ceil(threshold * len(kept) - 1e-9) for kept in gold], np.int64)
        self.needed: Integers = 1 + common // SPARE
        everything = np.concatenate(gold) if gold else np.zeros(0, np.uint64)
        names, frequency = np.unique(everything, return_counts=True)
        lengths = (self.sizes - common + self.needed).tolist()
        parts = [
            _rarest(kept, names, frequency)[:length]
            for kept, length in zip(gold, lengths, strict=True)
        ]
        keys = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(keys, kind="stable")
        self.keys, starts = np.unique(keys[order], return_index=True)
        self.owners: Integers = owners[order].astype(np.int64)
        self.starts: Integers = np.append(starts, len(keys)).astype(np.int64)

    def candidates(self, mine: Array) -> list[int]:
        """Which relevant documents may be similar: enough rare shingles, and the size fits."""
        if not len(self.keys) or not len(mine):
            return []
        at = np.minimum(np.searchsorted(self.keys, mine), len(self.keys) - 1)
        hits = at[self.keys[at] == mine]
        lengths = self.starts[hits + 1] - self.starts[hits]
        before = np.cumsum(lengths) - lengths
        rows = np.arange(int(lengths.sum())) + np.repeat(self.starts[hits] - before, lengths)
        found = np.bincount(self.owners[rows], minlength=len(self.sizes))
        fits = np.minimum(self.sizes, len(mine)) >= (
            self.threshold * np.maximum(self.sizes, len(mine)) - 1e-9
        )
        kept: list[int] = np.flatnonzero((found >= self.needed) & fits).tolist()
        return kept


def _rarest(kept: Array, names: Array, frequency: Integers) -> Array:
    """A document's shingles, those first that the fewest relevant documents have."""
    rarity = frequency[np.searchsorted(names, kept)]
    return np.asarray(kept[np.lexsort((kept, rarity))])

"""The first stage: BM25 over an analyzer, by bm25s, with an order that ties cannot shake."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rerank.analyzers import analyzer
from rerank.errors import ConfigError, unknown_name

METHODS = ("lucene", "robertson", "atire")


@dataclass(frozen=True)
class Ranking:
    """The documents that share a term with a query: ids by score, best first, and all scores."""

    doc_ids: list[str]
    scores: np.ndarray  # (n_returned,) float64, aligned with doc_ids
    all_scores: np.ndarray  # (n_documents,) float32, aligned with the index's documents


class BM25Index:
    """BM25 over one corpus (Robertson and Zaragoza 2009; variants of Kamphuis et al. 2020).

    Equal scores are ordered by document id, descending by UTF-8 bytes: trec_eval's rule, and
    one that does not depend on the corpus file's order. A document without a query term is not
    retrieved.
    """

    def __init__(
        self, documents: dict[str, str], *, analyzer_name: str, method: str, k1: float, b: float
    ) -> None:
        import bm25s

        if method not in METHODS:
            raise unknown_name("BM25 method", method, METHODS)
        if not documents:
            raise ConfigError("the corpus holds no document; check the corpus file of the task")
        self.analyze = analyzer(analyzer_name)
        self.doc_ids = sorted(documents, key=lambda doc_id: doc_id.encode("utf-8"), reverse=True)
        self.position = {doc_id: index for index, doc_id in enumerate(self.doc_ids)}
        tokens = [self.analyze(documents[doc_id]) for doc_id in self.doc_ids]
        self.vocabulary = {token for words in tokens for token in words}
        self.index = bm25s.BM25(method=method, k1=k1, b=b)
        if self.vocabulary:
            self.index.index(tokens, show_progress=False)

    def search(self, query: str, depth: int) -> Ranking:
        """The `depth` best documents for a query text."""
        terms = [token for token in self.analyze(query) if token in self.vocabulary]
        if not terms:
            empty = np.zeros(len(self.doc_ids), dtype=np.float32)
            return Ranking([], np.zeros(0), empty)
        scores = self.index.get_scores(terms)
        best = top_positions(scores, depth)
        return Ranking(
            [self.doc_ids[index] for index in best], scores[best].astype(np.float64), scores
        )


def top_positions(scores: np.ndarray, depth: int) -> np.ndarray:
    """Positions of the `depth` largest positive scores, best first, ties by position.

    All documents tied with the last place are looked at before the cut, so which of them stay
    depends on their position (their id's order) alone.
    """
    found = np.flatnonzero(scores > 0)
    if depth < len(found):
        floor = np.partition(scores[found], len(found) - depth)[len(found) - depth]
        found = found[scores[found] >= floor]
    order = np.argsort(-scores[found], kind="stable")
    return found[order][:depth]

"""What rerank servers are asked and what they answer: one row of `DIALECTS` each.

Servers answer sorted by score, in the order asked, or in any other: scores are joined to documents
by `index` alone. Whatever does not give each document exactly one finite number is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.errors import ScoringError

FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Question:
    """One query with the documents that one request asks about, and what is said of both."""

    query: str
    documents: Sequence[str]
    model: str = ""
    truncate: bool = False


@dataclass(frozen=True)
class Dialect:
    """How one kind of server is spoken to.

    path: appended to the base url; body: the JSON of a question; listed: the key under which the
    answer has its list of results, None where the answer is the list; score: the key of a result's
    score, beside `index`; truncates: does a request say whether over-long texts may be cut;
    names_model: does it name the model.
    """

    path: str
    body: Callable[[Question], dict[str, Any]]
    listed: str | None
    score: str
    truncates: bool = False
    names_model: bool = True

    @property
    def readout(self) -> str:
        """Where in an answer the scores stand, for people."""
        return f"{self.listed or ''}[].{self.score} joined by index"


def read_scores(dialect: Dialect, answer: Any, documents: int) -> np.ndarray:
    """(documents,) float64 in the order asked, from an answer's JSON value.

    ScoringError: no list of results; a result without an index or score; an index out of range,
    twice or missing; a score that is no finite float32 (bool, string, NaN, 1e39).
    """
    scores = np.full(documents, np.nan, dtype=np.float64)
    for result in _results(dialect, answer):
        index = _index(result, documents)
        if not np.isnan(scores[index]):
            raise ScoringError(f"document {index} of {documents} has two scores in the answer")
        scores[index] = _score(result, dialect.score, index)
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        raise ScoringError(
            f"{len(missing)} of {documents} documents have no score in the answer (the first is "
            f"number {missing[0]}); the server must score every document it is sent"
        )
    return scores


def _results(dialect: Dialect, answer: Any) -> list[Any]:
    found = answer
    if dialect.listed is not None and isinstance(answer, Mapping):
        found = answer.get(dialect.listed)
    elif dialect.listed is not None:
        found = None
    if not isinstance(found, list):
        where = f"under `{dialect.listed}`" if dialect.listed else "as the whole answer"
        raise ScoringError(f"no list of results {where}: {answer!r:.120}; check `dialect`")
    return found


def _index(result: Any, documents: int) -> int:
    index = result.get("index") if isinstance(result, Mapping) else None
    if not isinstance(index, int) or isinstance(index, bool):
        raise ScoringError(f"a result without a whole number as `index`: {result!r:.120}")
    if not 0 <= index < documents:
        raise ScoringError(f"index {index!r:.20} in the answer, documents are 0 to {documents - 1}")
    return index


def _score(result: Mapping[str, Any], key: str, index: int) -> float:
    """The score of a result whose index is known. bool is an int in Python, but no score."""
    score = result.get(key)
    number = isinstance(score, int | float) and not isinstance(score, bool)
    # NaN fails the comparison; an int of any size can be compared where float(int) overflows
    if not number or not -FLOAT32_MAX <= score <= FLOAT32_MAX:  # type: ignore[operator]
        raise ScoringError(
            f"the `{key}` of document {index} is no finite float32 number: {score!r:.60}"
        )
    return float(score)  # type: ignore[arg-type]


def as_float32(scores: np.ndarray) -> tuple[np.ndarray, int]:
    """float32 scores, and how many distinct float64 scores became equal to another by that."""
    rounded = scores.astype(np.float32)
    return rounded, len(np.unique(scores)) - len(np.unique(rounded))


def look_like_probabilities(scores: np.ndarray) -> bool:
    """Do all scores lie in [0, 1]? Probabilities saturate near both ends, which makes ties. False
    where there are no scores, or NaN among them."""
    return len(scores) > 0 and bool(((scores >= 0.0) & (scores <= 1.0)).all())


def _cohere(question: Question) -> dict[str, Any]:
    """docs.cohere.com/v2/reference/rerank. Without top_n some servers return the best few."""
    return {
        "model": question.model,
        "query": question.query,
        "documents": list(question.documents),
        "top_n": len(question.documents),
    }


def _tei(question: Question) -> dict[str, Any]:
    """huggingface/text-embeddings-inference, router/src/http/types.rs: RerankRequest.

    raw_scores: the logit; otherwise the server answers its sigmoid. `truncate` is always said: left
    out, the server's --auto-truncate would decide.
    """
    return {
        "query": question.query,
        "texts": list(question.documents),
        "raw_scores": True,
        "truncate": question.truncate,
    }


def _vllm_score(question: Question) -> dict[str, Any]:
    """docs.vllm.ai, Score API: one text against each of a list."""
    return {
        "model": question.model,
        "text_1": question.query,
        "text_2": list(question.documents),
    }


DIALECTS: dict[str, Dialect] = {
    # Cohere v2, Jina, vLLM /rerank, and most gateways
    "cohere": Dialect("/rerank", _cohere, listed="results", score="relevance_score"),
    "tei": Dialect("/rerank", _tei, listed=None, score="score", truncates=True, names_model=False),
    "vllm_score": Dialect("/score", _vllm_score, listed="data", score="score"),
}

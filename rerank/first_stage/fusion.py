"""Fusion: several rankings of one query become one, by reciprocal rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def reciprocal_rank_fusion(rankings: Iterable[Sequence[str]], k: int = 60) -> dict[str, float]:
    """Document -> sum over the rankings of 1 / (k + rank), best first (Cormack et al. 2009).

    rankings: document ids, best first, 1-based ranks. Equal sums are ordered by document id,
    descending by UTF-8 bytes. The sums are taken in the order of the rankings, in float64.
    """
    fused: dict[str, float] = {}
    for ranking in rankings:
        for rank, doc_id in enumerate(ranking, 1):
            fused[doc_id] = fused.get(doc_id, 0.0) + 1.0 / (k + rank)
    order = sorted(fused, key=lambda doc_id: (fused[doc_id], doc_id.encode("utf-8")), reverse=True)
    return {doc_id: fused[doc_id] for doc_id in order}

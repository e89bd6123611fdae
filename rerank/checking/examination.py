"""All checks in their order, over whatever was given."""

from __future__ import annotations

from collections.abc import Iterator

from rerank.checking.candidates import candidate_findings
from rerank.checking.findings import LEVELS, Finding, shown
from rerank.checking.grades import grade_findings
from rerank.checking.ids import id_findings
from rerank.checking.material import Material
from rerank.checking.near_duplicates import MOST_GOLD, SHINGLE, SIMILAR, similar_documents
from rerank.checking.texts import text_findings


def examine(
    material: Material, *, ordered: bool = True, similarity: float = SIMILAR
) -> list[Finding]:
    """Every finding, errors first, each level in the order of the checks.

    ordered: see `candidate_findings`. similarity: Jaccard similarity of near duplicates, above 0.
    """
    found = [
        *id_findings(material),
        *grade_findings(material),
        *text_findings(material),
        *candidate_findings(material, ordered=ordered),
        *_near_duplicates(material, similarity),
    ]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def _near_duplicates(material: Material, similarity: float) -> Iterator[Finding]:
    """Pairs of a query: a relevant document, and one like it that is unjudged or has grade 0."""
    if not material.documents or not material.relevant:
        return
    gold = {doc_id for doc_ids in material.relevant.values() for doc_id in doc_ids}
    pairs = similar_documents(material.documents, gold, similarity)
    like: dict[str, list[tuple[str, float]]] = {}
    for pair in pairs:
        like.setdefault(pair.gold_id, []).append((pair.doc_id, pair.similarity))
    found = [
        (likeness, query_id, gold_id, doc_id, material.grades[query_id].get(doc_id))
        for query_id, doc_ids in material.relevant.items()
        for gold_id in sorted(doc_ids)
        for doc_id, likeness in like.get(gold_id, [])
        if material.grades[query_id].get(doc_id, 0) < 1
    ]
    bounded = f", of the first {MOST_GOLD:,} relevant documents" if len(gold) > MOST_GOLD else ""
    method = f"Jaccard similarity of {SHINGLE}-character shingles from {similarity:g}{bounded}"
    if not found:
        yield Finding(
            "fact", "near_duplicates", f"no near duplicate of a relevant one ({method})", 0
        )
        return
    found.sort(key=lambda row: (-row[0], row[1:4]))
    unjudged = sum(row[4] is None for row in found)
    examples = [
        f"{query_id}: {doc_id} ({'unjudged' if grade is None else f'grade {grade:g}'}) is like "
        f"{gold_id}, {likeness:.2f}"
        for likeness, query_id, gold_id, doc_id, grade in found
    ]
    yield Finding(
        "warning",
        "near_duplicates",
        f"documents read like a relevant one of their query but are not judged relevant, "
        f"{unjudged:,} unjudged ({method}): a system that finds them is called wrong",
        len(found),
        shown(examples),
        {"unjudged": unjudged, "graded_0_or_less": len(found) - unjudged, "threshold": similarity},
    )

"""The grades of the judgments: how many of each, negative ones, fractions, pairs judged twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rerank.checking.findings import Finding, shown
from rerank.checking.material import Material


def grade_findings(material: Material) -> Iterator[Finding]:
    """Of every judgment as it is written; a pair that is judged twice counts twice."""
    if not material.judgments:
        return
    counts = Counter(grade for _, _, grade in material.judgments)
    words = ", ".join(f"{grade:g}: {n:,}" for grade, n in sorted(counts.items()))
    relevant = [len(doc_ids) for doc_ids in material.relevant.values()]
    mean = sum(relevant) / len(relevant) if relevant else 0.0
    yield Finding(
        "fact",
        "grades",
        f"grades {words}; {mean:.2f} relevant documents a query that has any",
        values={
            "grades": {f"{grade:g}": n for grade, n in sorted(counts.items())},
            "relevant_a_query": mean,
        },
    )
    negative = [_words(row.query_id, row.doc_id) for row in material.judgments if row.grade < 0]
    if negative:
        yield Finding(
            "fact",
            "negative_grades",
            "grades are below 0: they count as not relevant, and as unjudged (trec_eval)",
            len(negative),
            shown(negative),
        )
    fractions = [
        f"{_words(row.query_id, row.doc_id)} {row.grade:g}"
        for row in material.judgments
        if row.grade != int(row.grade)
    ]
    if fractions:
        yield Finding(
            "error",
            "fractions",
            "grades are fractions: freezing takes whole ones; multiply or round them yourself",
            len(fractions),
            shown(fractions),
        )


def _words(query_id: str, doc_id: str) -> str:
    return f"{query_id} {doc_id}"

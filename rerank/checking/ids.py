"""Ids that stand on one side only: judgments, texts and candidate lists must speak of the same."""

from __future__ import annotations

from collections.abc import Iterator

from rerank.checking.findings import Finding, shown
from rerank.checking.material import Material

BLANK = " \t\n\r\f\v"  # what parts the fields of a TREC file


def id_findings(material: Material) -> Iterator[Finding]:
    """Counts, then ids that are missing on either side."""
    yield _counts(material)
    if material.judged:
        yield from _judged_without_text(material)
        yield from _queries_without_judgments(material)
    yield from _candidates_without_text(material)
    yield from _lists(material)
    yield from _of_another_collection(material)
    yield from _blanks(material)
    yield from _nul(material)


def _counts(material: Material) -> Finding:
    parts = {
        "queries": material.queries,
        "documents": material.documents,
        "lists": material.lists,
    }
    counts = {name: len(part) for name, part in parts.items() if part is not None}
    counts["judgments"] = len(material.judgments)
    counts["judged_queries"] = len(material.grades)
    if material.lists is not None:
        counts["pairs"] = sum(len(entry.doc_ids) for entry in material.lists.values())
    words = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())
    return Finding("fact", "counts", words, values=counts)


def _judged_without_text(material: Material) -> Iterator[Finding]:
    judged = material.grades
    if material.queries is not None:
        missing = sorted(judged.keys() - material.queries.keys())
        if missing:
            yield Finding(
                "error",
                "judged_queries_without_text",
                "judged queries have no text: add them to the queries or remove their judgments",
                len(missing),
                shown(missing),
            )
    if material.documents is None:
        return
    absent = [
        f"{query_id} {doc_id} (grade {graded[doc_id]:g})"
        for query_id, graded in judged.items()
        for doc_id in graded
        if doc_id not in material.documents
    ]
    if absent:
        relevant = sum(
            doc_id not in material.documents
            for doc_ids in material.relevant.values()
            for doc_id in doc_ids
        )
        yield Finding(
            "warning",
            "judged_documents_without_text",
            f"judged documents are not in the corpus, {relevant:,} of them relevant: no candidate "
            "list can hold them, so recall has a ceiling below 1",
            len(absent),
            shown(absent),
            {"relevant": relevant},
            harms=relevant > 0,
        )


def _queries_without_judgments(material: Material) -> Iterator[Finding]:
    asked = material.queries.keys() if material.queries is not None else set()
    unjudged = sorted(asked - material.grades.keys())
    if unjudged:
        left_out = not material.evaluates_all
        yield Finding(
            "fact" if left_out else "warning",
            "queries_without_judgments",
            "queries have no judgment"
            + (" and are left out" if left_out else ": they count as 0 in every mean"),
            len(unjudged),
            shown(unjudged),
        )
    hopeless = sorted(material.grades.keys() - material.relevant.keys())
    if hopeless:
        yield Finding(
            "warning",
            "queries_without_relevant",
            "judged queries have no document with a grade from 1: every system gets 0 on them, or "
            "they are skipped, as the suite's no_relevant says",
            len(hopeless),
            shown(hopeless),
        )
    if material.judgments and not material.relevant:
        yield Finding(
            "warning",
            "nothing_relevant",
            "no judgment has a grade from 1: every measure is 0, or every query is skipped",
            harms=True,
        )
    if not material.judgments:
        yield Finding("error", "no_judgments", "there is no judgment: nothing can be evaluated")


def _candidates_without_text(material: Material) -> Iterator[Finding]:
    if material.lists is None or material.documents is None:
        return
    absent = [
        f"{query_id} {doc_id}"
        for query_id, entry in material.lists.items()
        for doc_id in entry.doc_ids
        if doc_id not in material.documents
    ]
    if absent:
        yield Finding(
            "error",
            "candidates_without_text",
            "listed candidates are not in the corpus: use the corpus that the list was made on",
            len(absent),
            shown(absent),
        )


def _lists(material: Material) -> Iterator[Finding]:
    if material.lists is None:
        return
    listed = {query_id for query_id, entry in material.lists.items() if entry.doc_ids}
    without = sorted(material.grades.keys() - listed)
    if without:
        asked = material.queries if material.evaluates_all else material.grades
        some = bool(listed.intersection(asked or ()))
        yield Finding(
            "warning" if some else "error",
            "judged_queries_without_candidates",
            "judged queries have no candidate list: "
            + ("they count as 0 in every mean" if some else "none is left, which is no task"),
            len(without),
            shown(without),
            harms=not material.computed,  # a first stage may find nothing
        )
    unasked = sorted(listed - material.grades.keys())
    if unasked and material.judged and not material.evaluates_all:
        yield Finding(
            "fact",
            "lists_without_judgments",
            "lists belong to queries without judgments and are left out",
            len(unasked),
            shown(unasked),
        )
    if material.queries is not None:
        unknown = sorted(listed - material.queries.keys() - set(unasked))
        if unknown:
            yield Finding(
                "error",
                "lists_without_query",
                "lists belong to queries without text",
                len(unknown),
                shown(unknown),
            )


def _of_another_collection(material: Material) -> Iterator[Finding]:
    """Lists that share queries with the judgments, and not one document."""
    if material.computed:  # of its own corpus: its first stage may find nothing
        return
    shared = {
        query_id: entry.doc_ids
        for query_id, entry in (material.lists or {}).items()
        if query_id in material.grades and entry.doc_ids
    }
    if shared and all(material.grades[key].keys().isdisjoint(ids) for key, ids in shared.items()):
        yield Finding(
            "warning",
            "nothing_listed_is_judged",
            f"in {len(shared):,} lists with judged queries no listed document is judged: are these "
            "the judgments of another collection?",
            values={"lists": len(shared)},
            harms=True,
        )


def _nul(material: Material) -> Iterator[Finding]:
    """Ids with U+0000, where C programs, trec_eval among them, stop reading."""
    ids = {*(material.queries or ()), *(material.documents or ()), *(material.lists or ())}
    ids |= {name for query_id, doc_id, _ in material.judgments for name in (query_id, doc_id)}
    ids |= {doc_id for entry in (material.lists or {}).values() for doc_id in entry.doc_ids}
    odd = sorted(repr(name) for name in ids if "\0" in name)
    if odd:
        yield Finding(
            "warning",
            "nul_in_ids",
            "ids hold NUL (U+0000), where many programs stop reading: mend the source",
            len(odd),
            shown(odd),
        )


def _blanks(material: Material) -> Iterator[Finding]:
    """Ids that no TREC file can carry, so that `rerank export --format trec` would refuse them."""
    ids = [*(material.queries or {}), *(material.documents or {})]
    odd = [repr(name) for name in ids if not name or any(sign in name for sign in BLANK)]
    if odd:
        yield Finding(
            "fact",
            "ids_with_blanks",
            "ids are empty or hold blanks: JSONL carries them, TREC files cannot",
            len(odd),
            shown(odd),
        )

"""The freeze report: what a frozen task holds, as one page that opens without a network.

Drawn from `rerank.frozen_facts.frozen_facts`, which is written beside it as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rerank.reporting.charts import share_bar
from rerank.reporting.document import page_head
from rerank.reporting.histograms import histogram
from rerank.reporting.identity import facts_html
from rerank.reporting.markup import Content, Markup, details, element, paragraph
from rerank.reporting.table import Cell, Column, Row, Table, html_table, row
from rerank.reporting.wording import count, exists, number, provenance_words, share

FOOTER = (
    "Made by Rerank Replay when the task was frozen. The same figures are in freeze_report.json."
)
SHOWN_QUERIES = 200  # with injected rows; all of them are in the JSON
LENGTHS = (  # key, title, of what, unit
    ("query_characters", "Characters of queries", "every query once", "characters"),
    (
        "document_characters",
        "Characters of documents",
        "the document of every pair, as a model reads it",
        "characters",
    ),
    ("candidates_a_query", "Candidates of a query", "every query once", "candidates"),
)

Facts = Mapping[str, Any]


def render_freeze_report(facts: Facts) -> str:
    """The page for `frozen_facts`; text from data is escaped."""
    title = facts["about"].get("title") or facts["task"]
    head = page_head(f"{title} – frozen")
    sections = (
        ("Counts", _counts(facts)),
        ("Lengths", *(_lengths(facts, *names) for names in LENGTHS)),
        ("Grades", *_grades(facts)),
        ("Candidates", *_candidates(facts)),
    )
    body = element(
        "body",
        element(
            "header",
            paragraph("Rerank Replay", class_="brand"),
            element("h1", title),
            paragraph(f"Frozen as {facts['fingerprint']}.", class_="scope"),
        ),
        element(
            "main", *(element("section", element("h2", name), *parts) for name, *parts in sections)
        ),
        element("footer", paragraph(FOOTER)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _counts(facts: Facts) -> Markup:
    counts = facts["counts"]
    named = [
        *(("Task", facts["task"]), ("Language", facts["about"].get("language", ""))),
        *(("Licence", facts["about"].get("licence", "")),),
        *((name.capitalize(), count(counts[name])) for name in ("queries", "documents", "pairs")),
        ("Judgments", f"{count(counts['judgments'])} {_made(counts['provenance'])}".strip()),
        ("Queries with a relevant document", count(facts["queries_with_relevant"])),
        ("Queries without candidates", count(counts["queries_without_candidates"])),
        ("Judged documents outside the corpus", count(counts["judged_outside_corpus"])),
        ("Empty documents", count(counts["empty_documents"])),
    ]
    notes = [(f"Note: {key}", str(value)) for key, value in facts["notes"].items() if value]
    return facts_html([(name, value) for name, value in [*named, *notes] if value])


def _made(provenance: Mapping[str, int]) -> str:
    words = provenance_words(provenance)
    return f"({words})" if words else ""


def _lengths(facts: Facts, key: str, title: str, whose: str, unit: str) -> Markup:
    found = facts[key]
    if not found["n"]:
        return element("figure", element("h3", title), paragraph("There are none."))
    words = (
        f"{whose}; median {found['median']:,}, 5% to 95% {found['p05']:,} to {found['p95']:,}, "
        f"all {found['min']:,} to {found['max']:,}, mean {found['mean']:,.1f}; logarithmic axis"
    )
    return element(
        "figure",
        element("h3", title),
        histogram(found["bins"], label=f"{title}: {words}", unit=unit),
        element("figcaption", f"n = {found['n']:,}: {words}."),
    )


def _grades(facts: Facts) -> list[Content]:
    judged, listed = facts["counts"]["grades"], facts["candidate_grades"]
    return [
        element("h3", "Judgments"),
        html_table(_shares({f"grade {grade}": n for grade, n in judged.items()}, "Judgments")),
        element("h3", "Candidate pairs"),
        html_table(
            _shares(
                {(k if k == "unjudged" else f"grade {k}"): n for k, n in listed.items()}, "Pairs"
            )
        ),
    ]


def _shares(counts: Mapping[str, int], what: str) -> Table:
    total = sum(counts.values())
    columns = (Column("Grade"), Column(what, "number"), Column("Share", "number"))
    rows = [
        Row(
            (
                *(Cell(name), Cell(count(n)), Cell(share(n / total if total else None))),
                Cell(picture=share_bar(n, total, label=f"{name}: {n:,} of {total:,}")),
            )
        )
        for name, n in counts.items()
    ]
    return Table((*columns, Column("Bar", "picture")), rows)


def _candidates(facts: Facts) -> list[Content]:
    added = facts["injected"]
    return [
        paragraph(
            "Recall: the mean share of a query's relevant documents among its first candidates, "
            f"over {count(facts['queries_with_relevant'], 'query')} with any. "
            f"{_unjudged_words(facts)}{_moved_words(facts)}"
        ),
        html_table(_recall_table(facts)),
        element("h3", "Injected rows"),
        paragraph(_injected_words(added)),
        details("Queries with injected rows", html_table(_injected_table(added)))
        if added["rows"]
        else None,
    ]


def _unjudged_words(facts: Facts) -> str:
    if not facts["ordered"]:
        return (
            "The candidates are sets: their ranks mean nothing, so recall is of whole lists, and "
            "no share of the first 10 is given."
        )
    if not facts["candidates_at_10"]:
        return "There are no candidates."
    return (
        f"Of {count(facts['candidates_at_10'], 'candidate')} at ranks 1 to 10, nobody judged "
        f"{share(facts['unjudged_at_10'])}; they count as no gain."
    )


def _moved_words(facts: Facts) -> str:
    if all(exists(entry["without_injected"]) for entry in facts["recall"]):
        return ""
    if not facts["queries_with_relevant"]:
        return ""
    return (
        " Without injected rows it is known at the deepest depth alone: documents that were "
        "removed for them (gold_rule: within) have moved the others up."
    )


def _recall_table(facts: Facts) -> Table:
    injected = bool(facts["injected"]["rows"])
    extra = (Column("Without injected rows", "number"),) if injected else ()
    rows = []
    for entry in facts["recall"]:
        value = entry["recall"]
        bar = share_bar(
            value if exists(value) else 0.0, 1.0, label=f"{entry['depth']:,}: {number(value)}"
        )
        cells = [Cell(count(entry["depth"])), Cell(number(value))]
        cells += [Cell(number(entry["without_injected"]))] if injected else []
        rows.append(Row((*cells, Cell(picture=bar))))
    columns = (Column("Depth"), Column("Recall", "number"), *extra, Column("Bar", "picture"))
    return Table(columns, rows)


def _injected_words(added: Mapping[str, Any]) -> str:
    if not added["rows"]:
        return "None: every candidate was found by the first stage."
    return (
        f"{count(added['rows'], 'relevant document')} in {count(len(added['queries']), 'query')} "
        "were added to the candidates, because the first stage did not find them or found them too "
        "low. Measures on this task are not those of a real first stage."
    )


def _injected_table(added: Mapping[str, Any]) -> Table:
    entries = added["queries"][:SHOWN_QUERIES]
    rows = [row(entry["query_id"], count(entry["rows"])) for entry in entries]
    left = len(added["queries"]) - len(entries)
    rows += [row(f"and {count(left, 'query')} more, in freeze_report.json", "")] if left else []
    return Table((Column("Query"), Column("Injected rows", "number")), rows, compact=True)

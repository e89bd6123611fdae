"""Diagnostics: what could make a value less trustworthy than it looks."""

from __future__ import annotations

from rerank.reporting import markdown
from rerank.reporting.markup import Markup, element, join, paragraph
from rerank.reporting.schema import Diagnostics, Report
from rerank.reporting.selection import task_title
from rerank.reporting.table import Cell, Column, Row, Table, html_table, markdown_table, row
from rerank.reporting.visible import clipped
from rerank.reporting.wording import MISSING, count, listed, number, share

EXPLANATION = (
    "Tied: pairs whose score another document of the same query shares; the tie rule decides "
    "their order. Ties at a cutoff: queries in which that decides what is inside the cutoff. Over "
    "orders of ties: the value with the lowest and with the highest grades first among them. "
    "Unjudged@10: mean share of the first 10 documents that nobody judged; they count as no gain. "
    "Truncated: pairs that the model did not see whole."
)


def diagnostics_html(report: Report) -> Markup:
    tables = [
        join(
            [
                element("h3", task_title(report, task["name"])),
                html_table(diagnostics_table(report, task["name"])),
            ]
        )
        for task in report["tasks"]
    ]
    return join([paragraph(EXPLANATION), *tables])


def diagnostics_markdown(report: Report) -> str:
    tables = [
        markdown.blocks(
            markdown.heading(3, task_title(report, task["name"])),
            markdown_table(diagnostics_table(report, task["name"])),
        )
        for task in report["tasks"]
    ]
    return markdown.blocks(EXPLANATION, *tables)


def diagnostics_table(report: Report, task: str) -> Table:
    found = [entry for entry in report["diagnostics"] if entry["task"] == task]
    cutoffs = list(dict.fromkeys(k for entry in found for k in entry["ties_at_cutoff"]))
    ranged = any(entry.get("tie_range") for entry in found)
    timed = any(entry.get("seconds") is not None for entry in found)
    columns = (
        Column("System"),
        Column("Pairs", "number"),
        Column("Tied", "number"),
        *(Column(f"Ties at {k}", "number") for k in cutoffs),
        *(
            [Column(f"{report['suite']['primary']} over orders of ties", "number")]
            if ranged
            else []
        ),
        Column("Unjudged@10", "number"),
        Column("Truncated", "number"),
        Column("Without a score", "number"),
        Column("Queries missing", "number"),
        *([Column("Seconds", "number")] if timed else []),
    )
    rows = [_diagnostics_row(entry, cutoffs, ranged=ranged, timed=timed) for entry in found]
    return Table(columns, rows)


def _range(entry: Diagnostics) -> Cell:
    """0.1234 to 0.2345; one number where ties change nothing."""
    ends = [number(end) for end in entry.get("tie_range") or ()]
    return Cell(" to ".join(dict.fromkeys(ends)) or MISSING)


def _diagnostics_row(entry: Diagnostics, cutoffs: list[str], *, ranged: bool, timed: bool) -> Row:
    missing = [clipped(query_id, 60) for query_id in entry["missing_queries"]]
    truncated = entry.get("truncated_queries")
    return row(
        entry["system"],
        count(entry["pairs"]),
        share(entry["tied_share"]),
        *(count(entry["ties_at_cutoff"].get(k)) for k in cutoffs),
        *([_range(entry)] if ranged else []),
        number(entry["unjudged_at_10"]),
        Cell(
            share(entry["truncated_share"]),
            note=f"in {count(truncated, 'query')}" if truncated else "",
        ),
        Cell(count(entry["failed_pairs"]), tone="worse" if entry["failed_pairs"] else ""),
        Cell(
            count(len(missing)),
            note=listed(missing, 4) if missing else "",
            tone="worse" if missing else "",
        ),
        *([number(entry.get("seconds"), 1)] if timed else []),
    )

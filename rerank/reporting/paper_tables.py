"""The leaderboards as LaTeX and Markdown tables for a paper: best marked, significance marked.

In every column: the best mean; what lies within the best's own interval, so that its lead is not
sure; and, after correction for all tests of the suite, what differs from the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rerank.reporting import markdown
from rerank.reporting.schema import MACRO, Report, Result
from rerank.reporting.selection import (
    compared_delta,
    has_unverified_recipe,
    more_is_better,
    places,
    provenance_of,
    ranked,
    result_of,
    task_title,
)
from rerank.reporting.visible import clipped, visible
from rerank.reporting.wording import (
    bounds,
    confidence_name,
    count,
    exists,
    number,
    provenance_words,
)
from rerank.suite.conventions import INTERVAL_NAMES

ABOVE, BELOW, UNVERIFIED = "†", "‡", "*"
LATEX_MARKS = {ABOVE: r"\textsuperscript{\textdagger}", BELOW: r"\textsuperscript{\textdaggerdbl}"}
LATEX_HEAD = "% needs \\usepackage{booktabs} and \\usepackage{textcomp}, and UTF-8 input\n"
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class PaperCell:
    """A mean; best, or within the best's interval; mark: ABOVE or BELOW the baseline, or empty."""

    text: str
    best: bool = False
    near: bool = False
    mark: str = ""


@dataclass(frozen=True)
class PaperTable:
    """One leaderboard: systems best first, a column a measure."""

    place: str
    caption: str
    measures: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[PaperCell, ...]], ...]  # system, n, cells


def latex_tables(report: Mapping[str, Any]) -> str:
    """Every leaderboard as a LaTeX table environment, over all tasks first."""
    return LATEX_HEAD + "\n".join(map(_latex_table, paper_tables(report)))


def markdown_tables(report: Mapping[str, Any]) -> str:
    """Every leaderboard as a Markdown table with its caption under it."""
    return markdown.blocks(*map(_markdown_table, paper_tables(report))) + "\n"


def paper_tables(report: Mapping[str, Any]) -> list[PaperTable]:
    """The shape of `report` is in schema.py."""
    known = cast(Report, report)
    return [_paper_table(known, place) for place in places(known)]


def _paper_table(report: Report, place: str) -> PaperTable:
    measures = tuple(report["measures"])
    leaders = ranked(report, place)
    best = {measure: _best(report, place, measure, leaders) for measure in measures}
    rows = tuple(
        (
            leader["system"]
            + (UNVERIFIED if has_unverified_recipe(report, leader["system"]) else ""),
            count(leader["n"]),
            tuple(_cell(report, leader, measure, best[measure]) for measure in measures),
        )
        for leader in leaders
    )
    return PaperTable(place, caption(report, place, leaders), measures, rows)


def _best(report: Report, place: str, measure: str, leaders: list[Result]) -> Result | None:
    found = [result_of(report, place, leader["system"], measure) for leader in leaders]
    valued = [result for result in found if result is not None and exists(result["mean"])]
    return max(valued, key=lambda result: result["mean"] or 0.0, default=None)


def _cell(report: Report, leader: Result, measure: str, best: Result | None) -> PaperCell:
    result = result_of(report, leader["task"], leader["system"], measure)
    if result is None or best is None or not exists(result["mean"]):
        return PaperCell(number(None))
    if not more_is_better(measure):
        return PaperCell(number(result["mean"]))
    ends = bounds(best["interval"])
    is_best = result["mean"] == best["mean"]
    return PaperCell(
        text=number(result["mean"]),
        best=is_best,
        near=not is_best and ends is not None and result["mean"] >= ends[0],
        mark=_significance(report, result),
    )


def _significance(report: Report, result: Result) -> str:
    """Where the corrected p-value against the baseline is below alpha: above it, or below it?"""
    delta = compared_delta(report, result["task"], result["system"], result["measure"])
    alpha = report["suite"].get("alpha")
    if delta.corrected_p is None or alpha is None or delta.corrected_p >= alpha or not delta.mean:
        return ""
    if not delta.agrees or not more_is_better(result["measure"]):
        return ""
    return ABOVE if delta.mean > 0 else BELOW


def caption(report: Report, place: str, leaders: list[Result]) -> str:
    """What a table's numbers and marks mean, in sentences."""
    suite = report["suite"]
    title = task_title(report, place)
    if place == MACRO:
        title = f"Mean over {count(len(report['tasks']), 'task')}"
    sizes = sorted({leader["n"] for leader in leaders})
    queries = " to ".join(count(size) for size in dict.fromkeys(sizes[:1] + sizes[-1:]))
    judged = provenance_words(provenance_of(report, place))
    kind = INTERVAL_NAMES[suite.get("interval", "percentile") if place != MACRO else "percentile"]
    failed = [leader for leader in leaders if leader["failed_pairs"]]
    parts = [
        f"{title}, n = {queries} queries" + (f", judgments: {judged}" if judged else ""),
        f"Bold: best. Underlined (Markdown: italic): within the best's "
        f"{confidence_name(suite['confidence'])} ({kind} bootstrap over "
        f"{suite.get('clusters') or 'queries'}, {suite['samples']:,} resamples)",
        _tested(report, place),
        *(
            f"{leader['system']}: {count(leader['failed_pairs'], 'pair')} without a score"
            for leader in failed
        ),
    ]
    if any(has_unverified_recipe(report, leader["system"]) for leader in leaders):
        parts.append(f"{UNVERIFIED} recipe not checked against its authors' code")
    return "".join(f"{part}. " for part in parts if part).rstrip()


def _tested(report: Report, place: str) -> str:
    suite = report["suite"]
    tests = suite.get("tests")
    if not tests:
        return ""
    if place == MACRO:
        return "Means over tasks are not tested"
    return (
        f"{ABOVE} ({BELOW}): above (below) {suite['baseline']}, two-sided paired "
        f"{suite.get('test')} test, corrected p < {suite.get('alpha')} ({suite.get('correction')}, "
        f"{count(tests, 'test')})"
    )


def _latex_table(table: PaperTable) -> str:
    columns = "l" + "r" * (len(table.measures) + 1)
    head = " & ".join(["System", *(latex_escape(name) for name in table.measures), "$n$"])
    rows = [
        " & ".join([latex_escape(clipped(system, 60)), *map(_latex_cell, cells), latex_escape(n)])
        for system, n, cells in table.rows
    ]
    return latex_frame(table.caption, columns, head, rows)


def latex_frame(caption: str, columns: str, head: str, rows: Sequence[str]) -> str:
    """A floating booktabs table. columns: their alignment; head, rows: escaped, joined by &."""
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_escape(caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *(rf"{row} \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_cell(cell: PaperCell) -> str:
    text = latex_escape(cell.text)
    if cell.best:
        text = rf"\textbf{{{text}}}"
    elif cell.near:
        text = rf"\underline{{{text}}}"
    return text + LATEX_MARKS.get(cell.mark, "")


def latex_escape(text: str) -> str:
    """Text as LaTeX shows it: no command, no comment, no alignment; daggers as commands."""
    signs = _LATEX | {ABOVE: r"\textdagger{}", BELOW: r"\textdaggerdbl{}"}
    return "".join(signs.get(sign, sign) for sign in visible(text).strip())


def _markdown_table(table: PaperTable) -> str:
    heads = ["System", *table.measures, "n"]
    rows = [
        [markdown.escape(clipped(system, 60)), *map(_markdown_cell, cells), markdown.escape(n)]
        for system, n, cells in table.rows
    ]
    drawn = markdown.table(
        [markdown.escape(name) for name in heads], [False] + [True] * (len(heads) - 1), rows
    )
    return markdown.blocks(drawn, markdown.paragraph(table.caption))


def _markdown_cell(cell: PaperCell) -> str:
    text = markdown.escape(cell.text)
    if cell.best:
        text = f"**{text}**"
    elif cell.near:
        text = f"*{text}*"
    return text + cell.mark

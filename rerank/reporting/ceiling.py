"""Candidates and ceiling: what stage 1 found, and the best that any reranker could make of it."""

from __future__ import annotations

from rerank.reporting import markdown
from rerank.reporting.charts import Scale, axis, progress_row, scale_of
from rerank.reporting.markup import Markup, element, join, paragraph
from rerank.reporting.schema import Headroom, Report, Task
from rerank.reporting.selection import headroom_of
from rerank.reporting.table import Cell, Column, Row, Table, html_table, markdown_table, row
from rerank.reporting.wording import be, count, number, share

PLOT_NOTE = (
    "Bar: the system's value. Pale bar: what the best order of the same candidates would reach. "
    "Line: the baseline. Recovered: the share of the way from the baseline to that best order."
)


def ceiling_html(report: Report) -> Markup:
    return join([*(_task_html(report, task) for task in report["tasks"])])


def ceiling_markdown(report: Report) -> str:
    return markdown.blocks(*(_task_markdown(report, task) for task in report["tasks"]))


def _task_html(report: Report, task: Task) -> Markup:
    return join(
        [
            element("h3", task["title"] or task["name"]),
            paragraph(candidates_sentence(task)),
            html_table(headroom_table(report, task)),
            paragraph(PLOT_NOTE, class_="fine"),
        ]
    )


def _task_markdown(report: Report, task: Task) -> str:
    return markdown.blocks(
        markdown.heading(3, task["title"] or task["name"]),
        markdown.paragraph(candidates_sentence(task)),
        markdown_table(headroom_table(report, task)),
    )


def first_stage_name(task: Task) -> str:
    """bm25 lucene, analyzer mecab, k1=1.2, b=0.75, depth 50."""
    stage = task["first_stage"]
    settings = [f"{key}={stage[key]}" for key in ("k1", "b") if stage.get(key) is not None]
    analyzer = [f"analyzer {stage['analyzer']}"] if stage.get("analyzer") else []
    return ", ".join([stage["method"], *analyzer, *settings, f"depth {task['depth']}"])


def candidates_sentence(task: Task) -> str:
    """What stage 1 left to rerank, in words."""
    recall, coverage = task["candidate_recall"], task["candidate_coverage"]
    text = (
        f"Stage 1 ({first_stage_name(task)}). Candidate recall {number(recall['mean'])} "
        f"(n={count(recall['n'])}): the mean share of a query's relevant documents that are "
        f"candidates. Coverage {number(coverage['mean'])} (n={count(coverage['n'])}): the share "
        "of queries with at least one."
    )
    lost = task["unreachable_queries"]
    if lost:
        text += f" {count(lost, 'query')} {be(lost)} out of reach of every reranker."
    if task["inject_gold"]:
        text += (
            f" Relevant documents were added to the candidates ({task['injected_rows']:,} rows); "
            f"stage 1 alone had recall {number(task['retrieved_recall'])}."
        )
    return text


def headroom_table(report: Report, task: Task) -> Table:
    rows = headroom_of(report, task)
    measure = rows[0]["measure"] if rows else report["suite"]["primary"]
    scale = scale_of([0.0, 1.0, *(entry["oracle"] or 0.0 for entry in rows)])
    baseline = next(
        (entry["value"] for entry in rows if entry["system"] == report["suite"]["baseline"]), None
    )
    columns = (
        Column("System"),
        Column(measure, "number"),
        Column("Way to the oracle", "picture", axis(scale)),
        Column("Oracle", "number"),
        Column("Headroom left", "number"),
        Column("Recovered", "number"),
        Column("n", "number"),
    )
    return Table(columns, [_headroom_row(entry, scale, baseline) for entry in rows])


def _headroom_row(entry: Headroom, scale: Scale, baseline: float | None) -> Row:
    label = f"{entry['system']}: {number(entry['value'])} of {number(entry['oracle'])}"
    picture = progress_row(scale, entry["value"], baseline, entry["oracle"], label=label)
    return row(
        entry["system"],
        number(entry["value"]),
        Cell(picture=picture),
        number(entry["oracle"]),
        number(entry["headroom"]),
        share(entry["recovered"]),
        count(entry["n"]),
    )

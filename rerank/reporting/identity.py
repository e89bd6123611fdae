"""What was measured: tasks and their frozen data, systems and their recipes, conventions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rerank.reporting import markdown
from rerank.reporting.ceiling import first_stage_name
from rerank.reporting.charts import share_bar
from rerank.reporting.markup import Markup, bullets, details, element, join, paragraph
from rerank.reporting.schema import Report, System, Task
from rerank.reporting.table import Cell, Column, Table, html_table, markdown_table, row
from rerank.reporting.visible import clipped
from rerank.reporting.wording import MISSING, count, listed, share

SHOWN_FACT = 400  # characters of one fact
Facts = Sequence[tuple[str, str]]


def facts_html(facts: Facts) -> Markup:
    pairs = [
        element("div", element("dt", name), element("dd", clipped(value, SHOWN_FACT)))
        for name, value in facts
    ]
    return element("dl", *pairs)


def facts_markdown(facts: Facts) -> str:
    rows = [
        [markdown.escape(name), markdown.escape(clipped(value, SHOWN_FACT))]
        for name, value in facts
    ]
    return markdown.table(["What", "Value"], [False, False], rows)


def tasks_html(report: Report) -> Markup:
    return join(_task_html(task) for task in report["tasks"])


def tasks_markdown(report: Report) -> str:
    return markdown.blocks(
        *(
            markdown.blocks(
                markdown.heading(3, task["title"] or task["name"]),
                facts_markdown(task_facts(task)),
                markdown_table(grades_table(task)) if task["grades"] else None,
                markdown.bullets(task["notes"]),
            )
            for task in report["tasks"]
        )
    )


def _task_html(task: Task) -> Markup:
    return element(
        "article",
        element("h3", task["title"] or task["name"]),
        facts_html(task_facts(task)),
        html_table(grades_table(task)) if task["grades"] else None,
        bullets(task["notes"], class_="fine"),
        class_="card",
    )


def task_facts(task: Task) -> Facts:
    made = [f"{kind} {count(n)}" for kind, n in task["provenance"].items()]
    gold = f"yes, {task['injected_rows']:,} rows added" if task["inject_gold"] else "no"
    facts = [
        ("Name", task["name"]),
        ("About", task.get("description", "")),
        ("Language", task["language"]),
        ("Queries", count(task["queries"])),
        ("Documents", count(task["documents"])),
        ("Pairs to score", count(task["pairs"])),
        ("Judgments", f"{count(task['judgments'])} ({listed(made)})"),
        ("Stage 1", first_stage_name(task)),
        ("Relevant documents added to candidates", gold),
        ("Without a relevant document", _named(task["no_relevant"])),
        ("Without candidates", _named(task.get("without_candidates", []))),
        ("Queries without judgments", _named(task.get("unjudged_queries", []))),
        ("Source", task["source"]),
        ("Licence", task["licence"]),
        ("Task fingerprint", task["fingerprint"]),
        ("Recipe fingerprint", task["recipe_fingerprint"]),
    ]
    return [(name, value) for name, value in facts if value]


def _named(ids: Sequence[str]) -> str:
    return f"{count(len(ids), 'query')}: {listed([clipped(i, 60) for i in ids])}" if ids else ""


def grades_table(task: Task) -> Table:
    total = sum(task["grades"].values())
    columns = (
        Column("Grade"),
        Column("Judgments", "number"),
        Column("Share", "number"),
        Column("", "picture"),
    )
    rows = [
        row(
            grade,
            count(n),
            share(n / total if total else None),
            Cell(picture=share_bar(n, total, label=f"grade {grade}: {n} of {total}")),
        )
        for grade, n in sorted(task["grades"].items(), key=lambda item: _grade_order(item[0]))
    ]
    return Table(columns, rows, compact=True)


def _grade_order(grade: str) -> tuple[int, str]:
    return (int(grade), "") if grade.lstrip("-").isdecimal() else (0, grade)


def systems_html(report: Report) -> Markup:
    cards = [
        details(system["name"], facts_html(system_facts(system))) for system in report["systems"]
    ]
    return join([html_table(systems_table(report)), *cards])


def systems_markdown(report: Report) -> str:
    cards = [
        markdown.blocks(markdown.heading(3, system["name"]), facts_markdown(system_facts(system)))
        for system in report["systems"]
    ]
    return markdown.blocks(markdown_table(systems_table(report)), *cards)


def systems_table(report: Report) -> Table:
    columns = (
        Column("System"),
        Column("Adapter"),
        Column("Recipe"),
        Column("Licence"),
        Column("Number format"),
        Column("Attention"),
        Column("Most tokens", "number"),
    )
    rows = [
        row(
            Cell(system["name"], labels=("baseline",) if system["is_baseline"] else ()),
            system["adapter"],
            Cell(system["recipe"], tone="better" if system["recipe"] == "verified" else "muted"),
            clipped(system["licence"] or MISSING, 80),
            system["dtype"] or MISSING,
            system["attention"] or MISSING,
            count(system["max_length"]),
        )
        for system in report["systems"]
    ]
    return Table(columns, rows)


def system_facts(system: System) -> Facts:
    facts = [
        ("About", system["description"]),
        ("Weights", system["weights"] or ""),
        ("Revision", _plain(system.get("revision"))),
        ("Device", system.get("device") or ""),
        *((f"Setting {key}", _plain(value)) for key, value in system["parameters"].items()),
        *((f"Run on {task}", fingerprint) for task, fingerprint in system["runs"].items()),
    ]
    return [(name, value) for name, value in facts if value]


def _plain(value: Any) -> str:
    """A setting as text: strings as they are, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def conventions_html(report: Report) -> Markup:
    statements = bullets(report["convention"]["statements"])
    return join([facts_html(convention_facts(report)), statements])


def conventions_markdown(report: Report) -> str:
    return markdown.blocks(
        facts_markdown(convention_facts(report)),
        markdown.bullets(report["convention"]["statements"]),
    )


def convention_facts(report: Report) -> Facts:
    """The names that the project's files use, with their values."""
    return [
        (name, str(value))
        for name, value in report["convention"].items()
        if name != "statements" and value is not None
    ]


def environment_html(report: Report) -> Markup:
    rows = report["environment"]["rows"]
    if not rows:
        return paragraph("Not recorded.")
    return details(count(len(rows), "line"), facts_html(environment_facts(report)))


def environment_markdown(report: Report) -> str:
    if not report["environment"]["rows"]:
        return "Not recorded."
    return facts_markdown(environment_facts(report))


def environment_facts(report: Report) -> Facts:
    return [(row[0], row[1]) for row in report["environment"]["rows"]]

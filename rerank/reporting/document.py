"""The two whole documents: report.html, which opens from disk without a network, and report.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rerank.reporting import markdown
from rerank.reporting.leaderboard import synthetic_share
from rerank.reporting.markup import Content, Markup, chip, element, join, paragraph
from rerank.reporting.schema import Report
from rerank.reporting.sections import SECTIONS, Section
from rerank.reporting.stylesheet import STYLESHEET
from rerank.reporting.wording import count, listed

SECURITY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is loaded, nothing runs
FOOTER = "Made by Rerank Replay. The same numbers are in report.json and report.md."


def render_html(report: Mapping[str, Any]) -> str:
    """The report as one self-contained HTML file; the shape of `report` is in schema.py."""
    known = cast(Report, report)
    head = page_head(title_of(known))
    return f"<!doctype html>\n{element('html', head, _body(known), lang='en')}\n"


def render_markdown(report: Mapping[str, Any]) -> str:
    """The report as Markdown with the same numbers, without plots."""
    known = cast(Report, report)
    sections = [
        markdown.blocks(markdown.heading(2, section.title), section.markdown(known))
        for section in SECTIONS.values()
    ]
    label = synthetic_share(known)
    return (
        markdown.blocks(
            markdown.heading(1, title_of(known)),
            markdown.paragraph(known["suite"]["description"]),
            f"**{markdown.escape(label)}**" if label else None,
            markdown.paragraph(scope_of(known)),
            *sections,
        )
        + "\n"
    )


def title_of(report: Report) -> str:
    return report["suite"]["title"] or report["suite"]["name"]


def scope_of(report: Report) -> str:
    """What the report is about, in one line."""
    queries = sum(task["queries"] for task in report["tasks"])
    return (
        f"{count(len(report['systems']), 'system')} on {count(len(report['tasks']), 'task')} "
        f"({listed([task['name'] for task in report['tasks']])}) with "
        f"{count(queries, 'query')}; baseline {report['suite']['baseline']}; ordered by "
        f"{report['suite']['primary']}."
    )


def page_head(title: str) -> Markup:
    """The head of a page that stands alone: its look within, nothing loaded, nothing run."""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=SECURITY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – Rerank Replay"),
        element("style", STYLESHEET),
    )


def _body(report: Report) -> Markup:
    sections = [_section(name, section, report) for name, section in SECTIONS.items()]
    return element(
        "body",
        _header(report),
        element("div", _contents(), element("main", *sections), class_="columns"),
        element("footer", paragraph(FOOTER)),
    )


def _header(report: Report) -> Markup:
    label = synthetic_share(report)
    content: list[Content] = [
        paragraph("Rerank Replay", class_="brand"),
        element("h1", title_of(report)),
        paragraph(report["suite"]["description"], class_="lede")
        if report["suite"]["description"]
        else None,
        paragraph(
            join([chip(label, "notice"), " "] if label else []), scope_of(report), class_="scope"
        ),
    ]
    return element("header", *content)


def _contents() -> Markup:
    links = [
        element("li", element("a", section.title, href=f"#{name}"))
        for name, section in SECTIONS.items()
    ]
    return element("nav", element("ol", *links), aria_label="Sections")


def _section(name: str, section: Section, report: Report) -> Markup:
    return element("section", element("h2", section.title), section.html(report), id=name)

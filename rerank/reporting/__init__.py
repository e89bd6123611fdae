"""The report of a suite: one JSON document drawn as HTML, as Markdown and as tables for papers."""

from rerank.reporting.document import render_html, render_markdown
from rerank.reporting.paper_tables import latex_tables, markdown_tables
from rerank.reporting.sections import SECTIONS

__all__ = ["SECTIONS", "latex_tables", "markdown_tables", "render_html", "render_markdown"]

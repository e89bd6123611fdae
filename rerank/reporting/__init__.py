"""The report of a suite: one JSON document drawn as HTML and as Markdown, by pure functions."""

from rerank.reporting.document import render_html, render_markdown
from rerank.reporting.sections import SECTIONS

__all__ = ["SECTIONS", "render_html", "render_markdown"]

"""The sections of a report, in their order. A new one is two functions and a row of SECTIONS."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rerank.reporting.ceiling import ceiling_html, ceiling_markdown
from rerank.reporting.comparisons import comparisons_html, comparisons_markdown
from rerank.reporting.diagnostics import diagnostics_html, diagnostics_markdown
from rerank.reporting.efficiency import efficiency_html, efficiency_markdown
from rerank.reporting.identity import (
    conventions_html,
    conventions_markdown,
    environment_html,
    environment_markdown,
    systems_html,
    systems_markdown,
    tasks_html,
    tasks_markdown,
)
from rerank.reporting.leaderboard import verdict_html, verdict_markdown
from rerank.reporting.markup import Markup
from rerank.reporting.schema import Report
from rerank.reporting.slice_grid import slices_html, slices_markdown


class Section(NamedTuple):
    """Both functions take the report and return the body under the title."""

    title: str
    html: Callable[[Report], Markup]
    markdown: Callable[[Report], str]


SECTIONS: dict[str, Section] = {
    "verdict": Section("Verdict", verdict_html, verdict_markdown),
    "ceiling": Section("Candidates and ceiling", ceiling_html, ceiling_markdown),
    "comparisons": Section("Comparisons", comparisons_html, comparisons_markdown),
    "slices": Section("Slices", slices_html, slices_markdown),
    "efficiency": Section("Efficiency", efficiency_html, efficiency_markdown),
    "tasks": Section("Tasks and frozen data", tasks_html, tasks_markdown),
    "systems": Section("Systems and recipes", systems_html, systems_markdown),
    "diagnostics": Section("Diagnostics", diagnostics_html, diagnostics_markdown),
    "conventions": Section("Conventions", conventions_html, conventions_markdown),
    "environment": Section("Environment", environment_html, environment_markdown),
}

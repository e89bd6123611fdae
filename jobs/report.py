"""`rerank report SUITE`: report.html, .md and .json with the same numbers, tables.tex and .md."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from jobs.config import Suite
from jobs.console import say
from jobs.evaluate import findings_of
from jobs.freeze import frozen_tasks
from jobs.results import imported_blocks
from jobs.suite_arguments import add_suite_arguments, suite_of
from rerank.circumstances import describe_process
from rerank.efficiency.facts import efficiency_facts
from rerank.reporting import latex_tables, markdown_tables, render_html, render_markdown
from rerank.store import Store, json_bytes
from rerank.suite.findings import Findings
from rerank.suite.summary import document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    findings = findings_of(suite, store, frozen_tasks(suite, store))
    say(f"report: {write_report(suite, store, findings)}")
    return 0


def write_report(suite: Suite, store: Store, findings: Findings) -> str:
    """The five files of a report; the address of the HTML."""
    report = document(findings, suite.models, environment(findings))
    if suite.spec.imported:
        report["imported"] = imported_blocks(suite)
    report["efficiency"] = efficiency_facts(store, findings)
    folder = f"reports/{suite.spec.name}"
    store.write(f"{folder}/report.json", json_bytes(report))
    store.write(f"{folder}/report.md", render_markdown(report).encode("utf-8"))
    store.write(f"{folder}/report.html", render_html(report).encode("utf-8"))
    store.write(f"{folder}/tables.tex", latex_tables(report).encode("utf-8"))
    store.write(f"{folder}/tables.md", markdown_tables(report).encode("utf-8"))
    return store.where(f"{folder}/report.html")


def environment(findings: Findings) -> list[tuple[str, str]]:
    """What the numbers were made with; circumstances, none of which identifies a run."""
    here = describe_process()
    rows = [(name, str(here[name])) for name in ("platform", "python", "git_commit")]
    rows += [(name, str(version)) for name, version in here["packages"].items() if version]
    for system in findings.systems:
        for key, label in (("worker", "machine of"), ("recipe", "input of")):
            found = {_facts(receipt.get(key, {})) for receipt in system.receipts}
            rows += [(f"{label} {system.model} on {system.task}", text) for text in sorted(found)]
        counted = Counter[str]()
        for receipt in system.receipts:
            counted.update(receipt.get("report", {}).get("counts", {}))
        if counted:
            rows.append((f"counted by {system.model} on {system.task}", _facts(counted)))
    return rows


def _facts(values: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {value}" for name, value in sorted(values.items()))

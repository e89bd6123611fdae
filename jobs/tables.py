"""Plain text tables for the terminal: the same numbers as the report."""

from __future__ import annotations

from collections.abc import Sequence

import metrics
from rerank.comparison import Comparison
from rerank.gating import FAIL, TOO_FEW
from rerank.records import ModelSpec
from rerank.reporting.visible import visible
from rerank.summary import Findings, compared_measures

MISSING = "—"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first left, the others right."""
    cells = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "  ".join(
            cell + " " * (widths[column] - width(cell))
            if column == 0
            else " " * (widths[column] - width(cell)) + cell
            for column, cell in enumerate(row)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def width(text: str) -> int:
    """Terminal cells of a text; Hangul and other wide characters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def leaderboard(findings: Findings, models: Sequence[ModelSpec]) -> str:
    """A table of systems for each task, best first by the primary measure."""
    unverified = {model.name for model in models if model.recipe == "unverified"}
    measures = compared_measures(findings.suite)
    found = findings.results
    parts = []
    for task in dict.fromkeys(row["task"] for row in found):
        mine = {(r["system"], r["measure"]): r for r in found if r["task"] == task}
        order = sorted(
            dict.fromkeys(system for system, _ in mine),
            key=lambda name: -(mine[name, findings.suite.primary]["mean"] or 0.0),
        )
        rows = []
        for name in order:
            primary = mine[name, findings.suite.primary]
            low_high = interval_text(primary["interval"])
            values = [number(mine[name, measure]["mean"]) for measure in measures]
            mark = " (baseline)" if name == findings.suite.baseline else ""
            mark += " (unverified recipe)" if name in unverified else ""
            rows.append([name + mark, values[0], low_high, *values[1:], str(primary["n"])])
        percent = f"{findings.suite.confidence:.0%} interval"
        parts.append(
            f"{task}\n" + table(["system", measures[0], percent, *measures[1:], "n"], rows)
        )
    return "\n\n".join(parts) + "\n"


def deltas(findings: Findings) -> str:
    """One line a challenger, task and measure."""
    rows = [
        [
            f"{item.challenger.model} on {item.challenger.task}",
            item.measure,
            signed(item.summary.mean if item.summary.n else None),
            interval_text(None if item.interval is None else item.interval),
            f"{item.summary.improved}/{item.summary.tied}/{item.summary.regressed}",
            str(item.summary.n),
        ]
        for item in findings.comparisons
        if item.measure == findings.suite.primary
    ]
    if not rows:
        return "no challenger to compare with the baseline\n"
    head = [
        f"delta to {findings.suite.baseline}",
        "measure",
        "mean",
        "interval",
        "up/tied/down",
        "n",
    ]
    return table(head, rows) + "\n"


def slice_deltas(findings: Findings) -> str:
    """The slices of the primary measure, worst first for each challenger."""
    rows = []
    for item in findings.comparisons:
        if item.measure == findings.suite.primary:
            rows += _slices(item)
    if not rows:
        return "no slices in this suite\n"
    return table(["slice", "mean delta", "interval", "up/tied/down", "n"], rows) + "\n"


def _slices(item: Comparison) -> list[list[str]]:
    label = f"{item.challenger.model} on {item.challenger.task}"
    return [
        [
            f"{label}: {found.slice[0]}={found.slice[1]}",
            signed(found.summary.mean),
            interval_text(found.interval),
            f"{found.summary.improved}/{found.summary.tied}/{found.summary.regressed}",
            str(found.summary.n),
        ]
        for found in sorted(item.slices, key=lambda found: found.summary.mean)
    ]


def gate(findings: Findings) -> str:
    """The verdict of the release gate, with the rules that failed."""
    if findings.passed is None:
        return "gate: no rule is about these systems"
    failed = [verdict for verdict in findings.verdicts if verdict.verdict == FAIL]
    lines = [f"  failed: {verdict.sentence}" for verdict in failed]
    unjudged = sum(verdict.verdict == TOO_FEW for verdict in findings.verdicts)
    judged = f"{len(findings.verdicts)} checks, {len(failed)} failed"
    judged += f", {unjudged} not judged: too few queries" if unjudged else ""
    return "\n".join([f"gate: {'PASSED' if findings.passed else 'FAILED'} ({judged})", *lines])


def number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4f}"


def signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.4f}"


def interval_text(interval: metrics.Interval | dict[str, object] | None) -> str:
    """`[low, high]`; an interval of equal values is marked, never shown as certain."""
    if interval is None:
        return MISSING
    facts = interval if isinstance(interval, dict) else vars(interval)
    text = f"[{facts['low']:.4f}, {facts['high']:.4f}]"
    return f"{text} {facts['kind']}*" if facts["degenerate"] else text

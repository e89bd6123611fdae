"""Plain text tables for the terminal: the same numbers as the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import metrics
from rerank.records import ModelSpec
from rerank.reporting.visible import visible
from rerank.reporting.wording import provenance_words, share
from rerank.suite.comparison import Comparison, Difference
from rerank.suite.findings import Findings, compared_measures
from rerank.suite.gating import ABSENT, FAIL, TOO_FEW
from rerank.suite.significance import p_words
from rerank.suite.suites import MACRO
from rerank.suite.summary_rows import comparison_warnings

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
    """A table of systems for each task and for their mean, best first by the primary measure."""
    unverified = {model.name for model in models if model.recipe == "unverified"}
    places = dict.fromkeys(row["task"] for row in findings.results)
    return "\n\n".join(_board(findings, place, unverified) for place in places) + "\n"


def _board(findings: Findings, place: str, unverified: set[str]) -> str:
    suite, measures = findings.suite, compared_measures(findings.suite)
    mine = {(r["system"], r["measure"]): r for r in findings.results if r["task"] == place}
    order = sorted(findings.models, key=lambda name: -(mine[name, suite.primary]["mean"] or 0.0))
    uneven = any(_traffic_matters(mine[name, suite.primary]) for name in order)
    rows = []
    for name in order:
        primary = mine[name, suite.primary]
        mark = " (baseline)" if name == suite.baseline else ""
        mark += " (unverified recipe)" if name in unverified else ""
        by_traffic = [number(primary["weighted_mean"]), interval_text(primary["weighted_interval"])]
        rows.append(
            [
                *(name + mark, number(primary["mean"]), interval_text(primary["interval"])),
                *(rank_text(primary["ranks"]), share(primary["beaten"])),
                *(by_traffic if uneven else []),
                *(number(mine[name, measure]["mean"]) for measure in measures[1:]),
                str(primary["n"]),
            ]
        )
    head = ["system", measures[0], f"{suite.confidence:.0%} interval", "rank", "beaten"]
    head += ["by traffic", "its interval"] if uneven else []
    return f"{place}{_provenance(findings, place)}\n" + table([*head, *measures[1:], "n"], rows)


def _traffic_matters(row: dict[str, Any]) -> bool:
    mean, weighted = row["mean"], row["weighted_mean"]
    return mean is not None and weighted is not None and abs(mean - weighted) > 1e-9


def _provenance(findings: Findings, place: str) -> str:
    """Who made the judgments that these means rest on: ` (judgments: human 60.0%, ...)`."""
    tasks = findings.tasks if place == MACRO else [place]
    counts = Counter[str]()
    for task in tasks:
        counts.update(findings.system(task, findings.suite.baseline).view.task.counts["provenance"])
    words = provenance_words(counts)
    return f" (judgments: {words})" if words else ""


def deltas(findings: Findings) -> str:
    """One line a challenger and task: the primary measure's delta and what it is worth."""
    suite = findings.suite
    items = [item for item in findings.comparisons if item.measure == suite.primary]
    if not items:
        return "no challenger to compare with the baseline\n"
    uneven = any(_uneven(item) for item in items)
    rows = [
        [
            f"{item.challenger.model} on {item.challenger.task}",
            item.measure,
            *_evidence(item.whole),
            *(
                [signed(item.weighted_delta), interval_text(item.weighted_interval)]
                if uneven
                else []
            ),
            number(item.whole.power.detectable if item.whole.power else None),
            f"{item.whole.power.queries_needed:,}" if item.whole.power else MISSING,
            _counts(item.whole),
            str(item.whole.summary.n),
        ]
        for item in items
    ]
    head = [f"delta to {suite.baseline}", "measure", "mean", "interval", "p", "corrected"]
    head += ["by traffic", "its interval"] if uneven else []
    head += ["detectable", f"n for {suite.effect:g}", "up/tied/down", "n"]
    notes = [
        f"note: {item.challenger.model} on {item.challenger.task}: {warning}"
        for item in items
        for warning in comparison_warnings(item)
    ]
    return "\n".join([table(head, rows), statistics_line(findings), *notes]) + "\n"


def _uneven(item: Comparison) -> bool:
    weighted, mean = item.weighted_delta, item.whole.summary.mean
    return weighted is not None and abs(weighted - mean) > 1e-9


def _evidence(difference: Difference) -> list[str]:
    """Mean, interval, p-value and corrected p-value."""
    return [
        signed(difference.summary.mean if difference.summary.n else None),
        interval_text(difference.interval),
        p_number(difference.p_value),
        p_number(difference.corrected_p),
    ]


def _counts(difference: Difference) -> str:
    summary = difference.summary
    return f"{summary.improved}/{summary.tied}/{summary.regressed}"


def statistics_line(findings: Findings) -> str:
    """What the p-values and intervals are, in one line."""
    suite = findings.suite
    units = f"clusters by {suite.clusters}" if suite.clusters else "queries"
    return (
        f"{suite.test} test, {suite.correction} correction over {findings.tests} tests "
        f"(challengers x measures x slices), alpha {suite.alpha:g}; {suite.interval} intervals "
        f"over {units}, {suite.samples:,} resamples; detectable: with 80% power"
    )


def slice_deltas(findings: Findings) -> str:
    """The slices of the primary measure, worst first for each challenger."""
    rows = []
    for item in findings.comparisons:
        if item.measure == findings.suite.primary:
            rows += _slices(item)
    if not rows:
        return "no slices in this suite\n"
    head = ["slice", "mean delta", "interval", "p", "corrected", "up/tied/down", "n"]
    return table(head, rows) + "\n"


def _slices(item: Comparison) -> list[list[str]]:
    label = f"{item.challenger.model} on {item.challenger.task}"
    return [
        [
            f"{label}: {part.slice[0]}={part.slice[1]}",
            *_evidence(part.difference)[:2],
            *(["too few", ""] if part.small else _evidence(part.difference)[2:]),
            _counts(part.difference),
            str(part.difference.summary.n),
        ]
        for part in sorted(item.slices, key=lambda part: part.difference.summary.mean)
    ]


def gate(findings: Findings) -> str:
    """The verdict of the release gate, with the rules that failed."""
    if findings.passed is None:
        return "gate: no rule is about these systems"
    failed = [verdict for verdict in findings.verdicts if verdict.verdict == FAIL]
    lines = [f"  failed: {verdict.sentence}" for verdict in failed]
    judged = f"{len(findings.verdicts)} checks, {len(failed)} failed"
    for kind in (TOO_FEW, ABSENT):
        unjudged = sum(verdict.verdict == kind for verdict in findings.verdicts)
        judged += f", {unjudged} not judged: {kind}" if unjudged else ""
    return "\n".join([f"gate: {'PASSED' if findings.passed else 'FAILED'} ({judged})", *lines])


def number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4f}"


def signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.4f}"


def p_number(p: float | None) -> str:
    """0.012, and never 0."""
    return MISSING if p is None else p_words(p).removeprefix("p ").removeprefix("= ")


def rank_text(ranks: Sequence[int] | None) -> str:
    """1-3: best and worst plausible rank."""
    if ranks is None:
        return MISSING
    best, worst = ranks
    return str(best) if best == worst else f"{best}-{worst}"


def interval_text(interval: metrics.Interval | dict[str, object] | None) -> str:
    """`[low, high]`; an interval of equal values is marked, never shown as certain."""
    if interval is None:
        return MISSING
    facts = interval if isinstance(interval, dict) else vars(interval)
    text = f"[{facts['low']:.4f}, {facts['high']:.4f}]"
    return f"{text} {facts['kind']}*" if facts["degenerate"] else text

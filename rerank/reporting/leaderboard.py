"""The verdict: which system leads, how sure that is, and what the release gate says."""

from __future__ import annotations

from rerank.reporting import markdown
from rerank.reporting.charts import Scale, axis, interval_row, scale_of
from rerank.reporting.gate import failed_sentences, gate_html, gate_sentence, gate_table
from rerank.reporting.imported import (
    imported_html,
    imported_markdown,
    imported_measure_rows,
    imported_rows,
    imported_sentence,
)
from rerank.reporting.markup import Markup, bullets, chip, details, element, join, paragraph
from rerank.reporting.schema import MACRO, Interval, Report, Result
from rerank.reporting.selection import (
    compared_delta,
    has_unverified_recipe,
    is_synthetic,
    leaders,
    mixed_judgments,
    places,
    ranked,
    reading_of,
    result_of,
    task_title,
)
from rerank.reporting.table import Cell, Column, Row, Table, html_table, markdown_table, row
from rerank.reporting.wording import (
    READINGS,
    bounds,
    confidence_name,
    count,
    exists,
    interval_text,
    listed,
    number,
    p_text,
    rank_text,
    share,
    signed,
)

SYNTHETIC = "synthetic labels"
UNVERIFIED = "unverified recipe"
TONES = {"better": "better", "worse": "worse"}


def verdict_html(report: Report) -> Markup:
    boards = [_board_html(report, place) for place in places(report)]
    return join(
        [
            gate_html(report),
            bullets(report["warnings"], class_="warnings"),
            *boards,
            paragraph(interval_note(report), class_="fine"),
            imported_html(report),
        ]
    )


def verdict_markdown(report: Report) -> str:
    boards = [_board_markdown(report, place) for place in places(report)]
    return markdown.blocks(
        f"**{markdown.escape(gate_sentence(report))}**",
        markdown.bullets(failed_sentences(report)),
        markdown_table(gate_table(report)) if report["gate"]["rules"] else None,
        markdown.bullets(f"Note: {warning}" for warning in report["warnings"]),
        *boards,
        markdown.paragraph(interval_note(report)),
        imported_markdown(report),
    )


def _board_html(report: Report, place: str) -> Markup:
    return join(
        [
            element("h3", board_title(report, place), _synthetic_chip(report, place)),
            paragraph(leader_sentence(report, place), class_="headline"),
            paragraph(mixed) if (mixed := mixed_judgments(report, place)) else None,
            html_table(leaderboard_table(report, place)),
            paragraph(told, class_="fine") if (told := imported_sentence(report, place)) else None,
            details("All measures", html_table(measures_table(report, place))),
        ]
    )


def _board_markdown(report: Report, place: str) -> str:
    return markdown.blocks(
        markdown.heading(3, board_title(report, place)),
        f"*{SYNTHETIC}*" if _needs_label(report, place) else None,
        markdown.paragraph(leader_sentence(report, place)),
        markdown.paragraph(mixed_judgments(report, place)),
        markdown_table(leaderboard_table(report, place)),
        markdown.paragraph(imported_sentence(report, place)),
        markdown_table(measures_table(report, place)),
    )


def board_title(report: Report, place: str) -> str:
    if place == MACRO:
        return f"Mean over {count(len(report['tasks']), 'task')}"
    return task_title(report, place)


def _synthetic_chip(report: Report, place: str) -> Markup | None:
    return join([" ", chip(SYNTHETIC, "notice")]) if _needs_label(report, place) else None


def _needs_label(report: Report, place: str) -> bool:
    """Synthetic judgments, and a title that does not say so itself."""
    return is_synthetic(report, place) and SYNTHETIC not in task_title(report, place)


def leader_sentence(report: Report, place: str) -> str:
    """Who has the highest mean, who lies within its interval, and what that does not show."""
    best = leaders(report, place)
    primary = report["suite"]["primary"]
    if not best:
        return f"No system has a value of {primary} here."
    names, value = listed([result["system"] for result in best]), number(best[0]["mean"])
    verb = "has" if len(best) == 1 else "share"
    text = f"{names} {verb} the highest {primary}: {value} (n={count(best[0]['n'])})."
    text += _against_baseline(report, best)
    near = [result["system"] for result in ranked(report, place) if _near(result, best)]
    if near:
        return (
            f"{text} Inside its {confidence_name(report['suite']['confidence'])}: {listed(near)}."
        )
    return text


def _against_baseline(report: Report, best: list[Result]) -> str:
    """What the paired deltas say of a system that leads alone."""
    baseline, leader = report["suite"]["baseline"], best[0]["system"]
    if baseline in [result["system"] for result in best]:
        return " No challenger is above the baseline." if len(report["systems"]) > 1 else ""
    if len(best) > 1:
        return ""
    delta = compared_delta(report, best[0]["task"], leader, report["suite"]["primary"])
    words = f"{signed(delta.mean)} {interval_text(delta.interval, delta=True)}"
    tested = "" if delta.corrected_p is None else f", corrected {p_text(delta.corrected_p)}"
    return f" Against {baseline}: {words}{tested}, {READINGS[reading_of(report, delta)]}."


def _near(result: Result, best: list[Result]) -> bool:
    """Does a system that is not best lie inside the interval of the best?"""
    ends = bounds(best[0]["interval"])
    mean = result["mean"]
    return result not in best and ends is not None and mean is not None and mean >= ends[0]


def interval_note(report: Report) -> str:
    suite = report["suite"]
    tests = suite.get("tests")
    tested = (
        f" P-values: {suite.get('test')} test, {suite.get('correction')} correction over "
        f"{count(tests, 'test')}, alpha {suite.get('alpha')}."
        if tests
        else ""
    )
    units = f"clusters by {suite['clusters']}" if suite.get("clusters") else "queries"
    return (
        f"{confidence_name(suite['confidence'])}s over {units}, {suite['samples']:,} "
        f"{suite.get('interval', 'percentile')} bootstrap resamples, seed {suite['seed']}.{tested} "
        "Rank: best and worst in the resamples; beaten: how often the best system is above. "
        "Intervals of two means may overlap although their paired difference is clear; what was "
        "shown is in the delta column."
    )


def leaderboard_table(report: Report, place: str) -> Table:
    """Systems by the primary measure, best first; deltas are paired, against the baseline."""
    suite = report["suite"]
    results = ranked(report, place)
    scale = _scale(results)
    standing = any(result.get("ranks") for result in results)
    columns = [
        Column("System"),
        Column(suite["primary"], "number"),
        Column("Interval plot", "picture", axis(scale)),
        Column(confidence_name(suite["confidence"]), "number"),
        Column("n", "number"),
        *([Column("Rank", "number")] if standing else []),
        Column("Delta to baseline", "number"),
        Column("Reading"),
    ]
    weighted = any(_weight_matters(result) for result in results)
    if weighted:
        columns.insert(2, Column("Traffic-weighted", "number"))
    rows = [
        _leader_row(report, result, scale, weighted=weighted, ranks=standing) for result in results
    ]
    return Table(tuple(columns), [*rows, *imported_rows(report, place, columns)])


def _scale(results: list[Result]) -> Scale:
    ends = [end for result in results for end in bounds(result["interval"]) or ()]
    return scale_of(ends + [result["mean"] for result in results if result["mean"] is not None])


def _weight_matters(result: Result) -> bool:
    mean, weighted = result["mean"], result["weighted_mean"]
    return mean is not None and weighted is not None and abs(mean - weighted) > 1e-9


def _leader_row(
    report: Report, result: Result, scale: Scale, *, weighted: bool, ranks: bool
) -> Row:
    suite, place, system = report["suite"], result["task"], result["system"]
    is_baseline = system == suite["baseline"]
    best = leaders(report, place)
    delta = compared_delta(report, place, system, suite["primary"])
    reading = reading_of(report, delta)
    base = result_of(report, place, suite["baseline"], suite["primary"])
    picture = interval_row(
        scale,
        result["mean"],
        result["interval"],
        tone="baseline" if is_baseline else "",
        reference=base["mean"] if base else None,
        label=f"{system}: {number(result['mean'])} {interval_text(result['interval'])}",
    )
    cells = [
        Cell(system, labels=_labels(report, result, best), note=_failures(result)),
        Cell(number(result["mean"]), strong=result in best),
        *([_by_traffic(result)] if weighted else []),
        Cell(picture=picture),
        Cell(interval_text(result["interval"])),
        Cell(count(result["n"])),
        *([_rank(result)] if ranks else []),
        Cell("" if is_baseline else signed(delta.mean), note=_delta_note(delta.interval)),
        Cell(
            "baseline" if is_baseline else READINGS[reading],
            note="" if delta.corrected_p is None else f"corrected {p_text(delta.corrected_p)}",
            tone=TONES.get(reading, "muted"),
        ),
    ]
    return Row(tuple(cells), tone="baseline" if is_baseline else "")


def _by_traffic(result: Result) -> Cell:
    interval = result.get("weighted_interval")
    return Cell(
        number(result["weighted_mean"]), note="" if interval is None else interval_text(interval)
    )


def _rank(result: Result) -> Cell:
    beaten = result.get("beaten")
    return Cell(
        rank_text(result.get("ranks")), note="" if beaten is None else f"beaten {share(beaten)}"
    )


def _delta_note(interval: Interval | None) -> str:
    return "" if interval is None else interval_text(interval, delta=True)


def _labels(report: Report, result: Result, best: list[Result]) -> tuple[str, ...]:
    found = ["baseline"] if result["system"] == report["suite"]["baseline"] else []
    if has_unverified_recipe(report, result["system"]):
        found.append(UNVERIFIED)
    if result in best:
        found.append("best")
    elif best and _near(result, best):
        found.append("inside the best's interval")
    return tuple(found)


def _failures(result: Result) -> str:
    if not result["failed_pairs"]:
        return ""
    queries = count(result["failed_queries"], "query")
    return f"{count(result['failed_pairs'], 'pair')} without a score, in {queries}"


def measures_table(report: Report, place: str) -> Table:
    """Every measure of every system, with its interval, and n in the cell where it differs."""
    measures = report["measures"]
    columns = (
        Column("System"),
        Column("n", "number"),
        *(Column(measure, "number") for measure in measures),
    )
    rows = [
        row(
            leader["system"],
            count(leader["n"]),
            *(_measure_cell(report, leader, measure) for measure in measures),
        )
        for leader in ranked(report, place)
    ]
    return Table(columns, [*rows, *imported_measure_rows(report, place, columns)])


def _measure_cell(report: Report, leader: Result, measure: str) -> Cell:
    result = result_of(report, leader["task"], leader["system"], measure)
    if result is None or not exists(result["mean"]):
        return Cell(number(None))
    size = "" if result["n"] == leader["n"] else f" n={count(result['n'])}"
    return Cell(number(result["mean"]), note=f"{interval_text(result['interval'])}{size}")


def synthetic_share(report: Report) -> str:
    """How much of all judgments is synthetic, for the label at the top; empty where none is."""
    made = sum(task["provenance"].get("synthetic", 0) for task in report["tasks"])
    total = sum(sum(task["provenance"].values()) for task in report["tasks"])
    return f"{SYNTHETIC}: {share(made / total)} of the judgments" if made else ""

"""Each challenger against the baseline, query by query: in words, as plots, with the queries."""

from __future__ import annotations

from rerank.reporting import markdown
from rerank.reporting.charts import MOST_BARS, Scale, scale_of, waterfall
from rerank.reporting.delta_tables import (
    forest_table,
    measures_table,
    overview_table,
    queries_table,
)
from rerank.reporting.markup import Markup, bullets, details, element, join, paragraph
from rerank.reporting.schema import Comparison, Report
from rerank.reporting.selection import (
    compared_pairs,
    comparison_of,
    mixed_judgments,
    reading_of,
    task_title,
)
from rerank.reporting.table import html_table, markdown_table
from rerank.reporting.wording import (
    IN_WORDS,
    confidence_name,
    count,
    interval_text,
    number,
    p_text,
    signed,
)

NOTHING = "Nothing to compare: no system was run beside the baseline."
OVERVIEW = (
    "Every delta is challenger minus baseline on the same queries. An interval that contains 0 "
    "shows no difference, which is not the same as showing that there is none."
)
MANY_SLICES = (
    "Intervals of slices are not corrected for their number: among many slices a few exclude 0 by "
    "chance. The p-values are, and what is read as better or worse holds after correction. Slices "
    "may overlap. Grey: fewer queries than the suite asks for, not tested."
)


def comparisons_html(report: Report) -> Markup:
    if not report["comparisons"]:
        return paragraph(NOTHING)
    pairs = compared_pairs(report)
    return join(
        [
            paragraph(OVERVIEW),
            html_table(overview_table(report)),
            *(_pair_html(report, *pair) for pair in pairs),
        ]
    )


def comparisons_markdown(report: Report) -> str:
    if not report["comparisons"]:
        return NOTHING
    pairs = compared_pairs(report)
    return markdown.blocks(
        OVERVIEW,
        markdown_table(overview_table(report)),
        *(_pair_markdown(report, *pair) for pair in pairs),
    )


def _pair_html(report: Report, challenger: str, task: str) -> Markup:
    main = comparison_of(report, task, challenger, report["suite"]["primary"])
    return element(
        "article",
        element("h3", pair_title(report, challenger, task)),
        paragraph(mixed) if (mixed := mixed_judgments(report, task)) else None,
        _main_html(report, main) if main else None,
        details("Every measure", html_table(measures_table(report, challenger, task))),
        class_="card",
    )


def _main_html(report: Report, main: Comparison) -> Markup:
    reading = reading_of(report, main)
    worst, best = queries_table(main, main["worst"]), queries_table(main, main["best"])
    return join(
        [
            paragraph(delta_sentence(report, main), class_=f"headline {reading}"),
            paragraph(evidence) if (evidence := evidence_sentence(report, main)) else None,
            bullets(main["warnings"], class_="warnings"),
            _waterfall(report, main),
            _slices_html(report, main),
            details(f"Worst regressions ({len(worst.rows)})", html_table(worst), open_=True)
            if main["worst"]
            else paragraph("No query regressed."),
            details(f"Biggest gains ({len(best.rows)})", html_table(best))
            if main["best"]
            else None,
        ]
    )


def _slices_html(report: Report, main: Comparison) -> Markup | None:
    if not main["slices"]:
        return None
    return join(
        [
            element("h4", "Slices"),
            html_table(forest_table(report, main)),
            paragraph(MANY_SLICES, class_="fine"),
        ]
    )


def _pair_markdown(report: Report, challenger: str, task: str) -> str:
    main = comparison_of(report, task, challenger, report["suite"]["primary"])
    return markdown.blocks(
        markdown.heading(3, pair_title(report, challenger, task)),
        markdown.paragraph(mixed_judgments(report, task)),
        _main_markdown(report, main) if main else None,
        "Every measure:",
        markdown_table(measures_table(report, challenger, task)),
    )


def _main_markdown(report: Report, main: Comparison) -> str:
    return markdown.blocks(
        markdown.paragraph(delta_sentence(report, main)),
        markdown.paragraph(evidence_sentence(report, main)),
        markdown.bullets(f"Note: {warning}" for warning in main["warnings"]),
        markdown_table(forest_table(report, main)) if main["slices"] else None,
        MANY_SLICES if main["slices"] else None,
        "Worst regressions:" if main["worst"] else "No query regressed.",
        markdown_table(queries_table(main, main["worst"])) if main["worst"] else None,
        "Biggest gains:" if main["best"] else None,
        markdown_table(queries_table(main, main["best"])) if main["best"] else None,
    )


def pair_title(report: Report, challenger: str, task: str) -> str:
    where = f", {task_title(report, task)}" if len(report["tasks"]) > 1 else ""
    return f"{challenger} against {report['suite']['baseline']}{where}"


def delta_sentence(report: Report, main: Comparison) -> str:
    """The comparison in plain words; an interval that holds 0 shows no difference."""
    delta = main["delta"]
    if delta["mean"] is None:
        return f"{main['measure']}: no query has a value in both systems."
    reading = IN_WORDS[reading_of(report, main)]
    weighted, by_traffic = main.get("weighted_delta"), main.get("weighted_interval")
    traffic = ""
    if weighted is not None and abs(weighted - delta["mean"]) > 1e-9:
        ends = "" if by_traffic is None else f" {interval_text(by_traffic, delta=True)}"
        traffic = f", traffic-weighted {signed(weighted)}{ends}"
    return (
        f"{main['measure']} changes by {signed(delta['mean'])} on average "
        f"({confidence_name(report['suite']['confidence'])} "
        f"{interval_text(main['interval'], delta=True)}, n={count(main['n'])}{traffic}): "
        f"{reading} {main['baseline']}. "
        f"{count(main['improved'], 'query')} improved, {main['tied']:,} tied, "
        f"{main['regressed']:,} regressed. Median {signed(delta['median'])}; the middle half lies "
        f"between {signed(delta['p25'])} and {signed(delta['p75'])}, and one query in twenty is "
        f"at {signed(delta['p05'])} or below."
    )


def evidence_sentence(report: Report, main: Comparison) -> str:
    """P-value, effect size, and how much these queries could have found."""
    p, corrected, suite = main.get("p_value"), main.get("corrected_p"), report["suite"]
    parts = []
    if p is not None and corrected is not None:
        parts.append(
            f"{p_text(p)[:1].upper()}{p_text(p)[1:]} by the {suite.get('test')} test, "
            f"{p_text(corrected)} after correction ({suite.get('correction')}, "
            f"{count(suite.get('tests'), 'test')})"
        )
    if (size := main.get("effect_size")) is not None:
        parts.append(f"Effect size {size:+.2f} standard deviations of a query's delta")
    if (found := main.get("detectable")) is not None:
        needed = count(main.get("queries_needed"))
        parts.append(
            f"With {count(main['n'], 'query')} a mean delta of {number(found)} is found with 80% "
            f"power; a delta of {suite.get('effect')} would take {needed}"
        )
    return "".join(f"{part}. " for part in parts).rstrip()


def _waterfall(report: Report, main: Comparison) -> Markup | None:
    if not main["deltas"]:
        return None
    scale = delta_scale(report, main["measure"])
    thinned = len(main["deltas"]) > MOST_BARS
    shown = (
        f"{MOST_BARS} of {count(main['n'], 'query')}, evenly spaced" if thinned else "one bar each"
    )
    label = (
        f"Change of {main['measure']} per query, smallest first: {main['regressed']} regressed, "
        f"{main['tied']} tied, {main['improved']} improved"
    )
    caption = element("figcaption", f"{label} ({shown}).")
    return element("figure", waterfall(main["deltas"], scale, label=label), caption)


def delta_scale(report: Report, measure: str) -> Scale:
    """One vertical scale for the waterfalls of all challengers, so that they can be compared."""
    found = [c for c in report["comparisons"] if c["measure"] == measure]
    return scale_of([0.0, *(delta for c in found for _, delta in c["deltas"])], most_ticks=6)

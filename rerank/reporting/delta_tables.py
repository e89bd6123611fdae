"""Tables of paired deltas: all challengers, the slices of one, its queries and its measures."""

from __future__ import annotations

from rerank.reporting.charts import Scale, axis, interval_row, scale_of
from rerank.reporting.schema import Comparison, QueryDelta, Report, SliceDelta
from rerank.reporting.selection import reading_of
from rerank.reporting.table import Cell, Column, Row, Table, row
from rerank.reporting.visible import clipped
from rerank.reporting.wording import (
    MISSING,
    READINGS,
    bounds,
    confidence_name,
    count,
    interval_text,
    number,
    p_text,
    signed,
)

TOO_FEW = "too few queries"


def overview_table(report: Report) -> Table:
    """All challengers on one scale around 0, for the primary measure."""
    suite = report["suite"]
    found = [c for c in report["comparisons"] if c["measure"] == suite["primary"]]
    ends = [end for entry in found for end in bounds(entry["interval"]) or ()]
    means = [mean for entry in found if (mean := entry["delta"]["mean"]) is not None]
    scale = scale_of([0.0, *ends, *means])
    columns = (
        Column("Challenger"),
        Column("Task"),
        Column("n", "number"),
        Column("Delta plot", "picture", axis(scale, delta=True)),
        Column(f"Mean delta, {suite['primary']}", "number"),
        Column(confidence_name(suite["confidence"]), "number"),
        Column("Corrected p", "number"),
        Column("Up / tied / down", "number"),
        Column("Reading"),
    )
    return Table(columns, [_overview_row(report, entry, scale) for entry in found])


def _overview_row(report: Report, entry: Comparison, scale: Scale) -> Row:
    reading = reading_of(report, entry)
    text = interval_text(entry["interval"], delta=True)
    picture = interval_row(
        scale,
        entry["delta"]["mean"],
        entry["interval"],
        tone=reading,
        reference=0.0,
        label=f"{entry['challenger']}: {signed(entry['delta']['mean'])} {text}",
    )
    return row(
        entry["challenger"],
        entry["task"],
        count(entry["n"]),
        Cell(picture=picture),
        Cell(signed(entry["delta"]["mean"]), tone=reading),
        text,
        _p_cell(entry),
        _counts(entry),
        Cell(READINGS[reading], tone=reading),
    )


def _counts(entry: Comparison | SliceDelta) -> str:
    return f"{entry['improved']:,} / {entry['tied']:,} / {entry['regressed']:,}"


def _p_cell(entry: Comparison | SliceDelta) -> Cell:
    """The corrected p-value, and smaller the one before correction where it differs."""
    raw, corrected = entry.get("p_value"), entry.get("corrected_p")
    if raw is None or corrected is None:
        return Cell(MISSING)
    before = "" if p_text(raw) == p_text(corrected) else f"before {p_text(raw)}"
    return Cell(p_text(corrected), note=before)


def forest_table(report: Report, main: Comparison) -> Table:
    """The whole task, then its slices: mean delta and interval on one scale around 0."""
    whole: SliceDelta = {
        "attribute": "",
        "value": "",
        "n": main["n"],
        "mean": main["delta"]["mean"],
        "interval": main["interval"],
        "improved": main["improved"],
        "tied": main["tied"],
        "regressed": main["regressed"],
        "p_value": main.get("p_value"),
        "corrected_p": main.get("corrected_p"),
        "small": False,
    }
    entries = [whole, *main["slices"]]
    scale = _forest_scale(entries)
    columns = (
        Column("Slice"),
        Column("n", "number"),
        Column("Delta plot", "picture", axis(scale, delta=True)),
        Column("Mean delta", "number"),
        Column(confidence_name(report["suite"]["confidence"]), "number"),
        Column("Corrected p", "number"),
        Column("Up / tied / down", "number"),
        Column("Reading"),
    )
    return Table(columns, [_forest_row(report, entry, scale) for entry in entries])


def _forest_scale(entries: list[SliceDelta]) -> Scale:
    """Holds 0 and the intervals of all slices that are not small; those may leave the plot."""
    kept = [entry for entry in entries if not entry["small"]]
    ends = [end for entry in kept for end in bounds(entry["interval"]) or ()]
    return scale_of(
        [0.0, *ends, *(entry["mean"] for entry in entries if entry["mean"] is not None)]
    )


def _forest_row(report: Report, entry: SliceDelta, scale: Scale) -> Row:
    whole = not entry["attribute"]
    name = "whole task" if whole else f"{entry['attribute']}={entry['value']}"
    small = entry["small"]
    reading = reading_of(report, entry)
    text = interval_text(entry["interval"], delta=True)
    picture = interval_row(
        scale,
        entry["mean"],
        entry["interval"],
        tone=reading,
        reference=0.0,
        label=f"{name}: {signed(entry['mean'])} {text}",
    )
    return row(
        Cell(name, strong=whole),
        count(entry["n"]),
        Cell(picture=picture),
        Cell(signed(entry["mean"]), tone=reading),
        text,
        _p_cell(entry),
        _counts(entry),
        Cell(TOO_FEW if small else READINGS[reading], tone=reading),
        tone="small" if small else "",
    )


def queries_table(main: Comparison, queries: list[QueryDelta]) -> Table:
    columns = (
        Column("Query", "prose"),
        Column("Id", "code"),
        Column(main["baseline"], "number"),
        Column(main["challenger"], "number"),
        Column("Delta", "number"),
    )
    rows = [
        row(
            clipped(entry["query"]),
            clipped(entry["query_id"], 60),
            number(entry["baseline"]),
            number(entry["challenger"]),
            Cell(signed(entry["delta"]), tone="worse" if entry["delta"] < 0 else "better"),
        )
        for entry in queries
    ]
    return Table(columns, rows)


def measures_table(report: Report, challenger: str, task: str) -> Table:
    found = [c for c in report["comparisons"] if (c["challenger"], c["task"]) == (challenger, task)]
    columns = (
        Column("Measure"),
        Column("n", "number"),
        Column("Mean delta", "number"),
        Column(confidence_name(report["suite"]["confidence"]), "number"),
        Column("Median", "number"),
        Column("Corrected p", "number"),
        Column("Up / tied / down", "number"),
        Column("Reading"),
    )
    return Table(columns, [_measure_row(report, entry) for entry in found])


def _measure_row(report: Report, entry: Comparison) -> Row:
    reading = reading_of(report, entry)
    return row(
        entry["measure"],
        count(entry["n"]),
        Cell(signed(entry["delta"]["mean"]), tone=reading),
        interval_text(entry["interval"], delta=True),
        signed(entry["delta"]["median"]),
        _p_cell(entry),
        _counts(entry),
        Cell(READINGS[reading], tone=reading),
    )

"""What `rerank measure` found, in the report: batch-size curves, latency, and the conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerank.reporting.markup import Content, Markup, details, element, paragraph
from rerank.reporting.scatter import Dot, scatter
from rerank.reporting.table import Cell, Column, Row, Table, html_table
from rerank.reporting.wording import MISSING, share

Record = dict[str, Any]


def name_of(record: Record) -> str:
    label = " (served: network and rate limit included)" if record["served"] else ""
    return f"Measured: {record['model']} on {record['task']}{label}"


def measured_html(record: Record) -> list[Content]:
    parts: list[Content] = [
        element("h3", name_of(record)),
        paragraph(conditions_line(record), class_="fine"),
    ]
    for label, curve in curves_of(record):
        shown = details(f"Batch sizes{label}", html_table(curve_table(curve)))
        parts += [element("figure", curve_picture(curve, f"pairs/s{label}")), shown]
    if record["latency"]:
        parts.append(html_table(latency_table(record)))
    return parts


def curves_of(record: Record) -> list[tuple[str, Record]]:
    throughput = record["throughput"]
    if throughput is None:
        return []
    named = (("", throughput["whole"]), (", shared beginnings", throughput["shared"]))
    return [(label, curve) for label, curve in named if curve is not None]


def curve_picture(curve: Record, name: str) -> Markup:
    """Pairs a second at every batch size, the fastest filled."""
    best = curve["best"]["batch_size"]
    dots = [
        Dot(
            x=point["batch_size"],
            y=point["pairs_per_second"],
            interval=None,
            label=_rate(point["pairs_per_second"]),
            says=f"batch size {point['batch_size']}: {point['pairs_per_second']:,.1f} pairs/s",
            joined=True,
            tone="" if point["batch_size"] == best else "hollow",
        )
        for point in curve["points"]
    ]
    label = f"{name} at {len(dots)} batch sizes, fastest at {best}"
    sizes = [dot.x for dot in dots]
    return scatter(dots, x_name="batch size", y_name=name, label=label, ticks=sizes, from_zero=True)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def curve_table(curve: Record) -> Table:
    columns = (
        *(Column("Batch size", "number"), Column("Pairs/s", "number")),
        *(Column("Tokens/s", "number"), Column("Padding", "number")),
        *(Column("TFLOP/s", "number"), Column("Share of peak", "number")),
        Column("Peak memory, GiB", "number"),
    )
    return Table(columns, [_curve_row(point) for point in curve["points"]], compact=True)


def _curve_row(point: Record) -> Row:
    rate, memory = point["flop_per_second"], point["peak_memory"]
    return Row(
        (
            f"{point['batch_size']}",
            f"{point['pairs_per_second']:,.1f}",
            f"{point['tokens_per_second']:,.0f}",
            share(point["padding_share"]),
            MISSING if rate is None else f"{rate / 1e12:,.3f}",
            share(point["share_of_peak"]),
            MISSING if memory is None else f"{memory / 2**30:.2f}",
        )
    )


def latency_table(record: Record) -> Table:
    """A row a load: percentiles in milliseconds, and what the time was spent on."""
    columns = (
        Column("Load"),
        *(Column(f"{name}, ms", "number") for name in ("p50", "p95", "p99")),
        Column("Requests/s", "number"),
        Column("Time spent on", "prose"),
        *(Column("Timeouts", "number"), Column("Retries", "number"), Column("n", "number")),
        Column("Cost of 1,000", "number"),
    )
    return Table(columns, [_latency_row(found) for found in record["latency"]])


def _latency_row(found: Record) -> Row:
    parts = sorted(found["parts"].items(), key=lambda part: -part[1]["share"])
    spent = ", ".join(f"{name} {part['share']:.0%}" for name, part in parts if part["share"])
    cost = found["cost_per_1000"]
    levels: Sequence[Cell] = [_milliseconds(found["latency"].get(p)) for p in ("p50", "p95", "p99")]
    lost = found["unanswered"]
    note = f"{lost:,} without an answer, not in the percentiles" if lost else ""
    return Row(
        (
            Cell(found["name"], note=note),
            *levels,
            f"{found['requests_per_second']:,.2f}",
            spent,
            *(f"{found[name]:,}" for name in ("timeouts", "retries", "n")),
            MISSING if cost is None else f"{cost:,.4f}",
        )
    )


def _milliseconds(level: Record | None) -> Cell:
    if level is None:
        return Cell(MISSING)
    high = "?" if level["high"] is None else f"{1000 * level['high']:,.1f}"
    note = "" if level["low"] is None else f"{1000 * level['low']:,.1f}–{high}"
    return Cell(f"{1000 * level['value']:,.1f}", note=note)


def conditions_line(record: Record) -> str:
    """What the figures were measured with, in one paragraph."""
    found = record["conditions"]
    machine, depth, tokens = found["machine"], found["candidate_depth"], found["input_tokens"]
    where = machine.get("gpu") or f"{machine['cpu']}, {machine['threads']} thread(s)"
    parts = [where]
    if machine.get("gpu"):
        memory = machine["gpu_memory"] / 2**30
        parts.append(f"{memory:.0f} GiB, driver {machine['driver']}, CUDA {machine['cuda']}")
    parts += [
        f"torch {machine['torch']}",
        f"{found['dtype']}, attention {found['kernels']['attention']}",
        f"quantisation {found['quantisation']}",
        f"weights {found['revision']}",
        f"{depth['mean']:.4g} candidates a request ({depth['most']} at most)",
    ]
    if tokens:
        parts.append(f"tokens of an input p50 {tokens['p50']:.0f}, p95 {tokens['p95']:.0f}")
    if record["batcher"] and record["latency"]:
        batcher = record["batcher"]
        parts.append(
            f"batcher up to {batcher['max_batch_tokens']:,} tokens or "
            f"{1000 * batcher['max_wait']:g} ms"
        )
    if record["latency"]:
        load = record["latency"][0]["load"]
        parts.append(f"{load['warm_up']:,} requests warm up, {load['requests']:,} measured")
    shared = found["other_load"]["shared"]
    parts.append(f"the machine was shared: {'; '.join(shared)}" if shared else "no other load seen")
    return f"{'. '.join([', '.join(parts)])}."

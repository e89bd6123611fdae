"""`rerank measures`: every measure with parameters, one line and source; then the presets."""

from __future__ import annotations

import argparse

from jobs.console import say
from metrics import METRICS, Metric
from metrics.peers import PEERS

CUTOFF = {"required": "@k", "optional": "[@k]", "none": ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "a measure's name holds its parameters: nDCG(gain=exp2)@10, P(rel=2)@5. The first of "
        "several choices is the default; --rel and --gains count where the name does not say."
    )


def run(arguments: argparse.Namespace) -> int:
    rows = {
        signature(name, row): f"{row.description} ({row.source})" for name, row in METRICS.items()
    }
    say(_list(rows))
    say("\nrerank score-run --compat")
    say(_list({f"  {name}": row.source for name, row in PEERS.items()}))
    return 0


def signature(name: str, metric: Metric) -> str:
    """`AP(rel=1, denominator=R|min(k,R))[@k]`: what may be written, brackets where optional."""
    inside = ", ".join(
        f"{key}={row.shape.split(', ')[0] if '|' in row.shape else row.default}"
        for key, row in metric.parameters.items()
    )
    if metric.function is None:
        inside = "MEASURE"
    return f"{name}({inside}){CUTOFF[metric.cutoff]}" if inside else name + CUTOFF[metric.cutoff]


def _list(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())

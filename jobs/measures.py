"""`rerank measures`: every measure with its name, parameters and one line."""

from __future__ import annotations

import argparse

from jobs.console import say
from jobs.tables import table
from metrics import METRICS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "a measure's name holds its parameters: nDCG(gain=exp2)@10, P(rel=2)@5"


def run(arguments: argparse.Namespace) -> int:
    say(
        table(["measure", "what it is"], [[name, row.description] for name, row in METRICS.items()])
    )
    return 0

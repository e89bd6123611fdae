"""The words that every verb of a suite takes: the suite's file and `key=value` overrides."""

from __future__ import annotations

import argparse
from dataclasses import fields

from jobs.config import Suite, load_suite
from rerank.store import Store
from rerank.suite.suites import SuiteSpec


def add_suite_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", help="YAML file of the suite, e.g. configs/suites/demo.yaml")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="replace keys of the suite, values as YAML: models=[overlap] workers=2 store=/data. "
        "Keys: " + ", ".join(field.name for field in fields(SuiteSpec)),
    )


def suite_of(arguments: argparse.Namespace) -> tuple[Suite, Store]:
    """The loaded suite and its store."""
    suite = load_suite(arguments.suite, arguments.overrides)
    return suite, Store(suite.spec.store)

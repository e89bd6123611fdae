"""`rerank models`: the models of the configs folder, and the kinds of model there are."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from jobs.config import load_model
from jobs.console import say
from rerank.errors import ConfigError
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configs", default="configs", help="the configs folder")


def run(arguments: argparse.Namespace) -> int:
    root = Path(arguments.configs)
    files = sorted((root / "models").glob("*.yaml"))
    if not files:
        raise ConfigError(f"no model file in {root}/models; run in the checkout or give --configs")
    for file in files:
        try:
            model = load_model(root, file.stem)
        except ConfigError as error:
            say(f"{file.stem}: {error}")
            continue
        say(f"{model.name}: {model.adapter}; {model.description or 'no description'}")
    say(
        "\nkeys of every model: "
        + ", ".join(f.name for f in fields(ModelSpec) if f.name != "params")
    )
    say("adapters and their own keys:")
    for name, adapter in ADAPTERS.items():
        keys = ", ".join(field.name for field in fields(adapter.params)) or "none"
        say(f"  {name}: {adapter.description} Keys: {keys}.")
    return 0

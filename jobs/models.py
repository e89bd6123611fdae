"""`rerank models`: the models of the configs folder, one line each, and the kinds there are."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from jobs.config import load_model
from jobs.console import say
from rerank.errors import ConfigError
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec

SHOWN = (
    *("name", "description", "adapter", "weights", "weights_from", "revision", "licence"),
    *("recipe", "parameters", "max_length", "dtype", "trust_code"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configs", default="configs", help="the configs folder")
    parser.add_argument(
        "--json", action="store_true", help="a JSON list, one object a model, and nothing else"
    )


def run(arguments: argparse.Namespace) -> int:
    root = Path(arguments.configs)
    files = sorted((root / "models").glob("*.yaml"), key=lambda file: file.stem)
    if not files:
        raise ConfigError(f"no model file in {root}/models; run in the checkout or give --configs")
    models = [(file.stem, _loaded(root, file.stem)) for file in files]
    if arguments.json:
        say(json.dumps([_facts(*row) for row in models], ensure_ascii=False, indent=1))
        return 0
    for name, model in models:
        say(_line(model) if isinstance(model, ModelSpec) else f"{name}: {model}")
    say(
        "\nkeys of every model: "
        + ", ".join(f.name for f in fields(ModelSpec) if f.name != "params")
    )
    say("adapters and their own keys:")
    for kind, adapter in ADAPTERS.items():
        keys = ", ".join(field.name for field in fields(adapter.params)) or "none"
        say(f"  {kind}: {adapter.description} Keys: {keys}.")
    return 0


def _loaded(root: Path, name: str) -> ModelSpec | ConfigError:
    """The model, or why its file cannot be read on this machine."""
    try:
        return load_model(root, name)
    except ConfigError as error:
        return error


def _facts(name: str, model: ModelSpec | ConfigError) -> dict[str, Any]:
    if not isinstance(model, ModelSpec):
        return {"name": name, "error": str(model)}
    return {key: getattr(model, key) for key in SHOWN}


def _line(model: ModelSpec) -> str:
    size = "" if model.parameters is None else f"; {model.parameters:g}B parameters"
    recipe = "" if model.recipe == "verified" else "; recipe unverified"
    return f"{model.name}: {model.adapter}; {model.description or 'no description'}{size}{recipe}"

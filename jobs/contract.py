"""`rerank contract MODEL [MODEL]`: what a model reads of a pair; where two recipes differ."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from jobs.config import load_model
from jobs.console import say
from jobs.tables import table
from rerank.errors import ConfigError, InputError
from rerank.models.adapters import input_contract
from rerank.models.contract import PROBE_PAIRS, Contract, Reading, differences
from rerank.reporting.visible import visible

WIDTH = 100  # characters of a value in a table
SHOWN = 400  # token ids that are listed; the middle of a longer input is left out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="one or two model names")
    parser.add_argument("--configs", default="configs", help="the configs folder")
    parser.add_argument("--query", default=PROBE_PAIRS[1][0], help="the query of the pair")
    parser.add_argument("--document", default=PROBE_PAIRS[1][1], help="the document of the pair")
    parser.add_argument("--document-file", help="read the document from this UTF-8 file instead")
    parser.epilog = "with two models: exit code 0 if both read pairs alike, 1 if not"


def run(arguments: argparse.Namespace) -> int:
    if len(arguments.models) > 2:
        raise ConfigError("name one model, or two to compare")
    contracts = [
        input_contract(load_model(Path(arguments.configs), name)) for name in arguments.models
    ]
    if len(contracts) == 2:
        return compare(arguments.models, contracts)
    document = arguments.document
    if arguments.document_file:
        document = _text_of(Path(arguments.document_file))
    show(arguments.models[0], contracts[0], arguments.query, document)
    return 0


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason} at byte {error.start})") from error


def show(name: str, contract: Contract, query: str, document: str) -> None:
    """The recipe, the ids and text of one pair, and what a longer pair would lose."""
    say(f"{name}: what decides its input")
    say(
        table(["setting", "value"], [[key, _short(value)] for key, value in contract.facts.items()])
    )
    reading = contract.read(query, document)
    if reading.refusal:
        say(f"\nthis pair is refused: {reading.refusal}")
    for part in reading.sequences:
        say(f"\n{part.name}: {len(part.ids)} tokens")
        say(table(["id", "token"], _rows(part.ids, part.tokens)))
        say(f"as text: {visible(part.text)}")
    say("\nwhat is cut")
    say(table(["pair", "what", "tokens", "kept", "why"], _cuts("this pair", reading)))
    for (long_query, long_document), label in zip(
        PROBE_PAIRS[-2:], ("document", "query"), strict=True
    ):
        say(
            table(
                [f"an endless {label}", "what", "tokens", "kept", "why"],
                _cuts("", contract.read(long_query, long_document)),
            )
        )


def compare(names: list[str], contracts: list[Contract]) -> int:
    """Every difference of two recipes; 1 if there is one."""
    found = differences(*contracts)
    if not found:
        say(f"{names[0]} and {names[1]} read pairs alike")
        return 0
    rows = [[item.what, _short(item.first), _short(item.second)] for item in found]
    say(table(["what", *names], rows))
    say(f"{len(found)} differences")
    return 1


def _rows(ids: tuple[int, ...], tokens: tuple[str, ...]) -> list[list[str]]:
    rows = [[str(number), visible(token)] for number, token in zip(ids, tokens, strict=True)]
    if len(rows) <= SHOWN:
        return rows
    half = SHOWN // 2
    return [*rows[:half], ["…", f"{len(rows) - 2 * half} tokens more"], *rows[-half:]]


def _cuts(label: str, reading: Reading) -> list[list[str]]:
    if reading.refusal:
        return [[label, "refused", "", "", reading.refusal]]
    if not reading.cuts:
        return [[label, "nothing", "", "", ""]]
    return [[label, cut.text, str(cut.tokens), str(cut.kept), cut.why] for cut in reading.cuts]


def _short(value: Any) -> str:
    text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"

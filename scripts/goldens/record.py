"""What a golden file states, and how its rows are taken off a reference as it runs.

A golden file: `versions` of what ran, the `standin` with its digests, `settings` of the reference,
and `rows` of name, query, document, the token `ids` that the model was fed (unpadded) and `score`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.standins.rows import ROWS

COMMON = ("torch", "transformers", "tokenizers")

Score = Callable[[str, str], float]


def sha256_file(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def weights_digest(folder: Path) -> str:
    """Hex digest of a stand-in's tensors: names, shapes and values, whatever the file's header."""
    from safetensors.numpy import load_file

    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(folder / "model.safetensors").items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def describe(kind: str, folder: Path) -> dict[str, str]:
    """The stand-in that a golden file was taken with."""
    return {
        "kind": kind,
        "weights_sha256": weights_digest(folder),
        "tokenizer_sha256": sha256_file(folder / "tokenizer.json"),
    }


class Fed:
    """The token ids that a module was called with last: one list for each row, without padding.

    `module` takes input_ids and attention_mask by name, or a dict of features that has both.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.ids: list[list[int]] = []
        module.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, _: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        features = named or positional[0]
        rows = zip(features["input_ids"], features["attention_mask"], strict=True)
        self.ids = [ids[mask.bool()].tolist() for ids, mask in rows]


def take(fed: Fed, score: Score) -> list[dict[str, Any]]:
    """Score every row by itself, and note what the model was fed for it."""
    rows = []
    for name, query, document in ROWS:
        value = float(score(query, document))
        (ids,) = fed.ids
        rows.append(
            {
                "name": name,
                "query": query,
                "document": document,
                "ids": ids,
                "score": float(f"{value:.9g}"),  # nine digits are an fp32 number exactly
            }
        )
    return rows


def write(
    path: Path,
    standin: dict[str, str],
    settings: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    packages: Sequence[str] = (),
    padded: float | None = None,
) -> None:
    """A golden file: a line for each row.

    padded: largest change of a score when all rows share one left-padded batch, where it was run.
    """
    versions = {name: importlib.metadata.version(name) for name in (*COMMON, *packages)}
    head: dict[str, Any] = {
        "versions": {"python": platform.python_version(), **versions},
        "standin": standin,
        "settings": settings,
    }
    if padded is not None:
        head["left_padded_difference"] = float(f"{padded:.1e}")
    text = json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f'{text},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    print(f"{path.name}: {len(rows)} rows", flush=True)


def arguments(*files: str) -> argparse.Namespace:
    """--standins and --out, and the authors' files that a generator needs."""
    parser = argparse.ArgumentParser()
    for name in ("--standins", "--out", *files):
        parser.add_argument(name, type=Path, required=True)
    return parser.parse_args()

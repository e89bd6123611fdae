"""Golden ids and scores of encoder-decoder rerankers, from mteb's own code on tiny stand-ins.

Run from the repository's root, in an environment that has the reference:
    pip install torch==2.13.0 transformers==5.24.0 mteb==2.26.24
    PYTHONPATH=. python scripts/goldens/encoder_decoder.py

Writes tests/golden/encoder_decoder.json; `--check` compares with it instead. What the reference fed
its model and what came out is taken by forward hooks. Its one correction is written under `notes`.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from mteb.models.model_implementations.kalm_reranker import KaLMRerankerWrapper
from mteb.models.model_implementations.rerankers_monot5_based import MonoT5Reranker
from torch.utils.data import DataLoader

from tests.standins.encoder_decoders import LENGTH, ROWS, build, digest

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "encoder_decoder.json"
QUERY_CAP = 18  # cuts the emoji row inside a character of four bytes
Rows = Sequence[tuple[str, str]]


class Recorder:
    """Keeps what a model reads and its logits at the last real decoder token, call by call."""

    def __init__(self, model: Any) -> None:
        self.encoder: list[list[int]] = []
        self.decoder: list[list[int]] = []
        self.logits: list[torch.Tensor] = []
        model.get_encoder().register_forward_hook(self.read, with_kwargs=True)
        model.register_forward_hook(self.answered, with_kwargs=True)

    def read(self, module: Any, args: Any, inputs: dict[str, Any], output: Any) -> None:
        self.encoder += real(inputs["input_ids"], inputs["attention_mask"])

    def answered(self, module: Any, args: Any, inputs: dict[str, Any], output: Any) -> None:
        ids = inputs["decoder_input_ids"]
        mask = inputs.get("decoder_attention_mask")
        mask = torch.ones_like(ids) if mask is None else mask
        self.decoder += real(ids, mask)
        self.logits += output.logits[torch.arange(len(ids)), mask.sum(1) - 1]


def real(ids: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    return [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]


def case(
    standin: str,
    folder: Path,
    recorder: Recorder,
    labels: tuple[int, int],
    predict: Callable[[Rows], Sequence[float]],
) -> dict[str, Any]:
    """One row at a time, so that no padding is involved."""
    probabilities = [float(predict([row])[0]) for row in ROWS]
    margins = [float(logits[labels[0]] - logits[labels[1]]) for logits in recorder.logits]
    for margin, probability in zip(margins, probabilities, strict=True):
        assert abs(torch.sigmoid(torch.tensor(margin)).item() - probability) < 1e-6
    return {
        "standin": standin,
        "digest": digest(folder),
        "label_ids": list(labels),
        "encoder_ids": list(recorder.encoder),
        "decoder_ids": list(recorder.decoder),
        "margins": margins,
        "probabilities": probabilities,
    }


def moved(predict: Callable[[Rows], Sequence[float]], alone: Sequence[float]) -> float:
    """How far one batch of all rows moves the probabilities."""
    together = predict(ROWS)
    return max(abs(one - other) for one, other in zip(together, alone, strict=True))


def kalm(folder: Path, chunk: int | None) -> dict[str, Any]:
    settings = {"max_length": LENGTH, "query_max_length": QUERY_CAP, "chunk_size": chunk}
    model = KaLMRerankerWrapper(str(folder), device="cpu", dtype="float32", **settings)
    padding = model.tokenizer.padding_side
    model.tokenizer.padding_side = "right"

    def predict(rows: Rows) -> Sequence[float]:
        return model._predict_batch(rows, [model.instruction] * len(rows))

    labels = (model.yes_token_id, model.no_token_id)
    found = case("t5gemma2", folder, Recorder(model.model), labels, predict)
    right = moved(predict, found["probabilities"])
    model.tokenizer.padding_side = padding
    left = moved(predict, found["probabilities"])
    assert right < 1e-5 < left
    return {
        "settings": settings,
        "notes": [
            f"mteb leaves the tokenizer's padding side, here {padding}, though it reads the last "
            "decoder token by the mask's sum; this golden sets it to right, as the second release "
            f"of the authors' own code does. On the {padding} one batch of all rows moves a "
            f"probability by up to {left:.3f}, on the right by less than 1e-5."
        ],
        **found,
    }


def monot5(folder: Path) -> dict[str, Any]:
    model = MonoT5Reranker(str(folder), token_false="▁false", token_true="▁true")

    def predict(rows: Rows) -> Sequence[float]:
        queries = Dataset.from_dict({"query": [query for query, _ in rows]})
        documents = Dataset.from_dict({"text": [text for _, text in rows]})
        return model.predict(
            DataLoader(queries, batch_size=len(rows)),
            DataLoader(documents, batch_size=len(rows)),
            task_metadata=None,
            hf_split="test",
            hf_subset="default",
        )

    labels = (model.token_true_id, model.token_false_id)
    found = case("t5", folder, Recorder(model.model), labels, predict)
    assert moved(predict, found["probabilities"]) < 1e-5
    return {
        "settings": {"max_length": model.max_length},
        "notes": [
            "mteb cuts the whole prompt at its end, so long rows lose ' Relevant:', and those with "
            "a long query their document; followed with `truncation: end`."
        ],
        **found,
    }


def golden() -> dict[str, Any]:
    """All cases, and what they were made with."""
    with tempfile.TemporaryDirectory() as folder:
        gemma = build("t5gemma2", Path(folder) / "t5gemma2")
        cases = {
            "kalm": kalm(gemma, 4),
            "kalm_unpooled": kalm(gemma, None),
            "monot5": monot5(build("t5", Path(folder) / "t5")),
        }
    packages = ("mteb", "transformers", "tokenizers", "torch", "numpy")
    versions = {name: version(name) for name in packages} | {"python": platform.python_version()}
    return {
        "made_by": "scripts/goldens/encoder_decoder.py",
        "versions": versions,
        "rows": [list(row) for row in ROWS],
        "cases": cases,
    }


def written(value: Any, depth: int = 0) -> str:
    """JSON with one line for each list that holds no list."""
    pad, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {written(held, depth + 1)}" for key, held in value.items()]
        return "{" + pad + ("," + pad).join(inner) + end + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[" + pad + ("," + pad).join(written(held, depth + 1) for held in value) + end + "]"
    return json.dumps(value, ensure_ascii=False)


def compare(found: dict[str, Any], known: dict[str, Any]) -> None:
    """AssertionError where a new golden differs from the one that is kept."""
    numbers = ("margins", "probabilities")
    assert found["rows"] == known["rows"]
    for name, new in found["cases"].items():
        old = known["cases"][name]
        for key in new:
            if key not in (*numbers, "notes"):
                assert new[key] == old[key], f"{name}: {key}"
        for key in numbers:
            apart = max(abs(a - b) for a, b in zip(new[key], old[key], strict=True))
            print(f"{name} {key}: within {apart:.1e}")
            assert apart < 1e-5


def main() -> None:
    found = golden()
    if "--check" in sys.argv[1:]:
        compare(found, json.loads(GOLDEN.read_text(encoding="utf-8")))
    else:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(written(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

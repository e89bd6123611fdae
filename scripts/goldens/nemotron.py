"""NVIDIA's LlamaBidirectionalForSequenceClassification: llama-nemotron-rerank-1b-v2.

The class comes from the file given: nemo_automodel/components/models/llama_bidirectional/model.py
of NVIDIA-NeMo/Automodel, or llama_bidirectional_model.py of the model's own repository. Tokenised
as the model card does: one string, the tokenizer's one beginning token, cut at the right end.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from scripts.goldens.record import Fed, arguments, describe, sha256_file, take, write

MAX_LENGTH = 128


def authors_module(path: Path) -> Any:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location("llama_bidirectional", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    given = arguments("--nemotron-model")
    folder = given.standins / "llama"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    authors = authors_module(given.nemotron_model).LlamaBidirectionalForSequenceClassification
    model, report = authors.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    model.eval()
    fed = Fed(model)

    def score_all(pairs: list[tuple[str, str]]) -> torch.Tensor:
        """Logits, shape (pairs,)."""
        texts = [f"question:{query} \n \n passage:{passage}" for query, passage in pairs]
        inputs = tokenizer(
            texts, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt"
        )
        with torch.no_grad():
            return model(**inputs).logits.view(-1)

    rows = take(fed, lambda query, document: score_all([(query, document)]).item())
    together = score_all([(row["query"], row["document"]) for row in rows])
    padding = max(abs(row["score"] - s.item()) for row, s in zip(rows, together, strict=True))
    settings = {
        "reference": "LlamaBidirectionalForSequenceClassification.forward",
        "model_file_sha256": sha256_file(given.nemotron_model),
        "max_length": MAX_LENGTH,
        "pooling": model.config.pooling,
        "temperature": model.config.temperature,
    }
    write(given.out / "nemotron.json", describe("llama", folder), settings, rows, padded=padding)

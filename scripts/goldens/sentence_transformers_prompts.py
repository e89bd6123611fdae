"""sentence_transformers.CrossEncoder over a causal model, a chat template and LogitScore.

qwen3_st: the recipe of the Qwen3-Reranker and KURE-Reranker-base repositories. zerank: zerank-2.
lighton_pw: the layout of LightOn-rerank-PW, with a template of the stand-in's own.
Rows longer than max_length: the rendered text is cut at its end and the template's suffix is
written over the last tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore

from scripts.goldens.record import Fed, arguments, describe, take, write
from tests.standins.templates import CHAT_TEMPLATES, INSTRUCTION, ZERANK

MAX_LENGTH = 128
# golden file -> stand-in, chat template, true and false label, prompt
RECIPES: dict[str, tuple[str, str, str, str | None, str | None]] = {
    "qwen3_st": ("qwen3", CHAT_TEMPLATES["qwen3"], "yes", "no", INSTRUCTION),
    "zerank": ("qwen3", ZERANK, "Yes", None, None),
    "lighton_pw": ("qwen3_5", CHAT_TEMPLATES["qwen3_5"], "Yes", "No", None),
}


def cross_encoder(folder: Path, template: str, labels: list[str]) -> CrossEncoder:
    """A model object of its own for each template: a used one remembers its suffix."""
    transformer = Transformer(
        str(folder),
        transformer_task="text-generation",
        model_kwargs={"torch_dtype": torch.float32},
        processor_kwargs={"chat_template": template},
        modality_config={
            "text": {"method": "forward", "method_output_name": "logits"},
            "message": {"method": "forward", "method_output_name": "logits", "format": "flat"},
        },
        module_output_name="causal_logits",
        processing_kwargs={"chat_template": {"add_generation_prompt": True}},
        max_seq_length=MAX_LENGTH,
    )
    ids = transformer.tokenizer.convert_tokens_to_ids(labels)
    return CrossEncoder(
        modules=[transformer, LogitScore(*ids)],
        activation_fn=torch.nn.Identity(),
        device="cpu",
    )


def record(name: str, standins: Path, out: Path) -> None:
    """`predict` for every row, and the largest change when all rows share one padded batch."""
    kind, template, true, false, prompt = RECIPES[name]
    folder = standins / kind
    labels = [true] if false is None else [true, false]
    model = cross_encoder(folder, template, labels)
    fed = Fed(model[0])

    def predict(pairs: list[tuple[str, str]], batch_size: int) -> Any:
        return model.predict(pairs, batch_size=batch_size, prompt=prompt, show_progress_bar=False)

    rows = take(fed, lambda query, document: predict([(query, document)], 1)[0])
    together = predict([(row["query"], row["document"]) for row in rows], len(rows))
    padding = max(abs(row["score"] - float(s)) for row, s in zip(rows, together, strict=True))
    settings = {
        "reference": "sentence_transformers.CrossEncoder.predict: Transformer, LogitScore",
        "max_length": MAX_LENGTH,
        "labels": labels,
        "prompt": prompt,
        "chat_template": template,
    }
    write(
        out / f"{name}.json",
        describe(kind, folder),
        settings,
        rows,
        ["sentence-transformers"],
        padding,
    )


if __name__ == "__main__":
    given = arguments()
    for recipe in RECIPES:
        record(recipe, given.standins, given.out)

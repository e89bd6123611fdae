"""FlagEmbedding's rerankers: bge-reranker-v2-m3 and its fine-tunes, bge-reranker-v2-gemma."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from FlagEmbedding import FlagLLMReranker, FlagReranker

from scripts.goldens.record import Fed, arguments, describe, take, write

MAX_LENGTH = 128
SETTINGS = {"max_length": MAX_LENGTH, "use_fp16": False, "devices": ["cpu"], "batch_size": 1}
# golden file -> name of the class, the class, stand-in
RERANKERS = {
    "flag_reranker": ("FlagReranker", FlagReranker, "xlmr"),
    "flag_llm_reranker": ("FlagLLMReranker", FlagLLMReranker, "gemma"),
}


def record(name: str, standins: Path, out: Path) -> None:
    """`compute_score` of one class on its stand-in."""
    title, reranker, kind = RERANKERS[name]
    folder = standins / kind
    model: Any = reranker(str(folder), **SETTINGS)
    fed = Fed(model.model)
    rows = take(fed, lambda query, document: model.compute_score([(query, document)])[0])
    settings = {"reference": f"FlagEmbedding.{title}.compute_score", **SETTINGS}
    write(out / f"{name}.json", describe(kind, folder), settings, rows, ["FlagEmbedding"])


if __name__ == "__main__":
    given = arguments()
    for reranker_name in RERANKERS:
        record(reranker_name, given.standins, given.out)

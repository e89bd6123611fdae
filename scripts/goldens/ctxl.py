"""ContextualAI ctxl-rerank-v2: the logit of vocabulary id 0 after a prompt of one string.

The model card's steps, written with transformers: the prompt is tokenised whole with the
tokenizer's own special tokens (the 6b adds one <s>) and cut at its right end. Rows longer than
max_length therefore lose the query and " ??": they are here for the record, not to be matched.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from scripts.goldens.record import Fed, arguments, describe, take, write

MAX_LENGTH = 128
TASK = "Check whether a given document contains information helpful to answer the query."
INSTRUCTION = "Prefer the manual."
# golden file -> stand-in, instruction
RECIPES = {"ctxl": ("qwen3", None), "ctxl_6b": ("mistral", INSTRUCTION)}


def record(name: str, standins: Path, out: Path) -> None:
    """One prompt, one forward; the rows that were cut are named in the settings."""
    kind, instruction = RECIPES[name]
    folder = standins / kind
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    fed = Fed(model)

    def score(query: str, document: str) -> float:
        asked = query if instruction is None else f"{query} {instruction}"
        prompt = f"{TASK}\n<Document> {document}\n<Query> {asked} ??"
        inputs = tokenizer([prompt], truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
        with torch.no_grad():
            return model(**inputs).logits[0, -1, 0].item()

    rows = take(fed, score)
    cut = [row["name"] for row in rows if len(row["ids"]) == MAX_LENGTH]
    settings = {
        "reference": "steps of the model card: logits[:, -1, 0] of the whole prompt",
        "max_length": MAX_LENGTH,
        "instruction": instruction,
        "cut_at_the_right_end": cut,
    }
    write(out / f"{name}.json", describe(kind, folder), settings, rows)


if __name__ == "__main__":
    given = arguments()
    for recipe in RECIPES:
        record(recipe, given.standins, given.out)

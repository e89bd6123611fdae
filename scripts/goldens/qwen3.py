"""The functions of the README of QwenLM/Qwen3-Embedding, and the converted classifier.

The README is given as a file, and its own definitions run: everything of the code block that
defines `process_inputs`, but for the two lines that load the real model and the example at its end.
qwen3_seqcls has the same ids and its score from Qwen3ForSequenceClassification's own pooling.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import torch
import transformers

from scripts.goldens.record import Fed, arguments, describe, sha256_file, take, write

MAX_LENGTH = 128
CONSTANTS = {
    "token_false_id",
    "token_true_id",
    "max_length",
    "prefix",
    "suffix",
    "prefix_tokens",
    "suffix_tokens",
    "task",
}


def definitions(readme: Path) -> ast.Module:
    """Functions and constants of the README's transformers example for rerankers."""
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (text for text in blocks if "def process_inputs" in text and "vllm" not in text)
    kept = [
        node
        for node in ast.parse(block).body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in CONSTANTS)
    ]
    return ast.Module(body=kept, type_ignores=[])


def load(folder: Path, auto_class: str) -> tuple[Any, Any]:
    """Tokenizer and fp32 model as the README loads them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = getattr(transformers, auto_class).from_pretrained(folder, dtype=torch.float32)
    return tokenizer, model.eval()


def readme_namespace(readme: Path, folder: Path) -> dict[str, Any]:
    """The README's names, bound to the stand-in and to a short max_length."""
    tokenizer, model = load(folder, "AutoModelForCausalLM")
    space: dict[str, Any] = {"torch": torch, "tokenizer": tokenizer, "model": model}
    exec(compile(definitions(readme), str(readme), "exec"), space)
    space["max_length"] = MAX_LENGTH
    return space


def record_causal(space: dict[str, Any], folder: Path, out: Path, settings: dict[str, Any]) -> None:
    """l_yes - l_no at the last position; the README's own probability is its sigmoid."""
    fed = Fed(space["model"])
    last: list[torch.Tensor] = []
    space["model"].register_forward_hook(lambda *call: last.append(call[2].logits[0, -1]))
    yes, no = space["token_true_id"], space["token_false_id"]

    def score(query: str, document: str) -> float:
        text = space["format_instruction"](space["task"], query, document)
        (probability,) = space["compute_logits"](space["process_inputs"]([text]))
        margin = last[-1][yes] - last[-1][no]
        torch.testing.assert_close(margin.sigmoid().item(), probability, atol=1e-6, rtol=0)
        return margin.item()

    rows = take(fed, score)
    reference = "README.md of QwenLM/Qwen3-Embedding: process_inputs, compute_logits; l_yes - l_no"
    standin = describe("qwen3", folder)
    write(out / "qwen3.json", standin, {"reference": reference, **settings}, rows)


def record_classifier(
    space: dict[str, Any], folder: Path, out: Path, settings: dict[str, Any]
) -> None:
    """The single logit of the converted model on the README's inputs."""
    _, model = load(folder, "AutoModelForSequenceClassification")
    fed = Fed(model)

    def score(query: str, document: str) -> float:
        text = space["format_instruction"](space["task"], query, document)
        with torch.no_grad():
            return model(**space["process_inputs"]([text])).logits.item()

    rows = take(fed, score)
    reference = "Qwen3ForSequenceClassification on the inputs of process_inputs (see qwen3.json)"
    standin = describe("qwen3_seqcls", folder)
    write(out / "seqcls.json", standin, {"reference": reference, **settings}, rows)


if __name__ == "__main__":
    given = arguments("--qwen3-readme")
    names = readme_namespace(given.qwen3_readme, given.standins / "qwen3")
    stated = {
        "readme_sha256": sha256_file(given.qwen3_readme),
        "max_length": MAX_LENGTH,
        "instruction": names["task"],
    }
    record_causal(names, given.standins / "qwen3", given.out, stated)
    record_classifier(names, given.standins / "qwen3_seqcls", given.out, stated)

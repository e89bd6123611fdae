"""Golden prompts, orders and scores of listwise rerankers, from their authors' code on stand-ins.

Run from the repository's root, in an environment that has the references:
    pip install torch==2.13.0 transformers==5.24.0 mteb==2.26.24 ftfy==6.3.1 dacite
    pip install --no-deps rank_llm==0.25.7
    python -m scripts.goldens.listwise --jina-modeling FILE

FILE is a copy of modeling.py of jina-reranker-v3 with `JinaForRanking.rerank`; its digest is
written down, the file is not kept here. Writes tests/golden/listwise.json; `--check` compares with
it instead. Packages that rank_llm imports and does not use here (vLLM and API clients) are stood in
for by empty modules, and its language model by answers drawn from each prompt's digest.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from scripts.goldens.listwise_windows import LONG, NFD, digest_of, lighton, rank_llm
from tests.standins.listwise import build, digest, passages

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "listwise.json"
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "mteb", "rank_llm", "ftfy")

ODD = [
    "필터는 석 달마다 교체한다.",
    "",
    LONG,
    "a <|im_start|>system\nb <|endoftext|> <think> c </think><|embed_token|> d<|rerank_token|>",
    "水は東京の名物ではない。",
    "😀😀 reset 👩🏽‍🔧 🙂",
    NFD,
    "\nreplace\n\n\tthe  filter \n",
]
QUERIES = {
    "plain": "필터 교체 주기?",
    "long": LONG,
    "special": "<|rerank_token|>filter<|embed_token|> <|im_end|>\n",
    "nfd": NFD,
    "empty": "",
}


def jina_cases() -> list[dict[str, Any]]:
    """Query, documents, caps and capacity of each case; `block rule` counts 1, 124, 125, 126."""
    wide = {"max_query_length": 512, "max_document_length": 2048, "capacity": 131_072}
    tight = {"max_query_length": 24, "max_document_length": 40, "capacity": 131_072}
    cases = [
        {"name": f"{count} documents", "query": "plain", "documents": passages(count), **wide}
        for count in (1, 124, 125, 126)
    ]
    cases += [
        {"name": f"odd texts, {query} query", "query": query, "documents": ODD, **wide}
        for query in QUERIES
    ]
    cases += [
        {"name": f"odd texts cut, {query} query", "query": query, "documents": ODD, **tight}
        for query in QUERIES
    ]
    cases += [
        {
            "name": f"blocks by capacity {capacity}, {query} query",
            "query": query,
            "documents": [*ODD, *ODD],
            **tight,
            "capacity": capacity,
        }
        for query in ("plain", "long")
        for capacity in (150, 175, 200)
    ]
    return cases


def jina(modeling: Path, kind: str, folder: Path) -> list[dict[str, Any]]:
    """Prompts' ids and scores in the order of the documents, from `JinaForRanking.rerank`."""
    spec = importlib.util.spec_from_file_location("jina_modeling", modeling)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.JinaForRanking.from_pretrained(folder, dtype="float32").eval()
    model._ensure_tokenizer()
    for name, token in model.special_tokens.items():  # the real vocabulary's ids are literals
        setattr(model, f"{name}_id", model._tokenizer.convert_tokens_to_ids(token))
    prompts: list[list[int]] = []
    model.model.register_forward_pre_hook(
        lambda _, args, inputs: prompts.extend(inputs["input_ids"].tolist()), with_kwargs=True
    )
    found = []
    for case in jina_cases():
        prompts.clear()
        model._tokenizer.model_max_length = case["capacity"]
        results = model.rerank(
            QUERIES[case["query"]],
            case["documents"],
            max_doc_length=case["max_document_length"],
            max_query_length=case["max_query_length"],
        )
        scores = {int(result["index"]): float(result["relevance_score"]) for result in results}
        found.append(
            {
                "kind": kind,
                **case,
                "query": QUERIES[case["query"]],
                "lengths": [len(ids) for ids in prompts],
                "ids": prompts[0] if len(prompts[0]) < 300 else [],
                "ids_sha256": [digest_of(ids) for ids in prompts],
                "scores": [float(f"{scores[row]:.9g}") for row in range(len(scores))],
            }
        )
    return found


def record(modeling: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        kinds = ("jina", "jina_hybrid", "zephyr", "lighton")
        folders = {kind: build(kind, Path(place) / kind) for kind in kinds}
        return {
            "made_by": "scripts/goldens/listwise.py",
            "versions": {name: version(name) for name in PACKAGES}
            | {"python": platform.python_version()},
            "jina_modeling_sha256": hashlib.sha256(modeling.read_bytes()).hexdigest(),
            "standins": {kind: digest(folder) for kind, folder in folders.items()},
            "jina": [case for kind in kinds[:2] for case in jina(modeling, kind, folders[kind])],
            "rank_llm": rank_llm(folders["zephyr"]),
            **lighton(folders["lighton"]),
        }


def written(found: dict[str, Any]) -> str:
    """As JSON, a line for each case."""
    parts = []
    for name, value in found.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in value)
            text = f"[\n{rows}\n ]"
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jina-modeling", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    text = written(record(chosen.jina_modeling))
    if chosen.check:
        same = text == GOLDEN.read_text(encoding="utf-8")
        sys.exit(0 if same else f"{GOLDEN} differs from what the references give here")
    GOLDEN.write_text(text, encoding="utf-8")
    print(f"{GOLDEN.name}: {len(text)} characters")


if __name__ == "__main__":
    main()

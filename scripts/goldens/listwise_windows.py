"""What `listwise.py` takes from rank_llm and mteb: prompts, answers and orders of windows."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.standins.listwise import passages

UNUSED = (
    "vllm",
    "vllm.outputs",
    "rank_llm.rerank.listwise.rank_fid",  # does not import under transformers 5
    "openai",
    "dotenv",
    "tiktoken",
    "google",
    "google.genai",
    "google.genai.types",
)

LONG = "필터 교체 주기는 석 달이다. Replace the filter every three months. " * 8
NFD = "\u1112\u1161\u11ab\u1100\u1173\u11af 필터 cafe\u0301"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(ids: Sequence[int]) -> str:
    """Of the token ids of a prompt."""
    return sha(json.dumps(list(ids)))


TROUBLED = [
    "Quoted “curly” text and â€™ mojibake &amp; entities",
    "ｗｉｄｅ ①  text [3] and [12] as identifiers",
    "  spaces   and\ttabs\n\nlines  ",
    "",
    NFD,
    " ".join(f"word{number}" for number in range(40)),
    "필터 " * 30,
]


def answer(prompt: str, count: int) -> str:
    """An answer about `count` passages, well formed or not, drawn from the prompt's digest."""
    rng = random.Random(sha(prompt))
    order = rng.sample(range(1, count + 1), count)
    plain = " > ".join(f"[{rank}]" for rank in order)
    circled = [chr(0x2460 + rank - 1) if rank < 10 else str(rank) for rank in order]
    return rng.choice(
        [
            plain,
            plain,
            " ".join(map(str, order)),
            " > ".join(f"[{rank}]" for rank in order[: count // 2]),
            " > ".join(f"[{rank}]" for rank in [*order[:2], *order, 99, 0]),
            f"<think>[1] > [2]</think>\n\n{plain}",
            " ".join(circled),
            plain.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")),
            "I cannot rank these.",
            f"➊ {plain}",
            "",
        ]
    )


class FakeVllm:
    """Answers by digest; notes prompts, answers and the number of tokens asked for."""

    calls: list[dict[str, Any]] = []
    folder: Path

    def __init__(self, **_: Any) -> None:
        pass

    def get_tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.folder)

    def generate_output(
        self, prompts: Sequence[str], min_tokens: int, max_tokens: int, temperature: float
    ) -> list[Any]:
        assert temperature == 0.0
        answers = [answer(prompt, prompt.count("\n[")) for prompt in prompts]
        for prompt, text in zip(prompts, answers, strict=True):
            self.calls.append(
                {
                    "prompt": prompt,
                    "ids_sha256": digest_of(self.get_tokenizer().encode(prompt)),
                    "answer": text,
                    "min_tokens": min_tokens,
                    "max_tokens": max_tokens,
                }
            )
        return [
            SimpleNamespace(outputs=[SimpleNamespace(text=text, token_ids=[])]) for text in answers
        ]


def rank_llm_cases() -> list[dict[str, Any]]:
    cases = [
        {"template": "rank_zephyr", "documents": passages(count, seed=count), "context": 4096}
        for count in (1, 2, 9, 12, 20, 25, 40)
    ]
    cases += [
        {"template": template, "documents": [*TROUBLED, *TROUBLED], "context": context}
        for template in ("rank_zephyr", "rank_gpt")
        for context in (4096, 1000)
    ]
    long = [" ".join(f"word{n * 7}필터" for n in range(size)) for size in (60, 90, 75)]
    cases += [
        {"template": "rank_zephyr", "documents": long, "context": context}
        for context in (4096, 1400, 1200, 800)
    ]
    return cases


def rank_llm(folder: Path) -> list[dict[str, Any]]:
    """Prompts, answers and final orders of `RankListwiseOSLLM.rerank_batch`."""
    for name in UNUSED:
        sys.modules.setdefault(name, MagicMock())
    from rank_llm.data import Candidate, Query, Request
    from rank_llm.rerank.listwise import rank_listwise_os_llm

    FakeVllm.folder = folder
    rank_listwise_os_llm.VllmHandler = FakeVllm
    found = []
    for case in rank_llm_cases():
        FakeVllm.calls = []
        ranker = rank_listwise_os_llm.RankListwiseOSLLM(
            model=str(folder),
            context_size=case["context"],
            prompt_template_path=rank_listwise_os_llm.TEMPLATES
            / f"{case['template']}_template.yaml",
            device="cpu",
            variable_passages=True,
        )
        candidates = [
            Candidate(docid=str(row), score=-row, doc={"text": text})
            for row, text in enumerate(case["documents"])
        ]
        query = "필터 [1] 교체 “주기”?"
        request = Request(query=Query(text=query, qid="q"), candidates=candidates)
        (result,) = ranker.rerank_batch([request], top_k_retrieve=len(candidates))
        found.append(
            {
                **case,
                "query": query,
                "first_prompt": FakeVllm.calls[0]["prompt"] if len(found) in (1, 10) else "",
                "calls": [
                    {name: call[name] for name in call if name != "prompt"}
                    for call in FakeVllm.calls
                ],
                "order": [int(candidate.docid) for candidate in result.candidates],
            }
        )
    return found


class Processor:
    """A tokenizer where mteb's wrapper expects a multimodal processor."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.decode = tokenizer.decode

    def __call__(self, **inputs: Any) -> Any:
        return self.tokenizer(**inputs)


def wrapper(folder: Path, *, think: bool) -> Any:
    from mteb.models.model_implementations.lighton_rerank_models import (
        LightOnListwiseRerankerWrapper,
    )

    made = object.__new__(LightOnListwiseRerankerWrapper)
    made.device = "cpu"
    made.model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    made.processor = Processor(AutoTokenizer.from_pretrained(folder, padding_side="left"))
    made.use_think_block = think
    made.window_size, made.stride, made.max_new_tokens, made.max_length = 4, 2, 30, 2048
    made.parse_stats = {"calls": 0, "fallbacks": 0}
    return made


def strict_answer(prompt: str, count: int) -> str:
    rng = random.Random(sha(prompt))
    plain = " > ".join(f"[{rank}]" for rank in rng.sample(range(1, count + 1), count))
    return rng.choice(
        [plain, plain, f"Sure: {plain}.", plain.replace(" ", ""), plain[4:], plain.replace("[", "")]
    )


class Answering:
    """In place of a wrapper's `_generate`: answers by digest, and notes them."""

    def __init__(self, made: Any) -> None:
        self.processor = made.processor
        self.calls: list[dict[str, str]] = []

    def __call__(self, texts: Sequence[str], images: Any) -> list[str]:
        assert images is None
        answers = [strict_answer(text, text.count("]: ")) for text in texts]
        for ids, found in zip(self.processor(text=texts)["input_ids"], answers, strict=True):
            self.calls.append({"ids_sha256": digest_of(ids), "answer": found})
        return answers


def lighton(folder: Path) -> dict[str, Any]:
    """Orders of `_sliding_window_rank` under given answers, and what the model itself writes."""
    rankings = [
        ranking(wrapper(folder, think=think), passages(count, seed=count))
        for think in (False, True)
        for count in (1, 2, 3, 4, 5, 6, 7, 9)
    ]
    made = wrapper(folder, think=True)
    windows = [("필터 교체?", passages(4, seed)) for seed in range(3)]
    windows.append(("", ["", LONG, "[2]: x"]))
    prompts = [made._build_text_prompt(query, documents) for query, documents in windows]
    return {
        "lighton_rankings": rankings,
        "lighton_windows": [
            {
                "query": query,
                "documents": documents,
                "ids": made.processor(text=prompt)["input_ids"],
                "written": made._generate([prompt], None)[0],
            }
            for (query, documents), prompt in zip(windows, prompts, strict=True)
        ],
        "lighton_prompt": prompts[0],
        "lighton_together": made._generate(prompts, None),
    }


def ranking(made: Any, documents: list[str]) -> dict[str, Any]:
    """One query's order, and the windows that led to it."""
    query = "필터 교체?"
    made._generate = answering = Answering(made)
    (order,) = made._sliding_window_rank([query], [documents], False)
    return {
        "think": made.use_think_block,
        "query": query,
        "documents": documents,
        "calls": answering.calls,
        "order": order,
        "fallbacks": made.parse_stats["fallbacks"],
    }

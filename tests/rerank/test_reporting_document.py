"""A realistic report document, made up: 5 systems, 2 tasks, Korean, English and hostile text."""

from __future__ import annotations

import json
from typing import Any, NotRequired, get_origin, get_type_hints

import numpy as np
from scipy import stats

from rerank.reporting import schema
from rerank.reporting.schema import Report

BASELINE = "first_stage"
SKILL = {
    BASELINE: 0.0,
    "overlap": -0.09,
    "all-minilm-l6-v2": 0.01,
    "multilingual-e5-small-q4": 0.12,
    "bge-reranker-v2-m3": 0.14,
}
MEASURES = ["nDCG@10", "RR@10", "AP", "P@5", "R@5", "Success@1"]
SHAPES: dict[str, Any] = {
    "tasks": schema.Task,
    "systems": schema.System,
    "results": schema.Result,
    "diagnostics": schema.Diagnostics,
    "headroom": schema.Headroom,
    "slices": schema.SliceMean,
    "comparisons": schema.Comparison,
}
SLICES = {
    "language": ["ko", "en", "ko_en_code_switch"],
    "intent": ["exact_id", "troubleshooting", "temporal", "comparison", "multi_hop"],
    "failure": ["wrong_entity", "outdated", "contradiction"],
}
HOSTILE = [
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "a | b || c \\| d",
    "](http://evil.example) ![x](javascript:alert(1)) `code` **bold** # heading",
    "right to left \u202egnirts\u202c and \u2066isolated\u2069 مرحبا بالعالم",
    "NUL \x00 bell \x07 escape \x1b[31m line\nbreak\ttab \x85 next \u2028 separator",
    "lone surrogate \ud800 and </style></title></table>",
    "- [ ] 1. item\n# not a heading\n---\n| a | b |\n|---|---|",
    "가나다라마바사" * 400,
    "x" * 3000,
]
QUERIES = [
    "Orion S2에서 E-104 오류가 나면 어떻게 해야 하나요?",
    "How long is the warranty of the Orion S3 Pro in Korea?",
    "S1 펌웨어 3.2와 3.4의 차이점",
    "Orion S2 battery가 갑자기 꺼질 때 reset 방법",
    "환불 정책이 2024년 3월에 어떻게 바뀌었나요?",
    "Compare the charging time of S1 and S2",
]


def full_report() -> dict[str, Any]:
    """Everything there is, hostile text included."""
    random = np.random.default_rng(7)
    tasks = [("demo", 64), ("autorag-ko", 114)]
    values = {
        (task, system, measure): _values(random, n, SKILL[system])
        for task, n in tasks
        for system in SKILL
        for measure in MEASURES
    }
    return {
        "schema": 1,
        "suite": _suite("Orion support and AutoRAG-ko"),
        "convention": _convention(),
        "tasks": [_task("demo", 64, "synthetic"), _task("autorag-ko", 114, "human")],
        "systems": [_system(name, [task for task, _ in tasks]) for name in SKILL],
        "measures": MEASURES,
        "results": [_result(random, *key, found) for key, found in values.items()]
        + [_macro(random, values, system, measure) for system in SKILL for measure in MEASURES],
        "diagnostics": [_diagnostics(task, system, n) for task, n in tasks for system in SKILL],
        "headroom": [_headroom(task, system, values) for task, _ in tasks for system in SKILL],
        "slices": [
            _slice(random, task, system, attribute, value, values[task, system, "nDCG@10"])
            for task, _ in tasks
            for system in SKILL
            for attribute, names in SLICES.items()
            for value in names
        ],
        "comparisons": [
            _comparison(random, task, system, measure, values)
            for task, _ in tasks
            for system in SKILL
            if system != BASELINE
            for measure in MEASURES
        ],
        "macro_comparisons": [
            _macro_comparison(random, values, system, measure)
            for system in SKILL
            if system != BASELINE
            for measure in MEASURES
        ],
        "gate": _gate(),
        "environment": {
            "rows": [
                ["platform", "Linux-6.1 x86_64"],
                ["python", "3.11.7"],
                ["torch", "2.13.0"],
                ["bge-reranker-v2-m3 on demo", "device cuda:0 · NVIDIA H200 · <b>driver</b> | 570"],
            ]
        },
        "warnings": [
            "demo: 100% of the judgments are synthetic, made without people",
            "overlap on demo: 3 of 3,200 pairs have no score (2 queries) <script>",
        ],
    }


def minimal_report() -> dict[str, Any]:
    """One system, one task, no comparison, no interval, no value."""
    task = _task("tiny", 1, "human") | {
        "title": "",
        "grades": {},
        "provenance": {},
        "first_stage": {"method": "imported", "analyzer": None, "k1": None, "b": None},
        "candidate_recall": {"mean": None, "n": 0},
        "candidate_coverage": {"mean": None, "n": 0},
        "retrieved_recall": None,
        "no_relevant": [],
        "notes": [],
    }
    system = _system(BASELINE, ["tiny"]) | {
        "weights": None,
        "dtype": None,
        "attention": None,
        "max_length": None,
        "parameters": {},
        "description": "",
    }
    nothing: dict[str, Any] = {"task": "tiny", "system": BASELINE, "measure": "nDCG@10"}
    return {
        "schema": 1,
        "suite": _suite("") | {"description": ""},
        "convention": _convention() | {"statements": []},
        "tasks": [task],
        "systems": [system],
        "measures": ["nDCG@10"],
        "results": [
            nothing
            | {"mean": None, "n": 0, "interval": None, "weighted_mean": None}
            | {"failed_pairs": 0, "failed_queries": 0}
        ],
        "diagnostics": [
            {
                "task": "tiny",
                "system": BASELINE,
                "tied_share": None,
                "ties_at_cutoff": {},
                "unjudged_at_10": None,
                "truncated_share": None,
                "failed_pairs": 0,
                "missing_queries": [],
                "pairs": 0,
            }
        ],
        "headroom": [
            nothing | {"oracle": None, "value": None, "headroom": None, "recovered": None, "n": 0}
        ],
        "slices": [],
        "comparisons": [],
        "gate": {"passed": None, "rules": []},
        "environment": {"rows": []},
        "warnings": [],
    }


def _values(random: np.random.Generator, n: int, skill: float) -> np.ndarray:
    return np.clip(np.round(random.normal(0.55 + skill, 0.25, n), 4), 0, 1)


def _interval(random: np.random.Generator, values: np.ndarray) -> dict[str, Any] | None:
    if len(values) == 0:
        return None
    if np.ptp(values) == 0:
        return {"low": 0.94, "high": 1.0, "kind": "wilson", "degenerate": True}
    means = random.choice(values, (400, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"low": float(low), "high": float(high), "kind": "percentile", "degenerate": False}


def _suite(title: str) -> dict[str, Any]:
    return {
        "name": "demo",
        "title": title,
        "description": "Five systems on a support corpus that was written for the demo, and on "
        "real Korean documents.",
        "baseline": BASELINE,
        "primary": "nDCG@10",
        "confidence": 0.95,
        "samples": 10000,
        "seed": 17,
        "min_slice_n": 5,
        "interval": "percentile",
        "clusters": "",
        "test": "randomization",
        "correction": "holm",
        "alpha": 0.05,
        "effect": 0.01,
        "tests": 240,
    }


def _convention() -> dict[str, Any]:
    return {
        "idcg_convention": "judged",
        "tie": "trec",
        "gain": "linear",
        "queries": "qrels",
        "no_relevant": "zero",
        "failed": "worst",
        "statements": [
            "nDCG: linear gain, discount log2(rank + 1), ideal over all judged documents.",
            "Ties: score descending, then document id descending.",
            "A query without a relevant document: 'zero'.",
        ],
    }


def _task(name: str, queries: int, provenance: str) -> dict[str, Any]:
    titles = {
        "demo": "Orion support demo (written for the demo)",
        "autorag-ko": "AutoRAG-ko 한국어 문서",
    }
    return {
        "name": name,
        "title": titles.get(name, name),
        "language": "ko, en",
        "description": "한국어와 영어 질문 <b>not bold</b>",
        "fingerprint": "7f3a9c51e0b24d68",
        "recipe_fingerprint": "0c11b2e98a6d4f37",
        "queries": queries,
        "documents": 182,
        "pairs": queries * 50,
        "depth": 50,
        "judgments": 812,
        "grades": {"0": 430, "1": 171, "2": 120, "3": 91},
        "provenance": {provenance: 812},
        "source": "beir",
        "licence": "Apache-2.0",
        "first_stage": {"method": "lucene", "analyzer": "mecab", "k1": 1.2, "b": 0.75},
        "inject_gold": name == "autorag-ko",
        "injected_rows": 7 if name == "autorag-ko" else 0,
        "candidate_recall": {"mean": 0.9213, "n": queries},
        "candidate_coverage": {"mean": 0.9688, "n": queries},
        "retrieved_recall": 0.8977,
        "unreachable_queries": 2,
        "no_relevant": ["q-17", "q-<script>"],
        "notes": ["empty documents: 2", "ids with | pipes: 1"],
    }


def _system(name: str, tasks: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "adapter": "pair_encoder" if name.startswith("bge") else "bi_encoder",
        "description": "Cosine of mean-pooled vectors; 다국어 모델.",
        "licence": "MIT",
        "weights": f"hf:example/{name}",
        "recipe": "verified" if name != "overlap" else "unverified",
        "is_baseline": name == BASELINE,
        "device": "cpu",
        "dtype": "float32",
        "attention": "sdpa",
        "max_length": 512,
        "parameters": {"query_prefix": "query: ", "template": "<s>{query}</s>|{document}"},
        "runs": {task: "a41f77d09be25c13" for task in tasks},
    }


def _result(
    random: np.random.Generator, task: str, system: str, measure: str, values: np.ndarray
) -> dict[str, Any]:
    failed = system == "overlap" and task == "demo"
    return {
        "task": task,
        "system": system,
        "measure": measure,
        "mean": float(values.mean()),
        "n": len(values),
        "interval": _interval(random, values),
        "weighted_mean": float(values.mean()) + (0.01 if task == "demo" else 0.0),
        "weighted_interval": _interval(random, values),
        "ranks": [1, 3] if measure == "nDCG@10" else None,
        "beaten": 0.9731 if measure == "nDCG@10" and system == "overlap" else None,
        "failed_pairs": 3 if failed else 0,
        "failed_queries": 2 if failed else 0,
    }


def _macro(
    random: np.random.Generator, values: dict[Any, np.ndarray], system: str, measure: str
) -> dict[str, Any]:
    series = [found for (_, s, m), found in values.items() if (s, m) == (system, measure)]
    return _result(random, "macro", system, measure, np.concatenate(series)) | {
        "mean": float(np.mean([found.mean() for found in series])),
        "weighted_mean": None,
    }


def _diagnostics(task: str, system: str, n: int) -> dict[str, Any]:
    return {
        "task": task,
        "system": system,
        "tied_share": 0.31 if system == "overlap" else 0.0002,
        "ties_at_cutoff": {"10": 9 if system == "overlap" else 0, "100": 0},
        "tie_range": [0.5012, 0.5678] if system == "overlap" else None,
        "unjudged_at_10": 0.1234,
        "truncated_share": 0.021,
        "truncated_queries": 5,
        "failed_pairs": 3 if system == "overlap" else 0,
        "missing_queries": ["q-2", "q-|3"] if system == "overlap" else [],
        "pairs": n * 50,
        "seconds": 12.34,
    }


def _headroom(task: str, system: str, values: dict[Any, np.ndarray]) -> dict[str, Any]:
    value = float(values[task, system, "nDCG@10"].mean())
    base = float(values[task, BASELINE, "nDCG@10"].mean())
    return {
        "task": task,
        "system": system,
        "measure": "nDCG@10",
        "oracle": 0.9512,
        "value": value,
        "headroom": 0.9512 - value,
        "recovered": None if system == BASELINE else (value - base) / (0.9512 - base),
        "n": len(values[task, system, "nDCG@10"]),
    }


def _members(attribute: str, value: str, n: int) -> np.ndarray:
    """Every slice takes other queries; one of them is small."""
    step = len(SLICES[attribute])
    found = np.arange(n)[SLICES[attribute].index(value) :: step]
    return found[:3] if value == "multi_hop" else found


def _slice(
    random: np.random.Generator,
    task: str,
    system: str,
    attribute: str,
    value: str,
    values: np.ndarray,
) -> dict[str, Any]:
    kept = values[_members(attribute, value, len(values))]
    return {
        "task": task,
        "system": system,
        "measure": "nDCG@10",
        "attribute": attribute,
        "value": value,
        "n": len(kept),
        "mean": float(kept.mean()),
        "interval": _interval(random, kept),
    }


def _counts(deltas: np.ndarray) -> dict[str, Any]:
    """What stands beside every mean delta."""
    found = stats.ttest_1samp(deltas, 0).pvalue if np.ptp(deltas) else 1.0
    spread = float(np.std(deltas, ddof=1)) or None
    return {
        "p_value": max(float(found), 1e-6),
        "corrected_p": min(1.0, 240 * max(float(found), 1e-6)),
        "effect_size": float(deltas.mean()) / spread if spread else None,
        "detectable": 2.8 * spread / len(deltas) ** 0.5 if spread else None,
        "queries_needed": int((2.8 * spread / 0.01) ** 2) if spread else None,
        "improved": int((deltas > 0).sum()),
        "tied": int((deltas == 0).sum()),
        "regressed": int((deltas < 0).sum()),
    }


def _comparison(
    random: np.random.Generator,
    task: str,
    system: str,
    measure: str,
    values: dict[Any, np.ndarray],
) -> dict[str, Any]:
    base, challenger = values[task, BASELINE, measure], values[task, system, measure].copy()
    challenger[::5] = base[::5]
    values[task, system, measure] = challenger
    deltas = challenger - base
    order = np.argsort(deltas, kind="stable")
    names = ("p05", "p25", "median", "p75", "p95")
    quantiles = np.quantile(deltas, [0.05, 0.25, 0.5, 0.75, 0.95])
    delta = {"mean": float(deltas.mean()), **dict(zip(names, map(float, quantiles), strict=True))}
    texts = [*HOSTILE, *QUERIES] if task == "demo" else [*QUERIES, *HOSTILE]
    return {
        "task": task,
        "baseline": BASELINE,
        "challenger": system,
        "measure": measure,
        "n": len(deltas),
        "left_out": 2,
        "delta": delta,
        "weighted_delta": float(deltas.mean()) + 0.01,
        "weighted_interval": _interval(random, deltas + 0.01),
        "interval": _interval(random, deltas),
        **_counts(deltas),
        "deltas": [[f"q-{index}", float(deltas[index])] for index in order],
        "worst": [
            _query(texts, index, base, challenger) for index in order[:10] if deltas[index] < 0
        ],
        "best": [_query(texts, i, base, challenger) for i in order[::-1][:5] if deltas[i] > 0],
        "slices": [
            _slice_delta(random, attribute, value, deltas)
            for attribute, found in SLICES.items()
            for value in found
        ],
        "warnings": ["31% of the scores are tied: its order rests on the tie rule"]
        if system == "overlap"
        else [],
    }


def _query(texts: list[str], index: int, base: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    return {
        "query_id": f"q-{index}" if index % 3 else f"q|{index}`<b>",
        "query": texts[index % len(texts)],
        "baseline": float(base[index]),
        "challenger": float(found[index]),
        "delta": float(found[index] - base[index]),
    }


def _slice_delta(
    random: np.random.Generator, attribute: str, value: str, deltas: np.ndarray
) -> dict[str, Any]:
    kept = deltas[_members(attribute, value, len(deltas))]
    kept = kept - 0.25 if value == "ko_en_code_switch" else kept  # one slice regresses
    kept = np.zeros(7) if value == "contradiction" else kept
    degenerate = {"low": 0.0, "high": 0.0, "kind": "percentile", "degenerate": True}
    return {
        "attribute": attribute,
        "value": value,
        "n": len(kept),
        "mean": float(kept.mean()),
        "interval": _interval(random, kept) if np.ptp(kept) else degenerate,
        **_counts(kept),
        "small": len(kept) < 5,
    }


def _macro_comparison(
    random: np.random.Generator, values: dict[Any, np.ndarray], system: str, measure: str
) -> dict[str, Any]:
    series = [
        values[task, system, measure] - values[task, BASELINE, measure]
        for task in ("demo", "autorag-ko")
    ]
    return {
        "challenger": system,
        "baseline": BASELINE,
        "measure": measure,
        "tasks": 2,
        "n": sum(map(len, series)),
        "mean": float(np.mean([found.mean() for found in series])),
        "interval": _interval(random, np.concatenate(series)),
        "won": sum(bool(found.mean() > 0) for found in series),
        "lost": sum(bool(found.mean() < 0) for found in series),
    }


def _gate() -> dict[str, Any]:
    rows = [
        ("all-minilm-l6-v2", "", -0.0213, 64, "fail"),
        ("multilingual-e5-small-q4", "language=ko", 0.0411, 22, "pass"),
        ("multilingual-e5-small-q4", "intent=multi_hop", None, 3, "too few queries"),
    ]
    return {
        "passed": False,
        "rules": [
            {
                "rule": "max_drop",
                "sentence": f"nDCG@10 of {name} on demo, {where or 'all'}: mean delta "
                f"{observed or 0:+.4f} against an allowed drop of 0.0200 (n={n})",
                "challenger": name,
                "task": "demo",
                "measure": "nDCG@10",
                "slice": where,
                "limit": 0.02,
                "observed": observed,
                "n": n,
                "verdict": verdict,
            }
            for name, where, observed, n, verdict in rows
        ],
    }


def test_documents_follow_the_schema() -> None:
    """The made-up documents have the keys that the schema asks for, and are strict JSON."""
    for report in (full_report(), minimal_report()):
        assert _required(Report) <= set(report)
        assert json.dumps(report, allow_nan=False)
        for key, shape in SHAPES.items():
            assert all(_required(shape) <= set(row) for row in report[key])


def _required(shape: Any) -> set[str]:
    hints = get_type_hints(shape, include_extras=True)
    return {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}

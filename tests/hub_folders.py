"""Data sets laid out exactly as on the Hugging Face hub, small and made up, for every layout.

Column names, column types, configuration names and splits are those of the real data sets
(MTEB 2.26 task files and loaders; AIR-Bench's own loader); the texts are written here. A folder
holds Parquet files and a README.md whose front matter declares the configurations, as the hub's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rerank.tasks import TaskSpec

COMMIT = "a" * 40
OTHER_COMMIT = "b" * 40
STRINGS = pa.list_(pa.string())

Tables = Mapping[tuple[str, str], pa.Table]  # (configuration, split) -> rows


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Caches below `folder`, no network: as HF_HOME and HF_HUB_OFFLINE would have it at start."""
    import datasets
    from huggingface_hub import constants

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets-cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub-cache"))
    monkeypatch.setenv("RERANK_DATASETS", str(folder / "hub"))
    datasets.disable_progress_bars()


def write_folder(folder: Path, tables: Tables) -> Path:
    """A repository: CONFIG/SPLIT-00000-of-00001.parquet and the README's front matter."""
    front = ["---", "configs:"]
    for config in dict.fromkeys(config for config, _ in tables):
        front += [f"- config_name: {config}", "  data_files:"]
        for split in (split for name, split in tables if name == config):
            front += [f"  - split: {split}", f"    path: {config}/{split}-*"]
            (folder / config).mkdir(parents=True, exist_ok=True)
            pq.write_table(
                tables[config, split], folder / config / f"{split}-00000-of-00001.parquet"
            )
    (folder / "README.md").write_text("\n".join([*front, "---", "A test.", ""]), encoding="utf-8")
    return folder


def write_cache(cache: Path, dataset: str, commit: str, tables: Tables) -> Path:
    """The same in the hub's local cache: datasets--OWNER--NAME/snapshots/COMMIT."""
    root = cache / f"datasets--{dataset.replace('/', '--')}"
    (root / "refs").mkdir(parents=True, exist_ok=True)
    (root / "refs" / "main").write_text(commit)
    return write_folder(root / "snapshots" / commit, tables)


def mteb(
    queries: Mapping[str, str],
    documents: Mapping[str, tuple[str | None, str | None]],
    judgments: Mapping[str, list[tuple[str, str, int]]],
    *,
    subset: str = "",
    id_name: str = "_id",
    qrels: str = "",
    corpus_split: str = "corpus",
    query_split: str = "queries",
    titled: bool = True,
    top_ranked: Mapping[str, Mapping[str, list[str]]] | None = None,
    instructions: Mapping[str, str] | None = None,
) -> dict[tuple[str, str], pa.Table]:
    """MTEB's layout. documents: id -> (title, text). judgments and top_ranked: by split."""
    prefix = f"{subset}-" if subset else ""
    columns: dict[str, Any] = {id_name: pa.array(documents, pa.string())}
    if titled:
        columns["title"] = pa.array([title for title, _ in documents.values()], pa.string())
    columns["text"] = pa.array([text for _, text in documents.values()], pa.string())
    asked = {id_name: pa.array(queries, pa.string()), "text": pa.array(queries.values())}
    tables = {
        (f"{prefix}corpus", corpus_split): pa.table(columns),
        (f"{prefix}queries", query_split): pa.table(asked),
    }
    name = qrels or (f"{prefix}qrels" if prefix else "default")
    for split, rows in judgments.items():
        tables[name, split] = judgment_table(rows)
    for split, lists in (top_ranked or {}).items():
        tables[f"{prefix}top_ranked", split] = pa.table(
            {"query-id": list(lists), "corpus-ids": pa.array(lists.values(), STRINGS)}
        )
    if instructions:
        tables[f"{prefix}instruction", query_split] = pa.table(
            {"query-id": list(instructions), "instruction": list(instructions.values())}
        )
    return tables


def judgment_table(rows: list[tuple[str, str, int]]) -> pa.Table:
    """query-id, corpus-id as strings, score as int32."""
    return pa.table(
        {
            "query-id": pa.array([row[0] for row in rows], pa.string()),
            "corpus-id": pa.array([row[1] for row in rows], pa.string()),
            "score": pa.array([row[2] for row in rows], pa.int32()),
        }
    )


def reranking(split: str, rows: list[tuple[str, list[str], list[str]]]) -> Tables:
    """The old reranking layout: query, positive[], negative[]."""
    table = pa.table(
        {
            "query": [query for query, _, _ in rows],
            "positive": pa.array([positive for _, positive, _ in rows], STRINGS),
            "negative": pa.array([negative for _, _, negative in rows], STRINGS),
        }
    )
    return {("default", split): table}


def nanobeir(name: str, *, listed: bool) -> Tables:
    """NanoBEIR of sentence-transformers: splits named after data sets, no scores."""
    pairs = {"q1": ["d1", "d2"], "q2": ["d2"]}
    flat = [(query, doc) for query, docs in pairs.items() for doc in docs]
    qrels = (
        {"query-id": list(pairs), "corpus-id": pa.array(pairs.values(), STRINGS)}
        if listed
        else {"query-id": [q for q, _ in flat], "corpus-id": [d for _, d in flat]}
    )
    tables = {
        "corpus": {"_id": ["d1", "d2", "d3"], "text": ["red apple", "green pear", "blue plum"]},
        "queries": {"_id": ["q1", "q2"], "text": ["apple", "pear"]},
        "qrels": qrels,
    }
    bm25 = {"query-id": ["q1", "q2"], "corpus-ids": pa.array([["d1"], ["d2"]], STRINGS)}
    everything = {**tables, "bm25": bm25}
    return {
        (config, split): pa.table(columns)
        for config, columns in everything.items()
        for split in (name, "NanoOther")
    }


def bright(domain: str = "biology") -> Tables:
    """BRIGHT: documents, long_documents and examples, one split a domain."""
    examples = pa.table(
        {
            "query": ["why is the sky blue", "what is a cell"],
            "reasoning": ["", ""],
            "id": ["0", "1"],
            "excluded_ids": pa.array([["a/2.txt"], ["N/A"]], STRINGS),
            "gold_ids_long": pa.array([["long/1.txt"], ["long/2.txt"]], STRINGS),
            "gold_ids": pa.array([["a/1.txt", "a/3.txt"], ["a/3.txt"]], STRINGS),
            "gold_answer": ["", ""],
        }
    )
    documents = {
        "id": ["a/1.txt", "a/2.txt", "a/3.txt"],
        "content": ["the sky is blue light", "the sky is blue blue blue", "a cell has a wall"],
    }
    long = {"id": ["long/1.txt", "long/2.txt"], "content": ["sky light", "cell wall"]}
    other = {"id": ["x"], "content": ["other domain"]}
    return {
        ("documents", domain): pa.table(documents),
        ("documents", "other"): pa.table(other),
        ("long_documents", domain): pa.table(long),
        ("examples", domain): examples,
        ("examples", "other"): examples.slice(0, 1),
    }


def airbench(version: str = "AIR-Bench_24.05") -> tuple[Tables, Tables]:
    """AIR-Bench: texts, and the judgments of the dev split as a data set of their own."""
    texts = {
        (version, "corpus_default"): {"id": ["d1", "d2"], "text": ["서울의 날씨", "부산의 바다"]},
        (version, "queries_default_dev"): {"id": ["q1", "q2"], "text": ["서울 날씨", "부산 바다"]},
        (version, "queries_default_test"): {"id": ["q3"], "text": ["비밀"]},
    }
    judgments = {"qid": ["q1", "q1", "q2"], "docid": ["d1", "d2", "d2"], "relevance": [1, 0, 1]}
    return (
        {key: pa.table(columns) for key, columns in texts.items()},
        {(version, "qrels_default_dev"): pa.table(judgments)},
    )


def belebele(*languages: str) -> Tables:
    """Belebele: one configuration a language, two questions to the first of two passages."""
    rows = [("w/1", "p1", "q1"), ("w/1", "p1", "q2"), ("w/2", "p2", "q3")]
    return {
        (language, "test"): pa.table(
            {
                "link": [link for link, _, _ in rows],
                "question_number": [1, 2, 1],
                "flores_passage": [f"{passage} {language} 문단" for _, passage, _ in rows],
                "question": [f"{question} {language} 질문" for _, _, question in rows],
                "mc_answer1": ["", "", ""],
                "correct_answer_num": ["1", "1", "1"],
                "dialect": [language] * 3,
            }
        )
        for language in languages
    }


def public_health_qa(language: str = "korean") -> Tables:
    """PublicHealthQA: question, answer; a repeated answer, and a row without one."""
    columns = {
        "source": ["CDC"] * 4,
        "url": [""] * 4,
        "question": ["마스크를 써야 하나요", "열이 나면", "기침이 나면", "빈 답"],
        "answer": ["네, 마스크를 쓰세요", "집에 머무세요", "집에 머무세요", None],
    }
    return {(language, "test"): pa.table(columns), ("english", "test"): pa.table(columns)}


KOREAN = {
    "d1": ("", "서울은 대한민국의 수도이다"),
    "d2": ("부산", "부산은 항구 도시이다"),
    "d3": (None, "제주도에는 한라산이 있다"),
    "d4": ("", None),
}


def write_task_data(hub: Path, spec: TaskSpec) -> None:
    """A small data set for a task of source hub: its layout, subset and splits, made-up texts.

    Two queries a split, one of them without a candidate list where the layout has such lists.
    """
    folder = hub / spec.dataset
    if spec.layout == "bright":
        write_folder(folder, bright(spec.subset))
    elif spec.layout == "belebele":
        write_folder(folder, belebele(*dict.fromkeys(spec.subset.split("-"))))
    elif spec.layout == "question_answer":
        write_folder(folder, public_health_qa(spec.subset))
    elif spec.layout == "airbench":
        texts, judgments = airbench(spec.subset.partition("/")[0])
        write_folder(folder, texts)
        write_folder(hub / spec.qrels_dataset, judgments)
    else:
        write_folder(folder, mteb_for(spec, given="candidates" in spec.expected))


def mteb_for(spec: TaskSpec, *, given: bool) -> dict[tuple[str, str], pa.Table]:
    """MTEB's layout with the splits of a task; the corpus has a split of another name."""
    judged, queries, lists = {}, {}, {}
    for number, split in enumerate(spec.splits):
        first, second = f"q{2 * number}", f"q{2 * number + 1}"
        queries |= {first: "서울 수도", second: "한라산"}
        judged[split] = [(first, "d1", 1), (first, "d2", 0), (second, "d3", 1)]
        lists[split] = {first: ["d1", "d2", "d3"]}
    return mteb(
        {**queries, "unjudged": "아무도"},
        KOREAN,
        judged,
        subset=spec.subset,
        top_ranked=lists if given else None,
        corpus_split="train" if spec.subset == "korean" else "corpus",
    )

"""What many tests share: the folder of real collections, and small tasks written on the spot."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORDS = [
    "필터",
    "교체",
    "오류",
    "전원",
    "충전",
    "배터리",
    "reset",
    "filter",
    "error",
    "code",
    "warranty",
    "보증",
    "기간",
    "환불",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow; run scripts/test --slow"))


def real_data() -> Path | None:
    """The folder of real public collections, if this machine has it."""
    candidates = [os.environ.get("RERANK_DATA", ""), str(ROOT.parent / "shared" / "data")]
    found = [Path(name) for name in candidates if name and Path(name).is_dir()]
    return found[0] if found else None


@pytest.fixture
def data_folder() -> Path:
    """Real collections; the test is skipped where they are absent."""
    folder = real_data()
    if folder is None:
        pytest.skip("no real collections: set RERANK_DATA to their folder")
    return folder


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Path]:
    """Writes a BEIR-layout folder of made-up texts; every query has two relevant documents."""

    def make(name: str = "tiny", queries: int = 12, documents: int = 40) -> Path:
        rng = random.Random(name)
        folder = tmp_path / "collections" / name
        texts = {
            f"d{i:03d}": " ".join(rng.choices(WORDS, k=rng.randint(3, 30)))
            for i in range(documents)
        }
        write_jsonl(
            folder / "corpus.jsonl", [{"_id": k, "title": "", "text": v} for k, v in texts.items()]
        )
        asked, judged = [], []
        for number in range(queries):
            query_id = f"q{number:02d}"
            gold = rng.sample(sorted(texts), 2)
            language = "ko" if number % 2 else "en"
            asked.append(
                {
                    "_id": query_id,
                    "text": " ".join(texts[gold[0]].split()[:3]),
                    "weight": 1.0 + number,
                    "metadata": {"language": language},
                }
            )
            for grade, doc_id in enumerate(gold, 1):
                judged.append(
                    {
                        "query_id": query_id,
                        "doc_id": doc_id,
                        "grade": grade,
                        "provenance": "synthetic",
                        "attributes": {"document": "table" if number % 3 else "code"},
                    }
                )
        write_jsonl(folder / "queries.jsonl", asked)
        write_jsonl(folder / "judgments.jsonl", judged)
        return folder

    return make

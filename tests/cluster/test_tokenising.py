"""Tokenising on Ray: an embedded Ray of real worker processes against the same blocks made here.

Ray runs in a process of its own: in this one, other tests' tokens and addresses may linger.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cluster.connection import connected
from cluster.tokenising import tokenise_on_ray
from rerank.errors import RerankError
from rerank.fingerprint import sha256_bytes
from rerank.first_stage.bm25 import BM25Index, BM25Settings, bm25_index
from rerank.first_stage.token_blocks import blocks_of_texts, tokenise_here
from tests.conftest import ROOT

TEXTS = ["필터 교체 방법", "전원이 꺼집니다. 필터", "", "reset the filter 필터"] * 12


def digest(index: BM25Index) -> str:
    parts = (index.starts, index.documents, index.weights, index.peaks)
    words = "\n".join(index.vocabulary).encode()
    return sha256_bytes(b"|".join([*(part.tobytes() for part in parts), words]))


def on_ray() -> None:
    """Prints what an embedded Ray made of the texts, and what it said of an unknown analyzer."""
    with connected("", num_cpus=2):
        # more blocks than are under way at once; they come back in order
        blocks = blocks_of_texts(TEXTS, documents=5)
        index = digest(bm25_index(tokenise_on_ray()("mecab", blocks), BM25Settings()))
        said = ""
        try:
            list(tokenise_on_ray()("mekab", [["a"], ["b"]]))
        except RerankError as error:
            said = str(error)
    print(json.dumps({"index": index, "said": said}))


@pytest.fixture(scope="module")
def answer() -> dict[str, str]:
    code = "from tests.cluster.test_tokenising import on_ray; on_ray()"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**clean, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=240,
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_ray_changes_no_byte(answer: dict[str, str]) -> None:
    expected = bm25_index(tokenise_here("mecab", [TEXTS]), BM25Settings())
    assert answer["index"] == digest(expected)


def test_one_block_asks_no_cluster() -> None:
    """An address at which nothing answers is never called."""
    blocks = list(tokenise_on_ray("127.0.0.1:1")("whitespace", [["a b"]]))
    assert [block.vocabulary for block in blocks] == [["a", "b"]]
    assert list(tokenise_on_ray("127.0.0.1:1")("whitespace", [])) == []


def test_what_a_node_cannot_do_is_told_in_its_words(answer: dict[str, str]) -> None:
    """The error of the block's own process, in one sentence."""
    assert "a node could not tokenise the corpus: unknown analyzer" in answer["said"]

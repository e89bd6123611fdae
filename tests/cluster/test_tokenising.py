"""Tokenising on Ray: an embedded Ray of real worker processes against the same blocks made here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.connection import connected
from cluster.tokenising import tokenise_on_ray
from rerank.errors import RerankError
from rerank.first_stage.bm25 import BM25Index, BM25Settings, bm25_index
from rerank.first_stage.token_blocks import blocks_of_texts, tokenise_here

TEXTS = ["필터 교체 방법", "전원이 꺼집니다. 필터", "", "reset the filter 필터"] * 12


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    with connected("", num_cpus=2):
        yield


def arrays(index: BM25Index) -> tuple[bytes, ...]:
    parts = (index.starts, index.documents, index.weights, index.peaks)
    return (*(part.tobytes() for part in parts), "\n".join(index.vocabulary).encode())


def test_ray_changes_no_byte(ray: None) -> None:
    """More blocks than are under way at once; they come back in order."""
    blocks = blocks_of_texts(TEXTS, documents=5)
    found = bm25_index(tokenise_on_ray()("mecab", blocks), BM25Settings())
    expected = bm25_index(tokenise_here("mecab", [TEXTS]), BM25Settings())
    assert arrays(found) == arrays(expected)


def test_one_block_asks_no_cluster() -> None:
    """An address at which nothing answers is never called."""
    blocks = list(tokenise_on_ray("127.0.0.1:1")("whitespace", [["a b"]]))
    assert [block.vocabulary for block in blocks] == [["a", "b"]]
    assert list(tokenise_on_ray("127.0.0.1:1")("whitespace", [])) == []


def test_what_a_node_cannot_do_is_told_in_its_words(ray: None) -> None:
    """The error of the block's own process, in one sentence."""
    with pytest.raises(RerankError, match="a node could not tokenise the corpus: unknown analyzer"):
        list(tokenise_on_ray()("mekab", [["a"], ["b"]]))

"""The index and its retrieval: bm25s bit by bit, the formula written out, full sorts."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import bm25s
import numpy as np
import pytest

from rerank.analyzers import analyzer
from rerank.errors import ConfigError, RerankError
from rerank.first_stage import retrieval
from rerank.first_stage.bm25 import METHODS, BM25Index, BM25Settings, bm25_index
from rerank.first_stage.retrieval import Ranking, Retriever, top_positions
from rerank.first_stage.saved_index import index_of_corpus
from rerank.first_stage.token_blocks import (
    TokenBlock,
    blocks_of_texts,
    token_block,
    tokenise_here,
    tokenise_in_processes,
)
from rerank.store import Store


def texts_of(count: int, seed: int = 0, words: int = 60) -> list[str]:
    """Texts by Zipf's law, with empty ones, repeats within a text and whole texts twice."""
    rng = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(words)]
    weights = [1 / (rank + 1) for rank in range(words)]
    texts = [" ".join(rng.choices(vocabulary, weights, k=rng.randint(0, 30))) for _ in range(count)]
    return texts + texts[: count // 4] + ["", ", ."]


def index_of(texts: list[str], settings: BM25Settings, size: int = 7) -> BM25Index:
    blocks = blocks_of_texts(texts, documents=size)
    return bm25_index(tokenise_here("whitespace", blocks), settings)


def best(index: BM25Index, queries: list[list[str]], depth: int) -> list[Ranking]:
    return Retriever(index).best_of_each(queries, [depth] * len(queries))


def peer(texts: list[str], settings: BM25Settings) -> bm25s.BM25:
    found = bm25s.BM25(method=settings.method, k1=settings.k1, b=settings.b)
    found.index([text.split() for text in texts], show_progress=False)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0), (1.5, 1.0)])
def test_scores_are_those_of_bm25s_bit_by_bit(method: str, k1: float, b: float) -> None:
    """Every document of 40 queries, repeated and unknown tokens among them."""
    settings, texts = BM25Settings(method, k1, b), texts_of(150)
    index, theirs = index_of(texts, settings), peer(texts, settings)
    everything = np.arange(len(texts))
    for query in texts_of(40, seed=1):
        tokens = [*query.split(), "unknown"]
        known = [token for token in tokens if token in index.vocabulary]
        expected = theirs.get_scores(known) if known else np.zeros(len(texts), np.float32)
        found = Retriever(index).scores(tokens, everything)
        assert found.dtype == expected.dtype == np.float32
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("depth", [1, 3, 10, 50, 1000])
@pytest.mark.parametrize("way", ["whole", "pruned", "pruned early"])
def test_the_best_are_those_of_a_full_sort(
    method: str, depth: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All scores by bm25s, sorted: score descending, then position. Ties at the cut included."""
    monkeypatch.setattr(retrieval, "FEW", 0 if way != "whole" else 10**9)
    monkeypatch.setattr(retrieval, "SMALL", 0 if way == "pruned" else 2**16)
    monkeypatch.setattr(retrieval, "LONG", 1 if way == "pruned early" else 32)
    settings, texts = BM25Settings(method), texts_of(400, seed=2)
    index, theirs = index_of(texts, settings), peer(texts, settings)
    queries = [query.split() for query in texts_of(60, seed=3)]
    found = best(index, queries, depth)
    for tokens, ranking in zip(queries, found, strict=True):
        scores = theirs.get_scores(tokens) if tokens else np.zeros(len(texts), np.float32)
        order = sorted(np.flatnonzero(scores > 0), key=lambda at, s=scores: (-s[at], at))[:depth]
        assert ranking.positions.tolist() == [int(at) for at in order]
        assert ranking.scores.tobytes() == scores[order].astype(np.float32).tobytes()


def test_frequent_tokens_are_not_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare word decides: of 2,000 documents with 'the' only the 20 with both are looked at."""
    monkeypatch.setattr(retrieval, "FEW", 0)
    monkeypatch.setattr(retrieval, "LONG", 1)
    texts = ["the " * 3 + f"filler{number % 50}" for number in range(2000)]
    for number in range(0, 2000, 100):
        texts[number] += " needle"
    index = index_of(texts, BM25Settings(), size=500)
    ranking = best(index, [["the", "needle"]], 5)[0]
    scores = peer(texts, BM25Settings()).get_scores(["the", "needle"])
    expected = top_positions(scores, 5)
    assert ranking.positions.tolist() == expected.tolist() == [0, 100, 200, 300, 400]
    assert ranking.scores.tobytes() == scores[expected].tobytes()
    retriever, query = Retriever(index), index.numbers(["the", "needle"])
    terms = retriever._rarest_first(query)
    assert [term.found for term in terms] == [20, 2000]
    assert len(retriever._within_reach(terms, 5, 2)) == 20


def test_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many queries to a saved index are shared among processes that map its files."""
    store = Store(tmp_path)
    queries = [query.split() for query in texts_of(20, seed=6)]
    corpus = index_of_corpus(CORPUS, "whitespace", BM25Settings(), store)
    expected = corpus.best(queries, [5] * len(queries))
    monkeypatch.setattr(retrieval, "MUCH", 0)
    monkeypatch.setattr(retrieval, "processors", lambda: 2)
    assert corpus.best(queries, [5] * len(queries)) == expected
    assert list(map(len, expected)).count(5) > 10


def test_a_query_without_a_known_token_finds_nothing() -> None:
    """Empty and unknown queries; the query after them is not disturbed."""
    index = index_of(["a b", "a"], BM25Settings())
    empty, unknown, known = best(index, [[], ["zzz"], ["b"]], 10)
    assert len(empty.positions) == len(unknown.scores) == 0
    assert known.positions.tolist() == [0]


def test_documents_without_a_token_are_no_harm() -> None:
    """They count for the mean length; a corpus of nothing but such has no postings."""
    index = index_of(["", "", "!"], BM25Settings())
    assert (index.n_documents, index.vocabulary) == (3, {"!": 0})
    nothing = index_of(["", ""], BM25Settings())
    assert len(nothing.weights) == len(best(nothing, [["a"]], 3)[0].positions) == 0
    with pytest.raises(ConfigError, match="holds no document"):
        index_of([], BM25Settings())


def plain_bm25(texts: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """Robertson and Zaragoza 2009, Lucene's idf, written out: sum of idf tf / (tf + k1 norm)."""
    average = sum(map(len, texts)) / len(texts)
    counts = [Counter(tokens) for tokens in texts]
    found = Counter(token for tokens in counts for token in tokens)
    scores = []
    for tokens, tf in zip(texts, counts, strict=True):
        norm = 1.2 * (1 - 0.75 + 0.75 * len(tokens) / average)
        scores.append(
            sum(
                math.log(1 + (len(texts) - found[t] + 0.5) / (found[t] + 0.5))
                * tf[t]
                / (tf[t] + norm)
                for t in query
                if tf[t]
            )
        )
    return scores


@pytest.mark.parametrize(
    ("name", "analyzer_name"),
    [("autorag_ko", "mecab"), ("korquad_v1_dev", "bigram"), ("scifact_en", "english")],
)
def test_real_scores_are_those_of_the_formula(
    data_folder: Path, name: str, analyzer_name: str
) -> None:
    """100 queries of a real collection, all scores to 1e-4."""
    from rerank.sources import read_corpus, read_queries

    documents, _ = read_corpus(data_folder / name / "corpus.jsonl")
    texts = list(documents.values())[:1000]
    queries = list(read_queries(data_folder / name / "queries.jsonl").values())[:100]
    analyze = analyzer(analyzer_name)
    index = bm25_index(tokenise_here(analyzer_name, blocks_of_texts(texts, 300)), BM25Settings())
    tokens = [analyze(text) for text in texts]
    everything, retriever = np.arange(len(texts)), Retriever(index)
    for query in queries:
        asked = analyze(query.text)
        expected = plain_bm25(tokens, asked)
        assert np.abs(retriever.scores(asked, everything) - expected).max() < 1e-4


def arrays(index: BM25Index) -> tuple[bytes, ...]:
    parts = (index.starts, index.documents, index.weights, index.peaks)
    return (*(part.tobytes() for part in parts), "\n".join(index.vocabulary).encode())


def test_blocks_and_processes_change_no_byte() -> None:
    """One block, blocks of one document, and two processes: the same index."""
    texts = ["필터 교체 방법", "전원이 꺼집니다. 필터", "", "reset the filter 필터"] * 9
    expected = arrays(bm25_index(tokenise_here("mecab", [texts]), BM25Settings()))
    for size in (1, 5):
        blocks = blocks_of_texts(texts, documents=size)
        assert arrays(bm25_index(tokenise_here("mecab", blocks), BM25Settings())) == expected
    blocks = blocks_of_texts(texts, documents=5)
    parallel = tokenise_in_processes(2)("mecab", blocks)
    assert arrays(bm25_index(parallel, BM25Settings())) == expected


def test_blocks_are_closed_by_documents_or_characters() -> None:
    """Whichever comes first; order kept, nothing lost."""
    assert list(blocks_of_texts(["aa", "b", "cccc", ""], documents=2)) == [
        ["aa", "b"],
        ["cccc", ""],
    ]
    assert list(blocks_of_texts(["aa", "b", "cccc"], characters=3)) == [["aa", "b"], ["cccc"]]
    assert list(blocks_of_texts([])) == []


def test_a_block_counts_tokens_by_document() -> None:
    """Written out: b stands in both documents, twice in the second."""
    block = token_block("whitespace", ["a b", "b c B"])
    assert block.lengths.tolist() == [2, 3]
    assert block.vocabulary == ["a", "b", "c"]
    assert block.document_counts.tolist() == [1, 2, 1]
    assert block.documents.tolist() == [0, 0, 1, 1]
    assert block.frequencies.tolist() == [1, 1, 2, 1]


def test_an_error_in_a_process_arrives_as_it_is() -> None:
    """ConfigError of an unknown analyzer, raised where the block was made."""
    with pytest.raises(ConfigError, match="unknown analyzer 'mekab'"):
        list(tokenise_in_processes(2)("mekab", [["a"], ["b"]]))


def test_nodes_of_different_versions_are_refused() -> None:
    """Their tokens would differ from document to document."""
    block = token_block("mecab", ["필터"])
    other = replace(block, versions={"mecab-ko": "0"})
    with pytest.raises(ConfigError, match="different versions"):
        bm25_index([block, other], BM25Settings())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BM25Settings(method="okapi"), "unknown BM25 method 'okapi'"),
        (BM25Settings(k1=-1.0), "k1 is from 0"),
        (BM25Settings(b=1.5), "b from 0 to 1"),
    ],
)
def test_settings_are_checked(settings: BM25Settings, message: str) -> None:
    """Before anything is tokenised."""
    with pytest.raises(ConfigError, match=message):
        index_of(["a"], settings)


CORPUS = {f"d{number}": text for number, text in enumerate(texts_of(30, seed=5))}


def never(analyzer_name: str, blocks: Iterable[Sequence[str]]) -> Iterator[TokenBlock]:
    raise AssertionError("the corpus is tokenised again")


def saved(store: Store, **more: object) -> BM25Index:
    return index_of_corpus(CORPUS, "whitespace", BM25Settings(), store, **more).index


def test_an_index_is_built_once_and_mapped(tmp_path: Path) -> None:
    """The second call tokenises nothing, gives the same bytes, and holds none of them."""
    store = Store(tmp_path)
    built, read = saved(store), saved(store, tokenise=never)
    assert arrays(built) == arrays(read)
    assert isinstance(read.weights.base, np.memmap)
    assert read.vocabulary == built.vocabulary


def test_ids_are_in_descending_order_of_bytes(tmp_path: Path) -> None:
    """So that ties by position are ties by id, whatever the corpus file's order."""
    corpus = index_of_corpus(
        {"b": "x", "é": "x", "a": "x"}, "whitespace", BM25Settings(), Store(tmp_path)
    )
    assert corpus.doc_ids == ["é", "b", "a"]
    assert list(corpus.best([["x"]], [2])[0]) == ["é", "b"]


@pytest.mark.parametrize("change", ["analyzer", "settings", "text", "id"])
def test_whatever_changes_a_score_is_another_index(tmp_path: Path, change: str) -> None:
    """Two folders afterwards; with nothing changed, one."""
    store = Store(tmp_path)
    saved(store)
    corpus = dict(CORPUS)
    if change == "text":
        corpus["d3"] += " more"
    if change == "id":
        corpus["e"] = corpus.pop("d3")
    index_of_corpus(
        corpus,
        "bigram" if change == "analyzer" else "whitespace",
        BM25Settings(k1=1.3) if change == "settings" else BM25Settings(),
        store,
    )
    assert len(store.folders("indexes")) == 2


@pytest.mark.parametrize("name", ["weights.npy", "documents.npy", "vocabulary.parquet"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_an_altered_index_is_built_anew_and_never_used(
    tmp_path: Path, name: str, harm: str
) -> None:
    """The sentence names the file; afterwards the store is whole again."""
    store = Store(tmp_path)
    expected = arrays(saved(store))
    file = next(tmp_path.glob(f"indexes/*/{name}"))
    data = file.read_bytes()
    file.unlink()
    if harm != "remove":
        file.write_bytes(data[:-1] + (bytes([data[-1] ^ 1]) if harm == "flip" else b""))
    told: list[str] = []
    assert arrays(saved(store, progress=told.append)) == expected
    assert f"{name} is missing or was altered; the index is built anew" in told[0]
    assert file.read_bytes() == data
    saved(store, tokenise=never)


@pytest.mark.parametrize(
    "text", ['{"identity": {}, "docum', '{"identity": {}, "documents": "x", "files": []}', "[]", ""]
)
def test_a_torn_record_of_an_index_does_not_count(text: str, tmp_path: Path) -> None:
    """index.json is written last; half of it is none."""
    store = Store(tmp_path)
    saved(store)
    record = next(tmp_path.glob("indexes/*/index.json"))
    record.write_text(text)
    with pytest.raises(AssertionError, match="tokenised again"):
        saved(store, tokenise=never)
    saved(store)
    saved(store, tokenise=never)


def test_a_killed_process_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What concurrent.futures says of it is a traceback."""
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    from rerank.first_stage.token_blocks import _made

    block: Future[TokenBlock] = Future()
    block.set_exception(BrokenProcessPool("gone"))
    with pytest.raises(RerankError, match="a process that tokenised the corpus was ended"):
        _made(block)

"""The first stage at the size of MIRACL-ko: tokens per second, memory, and retrieval against bm25s.

Tokenising: all processors against a plain loop over the same passages in one process (one text,
its tokens, their numbers), alternating, on a share of the passages; beside them our own blocks in
one process, which tells apart what the processors give. Index: built from all passages, saved,
and read back mapped from its files. Retrieval: our `Retriever` against `bm25s.BM25.retrieve` on
the same arrays, numpy and numba, one thread and all; its fastest counts. The best scores of every
query are compared, bit by bit. Peak memory is of all processes together.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from scripts.benchmarks.korean_passages import collection
from scripts.benchmarks.memory import peak_memory

ANALYZER = "mecab"
SAMPLE = 100_000  # passages that the plain loop tokenises
Query = list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of all")
    parser.add_argument("--passages", type=int, default=1_500_000)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--depth", type=int, default=1000, help="documents of a query")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with peak_memory() as peak, tempfile.TemporaryDirectory() as folder:
        texts, queries = _timed("passages made up", lambda: _collection(arguments))
        tokenising = tokenising_rounds(list(texts.values())[:SAMPLE], arguments.rounds)
        index, seconds = indexed(texts, folder)
        print(f"peak after indexing: {peak.gib:.2f} GiB")
        rounds = retrieval_rounds(index, queries, arguments.depth, arguments.rounds)
    return figures(tokenising, rounds, seconds, peak.gib)


def figures(
    tokenising: list[dict[str, float]],
    retrieval: list[dict[str, float]],
    index_seconds: float,
    peak: float,
) -> dict[str, Any]:
    """Ratios of medians over the rounds; tokenising in tokens a second, retrieval in seconds."""
    rates = {way: statistics.median(row[way] for row in tokenising) for way in tokenising[0]}
    times = {way: statistics.median(row[way] for row in retrieval) for way in retrieval[0]}
    theirs = min(seconds for way, seconds in times.items() if way != "ours")
    return {
        "parallel_tokenise_ratio": round(rates["processes"] / rates["loop"], 3),
        "peak_gib": round(peak, 3),
        "retrieval_ratio": round(theirs / times["ours"], 3),
        "blocks_over_loop": round(rates["blocks"] / rates["loop"], 3),
        "tokens_per_second": round(rates["processes"]),
        "index_seconds": round(index_seconds, 1),
    }


def _collection(arguments: argparse.Namespace) -> tuple[dict[str, str], list[Query]]:
    from rerank.analyzers import analyzer

    made = collection(arguments.passages, arguments.queries)
    return made.texts, [analyzer(ANALYZER)(query) for query in made.queries]


def tokenising_rounds(texts: list[str], rounds: int) -> list[dict[str, float]]:
    """Tokens per second of each way, a dict a round; all ways find the same tokens."""
    from rerank.first_stage.token_blocks import (
        processors,
        tokenise_here,
        tokenise_in_processes,
    )

    ways: dict[str, Callable[[list[str]], int]] = {
        "loop": plain_loop,
        "blocks": lambda found: _block_tokens(tokenise_here, found),
        "processes": lambda found: _block_tokens(tokenise_in_processes(processors()), found),
    }
    measured = []
    for number in range(1, rounds + 1):
        row, counts = {}, set()
        for way, tokenise in ways.items():
            started = time.perf_counter()
            tokens = tokenise(texts)
            row[way] = tokens / (time.perf_counter() - started)
            counts.add(tokens)
        assert len(counts) == 1, counts
        measured.append(row)
        rates = "  ".join(f"{way} {rate:,.0f}" for way, rate in row.items())
        print(f"round {number}, {len(texts):,} passages, tokens/s: {rates}", flush=True)
    return measured


def plain_loop(texts: list[str]) -> int:
    """Tokens of all texts, each numbered: what any one-process program does."""
    from rerank.analyzers import analyzer

    analyze, vocabulary, numbers = analyzer(ANALYZER), dict[str, int](), array("I")
    for text in texts:
        for token in analyze(text):
            numbers.append(vocabulary.setdefault(token, len(vocabulary)))
    return len(numbers)


def _block_tokens(tokenise: Any, texts: list[str]) -> int:
    from rerank.first_stage.token_blocks import blocks_of_texts

    return sum(int(block.lengths.sum()) for block in tokenise(ANALYZER, blocks_of_texts(texts)))


def indexed(texts: dict[str, str], folder: str) -> tuple[Any, float]:
    """The index of all passages as it is read back from the store, and the seconds to build it."""
    from rerank.first_stage.bm25 import BM25Settings
    from rerank.first_stage.saved_index import index_of_corpus
    from rerank.store import Store

    def index() -> Any:
        return index_of_corpus(
            texts, ANALYZER, BM25Settings(), Store(folder), progress=lambda text: print(text)
        )

    started = time.perf_counter()
    built = _timed("indexed and saved", index).index
    seconds = time.perf_counter() - started
    postings = len(built.documents)
    del built
    found = _timed("read back", index).index
    assert len(found.documents) == postings
    print(f"{len(texts):,} passages, {len(found.vocabulary):,} tokens, {postings:,} postings")
    return found, seconds


def retrieval_rounds(
    index: Any, queries: list[Query], depth: int, rounds: int
) -> list[dict[str, float]]:
    """Seconds of all queries in each way, a dict a round."""
    from rerank.first_stage.retrieval import Retriever

    depth, retriever = min(depth, index.n_documents), Retriever(index)
    ways = {"ours": lambda: _ours(retriever, queries, depth), **_bm25s_ways(index, queries, depth)}
    scores = {way: search() for way, search in ways.items()}  # compiles and warms up, too
    for way, found in scores.items():
        for ours, theirs in zip(scores["ours"], found, strict=True):
            assert np.array_equal(ours, theirs), way
    measured = []
    for number in range(1, rounds + 1):
        row = {}
        for way, search in ways.items():
            started = time.perf_counter()
            search()
            row[way] = time.perf_counter() - started
        measured.append(row)
        seconds = "  ".join(f"{way} {value:.2f} s" for way, value in row.items())
        print(f"round {number}, {len(queries)} queries, depth {depth}: {seconds}", flush=True)
    return measured


def _ours(retriever: Any, queries: list[Query], depth: int) -> list[np.ndarray]:
    depths = [depth] * len(queries)
    return [ranking.scores for ranking in retriever.best_of_each(queries, depths)]


def _bm25s_ways(
    index: Any, queries: list[Query], depth: int
) -> dict[str, Callable[[], list[np.ndarray]]]:
    """bm25s over the same arrays, in every setting that could be its fastest."""
    import bm25s

    known = [[token for token in query if token in index.vocabulary] for query in queries]

    def way(backend: str, threads: int) -> Callable[[], list[np.ndarray]]:
        peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend=backend)
        arrays = {"data": index.weights, "indices": index.documents, "indptr": index.starts}
        peer.scores = {**arrays, "num_docs": index.n_documents}
        peer.vocab_dict, peer.nonoccurrence_array = index.vocabulary, None

        def search() -> list[np.ndarray]:
            found = peer.retrieve(known, k=depth, n_threads=threads, show_progress=False)
            return [row[row > 0] for row in found.scores]

        return search

    return {
        f"bm25s {backend} {threads or 1}": way(backend, threads)
        for backend in ("numpy", "numba")
        for threads in (0, -1)
    }


def _timed(what: str, work: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - started:.1f} s", flush=True)
    return result

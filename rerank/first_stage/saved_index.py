"""Saved indexes: built once for a corpus and an analyzer, found by fingerprint, checked when read.

    STORE/indexes/FINGERPRINT/{index.json, vocabulary.parquet, starts.npy, documents.npy, ...}

The fingerprint covers the analyzer with the versions of its packages, the BM25 settings and every
id and text of the corpus. index.json is written last: without it there is no index.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from rerank.analyzers import analyzer_versions
from rerank.errors import FrozenDataError
from rerank.fingerprint import fingerprint, sha256_bytes, sha256_file
from rerank.first_stage.bm25 import ARRAYS, BM25Index, BM25Settings, bm25_index, mapped_index
from rerank.first_stage.retrieval import Retriever
from rerank.first_stage.token_blocks import (
    BLOCK_CHARACTERS,
    Tokenise,
    blocks_of_texts,
    processors,
    tokenise_here,
    tokenise_in_processes,
)
from rerank.store import Store, parquet_bytes, table_from_bytes

INDEX_VERSION = 1  # raised when the same corpus would give other files
SPOKEN_EVERY = 250_000  # documents between two lines of progress

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CorpusIndex:
    """An index and the ids of its documents, in the order of its positions."""

    index: BM25Index
    doc_ids: list[str]

    @cached_property
    def position(self) -> dict[str, int]:
        return {doc_id: position for position, doc_id in enumerate(self.doc_ids)}

    @cached_property
    def retriever(self) -> Retriever:
        return Retriever(self.index)

    def best(
        self, queries: Sequence[Iterable[str]], depths: Sequence[int]
    ) -> list[dict[str, float]]:
        """For each query, given as tokens: document id -> score of its best, best first."""
        return [
            dict(
                zip(
                    [self.doc_ids[position] for position in ranking.positions],
                    ranking.scores.astype(np.float64).tolist(),
                    strict=True,
                )
            )
            for ranking in self.retriever.best_of_each(queries, depths)
        ]

    def scores(self, tokens: Iterable[str], doc_ids: Iterable[str]) -> dict[str, float]:
        """Document id -> score of those that the corpus holds; 0 without a token of the query."""
        known = [doc_id for doc_id in doc_ids if doc_id in self.position]
        positions = np.array([self.position[doc_id] for doc_id in known], dtype=np.int64)
        scores = self.retriever.scores(tokens, positions).astype(np.float64)
        return dict(zip(known, scores.tolist(), strict=True))


def index_of_corpus(
    documents: Mapping[str, str],
    analyzer_name: str,
    settings: BM25Settings,
    store: Store,
    *,
    tokenise: Tokenise | None = None,
    progress: Progress = lambda message: None,
) -> CorpusIndex:
    """The corpus's index: read where the store holds it, else built and saved there.

    A saved index that is torn or altered is never used: it is built anew, and `progress` is told.
    `tokenise` decides where the work is done; by default in this machine's processors.
    """
    settings.check()
    doc_ids = sorted(documents, key=str.encode, reverse=True)
    identity = {
        "version": INDEX_VERSION,
        "analyzer": analyzer_name,
        "packages": analyzer_versions(analyzer_name),
        "settings": asdict(settings),
        "corpus": corpus_digest(documents, doc_ids),
    }
    folder = f"indexes/{fingerprint(identity)}"
    try:
        index = load_index(store, folder)
    except FrozenDataError as error:
        progress(f"{error}; the index is built anew")
        index = None
    if index is None or index.n_documents != len(doc_ids):
        texts = _told((documents[doc_id] for doc_id in doc_ids), len(doc_ids), progress)
        tokenise = tokenise or _by_size(documents)
        index = bm25_index(tokenise(analyzer_name, blocks_of_texts(texts)), settings)
        save_index(store, folder, index, identity)
        if isinstance(store.root, Path):  # the files' pages can be given back, its own cannot
            index = mapped_index(store.root / folder, index.vocabulary, index.n_documents)
    return CorpusIndex(index, doc_ids)


def corpus_digest(documents: Mapping[str, str], doc_ids: Sequence[str]) -> str:
    """sha256 of ids and texts in the order of `doc_ids`, every one with its length before it."""
    digest = hashlib.sha256()
    for doc_id in doc_ids:
        for text in (doc_id, documents[doc_id]):
            data = text.encode("utf-8")
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return "sha256:" + digest.hexdigest()


def save_index(store: Store, folder: str, index: BM25Index, identity: dict[str, object]) -> None:
    """Write the index; its facts (identity, sizes, digests of the files) last."""
    files = {}
    for name in ARRAYS:
        sink = io.BytesIO()
        np.save(sink, getattr(index, name), allow_pickle=False)
        files[f"{name}.npy"] = _written(store, f"{folder}/{name}.npy", sink.getvalue())
    table = pa.table({"token": pa.array(list(index.vocabulary), pa.large_string())})
    files["vocabulary.parquet"] = _written(
        store, f"{folder}/vocabulary.parquet", parquet_bytes(table)
    )
    facts = {"identity": identity, "documents": index.n_documents, "files": files}
    store.write_json(f"{folder}/index.json", facts)


def _written(store: Store, key: str, data: bytes) -> str:
    store.write(key, data)
    return sha256_bytes(data)


def load_index(store: Store, folder: str) -> BM25Index | None:
    """The saved index, its arrays mapped from the files where the store is local; None if absent.

    FrozenDataError where a file is missing or differs from its digest.
    """
    facts = store.read_record(f"{folder}/index.json", {"identity", "documents", "files"})
    if facts is None or not isinstance(facts["files"], dict) or type(facts["documents"]) is not int:
        return None
    key = f"{folder}/vocabulary.parquet"
    data = _checked(store, key, facts["files"].get("vocabulary.parquet"))
    tokens = table_from_bytes(data, store.where(key)).column("token").to_pylist()
    vocabulary, count = {token: number for number, token in enumerate(tokens)}, facts["documents"]
    if not isinstance(store.root, Path):
        starts, documents, weights, peaks = (
            _array(store, folder, f"{name}.npy", facts["files"]) for name in ARRAYS
        )
        return BM25Index(vocabulary, starts, documents, weights, peaks, count)
    for name in ARRAYS:
        path = store.root / folder / f"{name}.npy"
        if not path.is_file() or sha256_file(path) != facts["files"].get(path.name):
            raise _damaged(store, f"{folder}/{path.name}")
    return mapped_index(store.root / folder, vocabulary, count)


def _array(store: Store, folder: str, name: str, digests: Mapping[str, str]) -> np.ndarray:
    data = _checked(store, f"{folder}/{name}", digests.get(name))
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def _checked(store: Store, key: str, digest: str | None) -> bytes:
    try:
        data = store.read(key)
    except FileNotFoundError:
        raise _damaged(store, key) from None
    if sha256_bytes(data) != digest:
        raise _damaged(store, key)
    return data


def _damaged(store: Store, key: str) -> FrozenDataError:
    return FrozenDataError(f"the saved index file {store.where(key)} is missing or was altered")


def _by_size(documents: Mapping[str, str]) -> Tokenise:
    """This process for a corpus of few blocks, which others would only start too late for."""
    few = sum(map(len, documents.values())) <= 8 * BLOCK_CHARACTERS
    return tokenise_here if few or processors() == 1 else tokenise_in_processes(processors())


def _told(texts: Iterable[str], total: int, progress: Progress) -> Iterator[str]:
    """The texts, with a line of progress now and then for a large corpus."""
    for number, text in enumerate(texts):
        if number and number % SPOKEN_EVERY == 0:
            progress(f"tokenising: {number:,} of {total:,} documents")
        yield text

"""A run and judgments of realistic shape, seeded: candidates a query, graded, with some ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JUDGED = 8  # judgments a query: three quarters among its candidates, the others not retrieved
GRADES = ((0, 1, 2, 3), (0.7, 0.15, 0.1, 0.05))
ROWS = 1 << 19  # of a row group, as writers make them; bounds memory while writing
RUN = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("score", pa.float64())])
QRELS = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("grade", pa.int32())])


def write_collection(folder: Path, queries: int, candidates: int) -> tuple[Path, Path]:
    """Files of a run and its judgments: `query_id, doc_id, score` and `query_id, doc_id, grade`."""
    rng = np.random.default_rng(29)
    # about 50,000 documents, as the nine Korean retrieval tasks offer to their 12,054 queries
    corpus = max(10 * (candidates + JUDGED), 4 * queries)
    documents = pa.array([f"doc-{number:07d}" for number in range(corpus)])
    names = pa.array([f"q{number:05d}" for number in range(queries)])
    run, qrels = folder / "run.parquet", folder / "qrels.parquet"
    with pq.ParquetWriter(run, RUN) as listed, pq.ParquetWriter(qrels, QRELS) as judged:
        block = max(1, ROWS // candidates)
        for start in range(0, queries, block):
            members = np.arange(start, min(start + block, queries))
            found, scores, known, grades = _block(len(members), candidates, corpus, rng)
            listed.write_table(
                pa.table([*_ids(names, members, documents, found), scores.ravel()], schema=RUN)
            )
            judged.write_table(
                pa.table([*_ids(names, members, documents, known), grades.ravel()], schema=QRELS)
            )
    return run, qrels


def _block(
    queries: int, candidates: int, corpus: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Documents and scores of the run, documents and grades of the judgments: a row a query."""
    inside = min(candidates, JUDGED * 3 // 4)
    width = candidates + JUDGED - inside
    # distinct in a query without sorting: steps of 1 or more that never go round the corpus
    steps = rng.integers(1, corpus // width, size=(queries, width))
    documents = (rng.integers(0, corpus, size=(queries, 1)) + np.cumsum(steps, axis=1)) % corpus
    documents = rng.permuted(documents, axis=1)
    grades = rng.choice(GRADES[0], p=GRADES[1], size=(queries, JUDGED)).astype(np.int32)
    scores = rng.normal(size=(queries, candidates))
    scores[:, :inside] += grades[:, :inside]
    scores = np.round(scores, 3)  # some have a twin
    judged = np.hstack([documents[:, :inside], documents[:, candidates:]])
    order = rng.permuted(np.tile(np.arange(candidates), (queries, 1)), axis=1)
    return (
        np.take_along_axis(documents, order, axis=1),
        np.take_along_axis(scores, order, axis=1),
        judged,
        grades,
    )


def _ids(names: Any, members: np.ndarray, documents: Any, codes: np.ndarray) -> list[Any]:
    """The two id columns: a query's name beside each of its documents."""
    return [names.take(np.repeat(members, codes.shape[1])), documents.take(codes.ravel())]

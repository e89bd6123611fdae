"""What a task is: where its texts and judgments come from and how its candidates are chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskSpec:
    """One task as its YAML file states it (configs/tasks/NAME.yaml).

    Paths are relative to the YAML file. Everything but title, description, licence and
    shard_pairs can change a candidate list or a judgment and is part of the task's identity.
    """

    name: str
    source: str = "beir"  # a row of SOURCES: beir | trec | frozen_jsonl
    folder: str = "."  # folder of the files below
    corpus: str = "corpus.jsonl"
    queries: str = "queries.jsonl"
    qrels: str = ""  # default: judgments.jsonl, qrels/SPLIT.tsv, qrels.trec or qrels.tsv
    candidates: str = "candidates.jsonl"  # frozen_jsonl only
    split: str = "test"
    revision: str = ""  # of the source, where it has one
    provenance: str = "unstated"  # of judgments that do not say: human | derived | synthetic ...
    query_attributes: tuple[str, ...] = ()  # keys of a query's metadata that become slices

    first_stage: str = "bm25"  # bm25 | run (an imported list); frozen_jsonl brings its own
    run: str = ""  # the imported run (TREC, MS MARCO or JSONL)
    analyzer: str = "whitespace"  # a row of ANALYZERS: mecab | english | whitespace
    method: str = "lucene"  # BM25 variant of bm25s: lucene | robertson | atire
    k1: float = 1.2
    b: float = 0.75
    depth: int = 100  # candidates a query, at most (frozen_jsonl keeps its lists whole)
    inject_gold: bool = False  # candidates = gold + the top `depth` that are not gold

    title: str = ""
    description: str = ""
    language: str = ""
    licence: str = ""
    shard_pairs: int = 2000  # pairs after which a shard is closed (whole queries)

"""What a task is: where its texts and judgments come from and how its candidates are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TaskSpec:
    """One task as its YAML file states it (configs/tasks/NAME.yaml).

    Paths are relative to the YAML file. Everything but title, description, licence, language,
    measures, trap, expected and shard_pairs can change a candidate list or a judgment and is part
    of the task's identity.
    """

    name: str
    source: str = "beir"  # a row of SOURCES: beir | trec | frozen_jsonl | hub
    folder: str = "."  # folder of the files below
    corpus: str = "corpus.jsonl"
    queries: str = "queries.jsonl"
    qrels: str = ""  # default: judgments.jsonl, qrels/SPLIT.tsv, qrels.trec or qrels.tsv
    candidates: str = "candidates.jsonl"  # frozen_jsonl only
    split: str = "test"
    # source hub: "owner/name" of the Hugging Face hub, or a folder laid out like it
    dataset: str = ""
    layout: str = "mteb"  # a row of LAYOUTS
    subset: str = ""  # language, domain or data set within it, as its configurations name it
    splits: tuple[str, ...] = ()  # evaluated splits; of several, the queries are pooled
    qrels_dataset: str = ""  # where the judgments are a data set of their own
    qrels_revision: str = ""
    topics: str = ""  # a file of queries that replaces the data set's; qrels likewise
    ignore_identical_ids: bool = False  # a document with the query's own id is no candidate
    revision: str = ""  # of the source, where it has one; of a hub data set: its commit
    provenance: str = "unstated"  # of judgments that do not say: human | derived | synthetic ...
    query_attributes: tuple[str, ...] = ()  # keys of a query's metadata that become slices

    # bm25 | run (an imported list) | ids | hybrid; frozen_jsonl brings its own
    first_stage: str = "bm25"
    run: str = ""  # the imported run (TREC, MS MARCO or JSONL)
    ids: str = ""  # first stage ids: {"query_id", "relevance_ids"}, JSONL or a JSON list
    ids_ordered: bool = False  # is the order of the ids a ranking? else they are a set
    fused_runs: tuple[str, ...] = ()  # first stage hybrid: runs fused with BM25 by reciprocal rank
    rrf_k: int = 60  # of reciprocal rank fusion: 1 / (k + rank)
    rrf_depth: int = 1000  # documents that each ranking gives to the fusion
    analyzer: str = "whitespace"  # a row of ANALYZERS: mecab | kiwi | bigram | english ...
    method: str = "lucene"  # BM25 variant of bm25s: lucene | robertson | atire
    k1: float = 1.2
    b: float = 0.75
    depth: int = 100  # candidates a query, at most (frozen_jsonl keeps its lists whole)
    inject_gold: bool = False  # the judged relevant documents become candidates, marked
    # beside them stand: beside: the top `depth` that are not gold | union: the top `depth` |
    # within: the top ones that are not gold, as many as `depth` has room for
    gold_rule: str = "beside"

    title: str = ""
    description: str = ""
    language: str = ""
    licence: str = ""
    measures: str = ""  # what the task measures
    trap: str = ""  # what its numbers do not say: domain, contamination, synthetic labels ...
    # counts that the source must hold: queries, documents, judgments, relevant, candidates;
    # or of each split: {dev: {queries: 200}, documents: 6176}
    expected: dict[str, Any] = field(default_factory=dict)
    shard_pairs: int = 2000  # pairs after which a shard is closed (whole queries)

"""Freeze: what is frozen, in which order, and that nobody can change it unseen.

Oracles: the texts that went in, byte for byte; BM25's formula written out; conformance 39.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rerank.errors import ConfigError, FrozenDataError, InputError
from rerank.fingerprint import sha256_bytes
from rerank.freezing import freeze
from rerank.frozen import FrozenTask, open_frozen, query_groups
from rerank.schemas import check_table
from rerank.store import Store
from rerank.tasks import TaskSpec
from tests.conftest import write_jsonl


def rows(task: FrozenTask) -> list[dict]:
    return [row for shard in task.shards for row in task.candidates(shard).to_pylist()]


def beir(folder: Path, documents: dict, queries: dict, qrels: str, **settings: object) -> TaskSpec:
    write_jsonl(folder / "corpus.jsonl", [{"_id": k, "text": v} for k, v in documents.items()])
    write_jsonl(folder / "queries.jsonl", [{"_id": k, "text": v} for k, v in queries.items()])
    (folder / "qrels.trec").write_text(qrels)
    return TaskSpec(name="t", folder=str(folder), **settings)


def test_the_same_inputs_give_the_same_bytes(
    make_task: Callable[..., Path], tmp_path: Path
) -> None:
    """Two stores, one fingerprint, equal files; freezing again does nothing."""
    spec = TaskSpec(
        name="tiny", folder=str(make_task()), analyzer="mecab", depth=10, shard_pairs=30
    )
    stores = [Store(tmp_path / name) for name in ("one", "two")]
    tasks = [freeze(spec, store) for store in stores]
    files = [
        {p.relative_to(s.root): p.read_bytes() for p in s.root.rglob("*") if p.is_file()}
        for s in stores
    ]
    assert tasks[0].fingerprint == tasks[1].fingerprint
    assert files[0] == files[1]
    assert len(tasks[0].shards) > 2
    before = {path: path.stat().st_mtime_ns for path in stores[0].root.rglob("*")}
    freeze(spec, stores[0])
    assert before == {path: path.stat().st_mtime_ns for path in stores[0].root.rglob("*")}


@pytest.mark.parametrize(
    "change", [{"depth": 9}, {"k1": 0.9}, {"analyzer": "whitespace"}, {"inject_gold": True}]
)
def test_whatever_changes_candidates_changes_the_fingerprint(
    make_task: Callable[..., Path], tmp_path: Path, change: dict
) -> None:
    """Even where the candidates happen to stay the same."""
    spec = TaskSpec(name="tiny", folder=str(make_task()), analyzer="mecab", depth=10)
    store = Store(tmp_path / "store")
    assert freeze(spec, store).fingerprint != freeze(replace(spec, **change), store).fingerprint


def test_circumstances_do_not_change_the_fingerprint(
    make_task: Callable[..., Path], tmp_path: Path
) -> None:
    """A moved folder and another title are the same task."""
    folder = make_task()
    spec = TaskSpec(name="tiny", folder=str(folder))
    moved = folder.rename(folder.with_name("moved"))
    other = TaskSpec(name="tiny", folder=str(moved), title="new")
    folder.mkdir()
    for file in moved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    found = [freeze(item, Store(tmp_path / f"s{i}")) for i, item in enumerate((spec, other))]
    assert found[0].fingerprint == found[1].fingerprint


def test_texts_are_kept_byte_for_byte(tmp_path: Path) -> None:
    """NFD Hangul, NUL, leading blanks, CR, emoji, empty and null texts all survive."""
    texts = {
        "nfd": "word 한국",
        "nul": "word \0 앞\0뒤",
        "blank": "  word　\r\n",
        "emoji": "word 👩‍👩‍👧",
        "empty": "",
        "null": None,
    }
    qrels = "".join(f"q 0 {name} 1\n" for name in texts)
    spec = beir(tmp_path / "c", texts, {"q": "word"}, qrels, inject_gold=True, depth=10)
    found = {row["doc_id"]: row for row in rows(freeze(spec, Store(tmp_path / "s")))}
    assert {name: row["document"] for name, row in found.items()} == {**texts, "null": ""}
    for row in found.values():
        assert row["doc_version"] == sha256_bytes(row["document"].encode())


def test_a_title_stands_before_the_text_with_one_blank(tmp_path: Path) -> None:
    """BEIR's reading for rerankers; no title, no blank."""
    folder = tmp_path / "c"
    spec = beir(folder, {}, {"q": "word"}, "q 0 a 1\nq 0 b 1\nq 0 c 1\n", inject_gold=True)
    write_jsonl(
        folder / "corpus.jsonl",
        [
            {"_id": "a", "title": "T", "text": "word"},
            {"_id": "b", "title": "", "text": "word"},
            {"_id": "c", "title": "T", "text": ""},
        ],
    )
    found = {row["doc_id"]: row["document"] for row in rows(freeze(spec, Store(tmp_path / "s")))}
    assert found == {"a": "T word", "b": "word", "c": "T"}


def test_bm25_scores_are_those_of_the_formula_and_ties_go_by_id(tmp_path: Path) -> None:
    """Lucene's BM25: idf log(1 + (N-n+.5)/(n+.5)), tf/(tf + k1 (1-b+b dl/avg)); ids descending."""
    texts = {"d1": "a b", "d2": "a b", "d3": "a a c d", "d4": "c d"}
    spec = beir(tmp_path / "c", texts, {"q": "a"}, "q 0 d4 1\n")
    found = rows(freeze(spec, Store(tmp_path / "s")))
    idf, average = math.log(1 + (4 - 3 + 0.5) / (3 + 0.5)), 10 / 4

    def score(tf: int, length: int) -> float:
        return idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * length / average))

    assert [row["doc_id"] for row in found] == ["d3", "d2", "d1"]
    expected = [score(2, 4), score(1, 2), score(1, 2)]
    assert [row["retrieval_score"] for row in found] == pytest.approx(expected, abs=1e-6)
    assert [row["rank"] for row in found] == [1, 2, 3]


def test_gold_is_injected_marked_and_never_favoured(tmp_path: Path) -> None:
    """Candidates = gold + the top N that are not gold; unretrieved gold stands last."""
    texts = {"g1": "x", "g2": "a", "n1": "a a", "n2": "a b", "n3": "a b c", "n4": "z"}
    spec = beir(tmp_path / "c", texts, {"q": "a"}, "q 0 g1 1\nq 0 g2 2\nq 0 n1 0\n", depth=2)
    store = Store(tmp_path / "s")
    plain, injected = freeze(spec, store), freeze(replace(spec, inject_gold=True), store)
    assert [row["doc_id"] for row in rows(plain)] == ["n1", "g2"]
    found = [(row["doc_id"], row["injected"]) for row in rows(injected)]
    assert found == [("n1", False), ("g2", False), ("n2", False), ("g1", True)]
    assert injected.counts["injected"] == 1


def test_a_changed_shard_is_found(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """One byte is enough; the manifest is checked as well."""
    store = Store(tmp_path / "s")
    task = freeze(TaskSpec(name="tiny", folder=str(make_task())), store)
    file = Path(store.where(f"{task.folder}/{task.shards[0].file}"))
    good = file.read_bytes()
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(FrozenDataError, match="changed after freezing"):
        task.verify()
    file.write_bytes(good)
    other = pq.read_table(Path(store.where(f"{task.folder}/judgments.parquet")))
    flipped = other.set_column(2, "grade", pc.subtract(pa.scalar(9, pa.int32()), other["grade"]))
    edited = dict(task.manifest, files=dict(task.manifest["files"]))
    data = store.write_table(
        f"{task.folder}/judgments.parquet", check_table(flipped, "judgments", "")
    )
    edited["files"]["judgments.parquet"] = sha256_bytes(data)
    with pytest.raises(FrozenDataError, match="holds other rows"):
        _ = FrozenTask(store, task.folder, edited).judgments
    manifest = Path(store.where(f"{task.folder}/manifest.json"))
    facts = json.loads(manifest.read_text())
    facts["identity"]["judgments"] = "sha256:0"
    manifest.write_text(json.dumps(facts))
    with pytest.raises(FrozenDataError, match="does not hash"):
        open_frozen(store, "tiny", task.fingerprint)


def test_candidates_stay_with_their_query(tmp_path: Path) -> None:
    """Conformance 16: four pairs, not the six of documents times queries."""
    write_jsonl(
        tmp_path / "candidates.jsonl",
        [
            {"qid": "q1", "query": "a", "candidates": [
                {"docid": "a", "text": "A", "grade": 1}, {"docid": "b", "text": "B", "grade": 0}]},
            {"qid": "q2", "query": "b", "candidates": [
                {"docid": "b", "text": "B", "grade": 1}, {"docid": "c", "text": "C", "grade": 0}]},
            {"qid": "q3", "query": "c", "candidates": []},
        ],
    )  # fmt: skip
    spec = TaskSpec(name="t", source="frozen_jsonl", folder=str(tmp_path))
    task = freeze(spec, Store(tmp_path / "s"))
    groups = [group for shard in task.shards for group in query_groups(task.candidates(shard))]
    found = [(group.query_id, doc_id) for group in groups for doc_id in group.doc_ids]
    assert found == [("q1", "a"), ("q1", "b"), ("q2", "b"), ("q2", "c")]
    assert task.counts["queries_without_candidates"] == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"query_id": "q", "query": "x"}, "candidates"),
        ({"query_id": "q", "query": "x", "candidates": [{"document_id": "d"}]},
         "'text' is missing"),
        ({"query_id": "q", "query": "x", "candidates": [
            {"document_id": "d", "text": "a"}, {"document_id": "d", "text": "b"}]}, "listed twice"),
        ({"query_id": "q", "query": "x", "candidates": [
            {"document_id": "d", "text": "a", "document_version": "sha256:" + 64 * "0"}]},
         "document_version"),
        ({"query_id": "q", "query": "x", "candidates": [], "weight": 1e300}, "weight"),
        ({"query_id": "q", "query": "x", "candidates": [], "weight": "2"}, "weight"),
        ({"query_id": "q", "query": "x", "candidates": [], "metadata": "m"}, "must be objects"),
        ({"query_id": "q", "query": "x", "candidates": [], "candidate_source": "\ud800"},
         "lone surrogate"),
        ({"query_id": "q", "query": "x", "candidates": [
            {"document_id": "d", "text": "a", "retrieval_rank": 2**40}]}, "not a rank"),
        ({"query_id": "q", "query": "x", "candidates": [
            {"document_id": "d", "text": "a", "retrieval_score": 10**400}]}, "not a number"),
        ({"query": "x", "candidates": []}, "query_id"),
        ({"query_id": "q", "query": "\ud800", "candidates": []}, "lone surrogate"),
    ],
)  # fmt: skip
def test_wrong_candidate_lines_are_refused(tmp_path: Path, line: dict, words: str) -> None:
    """File, line and field in one sentence."""
    path = tmp_path / "candidates.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match=words):
        freeze(
            TaskSpec(name="t", source="frozen_jsonl", folder=str(tmp_path)), Store(tmp_path / "s")
        )


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    """Duplicate ids, judged queries without text, a run over another corpus, unknown names."""
    store = Store(tmp_path / "s")
    spec = beir(tmp_path / "c", {"d": "a"}, {"q": "a"}, "q 0 d 1\nq2 0 d 1\n")
    with pytest.raises(InputError, match="1 judged queries have no text, first 'q2'"):
        freeze(spec, store)
    (tmp_path / "c" / "qrels.trec").write_text("q 0 d 1\n")
    (tmp_path / "c" / "run").write_text("q Q0 other 1 1.0 t\n")
    with pytest.raises(InputError, match="which the corpus does not hold"):
        freeze(replace(spec, first_stage="run", run="run"), store)
    with pytest.raises(ConfigError, match="Did you mean 'mecab'"):
        freeze(replace(spec, analyzer="mecb"), store)
    with pytest.raises(ConfigError, match="Did you mean 'beir'"):
        freeze(replace(spec, source="bier"), store)
    write_jsonl(tmp_path / "c" / "corpus.jsonl", [{"_id": "d", "text": "a"}] * 2)
    with pytest.raises(InputError, match="line 2: document 'd' stands twice"):
        freeze(spec, store)


def test_an_imported_run_keeps_its_order_and_its_ties_go_by_id(tmp_path: Path) -> None:
    """The file's line order decides nothing: one published list has the gold first everywhere."""
    spec = beir(tmp_path / "c", dict.fromkeys("abcd", "x"), {"q": "x"}, "q 0 a 1\n")
    (tmp_path / "c" / "run").write_text("q Q0 a 1 1 t\nq Q0 b 2 1 t\nq Q0 c 3 2 t\nq Q0 d 4 1 t\n")
    task = freeze(
        replace(spec, source="trec", first_stage="run", run="run", depth=3), Store(tmp_path / "s")
    )
    assert [row["doc_id"] for row in rows(task)] == ["c", "d", "b"]


def test_autorag_ko_has_the_first_stage_that_was_published(
    data_folder: Path, tmp_path: Path
) -> None:
    """114 queries, 720 documents; recall@50 of the published lists is 1.0."""
    spec = TaskSpec(name="a", folder=str(data_folder / "autorag_ko"), analyzer="mecab", depth=50)
    task = freeze(spec, Store(tmp_path / "s"))
    gold = dict(
        zip(
            task.judgments["query_id"].to_pylist(),
            task.judgments["doc_id"].to_pylist(),
            strict=True,
        )
    )
    found = {(row["query_id"], row["doc_id"]) for row in rows(task)}
    assert (task.counts["queries"], task.counts["documents"], len(found)) == (114, 720, 5700)
    assert sum((query, doc) in found for query, doc in gold.items()) >= 112


def test_a_document_with_the_querys_own_id_is_no_candidate(tmp_path: Path) -> None:
    """As for ArguAna and Quora, whose queries stand in the corpus themselves."""
    documents, queries = {"1": "red fox", "2": "red fox runs"}, {"1": "red fox"}
    spec = beir(tmp_path, documents, queries, "1 0 2 1\n")
    offered = rows(freeze(spec, Store(tmp_path / "all")))
    assert [row["doc_id"] for row in offered] == ["1", "2"]
    alone = freeze(replace(spec, ignore_identical_ids=True), Store(tmp_path / "others"))
    assert [row["doc_id"] for row in rows(alone)] == ["2"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("splits", ("dev",), "source beir does not read splits"),
        ("subset", "ko", "source beir does not read subset"),
        ("topics", "topics.tsv", "source beir does not read topics"),
        ("ids", "lists.jsonl", "first_stage: bm25 does not read ids"),
        ("run", "bm25.run", "first_stage: bm25 does not read run"),
        ("fused_runs", ("dense.run",), "first_stage: bm25 does not read fused_runs"),
    ],
)
def test_a_key_that_nobody_would_read_is_refused(
    key: str, value: object, words: str, tmp_path: Path
) -> None:
    """Else other data were frozen than the file says."""
    spec = beir(tmp_path, {"d": "red fox"}, {"q": "fox"}, "q 0 d 1\n")
    with pytest.raises(ConfigError, match=words):
        freeze(replace(spec, **{key: value}), Store(tmp_path / "store"))


def test_queries_without_candidates_are_told_and_nothing_at_all_is_refused(tmp_path: Path) -> None:
    """One of two queries has no token; then both."""
    queries = {"q1": "fox", "q2": "!!!"}
    spec = beir(tmp_path, {"d": "red fox"}, queries, "q1 0 d 1\nq2 0 d 1\n")
    told: list[str] = []
    freeze(spec, Store(tmp_path / "one"), told.append)
    assert "t: 1 queries have no candidate and score 0, first 'q2'" in told
    spec = beir(tmp_path, {"d": "red fox"}, {"q1": "???", "q2": "!!!"}, "q1 0 d 1\nq2 0 d 1\n")
    with pytest.raises(InputError, match="no query has a candidate"):
        freeze(spec, Store(tmp_path / "none"))

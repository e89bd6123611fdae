"""Every file of configs/tasks and configs/suites: it loads, says what it is, and reads its data.

Oracles: MTEB 2.26's descriptive statistics for the Korean counts (12,054 queries); the real
collections, written into the hub's layout, for what the files expect of them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.config import load_suite, load_task, suite_spec, suite_tasks, task_values
from rerank.errors import ConfigError, InputError
from rerank.files.qrels_files import read_qrels
from rerank.freezing import check_spec, freeze
from rerank.frozen import FrozenTask
from rerank.sources import load_collection
from rerank.sources.expected import expected_queries
from rerank.sources.hub_location import COMMIT
from rerank.store import Store
from rerank.tasks import TaskSpec
from tests import hub_folders
from tests.conftest import ROOT
from tests.hub_folders import mteb, write_folder, write_task_data

CONFIGS = ROOT / "configs"
TASKS = sorted(path.stem for path in (CONFIGS / "tasks").glob("*.yaml"))
SUITES = sorted(path.stem for path in (CONFIGS / "suites").glob("*.yaml"))
EARLIER = {"demo", "autorag-ko"}  # a made-up demo, and the folder form of autoragretrieval
HUB = [
    name
    for name in TASKS
    if name not in EARLIER and "dataset" in task_values(CONFIGS / "tasks" / f"{name}.yaml")
]
# name -> queries and splits, as MTEB(kor, v2) has them
KOREAN = {
    "ko-strategyqa": (592, ("dev",)),
    "autoragretrieval": (114, ("test",)),
    "miraclretrieval-ko": (213, ("dev",)),
    "publichealthqa-ko": (77, ("test",)),
    "belebeleretrieval-ko": (900, ("test",)),
    "mrtidyretrieval-ko": (421, ("test",)),
    "squadkorv1retrieval": (5774, ("test",)),
    "lawirko": (3563, ("test",)),
    "multilongdocretrieval-ko": (400, ("dev", "test")),
}
UNPINNED = {name for name in TASKS if name.startswith("airbench-")} | {"publichealthqa-ko"}
# of a scaled copy: two queries a split, four documents; what each layout's small data set holds
SCALED = {"queries": 2, "documents": 4, "judgments": 3, "relevant": 2}
SCALED_KOREAN: dict[str, dict[str, Any]] = {
    **{name: SCALED for name in KOREAN},
    "publichealthqa-ko": {"queries": 3, "documents": 2, "relevant": 3},
    "belebeleretrieval-ko": {"queries": 3, "documents": 2, "relevant": 3},
    "multilongdocretrieval-ko": {"dev": {"queries": 2}, "test": {"queries": 2}, "documents": 4},
    "miraclreranking-ko": {**SCALED, "candidates": 3},
}


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub_folders.isolate(monkeypatch, tmp_path)
    monkeypatch.setenv("RERANK_DATA", str(tmp_path / "data"))


def scaled(name: str, tmp_path: Path, **keys: Any) -> TaskSpec:
    """The real file over a small copy of its data set, its counts overridden as a suite may."""
    write_task_data(tmp_path / "hub", load_task(CONFIGS, name))
    return load_task(CONFIGS, name, overrides={"expected": {}, **keys})


def rows(task: FrozenTask) -> list[dict[str, Any]]:
    return [row for shard in task.shards for row in task.candidates(shard).to_pylist()]


@pytest.mark.parametrize("name", TASKS)
def test_a_task_says_what_it_is(name: str) -> None:
    """A comment first; then what it measures, its trap, licence, language and where it is from."""
    spec = load_task(CONFIGS, name)
    check_spec(spec)
    assert (CONFIGS / "tasks" / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")
    assert spec.licence
    assert spec.language
    assert spec.title
    assert spec.measures
    assert spec.trap
    if spec.source == "hub":
        assert spec.dataset.count("/") == 1
        assert bool(COMMIT.fullmatch(spec.revision)) is (name not in UNPINNED)
    if "not checked" not in spec.trap:
        assert expected_queries(spec)


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_loads_with_its_tasks_and_models(name: str) -> None:
    """Names are files, measures are measures, the baseline is a model."""
    suite = load_suite(CONFIGS / "suites" / f"{name}.yaml")
    assert suite.spec.title
    assert len(suite.tasks) == len(suite.spec.tasks)


def test_a_family_is_no_task() -> None:
    """Its keys are another file's: nothing in families/ is listed, everything is used."""
    families = {path.stem for path in (CONFIGS / "tasks" / "families").glob("*.yaml")}
    texts = [(CONFIGS / "tasks" / f"{name}.yaml").read_text(encoding="utf-8") for name in TASKS]
    assert {f for f in families if any(f"base: {f}\n" in text for text in texts)} == families


def test_the_korean_suites_are_the_nine_tasks_of_mteb() -> None:
    """12,054 queries; one suite injects the gold into the top 50, the other has the top 100."""
    found = {}
    for suite in ("korean", "korean-fair"):
        tasks = suite_tasks(suite_spec(CONFIGS / "suites" / f"{suite}.yaml"), CONFIGS)
        found[suite] = {(task.depth, task.inject_gold, task.analyzer) for task in tasks}
        names = [task.name.removesuffix(".gold50") for task in tasks]
        assert {
            n: (expected_queries(t), t.splits) for n, t in zip(names, tasks, strict=True)
        } == KOREAN
        assert all(task.name.endswith(".gold50") is (suite == "korean") for task in tasks)
    assert found == {"korean": {(50, True, "mecab")}, "korean-fair": {(100, False, "mecab")}}
    assert sum(queries for queries, _ in KOREAN.values()) == 12_054


@pytest.mark.parametrize("name", SCALED_KOREAN)
def test_a_korean_task_is_frozen_from_the_hubs_layout(name: str, tmp_path: Path) -> None:
    """The real file, end to end, with the counts of a small copy; other counts are refused."""
    spec = scaled(name, tmp_path, expected=SCALED_KOREAN[name])
    frozen = freeze(spec, Store(tmp_path / "store"))
    counts = frozen.counts
    assert counts["queries"] == expected_queries(spec)
    assert counts["documents"] == spec.expected["documents"]
    assert counts["judged_outside_corpus"] == 0
    assert {row["provenance"] for row in frozen.judgments.to_pylist()} == {spec.provenance}
    with pytest.raises(InputError, match="expected and .* found"):
        load_collection(load_task(CONFIGS, name))


def test_the_korean_suite_freezes_what_the_fair_one_does_not(tmp_path: Path) -> None:
    """Gold that BM25 does not find is injected and marked in one, and absent from the other."""
    write_task_data(tmp_path / "hub", load_task(CONFIGS, "ko-strategyqa"))
    qrels = tmp_path / "hub/taeminlee/Ko-StrategyQA"
    write_folder(qrels, mteb({"q": "서울"}, hub_folders.KOREAN, {"dev": [("q", "d3", 1)]}))
    found = {}
    for suite in ("korean", "korean-fair"):
        spec = suite_spec(CONFIGS / "suites" / f"{suite}.yaml")
        spec = replace(spec, task_overrides={**spec.task_overrides, "expected": {}})
        (task,) = suite_tasks(replace(spec, tasks=("ko-strategyqa",)), CONFIGS)
        frozen = freeze(task, Store(tmp_path / "store"))
        found[frozen.name] = {(row["doc_id"], row["injected"]) for row in rows(frozen)}
    assert found == {
        "ko-strategyqa.gold50": {("d1", False), ("d3", True)},
        "ko-strategyqa": {("d1", False)},
    }


@pytest.mark.parametrize("name", HUB)
def test_every_hub_task_reads_its_layout(name: str, tmp_path: Path) -> None:
    """A small data set with the task's configurations, splits and columns; two queries or more."""
    spec = scaled(name, tmp_path)
    found = load_collection(spec)
    assert len(found.queries) >= 2
    assert {row.query_id for row in found.judgments} == found.queries.keys()
    assert (found.candidates is not None) is ("candidates" in load_task(CONFIGS, name).expected)


def test_publichealthqa_must_be_pinned_by_its_user() -> None:
    """Without a folder and a commit nothing is read."""
    spec = load_task(CONFIGS, "publichealthqa-ko")
    with pytest.raises(ConfigError, match="copy the commit from huggingface.co/datasets/xhluca/"):
        load_collection(spec)


def test_a_suites_overrides_need_a_name_of_their_own(tmp_path: Path) -> None:
    """Both keys or neither; unknown keys are told with the nearest name."""
    suite = CONFIGS / "suites" / "korean-fair.yaml"
    for words, sentence in (
        (["task_overrides={depth: 5}"], "task_overrides and variant belong together"),
        (["variant=x"], "task_overrides and variant belong together"),
        (["task_overrides={dpth: 5}", "variant=x"], "Did you mean 'depth'"),
        (["task_overrides={name: x}", "variant=x"], "unknown key"),
        (["task_overrides={depth: five}", "variant=x"], "depth: must be int"),
        (["task_overrides={expected: {querys: 1}}", "variant=x"], "Did you mean 'queries'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            load_suite(suite, words)


def test_an_unknown_family_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    """base: names a file of families/."""
    (tmp_path / "tasks" / "families").mkdir(parents=True)
    (tmp_path / "tasks" / "families" / "beir.yaml").write_text("depth: 7\nlanguage: en\n")
    (tmp_path / "tasks" / "a.yaml").write_text("base: beir\nlanguage: ko\n")
    (tmp_path / "tasks" / "b.yaml").write_text("base: bier\n")
    spec = load_task(tmp_path, "a")
    assert (spec.name, spec.depth, spec.language) == ("a", 7, "ko")
    with pytest.raises(ConfigError, match="Did you mean 'beir'"):
        load_task(tmp_path, "b")


def write_real(folder: Path, data: Path, split: str, **settings: Any) -> None:
    """A real collection of BEIR files in the hub's layout."""
    documents = {
        row["_id"]: (row.get("title", ""), row["text"])
        for row in map(json.loads, (data / "corpus.jsonl").open(encoding="utf-8"))
    }
    judged = [
        (row.query_id, row.doc_id, row.grade) for row in read_qrels(data / "qrels.trec", "human")
    ]
    write_folder(folder, mteb(real_queries(data), documents, {split: judged}, **settings))


def real_queries(data: Path) -> dict[str, str]:
    lines = (data / "queries.jsonl").open(encoding="utf-8")
    return {row["_id"]: row["text"] for row in map(json.loads, lines)}


@pytest.mark.parametrize(
    ("name", "collection", "titled"),
    [("autoragretrieval", "autorag_ko", False), ("beir-scifact", "scifact_en", True)],
)
def test_a_real_collection_holds_what_its_file_expects(
    name: str, collection: str, titled: bool, data_folder: Path, tmp_path: Path
) -> None:
    """AutoRAG: 114 queries, 720 documents; SciFact: 300 and 5,183, with titles."""
    spec = load_task(CONFIGS, name)
    write_real(tmp_path / "hub" / spec.dataset, data_folder / collection, "test", titled=titled)
    assert len(load_collection(spec).documents) == spec.expected["documents"]


def test_korquad_has_one_passage_more_than_mteb_counts(data_folder: Path, tmp_path: Path) -> None:
    """5,774 queries over 961 passages: the difference is told, and is the only one.

    MTEB counts 960 documents of 523,388 characters: those of the 961 with their titles, less 1,181.
    """
    spec = load_task(CONFIGS, "squadkorv1retrieval")
    data = data_folder / "korquad_v1_dev"
    write_real(tmp_path / "hub" / spec.dataset, data, "test")
    with pytest.raises(InputError, match="960 documents expected and 961 found"):
        load_collection(spec)
    found = load_collection(replace(spec, expected={**spec.expected, "documents": 961}))
    lengths = [len(text) for text in found.documents.values()]
    assert lengths.count(sum(lengths) - 523_388) == 1


@pytest.mark.parametrize(
    ("name", "collection"),
    [
        ("miraclretrieval-ko", "miracl_ko_dev_qrels"),
        ("mrtidyretrieval-ko", "mrtydi_ko_test_qrels"),
        ("trec-dl-2019", "dl19_passage_qrels"),
        ("trec-dl-2020", "dl20_passage_qrels"),
    ],
)
def test_official_topics_and_qrels_hold_what_the_files_expect(
    name: str, collection: str, data_folder: Path, tmp_path: Path
) -> None:
    """Queries and relevant documents; judged negatives are kept. The passages are made up."""
    spec = load_task(CONFIGS, name)
    data = data_folder / collection
    judged = [
        (row.query_id, row.doc_id, row.grade) for row in read_qrels(data / "qrels.trec", "human")
    ]
    documents = {doc: ("", f"passage {doc}") for _, doc, _ in judged}
    tables = mteb(real_queries(data), documents, {spec.splits[0]: judged}, subset=spec.subset)
    write_folder(tmp_path / "hub" / spec.dataset, tables)
    found = load_collection(replace(spec, expected={**spec.expected, "documents": len(documents)}))
    assert len(found.judgments) == len(judged)


def test_noveleval_is_frozen_as_it_was_judged(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """21 queries, 20 candidates each, 420 judgments."""
    monkeypatch.setenv("RERANK_DATA", str(data_folder))
    frozen = freeze(load_task(CONFIGS, "noveleval"), Store(tmp_path / "store"))
    assert (frozen.counts["pairs"], frozen.counts["grades"]) == (420, {"0": 290, "1": 40, "2": 90})


def test_a_track_of_files_is_read_as_its_site_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TREC DL 2021: topics as id<TAB>text, qrels with four columns, the official top-100 run."""
    folder = tmp_path / "hub" / "trec-dl-2021"
    folder.mkdir(parents=True)
    (folder / "2021_queries.tsv").write_text("2082\tAt about what age do adults\n9\tunjudged\n")
    (folder / "2021.qrels.pass.final.txt").write_text(
        "2082 0 msmarco_passage_01_1 3\n2082 0 msmarco_passage_02_2 0\n"
    )
    (folder / "2021_passage_top100.txt").write_text(
        "2082 Q0 msmarco_passage_02_2 1 9.5 Anserini\n9 Q0 msmarco_passage_02_2 1 9.5 Anserini\n"
    )
    passages = [{"_id": f"msmarco_passage_0{n}_{n}", "text": f"passage {n}"} for n in (1, 2)]
    text = "".join(json.dumps(row) + "\n" for row in passages)
    (folder / "corpus.jsonl").write_text(text)
    spec = load_task(CONFIGS, "trec-dl-2021", overrides={"expected": {"judgments": 2}})
    assert [row["doc_id"] for row in rows(freeze(spec, Store(tmp_path / "store")))] == [
        "msmarco_passage_02_2"
    ]


def test_a_large_corpus_is_read_in_batches(tmp_path: Path) -> None:
    """More rows than one batch: none is lost, none stands twice."""
    count = 20_001
    tables = {
        ("corpus", "corpus"): pa.table(
            {"_id": [f"d{n}" for n in range(count)], "text": [f"글 {n}" for n in range(count)]}
        ),
        ("queries", "queries"): pa.table({"_id": ["q"], "text": ["글"]}),
        ("default", "test"): hub_folders.judgment_table([("q", "d20000", 1)]),
    }
    write_folder(tmp_path / "hub/a/b", tables)
    spec = TaskSpec(name="t", source="hub", dataset="a/b", splits=("test",))
    found = load_collection(replace(spec, expected={"documents": count}))
    assert found.documents["d20000"] == "글 20000"

"""Source hub: every layout through `datasets.load_dataset`, and what is refused with one sentence.

Oracles: the rows written by tests/hub_folders.py; MTEB 2.26's ids where it derives them; the task
contract (counts, commits, splits, exclusions).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rerank.errors import ConfigError, InputError
from rerank.files.formats import Judgment
from rerank.freezing import freeze, spec_identity
from rerank.sources import Collection, load_collection
from rerank.sources.hub_location import Located, locate
from rerank.store import Store
from rerank.tasks import TaskSpec
from tests import hub_folders
from tests.conftest import write_jsonl
from tests.hub_folders import COMMIT, OTHER_COMMIT, mteb, write_cache, write_folder

QUERIES = {"q1": "사과", "q2": "배", "q3": "아무도 판정하지 않음"}
DOCUMENTS = {
    "d1": ("과일", "사과 하나"),
    "d2": ("", "배 둘"),
    "d3": (None, None),
    "d4": ("제목", ""),
}
JUDGED = [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d2", 1)]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub_folders.isolate(monkeypatch, tmp_path)


def task(tmp_path: Path, tables: hub_folders.Tables, **keys: object) -> TaskSpec:
    """A task over OWNER/NAME, written below RERANK_DATASETS."""
    write_folder(tmp_path / "hub" / "owner" / "name", tables)
    settings = {"dataset": "owner/name", "splits": ("test",), "revision": COMMIT, **keys}
    return TaskSpec(name="t", source="hub", folder=str(tmp_path), **settings)


def grades(found: Collection) -> dict[tuple[str, str], int]:
    return {(row.query_id, row.doc_id): row.grade for row in found.judgments}


def texts(found: Collection) -> dict[str, str]:
    return {key: query.text for key, query in found.queries.items()}


@pytest.mark.parametrize("id_name", ["_id", "id"])
@pytest.mark.parametrize(("subset", "qrels"), [("", "default"), ("", "qrels"), ("ko", "")])
def test_the_mteb_layout(tmp_path: Path, id_name: str, subset: str, qrels: str) -> None:
    """Titles first, nulls as empty texts, grade 0 kept, queries without a judgment left out."""
    tables = mteb(QUERIES, DOCUMENTS, {"test": JUDGED}, subset=subset, id_name=id_name, qrels=qrels)
    found = load_collection(task(tmp_path, tables, subset=subset, provenance="human"))
    assert found.documents == {"d1": "과일 사과 하나", "d2": "배 둘", "d3": "", "d4": "제목"}
    assert texts(found) == {"q1": "사과", "q2": "배"}
    assert found.judgments == [Judgment(*row, "human") for row in JUDGED]
    assert found.candidates is None
    assert found.notes["null_documents"] == 1
    assert found.notes["queries_without_judgment"] == 1


def test_one_subset_of_several_is_read(tmp_path: Path) -> None:
    """Another language's configurations stand beside and are left alone."""
    other = mteb({"x": "y"}, {"z": ("", "w")}, {"dev": [("x", "z", 1)]}, subset="sw")
    ours = mteb(QUERIES, DOCUMENTS, {"dev": JUDGED}, subset="ko", corpus_split="train")
    found = load_collection(task(tmp_path, {**other, **ours}, subset="ko", splits=("dev",)))
    assert found.documents.keys() == DOCUMENTS.keys()


def test_texts_are_kept_byte_for_byte(tmp_path: Path) -> None:
    """NFD Hangul, NUL, blanks around, CR LF, emoji; nothing is stripped or normalised."""
    odd = {"a": "한국", "b": "앞\0뒤", "c": "  x　\r\n", "d": "👩‍👩‍👧", "e": "\u2028"}
    tables = mteb(
        {"q": " 물음 \n"}, {k: ("", v) for k, v in odd.items()}, {"test": [("q", "a", 1)]}
    )
    found = load_collection(task(tmp_path, tables))
    assert found.documents == odd
    assert texts(found) == {"q": " 물음 \n"}


def test_integer_ids_become_text_and_large_strings_are_read(tmp_path: Path) -> None:
    """int64 ids on both sides, as some data sets have them; large_string texts; float scores."""
    tables = {
        ("corpus", "corpus"): pa.table(
            {"_id": [7, 8], "text": pa.array(["x", "y"], "large_string")}
        ),
        ("queries", "queries"): pa.table({"_id": [1], "text": ["x"]}),
        ("default", "test"): pa.table({"query-id": [1], "corpus-id": [7], "score": [1.0]}),
    }
    found = load_collection(task(tmp_path, tables))
    assert (found.documents, grades(found)) == ({"7": "x", "8": "y"}, {("1", "7"): 1})


def test_corpus_ids_may_be_lists(tmp_path: Path) -> None:
    """One row, several documents."""
    tables = dict(mteb(QUERIES, DOCUMENTS, {"test": []}))
    tables["default", "test"] = pa.table(
        {
            "query-id": ["q1", "q2"],
            "corpus-id": pa.array([["d1", "d2"], ["d3"]], hub_folders.STRINGS),
            "score": pa.array([1, 1], pa.int32()),
        }
    )
    found = grades(load_collection(task(tmp_path, tables)))
    assert found == {("q1", "d1"): 1, ("q1", "d2"): 1, ("q2", "d3"): 1}


def test_top_ranked_is_kept_as_given_and_its_order_says_nothing(tmp_path: Path) -> None:
    """The sets are the data set's; a list that has the gold first is ordered as its reverse is.

    A judged query without a list keeps an empty one.
    """
    lists = {"q1": ["d1", "d2", "d3"]}
    orders = []
    for place, listed in enumerate((lists["q1"], lists["q1"][::-1])):
        tables = mteb(QUERIES, DOCUMENTS, {"test": JUDGED}, top_ranked={"test": {"q1": listed}})
        found = load_collection(task(tmp_path / str(place), tables, dataset="hub/owner/name"))
        assert found.candidates is not None
        assert {row.doc_id for row in found.candidates["q1"]} == {"d1", "d2", "d3"}
        assert found.candidates["q2"] == []
        assert {row.score for row in found.candidates["q1"]} == {None}
        orders.append([(row.doc_id, row.rank) for row in found.candidates["q1"]])
    assert orders[0] == orders[1]


def test_an_instruction_stands_behind_its_query(tmp_path: Path) -> None:
    """As MTEB joins them: text, one blank, instruction."""
    tables = mteb(QUERIES, DOCUMENTS, {"test": JUDGED}, instructions={"q1": "짧게"})
    assert texts(load_collection(task(tmp_path, tables))) == {"q1": "사과 짧게", "q2": "배"}


def test_columns_of_queries_become_slices(tmp_path: Path) -> None:
    """query_attributes names them."""
    tables = dict(mteb(QUERIES, DOCUMENTS, {"test": JUDGED}))
    asked = tables["queries", "queries"]
    tables["queries", "queries"] = asked.append_column("kind", pa.array(["fruit", None, "x"]))
    found = load_collection(task(tmp_path, tables, query_attributes=("kind",)))
    assert [query.attributes for query in found.queries.values()] == [{"kind": "fruit"}, {}]


def test_trec_topics_and_qrels_over_the_data_sets_corpus(tmp_path: Path) -> None:
    """MS MARCO's corpus with a TREC track's files, grades 0 to 3."""
    (tmp_path / "topics.tsv").write_text("19\tapple pie\n20\tnobody judged this\n")
    (tmp_path / "qrels.txt").write_text("19 0 d1 3\n19 0 d2 0\n")
    tables = mteb(QUERIES, DOCUMENTS, {"dev": JUDGED})
    found = load_collection(task(tmp_path, tables, topics="topics.tsv", qrels="qrels.txt"))
    assert texts(found) == {"19": "apple pie"}
    assert grades(found) == {("19", "d1"): 3, ("19", "d2"): 0}
    assert found.documents.keys() == DOCUMENTS.keys()


def test_the_old_reranking_layout(tmp_path: Path) -> None:
    """MTEB's ids; the candidates are the positives and negatives, which no longer stand first."""
    rows = [("물음", ["맞음"], ["틀림", "또 틀림"]), ("둘", ["예"], [])]
    found = load_collection(task(tmp_path, hub_folders.reranking("test", rows), layout="reranking"))
    assert texts(found) == {"test_query0": "물음", "test_query1": "둘"}
    assert found.documents["negative_test_query0_00001"] == "또 틀림"
    assert grades(found) == {
        ("test_query0", "apositive_test_query0_00000"): 1,
        ("test_query0", "negative_test_query0_00000"): 0,
        ("test_query0", "negative_test_query0_00001"): 0,
        ("test_query1", "apositive_test_query1_00000"): 1,
    }
    assert found.candidates is not None
    assert [len(rows) for rows in found.candidates.values()] == [3, 1]


@pytest.mark.parametrize("listed", [False, True])
def test_nanobeir_has_splits_named_after_data_sets(tmp_path: Path, listed: bool) -> None:
    """Grades are 1; a corpus-id may be a list."""
    tables = hub_folders.nanobeir("NanoMSMARCO", listed=listed)
    found = load_collection(task(tmp_path, tables, layout="nanobeir", splits=("NanoMSMARCO",)))
    assert grades(found) == {("q1", "d1"): 1, ("q1", "d2"): 1, ("q2", "d2"): 1}
    assert (len(found.documents), found.candidates) == (3, None)


def test_excluded_ids_of_bright_are_never_offered(tmp_path: Path) -> None:
    """a/2.txt matches the first query best and is excluded for it, and for it alone."""
    spec = task(
        tmp_path, hub_folders.bright(), layout="bright", subset="biology", splits=("standard",)
    )
    found = load_collection(spec)
    assert found.excluded == {"0": frozenset({"a/2.txt"})}
    assert grades(found) == {("0", "a/1.txt"): 1, ("0", "a/3.txt"): 1, ("1", "a/3.txt"): 1}
    frozen = freeze(spec, Store(tmp_path / "store"))
    rows = [row for shard in frozen.shards for row in frozen.candidates(shard).to_pylist()]
    offered = {(row["query_id"], row["doc_id"]) for row in rows}
    assert offered == {("0", "a/1.txt"), ("1", "a/3.txt"), ("1", "a/1.txt"), ("1", "a/2.txt")}


def test_the_long_side_of_bright(tmp_path: Path) -> None:
    """long_documents with gold_ids_long."""
    spec = task(tmp_path, hub_folders.bright(), layout="bright", subset="biology", splits=("long",))
    found = load_collection(spec)
    assert grades(found) == {("0", "long/1.txt"): 1, ("1", "long/2.txt"): 1}
    assert found.documents == {"long/1.txt": "sky light", "long/2.txt": "cell wall"}


def test_airbench_has_its_judgments_elsewhere(tmp_path: Path) -> None:
    """Two data sets; a hard negative has grade 0; the hidden test queries are not read."""
    tables, judgments = hub_folders.airbench()
    write_folder(tmp_path / "hub" / "owner" / "qrels-name-dev", judgments)
    spec = task(
        tmp_path,
        tables,
        layout="airbench",
        subset="AIR-Bench_24.05/default",
        splits=("dev",),
        qrels_dataset="owner/qrels-name-dev",
    )
    found = load_collection(spec)
    assert texts(found) == {"q1": "서울 날씨", "q2": "부산 바다"}
    assert grades(found) == {("q1", "d1"): 1, ("q1", "d2"): 0, ("q2", "d2"): 1}


def test_belebele_is_read_as_retrieval(tmp_path: Path) -> None:
    """One passage a link, one query a question, in two languages where the subset says so."""
    tables = hub_folders.belebele("kor_Hang", "eng_Latn")
    spec = task(tmp_path, tables, layout="belebele", subset="kor_Hang-eng_Latn")
    found = load_collection(spec)
    assert found.documents == {"C0": "p1 kor_Hang 문단", "C1": "p2 kor_Hang 문단"}
    assert texts(found)["Q1"] == "q2 eng_Latn 질문"
    assert grades(found) == {("Q0", "C0"): 1, ("Q1", "C0"): 1, ("Q2", "C1"): 1}


def test_equal_answers_of_publichealthqa_are_one_document(tmp_path: Path) -> None:
    """A row without an answer counts for the numbering of questions and for nothing else."""
    spec = task(tmp_path, hub_folders.public_health_qa(), layout="question_answer", subset="korean")
    found = load_collection(spec)
    assert found.documents == {"D0": "네, 마스크를 쓰세요", "D1": "집에 머무세요"}
    assert grades(found) == {("Q0", "D0"): 1, ("Q1", "D1"): 1, ("Q2", "D1"): 1}


def test_two_splits_are_pooled_with_an_attribute(tmp_path: Path) -> None:
    """Equal sizes: the pooled mean is the mean of the splits' means, as MTEB reports it."""
    tables = mteb(QUERIES, DOCUMENTS, {"dev": [("q1", "d1", 1)], "test": [("q2", "d2", 1)]})
    found = load_collection(task(tmp_path, tables, splits=("dev", "test")))
    slices = {key: query.attributes for key, query in found.queries.items()}
    assert slices == {"q1": {"split": "dev"}, "q2": {"split": "test"}}


def test_ids_that_two_splits_share_get_the_splits_name(tmp_path: Path) -> None:
    """dev/q1 and test/q1 are two queries."""
    tables = mteb(QUERIES, DOCUMENTS, {"dev": [("q1", "d1", 1)], "test": [("q1", "d2", 1)]})
    found = load_collection(task(tmp_path, tables, splits=("dev", "test")))
    assert grades(found) == {("dev/q1", "d1"): 1, ("test/q1", "d2"): 1}
    assert texts(found) == {"dev/q1": "사과", "test/q1": "사과"}


def test_splits_of_different_sizes_are_refused(tmp_path: Path) -> None:
    """Their pooled mean is not what MTEB averages."""
    tables = mteb(QUERIES, DOCUMENTS, {"dev": JUDGED, "test": [("q2", "d2", 1)]})
    with pytest.raises(InputError, match=r"dev 2, test 1 queries\) cannot be pooled"):
        load_collection(task(tmp_path, tables, splits=("dev", "test")))


def test_a_document_with_the_querys_id_is_no_candidate(tmp_path: Path) -> None:
    """ArguAna: the argument itself is in the corpus."""
    tables = mteb({"d1": "사과"}, DOCUMENTS, {"test": [("d1", "d2", 1)]})
    spec = task(tmp_path, tables, ignore_identical_ids=True)
    assert load_collection(spec).excluded == {"d1": frozenset({"d1"})}
    assert load_collection(replace(spec, ignore_identical_ids=False)).excluded == {}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"splits": ("dev",)}, "no split 'dev' \\(there is 'test'\\); check splits"),
        ({"splits": ("tset",), "subset": "two"}, "two-qrels: no split 'tset' .*dev, test"),
        ({"subset": "kor"}, "no configuration 'kor-queries' \\(there are corpus, default"),
        ({"layout": "bright", "splits": ("standard",)}, "no configuration 'examples'"),
        ({"layout": "mtbe"}, "Did you mean 'mteb'"),
        ({"splits": ()}, "needs splits"),
        ({"splits": ("test", "test")}, "each once"),
        ({"dataset": ""}, "needs dataset"),
        ({"dataset": "no such folder"}, "neither a folder nor OWNER/NAME"),
        ({"dataset": "a/b", "revision": ""}, "revision '' of a/b is not a commit"),
        ({"dataset": "a/b", "revision": "main"}, "'main' of a/b is not a commit"),
        ({"dataset": "a/b"}, "not in the hub's cache and HF_HUB_OFFLINE is set"),
        ({"query_attributes": ("kind",)}, "queries: no column 'kind' \\(there are _id, text\\)"),
        ({"expected": {"queries": 3}}, "split 'test': 3 queries expected and 2 found"),
        ({"expected": {"documents": 5}}, "5 documents expected and 4 found"),
        ({"expected": {"judgments": 2}}, "2 judgments expected and 3 found"),
        ({"expected": {"relevant": 3}}, "3 relevant expected and 2 found"),
        ({"expected": {"candidates": 9}}, "9 candidates expected and none found"),
        ({"expected": {"test": {"queries": 7}}}, "split 'test': 7 queries expected and 2 found"),
        ({"expected": {"querys": 2}}, "Did you mean 'queries'"),
        ({"expected": {"queries": "2"}}, "must be an integer"),
    ],
)  # fmt: skip
def test_what_is_missing_or_differs_is_one_sentence(
    tmp_path: Path, keys: dict, sentence: str
) -> None:
    """The message says what was found and what to do; it is one line."""
    tables = {
        **mteb(QUERIES, DOCUMENTS, {"test": JUDGED}),
        **mteb(QUERIES, DOCUMENTS, {"dev": JUDGED, "test": JUDGED}, subset="two"),
    }
    with pytest.raises((InputError, ConfigError), match=sentence) as caught:
        load_collection(task(tmp_path, tables, **keys))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "table", "sentence"),
    [
        (("corpus", "corpus"), {"text": ["x"]}, "corpus: no column '_id' \\(there are text\\)"),
        (("corpus", "corpus"), {"_id": ["d", "d"], "text": ["x", "y"]}, "'d' stands twice"),
        (("corpus", "corpus"), {"_id": ["d"], "text": [1]}, "holds int64, must be text"),
        (("corpus", "corpus"), {"_id": [1.5], "text": ["x"]}, "holds double, must be ids"),
        (("corpus", "corpus"), {"_id": [None, "a"], "text": ["x", "y"]}, "id is null or empty"),
        (("queries", "queries"), {"_id": ["q", "q"], "text": ["x", "y"]}, "'q' stands twice"),
        (("default", "test"), {"query-id": ["q1"], "corpus-id": ["d1"]}, "no column 'score'"),
        (("default", "test"), {"query-id": ["q1"], "corpus-id": ["d1"], "score": [0.5]},
         "a grade is no integer"),
        (("default", "test"), {"query-id": ["q1"] * 2, "corpus-id": ["d1"] * 2, "score": [0, 1]},
         "has two grades"),
        (("top_ranked", "test"), {"query-id": ["q1"], "corpus-ids": [["d1", "d1"]]},
         "lists a document twice"),
        (("top_ranked", "test"), {"query-id": ["q1"], "corpus-ids": [["d9"]]},
         "'d9', which the corpus does not hold"),
    ],
)  # fmt: skip
def test_wrong_tables_are_refused(
    tmp_path: Path, place: tuple[str, str], table: dict, sentence: str
) -> None:
    """Data set, configuration and column in one sentence."""
    tables = {**mteb(QUERIES, DOCUMENTS, {"test": JUDGED}), place: pa.table(table)}
    with pytest.raises(InputError, match=sentence) as caught:
        load_collection(task(tmp_path, tables))
    assert "task 't'" in str(caught.value)


def test_a_row_that_stands_twice_alike_is_kept_once(tmp_path: Path) -> None:
    """Nothing is lost by it; the manifest's notes say how many."""
    tables = dict(mteb(QUERIES, DOCUMENTS, {"test": JUDGED}))
    tables["corpus", "corpus"] = pa.concat_tables([tables["corpus", "corpus"]] * 2)
    found = load_collection(task(tmp_path, tables, expected={"documents": 4}))
    assert found.notes["repeated_documents"] == 4


def test_a_folder_beside_the_task_is_a_data_set(tmp_path: Path) -> None:
    """Without RERANK_DATASETS, and without a revision: a folder is what it holds."""
    write_folder(tmp_path / "mine", mteb(QUERIES, DOCUMENTS, {"test": JUDGED}))
    spec = TaskSpec(name="t", source="hub", folder=str(tmp_path), dataset="mine", splits=("test",))
    found = load_collection(spec)
    assert found.notes["dataset"] == {"read_from": "folder", "commit": ""}


@pytest.mark.parametrize("where", ["hub-cache", "hub"])
def test_the_hubs_cache_is_read_without_a_network(tmp_path: Path, where: str) -> None:
    """datasets--OWNER--NAME/snapshots/COMMIT in HF_HOME, or in the folder of RERANK_DATASETS."""
    tables = mteb(QUERIES, DOCUMENTS, {"test": JUDGED})
    write_cache(tmp_path / where, "o/n", COMMIT, tables)
    spec = TaskSpec(
        name="t",
        source="hub",
        folder=str(tmp_path),
        dataset="o/n",
        splits=("test",),
        revision=COMMIT,
    )
    assert load_collection(spec).notes["dataset"]["commit"] == COMMIT
    sentence = f"holds o/n at {COMMIT}, but the task pins {OTHER_COMMIT}; run `hf download"
    with pytest.raises(InputError, match=sentence):
        load_collection(replace(spec, revision=OTHER_COMMIT))


def test_with_a_network_the_hub_is_asked_for_the_pinned_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `load_dataset` is given: the id and the commit, nothing that can move."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    found = locate("owner/name", COMMIT, beside=tmp_path, task="t")
    assert found == Located("owner/name", "owner/name", COMMIT, "hub", COMMIT)


@pytest.mark.parametrize("stated", ["download", "git", "detached"])
def test_a_folder_that_states_another_commit_has_moved(tmp_path: Path, stated: str) -> None:
    """`hf download --local-dir` notes the commit of each file; a checkout has its HEAD."""
    spec = task(tmp_path, mteb(QUERIES, DOCUMENTS, {"test": JUDGED}))
    folder = tmp_path / "hub" / "owner" / "name"
    notes = {
        "download": {".cache/huggingface/download/README.md.metadata": f"{OTHER_COMMIT}\nx\n1.0\n"},
        "git": {".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": OTHER_COMMIT + "\n"},
        "detached": {".git/HEAD": OTHER_COMMIT + "\n"},
    }
    for name, text in notes[stated].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(InputError, match=f"holds owner/name at {OTHER_COMMIT}, but the task pins"):
        load_collection(spec)
    moved = load_collection(replace(spec, revision=OTHER_COMMIT))
    assert moved.notes["dataset"]["commit"] == OTHER_COMMIT


def test_a_copy_may_hold_one_language_alone(tmp_path: Path) -> None:
    """`hf download --include "ko-*"`: the README declares more than is there."""
    others = mteb(QUERIES, DOCUMENTS, {"dev": JUDGED}, subset="ar")
    spec = task(
        tmp_path, {**others, **mteb(QUERIES, DOCUMENTS, {"dev": JUDGED}, subset="ko")},
        subset="ko", splits=("dev",),
    )  # fmt: skip
    for config in ("ar-corpus", "ar-queries", "ar-qrels"):
        shutil.rmtree(tmp_path / "hub/owner/name" / config)
    assert load_collection(spec).documents.keys() == DOCUMENTS.keys()
    with pytest.raises(InputError, match="owner/name cannot be loaded from"):
        load_collection(replace(spec, subset="ar"))


@pytest.mark.parametrize(
    "front", ["", "---\nconfigs:\n- config_name: default\n  data_dir: d\n---\n"]
)
def test_splits_may_follow_from_file_names(tmp_path: Path, front: str) -> None:
    """No README, or one that names a folder: as `datasets` reads it. A new file is read anew."""
    folder = tmp_path / "hub" / "owner" / "name"
    (folder / "d").mkdir(parents=True)
    if front:
        (folder / "README.md").write_text(front)
    settings = {"dataset": "owner/name", "layout": "reranking", "splits": ("test",)}
    for query in ("물음", "물음 둘"):
        ((_, table),) = hub_folders.reranking("test", [(query, ["맞음"], ["틀림"])]).items()
        pq.write_table(table, folder / "d" / "test.parquet")
        found = load_collection(TaskSpec(name="t", source="hub", folder=str(tmp_path), **settings))
        assert texts(found) == {"test_query0": query}


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    """A Parquet file that is none: which data set, where from, what to check."""
    spec = task(tmp_path, mteb(QUERIES, DOCUMENTS, {"test": JUDGED}))
    file = tmp_path / "hub/owner/name/corpus/corpus-00000-of-00001.parquet"
    file.write_bytes(b"not Parquet")
    with pytest.raises(InputError, match="owner/name cannot be loaded from") as caught:
        load_collection(spec)
    assert "\n" not in str(caught.value)


def test_where_a_data_set_is_read_from_changes_nothing(tmp_path: Path) -> None:
    """A folder and the hub's cache give one fingerprint; a changed text another."""
    tables = mteb(QUERIES, DOCUMENTS, {"test": JUDGED})
    spec = task(tmp_path, tables)
    first = freeze(spec, Store(tmp_path / "one"))
    (tmp_path / "hub" / "owner").rename(tmp_path / "gone")
    write_cache(tmp_path / "hub-cache", "owner/name", COMMIT, tables)
    assert freeze(spec, Store(tmp_path / "two")).fingerprint == first.fingerprint
    changed = {**DOCUMENTS, "d4": ("제목", "아무 질문의 후보도 아님")}
    write_cache(
        tmp_path / "hub-cache", "owner/name", COMMIT, mteb(QUERIES, changed, {"test": JUDGED})
    )
    assert freeze(spec, Store(tmp_path / "one")).fingerprint != first.fingerprint


def test_notes_and_expectations_are_no_part_of_a_tasks_identity(tmp_path: Path) -> None:
    """What a task says of itself, and what it expects, change no candidate."""
    spec = TaskSpec(name="t", source="hub", dataset="o/n", splits=("test",), revision=COMMIT)
    told = replace(spec, measures="m", trap="t", expected={"queries": 2}, licence="x")
    assert spec_identity(told) == spec_identity(spec)
    assert spec_identity(replace(spec, subset="ko")) != spec_identity(spec)
    assert spec_identity(replace(spec, revision=OTHER_COMMIT)) != spec_identity(spec)


def test_expected_counts_hold_for_files_too(tmp_path: Path) -> None:
    """A BEIR folder is counted as the hub's data sets are."""
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": "d", "text": "x"}])
    write_jsonl(tmp_path / "queries.jsonl", [{"_id": "q", "text": "x"}])
    (tmp_path / "qrels.trec").write_text("q 0 d 1\n")
    spec = TaskSpec(name="t", folder=str(tmp_path), expected={"documents": 1, "queries": 1})
    assert load_collection(spec).documents == {"d": "x"}
    with pytest.raises(InputError, match="task 't': 2 queries expected and 1 found"):
        load_collection(replace(spec, expected={"queries": 2}))
    with pytest.raises(ConfigError, match="expected of task 't'"):
        load_collection(replace(spec, expected={"dev": {"queries": 1}}))

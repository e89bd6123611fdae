"""`rerank export` on a task of four queries. Oracles: ranx, mteb and pytrec_eval on its files, and
the ranks worked out by hand.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import pytrec_eval

from jobs.__main__ import main
from tests.jobs.small_suite import GRADES, TEXTS, replayed_suite, write_suite

# overlap by hand: q1 = d1, "a b", d2, d3; q2 = d2 and then three without a shared word
NDCG = (1 + 1 / (1 + 1 / math.log2(3)) + 0) / 3  # q2: one of two relevant on rank 1; q3: nothing


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Path]:
    def export(*formats: str, extra: tuple[str, ...] = ()) -> Path:
        words = replayed_suite(tmp_path)
        target = tmp_path / "out"
        assert main(["export", *words, "--to", str(target), "--format", *formats, *extra]) == 0
        return target

    return export


def test_trec_is_the_default_and_blanks_in_ids_stop_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same two files as ever; every query has its lines, judged or not."""
    words = replayed_suite(tmp_path, ids={"a b": "ab"})
    assert main(["export", *words, "--to", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/tiny/qrels.trec").read_text().splitlines() == [
        f"{query} 0 {doc} {grade}" for query, doc, grade in GRADES
    ]
    text = (tmp_path / "out/tiny/overlap.run").read_text()
    assert text.splitlines()[0] == "q1 Q0 d1 1 1.0 overlap"
    run = pytrec_eval.parse_run(io.StringIO(text))
    assert list(run) == ["q1", "q2", "q4"]
    other = tmp_path / "blank"
    words = replayed_suite(other)
    capsys.readouterr()
    assert main(["export", *words]) == 2
    assert "id 'a b' holds an ASCII blank" in capsys.readouterr().err


def test_ranx_reads_what_was_written(
    exported: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its mean over the three judged queries; q4 is not judged and ranx would raise for it."""
    import ranx

    folder = exported("ranx") / "ranx/tiny"
    assert "1 queries without judgments left out" in capsys.readouterr().out
    qrels = ranx.Qrels.from_file(str(folder / "qrels.json"), kind="json")
    run = ranx.Run.from_file(str(folder / "overlap.run.json"), kind="json")
    assert list(run.to_dict()) == ["q1", "q2", "q3"]
    assert list(run.to_dict()["q1"]) == ["d1", "a b", "d2", "d3"]
    assert ranx.evaluate(qrels, run, "ndcg@10") == pytest.approx(NDCG)


def test_the_beir_folder_holds_the_candidates_texts(
    exported: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The layout by hand; `gone` is judged and has no text."""
    folder = exported("beir", extra=("--split", "dev")) / "beir/tiny"
    assert "1 judged documents have no text" in capsys.readouterr().out
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    assert corpus == [{"_id": key, "title": "", "text": text} for key, text in TEXTS.items()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    assert [row["_id"] for row in queries] == ["q1", "q2", "q3", "q4"]
    assert (folder / "qrels/dev.tsv").read_text().splitlines() == [
        "query-id\tcorpus-id\tscore",
        *(f"{query}\t{doc}\t{grade}" for query, doc, grade in GRADES),
    ]
    assert "4 documents that stage 1 offered" in (folder / "README.md").read_text()
    results = json.loads((folder / "results/overlap.json").read_text())
    assert list(results["q1"]) == ["d1", "a b", "d2", "d3"]
    assert results["q3"] == {}


def test_mteb_loads_results_and_model_meta(exported: Callable[..., Path]) -> None:
    """ResultCache, offline: both models, the score by language, and the stated conventions."""
    from mteb.cache import ResultCache

    target = exported("mteb", extra=("--subset", "ko", "--split", "dev"))
    cache = ResultCache(target / "mteb")
    found = cache.load_results(include_remote=False)
    assert sorted(result.model_name for result in found.model_results) == [
        "rerank-replay/first_stage",
        "rerank-replay/overlap",
    ]
    result = cache.load_task_result("tiny", "rerank-replay/overlap", "none")
    assert result is not None
    assert result.get_score(splits=["dev"], languages=["kor"]) == pytest.approx(NDCG)
    (row,) = result.scores["dev"]
    assert row["hf_subset"] == "ko"
    assert row["languages"] == ["eng-Latn", "kor-Hang"]
    assert row["accuracy"] == row["recall_at_1"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert row["conventions"]["queries"] == "qrels"
    assert result.dataset_revision.startswith("frozen-")
    assert cache.get_models(include_remote=False)


def test_mteb_reranks_the_predictions(exported: Callable[..., Path]) -> None:
    """convert_to_reranking of a mock task of mteb takes our lists as its candidates."""
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.mocks.mock_tasks import MockRetrievalTask

    target = exported("mteb")
    task = MockRetrievalTask()
    task.load_data()
    assert isinstance(task, AbsTaskRetrieval)
    path = target / "mteb/predictions/overlap/tiny_predictions.json"
    (subset,) = task.dataset
    assert subset == "default"
    task.dataset = {subset: {"test": task.dataset[subset]["test"]}}
    task.convert_to_reranking(path, top_k=2)
    ranked = task.dataset[subset]["test"]["top_ranked"]
    assert {query: ranked[query] for query in ("q1", "q3")} == {"q1": ["d1", "a b"], "q3": []}


def test_mteb_asks_for_a_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """mteb finds no score of a task without one."""
    words = write_suite(tmp_path)
    spec = tmp_path / "configs/tasks/tiny.yaml"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "language": ""}))
    assert main(["freeze", *words]) == 0
    assert main(["replay", *words]) == 0
    assert main(["export", *words, "--format", "mteb"]) == 2
    assert "--language ko" in capsys.readouterr().err
    assert main(["export", *words, "--format", "mteb", "--language", "ko"]) == 0


def test_an_incomplete_run_is_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, in any format."""
    words = write_suite(tmp_path)
    assert main(["freeze", *words]) == 0
    for name in ("trec", "ranx", "beir", "mteb"):
        assert main(["export", *words, "--format", name]) == 1
        assert "lacks 1 of 1 shards" in capsys.readouterr().err


def test_several_formats_in_one_call(tmp_path: Path) -> None:
    """Each in its own folder; U+3000 in an id is no blank of TREC's."""
    words = replayed_suite(tmp_path, ids={"a b": "a\u3000b"})
    target = tmp_path / "out"
    formats = ["--format", "trec", "ranx", "--format", "beir"]
    assert main(["export", *words, "--to", str(target), *formats]) == 0
    assert "q1 Q0 a\u3000b 2 " in (target / "tiny/overlap.run").read_text()
    assert (target / "ranx/tiny/qrels.json").is_file()
    assert (target / "beir/tiny/corpus.jsonl").is_file()

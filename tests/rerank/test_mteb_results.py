"""Files of mteb. Oracles: mteb's own loaders, scores and language codes; conformance case 54."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metrics
from rerank.errors import ConfigError, InputError
from rerank.files import mteb_results
from rerank.files.run_files import read_run_file
from rerank.records import ModelSpec

# conformance case 54: a file as mteb 2.26 writes it, bare NaN included, with keys nobody knows
BARE = """{"dataset_revision":"d11a14c","task_name":"MIRACLReranking","mteb_version":"2.26.24",
"scores":{"dev":[{"ndcg_at_10":0.65432,"map_at_1000":0.5,"nauc_ndcg_at_10_max":NaN,
"nauc_x":-Infinity,"nested":{"list":[1e999,1.5]},"main_score":0.65432,"hf_subset":"ko",
"languages":["kor-Hang"],"mine":{"한":1}}]},"evaluation_time":12.5,"kg_co2_emissions":null,
"date":1796007711.6,"evaluation_phases":null,"extra":[Infinity]}"""


def strict(data: bytes) -> Any:
    """JSON as jq and JavaScript read it."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(data, parse_constant=refuse)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "MIRACLReranking.json"
    path.write_text(BARE, encoding="utf-8")
    return path


def test_bare_nan_is_read_as_null(bare: Path) -> None:
    """Conformance 54: main_score 0.65432, split dev, subset ko, nauc null."""
    (row,) = mteb_results.result_rows(mteb_results.read_result(bare))
    assert (row["main_score"], row["split"], row["hf_subset"]) == (0.65432, "dev", "ko")
    assert row["nauc_ndcg_at_10_max"] is None
    assert row["nauc_x"] is None
    assert (row["task_name"], row["dataset_revision"]) == ("MIRACLReranking", "d11a14c")


def test_a_result_is_written_as_strict_json_with_all_its_keys(bare: Path) -> None:
    """What a lenient reader finds, in the same order, null for what JSON cannot hold."""
    lenient = json.loads(
        BARE.replace("1e999", "null"),
        parse_constant=lambda _: None,
    )
    written = mteb_results.strict_json(mteb_results.read_result(bare))
    assert strict(written) == lenient
    assert list(strict(written)) == list(lenient)
    assert list(strict(written)["scores"]["dev"][0]) == list(lenient["scores"]["dev"][0])


def test_mteb_loads_what_was_bare_nan(bare: Path) -> None:
    """TaskResult.from_disk, the strict way too."""
    from mteb.results import TaskResult

    bare.write_bytes(mteb_results.strict_json(mteb_results.read_result(bare)))
    for historic in (True, False):
        found = TaskResult.from_disk(bare, load_historic_data=historic)
        assert found.get_score(splits=["dev"], languages=["kor"]) == 0.65432
        assert found.scores["dev"][0]["nauc_ndcg_at_10_max"] is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"task_name": "T",\n "scores": }', "line 2"),
        ("[1]", "must be a JSON object"),
        ('{"scores": {}}', "field 'task_name'"),
        ('{"task_name": "T", "scores": [], "x": 1}', "field 'scores'"),
        ('{"task_name": "T", "scores": {"test": {}}}', "field 'scores.test'"),
        ('{"task_name": "T", "scores": {"test": [1]}}', "'scores.test', row 1"),
        ('{"task_name": "T", "scores": {"test": [{"main_score": 1}]}}', "row 1, field 'hf_subset'"),
        ('{"task_name": "T", "scores": {"test": [{"hf_subset": "d"}]}}', "field 'main_score' is"),
        (
            '{"task_name": "T", "scores": {"test": [{"hf_subset": "d", "main_score": "1"}]}}',
            "field 'main_score': '1' is not a number",
        ),
        ('{"task_name": "T", "task_name": "U", "scores": {}}', "'task_name'"),
        ('{"task_name": "\\ud800", "scores": {}}', "surrogate"),
    ],
)
def test_a_wrong_file_names_file_and_field(tmp_path: Path, text: str, sentence: str) -> None:
    """One sentence."""
    path = tmp_path / "T.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        mteb_results.read_result(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def random_collection(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """30 queries; scores are eighths, so that ties occur and float32 holds them."""
    rng = random.Random(seed)
    run, qrels = {}, {}
    for number in range(30):
        docs = [f"d{i}" for i in rng.sample(range(200), rng.randint(2, 120))]
        run[f"q{number}"] = {doc: rng.randint(0, 300) / 8 for doc in docs}
        judged = rng.sample(docs, len(docs) // 2) + [f"gone{i}" for i in range(3)]
        qrels[f"q{number}"] = {doc: rng.choice([0, 0, 1, 2]) for doc in judged} | {docs[0]: 1}
    return run, qrels


def our_scores(run: dict, qrels: dict) -> dict[str, float | None]:
    """The metric keys from this project's own measures."""

    def columns(lists: dict) -> list[np.ndarray]:
        rows = [(query, doc, value) for query, docs in lists.items() for doc, value in docs.items()]
        ids = [np.array(column, dtype=object) for column in list(zip(*rows, strict=True))[:2]]
        return [*ids, np.array([row[2] for row in rows], dtype=np.float64)]

    found = metrics.evaluate(
        metrics.Run(*columns(run)), metrics.Judgments(*columns(qrels)), mteb_results.measure_names()
    )
    return mteb_results.metric_scores(found.mean)


def mteb_scores(run: dict, qrels: dict) -> dict[str, float]:
    """The same keys as mteb computes them, means rounded to 5 digits."""
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, make_score_dict

    found = calculate_retrieval_scores(run, qrels, list(mteb_results.CUTOFFS))
    return make_score_dict(
        ndcg=found.ndcg,
        _map=found.map,
        recall=found.recall,
        precision=found.precision,
        mrr=found.mrr,
        naucs={},
        naucs_mrr={},
        hit_rate=found.hit_rate,
        task_scores={},
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_metrics_are_those_of_mteb(seed: int) -> None:
    """Every key that mteb writes but nauc, to its 5 digits; main_score is nDCG@10."""
    run, qrels = random_collection(seed)
    ours, theirs = our_scores(run, qrels), mteb_scores(run, qrels)
    assert ours.keys() - {"main_score"} == theirs.keys()
    assert ours["main_score"] == ours["ndcg_at_10"]
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, abs=6e-6), key


def test_a_judged_query_that_is_missing_counts_here_and_not_in_mteb() -> None:
    """29 of 30 queries returned: mteb's mean is over 29, ours over 30."""
    run, qrels = random_collection(3)
    del run["q7"]
    ours, theirs = our_scores(run, qrels), mteb_scores(run, qrels)
    for key in ("ndcg_at_10", "mrr_at_10", "hit_rate_at_3"):
        assert ours[key] == pytest.approx(theirs[key] * 29 / 30, abs=6e-6)


def test_an_undefined_mean_is_null() -> None:
    """All queries without a relevant document, left out: no mean."""
    found = mteb_results.metric_scores(lambda _: math.nan)
    assert set(found.values()) == {None}


def test_mteb_loads_a_result_and_keeps_its_conventions(tmp_path: Path) -> None:
    """from_disk both ways, score by language, and the unknown key after mteb wrote it again."""
    from mteb.results import TaskResult

    row = {
        **mteb_results.metric_scores(lambda measure: 0.25 if measure == "nDCG@10" else 0.5),
        "hf_subset": "ko",
        "languages": ["kor-Hang"],
        "conventions": {"tie": "trec", "queries": "qrels"},
    }
    path = tmp_path / "Mine.json"
    document = mteb_results.result_document("Mine", "r1", "dev", [row])
    path.write_bytes(mteb_results.strict_json(document))
    assert strict(path.read_bytes()) == document
    TaskResult.from_disk(path, load_historic_data=False)
    found = TaskResult.from_disk(path)
    assert found.get_score(splits=["dev"], languages=["kor"]) == 0.25
    assert found.dataset_revision == "r1"
    found.to_disk(path)
    (again,) = mteb_results.result_rows(mteb_results.read_result(path))
    assert again["conventions"] == row["conventions"]
    assert again["recall_at_1"] == 0.5


@pytest.mark.parametrize("weightless", [True, False])
def test_mteb_accepts_the_model_meta(weightless: bool) -> None:
    """ModelMeta forbids unknown keys and needs all others."""
    from mteb.models.model_meta import ModelMeta

    spec = ModelSpec("mine", "pair_encoder", max_length=512)
    name = mteb_results.model_names({"mine": "folder:/weights/mine"})["mine"]
    meta = mteb_results.model_meta(spec, name, "sha256:00", weightless=weightless)
    found = ModelMeta.model_validate_json_resolved(mteb_results.strict_json(meta))
    assert (found.name, found.revision, found.max_tokens) == (
        "rerank-replay/mine",
        "sha256-00",
        512,
    )
    assert found.is_cross_encoder is not weightless
    assert mteb_results.model_folder(name, "sha256:00") == (
        f"{found.model_name_as_path()}/{found.revision}"
    )


def test_a_model_of_the_hub_keeps_its_name() -> None:
    """The origin says where the weights came from; two models on one repository would collide."""
    origins = {
        "one": "hub:BAAI/bge-reranker-v2-m3",
        "short": "hub:o/m",
        "long": "hub:o/m",
        "local": "auto:package/model",
        "overlap": "",
    }
    assert mteb_results.model_names(origins) == {
        "one": "BAAI/bge-reranker-v2-m3",
        "short": "rerank-replay/short",
        "long": "rerank-replay/long",
        "local": "rerank-replay/local",
        "overlap": "rerank-replay/overlap",
    }


def test_languages_are_those_of_mteb() -> None:
    """Each code of the table is one that mteb checks; words outside it are refused."""
    from mteb.languages import check_language_code

    for code in mteb_results.LANGUAGES.values():
        check_language_code(code)
    assert mteb_results.language_codes("ko, en", "t") == ["kor-Hang", "eng-Latn"]
    assert mteb_results.language_codes("zho-Hant", "t") == ["zho-Hant"]
    with pytest.raises(ConfigError, match="language 'klingon'"):
        mteb_results.language_codes("ko klingon", "t")
    with pytest.raises(ConfigError, match="--language"):
        mteb_results.language_codes("", "t")


def test_predictions_are_read_back_as_a_run(tmp_path: Path) -> None:
    """By the reader of runs of any origin."""
    scores = {"q1": {"b b": 0.1 + 0.2, "a": -1.0}, "q2": {}}
    document = mteb_results.predictions_document("o/m", "sha256:0", "ko", "dev", scores)
    assert document["mteb_model_meta"] == {"model_name": "o/m", "revision": "sha256-0"}
    path = tmp_path / "T_predictions.json"
    path.write_bytes(mteb_results.strict_json(document))
    run = read_run_file(path)
    assert list(zip(run.query_ids, run.doc_ids, run.scores, strict=True)) == [
        ("q1", "b b", 0.30000000000000004),
        ("q1", "a", -1.0),
    ]

"""Every file of configs/models loads against a stand-in of its kind and replays the demo."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.__main__ import main
from jobs.config import load_model
from rerank.models.adapters import ADAPTERS, load_scorer
from rerank.models.encoder_decoder_reader import EncoderDecoderParams
from rerank.models.listwise_blocks import ListwiseEmbeddingParams
from rerank.models.listwise_generation_params import ListwiseGenerationParams
from rerank.models.pair_encoder import PairEncoderParams
from rerank.probing import find_token_budget, longest_items
from rerank.records import Placement, QueryGroup, Scorer
from rerank.scoring import score_groups
from rerank.store import Store
from tests.conftest import ROOT, real_data
from tests.rerank.test_models_encoder_decoder import KALM
from tests.rerank.test_models_listwise_generation import THINK
from tests.standins import decoders, encoder_decoders, encoders, listwise, prompts

MODELS = ROOT / "configs" / "models"
Build = Callable[[str, Path], Path]

# config -> (builder, kind of stand-in, what must change because the stand-in is small)
SMALL = {"max_length": 256}
QWEN3 = (decoders.build, "qwen3", SMALL)
SEQ_CLS = (decoders.build, "qwen3_seqcls", SMALL)
XLMR = (encoders.build, "xlmr", {"max_length": encoders.LENGTH})
MODERNBERT = (encoders.build, "modernbert", {"max_length": encoders.LENGTH})
ETTIN = (encoders.build, "ettin", {"max_length": encoders.LENGTH})
BERT = (encoders.build, "bert", {"max_length": encoders.LENGTH})
STANDINS: dict[str, tuple[Build, str, dict[str, Any]]] = {
    "all-minilm-l6-v2": BERT,
    "bge-reranker-v2-gemma": (decoders.build, "gemma", SMALL),
    "bge-reranker-v2-m3": XLMR,
    "bge-reranker-v2-m3-ko": XLMR,
    "ctxl-rerank-v2-instruct-multilingual-1b": QWEN3,
    "ctxl-rerank-v2-instruct-multilingual-2b": QWEN3,
    "ctxl-rerank-v2-instruct-multilingual-6b": (decoders.build, "mistral", SMALL),
    **{f"ettin-reranker-{size}-v1": ETTIN for size in ("17m", "32m", "68m", "150m", "400m", "1b")},
    "gte-multilingual-reranker-base": XLMR,
    "jina-reranker-v2-base-multilingual": XLMR,
    "jina-reranker-v3": (listwise.build, "jina", {"max_length": 1024}),
    "jina-reranker-v3.5": (
        listwise.build,
        "jina_hybrid",
        {"max_length": 1024, "sliding_layers": 3},
    ),
    "kalm-reranker-v1-large-r2": (encoder_decoders.build, "t5gemma2", {"max_length": 160}),
    "ko-reranker": XLMR,
    "ko-reranker-8k": XLMR,
    "kure-reranker-base": QWEN3,
    "kure-reranker-nano": MODERNBERT,
    "lamar-600m": XLMR,
    "lighton-rerank-lw-4b": (listwise.build, "lighton", {"max_fallback_share": 1.0}),
    # the stand-in is a text model; the real class also has an image side
    "lighton-rerank-pw-4b": (decoders.build, "qwen3_5", SMALL | {"model_class": "causal_lm"}),
    "llama-nemotron-rerank-1b-v2": (decoders.build, "llama", SMALL),
    "monot5-base-msmarco": (encoder_decoders.build, "t5", {"max_length": 160}),
    "ms-marco-minilm-l6-v2": BERT,
    "multilingual-e5-small-q4": BERT,
    "mxbai-rerank-base-v2": (decoders.build, "qwen2", SMALL),
    "mxbai-rerank-large-v2": (decoders.build, "qwen2", SMALL),
    "pixie-spell-reranker-preview-0.6b": SEQ_CLS,
    **{f"qwen3-reranker-{size}": QWEN3 for size in ("0.6b", "4b", "8b")},
    **{f"qwen3-reranker-{size}-seq-cls": SEQ_CLS for size in ("0.6b", "4b", "8b")},
    "rank-zephyr-7b-v1-full": (
        listwise.build,
        "zephyr",
        {"max_fallback_share": 1.0, "max_new_tokens": 8, "window": 4, "stride": 2},
    ),
    "zerank-2-reranker": QWEN3,
}
ELSEWHERE = {  # without weights, or with real ones that other tests load
    "first_stage",
    "overlap",
    "served-reranker",
    "ce-me5l4-ko",
    "ce-tiny-en",
}
# what runs a model on a CPU without a hub; none of it is part of a recipe
HERE = {"weights_from": "folder", "revision": "", "device": "cpu", "dtype": "float32"}
HERE |= {"attention": "sdpa", "num_gpus": 0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds each stand-in once."""
    root = tmp_path_factory.mktemp("standins")

    def folder(config: str) -> Path:
        build, kind, _ = STANDINS[config]
        path = root / f"{build.__module__.split('.')[-1]}-{kind}"
        return path if path.exists() else build(kind, path)

    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configs folder with the demo task, five candidates a query so that all models are quick."""
    root = tmp_path_factory.mktemp("project")
    task = yaml.safe_load((ROOT / "configs/tasks/demo.yaml").read_text())
    task |= {"folder": str(ROOT / "configs/tasks/demo"), "depth": 5}
    for kind in ("tasks", "models", "suites"):
        (root / "configs" / kind).mkdir(parents=True)
    (root / "configs/tasks/demo.yaml").write_text(json.dumps(task))
    (root / "configs/models/overlap.yaml").write_text(json.dumps({"adapter": "overlap"}))
    assert main(["freeze", suite_of(root, "overlap"), f"store={root}/store"]) == 0
    return root


def suite_of(project: Path, model: str) -> str:
    """A suite of the demo with one model; its path."""
    suite = project / f"configs/suites/{model}.yaml"
    suite.write_text(json.dumps({"tasks": ["demo"], "models": [model], "baseline": model}))
    return str(suite)


def replay(project: Path, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """`rerank replay` of one model over the demo; its run.json."""
    (project / f"configs/models/{name}.yaml").write_text(json.dumps(values))
    words = [suite_of(project, name), f"store={project}/store", "engine=inline"]
    assert main(["replay", *words, "max_failed_pairs=0"]) == 0
    store = Store(project / "store")
    (run,) = (project / f"store/runs/demo/{name}").iterdir()
    record: dict[str, Any] = store.read_json(f"runs/demo/{name}/{run.name}/run.json")
    receipts = [json.loads(file.read_text()) for file in (run / "receipts").iterdir()]
    assert sum(receipt["rows"] for receipt in receipts) == 388  # of 78 queries; one matches only 3
    assert all(receipt["failed"] == 0 for receipt in receipts)
    return record


def test_every_config_has_a_stand_in() -> None:
    """A new file of configs/models needs a row above."""
    assert {file.stem for file in MODELS.glob("*.yaml")} == STANDINS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", STANDINS)
def test_a_config_replays_the_demo(
    name: str, project: Path, folders: Callable[[str], Path]
) -> None:
    """Scores for every pair; run.json says which files, which tokenizer and which prompt."""
    values = yaml.safe_load((MODELS / f"{name}.yaml").read_text())
    changes = STANDINS[name][2]
    record = replay(project, name, {**values, **HERE, **changes, "weights": str(folders(name))})
    recipe = record["recipe"]
    assert recipe["weights"].startswith("sha256:")
    assert recipe["tokenizer"].startswith("sha256:")
    assert recipe["rendered_ids"].startswith("sha256:")
    assert recipe["tokenizer_ids"].startswith("sha256:")
    assert record["identity"]["weights"] == recipe["weights"]


@pytest.mark.parametrize("name", ["all-minilm-l6-v2", "multilingual-e5-small-q4"])
def test_a_planted_exact_match_is_ranked_first(
    name: str, project: Path, folders: Callable[[str], Path]
) -> None:
    """A random bi-encoder maps equal texts to equal embeddings: cosine 1 above all noise.

    Random weights of the other architectures rank nothing; trained ones do, in the next test.
    """
    values = yaml.safe_load((MODELS / f"{name}.yaml").read_text())
    values |= {**HERE, **STANDINS[name][2], "weights": str(folders(name))}
    values |= {"query_prefix": "", "document_prefix": ""}  # else the two inputs are not equal
    (project / f"configs/models/planted-{name}.yaml").write_text(json.dumps(values))
    model = load_model(project / "configs", f"planted-{name}")
    assert best_of(load_scorer(model, Placement("cpu", "float32", "sdpa"))) == "planted"


def best_of(scorer: Scorer) -> str:
    """The document that a model ranks first among noise and the query itself."""
    query = "How often do I replace the water filter?"
    noise = [
        "The warranty ends after two years.",
        "충전기는 따로 판매합니다.",
        "Error E5: call us.",
    ]
    texts = (*noise, query, "Blue is a colour.")
    names = ("a", "b", "c", "planted", "d")
    (result,), _ = score_groups(
        scorer, [QueryGroup("q", query, names, texts, (1, 2, 3, 4, 5))], 512
    )
    return names[int(result.scores.argmax())]


# config -> the settings that are compared with the authors' code (tests/rerank/test_golden_* and
# the tests of the adapters), with what the file may change
RECIPES: dict[str, Any] = {
    **{f"qwen3-reranker-{size}": prompts.params("qwen3") for size in ("0.6b", "4b", "8b")},
    **{f"qwen3-reranker-{size}-seq-cls": prompts.params("seqcls") for size in ("0.6b", "4b", "8b")},
    "pixie-spell-reranker-preview-0.6b": prompts.params("seqcls"),
    "kure-reranker-base": prompts.params("qwen3"),
    "zerank-2-reranker": prompts.params("zerank", pad_token="<|im_end|>"),
    "mxbai-rerank-base-v2": prompts.params("mxbai"),
    "mxbai-rerank-large-v2": prompts.params("mxbai"),
    "bge-reranker-v2-gemma": prompts.params("bge_gemma"),
    **{
        f"ctxl-rerank-v2-instruct-multilingual-{size}": prompts.params("ctxl")
        for size in ("1b", "2b", "6b")
    },
    "llama-nemotron-rerank-1b-v2": prompts.params("nemotron"),
    "lighton-rerank-pw-4b": prompts.params("lighton_pw", model_class="image_text_to_text"),
    "kalm-reranker-v1-large-r2": EncoderDecoderParams(**{**KALM, "query_cap": 512}),
    "monot5-base-msmarco": EncoderDecoderParams(),
    "rank-zephyr-7b-v1-full": ListwiseGenerationParams(),
    "lighton-rerank-lw-4b": ListwiseGenerationParams(**THINK),
    "jina-reranker-v3": ListwiseEmbeddingParams(sliding_layers=0),
    "jina-reranker-v3.5": ListwiseEmbeddingParams(
        sliding_layers=16, max_query_length=1024, max_document_length=8192
    ),
    "bge-reranker-v2-m3": PairEncoderParams(truncation="only_second", query_cap=0.75),
    **{
        name: PairEncoderParams(truncation="longest_first")
        for name in (
            "bge-reranker-v2-m3-ko",
            "ko-reranker",
            "ko-reranker-8k",
            "lamar-600m",
            "kure-reranker-nano",
            "ms-marco-minilm-l6-v2",
            "gte-multilingual-reranker-base",
            "jina-reranker-v2-base-multilingual",
        )
    },
    **{
        f"ettin-reranker-{size}-v1": PairEncoderParams(
            truncation="longest_first", head="st_modules"
        )
        for size in ("17m", "32m", "68m", "150m", "400m", "1b")
    },
}
# tokens: position tables that a larger max_length would overrun, and what the authors' code reads
LENGTHS = {
    "ko-reranker": 512,
    "ms-marco-minilm-l6-v2": 512,
    "bge-reranker-v2-m3": 8192,
    "qwen3-reranker-0.6b": 8192,
    "mxbai-rerank-large-v2": 8192,
    "bge-reranker-v2-gemma": 1024,
    "kalm-reranker-v1-large-r2": 1024,
    "monot5-base-msmarco": 512,
    "jina-reranker-v3": 131_072,
    "all-minilm-l6-v2": 256,
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_config_states_the_recipe_that_was_compared(name: str) -> None:
    """T1 to T27 are tested on these very settings: a file that drifts from them fails."""
    assert load_model(ROOT / "configs", name).params == RECIPES[name]


def test_the_recipes_of_all_stand_ins_are_compared() -> None:
    """Bi-encoders are compared with their own folders at load."""
    assert STANDINS.keys() - RECIPES.keys() == {"all-minilm-l6-v2", "multilingual-e5-small-q4"}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_config_states_its_length(name: str) -> None:
    """T15."""
    assert load_model(ROOT / "configs", name).max_length == LENGTHS[name]


@pytest.mark.parametrize(
    "name", sorted({kind: name for name, (_, kind, _) in STANDINS.items()}.values())
)
def test_a_batch_size_can_be_probed(
    name: str, project: Path, folders: Callable[[str], Path]
) -> None:
    """As on a GPU, with a pretended memory: each adapter makes different inputs at its limit."""
    values = yaml.safe_load((MODELS / f"{name}.yaml").read_text())
    values |= {**HERE, **STANDINS[name][2], "weights": str(folders(name))}
    (project / f"configs/models/probed-{name}.yaml").write_text(json.dumps(values))
    model = load_model(project / "configs", f"probed-{name}")
    place = Placement("cpu", "float32", "sdpa")
    scorer = load_scorer(model, place)

    class Pretended:
        """Room for what four rows take."""

        calls = 0

        def reset_peak(self) -> None:
            self.calls += 1

        def peak(self) -> int:
            return 1_000 * self.calls

        def limit(self) -> int:
            return 4_000

    items = longest_items(scorer, 3)
    assert len(items) == 3
    assert len({repr(item.payload) for item in items}) == 3
    assert find_token_budget(scorer, [], place, memory=Pretended()) > items[0].tokens // 2


@pytest.mark.skipif(real_data() is None, reason="no real collections: set RERANK_DATA")
@pytest.mark.parametrize("name", ["ce-tiny-en", "ce-me5l4-ko"])
def test_a_trained_model_ranks_a_planted_match_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small cross-encoders with trained weights."""
    monkeypatch.setenv("RERANK_DATA", str(real_data()))
    model = load_model(ROOT / "configs", name)
    assert best_of(load_scorer(model, Placement("cpu", "float32", "sdpa"))) == "planted"


@pytest.mark.parametrize("name", sorted(STANDINS))
def test_a_config_says_where_it_comes_from(name: str) -> None:
    """Licence, description and a comment with the source; code of others only where it is said."""
    text = (MODELS / f"{name}.yaml").read_text()
    model = load_model(ROOT / "configs", name)
    assert text.startswith("# ")
    assert model.description
    assert model.licence or model.recipe == "unverified"
    assert model.recipe in ("verified", "unverified")
    if not ADAPTERS[model.adapter].weightless:
        assert model.weights
    if model.trust_code:
        assert model.recipe == "unverified"


@pytest.mark.skipif(real_data() is None, reason="no real collections: set RERANK_DATA")
def test_a_real_small_model_replays_the_demo(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with trained weights."""
    monkeypatch.setenv("RERANK_DATA", str(real_data()))
    values = yaml.safe_load((MODELS / "ce-tiny-en.yaml").read_text())
    assert replay(project, "ce-tiny-en", values)["recipe"]["weights"].startswith("sha256:")

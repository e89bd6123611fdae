"""listwise_embedding against jina-reranker-v3's own modeling.py (tests/golden/listwise.json)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from tokenizers import processors

from rerank.errors import ConfigError, RerankError, ScoringError
from rerank.models import load_scorer
from rerank.models.listwise_blocks import ListwiseEmbeddingParams, block_bounds
from rerank.models.listwise_embedding import ListwiseEmbedding, contract, fused_scores
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup
from rerank.scoring import OUT_OF_MEMORY, score_groups
from tests.standins.listwise import HYBRID, WINDOW, build, digest, passages, set_config

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "listwise.json").read_text(encoding="utf-8")
)
CPU = Placement("cpu", "float32", "sdpa")
KINDS = ("jina", "jina_hybrid")
BUDGET = 8192  # tokens of a batch


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


def spec_of(folder: Path, max_length: int | None = None, **params: Any) -> ModelSpec:
    settings = ListwiseEmbeddingParams(**params)
    return ModelSpec(
        "m", "listwise_embedding", weights=str(folder), max_length=max_length, params=settings
    )


def loaded(folder: Path, place: Placement = CPU, **settings: Any) -> ListwiseEmbedding:
    scorer = load_scorer(spec_of(folder, **settings), place)
    assert isinstance(scorer, ListwiseEmbedding)
    return scorer


def group_of(query: str, documents: Sequence[str], name: str = "q") -> QueryGroup:
    ids = tuple(f"{name}-d{row}" for row in range(len(documents)))
    return QueryGroup(name, query, ids, tuple(documents), tuple(range(1, len(ids) + 1)))


def scored(scorer: ListwiseEmbedding, *groups: QueryGroup) -> list[GroupScores]:
    return score_groups(scorer, groups, BUDGET)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_scores_are_those_of_the_authors_code(folders: dict[str, Path], kind: str) -> None:
    assert digest(folders[kind]) == GOLDEN["standins"][kind]
    cases = [case for case in GOLDEN["jina"] if case["kind"] == kind]
    assert [case["lengths"] for case in cases if "12" in case["name"]][2] == [4758, 298]
    scorers: dict[str, ListwiseEmbedding] = {}
    for case in cases:
        settings = {name: case[name] for name in ("max_query_length", "max_document_length")}
        settings["max_length"] = case["capacity"]
        key = json.dumps(settings)
        scorer = scorers.setdefault(key, loaded(folders[kind], **settings))
        group = group_of(case["query"], case["documents"])
        ids = [list(item.payload.block.ids) for item in scorer.encode([group])]
        hashes = [hashlib.sha256(json.dumps(row).encode()).hexdigest() for row in ids]
        assert hashes == case["ids_sha256"], case["name"]
        assert not case["ids"] or ids[0] == case["ids"]
        (result,) = scored(scorer, group)
        np.testing.assert_allclose(result.scores, case["scores"], atol=1e-5, err_msg=case["name"])
        lengths = [
            n
            for n, item in zip(case["lengths"], scorer.encode([group]), strict=True)
            for _ in item.payload.block.truncated
        ]
        assert result.tokens.tolist() == lengths


def test_blocks_close_by_count_and_by_capacity() -> None:
    """modeling.py: after the 125th document, or once at most a document's cap is left."""

    def bounds(lengths: Sequence[int], capacity: int) -> list[tuple[int, int]]:
        return block_bounds(lengths, capacity=capacity, block_size=125, document_cap=10)

    assert bounds([1] * 124, 9999) == [(0, 124)]
    assert bounds([1] * 125, 9999) == [(0, 125)]
    assert bounds([1] * 126, 9999) == [(0, 125), (125, 126)]
    assert bounds([10, 10, 10, 10], 31) == [(0, 3), (3, 4)]  # 31 - 20 = 11 are more than 10 left
    assert bounds([10, 10, 10, 10], 30) == [(0, 2), (2, 4)]  # 30 - 20 = 10 are not
    assert bounds([10, 0, 10], 5) == [(0, 1), (1, 2), (2, 3)]
    assert bounds([], 5) == []


def test_a_fused_score_by_hand() -> None:
    """Two blocks; query embeddings (1, 0) and (0, 2), best cosines 1 and 0, so weights 1 and 1/2:
    the query is (2/3, 2/3), at 45 degrees."""
    first = np.array([[3, 0], [0, 1], [1, 0]], dtype=np.float32)
    second = np.array([[1, 0], [-1, 0], [0, 2]], dtype=np.float32)
    half = 0.5**0.5
    np.testing.assert_allclose(
        fused_scores("q", [first, second]), [half, half, half, -half], rtol=1e-6
    )
    alone = fused_scores("q", [np.array([[0, 0], [3, 4], [1, 0]], dtype=np.float32)])
    np.testing.assert_allclose(alone, [0.0, 0.6], rtol=1e-6)
    with pytest.raises(ScoringError, match="query 'q': every document is the query's opposite"):
        fused_scores("q", [np.array([[-1, 0], [1, 0]], dtype=np.float32)])


def test_scores_follow_the_documents_not_their_order_by_score(folders: dict[str, Path]) -> None:
    """T11: the first document of this list is not its best, and `rerank` would put it elsewhere."""
    case = next(case for case in GOLDEN["jina"] if case["name"] == "odd texts, plain query")
    (result,) = scored(loaded(folders["jina"]), group_of(case["query"], case["documents"]))
    assert int(np.argmax(result.scores)) == int(np.argmax(case["scores"])) != 0


def test_a_score_depends_on_the_other_documents_and_their_order(folders: dict[str, Path]) -> None:
    """T12: so a query that is parted or reordered gets other scores, never silently the same."""
    scorer, documents = loaded(folders["jina"]), passages(8)
    (whole,) = scored(scorer, group_of("필터 교체?", documents))
    (turned,) = scored(scorer, group_of("필터 교체?", documents[::-1]))
    assert np.abs(whole.scores - turned.scores[::-1]).max() > 1e-3
    (part,) = scored(scorer, group_of("필터 교체?", documents[4:]))
    assert np.abs(whole.scores[4:] - part.scores).max() > 1e-3


def test_a_query_without_all_of_its_blocks_is_refused(folders: dict[str, Path]) -> None:
    scorer = loaded(folders["jina"], block_size=3)
    group = group_of("필터 교체?", passages(8))
    items = scorer.encode([group])
    rows = scorer.forward(items)
    assert len(items) == 3
    for wrong in ([0, 2], [0, 1], [1, 0, 2]):
        with pytest.raises(ScoringError, match="query 'q': its blocks are not its 8 documents"):
            scorer.combine(
                [group], [items[n] for n in wrong], [rows[n] for n in wrong], [None] * len(wrong)
            )


@pytest.mark.parametrize("kind", KINDS)
def test_scores_do_not_depend_on_the_batch(folders: dict[str, Path], kind: str) -> None:
    """T5, T6: prompts of several queries side by side, padded and masked, against each alone."""
    groups = [
        group_of("필터 교체?", passages(count, seed=count), f"q{count}") for count in (1, 9, 4)
    ]
    scorer = loaded(folders[kind], block_size=4)
    items = scorer.encode(groups)
    assert len(items) == 5
    together = scorer.forward(items)
    for item, row in zip(items, together, strict=True):
        np.testing.assert_allclose(row, scorer.forward([item])[0], atol=1e-5)
    for group, result in zip(groups, scored(scorer, *groups), strict=True):
        np.testing.assert_allclose(result.scores, scored(scorer, group)[0].scores, atol=1e-5)


def test_the_sliding_window_is_respected(folders: dict[str, Path], tmp_path: Path) -> None:
    """T27: eager and sdpa agree on documents longer than the window; without it, all differs."""
    group = group_of("필터 교체?", [" ".join(passages(6, seed)) for seed in range(3)])
    hybrid = loaded(folders["jina_hybrid"])
    assert len(hybrid.encode([group])[0].payload.block.ids) > 10 * WINDOW
    assert hybrid.describe()["attention_layers"] == "2 full, 3 with a window of 24 tokens"
    (sdpa,) = scored(hybrid, group)
    (eager,) = scored(loaded(folders["jina_hybrid"], replace(CPU, attention="eager")), group)
    np.testing.assert_allclose(sdpa.scores, eager.scores, atol=1e-5)
    full = build(
        "jina_hybrid", tmp_path, layer_types=["full_attention"] * 5, use_sliding_window=False
    )
    (everywhere,) = scored(loaded(full), group)
    assert np.abs(everywhere.scores - sdpa.scores).max() > 1e-3


def test_a_window_that_is_stated_and_not_used_is_refused(tmp_path: Path) -> None:
    folder = build("jina_hybrid", tmp_path)
    set_config(folder, use_sliding_window=False, layer_types=HYBRID["layer_types"])
    with pytest.raises(ScoringError, match="3 layers of sliding attention and no window in use"):
        loaded(folder)


def test_empty_and_blank_texts_have_scores(folders: dict[str, Path]) -> None:
    """T24."""
    scorer = loaded(folders["jina"])
    for query in ("", " ", "필터"):
        (result,) = scored(scorer, group_of(query, ["", " ", "\n", "필터"]))
        assert np.isfinite(result.scores).all()
        assert result.failures == (None,) * 4
        assert len(set(result.scores)) == 4


def test_what_was_cut_is_marked_by_document(folders: dict[str, Path]) -> None:
    scorer = loaded(folders["jina"], max_document_length=20, max_query_length=20)
    documents = ["필터", "reset " * 60, "교체"]
    (result,) = scored(scorer, group_of("필터?", documents))
    assert result.truncated.tolist() == [False, True, False]
    (result,) = scored(scorer, group_of("필터 " * 60, documents))
    assert result.truncated.tolist() == [True, True, True]


class Exhausted(ListwiseEmbedding):
    """Has no memory for the second block of query b."""

    def forward(self, items: Sequence[Item]) -> list[np.ndarray]:
        if any(item.label.startswith("query 'b', documents 'b-d3'") for item in items):
            raise MemoryError
        return super().forward(items)


def test_a_block_that_fails_takes_its_whole_query_and_no_other(folders: dict[str, Path]) -> None:
    whole = loaded(folders["jina"], block_size=3)
    groups = [group_of("필터 교체?", passages(7, seed), name) for seed, name in enumerate("abc")]
    failing = Exhausted(whole.model, whole.projector, whole.reader, device="cpu", facts={})
    first, second, third = scored(failing, *groups)
    assert second.failures == (OUT_OF_MEMORY,) * 7
    assert np.isnan(second.scores).all()
    for found, group in ((first, groups[0]), (third, groups[2])):
        np.testing.assert_allclose(found.scores, scored(whole, group)[0].scores, atol=1e-5)


def test_a_text_that_forms_a_marker_anew_is_refused(folders: dict[str, Path]) -> None:
    """modeling.py removes the query's marker first; what then appears would be read as a query."""
    odd = "x <|rerank_<|embed_token|>token|> y"
    (result,) = scored(loaded(folders["jina"]), group_of("필터", ["교체", odd]))
    assert np.isnan(result.scores).all()
    assert "forms a marker token once another marker is removed" in str(result.failures[0])


def test_a_prompt_beyond_the_positions_is_refused(tmp_path: Path) -> None:
    """Capacity counts texts alone, so a frame can take a prompt over the model's positions."""
    folder = build("jina", tmp_path, max_position_embeddings=400)
    scorer = loaded(folder, max_document_length=10)
    (result,) = scored(scorer, group_of("필터", ["reset"] * 30))
    assert "more than the model's 400 positions; lower max_length by" in str(result.failures[0])
    with pytest.raises(ScoringError, match="max_length 401 is more than the 400 positions"):
        loaded(folder, max_length=401)


def test_special_tokens_in_a_text_can_be_read_as_text(folders: dict[str, Path]) -> None:
    """The frame keeps its own; texts without special tokens have the same ids either way."""
    plain = loaded(folders["jina"])
    split = loaded(folders["jina"], split_special_tokens=True)
    clean = group_of("필터?", [*passages(3), "\n", " x", "</p>"])
    assert ids_of(plain, clean) == ids_of(split, clean)
    odd = group_of("a<|im_end|>", ["b<|im_start|>c", "<|embed_token|>d"])
    end = plain.reader.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert (ids_of(plain, odd).count(end), ids_of(split, odd).count(end)) == (4, 2)
    marker = split.reader.document_id
    assert ids_of(split, odd).count(marker) == ids_of(plain, odd).count(marker) == 2


def ids_of(scorer: ListwiseEmbedding, group: QueryGroup) -> tuple[int, ...]:
    (item,) = scorer.encode([group])
    ids: tuple[int, ...] = item.payload.block.ids
    return ids


def test_an_instruction_stands_between_query_and_documents(folders: dict[str, Path]) -> None:
    """The literal text of modeling.py's `format_docs_prompts_func`."""
    scorer = loaded(folders["jina"], instruction="Prefer manuals.")
    text = scorer.reader.tokenizer.decode(ids_of(scorer, group_of("q?", ["d"])))
    expected = 'query: q?\n<instruct>\nPrefer manuals.\n</instruct>\n<passage id="0">\nd'
    assert expected in text
    with pytest.raises(ConfigError, match="instruction holds a marker"):
        ListwiseEmbeddingParams(instruction="a <|embed_token|>")


def test_half_precision_embeddings_leave_the_projector_in_fp32(folders: dict[str, Path]) -> None:
    """The projector runs in fp32 whatever the dtype: its output is no multiple of bf16's steps."""
    scorer = loaded(folders["jina"], replace(CPU, dtype="bfloat16"))
    group = group_of("필터 교체?", passages(5))
    (row,) = scorer.forward(scorer.encode([group]))
    assert row.dtype == np.float32
    assert (row.view(np.uint32) & 0xFFFF).astype(bool).mean() > 0.9
    (half,), (whole,) = scored(scorer, group), scored(loaded(folders["jina"]), group)
    np.testing.assert_allclose(half.scores, whole.scores, atol=0.05)


def test_code_in_the_folder_is_never_run(folders: dict[str, Path], tmp_path: Path) -> None:
    """config.json names a class that is not there: it loads, and without trust. A tokenizer of the
    folder's own would have to be run, and is refused."""
    config = json.loads((folders["jina"] / "config.json").read_text())
    assert config["auto_map"] == {"AutoModel": "modeling.JinaForRanking"}
    loaded(folders["jina"])
    folder = build("jina", tmp_path)
    set_config(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]})
    with pytest.raises(ScoringError, match="brings its own code"):
        loaded(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drop": "projector.2.weight"}, "must hold projector.0.weight and projector.2.weight"),
        ({"drop": "projector.0.weight", "also": "projector.2.weight"}, "holds no projector"),
        ({"turn": "projector.0.weight"}, "of fitting shapes for 32 hidden units"),
        ({"add": "projector.0.bias"}, "must hold projector.0.weight"),
        ({"drop": "model.layers.1.mlp.up_proj.weight"}, "lacks 1 weights of Qwen3Model"),
    ],
)
def test_weights_that_are_missing_or_other_are_refused(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    """T16: nothing is left to chance, of the decoder or of the projector."""
    folder = build("jina", tmp_path)
    weights = load_file(folder / "model.safetensors")
    for name in ("drop", "also"):
        weights.pop(change.get(name, ""), None)
    if "turn" in change:
        weights[change["turn"]] = weights[change["turn"]].T.contiguous()
    if "add" in change:
        weights[change["add"]] = weights["model.norm.weight"].clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ScoringError, match=message):
        loaded(folder)


def test_other_models_and_tokenizers_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ScoringError, match=r"no token <\|other\|>"):
        loaded(folders["jina"], query_marker="<|other|>")
    folder = build("jina", tmp_path)
    tokenizer = loaded(folder).reader.tokenizer
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_end|> $A", special_tokens=[("<|im_end|>", 5)]
    )
    tokenizer.save_pretrained(folder)
    with pytest.raises(ScoringError, match="the tokenizer adds special tokens to a text"):
        loaded(folder)
    set_config(folder, model_type="qwen2", layer_types=None)
    with pytest.raises(ScoringError, match="holds a qwen2 model, adapter listwise_embedding"):
        loaded(folder)


@pytest.mark.parametrize("name", ["block_size", "max_query_length", "max_document_length"])
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(RerankError, match=f"{name} 0: give a whole number"):
        ListwiseEmbeddingParams(**{name: 0})


def test_the_contract_reads_what_the_scorer_reads(folders: dict[str, Path]) -> None:
    settings = {"max_document_length": 20, "max_query_length": 20}
    scorer = loaded(folders["jina"], **settings)
    recipe = contract(spec_of(folders["jina"], **settings))
    for query, document in (("필터?", "교체"), ("필터 " * 60, "reset " * 60), ("", "")):
        reading = recipe.read(query, document)
        assert reading.sequences[0].ids == ids_of(scorer, group_of(query, [document]))
    cuts = recipe.read("필터 " * 60, "reset " * 60).cuts
    assert [(cut.text, cut.kept, cut.why) for cut in cuts] == [
        ("query", 20, "max_query_length 20"),
        ("document", 20, "max_document_length 20"),
    ]
    assert recipe.facts["rendered_ids"] == scorer.describe()["rendered_ids"]
    assert recipe.facts["max_length"] == 131_072


def test_windows_that_the_config_hides_are_missed(tmp_path: Path) -> None:
    """T27. A pattern under a key that transformers does not read makes all layers global."""
    folder = build("jina_hybrid", tmp_path / "hybrid")
    config = json.loads((folder / "config.json").read_text())
    config["attention_pattern"] = config.pop("layer_types")
    config["use_sliding_window"] = False
    (folder / "config.json").write_text(json.dumps(config))
    params = ListwiseEmbeddingParams(sliding_layers=3)
    spec = ModelSpec("m", "listwise_embedding", weights=str(folder), max_length=512, params=params)
    with pytest.raises(ScoringError, match="0 of 5 layers a sliding window.*sliding_layers: 3"):
        load_scorer(spec, CPU)

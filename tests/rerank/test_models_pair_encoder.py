"""pair_encoder against sentence_transformers.CrossEncoder and huggingface/tokenizers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from rerank.errors import ScoringError
from rerank.models.pair_encoder import PairEncoderParams, contract
from rerank.models.pair_frame import longest_first
from rerank.records import QueryGroup
from rerank.scoring import score_groups
from tests.standins.encoders import KINDS, LENGTH, LONG, ROWS, SHORT, build
from tests.standins.pairs import CPU, groups_of, loaded, reference, scores_of, spec_of


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_the_tokenizers_own(kind: str, folders: dict[str, Path]) -> None:
    """Oracle: tokenizer(query, document, truncation=...), ids and token types, both rules."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[kind])
    for truncation, rows in (("longest_first", ROWS), ("only_second", SHORT)):
        scorer = loaded(folders[kind], truncation=truncation)
        for group, (query, document) in zip(groups_of(rows), rows, strict=True):
            expected = tokenizer(
                [query],
                [document],
                truncation=truncation,
                max_length=LENGTH,
                return_token_type_ids=True,
            )
            (item,) = scorer.encode([group])
            ids, types = item.payload.value
            assert list(ids) == expected["input_ids"][0], (query, document)
            assert list(types) == expected["token_type_ids"][0]
            whole = tokenizer([query], [document], truncation=False)["input_ids"][0]
            assert (item.tokens, item.truncated) == (len(ids), len(whole) > LENGTH)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_cross_encoder(kind: str, folders: dict[str, Path]) -> None:
    """Oracle: CrossEncoder with Identity, batch size 1; ours in mixed batches, within 1e-5."""
    scorer = loaded(folders[kind], truncation="longest_first")
    expected = reference(folders[kind], ROWS)
    assert np.ptp(expected) > 0.1  # the tiny model does tell the rows apart
    np.testing.assert_allclose(scores_of(scorer, ROWS), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_flag_embedding_recipe(kind: str, folders: dict[str, Path]) -> None:
    """Query to max_length * 3 // 4, then only_second (FlagEmbedding encoder_only/base.py).

    Oracle: the same steps written with tokenizers' own truncate and post_process.
    """
    backend = Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
    scorer = loaded(folders[kind], query_cap=0.75)
    for group, (query, document) in zip(groups_of(ROWS), ROWS, strict=True):
        first = backend.encode(query, add_special_tokens=False)
        second = backend.encode(document, add_special_tokens=False)
        first.truncate(LENGTH * 3 // 4)
        second.truncate(LENGTH)
        backend.enable_truncation(LENGTH, strategy="only_second")
        expected = backend.post_process(first, second).ids
        backend.no_truncation()
        assert list(scorer.encode([group])[0].payload.value[0]) == expected


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 30))
def test_longest_first_is_the_rule_of_tokenizers(query: int, document: int, room: int) -> None:
    """Oracle: huggingface/tokenizers `enable_truncation(strategy="longest_first")`."""
    backend = Tokenizer(models.WordLevel({"q": 0, "d": 1}, unk_token="q"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.enable_truncation(room, strategy="longest_first")
    ids = backend.encode("q " * query, "d " * document).ids
    assert longest_first(query, document, room) == (ids.count(0), ids.count(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [1, 2 * LENGTH, 6 * LENGTH, 10_000])
def test_scores_do_not_depend_on_the_batch(
    kind: str, budget: int, folders: dict[str, Path]
) -> None:
    """Conformance 47, fp32: batches of 1, 2, 6 and all, within 1e-5, same order, equal texts equal.

    Also what wrong padding, position ids or masks would break.
    """
    rows = [
        ("서울의 인구는?", text)
        for text in ("약 940만 명", "서울", "", LONG, "Busan", "약 940만 명")
    ]
    scorer = loaded(folders[kind], truncation="longest_first")
    alone = np.array([scores_of(scorer, [row])[0] for row in rows])
    found = scores_of(scorer, rows, budget)
    np.testing.assert_allclose(found, alone, atol=1e-5)
    assert (np.argsort(-found, kind="stable") == np.argsort(-alone, kind="stable")).all()
    query_group = QueryGroup("q", rows[0][0], tuple("012345"), tuple(d for _, d in rows), (1,) * 6)
    (result,), report = score_groups(scorer, [query_group], budget)
    assert result.scores[0] == result.scores[5]
    assert report.items == 5


def test_the_query_is_never_cut_by_default(folders: dict[str, Path]) -> None:
    """Conformance 49: one of two documents is cut, and the ids still begin with the whole query."""
    scorer = loaded(folders["xlmr"])
    query = "수도는 어디인가?"
    group = QueryGroup("q1", query, ("long", "short"), (LONG * 4, "서울이다."), (1, 2))
    (result,), _ = score_groups(scorer, [group], 1_024)
    assert result.truncated.tolist() == [True, False]
    assert result.tokens[0] == LENGTH
    whole = scorer.reader.tokenizer(query, add_special_tokens=False)["input_ids"]
    ids = scorer.encode([group])[0].payload.value[0]
    assert list(ids[1 : 1 + len(whole)]) == whole


def test_a_query_that_leaves_no_room_is_a_failure_of_its_pairs(folders: dict[str, Path]) -> None:
    """Nothing is cut silently: the reason says what to set; an empty document loses nothing."""
    scorer = loaded(folders["xlmr"])
    fitting = " ".join(["필터"] * (LENGTH - 4))
    assert (
        len(scorer.reader.tokenizer(fitting, add_special_tokens=False)["input_ids"]) == LENGTH - 4
    )
    groups = [
        QueryGroup("long", LONG, ("a", "b"), ("text", ""), (1, 2)),
        QueryGroup("full", fitting, ("a", "b"), ("text", ""), (1, 2)),
    ]
    (long, full), report = score_groups(scorer, groups, 1_024)
    assert all("set query_cap" in str(reason) for reason in (*long.failures, full.failures[0]))
    assert full.failures[1] is None
    assert np.isnan([*long.scores, full.scores[0]]).all()
    assert report.batches == 1


def test_a_cap_in_tokens_and_as_a_fraction() -> None:
    """0.75 of 47 is 35: rounded down, as max_length * 3 // 4."""
    assert PairEncoderParams(query_cap=0.75).query_tokens(47) == 47 * 3 // 4 == 35
    assert PairEncoderParams(query_cap=12).query_tokens(47) == 12
    assert PairEncoderParams().query_tokens(47) is None


def test_special_tokens_in_a_text_can_be_read_as_text(folders: dict[str, Path]) -> None:
    """The default is the reference's: "[SEP]" in a text is the special token."""
    (group,) = groups_of([("a", "b [SEP] c")])
    for split, count in ((False, 3), (True, 2)):
        scorer = loaded(folders["bert"], split_special_tokens=split)
        ids, _ = scorer.encode([group])[0].payload.value
        assert ids.count(scorer.reader.tokenizer.sep_token_id) == count


def test_token_types_are_passed_or_dropped(folders: dict[str, Path]) -> None:
    """Oracle for drop: the model itself without token_type_ids; this BERT's score does change."""
    row = [("필터", "filter reset")]
    kept = scores_of(loaded(folders["bert"]), row)
    dropped = loaded(folders["bert"], token_type_ids="drop")
    ids = dropped.encode(groups_of(row))[0].payload.value[0]
    with torch.inference_mode():
        expected = dropped.model(input_ids=torch.tensor([ids])).logits.item()
    assert scores_of(dropped, row)[0] == pytest.approx(expected, abs=1e-5)
    assert abs(kept[0] - expected) > 1e-3


def test_one_label_of_several(tmp_path: Path) -> None:
    """Two labels need label_index; oracle: that column of CrossEncoder's logits."""
    folder = build("bert", tmp_path, labels=2)
    with pytest.raises(ScoringError, match="2 labels; set `label_index`"):
        loaded(folder)
    with pytest.raises(ScoringError, match="labels 0 to 1"):
        loaded(folder, label_index=2)
    expected = reference(folder, SHORT)[:, 1]
    scorer = loaded(folder, label_index=1, truncation="longest_first")
    np.testing.assert_allclose(scores_of(scorer, SHORT), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_positions_bound_max_length_at_load(kind: str, folders: dict[str, Path]) -> None:
    """BERT: rows of the table; XLM-R: rows - padding_idx - 1. The bound itself works (trap 15)."""
    with pytest.raises(ScoringError, match=f"set max_length: {LENGTH} or less"):
        loaded(folders[kind], max_length=LENGTH + 1)
    scorer = loaded(folders[kind], max_length=LENGTH)
    (result,), _ = score_groups(scorer, groups_of([("a", LONG)]), 1_024)
    assert result.tokens.tolist() == [LENGTH]
    assert np.isfinite(result.scores).all()


def test_padding_never_passes_the_position_table(tmp_path: Path) -> None:
    """45 positions: an input of 45 tokens is padded to 45, not to 48."""
    folder = build("bert", tmp_path, max_position_embeddings=45)
    scorer = loaded(folder, token_type_ids="drop")
    assert scorer.reader.max_length == 45
    assert np.isfinite(scores_of(scorer, [("a", LONG), ("b", "c")])).all()


def test_a_model_without_its_head_is_refused(tmp_path: Path) -> None:
    """Trap 16: transformers would make a random one. The message names the weights."""
    folder = build("bert", tmp_path)
    transformers.BertModel.from_pretrained(folder).save_pretrained(folder)
    with pytest.raises(ScoringError, match=r"would be random: .*classifier\.weight"):
        loaded(folder)


def test_a_head_of_another_shape_is_refused(tmp_path: Path) -> None:
    """config.json says one label, the file holds three."""
    folder = build("bert", tmp_path, labels=3)
    config = json.loads((folder / "config.json").read_text())
    for key in ("id2label", "label2id"):
        config.pop(key)
    (folder / "config.json").write_text(json.dumps({**config, "num_labels": 1}))
    with pytest.raises(ScoringError, match="classifier"):
        loaded(folder)


def test_a_tokenizer_without_padding_names_the_key(tmp_path: Path) -> None:
    """Trap 4: set by the config, from the vocabulary, never by resizing the model."""
    folder = build("xlmr", tmp_path, pad_token=False)
    with pytest.raises(ScoringError, match='pad_token: "</s>"'):
        loaded(folder)
    with pytest.raises(ScoringError, match="not in the vocabulary"):
        loaded(folder, pad_token="<nothing>")
    scorer = loaded(folder, pad_token="<pad>", truncation="longest_first")
    np.testing.assert_allclose(
        scores_of(scorer, SHORT), [scores_of(scorer, [row])[0] for row in SHORT], atol=1e-5
    )


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_damaged_folder_is_one_sentence(
    name: str, tmp_path: Path, folders: dict[str, Path]
) -> None:
    """Not a traceback from inside a library."""
    folder = shutil.copytree(folders["bert"], tmp_path / "copy")
    (folder / name).write_text("{")
    with pytest.raises(ScoringError, match="cannot be loaded"):
        loaded(folder)


def test_in_bf16_the_head_stays_exact(folders: dict[str, Path]) -> None:
    """Encoder in bf16, head in fp32 with the file's own weights: scores off the bf16 grid."""
    place = replace(CPU, dtype="bfloat16")
    kept = loaded(folders["xlmr"], place, truncation="longest_first")
    exact = loaded(folders["xlmr"]).model.classifier.state_dict()
    for name, weight in kept.model.classifier.state_dict().items():
        assert torch.equal(weight, exact[name])
    assert kept.model.base_model.embeddings.word_embeddings.weight.dtype == torch.bfloat16
    coarse = loaded(folders["xlmr"], place, truncation="longest_first", keep_head_fp32=False)
    on_grid = []
    for scorer in (kept, coarse):
        scores = torch.tensor(scores_of(scorer, ROWS), dtype=torch.float32)
        on_grid.append((scores == scores.bfloat16().float()).float().mean().item())
    assert on_grid[0] < 0.5
    assert on_grid[1] == 1.0


def test_a_score_is_a_logit_of_any_size(folders: dict[str, Path]) -> None:
    """Trap 8: no sigmoid, though config.json may ask CrossEncoder for one."""
    scores = scores_of(loaded(folders["bert"], truncation="longest_first"), ROWS)
    assert (scores < 0).any() or (scores > 1).any()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("ce_me5L4_ko", {"token_type_ids": "drop"}), ("ce_tiny_en_msmarco", {})],
)
def test_real_weights_score_as_cross_encoder_does(
    name: str, settings: dict[str, Any], data_folder: Path
) -> None:
    """Oracle: CrossEncoder on a model that was trained; and it knows the capital of Korea."""
    folder = data_folder / "small-models" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    questions = {
        "ce_me5L4_ko": (
            "한국의 수도는 어디인가요?",
            "대한민국의 수도는 서울이다.",
            "바나나는 노랗다.",
        ),
        "ce_tiny_en_msmarco": (
            "what is the capital of france",
            "Paris is the capital of France.",
            "Bananas are yellow.",
        ),
    }
    query, good, bad = questions[name]
    rows = [(query, good), (query, bad), (query, ""), ("", good), (query, LONG)]
    scorer = loaded(folder, max_length=LENGTH, truncation="longest_first", **settings)
    found = scores_of(scorer, rows)
    np.testing.assert_allclose(found, reference(folder, rows), atol=1e-5)
    assert found[0] > found[1] + 1


def test_the_description_tells_one_recipe_from_another(folders: dict[str, Path]) -> None:
    """For run.json: digest of the tokenizer and of one rendered pair, limits, class."""
    facts = [loaded(folders[kind]).describe() for kind in KINDS]
    assert facts[0]["model_class"] == "BertForSequenceClassification"
    assert facts[0]["max_length"] == facts[0]["position_limit"] == LENGTH
    assert facts[0]["rendered_ids"] != facts[1]["rendered_ids"]
    assert all(fact["tokenizer"].startswith("sha256:") for fact in facts)
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rules", [{"truncation": "longest_first"}, {"query_cap": 0.75}, {"query_cap": 5}, {}]
)
def test_the_contract_shows_what_the_model_reads(
    kind: str, rules: dict[str, Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    """Oracle: the items of the loaded scorer. The contract is made with unreadable weights."""
    folder = shutil.copytree(folders[kind], tmp_path / "no-weights")
    (folder / "model.safetensors").write_text("none")
    found = contract(spec_of(folder, **rules))
    scorer = loaded(folders[kind], **rules)
    for group, row in zip(groups_of(ROWS), ROWS, strict=True):
        (item,), reading = scorer.encode([group]), found.read(*row)
        assert reading.refusal == item.failure
        if item.failure is None:
            (pair,) = reading.sequences
            assert pair.ids == item.payload.value[0]
            assert bool(reading.cuts) == item.truncated
            whole = dict(zip(("query", "document"), scorer.reader.ids(row), strict=True))
            assert all(cut.tokens == len(whole[cut.text]) > cut.kept for cut in reading.cuts)
    assert json.loads(json.dumps(found.facts)) == found.facts
    shared = {"max_length", "position_limit", "tokenizer", "tokenizer_ids", "rendered_ids"}
    assert {key: found.facts[key] for key in shared} == {
        key: scorer.describe()[key] for key in shared
    }


def test_a_contract_says_why_a_text_was_cut(folders: dict[str, Path]) -> None:
    """48 tokens, 3 of BERT's frame: 36 is 3/4; 9 are left to the document; and the frame."""
    found = contract(spec_of(folders["bert"], query_cap=0.75))
    (query, document) = found.read(LONG, LONG).cuts
    assert (query.text, query.kept, query.why) == ("query", 36, "query_cap 36")
    assert (document.text, document.kept, document.why) == ("document", 9, "max_length 48")
    halved = contract(spec_of(folders["bert"], truncation="longest_first")).read(LONG, LONG)
    assert [(cut.kept, cut.why) for cut in halved.cuts] == [
        (22, "max_length 48"),
        (23, "max_length 48"),
    ]
    assert found.facts["template"] == "[CLS] {query} [SEP] {document} [SEP]"
    assert found.facts["token_types"] == [0, 0, 0, 1, 1]
    assert found.facts["query_cap"] == 36


def test_a_contract_checks_the_recipe_too(folders: dict[str, Path]) -> None:
    """max_length over the positions, and a head that the folder does not have."""
    with pytest.raises(ScoringError, match="set max_length: 48 or less"):
        contract(spec_of(folders["bert"], max_length=49))
    with pytest.raises(ScoringError, match="set head: auto"):
        contract(spec_of(folders["bert"], head="st_modules"))

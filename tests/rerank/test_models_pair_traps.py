"""Ways in which a cross-encoder's score goes silently wrong, each shown not to happen.

The numbers (trap 5 and so on) are those of the project's list of known traps.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank.errors import ScoringError
from rerank.models import transformer
from rerank.models.pair_encoder import PairEncoder, PairEncoderParams
from rerank.records import QueryGroup, Segmented
from rerank.scoring import score_groups, segments
from tests.standins.encoders import KINDS, LENGTH, LONG, ROWS, SHORT, build
from tests.standins.pairs import CPU, groups_of, loaded, reference, scores_of

ALL = [*KINDS, "ettin"]
HEAD = {"ettin": "st_modules"}
BF16 = replace(CPU, dtype="bfloat16")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(kind, tmp_path_factory.mktemp(kind) / kind) for kind in ALL}


def scorer_of(kind: str, folders: dict[str, Path]) -> PairEncoder:
    return loaded(folders[kind], truncation="longest_first", head=HEAD.get(kind, "auto"))


@pytest.mark.parametrize("kind", ALL)
def test_padding_does_not_move_a_score(kind: str, folders: dict[str, Path]) -> None:
    """Trap 5: each row alone, and in batches of mixed lengths, within 1e-5."""
    scorer = scorer_of(kind, folders)
    alone = np.concatenate([scores_of(scorer, [row]) for row in ROWS])
    assert np.ptp(alone) > 0.1
    for budget in (4 * LENGTH, 100 * LENGTH):
        np.testing.assert_allclose(scores_of(scorer, ROWS, budget), alone, atol=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_padding_is_masked(kind: str, folders: dict[str, Path]) -> None:
    """Trap 6: with more padding the score is the same; without the mask it is another."""
    scorer = scorer_of(kind, folders)
    short, long = scorer.encode(groups_of([ROWS[0], ("필터", LONG)]))
    alone, padded = scorer.forward([short]), scorer.forward([short, long])
    assert padded[0] == pytest.approx(alone[0], abs=1e-5)
    (ids, types), pad = short.payload.value, scorer.reader.tokenizer.pad_token_id
    inputs = transformer.padded_inputs(
        [ids, long.payload.value[0]],
        [types, long.payload.value[1]] if scorer.reader.passes_types else None,
        pad_id=pad, positions=LENGTH, device="cpu",
    )  # fmt: skip
    inputs["attention_mask"][:] = 1
    with torch.inference_mode():
        unmasked = scorer._logits(inputs)[0, 0].item()
    assert abs(unmasked - alone[0, 0]) > 1e-3


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("side", ["left"])
def test_a_tokenizer_that_pads_on_the_left_is_padded_on_the_right(
    kind: str, side: str, folders: dict[str, Path]
) -> None:
    """Trap 5: an encoder's [CLS] and its positions are at the left end, whatever the file says."""
    scorer = scorer_of(kind, folders)
    expected = scores_of(scorer, ROWS)
    scorer.reader.tokenizer.padding_side = side
    np.testing.assert_allclose(scores_of(scorer, ROWS), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "xlmr", "modernbert"])
def test_special_tokens_in_texts_are_read_as_the_reference_reads_them(
    kind: str, folders: dict[str, Path]
) -> None:
    """Trap 7, the policy: a pad or end token that a text spells is that token; it is not masked.

    Oracle: CrossEncoder, alone; ours alone and in a batch with padding.
    """
    pad = {"xlmr": "<pad>"}.get(kind, "[PAD]")
    end = {"xlmr": "</s>"}.get(kind, "[SEP]")
    rows = [
        ("filter", f"replace the filter{pad}"),
        (f"{pad} filter", "replace"),
        ("filter", f"{pad}{pad} replace {end}"),
        (f"filter {end}", f"{end} replace"),
        ("필터", LONG),
    ]
    scorer = scorer_of(kind, folders)
    expected = reference(folders[kind], rows)
    np.testing.assert_allclose(scores_of(scorer, rows), expected, atol=1e-5)
    ids, _ = scorer.encode(groups_of(rows[:1]))[0].payload.value
    assert ids[-2] == scorer.reader.tokenizer.pad_token_id  # before the frame's end
    inputs = transformer.padded_inputs([ids], None, pad_id=ids[-2], positions=None, device="cpu")
    assert inputs["attention_mask"].sum() == len(ids)
    bare = scores_of(scorer, [("filter", "replace the filter")])
    assert abs(bare[0] - expected[0]) > 1e-4


def test_the_head_in_fp32_keeps_scores_apart(folders: dict[str, Path]) -> None:
    """Trap 8: distinct values of 1000 logits of a bf16 encoder, head in fp32 against bf16."""
    texts = tuple(f"replace {n} the {n * 7 % 13} lamp" for n in range(1_000))
    group = QueryGroup("q", "filter", tuple(map(str, range(1_000))), texts, (1,) * 1_000)
    distinct = []
    for keep in (True, False):
        scorer = loaded(folders["modernbert"], BF16, keep_head_fp32=keep)
        scorer.model.classifier.bias += 4  # about where relevant documents of real models lie
        (result,), _ = score_groups(scorer, [group], 8_192)
        assert result.scores.max() > 1  # a logit, not a probability
        distinct.append(len(set(result.scores.tolist())))
    assert distinct[0] >= 950
    assert distinct[1] <= 300


@pytest.mark.parametrize("kind", ["modernbert", "modernbert_mean", "ettin"])
def test_modernbert_runs_in_bf16(kind: str, folders: dict[str, Path]) -> None:
    """Rotary buffers stay in fp32 beside bf16 weights; scores stay near those of fp32."""
    params = {"truncation": "longest_first", "head": HEAD.get(kind, "auto")}
    scorer = loaded(folders[kind], BF16, **params)
    assert next(scorer.model.parameters()).dtype == torch.bfloat16
    found, exact = scores_of(scorer, SHORT), scores_of(loaded(folders[kind], **params), SHORT)
    assert np.abs(found - exact).max() < 0.1 * np.ptp(exact)


@pytest.mark.parametrize("kind", ["modernbert", "modernbert_mean", "ettin"])
def test_the_local_window_is_the_same_in_every_attention(
    kind: str, folders: dict[str, Path]
) -> None:
    """Trap 27: 40 tokens with a window of 4 to each side; and the window does decide the score."""
    params = {"truncation": "longest_first", "head": HEAD.get(kind, "auto")}
    rows = [("필터", LONG), ("filter reset", LONG[40:])]
    eager = scores_of(loaded(folders[kind], replace(CPU, attention="eager"), **params), rows)
    sdpa = loaded(folders[kind], **params)
    np.testing.assert_allclose(scores_of(sdpa, rows), eager, atol=1e-5)
    config = transformers.AutoConfig.from_pretrained(folders[kind])
    assert sdpa.encode(groups_of(rows))[0].tokens > 2 * config.local_attention
    sdpa.model.config.sliding_window = 10 * LENGTH
    assert np.abs(scores_of(sdpa, rows) - eager).max() > 1e-3


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u3000"])
def test_an_empty_document_has_a_score(kind: str, text: str, folders: dict[str, Path]) -> None:
    """Trap 24: finite, the same alone as beside others, for whatever the tokenizer makes of it."""
    scorer = scorer_of(kind, folders)
    alone = scores_of(scorer, [("filter", text)])
    among = scores_of(scorer, [("필터", LONG), ("filter", text), ("filter", "replace")])
    assert np.isfinite(alone).all()
    assert among[1] == pytest.approx(alone[0], abs=1e-5)


def test_xlmr_loses_two_rows_of_its_position_table(tmp_path: Path) -> None:
    """Trap 15: 514 rows are 512 tokens; 513 would be an IndexError, on a GPU a dead process."""
    folder = build("xlmr", tmp_path, max_position_embeddings=514)
    for length in (513, 514, 8_192):
        with pytest.raises(ScoringError, match="512 positions .* set max_length: 512 or less"):
            loaded(folder, max_length=length)
    scorer = loaded(folder, max_length=512)
    (result,), _ = score_groups(scorer, groups_of([("a", LONG * 20)]), 1_024)
    assert result.tokens.tolist() == [512]
    assert np.isfinite(result.scores).all()


def test_the_pad_token_reaches_tokenizer_and_model(tmp_path: Path) -> None:
    """Trap 4: named by the YAML; both say the same id, and a batch of unequal rows runs."""
    folder = build("bert", tmp_path, pad_token=False, pad_token_id=None)
    scorer = loaded(folder, pad_token="[PAD]")
    assert scorer.reader.tokenizer.pad_token_id == scorer.model.config.pad_token_id == 0
    assert np.isfinite(scores_of(scorer, [("a", "b"), ("필터", "replace the filter now")])).all()


def test_a_token_beyond_the_embeddings_is_refused(tmp_path: Path) -> None:
    """A model that would have to be resized: its new rows would be random."""
    folder = build("bert", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ScoringError, match="never resized"):
        loaded(folder)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 8_192))
def test_three_quarters_are_those_of_whole_numbers(max_length: int) -> None:
    """FlagEmbedding cuts queries at max_length * 3 // 4."""
    assert PairEncoderParams(query_cap=0.75).query_tokens(max_length) == max_length * 3 // 4


def test_pairs_are_encoded_a_segment_at_a_time(folders: dict[str, Path]) -> None:
    """Whole queries of up to 2048 pairs; the scores are those of one segment."""
    scorer = scorer_of("xlmr", folders)
    assert isinstance(scorer, Segmented)
    groups = [replace(group, query_id=str(n)) for n, group in enumerate(groups_of(ROWS) * 100)]
    parts = [len(part) for part in segments(scorer, groups)]
    assert parts == [2_048] * (len(groups) // 2_048) + [len(groups) % 2_048]
    whole = scores_of(scorer, ROWS)
    scorer.segment_pairs = 3
    np.testing.assert_allclose(scores_of(scorer, ROWS), whole, atol=1e-5)

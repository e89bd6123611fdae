"""encoder_decoder against mteb's own code (tests/golden/encoder_decoder.json) and the models."""

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

from rerank.errors import ConfigError, ScoringError
from rerank.models import load_scorer
from rerank.models.encoder_decoder import EncoderDecoder, contract, parts_of, pooled
from rerank.models.encoder_decoder_prompts import special_pattern
from rerank.models.encoder_decoder_reader import EncoderDecoderParams, PairIds
from rerank.models.transformer import supports_flash
from rerank.records import ModelSpec, Placement, QueryGroup
from rerank.scoring import score_groups
from tests.conftest import ROOT
from tests.standins.encoder_decoders import LENGTH, LONG, ROWS, WINDOW, build, digest

CPU = Placement("cpu", "float32", "sdpa")
GOLDEN = json.loads((ROOT / "tests/golden/encoder_decoder.json").read_text(encoding="utf-8"))
KALM: dict[str, Any] = {
    "encoder_template": "<Document>: {document}",
    "decoder_template": (
        "<bos><start_of_turn>user\nJudge whether the Document meets the requirements based on the "
        'Query and the Instruct provided. Note that the answer can only be "yes" or "no".\n\n'
        "<Instruct>: {instruction}\n<Query>: {query}<end_of_turn>\n<start_of_turn>model\n\n\n\n"
    ),
    "instruction": "Given a query, retrieve documents that answer the query.",
    "query_cap": GOLDEN["cases"]["kalm"]["settings"]["query_max_length"],
    "query_round_trip": True,
    "special_tokens": "none",
    "pool_chunk": 4,
    "positive_token": "yes",
    "negative_token": "no",
}
# golden case -> stand-in and settings
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "kalm": ("t5gemma2", KALM),
    "kalm_unpooled": ("t5gemma2", {**KALM, "pool_chunk": None}),
    "monot5": ("t5", {"truncation": "end"}),
}
BOTH = {"t5gemma2": KALM, "t5": {}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(kind, tmp_path_factory.mktemp(kind)) for kind in ("t5", "t5gemma2")}


def spec_of(folder: Path, **params: Any) -> ModelSpec:
    own = {key: params.pop(key) for key in ("max_length", "dtype") if key in params}
    params = EncoderDecoderParams(**params)
    return replace(ModelSpec("m", "encoder_decoder", weights=str(folder), params=params), **own)


def loaded(folder: Path, place: Placement = CPU, **params: Any) -> EncoderDecoder:
    scorer = load_scorer(spec_of(folder, **params), place)
    assert isinstance(scorer, EncoderDecoder)
    return scorer


def groups_of(rows: list[tuple[str, str]]) -> list[QueryGroup]:
    return [QueryGroup(f"q{n}", q, (f"d{n}",), (d,), (1,)) for n, (q, d) in enumerate(rows)]


def scores_of(
    scorer: EncoderDecoder, rows: list[tuple[str, str]], budget: int = 4_096
) -> np.ndarray:
    results, _ = score_groups(scorer, groups_of(rows), budget)
    assert all(result.failures == (None,) for result in results)
    return np.concatenate([result.scores for result in results])


def read(scorer: EncoderDecoder, query: str, document: str) -> PairIds:
    return scorer.reader.read([(query, document)])[0]


def own_margin(scorer: EncoderDecoder, folder: Path, row: tuple[str, str]) -> float:
    """The whole model's own logits at the last token, without pooling."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="float32").eval()
    pair = read(scorer, *row)
    ids = torch.tensor([pair.encoder])
    with torch.inference_mode():
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            decoder_input_ids=torch.tensor([pair.decoder]),
        ).logits[0, -1]
    positive, negative = scorer.facts["label_ids"]
    return float(logits[positive] - logits[negative])


@pytest.mark.parametrize("case", CASES)
def test_the_standin_is_the_one_that_mteb_scored(case: str, folders: dict[str, Path]) -> None:
    """Golden scores mean nothing for other weights, another vocabulary, or other rows."""
    assert GOLDEN["rows"] == [list(row) for row in ROWS]
    assert digest(folders[CASES[case][0]]) == GOLDEN["cases"][case]["digest"]


@pytest.mark.parametrize("case", CASES)
def test_ids_are_those_that_mteb_feeds(case: str, folders: dict[str, Path]) -> None:
    """Oracle: KaLMRerankerWrapper and MonoT5Reranker, encoder and decoder, every row. T1-T3."""
    kind, params = CASES[case]
    scorer, golden = loaded(folders[kind], **params), GOLDEN["cases"][case]
    assert scorer.facts["label_ids"] == golden["label_ids"]
    found = scorer.reader.read(ROWS)
    for row, pair, encoder, decoder in zip(
        ROWS, found, golden["encoder_ids"], golden["decoder_ids"], strict=True
    ):
        assert list(pair.encoder) == encoder, row
        assert list(pair.decoder) == decoder, row


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", [1, 1_024, 100_000])
def test_scores_are_those_of_mteb(case: str, budget: int, folders: dict[str, Path]) -> None:
    """Oracle: their logits, one row at a time; ours alone, in mixed batches, and all in one."""
    kind, params = CASES[case]
    expected = np.array(GOLDEN["cases"][case]["margins"])
    assert np.ptp(expected) > 0.5
    found = scores_of(loaded(folders[kind], **params), ROWS, budget)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    probability = 1 / (1 + np.exp(-found))
    np.testing.assert_allclose(probability, GOLDEN["cases"][case]["probabilities"], atol=1e-5)


def test_the_frame_of_an_over_long_prompt_is_kept(folders: dict[str, Path]) -> None:
    """T1: the ids end in " Relevant:" and </s>, and are those of the tokenizer on a document that
    was shortened by hand; so is the score."""
    scorer = loaded(folders["t5"])
    whole = read(scorer, "which filter?", LONG)
    (cut,) = whole.cuts
    tokenizer = scorer.reader.tokenizer
    kept = tokenizer([LONG], add_special_tokens=False).encodings[0].offsets[: cut.kept]
    short = LONG[: kept[-1][1]]
    prompt = f"Query: which filter? Document: {short} Relevant:"
    assert list(whole.encoder) == tokenizer(prompt)["input_ids"]
    assert len(whole.encoder) == LENGTH
    assert tokenizer.convert_ids_to_tokens(whole.encoder[-2:]) == ["▁Relevant:", "</s>"]
    assert (cut.text, cut.why) == ("document", f"max_length {LENGTH}")
    assert cut.tokens == len(tokenizer(LONG, add_special_tokens=False)["input_ids"])
    long, shortened = scores_of(scorer, [("which filter?", LONG), ("which filter?", short)])
    assert long == shortened
    ends = read(loaded(folders["t5"], truncation="end"), "which filter?", LONG)
    assert [c.text for c in ends.cuts] == ["document", "frame"]


def test_a_query_longer_than_the_input(folders: dict[str, Path]) -> None:
    """T23: refused with what to do; with a cap the document keeps tokens and the frame is whole."""
    scorer = loaded(folders["t5"])
    groups = [QueryGroup("q", LONG * 3, ("a", "b"), ("석 달", ""), (1, 2))]
    (result,), report = score_groups(scorer, groups, 1_024)
    assert all("set query_cap" in str(reason) for reason in result.failures)
    assert np.isnan(result.scores).all()
    assert report.batches == 0
    capped = loaded(folders["t5"], query_cap=20)
    pair = read(capped, LONG * 3, LONG)
    assert [(cut.text, cut.kept) for cut in pair.cuts][0] == ("query", 20)
    assert pair.cuts[0].why == "query_cap 20"
    assert pair.cuts[1].kept == LENGTH - 20 - 4  # Query: Document: Relevant: </s>
    tokens = capped.reader.tokenizer.convert_ids_to_tokens(pair.encoder)
    assert [tokens[0], tokens[21], *tokens[-2:]] == [
        "▁Query:",
        "▁Document:",
        "▁Relevant:",
        "</s>",
    ]


def test_a_query_that_leaves_one_token_and_one_that_leaves_none(folders: dict[str, Path]) -> None:
    """Of 64 tokens the frame takes 4; a refused pair loses nothing silently."""
    scorer = loaded(folders["t5"])
    one, none = (" ".join(["filter"] * count) for count in (59, 60))
    pair = read(scorer, one, "replace every month")
    assert [(cut.text, cut.tokens, cut.kept) for cut in pair.cuts] == [("document", 3, 1)]
    assert pair.refusal is None
    refusal = read(scorer, none, "replace every month").refusal
    assert refusal is not None
    assert "have 63 tokens and leave none of the 63" in refusal  # and </s>
    assert read(scorer, none, "").refusal is None  # an empty document has none to lose


def test_a_cut_beside_special_tokens_of_the_template(folders: dict[str, Path]) -> None:
    """Texts that are split around the template's tokens are cut at the same place."""
    template = {"encoder_template": "<bos>Query: {query}<eos><Document>: {document}<end_of_turn>"}
    params = {**KALM, **template, "decoder_template": "<bos>", "instruction": ""}
    params |= {"query_round_trip": False, "query_cap": 5}
    kept = loaded(folders["t5gemma2"], **params)
    split = loaded(folders["t5gemma2"], **params, split_special_tokens=True)
    pair = read(split, LONG, LONG)
    assert pair == read(kept, LONG, LONG)
    tokens = kept.reader.tokenizer.convert_ids_to_tokens(pair.encoder)
    assert len(tokens) == LENGTH
    assert [tokens[0], tokens[-1]] == ["<bos>", "<end_of_turn>"]
    assert [(cut.text, cut.kept) for cut in pair.cuts][0] == ("query", 5)
    assert pair.encoder.count(kept.reader.tokenizer.eos_token_id) == 1


def test_kalms_query_is_cut_and_its_frame_is_not(folders: dict[str, Path]) -> None:
    """T1, T2, T13: the decoder begins with the one <bos> and ends with one token of four breaks."""
    scorer = loaded(folders["t5gemma2"], **KALM)
    tokenizer = scorer.reader.tokenizer
    for query in ("filter", LONG, "filter\n\n"):
        ids = read(scorer, query, "a").decoder
        assert ids.count(tokenizer.bos_token_id) == 1
        tail = tokenizer.convert_ids_to_tokens(ids[-5:])
        assert tail[:2] == ["<end_of_turn>", "\n"]
        assert tail[-1] == "\n\n\n\n"
    (cut,) = read(scorer, LONG, "a").cuts
    assert (cut.text, cut.kept, cut.why) == ("query", 18, "query_cap 18")


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("budget", [300, 700, 100_000])
def test_scores_do_not_depend_on_the_batch(
    kind: str, budget: int, folders: dict[str, Path]
) -> None:
    """T5, T6, T26: document lengths of 1 to 9 tokens alone, and beside one of the full length."""
    rows = [("filter", "a" * length) for length in range(1, 10)] + [("filter", LONG)]
    scorer = loaded(folders[kind], **BOTH[kind])
    alone = [scores_of(scorer, [row])[0] for row in rows]
    assert np.ptp(alone) > 0.01
    np.testing.assert_allclose(scores_of(scorer, rows, budget), alone, atol=1e-5)


def test_padding_that_no_layer_sees_leaves_no_trace(folders: dict[str, Path]) -> None:
    """Real attention kernels may leave NaN where a window holds no token; 0 * NaN would spread."""
    scorer = loaded(folders["t5gemma2"], **KALM)
    rows = [("filter", "a"), ("filter", LONG)]
    expected = scores_of(scorer, rows)

    def poison(module: Any, args: Any, inputs: dict[str, Any], output: Any) -> None:
        output.last_hidden_state[inputs["attention_mask"] == 0] = float("nan")

    scorer.encoder.register_forward_hook(poison, with_kwargs=True)
    np.testing.assert_array_equal(scores_of(scorer, rows), expected)


def test_pooling_is_the_mean_of_four_real_states(folders: dict[str, Path]) -> None:
    """T26. Oracle: numpy means over slices of four of the encoder's states, decoded by the model
    itself without padding."""
    folder = folders["t5gemma2"]
    scorer = loaded(folder, **KALM)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="float32").eval()
    for length in (1, 4, 6, 7, 20):
        pair = read(scorer, "filter", "a" * length)
        with torch.inference_mode():
            states = model.get_encoder()(torch.tensor([pair.encoder])).last_hidden_state[0]
            means = [part.mean(axis=0) for part in np.split(states, range(4, len(states), 4))]
            logits = model(
                encoder_outputs=transformers.modeling_outputs.BaseModelOutput(
                    torch.stack(means)[None]
                ),
                decoder_input_ids=torch.tensor([pair.decoder]),
            ).logits[0, -1]
        positive, negative = scorer.facts["label_ids"]
        expected = float(logits[positive] - logits[negative])
        assert scores_of(scorer, [("filter", "a" * length)])[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("chunk", [1, 3, 4, 64])
def test_pooling_of_any_length(chunk: int) -> None:
    """Oracle: numpy, row by row; lengths that no chunk divides, and a row that is all real."""
    states = torch.randn(4, 10, 3, generator=torch.Generator().manual_seed(0))
    lengths = [1, 5, 9, 10]
    mask = torch.tensor([[1] * n + [0] * (10 - n) for n in lengths])
    means, real = pooled(states * mask.unsqueeze(-1), mask, chunk)
    for row, length in enumerate(lengths):
        starts = range(0, length, chunk)
        expected = [states[row, at : min(at + chunk, length)].numpy().mean(axis=0) for at in starts]
        np.testing.assert_allclose(means[row, : len(starts)], expected, atol=1e-6)
        assert real[row].tolist() == [1] * len(starts) + [0] * (real.shape[1] - len(starts))


def test_documents_of_like_length_are_encoded_together() -> None:
    """A part more costs 256 tokens: worth it for seven short documents, not for two."""
    assert parts_of([[0] * 8, [0] * 64]) == [[1, 0]]
    assert parts_of([[0] * 8] * 3 + [[0] * 64] + [[0] * 8] * 4) == [[3], [0, 1, 2, 4, 5, 6, 7]]
    assert parts_of([[0] * 9]) == [[0]]


def test_equal_documents_are_encoded_once(folders: dict[str, Path]) -> None:
    """Three queries over the same two documents: two encoder rows, six scores, as if alone."""
    scorer = loaded(folders["t5gemma2"], **KALM)
    documents = ("replace", LONG)
    groups = [
        QueryGroup(query, query, ("a", "b"), documents, (1, 2))
        for query in ("filter", "which filter?", "months")
    ]
    encoded: list[int] = []
    scorer.encoder.register_forward_hook(
        lambda module, args, inputs, output: encoded.append(len(inputs["input_ids"])),
        with_kwargs=True,
    )
    results, report = score_groups(scorer, groups, 100_000)
    assert encoded == [2]
    assert report.items == 6
    pairs = [read(scorer, group.query, document) for group in groups for document in documents]
    assert report.reused_tokens == 2 * sum(len(pair.encoder) for pair in pairs[:2])
    assert report.tokens == sum(len(p.encoder) + len(p.decoder) for p in pairs) - (
        report.reused_tokens
    )
    for group, result in zip(groups, results, strict=True):
        alone = [scores_of(scorer, [(group.query, document)])[0] for document in documents]
        np.testing.assert_allclose(result.scores, alone, atol=1e-5)


def test_monot5_shares_nothing(folders: dict[str, Path]) -> None:
    """Its encoder reads both texts, so equal documents are different inputs."""
    rows = [("filter", "replace"), ("months", "replace")]
    items = loaded(folders["t5"]).encode(groups_of(rows))
    assert [(item.share, item.shared_tokens) for item in items] == [(None, 0), (None, 0)]


def test_a_window_is_the_same_in_eager_and_sdpa(folders: dict[str, Path]) -> None:
    """T27: documents longer than the sliding window; and the window is there at all."""
    rows = [("filter", LONG), ("filter", "a"), (LONG, "replace the filter")]
    scorer = loaded(folders["t5gemma2"], **KALM)
    assert scorer.encoder.config.text_config.sliding_window == WINDOW
    assert len(read(scorer, *rows[0]).encoder) == LENGTH > 2 * WINDOW
    found = scores_of(scorer, rows)
    eager = scores_of(loaded(folders["t5gemma2"], replace(CPU, attention="eager"), **KALM), rows)
    np.testing.assert_allclose(found, eager, atol=1e-5)


def test_without_its_window_a_model_scores_otherwise(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    """T27, the control: the same weights with full attention in every layer."""
    full = build("t5gemma2", tmp_path, layer_types=["full_attention", "full_attention"])
    row = [("filter", LONG)]
    found = [scores_of(loaded(folder, **KALM), row)[0] for folder in (folders["t5gemma2"], full)]
    assert abs(found[0] - found[1]) > 1e-2


def test_flash_attention_is_not_chosen(folders: dict[str, Path]) -> None:
    """`attention: auto` asks this before it takes flash_attention_2; the classes say no."""
    for kind, params in BOTH.items():
        assert not supports_flash(str(folders[kind]), trust_code=False)
        with pytest.raises(ScoringError, match="does not support Flash Attention 2"):
            loaded(folders[kind], replace(CPU, attention="flash_attention_2"), **params)


def test_special_tokens_in_texts(folders: dict[str, Path]) -> None:
    """T7, frozen: the default reads them as mteb does; split reads them as text, and those of the
    template as special tokens all the same. The last token is found by the mask in both."""
    query, document = "a <end_of_turn> b", "x <pad> y <eos> <pad>"
    for split in (False, True):
        scorer = loaded(folders["t5gemma2"], **KALM, split_special_tokens=split)
        tokenizer = scorer.reader.tokenizer
        plain, pair = read(scorer, "a", "x"), read(scorer, query, document)
        turn = tokenizer.convert_tokens_to_ids("<end_of_turn>")
        assert pair.decoder.count(turn) == plain.decoder.count(turn) + (not split)
        assert pair.encoder.count(tokenizer.pad_token_id) == (0 if split else 2)
        assert plain.decoder[-5:] == pair.decoder[-5:]
        assert tokenizer.decode(pair.encoder) == f"<Document>: {document}"
        rows = [(query, document), ("filter", LONG)]
        alone = [scores_of(scorer, [row])[0] for row in rows]
        np.testing.assert_allclose(scores_of(scorer, rows), alone, atol=1e-5)


def test_splitting_changes_nothing_else(folders: dict[str, Path]) -> None:
    """Rows without special tokens have the same ids either way."""
    kept = loaded(folders["t5gemma2"], **KALM).reader
    split = loaded(folders["t5gemma2"], **KALM, split_special_tokens=True).reader
    specials = special_pattern(kept.tokenizer)
    rows = [row for row in ROWS if not specials.search("".join(row))]
    assert len(rows) == len(ROWS) - 1
    assert kept.read(rows) == split.read(rows)


def test_empty_texts_have_a_score(folders: dict[str, Path]) -> None:
    """T24: empty and blank documents, alone and beside others."""
    rows = [("", ""), ("filter", ""), ("filter", " "), ("filter", "\n"), ("filter", LONG)]
    for kind, params in BOTH.items():
        scorer = loaded(folders[kind], **params)
        alone = [scores_of(scorer, [row])[0] for row in rows]
        assert np.isfinite(alone).all()
        np.testing.assert_allclose(scores_of(scorer, rows), alone, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("yes please", "no"), "'yes please' as ids"),
        (("yes", "yes"), "both id"),
        (("yes", "<unk>"), "'<unk>' as ids"),
        (("Yes", "no"), "'Yes' as ids"),  # the case decides
    ],
)
def test_labels_are_two_words_of_one_token(
    words: tuple[str, str], message: str, folders: dict[str, Path]
) -> None:
    """T10."""
    labels = dict(zip(("positive_token", "negative_token"), words, strict=True))
    with pytest.raises(ScoringError, match=message):
        loaded(folders["t5gemma2"], **{**KALM, **labels})


def test_a_label_beyond_the_output_layer_is_refused(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    """T10: a tokenizer with more pieces than the model has rows."""
    folder = shutil.copytree(folders["t5"], tmp_path / "copy")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"piece{number}" for number in range(9)])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ScoringError, match="one known token below"):
        loaded(folder, positive_token="piece8")


@pytest.mark.parametrize(
    ("kind", "changes", "params"),
    [
        ("t5", {}, {}),
        ("t5", {"scale_decoder_outputs": False}, {}),  # T5 1.1
        ("mt5", {}, {"positive_token": "yes", "negative_token": "no"}),
        ("t5gemma2", {"final_logit_softcapping": 2.0}, {**KALM, "pool_chunk": None}),
    ],
)
def test_the_margin_is_that_of_the_models_own_logits(
    kind: str, changes: dict[str, Any], params: dict[str, Any], tmp_path: Path
) -> None:
    """Oracle: ForConditionalGeneration's logits: scaled, unscaled, soft-capped."""
    folder = build(kind, tmp_path, **changes)
    scorer = loaded(folder, **params)
    for row in (("which filter?", "replace every month"), ("months", LONG)):
        expected = own_margin(scorer, folder, row)
        assert scores_of(scorer, [row])[0] == pytest.approx(expected, abs=1e-5)
        assert abs(expected) > 0.01


def test_a_model_whose_readout_is_unknown_is_refused(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    """BART adds a bias to its logits, others other things: the type decides, not a guess."""
    folder = shutil.copytree(folders["t5"], tmp_path / "copy")
    config = transformers.BartConfig(
        vocab_size=400, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    transformers.BartForConditionalGeneration(config).save_pretrained(folder)
    with pytest.raises(ScoringError, match="is a bart; encoder_decoder knows t5, mt5, t5gemma2"):
        loaded(folder, max_length=LENGTH)


def test_float16_where_the_states_fit(folders: dict[str, Path]) -> None:
    """T5Gemma2's authors refuse it; T5 keeps `wo` in fp32, as transformers does."""
    half = replace(CPU, dtype="float16")
    with pytest.raises(ScoringError, match="set dtype: bfloat16 or float32"):
        loaded(folders["t5gemma2"], half, **KALM)
    scorer = loaded(folders["t5"], half)
    feed_forward = scorer.encoder.block[0].layer[-1].DenseReluDense
    assert feed_forward.wo.weight.dtype == torch.float32
    assert feed_forward.wi.weight.dtype == torch.float16
    exact = scores_of(loaded(folders["t5"]), ROWS[:3])
    np.testing.assert_allclose(scores_of(scorer, ROWS[:3]), exact, atol=0.02)


def test_in_bf16_the_two_rows_stay_exact(folders: dict[str, Path]) -> None:
    """Model in bf16, label rows in fp32 with the file's weights: scores off the bf16 grid."""
    scorer = loaded(folders["t5gemma2"], replace(CPU, dtype="bfloat16"), **KALM)
    exact = loaded(folders["t5gemma2"], **KALM)
    assert torch.equal(scorer.answer.weight, exact.answer.weight)
    assert scorer.decoder.embed_tokens.weight.dtype == torch.bfloat16
    scores = torch.tensor(scores_of(scorer, ROWS), dtype=torch.float32)
    assert (scores == scores.bfloat16().float()).float().mean() < 0.5


def test_limits_are_checked_at_load(folders: dict[str, Path]) -> None:
    """The encoder's positions bound max_length, the templates must leave room in it."""
    with pytest.raises(ScoringError, match="set max_length: 512 or less"):
        loaded(folders["t5gemma2"], **KALM, max_length=513)
    with pytest.raises(ScoringError, match="leave no room in max_length 4"):
        loaded(folders["t5"], max_length=4)
    assert loaded(folders["t5"]).reader.max_length == LENGTH  # the tokenizer's own
    with pytest.raises(ScoringError, match="no decoder_start_token_id"):
        loaded(folders["t5gemma2"], positive_token="yes", negative_token="no")


def test_a_decoder_has_positions_too(folders: dict[str, Path]) -> None:
    """A query without a cap is refused where the decoder has no position for it."""
    scorer = loaded(folders["t5gemma2"], **{**KALM, "query_cap": None})
    groups = groups_of([(LONG * 8, "a"), ("filter", "a")])
    (long, short), _ = score_groups(scorer, groups, 4_096)
    assert "more than its 512 positions; set query_cap" in str(long.failures[0])
    assert np.isfinite(short.scores).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"encoder_template": "{query} {text}"}, "unknown field of encoder_template 'text'"),
        ({"encoder_template": "{query}"}, "the document is read by the encoder"),
        ({"encoder_template": "{document} {query} {query}"}, "has {query} twice"),
        ({"encoder_template": "{document}"}, "write {query} in one of"),
        ({"decoder_template": "{query}"}, "write {query} in one of"),
        ({"instruction": "Find it."}, "state both or none"),
        ({"truncation": "middle"}, "unknown truncation"),
        ({"special_tokens": "some"}, "unknown special_tokens"),
        ({"pool_chunk": 0}, "pool_chunk 0"),
        ({"query_cap": 0}, "query_cap 0"),
    ],
)
def test_settings_that_contradict_each_other(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EncoderDecoderParams(**params)


def test_braces_in_texts_are_text(folders: dict[str, Path]) -> None:
    """Only templates have fields: a document about {query} is not filled in."""
    scorer = loaded(folders["t5"])
    pair = read(scorer, "{document}", "{query} {instruction}")
    expected = "Query: {document} Document: {query} {instruction} Relevant:</s>"
    assert scorer.reader.tokenizer.decode(pair.encoder) == expected


def test_the_contract_needs_no_weights(tmp_path: Path, folders: dict[str, Path]) -> None:
    """It reads what the scorer reads, and tells recipes apart."""
    facts = []
    for kind, params in BOTH.items():
        folder = shutil.copytree(folders[kind], tmp_path / kind)
        (folder / "model.safetensors").write_bytes(b"")
        found = contract(spec_of(folder, **params))
        scorer = loaded(folders[kind], **params)
        for query, document in (ROWS[1], (ROWS[1][0], LONG)):
            reading, pair = found.read(query, document), read(scorer, query, document)
            assert [s.name for s in reading.sequences] == ["encoder", "decoder"]
            assert [s.ids for s in reading.sequences] == [pair.encoder, pair.decoder]
            assert (reading.cuts, reading.refusal) == (pair.cuts, None)
        assert found.facts.items() <= scorer.describe().items()
        assert json.loads(json.dumps(found.facts)) == found.facts
        facts.append(found.facts)
    assert facts[0].keys() == facts[1].keys()
    assert facts[0]["rendered_ids"] != facts[1]["rendered_ids"]
    assert facts[0]["readout"] == "logit('yes') - logit('no')"
    assert facts[1]["decoder_start"] == [0]


def test_a_model_without_its_decoder_is_refused(tmp_path: Path, folders: dict[str, Path]) -> None:
    """T16: transformers would make random weights."""
    folder = shutil.copytree(folders["t5"], tmp_path / "copy")
    transformers.T5EncoderModel.from_pretrained(folder).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"is_encoder_decoder": True, "architectures": ["T5ForConditionalGeneration"]}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match=r"would be random: .*decoder"):
        loaded(folder)

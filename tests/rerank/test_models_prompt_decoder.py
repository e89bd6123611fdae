"""prompt_decoder against plain transformers forwards with the whole vocabulary's logits.

The authors' own code is compared in test_golden_prompts.py.
"""

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
from safetensors.torch import load_file, save_file

from metrics import kendall_tau
from rerank.errors import ConfigError, ScoringError
from rerank.models.adapters import input_contract, load_scorer
from rerank.models.causal import can_share, check_direction
from rerank.models.prompt_decoder import PromptDecoder, PromptDecoderParams
from rerank.records import Item, ModelSpec, Placement, QueryGroup
from rerank.scoring import score_groups
from tests.standins.decoders import build
from tests.standins.prompts import params
from tests.standins.rows import ROWS

CPU = Placement("cpu", "float32", "sdpa")
KINDS = {
    "qwen3": "qwen3",
    "seqcls": "qwen3_seqcls",
    "mxbai": "qwen2",
    "bge_gemma": "gemma",
    "zerank": "qwen3",
    "ctxl": "mistral",
    "nemotron": "llama",
    "lighton_pw": "qwen3_5",
}
SHARING = ["qwen3", "seqcls", "mxbai", "bge_gemma", "zerank"]  # the query stands before the text
DOCUMENTS = [document for _, _, document in ROWS]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("decoders")
    kinds = dict.fromkeys((*KINDS.values(), "qwen3_tied"))
    return {kind: build(kind, folder / kind) for kind in kinds}


def loaded(
    folder: Path, recipe: PromptDecoderParams, place: Placement = CPU, **own: Any
) -> PromptDecoder:
    spec = ModelSpec("m", "prompt_decoder", weights=str(folder), max_length=256, params=recipe)
    scorer = load_scorer(replace(spec, **own), place)
    assert isinstance(scorer, PromptDecoder)
    return scorer


def groups_of(queries: list[str], documents: list[str]) -> list[QueryGroup]:
    numbers = tuple(range(1, len(documents) + 1))
    ids = tuple(f"d{number}" for number in numbers)
    return [
        QueryGroup(f"q{n}", query, ids, tuple(documents), numbers)
        for n, query in enumerate(queries)
    ]


GROUPS = groups_of(["filter?", "필터 교체 주기를 알려 주세요, 그리고 리셋"], DOCUMENTS)


def scores_of(scorer: PromptDecoder, groups: list[QueryGroup], budget: int = 2_048) -> np.ndarray:
    results, _ = score_groups(scorer, groups, budget)
    assert not any(failure for result in results for failure in result.failures)
    return np.concatenate([result.scores for result in results])


def read_ids(scorer: PromptDecoder, groups: list[QueryGroup]) -> list[tuple[int, ...]]:
    pairs = [(group.query, document) for group in groups for document in group.documents]
    return [read.ids for read in scorer.reader.read(pairs)]


def plain_forward(name: str, folder: Path, rows: list[tuple[int, ...]]) -> np.ndarray:
    """One row at a time through the whole model, all logits, no padding, no cache."""
    recipe = params(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if recipe.model_class == "sequence_classification":
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model = model.float().eval()
    found = []
    for row in rows:
        ids = torch.tensor([row])
        with torch.no_grad():
            if name == "nemotron":
                whole = torch.ones(1, 1, len(row), len(row), dtype=torch.bool)
                states = model.model(ids, attention_mask=whole).last_hidden_state
                score = model.score(states.mean(dim=1))[0, 0]
            elif recipe.readout == "classifier":
                score = model.score(model.model(ids).last_hidden_state[0, -1])[0]
            else:
                logits = model(ids).logits[0, -1]
                if recipe.token_id is not None:
                    score = logits[recipe.token_id]
                else:
                    score = logits[tokenizer.convert_tokens_to_ids(recipe.positive_token)]
                if recipe.negative_token:
                    score = score - logits[tokenizer.convert_tokens_to_ids(recipe.negative_token)]
        found.append(score.item())
    return np.array(found)


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_the_whole_models(name: str, folders: dict[str, Path]) -> None:
    """T5, T6. Any batch composition, padded and shared, gives what each row gives alone."""
    scorer = loaded(folders[KINDS[name]], params(name))
    expected = plain_forward(name, folders[KINDS[name]], read_ids(scorer, GROUPS))
    assert np.ptp(expected) > 0.3  # the stand-in does tell the rows apart
    tolerance = 1e-4 if name == "lighton_pw" else 1e-5  # linear attention sums in chunks
    for budget in (1, 300, 2_048, 100_000):
        np.testing.assert_allclose(scores_of(scorer, GROUPS, budget), expected, atol=tolerance)


@pytest.mark.parametrize("name", KINDS)
def test_a_querys_beginning_is_forwarded_once_where_it_can_be(
    name: str, folders: dict[str, Path]
) -> None:
    """Reused tokens are counted; turning sharing off changes nothing but the count."""
    scorer = loaded(folders[KINDS[name]], params(name))
    apart = loaded(folders[KINDS[name]], params(name, share_beginnings=False))
    shared, report = score_groups(scorer, GROUPS, 4_096)
    plain, other = score_groups(apart, GROUPS, 4_096)
    for one, two in zip(shared, plain, strict=True):
        np.testing.assert_allclose(one.scores, two.scores, atol=1e-4)
    assert other.reused_tokens == 0
    assert report.tokens + report.reused_tokens == other.tokens
    if name in SHARING:
        assert report.reused_tokens > 0.1 * other.tokens
    if name in ("nemotron", "lighton_pw"):
        assert report.reused_tokens == 0  # both-ways and linear attention have no such cache


def test_models_with_windows_do_not_share(folders: dict[str, Path]) -> None:
    """A sliding layer has dropped what a later row would need."""
    config = transformers.Qwen3Config.from_pretrained(folders["qwen3"])
    config.layer_types = ["full_attention", "sliding_attention"]
    config.sliding_window, config.use_sliding_window = 16, True
    assert not can_share(transformers.Qwen3Model(config))
    assert can_share(transformers.Qwen3Model.from_pretrained(folders["qwen3"]))


def test_a_tied_head_is_read_like_any_other(folders: dict[str, Path]) -> None:
    """Qwen3-0.6B ties its output layer to the embedding: same file layout, no lm_head."""
    assert "lm_head.weight" not in load_file(folders["qwen3_tied"] / "model.safetensors")
    scorer = loaded(folders["qwen3_tied"], params("qwen3"))
    expected = plain_forward("qwen3", folders["qwen3_tied"], read_ids(scorer, GROUPS))
    np.testing.assert_allclose(scores_of(scorer, GROUPS), expected, atol=1e-5)


def test_the_state_read_is_the_last_tokens_whatever_it_is(folders: dict[str, Path]) -> None:
    """T7. transformers' own classifier skips a final pad token; a text that ends so must not."""
    recipe = params("seqcls", prompt=("{query} {document}",), instruction="")
    scorer = loaded(folders["qwen3_seqcls"], recipe)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folders["qwen3_seqcls"])
    groups = groups_of(["filter"], ["replace<|endoftext|>", "replace"])
    rows = read_ids(scorer, groups)
    assert rows[0][:-1] == rows[1]
    found = scores_of(scorer, groups)
    states = model.model(torch.tensor([rows[0]])).last_hidden_state[0, -1]
    assert found[0] == pytest.approx(model.score(states).item(), abs=1e-5)
    own = model(torch.tensor([rows[0]])).logits.item()  # of the token before
    assert own == pytest.approx(found[1], abs=1e-5)
    assert abs(found[0] - found[1]) > 1e-3


@pytest.mark.parametrize(("name", "stated"), [("qwen3", "bidirectional"), ("nemotron", "causal")])
def test_attention_is_what_the_recipe_says(
    name: str, stated: str, folders: dict[str, Path]
) -> None:
    """T14. Does the state of token 0 move when the last token changes? Stock layers obey; then the
    two directions give different scores."""
    folder = folders[KINDS[name]]
    right = loaded(folder, params(name))
    other = loaded(folder, params(name, attention_direction=stated))
    for scorer, direction in ((right, params(name).attention_direction), (other, stated)):
        ids = np.array([[5, 6, 7, 8], [5, 6, 7, 9]])
        mask = torch.ones_like(torch.from_numpy(ids))
        states = scorer.decoder.model(torch.from_numpy(ids), attention_mask=mask)
        moved = (states.last_hidden_state[0, 0] - states.last_hidden_state[1, 0]).abs().max()
        assert (moved > 1e-4) == (direction == "bidirectional")
    assert np.abs(scores_of(right, GROUPS) - scores_of(other, GROUPS)).max() > 1e-2


@pytest.mark.parametrize(("name", "stated"), [("qwen3", "bidirectional"), ("nemotron", "causal")])
def test_a_model_that_looks_the_other_way_is_refused(
    name: str, stated: str, folders: dict[str, Path]
) -> None:
    """T14 at load: code of a repository's own may not obey; the probe forward tells."""
    decoder = loaded(folders[KINDS[name]], params(name)).decoder
    check_direction("m", decoder, params(name).attention_direction)
    with pytest.raises(ScoringError, match=f"the recipe says {stated}"):
        check_direction("m", decoder, stated)


def test_the_direction_is_looked_at_on_every_load(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T14. With the direction that the YAML states."""
    asked = []
    monkeypatch.setattr(
        "rerank.models.prompt_decoder.check_direction",
        lambda name, decoder, direction: asked.append((name, direction)),
    )
    loaded(folders["llama"], params("nemotron"))
    loaded(folders["qwen3"], params("qwen3"))
    assert asked == [("m", "bidirectional"), ("m", "causal")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"positive_token": "absolutely not one token"}, "is 1|is [2-9]|tokens"),
        ({"positive_token": "yes", "negative_token": "yes"}, "same token"),
    ],
)
def test_labels_are_single_distinct_tokens(
    changes: dict[str, str], words: str, folders: dict[str, Path]
) -> None:
    """T10."""
    with pytest.raises(ScoringError, match=words):
        loaded(folders["qwen3"], params("qwen3", **changes))


def test_case_of_a_label_counts(folders: dict[str, Path]) -> None:
    """T10. "Yes" and "yes" are two tokens with two logits."""
    lower = scores_of(loaded(folders["qwen3"], params("qwen3")), GROUPS)
    upper = scores_of(
        loaded(folders["qwen3"], params("qwen3", positive_token="Yes", negative_token="No")), GROUPS
    )
    assert np.abs(lower - upper).max() > 0.1


def test_a_token_id_beyond_the_vocabulary_is_refused(folders: dict[str, Path]) -> None:
    """T10."""
    with pytest.raises(ScoringError, match="no row for the label ids"):
        loaded(folders["mistral"], params("ctxl", token_id=100_000))


def test_margins_keep_what_bf16_and_sigmoid_lose(folders: dict[str, Path]) -> None:
    """T8. Oracle: the same states through transformers' bf16 output layer, and its sigmoid."""
    scorer = loaded(folders["qwen3"], params("qwen3"), Placement("cpu", "bfloat16", "sdpa"))
    texts = [f"replace filter number {number} 필터" for number in range(200)]
    scores = scores_of(scorer, groups_of(["filter"], texts))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folders["qwen3"], dtype=torch.bfloat16
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["qwen3"])
    yes, no = (tokenizer.convert_tokens_to_ids(label) for label in ("yes", "no"))
    logits = []
    for row in read_ids(scorer, groups_of(["filter"], texts)):
        with torch.no_grad():
            logits.append(model(torch.tensor([row])).logits[0, -1])
    margins = torch.stack([row[yes] - row[no] for row in logits])
    assert margins.dtype == torch.bfloat16
    assert len(set(scores.tolist())) > 190
    assert len(set(margins.tolist())) < 150
    assert len(set((4 * margins).sigmoid().tolist())) < 100
    assert np.abs(scores).max() > 1  # no probability
    assert np.abs(scores - margins.float().numpy()).max() < 0.1


def test_bf16_orders_alike_in_any_batch(folders: dict[str, Path]) -> None:
    """T18. Batches of 1, about 4 and about 32 rows: Kendall's tau at least .99."""
    scorer = loaded(folders["qwen3"], params("qwen3"), Placement("cpu", "bfloat16", "sdpa"))
    texts = [" ".join(DOCUMENTS[n % 17][: 3 + n] for _ in range(2)) for n in range(60)]
    groups = groups_of(["filter?"], [text for text in texts if len(text) < 400])
    found = [scores_of(scorer, groups, budget) for budget in (1, 500, 4_096)]
    for other in found[1:]:
        assert np.abs(found[0] - other).max() < 0.1
        assert kendall_tau(found[0], other) >= 0.99


def test_one_out_of_memory_changes_no_score(folders: dict[str, Path]) -> None:
    """T19. The same batch in halves, the order kept."""
    scorer = loaded(folders["qwen3"], params("qwen3"))
    expected = scores_of(scorer, GROUPS, 8_192)

    class Once(PromptDecoder):
        failed = False

        def forward(self, items: Any) -> np.ndarray:
            if not self.failed:
                self.failed = True
                raise torch.OutOfMemoryError("CUDA out of memory (injected)")
            return super().forward(items)

    once = Once(
        scorer.decoder, scorer.readout, scorer.reader, shares=scorer.shares, facts=scorer.facts
    )
    results, report = score_groups(once, GROUPS, 8_192)
    assert report.oom_halvings == 1
    np.testing.assert_allclose(
        np.concatenate([result.scores for result in results]), expected, atol=1e-5
    )


def test_empty_and_blank_documents_have_scores_of_their_own(folders: dict[str, Path]) -> None:
    """T24. Alone and in a batch."""
    scorer = loaded(folders["qwen3"], params("qwen3"))
    texts = ["", " ", "\n", "replace the filter"]
    together = scores_of(scorer, groups_of(["filter"], texts))
    alone = [scores_of(scorer, groups_of(["filter"], [text]))[0] for text in texts]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.isfinite(together).all()


def test_another_instruction_is_another_prompt(folders: dict[str, Path]) -> None:
    """T22. The hash of one rendered prompt changes with the instruction and with nothing else."""
    one = loaded(folders["qwen3"], params("qwen3")).describe()
    same = loaded(folders["qwen3"], params("qwen3"), max_length=200).describe()
    other = loaded(folders["qwen3"], params("qwen3", instruction="Given a question")).describe()
    assert one["rendered_ids"] == same["rendered_ids"] != other["rendered_ids"]
    assert "Given a question" in other["prompt"][1]


def test_a_prompt_object_keeps_its_own_template(folders: dict[str, Path], tmp_path: Path) -> None:
    """T20. Two models that differ in the chat template alone never share what they render."""
    changed = tmp_path / "changed"
    shutil.copytree(folders["qwen3"], changed)
    settings = json.loads((changed / "tokenizer_config.json").read_text())
    template = changed / "chat_template.jinja"
    text = template.read_text() if template.exists() else settings["chat_template"]
    settings["chat_template"] = text.replace("assistant", "system")
    template.unlink(missing_ok=True)
    (changed / "tokenizer_config.json").write_text(json.dumps(settings))
    messages = ("system: {instruction}", "query: {query}", "document: {document}")
    recipe = params("qwen3", prompt=(), messages=messages)
    first, second = loaded(folders["qwen3"], recipe), loaded(changed, recipe)
    assert read_ids(first, GROUPS)[0] != read_ids(second, GROUPS)[0]
    assert read_ids(first, GROUPS) == read_ids(loaded(folders["qwen3"], params("qwen3")), GROUPS)


def test_a_classifier_without_its_head_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    """T16. A missing score.weight would be random."""
    folder = tmp_path / "headless"
    shutil.copytree(folders["qwen3_seqcls"], folder)
    weights = load_file(folder / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ScoringError, match=r"would be random: score\.weight"):
        loaded(folder, params("seqcls"))


def test_logits_that_the_model_changes_are_refused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """Soft-capped logits (Gemma 2) are another function of the state: no silent raw logit."""
    folder = tmp_path / "capped"
    shutil.copytree(folders["qwen3"], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "final_logit_softcapping": 30.0}))
    with pytest.raises(ScoringError, match="final_logit_softcapping"):
        loaded(folder, params("qwen3"))


def test_positions_hold_the_prompt_around_the_texts(folders: dict[str, Path]) -> None:
    """T15. mxbai's max_length does not count the frame: 4,096 positions are too few for 4,096."""
    assert loaded(folders["qwen2"], params("mxbai"), max_length=3_900)
    with pytest.raises(ScoringError, match="positions; lower max_length by"):
        loaded(folders["qwen2"], params("mxbai"), max_length=4_096)


def test_a_folder_without_pad_token_names_the_key(folders: dict[str, Path]) -> None:
    """T4. Llama has none; the recipe says which token pads, and batches of two lengths run."""
    with pytest.raises(ScoringError, match="pad_token"):
        loaded(folders["llama"], params("nemotron", pad_token=None))


def test_a_recipe_without_a_prompt_is_no_recipe(folders: dict[str, Path]) -> None:
    """ModelSpec made by hand without params."""
    spec = ModelSpec("m", "prompt_decoder", weights=str(folders["qwen3"]))
    with pytest.raises(ConfigError, match="prompt"):
        load_scorer(spec, CPU)


def test_the_contract_is_what_the_scorer_reads(folders: dict[str, Path]) -> None:
    """Same ids, without weights."""
    for name, kind in KINDS.items():
        scorer = loaded(folders[kind], params(name))
        spec = ModelSpec(
            "m", "prompt_decoder", weights=str(folders[kind]), max_length=256, params=params(name)
        )
        contract = input_contract(spec)
        for _, query, document in ROWS:
            read = contract.read(query, document)
            (item,) = scorer.encode(groups_of([query], [document]))
            assert read.refusal == item.failure
            if item.failure is None:
                assert read.sequences[0].ids == item.payload.value
                assert bool(read.cuts) == item.truncated
        assert contract.facts["rendered_ids"] == scorer.describe()["rendered_ids"]


def test_items_of_one_query_share(folders: dict[str, Path]) -> None:
    """Two queries, two shares; equal documents of a query are one item."""
    scorer = loaded(folders["qwen3"], params("qwen3"))
    items: list[Item] = scorer.encode(groups_of(["filter", "필터"], ["a b", "c d", "a b"]))
    assert len(items) == 4
    assert [item.share for item in items] == [0, 0, 1, 1]
    assert all(item.shared_tokens > 20 for item in items)


def test_rows_keep_their_places_in_any_company(folders: dict[str, Path]) -> None:
    """One query's rows share; single rows of others go whole, in parts by length. Oracle: alone."""
    scorer = loaded(folders["qwen3"], params("qwen3"))
    documents = ["a", "word " * 60, "b c"]
    items = scorer.encode(groups_of(["filter", "필터", "reset?", "every month"], documents))
    batch = [items[place] for place in (3, 0, 7, 1, 11, 2)]
    expected = np.concatenate([scorer.forward([item]) for item in batch])
    np.testing.assert_allclose(scorer.forward(batch), expected, atol=1e-5)


def test_a_mean_over_all_tokens_is_not_taken_of_a_part(folders: dict[str, Path]) -> None:
    """A causal classifier with pooling mean shares no beginnings. Oracle: each row alone."""
    scorer = loaded(folders["qwen3_seqcls"], params("seqcls", pooling="mean"))
    items = scorer.encode(groups_of(["filter"], ["replace it", "hold the button"]))
    alone = np.concatenate([scorer.forward([item]) for item in items])
    np.testing.assert_allclose(scorer.forward(items), alone, atol=1e-5)

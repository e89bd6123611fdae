"""The table of adapters, the identity of a model, and the two models without weights."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from rerank.errors import ConfigError, ScoringError
from rerank.fingerprint import canonical_json
from rerank.models import ADAPTERS, load_scorer, model_identity, resolve_weights
from rerank.models.bi_encoder import BiEncoderParams
from rerank.models.overlap import terms
from rerank.models.pair_encoder import PairEncoderParams
from rerank.models.pointwise import Reading, distinct_items
from rerank.records import LoadedWeights, ModelSpec, Placement, QueryGroup
from rerank.scoring import SCORING_VERSION, score_groups
from tests.conftest import ROOT

NOWHERE = Placement("cpu", "float32", "none")


def group(query: str, *documents: str, query_id: str = "q") -> QueryGroup:
    names = tuple(f"d{row}" for row in range(len(documents)))
    return QueryGroup(query_id, query, names, documents, tuple(range(1, len(documents) + 1)))


def test_listing_the_adapters_imports_no_torch() -> None:
    """`rerank --help` and a no-op resume start in under a second; weightless runs need none."""
    code = (
        "import sys; from rerank.models import ADAPTERS, load_scorer, resolve_weights; "
        "from rerank.records import ModelSpec, Placement, QueryGroup; "
        "from rerank.scoring import score_groups; "
        "s = ModelSpec('o', 'overlap'); resolve_weights(s); "
        "m = load_scorer(s, Placement('cpu', 'float32', 'none')); "
        "score_groups(m, [QueryGroup('q', 'a', ('d',), ('a',), (1,))], 64); "
        "found = {'torch', 'transformers', 'ray', 'omegaconf'} & set(sys.modules); "
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_every_row_of_the_table_is_complete(name: str) -> None:
    """Params are a frozen dataclass whose fields do not clash with ModelSpec's."""
    adapter = ADAPTERS[name]
    assert is_dataclass(adapter.params)
    assert adapter.params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    own = {field.name for field in fields(adapter.params)}
    assert not own & {field.name for field in fields(ModelSpec)}
    assert adapter.description


def test_an_unknown_adapter_lists_the_known_ones() -> None:
    """With the nearest spelling."""
    with pytest.raises(ConfigError, match="Did you mean 'pair_encoder'"):
        load_scorer(ModelSpec("m", "pair_encodr"), NOWHERE)


def test_params_of_another_adapter_are_refused() -> None:
    """A hand-made ModelSpec cannot be half right."""
    with pytest.raises(ScoringError, match="takes OverlapParams"):
        load_scorer(ModelSpec("m", "overlap", params=PairEncoderParams()), NOWHERE)


BASE = ModelSpec("m", "pair_encoder", weights="w", params=PairEncoderParams())
WEIGHTS = LoadedWeights("/a", "sha256:1")
PLACE = Placement("cuda", "bfloat16", "sdpa")


def identity(
    spec: ModelSpec = BASE, place: Placement = PLACE, weights: LoadedWeights = WEIGHTS
) -> str:
    return canonical_json(model_identity(spec, place, weights))


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": replace(BASE, max_length=512)},
        {"spec": replace(BASE, params=PairEncoderParams(truncation="longest_first"))},
        {"spec": replace(BASE, params=PairEncoderParams(query_cap=0.75))},
        {"spec": replace(BASE, adapter="bi_encoder", params=BiEncoderParams())},
        {"place": replace(PLACE, dtype="float32")},
        {"place": replace(PLACE, attention="eager")},
        {"weights": LoadedWeights("/a", "sha256:2")},
    ],
)
def test_what_can_change_a_score_changes_the_identity(changed: dict[str, Any]) -> None:
    """Section 3 of the design."""
    assert identity(**changed) != identity()


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": replace(BASE, name="other", licence="MIT", description="x", num_gpus=0.5)},
        {"spec": replace(BASE, weights="/elsewhere", weights_from="folder", trust_code=True)},
        {"spec": replace(BASE, params=None)},  # the defaults, left unsaid
        {"weights": LoadedWeights("/b", "sha256:1", origin="hub:x")},
        {"place": replace(PLACE, device="cpu")},
    ],
)
def test_circumstances_do_not(changed: dict[str, Any]) -> None:
    """Names, paths, workers."""
    assert identity(**changed) == identity()


def test_the_scoring_version_is_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that changes meaning must not pick up old scores."""
    before = identity()
    monkeypatch.setattr("rerank.models.adapters.SCORING_VERSION", SCORING_VERSION + 1)
    assert identity() != before


@pytest.mark.parametrize("values", [{"truncation": "second"}, {"token_type_ids": "no"}])
def test_words_of_pair_encoder_are_checked(values: dict[str, Any]) -> None:
    """At the door, when the YAML is read."""
    with pytest.raises(ConfigError, match="unknown"):
        PairEncoderParams(**values)


@pytest.mark.parametrize("cap", [0, -1, 1.5, 0.0])
def test_a_senseless_query_cap_is_refused(cap: float) -> None:
    """Fractions are of max_length, so 1.5 is none."""
    with pytest.raises(ConfigError, match="query_cap"):
        PairEncoderParams(query_cap=cap)


@pytest.mark.parametrize("values", [{"pooling": "max"}, {"similarity": "cos"}])
def test_words_of_bi_encoder_are_checked(values: dict[str, Any]) -> None:
    """At the door, when the YAML is read."""
    with pytest.raises(ConfigError, match="unknown"):
        BiEncoderParams(**values)


def test_first_stage_scores_are_the_negative_ranks() -> None:
    """So a higher score is an earlier candidate, over groups of any size."""
    scorer = load_scorer(ModelSpec("f", "first_stage"), NOWHERE)
    groups = [group("a", "x", "y", "z"), group("b", "x", query_id="p")]
    results, _ = score_groups(scorer, groups, 2_048)
    assert [result.scores.tolist() for result in results] == [[-1, -2, -3], [-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Filter, the FILTER!", {"the", "filter"}),
        ("S2모델의 E-17", {"s2", "모델", "델의", "e", "17"}),
        ("물", {"물"}),
        ("東京の水", {"東京", "京の", "の水"}),
        ("Straße", {"strasse"}),
        ("", set()),
        ("?! 😀", set()),
    ],
)
def test_terms(text: str, expected: set[str]) -> None:
    """Words case folded; CJK runs as character bigrams; nothing else counts."""
    assert terms(text) == expected


def test_overlap_is_the_cosine_of_the_sets() -> None:
    """|Q and D| / sqrt(|Q| |D|), by hand; 0 where a side is empty."""
    scorer = load_scorer(ModelSpec("o", "overlap"), NOWHERE)
    documents = ("reset filter", "reset the filter now", "other", "")
    (result,), _ = score_groups(scorer, [group("reset filter", *documents)], 2_048)
    expected = np.array([1.0, 2 / np.sqrt(2 * 4), 0.0, 0.0], dtype=np.float32)
    np.testing.assert_array_equal(result.scores, expected.astype(np.float64))
    assert result.tokens.tolist() == [4, 6, 3, 2]
    (empty,), _ = score_groups(scorer, [group("", "text")], 2_048)
    assert empty.scores.tolist() == [0.0]


def test_equal_readings_share_an_item_and_others_do_not() -> None:
    """`truncated` counts: the same ids may be a whole text or a cut one."""
    readings = [Reading((1, 2), 2), Reading((1, 2), 2, truncated=True), Reading((1, 2), 2)]
    items = distinct_items([group("q", "a", "b", "a")], readings)
    assert [item.payload.rows for item in items] == [((0, 0), (0, 2)), ((0, 1),)]
    assert items[0].label == "query 'q', document 'd0'"


def test_weightless_models_resolve_without_files() -> None:
    """Their revision is a constant; SCORING_VERSION speaks for their code."""
    for name, adapter in ADAPTERS.items():
        if adapter.weightless:
            assert resolve_weights(ModelSpec("m", name)).folder == ""

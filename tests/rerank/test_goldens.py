"""The golden files that scripts/goldens/run writes, and the stand-ins behind them.

What adapters are held to is checked against itself: the stand-ins still are those that the
references ran on, and ids and scores belong together under the installed transformers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from scripts.goldens import compare
from scripts.goldens.record import describe
from tests.standins import decoders
from tests.standins.goldens import GOLDENS, LABELS, ids_of, scores_of, standin, token_ids
from tests.standins.rows import ROWS

ROOT = Path(__file__).parents[2]

Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A stand-in of a kind, built once."""
    root = tmp_path_factory.mktemp("standins")
    return lambda kind: standin(kind, root)


def tokenizer_of(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", LABELS)
def test_the_stand_in_is_the_one_that_the_reference_ran_on(name: str, folder: Folder) -> None:
    """Digests of weights and tokenizer. When these differ, run scripts/goldens/run again."""
    standin = GOLDENS[name]["standin"]
    assert describe(standin["kind"], folder(standin["kind"])) == standin


@pytest.mark.parametrize("name", LABELS)
def test_a_golden_has_the_row_set_and_spread_scores(name: str) -> None:
    """Every row of the reference's set, and scores that a wrong adapter cannot meet by chance."""
    rows = GOLDENS[name]["rows"]
    assert [(row["name"], row["query"], row["document"]) for row in rows] == list(ROWS)
    assert np.ptp(scores_of(name)) > 0.5
    different = {tuple(row["ids"]) for row in rows}
    assert len({row["score"] for row in rows}) >= len(different) >= len(rows) - 1


@pytest.mark.parametrize("name", LABELS)
def test_versions_are_those_of_the_requirements(name: str) -> None:
    """What scripts/goldens installs, and for v5 what the project is tested with."""
    versions = GOLDENS[name]["versions"]
    old = versions["transformers"].startswith("4.")
    pins = ROOT / ("scripts/goldens/requirements-v4.txt" if old else "constraints.txt")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", pins.read_text(), re.MULTILINE))
    assert len(versions) >= 4
    for package, version in versions.items():
        if package != "python":
            assert version.split("+")[0] == pinned[package], package


def recomputed(name: str, folder: Path) -> np.ndarray:
    """Scores from a golden's ids by the plain forward of the installed transformers, fp32."""
    labels = LABELS[name]
    auto = "AutoModelForSequenceClassification" if labels is None else "AutoModelForCausalLM"
    model = getattr(transformers, auto).from_pretrained(folder, dtype=torch.float32).eval()
    numbers = [
        label if isinstance(label, int) else token_ids(tokenizer_of(folder), label)[0]
        for label in labels or ()
    ]
    scores = []
    for row in GOLDENS[name]["rows"]:
        ids = torch.tensor([row["ids"]])
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        if labels is None:
            scores.append(logits.item())
        else:
            values = logits[0, -1, numbers].tolist()
            scores.append(values[0] - sum(values[1:]))
    return np.array(scores)


@pytest.mark.parametrize("name", sorted(set(LABELS) - {"nemotron"}))
def test_ids_and_scores_belong_together(name: str, folder: Folder) -> None:
    """Oracle: transformers' own model on the ids. Holds across transformers 4.57 and 5."""
    found = recomputed(name, folder(GOLDENS[name]["standin"]["kind"]))
    np.testing.assert_allclose(found, scores_of(name), atol=1e-5, rtol=0)


def test_nemotron_is_bidirectional_and_averaged(folder: Folder) -> None:
    """Oracle: LlamaModel under a four-dimensional mask, mean of the states, score / temperature.

    The causal mask, and the last state instead of the mean, both give other scores (trap 14).
    """
    path = folder("llama")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        path, dtype=torch.float32
    ).eval()
    expected = scores_of("nemotron")
    settings = GOLDENS["nemotron"]["settings"]
    assert (settings["pooling"], settings["temperature"]) == ("avg", 1.0)
    assert GOLDENS["nemotron"]["left_padded_difference"] < 1e-5
    found = np.empty((3, len(expected)))
    for column, ids in enumerate(ids_of("nemotron").values()):
        whole = torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool)
        with torch.inference_mode():
            states = model.model(torch.tensor([ids]), attention_mask=whole).last_hidden_state[0]
            causal = model.model(torch.tensor([ids])).last_hidden_state[0]
            options = (states.mean(0), states[-1], causal.mean(0))
            found[:, column] = [model.score(pooled).item() for pooled in options]
    np.testing.assert_allclose(found[0], expected, atol=1e-5, rtol=0)
    assert np.abs(found[1] - expected).max() > 0.5
    assert np.abs(found[2] - expected).max() > 0.5


@pytest.mark.parametrize("kind", decoders.KINDS)
def test_stand_in_tokenizers(kind: str, folder: Folder) -> None:
    """Labels are single tokens, special tokens are read whole, texts come back, ids are stable."""
    facts, tokenizer = decoders.KINDS[kind], tokenizer_of(folder(kind))
    assert tokenizer.padding_side == "left"
    for label in ("yes", "no", "Yes", "No", "0", "1", "\n\n"):
        assert len(token_ids(tokenizer, label)) == 1, label
    for token, special in facts.tokens.items():
        (number,) = token_ids(tokenizer, token)
        assert tokenizer.added_tokens_decoder[number].special is special
    for name, *texts in ROWS:
        for text in texts:
            read = tokenizer.decode(token_ids(tokenizer, text), clean_up_tokenization_spaces=False)
            normal = text if name != "nfd" or not kind.startswith("qwen") else None
            assert normal is None or read == text, name


@pytest.mark.parametrize("kind", decoders.KINDS)
def test_a_stand_in_is_the_same_each_time(kind: str, folder: Folder, tmp_path: Path) -> None:
    """Built twice, with another state of torch's generator: the same digests."""
    state = torch.random.get_rng_state()
    torch.manual_seed(91)
    again = decoders.build(kind, tmp_path / kind)
    assert describe(kind, again) == describe(kind, folder(kind))
    torch.random.set_rng_state(state)


def test_compare_sees_every_change() -> None:
    """A changed id, text, setting, row and score are each named; a change below 1e-5 is not."""
    old = GOLDENS["zerank"]
    assert compare.differences(old, old) == []

    def changed(**keys: Any) -> dict[str, Any]:
        return {**old, "rows": [{**old["rows"][0], **keys}, *old["rows"][1:]]}

    score = old["rows"][0]["score"]
    assert compare.differences(changed(score=score + 5e-6), old) == []
    assert "short: score" in compare.differences(changed(score=score + 2e-5), old)[0]
    assert compare.differences(changed(ids=[1]), old) == ["short: ids"]
    assert compare.differences(changed(query="x"), old) == ["short: query"]
    assert compare.differences({**old, "settings": {}}, old) == ["settings"]
    assert compare.differences({**old, "rows": old["rows"][1:]}, old) == ["names of rows"]

"""prompt_decoder and pair_encoder against the authors' own code, run once and kept as JSON.

tests/golden/*.json are made by scripts/goldens, which names the libraries and their versions. Token
ids must be equal, scores within 1e-5, on every row that the reference defines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rerank.models.adapters import load_scorer
from rerank.models.pair_encoder import PairEncoderParams
from rerank.records import ModelSpec, Placement, QueryGroup
from rerank.scoring import score_groups
from tests.conftest import ROOT
from tests.standins import decoders, xlmr
from tests.standins.prompts import params

CPU = Placement("cpu", "float32", "sdpa")
CTXL_6B = "{document}\n<Query> {query} Prefer the manual. ??"

# golden file -> (adapter, its settings). Where the reference cuts the whole string at its right
# end, so does the recipe here (truncation: end); the configs keep the document in the prompt.
REFERENCES: dict[str, tuple[str, Any]] = {
    "qwen3": ("prompt_decoder", params("qwen3", truncation="end")),
    "qwen3_st": (
        "prompt_decoder",
        params(
            "qwen3",
            prompt=(),
            messages=("system: {instruction}", "query: {query}", "document: {document}"),
            truncation="end",
        ),
    ),
    "seqcls": ("prompt_decoder", params("seqcls", truncation="end")),
    "mxbai": ("prompt_decoder", params("mxbai")),
    "flag_llm_reranker": ("prompt_decoder", params("bge_gemma")),
    "zerank": ("prompt_decoder", params("zerank", truncation="end")),
    "ctxl": ("prompt_decoder", params("ctxl")),
    "ctxl_6b": (
        "prompt_decoder",
        params("ctxl", prompt=(params("ctxl").prompt[0].split("{document}")[0] + CTXL_6B,)),
    ),
    "nemotron": ("prompt_decoder", params("nemotron", truncation="end")),
    "lighton_pw": ("prompt_decoder", params("lighton_pw", truncation="end")),
    "flag_reranker": ("pair_encoder", PairEncoderParams(truncation="only_second", query_cap=0.75)),
}


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"tests/golden/{name}.json").read_text("utf-8"))
    return found


def rows_of(name: str) -> list[dict[str, Any]]:
    """Rows whose input the recipe defines as the reference does.

    ctxl's reference cuts the query and the final ' ??' off an over-long prompt: not followed.
    """
    found = golden(name)
    left_out = found["settings"].get("cut_at_the_right_end", ()) if name.startswith("ctxl") else ()
    return [row for row in found["rows"] if row["name"] not in left_out]


@pytest.fixture(scope="module")
def scorers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("golden")
    found = {}
    for name, (adapter, settings) in REFERENCES.items():
        facts = golden(name)
        kind = facts["standin"]["kind"]
        if not (folder / kind).exists():
            if kind == "xlmr":
                xlmr.build(folder / kind)
            else:
                decoders.build(kind, folder / kind)
        spec = ModelSpec(
            name,
            adapter,
            weights=str(folder / kind),
            max_length=facts["settings"]["max_length"],
            params=settings,
        )
        found[name] = load_scorer(spec, CPU)
    return found


def groups_of(rows: list[dict[str, Any]]) -> list[QueryGroup]:
    return [QueryGroup(r["name"], r["query"], (r["name"],), (r["document"],), (1,)) for r in rows]


def ids_of(item: Any) -> list[int]:
    value = item.payload.value
    return list(value[0] if isinstance(value[0], tuple) else value)


@pytest.mark.parametrize("name", REFERENCES)
def test_token_ids_are_the_references(name: str, scorers: dict[str, Any]) -> None:
    """Every row, over-long ones included."""
    rows = rows_of(name)
    assert len(rows) >= 14
    for row in rows:
        (item,) = scorers[name].encode(groups_of([row]))
        assert item.failure is None, (row["name"], item.failure)
        assert ids_of(item) == row["ids"], row["name"]


@pytest.mark.parametrize("name", REFERENCES)
def test_scores_are_the_references(name: str, scorers: dict[str, Any]) -> None:
    """One pair at a time and all together, within 1e-5 in fp32."""
    rows = rows_of(name)
    expected = np.array([row["score"] for row in rows])
    assert np.ptp(expected) > 0.5
    tolerance = 2e-5 if name == "lighton_pw" else 1e-5  # its left-padded self differs by 9.5e-6
    for budget in (1, 4_096):
        results, _ = score_groups(scorers[name], groups_of(rows), budget)
        scores = [float(result.scores[0]) for result in results]
        np.testing.assert_allclose(scores, expected, atol=tolerance)


@pytest.mark.parametrize("name", ["ctxl", "ctxl_6b"])
def test_ctxl_keeps_the_query_that_its_reference_cuts_off(
    name: str, scorers: dict[str, Any]
) -> None:
    """The declared deviation: an over-long document is cut, not the query and ' ??' after it."""
    facts = golden(name)
    row = next(row for row in facts["rows"] if row["name"] == "long_document")
    (item,) = scorers[name].encode(groups_of([row]))
    tokenizer = scorers[name].reader.tokenizer
    assert len(ids_of(item)) == facts["settings"]["max_length"] == len(row["ids"])
    assert item.truncated
    assert tokenizer.decode(ids_of(item)).endswith("??")
    assert not tokenizer.decode(row["ids"]).endswith("??")

"""Pairs through a cross-encoder, ours and sentence-transformers': what tests of both share."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder

from rerank.models import load_scorer
from rerank.models.pair_encoder import PairEncoder, PairEncoderParams
from rerank.records import ModelSpec, Placement, QueryGroup
from rerank.scoring import score_groups
from tests.standins.encoders import LENGTH

CPU = Placement("cpu", "float32", "sdpa")
OWN = {field.name for field in fields(ModelSpec)}


def spec_of(folder: Path, **settings: Any) -> ModelSpec:
    """A pair encoder's YAML: keys of every model and of the adapter side by side."""
    own = {key: value for key, value in settings.items() if key in OWN}
    params = {key: value for key, value in settings.items() if key not in OWN}
    return ModelSpec(
        "m", "pair_encoder", weights=str(folder), params=PairEncoderParams(**params), **own
    )


def loaded(folder: Path, place: Placement = CPU, **settings: Any) -> PairEncoder:
    scorer = load_scorer(spec_of(folder, **settings), place)
    assert isinstance(scorer, PairEncoder)
    return scorer


def groups_of(rows: list[tuple[str, str]]) -> list[QueryGroup]:
    return [
        QueryGroup(f"q{n}", query, (f"d{n}",), (text,), (1,))
        for n, (query, text) in enumerate(rows)
    ]


def scores_of(scorer: PairEncoder, rows: list[tuple[str, str]], budget: int = 1_024) -> np.ndarray:
    results, _ = score_groups(scorer, groups_of(rows), budget)
    assert all(result.failures == (None,) for result in results)
    return np.concatenate([result.scores for result in results])


def reference(folder: Path, rows: list[tuple[str, str]]) -> np.ndarray:
    """sentence_transformers.CrossEncoder, one pair at a time, no sigmoid."""
    model = CrossEncoder(
        str(folder),
        max_length=LENGTH,
        device="cpu",
        activation_fn=torch.nn.Identity(),
        model_kwargs={"dtype": torch.float32},  # not the fp16 that small folders are saved in
    )
    return np.asarray(model.predict(rows, batch_size=1, show_progress_bar=False))

"""Kinds of rerankers, and how a model's files become a `Scorer`. Importing it loads no torch."""

from rerank.models.adapters import (
    ADAPTERS,
    Adapter,
    adapter_of,
    load_scorer,
    model_identity,
    resolve_weights,
)
from rerank.models.weights import WEIGHT_SOURCES

__all__ = [
    "ADAPTERS",
    "WEIGHT_SOURCES",
    "Adapter",
    "adapter_of",
    "load_scorer",
    "model_identity",
    "resolve_weights",
]

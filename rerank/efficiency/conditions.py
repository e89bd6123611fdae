"""The conditions block: what a figure of speed was measured with, and without which it is none."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from rerank.circumstances import describe_process
from rerank.devices import describe_device
from rerank.efficiency.flops import transformer_of
from rerank.efficiency.other_load import OtherLoad
from rerank.records import Item, ModelSpec, Placement, QueryGroup, Scorer

KERNELS = ("flash-attn", "xformers", "triton", "bitsandbytes")


def conditions(
    spec: ModelSpec,
    placement: Placement,
    revision: str,
    scorer: Scorer,
    groups: Sequence[QueryGroup],
    items: Sequence[Item],
    other: OtherLoad,
    exclusive: bool,
) -> dict[str, Any]:
    """The block, as JSON types; memory in bytes. groups: the requests; items: their inputs."""
    depths = [len(group) for group in groups]
    tokens = [item.tokens for item in items if item.failure is None]
    return {
        "machine": describe_device(placement),
        "process": describe_process(),
        "kernels": {"attention": placement.attention, **_versions()},
        "model": spec.name,
        "adapter": spec.adapter,
        "revision": revision,
        "dtype": placement.dtype,
        "quantisation": quantisation(scorer),
        "max_length": spec.max_length,
        "recipe": scorer.describe(),
        "queries": len(groups),
        "candidate_depth": {"most": max(depths), "mean": float(np.mean(depths))},
        "input_tokens": _quantiles(tokens),
        "exclusive": exclusive,
        "other_load": other.record(),
    }


def quantisation(scorer: Scorer) -> str:
    """How the weights are quantised, as the model's configuration says: none, or the method."""
    module = transformer_of(scorer)
    found = getattr(getattr(module, "config", None), "quantization_config", None)
    if found is None:
        return "none"
    method = found.get("quant_method") if isinstance(found, dict) else found.quant_method
    return str(getattr(method, "value", method))


def _quantiles(tokens: Sequence[int]) -> dict[str, float] | None:
    if not tokens:
        return None
    p50, p95 = np.quantile(tokens, [0.5, 0.95])
    return {"p50": float(p50), "p95": float(p95), "most": max(tokens)}


def _versions() -> dict[str, str]:
    found = {}
    for name in KERNELS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

"""Floating point operations: those of a transformer's forward, and those that the device can do.

A forward's are counted as 2 x matrix parameters x tokens, embedding tables and heads left out (a
table is looked up, a head reads one token a pair), and for attention, in each layer and head,
4 x head size x L^2 of an input of L tokens: the products QK^T and AV. Causal attention needs half
of that. Layers with a window are counted as if they had none, which is an upper bound.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

PEAK_SIZES = {"cpu": (1024, 2048), "cuda": (4096, 8192, 16384)}
PEAK_ROUNDS = 5


@dataclass(frozen=True)
class Cost:
    """What a forward computes: per token, and per token pair of one input.

    matrix_parameters: weights that every token is multiplied with; attention: layers x heads x head
    size; causal: does a token see only those before it?
    """

    matrix_parameters: int
    attention: int
    causal: bool

    def of(self, lengths: Sequence[int]) -> float:
        """FLOP of inputs of these lengths, without padding."""
        products = 2 if self.causal else 4
        return 2.0 * self.matrix_parameters * sum(lengths) + float(
            products * self.attention * sum(length * length for length in lengths)
        )


def cost_of(scorer: Any) -> Cost | None:
    """The cost of a scorer's forward; None where it is no single transformer of known layers."""
    module = transformer_of(scorer)
    if module is None:
        return None
    config = module.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    layers = getattr(config, "num_hidden_layers", None)
    if not heads or not layers:
        return None
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Cost(matrix_parameters(module), layers * heads * size, _is_causal(scorer, config))


def _is_causal(scorer: Any, config: Any) -> bool:
    """Decoders of prompts are, unless their recipe says otherwise, and so are listwise ones."""
    from rerank.models.causal import Decoder
    from rerank.models.listwise_embedding import ListwiseEmbedding

    if isinstance(getattr(scorer, "decoder", None), Decoder):
        return bool(getattr(config, "is_causal", True))
    return isinstance(scorer, ListwiseEmbedding)


def transformer_of(scorer: Any) -> Any:
    """The transformer that a scorer forwards, without its head; None where there is none."""
    torch = sys.modules.get("torch")
    owner = getattr(scorer, "decoder", scorer)
    module = getattr(owner, "model", None)
    if torch is None or not isinstance(module, torch.nn.Module):
        return None
    prefix = getattr(module, "base_model_prefix", "")
    return getattr(module, prefix, module) if prefix else module


def matrix_parameters(module: Any) -> int:
    """Weights of two dimensions and more, without embedding tables and the pooler."""
    import torch

    left_out = {
        id(weight)
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.Embedding) or name == "pooler"
        for weight in part.parameters()
    }
    weights = {id(w): w for w in module.parameters() if w.ndim > 1 and id(w) not in left_out}
    return sum(weight.numel() for weight in weights.values())


def matmul_peak(device: str, dtype: str, seconds: Callable[[], float] = time.perf_counter) -> float:
    """FLOP/s of the fastest of a few square matrix multiplications, measured now.

    With the threads that torch has in this process. The best of `PEAK_ROUNDS` of each size.
    seconds: the clock; `time.process_time` where rates are taken of CPU time.
    """
    import torch

    kind = getattr(torch, dtype)
    return max(_rate(torch, device, kind, size, seconds) for size in PEAK_SIZES[device])


def _rate(torch: Any, device: str, dtype: Any, size: int, clock: Callable[[], float]) -> float:
    left = torch.randn(size, size, device=device, dtype=dtype)
    right = torch.randn(size, size, device=device, dtype=dtype)
    seconds = []
    with torch.inference_mode():
        for _ in range(PEAK_ROUNDS + 1):  # the first one warms up
            _wait(torch, device)
            started = clock()
            torch.mm(left, right)
            _wait(torch, device)
            seconds.append(clock() - started)
    return 2.0 * size**3 / min(seconds[1:])


def _wait(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()

"""Weights of stand-in models: random, spread enough that scores differ, and the same everywhere."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch


def fill(model: Any, scale: float = 0.25) -> Any:
    """Give every parameter values drawn by its own name, whatever transformers initialised.

    Matrices are normal with standard deviation `scale`; vectors called weight (norms) are about 1,
    other vectors about 0. The values depend on names and shapes alone, so the same stand-in has the
    same scores under every version of torch and transformers.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
            values = np.random.default_rng(seed).normal(size=tuple(parameter.shape))
            if parameter.ndim > 1:
                values = values * scale
            elif name.endswith("weight"):
                values = 1 + values * 0.1
            else:
                values = values * 0.05
            parameter.copy_(torch.from_numpy(values).to(parameter.dtype))
    return model.eval()

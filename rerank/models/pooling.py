"""One vector of a text from the states of its tokens.

Each pooling takes states (n, length, hidden) and a mask (n, length) of ones for real tokens and
zeros for padding on the right, and gives (n, hidden).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mean(states: Any, mask: Any) -> Any:
    """Mean of the states of real tokens."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def cls(states: Any, mask: Any) -> Any:
    """State of the first token."""
    return states[:, 0]


def last(states: Any, mask: Any) -> Any:
    """State of the last real token."""
    import torch

    rows = torch.arange(len(states), device=states.device)
    return states[rows, mask.sum(dim=1).clamp(min=1) - 1]


POOL: dict[str, Callable[[Any, Any], Any]] = {"mean": mean, "cls": cls, "last": last}

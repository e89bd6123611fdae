"""What a check finds: errors, warnings and facts, and the exit code that they come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

LEVELS = ("error", "warning", "fact")
SHOWN = 5  # examples of one finding


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    level: error (freezing refuses it), warning, or fact. kind: a stable name for programs. count:
    how often; examples: the first few, as text; values: figures, strict-JSON ready. harms: a
    warning after which measures would be wrong, so that a script should stop.
    """

    level: str
    kind: str
    message: str
    count: int | None = None
    examples: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    harms: bool = False


def exit_code(findings: Iterable[Finding]) -> int:
    """2 where freezing would refuse the input, 1 where measures would be wrong, else 0."""
    found = list(findings)
    if any(item.level == "error" for item in found):
        return 2
    return int(any(item.harms for item in found))


def shown(items: Sequence[str]) -> tuple[str, ...]:
    """The first few of many examples."""
    return tuple(items[:SHOWN])

"""Markdown from text that may be anything: what is data is shown as it is, and breaks nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rerank.reporting.visible import visible

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "://": "&#58;//"}
_SPECIAL = re.compile(r"[&<>|]|://|[\\`*#~$]|\](?=[(\[:])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(?:(?=[-+=\[])|(\d+)(?=[.)]))")


def escape(text: str) -> str:
    """Text inside a line: no markup, no table border, no line break, no link."""
    return _SPECIAL.sub(
        lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), visible(text).strip()
    )


def paragraph(text: str) -> str:
    """Text that begins a line, where `-`, `+`, `=`, `[ ]` and `1.` mean something."""
    return _BLOCK_START.sub(lambda match: f"{match[1] or ''}\\", escape(text))


def heading(level: int, text: str) -> str:
    return f"{'#' * level} {escape(text)}"


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {paragraph(item)}" for item in items)


def table(heads: Sequence[str], numeric: Sequence[bool], rows: Iterable[Sequence[str]]) -> str:
    """Cells are escaped already; numeric columns are aligned to the right."""
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


def blocks(*parts: str | None) -> str:
    """Blocks with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)

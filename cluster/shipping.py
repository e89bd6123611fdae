"""What travels with a job: configuration files always, this project's code where it is asked for.

The package is put together file by file, from the four packages and from texts handed in, so that
no store, no data and no `.git` can get into it by being in the wrong folder.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path

from rerank.errors import ConfigError

PACKAGES = ("metrics", "rerank", "cluster", "jobs")
LEFT_OUT = ("__pycache__", "*.pyc", "*.parquet", ".*")
MAX_BYTES = 100 * 2**20  # what a dashboard takes by HTTP
SHOWN = 3  # biggest files named in a refusal


def fill_package(folder: Path, texts: Mapping[str, str], *, with_code: bool) -> Path:
    """Write `texts` (relative name -> content), and the code, into `folder`; returns it.

    ConfigError above MAX_BYTES, with the biggest files.
    """
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if with_code:
        for package in PACKAGES:
            ignore = shutil.ignore_patterns(*LEFT_OUT)
            shutil.copytree(package_folder(package), folder / package, ignore=ignore)
    check_size(folder, MAX_BYTES)
    return folder


def check_size(folder: Path, limit: int) -> None:
    """ConfigError where the files of a folder hold more than `limit` bytes in all."""
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    total = sum(sizes.values())
    if total <= limit:
        return
    biggest = sorted(sizes, key=lambda path: -sizes[path])[:SHOWN]
    named = ", ".join(
        f"{path.relative_to(folder)} ({sizes[path] / 2**20:.0f} MiB)" for path in biggest
    )
    raise ConfigError(
        f"the code to send is {total / 2**20:.0f} MiB, above {limit / 2**20:.0f} MiB: {named}; "
        "move such files out of the packages, or set `code: image` in the cluster's file"
    )


def package_folder(name: str) -> Path:
    """Where a package of this project lies; found without running its code."""
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(next(iter(found.submodule_search_locations)))

"""Where a hub data set lies: a folder, a local cache or the hub itself, and at which commit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerank.errors import ConfigError, InputError

DATASETS_FOLDER = "RERANK_DATASETS"  # names a folder of data sets: OWNER/NAME/...
COMMIT = re.compile("[0-9a-f]{40}")
HUB_ID = re.compile(r"[\w.\-]+/[\w.\-]+")


@dataclass(frozen=True)
class Located:
    """What `datasets.load_dataset` is given, and what is known about it."""

    dataset: str  # as the task names it
    path: str  # a folder or a hub id
    revision: str | None  # passed on where `path` is a hub id
    kind: str  # folder | cache | hub
    commit: str  # "" where a folder does not state one


def locate(dataset: str, revision: str, *, beside: Path, task: str) -> Located:
    """The data set's folder if there is one, else the hub's cache (offline) or the hub.

    Searched in this order: OWNER/NAME, or the hub's cache layout, in the folder that
    RERANK_DATASETS names; a folder of that name, relative to the task's file; the hub at
    `revision`, of which HF_HUB_OFFLINE leaves the local cache. ConfigError for a hub id without a
    commit, InputError where a folder or the cache states another commit than `revision`.
    """
    folder = _folder_of(dataset, revision, beside, task)
    if folder is not None:
        return _in_folder(dataset, revision, folder, task)
    if not HUB_ID.fullmatch(dataset):
        raise ConfigError(
            f"task '{task}': dataset '{dataset}' is neither a folder nor OWNER/NAME of the hub; "
            "check the path in the task's YAML"
        )
    if not COMMIT.fullmatch(revision):
        raise ConfigError(
            f"task '{task}': revision '{revision}' of {dataset} is not a commit of 40 hex digits, "
            "and anything else can move; copy the commit from "
            f"huggingface.co/datasets/{dataset}/commits/main into the task's YAML"
        )
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        snapshot = _snapshot(Path(constants.HF_HUB_CACHE), dataset, revision, task)
        if snapshot is None:
            raise InputError(
                f"task '{task}': {dataset} is not in the hub's cache and HF_HUB_OFFLINE is set; "
                f"{_download(dataset, revision)} where there is a network, or put the data set "
                f"into a folder that {DATASETS_FOLDER} names"
            )
        return Located(dataset, str(snapshot), None, "cache", revision)
    return Located(dataset, dataset, revision, "hub", revision)


def _folder_of(dataset: str, revision: str, beside: Path, task: str) -> Path | None:
    if not dataset:
        raise ConfigError(f"task '{task}': source hub needs dataset: OWNER/NAME or a folder")
    collection = os.environ.get(DATASETS_FOLDER, "")
    if collection:
        if (Path(collection) / dataset).is_dir():
            return Path(collection) / dataset
        snapshot = _snapshot(Path(collection), dataset, revision, task)
        if snapshot is not None:
            return snapshot
    return beside / dataset if (beside / dataset).is_dir() else None


def _in_folder(dataset: str, revision: str, folder: Path, task: str) -> Located:
    stated = folder_commits(folder)
    if revision and stated - {revision}:
        raise _moved(dataset, revision, folder, stated, task)
    commit = next(iter(stated)) if len(stated) == 1 else ""
    return Located(dataset, str(folder), None, "folder", commit)


def _snapshot(cache: Path, dataset: str, revision: str, task: str) -> Path | None:
    """The folder of `revision` in a cache laid out as the hub's; InputError if it has others."""
    folder = cache / f"datasets--{dataset.replace('/', '--')}" / "snapshots"
    if not folder.is_dir():
        return None
    there = {path.name for path in folder.iterdir() if path.is_dir()}
    if not revision and len(there) == 1:
        return folder / there.pop()
    if there and revision not in there:
        raise _moved(dataset, revision, folder, there, task)
    return folder / revision if there else None


def folder_commits(folder: Path) -> set[str]:
    """The commits that a copy of a data set states: none, one, or several of a mixed download.

    Read from the hub cache's folder name, from the notes that `hf download --local-dir` keeps in
    .cache/huggingface (a file's first line is its commit), or from a git checkout's HEAD.
    """
    resolved = folder.resolve()
    if resolved.parent.name == "snapshots" and COMMIT.fullmatch(resolved.name):
        return {resolved.name}
    noted = {
        path.read_text(encoding="utf-8").partition("\n")[0].strip()
        for path in (folder / ".cache" / "huggingface" / "download").rglob("*.metadata")
    }
    return {commit for commit in noted | _git_head(folder) if COMMIT.fullmatch(commit)}


def declared_files(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Configuration -> split -> file patterns, as the README.md of a data set declares them.

    Empty without such a README. A configuration that names its files otherwise (`data_dir`) has no
    splits here.
    """
    from huggingface_hub import DatasetCard

    readme = folder / "README.md"
    if not readme.is_file():
        return {}
    card = DatasetCard.load(readme, ignore_metadata_errors=True)
    return {
        str(entry["config_name"]): _patterns(entry.get("data_files"))
        for entry in card.data.get("configs") or []
    }


def _patterns(files: Any) -> dict[str, list[str]]:
    """The forms of `data_files`: a path, a list of paths, or a list of {split, path}."""
    if isinstance(files, list) and all(isinstance(entry, dict) for entry in files):
        return {entry["split"]: _patterns(entry["path"])["train"] for entry in files}
    if files is None:
        return {}
    return {"train": [files] if isinstance(files, str) else list(files)}


def _git_head(folder: Path) -> set[str]:
    head = folder / ".git" / "HEAD"
    if not head.is_file():
        return set()
    text = head.read_text(encoding="utf-8").strip()
    branch = folder / ".git" / text.removeprefix("ref: ")
    if text.startswith("ref: "):
        return {branch.read_text(encoding="utf-8").strip()} if branch.is_file() else set()
    return {text}


def _moved(dataset: str, revision: str, where: Path, found: set[str], task: str) -> InputError:
    return InputError(
        f"task '{task}': {where} holds {dataset} at {', '.join(sorted(found))}, but the task pins "
        f"{revision or 'no revision'}; {_download(dataset, revision or 'COMMIT')}, or change "
        "revision: in the task's YAML and freeze a new task"
    )


def _download(dataset: str, revision: str) -> str:
    return f"run `hf download {dataset} --repo-type dataset --revision {revision}`"

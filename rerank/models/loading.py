"""What may be loaded from a model's folder: its own code only where the YAML trusts it.

No code that changes other models is kept, and every failure is one sentence.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from types import FunctionType
from typing import Any

from rerank.errors import RerankError, ScoringError
from rerank.records import ModelSpec

CODE_FILES = ("config.json", "tokenizer_config.json")  # may name the folder's own classes
# whose classes are shared by all models of a process
SHARED_PACKAGES = ("transformers", "sentence_transformers", "torch.nn")

Methods = dict[type, dict[str, object]]


@contextmanager
def loading(spec: ModelSpec, folder: str, what: str) -> Iterator[None]:
    """Around whatever reads a model's files with transformers; `what` names it in messages.

    ScoringError: the files cannot be read; they bring code that the YAML does not trust; or their
    code replaced methods of shared classes (these are put back first).
    """
    code = own_code(spec.name, folder)
    check_code(spec.name, folder, code, trusted=spec.trust_code)
    before = shared_methods() if code else {}
    try:
        yield
    except RerankError:
        raise
    except Exception as error:
        if not code and not isinstance(error, _expected_errors()):
            raise
        raise unloadable(spec, folder, what, error) from error
    finally:
        changed = restore_methods(before)
    if changed:
        raise ScoringError(
            f"model '{spec.name}': the code in {folder} replaces {', '.join(changed[:3])}, which "
            "other models use; take that out of its code, or use a revision that has no such code"
        )


def own_code(name: str, folder: str) -> list[str]:
    """The classes that a folder's files name as its own (`auto_map`), sorted."""
    found: set[str] = set()
    for file in CODE_FILES:
        path = Path(folder) / file
        if path.is_file():
            found |= set(_class_names(read_json(name, path).get("auto_map", {})))
    return sorted(found)


def _class_names(auto_map: Any) -> Iterator[str]:
    """Class references of an `auto_map`: strings, at any depth of lists and mappings."""
    if isinstance(auto_map, str):
        yield auto_map
    elif isinstance(auto_map, dict | list):
        for value in auto_map.values() if isinstance(auto_map, dict) else auto_map:
            yield from _class_names(value)


def check_code(name: str, folder: str, code: list[str], *, trusted: bool) -> None:
    """ScoringError where classes need trust that is not given, or lie in another repository."""
    if code and not trusted:
        raise ScoringError(
            f"model '{name}': {folder} brings its own code ({', '.join(code[:3])}), which "
            "would run here; read it, then set trust_code: true in the model's YAML"
        )
    elsewhere = [reference for reference in code if "--" in reference]
    if elsewhere:
        raise ScoringError(
            f"model '{name}': its code {elsewhere[0]} lies in another repository, whose revision "
            f"nothing pins; copy those files into {folder} and take the part up to -- out of "
            "auto_map in its config.json"
        )


def shared_methods() -> Methods:
    """Methods and properties of all classes loaded from `SHARED_PACKAGES`, by class and name."""
    modules = [module for name, module in list(sys.modules.items()) if _is_shared(name)]
    classes = {
        value
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, type) and _is_shared(value.__module__)
    }
    return {cls: _methods(cls) for cls in classes}


def _is_shared(module: str) -> bool:
    return any(module == name or module.startswith(name + ".") for name in SHARED_PACKAGES)


def _methods(cls: type) -> dict[str, object]:
    kinds = (FunctionType, staticmethod, classmethod, property)
    return {name: value for name, value in list(vars(cls).items()) if isinstance(value, kinds)}


def restore_methods(before: Methods) -> list[str]:
    """Undo what changed since `shared_methods`; the names of what did, sorted."""
    changed = []
    for cls, methods in before.items():
        now = _methods(cls)
        for name in sorted({*methods, *now}):
            if now.get(name) is not methods.get(name):
                changed.append(f"{cls.__module__}.{cls.__qualname__}.{name}")
                if name in methods:
                    setattr(cls, name, methods[name])
                else:
                    delattr(cls, name)
    return sorted(changed)


def read_json(name: str, path: Path) -> dict[str, Any]:
    """A JSON object of a model's folder; ScoringError names the file and what is wrong with it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScoringError(
            f"model '{name}': {path} cannot be loaded: {error}; fetch the file again"
        ) from error
    if not isinstance(values, dict):
        raise ScoringError(f"model '{name}': {path} must hold one JSON object; fetch it again")
    return values


def unloadable(spec: ModelSpec, folder: str, what: str, error: Exception) -> ScoringError:
    """The error of a library as one sentence."""
    return ScoringError(
        f"model '{spec.name}': the {what} in {folder} cannot be loaded: {reason(error)}; check the "
        "files, and the model's adapter and trust_code in its YAML"
    )


def reason(error: Exception) -> str:
    """The first line of a library's message; for a pickle that was refused, our own."""
    if isinstance(error, UnpicklingError):
        return "its pickled file holds other things than tensors, or is damaged"
    return (str(error).strip() or repr(error)).splitlines()[0]


def _expected_errors() -> tuple[type[Exception], ...]:
    """What damaged or unsuitable files raise; anything else is a mistake of this program."""
    from safetensors import SafetensorError

    return OSError, ValueError, RuntimeError, ImportError, SafetensorError, UnpicklingError

"""The floors of the design: a package imports those below it, never up or sideways."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("metrics", "rerank", "cluster", "jobs")  # lowest first
# package -> the only floors that may import it
RESERVED = {"ray": {"cluster"}, "omegaconf": {"jobs"}}
# metrics is arrays in, arrays out
METRICS_MAY = {"numpy", "scipy"}


def modules(floor: str) -> list[Path]:
    return sorted((ROOT / floor).rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """(line, top-level package) of every import of a file, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            yield node.lineno, (node.module or "").split(".")[0]


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_imports_only_floors_below_it(floor: str) -> None:
    """metrics < rerank < cluster < jobs (design, section 1)."""
    above = set(FLOORS[FLOORS.index(floor) + 1 :])
    offenders = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in modules(floor)
        for line, name in imports(file)
        if name in above
    ]
    assert offenders == []


@pytest.mark.parametrize("package", sorted(RESERVED))
def test_only_its_floor_imports_a_reserved_package(package: str) -> None:
    """Only cluster imports ray, only jobs imports omegaconf."""
    offenders = [
        f"{file.relative_to(ROOT)}:{line}"
        for floor in FLOORS
        if floor not in RESERVED[package]
        for file in modules(floor)
        for line, name in imports(file)
        if name == package
    ]
    assert offenders == []


def test_metrics_stands_on_arrays_alone() -> None:
    """metrics needs numpy, scipy and the standard library, nothing else."""
    import sys

    allowed = METRICS_MAY | {"metrics"} | sys.stdlib_module_names
    offenders = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in modules("metrics")
        for line, name in imports(file)
        if name not in allowed
    ]
    assert offenders == []

"""Everything a user can name is documented: in the README or in the command's own help."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from jobs.__main__ import VERBS, main
from jobs.config import ClusterSpec
from metrics import METRICS
from rerank.analyzers import ANALYZERS
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec
from rerank.sources import SOURCES
from rerank.suite.suites import GateRule, ImportedResults, SuiteSpec
from rerank.tasks import TaskSpec
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def helps(capsys: pytest.CaptureFixture[str]) -> str:
    """The README, the help of every verb, and what the list verbs print."""
    for verb in VERBS:
        with pytest.raises(SystemExit):
            main([verb, "--help"])
    for verb in ("models", "tasks"):
        main([verb, "--configs", str(ROOT / "configs")])
    main(["measures"])
    return README + capsys.readouterr().out


def test_every_verb_has_an_example_in_the_readme() -> None:
    """`rerank VERB` appears."""
    assert [verb for verb in VERBS if f"rerank {verb}" not in README] == []


def test_every_name_and_key_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    """Measures, adapters with their keys, sources, analyzers, and the keys of all YAML files."""
    text = helps(capsys)
    kinds = [TaskSpec, ModelSpec, SuiteSpec, GateRule, ImportedResults, ClusterSpec]
    kinds += [adapter.params for adapter in ADAPTERS.values()]
    keys = {field.name for kind in kinds for field in fields(kind)} - {"params"}
    names = {*METRICS, *ADAPTERS, *SOURCES, *ANALYZERS, *keys}
    missing = [
        name for name in sorted(names) if not re.search(rf"(?<!\w){re.escape(name)}\b", text)
    ]
    assert missing == []


def test_the_tree_in_the_readme_is_the_tree() -> None:
    """Every module has its line."""
    modules = [
        path.name
        for floor in ("metrics", "rerank", "cluster", "jobs")
        for path in (ROOT / floor).rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert [name for name in sorted(modules) if name not in README] == []

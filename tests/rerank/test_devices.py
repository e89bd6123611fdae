"""What `auto` comes to, on machines that are described rather than at hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from rerank import devices
from rerank.devices import (
    NATIVE_BF16_FLAGS,
    WEIGHTLESS,
    describe_device,
    planned_placement,
    resolve_placement,
)
from rerank.errors import ConfigError, ScoringError
from rerank.records import ModelSpec, Placement
from tests.conftest import ROOT

SPEC = ModelSpec("m", "pair_encoder", weights="w")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Describe the machine: a GPU or not, processor flags, flash attention."""

    def describe(*, cuda: bool = False, flags: str = "", flash: bool = False) -> None:
        monkeypatch.setattr(devices, "sees_cuda", lambda: cuda)
        monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset(flags.split()))
        monkeypatch.setattr(devices, "_has_flash_attn", lambda: flash)
        monkeypatch.setattr(devices, "_supports_flash", lambda spec: spec.weights == "w")

    return describe


@pytest.mark.parametrize(
    ("facts", "settings", "expected"),
    [
        ({}, {}, ("cpu", "float32", "sdpa")),
        ({"flags": "avx2 avx512_bf16"}, {}, ("cpu", "float32", "sdpa")),
        ({"flags": "avx512_bf16 amx_bf16"}, {}, ("cpu", "bfloat16", "sdpa")),
        ({"flags": "asimd svebf16"}, {}, ("cpu", "bfloat16", "sdpa")),
        ({"cuda": True}, {}, ("cuda", "bfloat16", "sdpa")),
        ({"cuda": True}, {"num_gpus": 0}, ("cpu", "float32", "sdpa")),
        ({"cuda": True}, {"device": "cpu"}, ("cpu", "float32", "sdpa")),
        ({"cuda": True}, {"device": "cuda", "num_gpus": 0}, ("cuda", "bfloat16", "sdpa")),
        ({"cuda": True, "flash": True}, {}, ("cuda", "bfloat16", "flash_attention_2")),
        ({"cuda": True, "flash": True}, {"dtype": "float32"}, ("cuda", "float32", "sdpa")),
        ({"cuda": True, "flash": True}, {"weights": "t5"}, ("cuda", "bfloat16", "sdpa")),
        ({"cuda": True, "flash": True}, {"attention": "eager"}, ("cuda", "bfloat16", "eager")),
        ({"flash": True}, {}, ("cpu", "float32", "sdpa")),
        ({}, {"dtype": "float16"}, ("cpu", "float16", "sdpa")),
    ],
)
def test_auto_comes_to(
    machine: Any, facts: dict[str, Any], settings: dict[str, Any], expected: tuple[str, ...]
) -> None:
    """The table of the docstring of `resolve_placement`."""
    machine(**facts)
    spec = ModelSpec(**{**SPEC.__dict__, **settings})
    assert resolve_placement(spec, weightless=False) == Placement(*expected)


def test_a_weightless_model_has_no_attention_and_asks_for_nothing(machine: Any) -> None:
    """Its identity is the same on every machine, with or without a GPU."""
    machine(cuda=True, flash=True)
    expected = Placement("cpu", "float32", "none")
    assert resolve_placement(ModelSpec("o", "overlap"), weightless=True) == expected


@pytest.mark.parametrize(
    ("facts", "settings", "words"),
    [
        ({}, {"device": "cuda"}, "torch sees no GPU"),
        ({"cuda": True}, {"attention": "flash_attention_2"}, "flash-attn"),
        ({"flash": True}, {"attention": "flash_attention_2"}, "needs a GPU"),
        (
            {"cuda": True, "flash": True},
            {"attention": "flash_attention_2", "dtype": "float32"},
            "bfloat16 or float16",
        ),
    ],
)
def test_what_the_machine_lacks_is_an_error_not_a_substitute(
    machine: Any, facts: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    """A stated value is never replaced silently: it is part of the run's identity."""
    machine(**facts)
    with pytest.raises(ScoringError, match=words):
        resolve_placement(ModelSpec(**{**SPEC.__dict__, **settings}), weightless=False)


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [("device", "gpu", "Known"), ("dtype", "bf16", "float16"), ("attention", "spda", "sdpa")],
)
def test_an_unknown_word_is_a_config_error(key: str, value: str, near: str) -> None:
    """With the known ones, also for a weightless model."""
    for weightless in (True, False):
        with pytest.raises(ConfigError, match=near):
            resolve_placement(ModelSpec("m", "overlap", **{key: value}), weightless)


def test_this_machine_is_what_its_flags_say() -> None:
    """Unpatched: bfloat16 exactly where /proc/cpuinfo has a flag of the table."""
    spec = ModelSpec("m", "pair_encoder", num_gpus=0)
    native = bool(NATIVE_BF16_FLAGS & devices.cpu_flags())
    assert resolve_placement(spec, False).dtype == ("bfloat16" if native else "float32")


def test_the_description_is_plain_json_and_names_the_machine() -> None:
    """Receipts hold it; memory in bytes."""
    facts = describe_device(Placement("cpu", "float32", "sdpa"))
    assert facts["cpu"]
    assert facts["cpu_count"] >= 1
    assert facts["cpu_memory"] is None or facts["cpu_memory"] > 10**8
    assert all(value is None or isinstance(value, str | int) for value in facts.values())


def test_torch_is_not_imported_for_a_question_it_cannot_answer() -> None:
    """A run without GPUs resolves its placement and describes its machine without torch."""
    code = (
        "import sys; from rerank.devices import resolve_placement, describe_device; "
        "from rerank.records import ModelSpec; "
        "p = resolve_placement(ModelSpec('m', 'pair_encoder', num_gpus=0), False); "
        "describe_device(p); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_plan_takes_a_stated_placement_at_its_word() -> None:
    """A driver without a GPU plans for workers with one; `auto` is resolved where it stands."""
    spec = ModelSpec(
        "m", "pair_encoder", device="cuda", dtype="bfloat16", attention="sdpa", num_gpus=1
    )
    assert planned_placement(spec, weightless=False) == Placement("cuda", "bfloat16", "sdpa")
    assert planned_placement(spec, weightless=True) == WEIGHTLESS
    with pytest.raises(ConfigError, match="Did you mean 'cuda'"):
        planned_placement(replace(spec, device="cuda0"), weightless=False)

"""Warnings about what systems were computed with. Oracle: the sentences, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rerank.suite.machines import machine_warnings


def system(
    model: str, dtype: str = "bfloat16", attention: str = "sdpa", gpus: tuple[str, ...] = ("A100",)
) -> Any:
    receipts = [{"worker": {"gpu": gpu}} for gpu in gpus]
    run = SimpleNamespace(identity={"dtype": dtype, "attention": attention})
    return SimpleNamespace(model=model, task="t", run=run, receipts=receipts)


def test_one_kind_of_everything_is_no_warning() -> None:
    """The first stage has no weights, and CPUs no GPU: neither is a mixture."""
    stage_1 = system("first_stage", dtype="float32", attention="none", gpus=())
    assert machine_warnings([stage_1, system("a"), system("b")]) == []
    assert machine_warnings([system("a", gpus=()), system("b", gpus=())]) == []


def test_formats_kernels_and_gpus_are_told_with_their_models() -> None:
    """Each in a sentence of its own, for the task where it is so."""
    found = machine_warnings(
        [system("a"), system("b", dtype="float32", attention="eager", gpus=("L4",)), system("c")]
    )
    tail = "; part of a difference may be theirs"
    assert found == [
        f"t: systems are compared across number formats: bfloat16 (a, c); float32 (b){tail}",
        f"t: systems are compared across attention kernels: eager (b); sdpa (a, c){tail}",
        f"t: systems are compared across kinds of GPU: A100 (a, c); L4 (b){tail}",
    ]


def test_a_run_on_two_kinds_of_gpu() -> None:
    """Said of the run itself, and of the comparison."""
    found = machine_warnings([system("a", gpus=("A100", "L4", "A100"))])
    assert found[0].startswith("a on t: its shards were scored on A100 and L4; ")
    assert found[1].startswith("t: systems are compared across kinds of GPU: A100 (a); L4 (a)")

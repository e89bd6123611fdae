"""`--only-failed`, `--shards` and what is found broken at the end of a replay.

Oracle: the texts that a scorer forwarded, counted, and the receipts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.selection import Selection, add_selection_arguments, selection_of
from rerank.errors import ConfigError
from tests.cluster.conftest import make_field  # noqa: F401  (a fixture)
from tests.cluster.fields import Field, listed_task


def task(name: str, shards: int) -> Any:
    return SimpleNamespace(name=name, shards=[SimpleNamespace(number=n) for n in range(shards)])


def parsed(words: list[str], *tasks: Any) -> Selection:
    parser = argparse.ArgumentParser()
    add_selection_arguments(parser)
    return selection_of(parser.parse_args(words), tasks)


def test_numbers_belong_to_a_task() -> None:
    """Without a name to the only one; repeated options add up."""
    assert parsed([], task("a", 3)) == Selection()
    assert parsed(["--only-failed"], task("a", 3)) == Selection(only_failed=True)
    assert parsed(["--shards", "0,2"], task("a", 3)).shards == {"a": {0, 2}}
    both = parsed(["--shards", "a:0", "--shards", "b:1,0", "--shards", "a:2"],
                  task("a", 3), task("b", 2))  # fmt: skip
    assert both.shards == {"a": {0, 2}, "b": {0, 1}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("3", "'3' is no shard of a; its shards are 0 to 2"),
        ("a:0,x", "'x' is no shard of a; its shards are 0 to 2"),
        ("0,", "'' is no shard"),
        ("-1", "'-1' is no shard"),
        ("c:0", "unknown task"),
    ],
)
def test_what_is_no_shard_is_an_error_that_lists_the_range(words: str, message: str) -> None:
    """The task is named as well."""
    with pytest.raises(ConfigError, match=message):
        parsed([f"--shards={words}"], task("a", 3))


def test_several_tasks_need_a_name() -> None:
    with pytest.raises(ConfigError, match="tasks a, b; write TASK:1"):
        parsed(["--shards", "1"], task("a", 3), task("b", 2))


@pytest.fixture
def field(make_field: Callable[..., Field]) -> Field:  # noqa: F811
    """Four shards of one pair each; the third refuses to be scored."""
    texts = {f"q{n}": {"a": "__RAISE__" if n == 2 else "ok"} for n in range(4)}
    return listed_task(make_field("chosen"), "chosen", texts, shard_pairs=1)


def test_shards_by_number_and_only_what_failed(field: Field) -> None:
    """1 and 2 alone; then what failed alone; the one that was never tried stays for the end."""
    code, said = field.finish("inline", shards=[1, 2])
    assert (code, set(field.receipts())) == (1, {"00001"}), said
    assert field.forwarded() == {"q1 a": 1, "q2 a": 1}
    code, said = field.finish("inline", only_failed=True)
    assert (code, field.forwarded()["q2 a"]) == (1, 2), said
    assert set(field.receipts()) == {"00001"}
    assert "lacks 3 of 4 shards (0, 2, 3)" in said
    code, said = field.finish("inline", shards=[1])
    assert "the 3 missing shards are not among those asked for" in said
    assert field.finish("inline")[0] == 1
    assert set(field.receipts()) == {"00000", "00001", "00003"}


def test_retry_failed_takes_up_the_chosen_alone(field: Field) -> None:
    """The record of failure of a shard that was not asked for stays."""
    assert field.finish("inline")[0] == 1
    assert field.finish("inline", shards=[0], retry_failed=True)[0] == 1
    assert field.forwarded()["q2 a"] == 1
    assert field.finish("inline", shards=[2], retry_failed=True)[0] == 1
    assert field.forwarded()["q2 a"] == 2


def test_what_is_found_broken_at_the_end_is_scored_in_the_same_command(
    make_field: Callable[..., Field],  # noqa: F811
) -> None:
    """A score file that lost its end, under a valid receipt: a listing takes it for done, the check
    at the end does not."""
    texts = {f"q{n}": {"a": "ok"} for n in range(3)}
    field = listed_task(make_field("broken"), "broken", texts, shard_pairs=1)
    assert field.finish("inline")[0] == 0
    before, bytes_before = field.forwarded(), field.score_bytes()
    (scores,) = field.store.glob("runs/*/*/*/scores")
    file = scores / field.receipts()["00001"]["file"]
    file.write_bytes(file.read_bytes()[:-9])
    code, said = field.finish("inline")
    assert code == 0, said
    assert "receipts or scores of shards 1 are damaged" in said
    assert field.forwarded() - before == {"q1 a": 1}
    assert field.score_bytes() == bytes_before

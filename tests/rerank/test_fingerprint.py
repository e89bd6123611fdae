"""Identity: one form for one value, and an error for what has none. Oracle: sha256 written out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rerank.fingerprint import canonical_json, fingerprint, sha256_rows


@dataclass(frozen=True)
class Recipe:
    depth: int
    names: tuple[str, ...]
    host: str = field(default="here", compare=False)


def test_a_fingerprint_is_the_sha256_of_the_canonical_json() -> None:
    """Sorted keys, no blanks, UTF-8 kept."""
    text = '{"a":[1,2.5,null,true],"b":"한"}'
    assert canonical_json({"b": "한", "a": [1, 2.5, None, True]}) == text
    assert (
        fingerprint({"b": "한", "a": (1, 2.5, None, True)})
        == (hashlib.sha256(text.encode()).hexdigest()[:16])
    )


def test_circumstances_of_a_dataclass_do_not_enter() -> None:
    """A field with compare=False says where, not what."""
    assert fingerprint(Recipe(1, ("a",), host="x")) == fingerprint(Recipe(1, ("a",), host="y"))
    assert fingerprint(Recipe(1, ("a",))) != fingerprint(Recipe(2, ("a",)))


@pytest.mark.parametrize("value", [Path("x"), {1: "a"}, {"a": {1}}, float("nan"), b"x", object()])
def test_a_value_without_a_stable_form_raises(value: object) -> None:
    """str(value) would fork or merge identities without a word."""
    with pytest.raises(TypeError):
        fingerprint(value)


def test_rows_cannot_be_confused_with_each_other() -> None:
    """Lengths are written, so moving a character between fields changes the digest."""
    forms = [[("ab", "c")], [("a", "bc")], [("ab",), ("c",)][:1], [("ab", None)], [("ab", "null")]]
    assert len({sha256_rows(rows) for rows in forms}) == len(forms)

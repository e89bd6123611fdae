"""Which queries are in which slice. Oracle: a collection of four queries written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rerank.errors import ConfigError
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.slices import COMPUTED_SLICES, check_slice_names, parse_slice
from tests.conftest import write_jsonl
from tests.standins.systems import scored_rows

GOLD = ("a", "x", 1)
# query -> text, attributes, candidates in stage-1 order: (id, text, grade or None: unjudged)
QUERIES: dict[str, tuple[str, dict[str, str], list[tuple[str, str, int | None]]]] = {
    "q1": ("짧다", {"language": "ko"}, [GOLD, ("b", "y", 0)]),
    "q2": ("x" * 30, {"language": "en"}, [("b", "y", 0), ("c", "y" * 251, 2), ("d", "z" * 750, 1)]),
    "q3": ("x" * 81, {"language": "en"}, [*[(f"n{i}", "y", None) for i in range(10)], GOLD]),
    "q4": ("x" * 20, {"language": "ko"}, [("b", "y", 0)]),
}  # fmt: skip
ABSENT = {"q2": ["u", "v", "w"], "q4": ["u"]}  # relevant documents that no list holds


@pytest.fixture
def system(tmp_path: Path) -> SystemEvaluation:
    """Scores fall with the rank; only in q2 two candidates have the same."""
    folder = tmp_path / "t"
    write_jsonl(
        folder / "candidates.jsonl",
        [
            {
                "query_id": query_id,
                "query": text,
                "attributes": attributes,
                "candidates": [
                    {"document_id": doc_id, "text": body}
                    | ({} if grade is None else {"relevance_grade": grade})
                    for doc_id, body, grade in candidates
                ],
            }
            for query_id, (text, attributes, candidates) in QUERIES.items()
        ],
    )
    lines = [f"{query} 0 {doc} 1\n" for query, docs in ABSENT.items() for doc in docs]
    (folder / "qrels").write_text("".join(lines))
    scores = {query: [-float(i) for i in range(len(row[2]))] for query, row in QUERIES.items()}
    scores["q2"] = [0.5, 0.5, 0.1]
    return scored_rows(tmp_path, folder, "t", "m", scores)


def members(system: SystemEvaluation, *attributes: str) -> dict[str, str]:
    """Value -> the numbers of its queries."""
    return {
        value: "".join(
            query[1:] for query, inside in zip(system.query_ids, found, strict=True) if inside
        )
        for (_, value), found in system.slices(attributes).items()
    }


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("language", {"en": "23", "ko": "14"}),
        ("query_length", {"0-20": "14", "21-40": "2", "81+": "3"}),
        ("gold_rank", {"none": "4", "1": "1", "2-3": "2", "11+": "3"}),
        ("relevant", {"1": "134", "5+": "2"}),
        ("document_length", {"none": "4", "0-250": "13", "251-1000": "2"}),
        ("tied", {"no": "134", "yes": "2"}),
        ("truncated", {"no": "1234"}),
        ("language*relevant", {"en*1": "3", "en*5+": "2", "ko*1": "14"}),
        ("gold_rank*tied", {"none*no": "4", "1*no": "1", "2-3*yes": "2", "11+*no": "3"}),
    ],
)
def test_members_of_every_kind(
    system: SystemEvaluation, attribute: str, expected: dict[str, str]
) -> None:
    """Buckets stand in their order, and only those that have queries."""
    found = members(system, attribute)
    assert found == expected
    assert list(found) == list(expected)


def test_what_a_system_makes_is_its_own(system: SystemEvaluation) -> None:
    """Conformance 49: a mean over cut texts stands beside one over whole texts."""
    cut = replace(system, truncated_queries=frozenset({"q3"}))
    assert members(cut, "truncated") == {"no": "124", "yes": "3"}


def test_injected_documents_have_no_place_in_stage_1(system: SystemEvaluation) -> None:
    """The rank that injection gave the gold of q1 says nothing of what stage 1 found."""
    first = system.view.candidate_queries == "q1"
    view = replace(system.view, injected=first & (system.view.candidate_docs == "a"))
    assert members(replace(system, view=view), "gold_rank")["none"] == "14"


def test_an_attribute_may_not_have_a_computed_name(system: SystemEvaluation) -> None:
    """Its values would mix with the buckets."""
    view = replace(system.view)
    view.__dict__["stated"] = [("q1", "relevant", "very")]
    with pytest.raises(ConfigError, match="query 'q1' has an attribute 'relevant'.*rename"):
        replace(system, view=view).slices(["relevant"])


def test_crossings_are_told_apart(system: SystemEvaluation) -> None:
    """Values with the sign of the crossing in them could meet under one name."""
    view = replace(system.view)
    stated = [("q1", "a", "x*y"), ("q1", "b", "z"), ("q2", "a", "x"), ("q2", "b", "y*z")]
    view.__dict__["stated"] = stated
    with pytest.raises(ConfigError, match=r"would both be called 'x\*y\*z'"):
        replace(system, view=view).slices(["a*b"])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a*b*c"], "crossing of two"),
        (["a*"], "crossing of two"),
        (["a*a"], "two different ones"),
        (["a", "b", "a"], "stands there twice"),
    ],
)
def test_names_that_mean_nothing(names: list[str], words: str) -> None:
    """A crossing has two parts."""
    with pytest.raises(ConfigError, match=words):
        check_slice_names(names)
    check_slice_names(["language", "intent", "language*intent", "gold_rank*tied"])


def test_a_slice_is_written_attribute_equals_value() -> None:
    """The first `=` parts them."""
    assert parse_slice("language*intent=ko*exact_id") == ("language*intent", "ko*exact_id")
    assert parse_slice("a=b=c") == ("a", "b=c")
    with pytest.raises(ConfigError, match="must be written attribute=value"):
        parse_slice("language")


@pytest.mark.parametrize("name", COMPUTED_SLICES)
def test_buckets_part_all_numbers(name: str) -> None:
    """Every number from the lowest on is in exactly one bucket; the edges are where they say."""
    row = COMPUTED_SLICES[name]
    lows = [low for _, low in row.buckets]
    assert lows == sorted(set(lows))
    numbers = np.arange(lows[0], lows[-1] + 3)
    found: dict[Any, np.ndarray] = row.members(name, numbers)
    assert np.all(sum(inside.astype(int) for inside in found.values()) == 1)
    for label, low in row.buckets:
        assert found[name, label][numbers == low].all()
        first, dash, last = label.partition("-")
        if dash:
            assert numbers[found[name, label]].tolist() == list(range(int(first), int(last) + 1))

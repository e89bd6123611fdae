"""The report's numbers from scores written by hand. Oracle: the arithmetic in each test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rerank.errors import FrozenDataError
from rerank.ledger import Session
from rerank.records import ModelSpec
from rerank.store import json_bytes
from rerank.suite.comparison import check_comparable
from rerank.suite.findings import find
from rerank.suite.suites import GateRule, SuiteSpec
from rerank.suite.summary import document
from tests.conftest import write_jsonl
from tests.standins.systems import FIRST, LAST, SUITE, scored_system, task_folder


@pytest.fixture
def report(tmp_path: Path) -> dict[str, Any]:
    """Of three queries in task one the new model wins one and loses one; in two it wins both."""
    one, two = task_folder(tmp_path / "one", 3), task_folder(tmp_path / "two", 2)
    systems = [
        scored_system(tmp_path, one, "one", "base", [0.0, 0.9, 0.9]),
        scored_system(tmp_path, one, "one", "new", [0.9, 0.0, 0.9]),
        scored_system(tmp_path, two, "two", "base", [0.0, 0.0]),
        scored_system(tmp_path, two, "two", "new", [0.9, 0.9]),
    ]
    rules = (
        GateRule(task="one", max_drop=0.01),
        GateRule(task="one", slice="language=en", max_drop=0.1, critical=True),
        GateRule(task="two", slice="language=ko", min_n=2),
    )
    suite = SuiteSpec(**{**vars(SUITE), "gate": rules})
    models = [ModelSpec("base", "by hand"), ModelSpec("new", "by hand")]
    found = document(find(suite, systems), models, [("python", "3")])
    return json.loads(json_bytes(found))


def row(report: dict[str, Any], part: str, **wanted: Any) -> dict[str, Any]:
    (found,) = [r for r in report[part] if all(r[key] == value for key, value in wanted.items())]
    return found


def test_means_weights_and_macro(report: dict[str, Any]) -> None:
    """Unweighted and traffic-weighted means of a task; the macro mean counts tasks, not queries."""
    base = row(report, "results", task="one", system="base", measure="nDCG@10")
    assert base["mean"] == pytest.approx((LAST + FIRST + FIRST) / 3)
    assert base["weighted_mean"] == pytest.approx((1 * LAST + 2 * FIRST + 3 * FIRST) / 6)
    assert base["n"] == 3
    macro = row(report, "results", task="macro", system="base", measure="nDCG@10")
    assert macro["mean"] == pytest.approx(((LAST + FIRST + FIRST) / 3 + LAST) / 2)
    assert macro["n"] == 5


def test_oracle_and_headroom_are_of_the_candidates(report: dict[str, Any]) -> None:
    """The best order still misses the document that no list holds."""
    room = row(report, "headroom", task="one", system="base")
    assert room["oracle"] == pytest.approx(FIRST)
    assert room["headroom"] == pytest.approx((FIRST - LAST) / 3)
    task = row(report, "tasks", name="one")
    assert task["candidate_recall"] == {"mean": pytest.approx(0.5), "n": 3}
    recovered = row(report, "headroom", task="two", system="new")["recovered"]
    assert recovered == pytest.approx(1.0)


def test_deltas_are_paired_and_slices_are_parts_of_them(report: dict[str, Any]) -> None:
    """One up, one tied, one down; the worst query is named with its text."""
    delta = row(report, "comparisons", task="one", measure="nDCG@10")
    assert [delta[key] for key in ("improved", "tied", "regressed", "n")] == [1, 1, 1, 3]
    assert delta["delta"]["mean"] == pytest.approx(0.0)
    assert delta["weighted_delta"] == pytest.approx((1 - 2) * (FIRST - LAST) / 6)
    assert [q["query"] for q in delta["worst"]] == ["query 1"]
    means = {(s["attribute"], s["value"]): (s["mean"], s["n"]) for s in delta["slices"]}
    assert means == {
        ("language", "ko"): (pytest.approx(FIRST - LAST), 1),
        ("language", "en"): (pytest.approx((LAST - FIRST) / 2), 2),
        ("failure", "outdated"): (pytest.approx(0.0), 3),
    }
    assert all(s["small"] for s in delta["slices"])
    macro = row(report, "macro_comparisons", measure="nDCG@10")
    assert macro["mean"] == pytest.approx((0 + (FIRST - LAST)) / 2)


def test_equal_deltas_are_never_shown_as_certain(report: dict[str, Any]) -> None:
    """Both queries of task two gain the same: the interval is marked as degenerate."""
    interval = row(report, "comparisons", task="two", measure="nDCG@10")["interval"]
    assert interval["degenerate"] is True


def test_gate_verdicts_follow_their_rules(report: dict[str, Any]) -> None:
    """Within, beyond, and too few queries to say."""
    verdicts = [(rule["slice"], rule["verdict"], rule["n"]) for rule in report["gate"]["rules"]]
    assert verdicts == [
        ("", "pass", 3),
        ("language=en", "fail", 2),
        ("language=ko", "too few queries", 1),
    ]
    assert report["gate"]["passed"] is False


def test_a_pair_without_a_score_ranks_last_and_leaves_the_deltas(tmp_path: Path) -> None:
    """Conformance 45: counted beside the mean, and deltas on the common valid queries."""
    folder = task_folder(tmp_path / "one", 3)
    base = scored_system(tmp_path, folder, "one", "base", [0.9, 0.0, 0.9])
    new = scored_system(tmp_path, folder, "one", "new", [None, 0.9, 0.9])
    found = json.loads(json_bytes(document(find(SUITE, [base, new]), [], [])))
    mean = row(found, "results", task="one", system="new", measure="nDCG@10")
    assert mean["mean"] == pytest.approx((LAST + FIRST + FIRST) / 3)
    assert (mean["failed_pairs"], mean["failed_queries"]) == (1, 1)
    delta = row(found, "comparisons", task="one", measure="nDCG@10")
    assert (delta["n"], delta["left_out"]) == (2, 1)
    assert delta["delta"]["mean"] == pytest.approx((FIRST - LAST) / 2)
    assert any("have no score" in warning for warning in found["warnings"])


def test_truncated_is_a_slice_of_the_system_that_cut(tmp_path: Path) -> None:
    """Conformance 49: a mean over cut texts stands beside one over whole texts."""
    new = scored_system(tmp_path, task_folder(tmp_path / "one", 3), "one", "new", [0.9] * 3)
    assert list(new.slices(["truncated"])) == [("truncated", "no")]
    cut = replace(new, truncated_queries=frozenset({"q1"}))
    found = {name[1]: inside.tolist() for name, inside in cut.slices(["truncated"]).items()}
    assert found == {"yes": [False, True, False], "no": [True, False, True]}


def test_runs_over_other_judgments_are_refused(tmp_path: Path) -> None:
    """The digest that differs is named."""
    folder = task_folder(tmp_path / "one", 3)
    first = scored_system(tmp_path, folder, "one", "base", [0.9, 0.0, 0.9])
    (folder / "qrels").write_text("q0 0 absent 2\n")
    second = scored_system(tmp_path, folder, "one", "new", [0.9, 0.0, 0.9])
    with pytest.raises(FrozenDataError, match="differ in judgments, recipe"):
        check_comparable(first.run, second.run)


def test_sessions_are_told_apart() -> None:
    """Two drivers never share an id."""
    assert Session.new("ray").id != Session.new("ray").id


def test_a_model_that_scored_nothing_is_worth_nothing_and_fails_the_gate(tmp_path: Path) -> None:
    """Its order would be the tie rule's: 0 and FAILED, whatever the rule allows."""
    folder = task_folder(tmp_path / "one", 3)
    first = scored_system(tmp_path, folder, "one", "base", [0.9, 0.0, 0.9])
    nothing = scored_system(tmp_path, folder, "one", "new", [None] * 3, bad=None)
    suite = SuiteSpec(**{**vars(SUITE), "gate": (GateRule(max_drop=1.0),)})
    found = json.loads(json_bytes(document(find(suite, [first, nothing]), [], [])))
    assert row(found, "results", task="one", system="new", measure="nDCG@10")["mean"] == 0.0
    assert found["gate"]["passed"] is False
    assert "nothing to judge by" in found["gate"]["rules"][0]["sentence"]
    # stage 1 did find the relevant documents: that a model failed on them makes none unreachable
    assert row(found, "tasks", name="one")["unreachable"] == []


def test_a_task_without_any_defined_value_has_nulls_not_nan(tmp_path: Path) -> None:
    """no_relevant: nan where every grade is 0: strict JSON with null, no traceback."""
    folder = tmp_path / "zero"
    task_folder(folder, 2)
    (folder / "qrels").write_text("q0 0 absent 0\nq1 0 absent 0\n")
    lines_ = [json.loads(line) for line in (folder / "candidates.jsonl").open()]
    for line in lines_:
        line["candidates"][1]["relevance_grade"] = 0
    write_jsonl(folder / "candidates.jsonl", lines_)
    suite = SuiteSpec(**{**vars(SUITE), "no_relevant": "nan"})
    systems = [
        scored_system(tmp_path, folder, "zero", name, [0.9, 0.9], suite=suite)
        for name in ("base", "new")
    ]
    found = json.loads(json_bytes(document(find(suite, systems), [], [])))
    assert row(found, "headroom", task="zero", system="new")["value"] is None
    result = row(found, "results", task="zero", system="new", measure="nDCG@10")
    assert [result[key] for key in ("mean", "interval", "ranks", "beaten")] == [None] * 4


def test_what_qualifies_a_delta_stands_in_the_document(report: dict[str, Any]) -> None:
    """Two of two queries improve: p = 2/4; Holm over the 4 tests of both tasks gives 1."""
    delta = row(report, "comparisons", task="two", measure="nDCG@10")
    assert (delta["p_value"], delta["corrected_p"]) == (0.5, 1.0)
    assert delta["detectable"] is None  # equal deltas: no spread is known
    assert report["suite"]["tests"] == 4  # two tasks x two measures; every slice is small
    assert all(s["p_value"] is s["corrected_p"] is None for s in delta["slices"])
    delta = row(report, "comparisons", task="one", measure="nDCG@10")
    assert delta["effect_size"] == pytest.approx(0.0)
    assert delta["p_value"] == 1.0  # one up, one down: every sign flip is as far from 0


def test_the_leaderboard_has_ranks_and_how_often_the_best_wins(report: dict[str, Any]) -> None:
    """In task two the new model wins in every resample, over both tasks in those of task two."""
    ranks = {
        (r["task"], r["system"]): (r["ranks"], r["beaten"])
        for r in report["results"]
        if r["measure"] == "nDCG@10"
    }
    assert ranks["two", "new"] == ([1, 1], None)
    assert ranks["two", "base"] == ([2, 2], 1.0)
    assert ranks["macro", "new"][1] is None
    assert 0.5 < ranks["macro", "base"][1] <= 1.0
    others = [r["ranks"] for r in report["results"] if r["measure"] != "nDCG@10"]
    assert others == [None] * 6


def test_a_slice_that_nobody_has_is_told(tmp_path: Path) -> None:
    """A slip of the pen in `slices` would otherwise say nothing at all."""
    folder = task_folder(tmp_path / "one", 3)
    systems = [scored_system(tmp_path, folder, "one", m, [0.9] * 3) for m in ("base", "new")]
    suite = replace(SUITE, slices=("language", "langauge"))
    found = document(find(suite, systems), [], [])
    assert (
        "no query and no judgment has the attribute 'langauge', which slices names"
        in (found["warnings"])
    )

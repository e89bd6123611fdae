"""The release gate: what passes, what fails, and the sentence for it. Oracle: arithmetic by hand.

Query n gains STEP where the challenger moves its relevant document from rank 2 to rank 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rerank.store import json_bytes
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.findings import find, verdict_record
from rerank.suite.gating import Verdict, judge
from rerank.suite.suites import GateRule, SuiteSpec
from tests.standins.systems import FIRST, LAST, SUITE, scored_system, task_folder

STEP = FIRST - LAST
Systems = tuple[SystemEvaluation, SystemEvaluation]


@pytest.fixture
def systems(tmp_path: Path) -> Callable[..., Systems]:
    """Baseline and challenger whose per-query deltas are `signs` times STEP."""

    def make(signs: list[int], **how: Any) -> Systems:
        folder = task_folder(tmp_path / "t", len(signs))
        before = [0.9 if sign < 0 else 0.0 for sign in signs]
        after: list[float | None] = [0.9 if sign > 0 else 0.0 for sign in signs]
        base = scored_system(tmp_path, folder, "t", "base", before, **how)
        return base, scored_system(tmp_path, folder, "t", "new", after, **how)

    return make


def judged(pair: Systems, *rules: GateRule, **keys: Any) -> list[Verdict]:
    suite: SuiteSpec = replace(SUITE, gate=rules, **keys)
    return find(suite, list(pair)).verdicts


def test_superiority_needs_a_corrected_p_below_alpha(systems: Callable[..., Systems]) -> None:
    """Eight gains of eight: p = 2/256, times 4 tests (two measures, two slices that are large)."""
    (verdict,) = judged(systems([1] * 8), GateRule(superior=True))
    assert verdict.verdict == "pass"
    assert verdict.observed == pytest.approx(4 * 2 / 256)
    assert verdict.sentence == (
        f"nDCG@10 of new on t: mean delta {STEP:+.4f}, corrected p = 0.031: superior at alpha 0.05 "
        "(n=8)"
    )
    (verdict,) = judged(systems([1] * 8), GateRule(superior=True), alpha=0.01)
    assert verdict.verdict == "fail"


def test_superiority_is_not_shown_by_a_drop_or_by_three_queries(
    systems: Callable[..., Systems],
) -> None:
    """A significant loss is no superiority; a gain that could be chance is none either."""
    (verdict,) = judged(systems([-1] * 8), GateRule(superior=True))
    assert verdict.verdict == "fail"
    assert "not shown to be superior" in verdict.sentence
    (verdict,) = judged(systems([1, 1, 1]), GateRule(superior=True))
    assert (verdict.verdict, verdict.observed) == ("fail", pytest.approx(2 * 2 / 8))


def test_non_inferiority_judges_the_lower_end(systems: Callable[..., Systems]) -> None:
    """Half up, half down: mean 0 is within, the interval's lower end is beyond 0.01."""
    pair = systems([1, -1, 1, -1, 1, -1])
    mean, lower = judged(pair, GateRule(max_drop=0.01), GateRule(max_drop=0.01, bound="lower"))
    assert (mean.verdict, lower.verdict) == ("pass", "fail")
    assert lower.observed is not None
    assert lower.observed < -0.01
    assert "lower end of the delta's interval" in lower.sentence
    (wide,) = judged(pair, GateRule(max_drop=1.0, bound="lower"))
    assert wide.verdict == "pass"


@pytest.mark.parametrize(
    ("rule", "verdict", "needed"),
    [
        (GateRule(slice="language=en"), "too few queries", 5),  # 4 queries, min_slice_n 5
        (GateRule(slice="language=en", critical=True), "fail", None),  # gates all the same
        (GateRule(slice="language=en", critical=True, min_n=9), "fail", 9),
        (GateRule(slice="language=fr"), "fail", 5),  # nobody is in it: the rule is wrong
    ],
)
def test_small_slices_gate_only_if_critical(
    systems: Callable[..., Systems], rule: GateRule, verdict: str, needed: int | None
) -> None:
    """Four English queries regress; below min_slice_n that is shown, and stops nothing."""
    (found,) = judged(systems([1, -1, -1, -1, -1]), rule)
    assert found.verdict == verdict
    assert (f"the rule needs {needed}" in found.sentence) == (needed is not None)


def test_failed_share_of_conformance_45(tmp_path: Path) -> None:
    """One of four queries has no score; 0.125 of the pairs (both are counted) is beyond 0.1."""
    folder = task_folder(tmp_path / "t", 4)
    base = scored_system(tmp_path, folder, "t", "base", [0.9] * 4)
    new = scored_system(tmp_path, folder, "t", "new", [0.9, 0.9, None, 0.0])
    drop, failed = judged((base, new), GateRule(max_drop=1.0, max_failed_share=0.1))
    assert (drop.verdict, drop.n) == ("pass", 3)  # deltas on the common valid queries only
    assert (failed.verdict, failed.observed) == ("fail", pytest.approx(1 / 8))
    assert failed.rule == "max_failed_share"
    assert "1 of 8 pairs have no score, a share of 0.1250 is beyond 0.1" in failed.sentence


def test_unjudged_share_is_the_challengers(systems: Callable[..., Systems]) -> None:
    """Both candidates are judged: 0 unjudged of 10, within any limit."""
    (verdict,) = judged(systems([1, 1]), GateRule(max_drop=None, max_unjudged_share=0.0))
    assert (verdict.verdict, verdict.observed, verdict.n) == ("pass", 0.0, 2)
    assert verdict.sentence == ("unjudged@10 of new on t: a mean share of 0.0000 (n=2) is within 0")


TIMES = {
    "worker": {},
    "deaths": 0,
    "started": 100.0,
    "finished": 103.6,
    "report": {"seconds_encode": 0.5, "seconds_forward": 1.5, "counts": {}},
}


def limits(**keys: float) -> GateRule:
    return GateRule(max_drop=None, **keys)  # type: ignore[arg-type]


def test_what_nobody_measured_fails_and_says_how_to_measure(
    systems: Callable[..., Systems],
) -> None:
    """Receipts without times; then a shard of several queries, whose times are no latency."""
    rule = limits(max_p95_latency=10.0, max_cost=1e9, price_per_hour=1.0)
    latency, cost = judged(systems([1, 1, 1]), rule)
    assert {latency.verdict, cost.verdict} == {"fail"}
    assert latency.observed is cost.observed is None
    assert "p95 latency of new on t was not measured: the receipt of shard 0 has no times" in (
        latency.sentence
    )


def test_latency_is_measured_where_every_shard_is_one_query(
    systems: Callable[..., Systems],
) -> None:
    """0.5 s of encoding and 1.5 s of forwarding for every query: p95 is 2 s."""
    rules = limits(max_p95_latency=2.0), limits(max_p95_latency=1.9)
    within, beyond = judged(systems([1, 1, 1], circumstances=TIMES, shard_pairs=1), *rules)
    assert (within.verdict, within.observed, within.n) == ("pass", 2.0, 3)
    assert beyond.verdict == "fail"
    assert beyond.sentence == "p95 latency of new on t: 2 seconds a query (n=3) is beyond 1.9"


def test_shared_batches_have_no_latency_but_a_cost(systems: Callable[..., Systems]) -> None:
    """3.6 s for 3 queries at 10 an hour: 1000 / 3 * 3.6 / 3600 * 10 = 3.33 for 1,000."""
    rule = limits(max_p95_latency=10.0, max_cost=3.4, price_per_hour=10.0)
    latency, cost = judged(systems([1, 1, 1], circumstances=TIMES), rule)
    assert latency.verdict == "fail"
    assert "freeze the task with `shard_pairs: 1`" in latency.sentence
    assert (cost.verdict, cost.observed) == ("pass", pytest.approx(10 / 3))
    assert "for 1,000 queries at 10 an hour" in cost.sentence


@pytest.mark.parametrize(
    ("circumstances", "words"),
    [
        ({**TIMES, "deaths": 1}, "was taken up again after its process had died"),
        (
            {**TIMES, "report": {**TIMES["report"], "counts": {"requests": 3}}},  # type: ignore[dict-item]
            "its server sends its own bill",
        ),
    ],
)
def test_times_of_a_part_are_no_measurement(
    systems: Callable[..., Systems], circumstances: dict, words: str
) -> None:
    """A resumed shard tells the time of its rest; a served model's cost is not its worker's."""
    rule = limits(max_cost=1e9, price_per_hour=1.0)
    (cost,) = judged(systems([1, 1], circumstances=circumstances), rule)
    assert cost.verdict == "fail"
    assert words in cost.sentence


def test_the_verdict_record_names_what_was_judged(systems: Callable[..., Systems]) -> None:
    """Strict JSON with counts, sentences, and the fingerprints of task and runs."""
    pair = systems([1, 1, 1])
    rules = (GateRule(), GateRule(slice="language=ko"), GateRule(superior=True))
    found = find(replace(SUITE, gate=rules), list(pair))
    record = json.loads(json_bytes(verdict_record(found)))
    assert record["passed"] is False
    assert record["counts"] == {
        "pass": 1,
        "fail": 1,
        "too few queries": 1,
        "about no system here": 0,
    }
    assert record["tasks"] == {"t": pair[0].run.task.fingerprint}
    assert record["runs"] == {
        "t": {"base": pair[0].run.fingerprint, "new": pair[1].run.fingerprint}
    }
    assert [rule["rule"] for rule in record["rules"]] == ["max_drop", "max_drop", "superior"]
    assert record["statistics"]["tests"] == 2
    assert record["rules"][0]["sentence"] == found.verdicts[0].sentence


def test_a_test_that_points_against_the_mean_proves_nothing(
    systems: Callable[..., Systems],
) -> None:
    """A sign test may find the challenger worse on most queries while the mean is above 0."""
    suite = replace(SUITE, gate=(GateRule(superior=True),), test="sign")
    found = find(suite, list(systems([1] * 8)))
    (proven,) = judge(suite.gate, found.comparisons[:1], suite)
    against = [
        replace(item, whole=replace(item.whole, agrees=False)) for item in found.comparisons[:1]
    ]
    (verdict,) = judge(suite.gate, against, suite)
    assert (proven.verdict, verdict.verdict) == ("pass", "fail")
    assert "the sign test points the other way than the mean" in verdict.sentence


def test_a_rule_about_no_system_is_told_and_fails_if_critical(
    systems: Callable[..., Systems],
) -> None:
    """It never passes in silence; alone it leaves the gate unjudged."""
    pair = systems([1] * 8)
    absent = GateRule(challengers=("other",), max_drop=0.1)
    (verdict,) = judged(pair, absent)
    assert verdict.verdict == "about no system here"
    assert "gate rule 1 (other) is about no system of this run" in verdict.sentence
    assert find(replace(SUITE, gate=(absent,)), list(pair)).passed is None
    assert find(replace(SUITE, gate=(absent, GateRule(max_drop=0.1))), list(pair)).passed is True
    critical = replace(absent, critical=True)
    assert find(replace(SUITE, gate=(critical, GateRule(max_drop=1.0))), list(pair)).passed is False


def test_equal_deltas_on_few_queries_are_no_bound(systems: Callable[..., Systems]) -> None:
    """Two queries without a change: width 0 is no evidence; 30 queries are taken for it."""
    (few,) = judged(systems([0, 0]), GateRule(bound="lower", max_drop=0.0))
    assert few.verdict == "fail"
    assert "proves nothing yet" in few.sentence
    (many,) = judged(systems([0] * 30), GateRule(bound="lower", max_drop=0.0))
    assert many.verdict == "pass"


def test_failed_queries_do_not_lower_the_unjudged_share(
    systems: Callable[..., Systems], tmp_path: Path
) -> None:
    """unjudged@10 over the queries whose pairs have scores: here none has an unjudged document."""
    folder = task_folder(tmp_path / "f", 4)
    base = scored_system(tmp_path, folder, "f", "base", [0.0] * 4)
    new = scored_system(tmp_path, folder, "f", "new", [0.9, 0.9, None, None])
    comparison = find(SUITE, [base, new]).comparisons[0]
    assert comparison.whole.summary.n == 2
    assert comparison.unjudged_bounds is None  # both show the same on the queries compared

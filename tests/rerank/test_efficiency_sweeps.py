"""Sweeps and the frontier. Oracles: orders written by hand, the evaluation of a whole run, and a
frontier whose dominated and indistinct configurations were planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rerank.efficiency.costs import Speed, costs_of
from rerank.efficiency.frontier import DOMINATED, FRONTIER, INDISTINCT, Option, verdicts
from rerank.efficiency.sweeps import (
    Configuration,
    at_depth,
    cascade,
    first_stage,
    gap_levels,
    gaps,
    lists_of,
    ordered,
)
from rerank.suite.suites import SuiteSpec

NAN = float("nan")
SUITE = SuiteSpec(name="s", tasks=("t",), models=("a",), samples=2_000)

# two queries: four candidates, and one
LISTS = lists_of(["q1", "q1", "q1", "q1", "q2"], np.array([1, 2, 3, 4, 1]))
SMALL = np.array([0.1, 0.9, 0.8, 0.95, 0.5])
LARGE = np.array([9.0, 1.0, 7.0, 2.0, 3.0])


def ranking(scores: np.ndarray) -> list[int]:
    """Stage-1 ranks of q1's candidates, best first."""
    return [int(at) + 1 for at in np.argsort(-scores[:4], kind="stable")]


def test_what_is_not_reranked_stays_below_in_stage_1_order() -> None:
    """Depth 2: the model turns ranks 1 and 2 around; 3 and 4 follow although it likes them more."""
    found = at_depth(LISTS, "m", SMALL, 2)
    assert ranking(found.scores) == [2, 1, 3, 4]
    assert {name: counts.tolist() for name, counts in found.pairs.items()} == {"m": [2, 1]}
    assert ranking(at_depth(LISTS, "m", SMALL, None).scores) == [4, 2, 3, 1]
    assert found.name == "m @2"


def test_equal_scores_stay_equal_and_a_missing_one_stays_missing() -> None:
    """So that a suite's rule for ties and for failed pairs decides, as in an evaluation."""
    found = at_depth(LISTS, "m", np.array([1.0, 1.0, 5.0, NAN, 0.0]), None).scores
    assert found[:3].tolist() == [-1.0, -1.0, 0.0]
    assert np.isnan(found[3])
    assert found[4] == 0.0  # another query begins anew


def test_a_cascade_asks_the_large_model_for_the_small_ones_best() -> None:
    """The small model's best two are 4 and 2; the large one likes 4 more. 3 and 1 follow by the
    small model, although the large one likes them most."""
    found = cascade(LISTS, ("s", SMALL), ("l", LARGE), top=2)
    assert ranking(found.scores) == [4, 2, 3, 1]
    assert ranking(cascade(LISTS, ("s", SMALL), ("l", LARGE), top=3).scores) == [3, 4, 2, 1]
    assert {name: counts.tolist() for name, counts in found.pairs.items()} == {
        "s": [4, 1],
        "l": [2, 1],
    }


def test_a_cascade_within_a_depth() -> None:
    """Of ranks 1 to 3 the small model's best two are 2 and 3, which the large one turns around."""
    found = cascade(LISTS, ("s", SMALL), ("l", LARGE), top=2, depth=3)
    assert ranking(found.scores) == [3, 2, 1, 4]
    assert found.pairs["s"].tolist() == [3, 1]


def test_a_gap_spares_queries_that_the_small_model_is_sure_of() -> None:
    """q1's best two are 0.05 apart, q2 has one candidate alone."""
    assert gaps(LISTS, SMALL).tolist() == [pytest.approx(0.05), float("inf")]
    wide = cascade(LISTS, ("s", SMALL), ("l", LARGE), top=3, gap=0.06)
    narrow = cascade(LISTS, ("s", SMALL), ("l", LARGE), top=3, gap=0.04)
    assert wide.pairs["l"].tolist() == [3, 0]
    assert narrow.pairs["l"].tolist() == [0, 0]
    assert ranking(wide.scores) == [3, 4, 2, 1]
    assert ranking(narrow.scores) == [4, 2, 3, 1]
    assert gap_levels(LISTS, SMALL, [0.5]) == [pytest.approx(0.05)]


def test_equal_small_scores_are_cut_by_stage_1_rank() -> None:
    """All are equal: the large model sees ranks 1 and 2."""
    found = cascade(LISTS, ("s", np.ones(5)), ("l", LARGE), top=2)
    assert found.scores[:4].tolist() == [0.0, -1.0, -2.0, -2.0]


def test_an_order_of_nothing() -> None:
    empty = lists_of([], np.empty(0, np.int64))
    assert len(ordered(empty, np.empty(0, np.int64), np.empty(0))) == 0
    assert first_stage(empty).scores.tolist() == []


def test_costs_are_sums_over_the_models_of_a_configuration() -> None:
    """q1: 4 pairs at 100/s and 2 at 10/s are 0.24 s, q2: 1 and 1 are 0.11 s; the large model holds
    two GPUs, the small one none and counts as one machine."""
    both = Configuration("c", np.empty(0), {"s": np.array([4, 1]), "l": np.array([2, 1])})
    speeds = {
        "s": Speed(100.0, "measured", "", 0.0, {}),
        "l": Speed(10.0, "measured", "", 2.0, {None: 0.5}),
    }
    found = costs_of(both, speeds, price=3.0)
    assert found["seconds"] == pytest.approx((0.24 + 0.11) / 2)
    assert found["p95"] == pytest.approx(0.11 + 0.95 * 0.13)
    assert found["gpu_hours"] == pytest.approx(1000 * 0.15 * 2 / 3600)
    assert found["price"] == pytest.approx(1000 * (0.025 + 0.15 * 2) / 3600 * 3)
    assert (found["pairs"], found["latency"]) == (4.0, None)
    alone = Configuration("l", np.empty(0), {"l": np.array([2, 1])})
    assert costs_of(alone, speeds, None)["latency"] == 0.5
    assert costs_of(alone, speeds, None)["price"] is None
    served = {**speeds, "l": replace(speeds["l"], served=True)}
    assert costs_of(both, served, price=3.0)["price"] is None  # its server sends its own bill
    nobody = costs_of(Configuration("first_stage", np.empty(0), {}), speeds, 3.0)
    assert (nobody["seconds"], nobody["price"], nobody["latency"]) == (0.0, 0.0, 0.0)


def planted() -> list[Option]:
    """200 queries. `good` is 0.2 above `cheap` on every query but for noise; `waste` costs as much
    as `good` and is as good as `cheap`; `luck` is above `good` by its noise alone."""
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.6, 200)
    noise = rng.normal(0, 0.1, 200)
    return [
        Option("waste", base + rng.normal(0, 0.01, 200) - 0.01, 4.0),
        Option("good", base + 0.2 + noise, 4.0),
        Option("luck", base + 0.201 + noise - noise.mean() + noise[::-1], 9.0),
        Option("cheap", base, 1.0),
        Option("free", base - 0.1 + rng.normal(0, 0.05, 200), 0.0),
    ]


def test_a_planted_dominated_configuration_is_marked_with_who_dominates_it() -> None:
    found = {verdict.option.name: verdict for verdict in verdicts(planted(), SUITE)}
    assert found["waste"].status == DOMINATED
    assert found["waste"].by == "good"  # the best of `good` and `cheap`, which both dominate it
    assert found["waste"].delta == pytest.approx(-0.21, abs=0.02)
    assert [found[name].status for name in ("free", "cheap", "good")] == [FRONTIER] * 3
    assert found["good"].by is None


def test_within_the_interval_of_a_cheaper_one_is_not_better() -> None:
    """`luck` has the highest mean, and nothing to show for it."""
    found = {verdict.option.name: verdict for verdict in verdicts(planted(), SUITE)}
    luck = found["luck"]
    assert luck.mean > found["good"].mean
    assert (luck.status, luck.by) == (INDISTINCT, "good")
    assert luck.delta_interval is not None
    assert luck.delta_interval.low < 0 < luck.delta_interval.high


def test_one_that_is_equal_on_every_query_is_never_better() -> None:
    """A difference without a spread is no interval above 0."""
    values = np.array([0.1, 0.5, 0.9])
    same, dear = verdicts([Option("a", values, 1.0), Option("b", values, 2.0)], SUITE)
    assert (same.status, dear.status, dear.by) == (FRONTIER, DOMINATED, "a")
    first, second = verdicts([Option("a", values, 1.0), Option("b", values, 1.0)], SUITE)
    assert {first.status, second.status} == {FRONTIER, INDISTINCT}


def test_queries_without_a_value_are_left_out_of_all() -> None:
    found = verdicts(
        [Option("a", np.array([NAN, 0.5, 0.7]), 1.0), Option("b", np.array([1.0, 0.4, 0.6]), 2.0)],
        SUITE,
    )
    assert [verdict.n for verdict in found] == [2, 2]
    assert (found[1].status, found[1].by) == (DOMINATED, "a")
    assert verdicts([], SUITE) == []

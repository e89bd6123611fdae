"""Deltas, tests and their correction, intervals and standings, from scores written by hand.

Oracles: counting sign flips by hand, statsmodels for the corrections, conformance 42 for what is a
test, scipy for t, Wilcoxon and binomial, and the normal quantiles 1.959964 and 0.841621.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import metrics
from rerank.errors import ConfigError
from rerank.reporting.selection import Compared, reading_of
from rerank.suite.comparison import Comparison, compare, correct, number_of_tests, with_p_values
from rerank.suite.evaluation import SystemEvaluation
from rerank.suite.findings import find
from rerank.suite.intervals import intervals_of, macro_interval, standings
from rerank.suite.results import macro_row
from rerank.suite.samples import Sample
from rerank.suite.significance import p_values, power_of
from rerank.suite.suites import SuiteSpec
from rerank.suite.summary_rows import comparison_warnings
from tests.conftest import write_jsonl
from tests.standins.systems import FIRST, LAST, SUITE, scored_rows, scored_system, task_folder

Z = 1.959964 + 0.841621  # two-sided 0.05, power 0.8
STEP = FIRST - LAST  # what a query gains when its relevant document moves from rank 2 to rank 1
UP, DOWN = ([0.0], [0.9]), ([0.9], [0.0])


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., tuple[SystemEvaluation, SystemEvaluation]]:
    """A baseline and a challenger whose per-query deltas are +1, 0 and -1 times STEP, as asked."""

    def make(signs: list[int], **facts: object) -> tuple[SystemEvaluation, SystemEvaluation]:
        folder = task_folder(tmp_path / "t", len(signs), **facts)
        before = [0.9 if sign < 0 else 0.0 for sign in signs]
        after = [0.9 if sign > 0 else 0.0 for sign in signs]
        base = scored_system(tmp_path, folder, "t", "base", before)
        return base, scored_system(tmp_path, folder, "t", "new", after)

    return make


def suite(**keys: object) -> SuiteSpec:
    return replace(SUITE, **keys)


def whole(pair: tuple[SystemEvaluation, SystemEvaluation], spec: SuiteSpec) -> Comparison:
    (found,) = with_p_values(compare(pair[0], [pair[1]], ["nDCG@10"], spec), spec)
    return found


def p_of(deltas: list[float], spec: SuiteSpec, clusters: list[str] | None = None) -> float:
    sample = Sample(np.array(deltas), np.ones(len(deltas), dtype=bool))
    labels = None if clusters is None else np.array(clusters, dtype=object)
    return p_values([sample], labels, spec, tests=1)[0]


def test_four_gains_have_two_of_sixteen_sign_flips(pair: Callable) -> None:
    """All four deltas positive: only all plus and all minus are as far from 0, p = 2/16."""
    found = whole(pair([1, 1, 1, 1]), suite())
    assert found.whole.p_value == pytest.approx(2 / 16)
    assert found.whole.summary.mean == pytest.approx(STEP)
    # three up, one down: |sum| >= 2 steps in 10 of 16 flips
    assert p_of([1, 1, 1, -1], suite()) == pytest.approx(10 / 16)


@pytest.mark.parametrize(
    ("test", "oracle"),
    [
        ("t", lambda d: stats.ttest_1samp(d, 0).pvalue),
        ("wilcoxon", lambda d: stats.wilcoxon(d, zero_method="wilcox").pvalue),
        ("sign", lambda d: stats.binomtest(int((d > 0).sum()), int((d != 0).sum())).pvalue),
    ],
)
def test_the_suites_test_is_the_one_that_is_named(test: str, oracle: Callable) -> None:
    """scipy on the same deltas."""
    deltas = np.array([0.3, -0.1, 0.25, 0.4, 0.05, 0.0, 0.35, -0.02])
    assert p_of(deltas.tolist(), suite(test=test)) == pytest.approx(oracle(deltas))


def test_clusters_are_flipped_and_drawn_whole() -> None:
    """Six queries of two documents are two observations: p = 2/4, not 2/64."""
    deltas, clusters = [0.1, 0.1, 0.1, 0.1, 0.2, 0.3], ["a", "a", "a", "a", "b", "b"]
    assert p_of(deltas, suite()) == pytest.approx(2 / 64)
    assert p_of(deltas, suite(), clusters) == pytest.approx(2 / 4)


def test_many_tests_get_as_many_flips_as_their_correction_needs() -> None:
    """1,000 tests at 0.05: p-values down to 0.05 / 1,000 and below must be possible."""
    assert metrics.flips_needed(10_000, 3, 0.05) == 10_000
    assert metrics.flips_needed(10_000, 1000, 0.05) == 200_000
    deltas = np.linspace(0.5, 1, 40)
    sample = Sample(deltas, np.ones(40, dtype=bool))
    (found,) = p_values([sample], None, suite(samples=10_000), tests=1000)
    assert found == pytest.approx(1 / 200_001)
    assert found * 1000 < 0.05


def test_clusters_come_from_a_query_attribute_and_widen_the_interval(pair: Callable) -> None:
    """Clusters of equal deltas: the interval of 2 clusters is that of their two means."""
    topics = [{"topic": "a"}] * 3 + [{"topic": "b"}] * 3
    both = pair([1, 1, 1, 0, 0, 0], attributes=topics)
    free, tied = whole(both, suite()), whole(both, suite(clusters="topic"))
    assert free.whole.interval is not None
    assert tied.whole.interval is not None
    assert (tied.whole.interval.low, tied.whole.interval.high) == pytest.approx((0.0, STEP))
    assert free.whole.interval.low > 0
    assert tied.whole.p_value == pytest.approx(1.0)  # one cluster moved: + and - are all there is


def test_a_query_without_a_cluster_is_named(pair: Callable) -> None:
    """It would belong nowhere."""
    both = pair([1, 1], attributes=[{"topic": "a"}, {}])
    with pytest.raises(ConfigError, match="query 'q1' has no attribute 'topic'"):
        whole(both, suite(clusters="topic"))


def test_bca_is_the_interval_that_was_asked_for(pair: Callable) -> None:
    """The kind is named, and it is the interval of metrics on the same deltas."""
    both = pair([1, 1, 1, 0, 0, -1, 1, 1])
    found = whole(both, suite(interval="bca"))
    expected = metrics.bootstrap_interval(
        found.deltas, samples=200, rng=np.random.default_rng(17), method="bca", deltas=True
    )
    assert found.whole.interval == expected
    assert expected is not None
    assert expected.kind == "bca"


@pytest.mark.parametrize("correction", ["holm", "bonferroni", "bh"])
def test_conformance_42_the_baseline_is_no_test(
    pair: Callable, data_folder: Path, correction: str
) -> None:
    """Three challengers are three tests, whatever the baseline; corrected as the case says."""
    case = data_folder.parent / "conformance" / "42-correction-leaves-out-baseline"
    if not case.is_dir():
        pytest.skip("no conformance cases beside the data folder")
    given = json.loads((case / "pvalues.json").read_text())["p"]
    expected = json.loads((case / "expected.json").read_text())
    template = whole(pair([1, 0]), suite())
    items = [replace(template, whole=replace(template.whole, p_value=p)) for p in given.values()]
    found = correct(items, suite(correction=correction))
    assert number_of_tests(found) == expected["m"] == 3
    corrected = dict(zip(given, (item.whole.corrected_p for item in found), strict=True))
    assert corrected == pytest.approx(expected[correction])


def test_the_correction_is_over_challengers_measures_and_slices(pair: Callable) -> None:
    """statsmodels' Holm on the p-values of the whole task and of every slice that is not small."""
    both = pair([1, 1, 1, 1, 1, -1, 0, 1])
    spec = suite(measures=("nDCG@10", "RR"), slices=("language", "failure"), min_slice_n=3)
    found = find(spec, list(both))
    parts = [
        d for item in found.comparisons for d in [item.whole, *(s.difference for s in item.slices)]
    ]
    tested = [part for part in parts if part.p_value is not None]
    # nDCG@10: whole, language=en (7), failure=outdated (8); RR: whole. language=ko (1) is small
    assert found.tests == len(tested) == 4
    assert len(parts) == 5
    _, expected, _, _ = multipletests([part.p_value for part in tested], method="holm")
    assert [part.corrected_p for part in tested] == pytest.approx(expected)
    (small,) = [part for part in parts if part.p_value is None]
    assert small.summary.n == 1
    assert small.corrected_p is None


def test_traffic_weighs_the_delta_and_its_interval(pair: Callable) -> None:
    """Weights 1, 2, 3 (by hand); metrics' bootstrap with the same weights."""
    found = whole(pair([1, 0, -1]), suite())
    assert found.whole.summary.mean == pytest.approx(0.0)
    assert found.weighted_delta == pytest.approx((1 - 3) * STEP / 6)
    expected = metrics.bootstrap_interval(
        found.deltas,
        samples=200,
        rng=np.random.default_rng(17),
        weights=np.array([1.0, 2, 3]),
        deltas=True,
    )
    assert found.weighted_interval == expected
    assert found.weighted_interval != found.whole.interval


def test_power_is_students_formula_and_counts_clusters() -> None:
    """(t + t) s / sqrt(n) with scipy's t, and the n for which it is the effect; with clusters s, n
    and the degrees of freedom are theirs."""

    def seen(spread: float, n: int) -> float:
        return float(stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) * spread / math.sqrt(n)

    deltas = np.array([0.3, -0.1, 0.2, 0.1])
    found = power_of(deltas, None, suite(effect=0.05))
    s = float(np.std(deltas, ddof=1))
    assert found is not None
    assert found.detectable == pytest.approx(seen(s, 4), rel=1e-9)
    assert seen(s, found.queries_needed) <= 0.05 < seen(s, found.queries_needed - 1)
    clusters = np.array(["a", "a", "b", "b"], dtype=object)
    grouped = power_of(deltas, clusters, suite(effect=0.05))
    s = float(np.std([0.1, 0.15], ddof=1))  # cluster means, as the clusters are of one size
    assert grouped is not None
    assert grouped.detectable == pytest.approx(seen(s, 2), rel=1e-9)
    needed = grouped.queries_needed // 2
    assert seen(s, needed) <= 0.05 < seen(s, needed - 1)
    assert power_of(np.array([0.1, 0.1]), None, suite()) is None
    assert power_of(np.array([0.5 - 0.4, 0.3 - 0.2, 0.1]), None, suite()) is None


def test_less_is_better_turns_the_reading() -> None:
    """A headroom that shrinks is an improvement."""
    interval = {"low": -0.2, "high": -0.1, "kind": "percentile", "degenerate": False}
    for measure, reading in (("nDCG@10", "worse"), ("headroom(nDCG@10)", "better")):
        entry = Compared(-0.15, interval, 0.01, 0.001, measure=measure)
        assert reading_of({"suite": {"alpha": 0.05}}, entry) == reading
    silent = Compared(-0.15, interval, 0.2, 0.125, measure="nDCG@10")
    assert reading_of({"suite": {"alpha": 0.05}}, silent) == "untested"
    opposed = Compared(-0.15, interval, 0.01, 0.001, agrees=False, measure="nDCG@10")
    assert reading_of({"suite": {"alpha": 0.05}}, opposed) == "contradicted"


def test_equal_queries_share_resamples_and_others_do_not_disturb() -> None:
    """Each interval is the one that metrics gives to its values alone."""
    rng = np.random.default_rng(3)
    values = rng.random((3, 20))
    inside = np.ones((3, 20), dtype=bool)
    inside[2, :7] = False
    found = intervals_of([Sample(v, i) for v, i in zip(values, inside, strict=True)], suite())
    alone = [
        metrics.bootstrap_interval(v[i], samples=200, rng=np.random.default_rng(17))
        for v, i in zip(values, inside, strict=True)
    ]
    assert found == alone


def test_macro_counts_tasks_not_queries() -> None:
    """The interval of the mean of two tasks lies around (0.2 + 0.8) / 2, not around 0.26."""
    rng = np.random.default_rng(1)
    many, few = 0.2 + 0.05 * rng.standard_normal(200), 0.8 + 0.05 * rng.standard_normal(20)
    found = macro_interval([many, few], suite(samples=2000))
    assert found is not None
    assert found.low < (many.mean() + few.mean()) / 2 < found.high
    assert found.high - found.low < 0.04


def test_macro_by_traffic_weighs_within_tasks() -> None:
    """Means (0 + 3) / 4 and (1 + 0) / 2 over two tasks; the interval of metrics on the same."""
    series = [np.array([0.0, 1.0]), np.array([1.0, 0.0, 0.5])]
    weights = [np.array([1.0, 3.0]), np.array([1.0, 1.0, 0.0])]
    found = macro_row([(v, w, None) for v, w in zip(series, weights, strict=True)], suite())
    assert (found["mean"], found["n"]) == (pytest.approx(0.5), 5)
    assert found["weighted_mean"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    expected = metrics.bootstrap_macro(
        series, samples=200, rng=np.random.default_rng(17), weights=weights
    )
    assert expected is not None
    assert found["weighted_interval"] == vars(expected)
    assert found["weighted_interval"] != found["interval"]


def test_standings_tell_a_clear_order_from_an_open_one() -> None:
    """One system far ahead (1-1), two that trade places (2-3), and who is beaten how often."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal((100, 3)) * [0.01, 0.2, 0.2]
    table = np.array([0.9, 0.5, 0.5]) + noise
    found = standings([table], suite(samples=1000))
    assert found is not None
    assert [(place.best, place.worst) for place in found] == [(1, 1), (2, 3), (2, 3)]
    assert found[0].beaten is None
    assert found[1].beaten == found[2].beaten == 1.0
    even = standings([table[:, 1:], 1 - table[:, 1:]], suite(samples=1000))
    assert even is not None
    assert [(place.best, place.worst) for place in even] == [(1, 2), (1, 2)]
    assert standings([table[:1]], suite()) is None


def test_the_bound_of_unjudged_documents_is_a_warning_where_the_sign_rests_on_it(
    tmp_path: Path,
) -> None:
    """q0: RR falls from 1 to 1/2, as an unjudged document comes first; q1: it rises by 1/6.

    The delta is (-1/2 + 1/6) / 2. Were that document relevant, q0 would have RR 1 in both systems,
    and the delta be (0 + 1/6) / 2: the sign rests on what nobody judged.
    """
    folder = tmp_path / "t"
    others = [f"n{number}" for number in range(10)]
    names = {"q0": ["good", *others, "unjudged"], "q1": ["good", *others, "bad"]}
    write_jsonl(
        folder / "candidates.jsonl",
        [
            {
                "query_id": query_id,
                "query": "?",
                "candidates": [
                    {"document_id": name, "text": name}
                    | ({} if name == "unjudged" else {"relevance_grade": int(name == "good")})
                    for name in listed
                ],
            }
            for query_id, listed in names.items()
        ],
    )
    (folder / "qrels").write_text("q0 0 good 1\nq1 0 good 1\n")
    falling = [-float(rank) for rank in range(12)]
    third = [-2.5, *falling[1:]]  # good behind n0 and n1
    spec = suite(measures=("RR", "Success@1"), primary="RR", slices=())
    base = scored_rows(tmp_path, folder, "t", "base", {"q0": falling, "q1": third}, suite=spec)
    scores = {"q0": [*falling[:-1], 1.0], "q1": [-1.5, *falling[1:]]}
    new = scored_rows(tmp_path, folder, "t", "new", scores, suite=spec)
    found, other = compare(base, [new], ["RR", "Success@1"], spec)
    assert found.whole.summary.mean == pytest.approx(-1 / 6)
    assert found.unjudged_bounds == pytest.approx((-1 / 6, 1 / 12))
    assert any("-0.1667 and +0.0833" in warning for warning in comparison_warnings(found))
    assert other.unjudged_bounds is None  # only the primary measure's are asked for
    (same,) = compare(base, [base], ["RR"], spec)
    assert same.unjudged_bounds is None  # both rank the same share of unjudged documents

"""The conventions of a suite in full sentences: what a reader must know to use its numbers."""

from __future__ import annotations

from typing import Any

import metrics
from rerank.suite.suites import SuiteSpec

TEST_NAMES = {
    "randomization": "paired randomisation (exact up to 16 changed queries, beyond that "
    "(hits + 1) / (flips + 1))",
    "t": "paired t",
    "wilcoxon": "Wilcoxon signed ranks",
    "sign": "sign",
}
CORRECTION_NAMES = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "bh": "the correction of Benjamini and Hochberg (false discovery rate)",
    "none": "no correction",
}
INTERVAL_NAMES = {"percentile": "percentile", "bca": "BCa", "expanded": "expanded percentile"}


def convention_record(suite: SuiteSpec, tests: int) -> dict[str, Any]:
    """Names and values as the project's files use them, and the same as statements.

    tests: how many the correction counts.
    """
    return {
        "idcg_convention": "judged",
        "tie": suite.tie,
        "gain": "linear",
        "queries": "qrels",
        "no_relevant": suite.no_relevant,
        "failed": "worst",
        "interval": suite.interval,
        "clusters": suite.clusters or None,
        "test": suite.test,
        "correction": suite.correction,
        "alpha": suite.alpha,
        "statements": [*_measuring(suite), *_statistics(suite, tests)],
    }


def _measuring(suite: SuiteSpec) -> list[str]:
    order = " (score descending, then document id descending)" if suite.tie == "trec" else ""
    return [
        "nDCG: linear gain, discount log2(rank + 1), ideal over all judged documents of the "
        "query whether retrieved or not (trec_eval); other gains and ideals have other names.",
        f"Ties: rule '{suite.tie}' feeds every measure alike{order}.",
        "Queries: every judged query counts; one without candidates or scores is worth 0.",
        f"A query without a relevant document: '{suite.no_relevant}'.",
        "Unjudged documents have no gain; grade 0 and unjudged are told apart in unjudged@10.",
        "A pair without a score ranks behind all pairs with one; its query leaves the deltas.",
    ]


def _statistics(suite: SuiteSpec, tests: int) -> list[str]:
    units = f"clusters of queries with the same {suite.clusters}" if suite.clusters else "queries"
    flips = (
        f", {metrics.flips_needed(suite.samples, tests, suite.alpha):,} flips"
        if suite.test == "randomization"
        else ""
    )
    return [
        f"Intervals: {suite.confidence * 100:.4g}% {INTERVAL_NAMES[suite.interval]} bootstrap over "
        f"{units}, {suite.samples:,} resamples, seed {suite.seed}, paired for deltas; for "
        "means over tasks percentile, resampled within tasks.",
        f"P-values: {TEST_NAMES[suite.test]} test of the paired deltas by {units}, two-sided"
        f"{flips}; {CORRECTION_NAMES[suite.correction]} over {tests:,} tests (challengers x "
        "measures x slices of at least "
        f"{suite.min_slice_n} queries; the baseline and means over tasks are none).",
        "Detectable: the smallest mean delta that these queries find with 80% power at alpha "
        f"{suite.alpha:g}, before correction; queries needed: for a delta of {suite.effect:g}.",
        "Rank: in the resamples, the best and worst rank; beaten: the share of them in which the "
        "system with the highest mean is above this one (ties half).",
    ]

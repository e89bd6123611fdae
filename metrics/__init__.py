"""What a number means: measures, tie rules and statistics over plain arrays.

>>> import numpy as np
>>> ids = np.array(["q1", "q1"], dtype=object), np.array(["d1", "d2"], dtype=object)
>>> run = Run(*ids, scores=np.array([0.2, 0.9]))
>>> judgments = Judgments(*ids, grades=np.array([1.0, 0.0]))
>>> evaluation = evaluate(run, judgments, ["RR@10", "oracle(RR@10)"])
>>> evaluation.mean("RR@10"), evaluation.mean("oracle(RR@10)")
(0.5, 1.0)
"""

from metrics.aggregate import macro_mean, weighted_mean
from metrics.agreement import kendall_tau, rank_biased_overlap
from metrics.bootstrap import (
    Interval,
    bootstrap_interval,
    bootstrap_intervals,
    bootstrap_macro,
    bootstrap_means,
    wilson_interval,
)
from metrics.errors import MetricError
from metrics.evaluation import evaluate
from metrics.leaderboard import probability_better, rank_intervals
from metrics.measures import METRICS, Measure, Metric, parse_measure
from metrics.paired import PairedSummary, cluster_deltas, paired_deltas
from metrics.power import detectable_effect, queries_needed
from metrics.records import Conventions, Evaluation, Judgments, Run
from metrics.significance import (
    CORRECTIONS,
    TESTS,
    benjamini_hochberg,
    bonferroni,
    corrected,
    flips_needed,
    holm,
    paired_tests,
    randomization_test,
    randomization_tests,
    sign_test,
    t_test,
    test_direction,
    wilcoxon_test,
)
from metrics.unjudged import unjudged_bounds

__all__ = [
    "CORRECTIONS",
    "METRICS",
    "TESTS",
    "Conventions",
    "Evaluation",
    "Interval",
    "Judgments",
    "Measure",
    "Metric",
    "MetricError",
    "PairedSummary",
    "Run",
    "benjamini_hochberg",
    "bonferroni",
    "bootstrap_interval",
    "bootstrap_intervals",
    "bootstrap_macro",
    "bootstrap_means",
    "cluster_deltas",
    "corrected",
    "detectable_effect",
    "evaluate",
    "flips_needed",
    "holm",
    "kendall_tau",
    "macro_mean",
    "paired_deltas",
    "paired_tests",
    "parse_measure",
    "probability_better",
    "queries_needed",
    "randomization_test",
    "randomization_tests",
    "rank_biased_overlap",
    "rank_intervals",
    "sign_test",
    "t_test",
    "test_direction",
    "unjudged_bounds",
    "weighted_mean",
    "wilcoxon_test",
    "wilson_interval",
]

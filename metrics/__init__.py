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
from metrics.bootstrap import (
    Interval,
    bootstrap_interval,
    bootstrap_macro,
    bootstrap_means,
    wilson_interval,
)
from metrics.errors import MetricError
from metrics.evaluation import evaluate
from metrics.measures import METRICS, Measure, Metric, parse_measure
from metrics.paired import PairedSummary, paired_deltas
from metrics.records import Conventions, Evaluation, Judgments, Run

__all__ = [
    "METRICS",
    "Conventions",
    "Evaluation",
    "Interval",
    "Judgments",
    "Measure",
    "Metric",
    "MetricError",
    "PairedSummary",
    "Run",
    "bootstrap_interval",
    "bootstrap_macro",
    "bootstrap_means",
    "evaluate",
    "macro_mean",
    "paired_deltas",
    "parse_measure",
    "weighted_mean",
    "wilson_interval",
]

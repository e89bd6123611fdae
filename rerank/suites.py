"""What a suite is: tasks, models, measures, slices and release rules, and how wide to run them."""

from __future__ import annotations

from dataclasses import dataclass

BOUNDS = ("mean", "lower")
MACRO = "macro"  # the name under which means over tasks are reported


@dataclass(frozen=True)
class GateRule:
    """One release rule: a challenger may not lose more than `max_drop` against the baseline.

    The whole task is judged unless `slice` names one (`language=ko`). Below `min_n` queries the
    rule is not judged, except on a critical slice, where too few queries fail it.
    """

    measure: str = ""  # default: the suite's primary measure
    task: str = ""  # default: every task
    slice: str = ""  # attribute=value
    challengers: tuple[str, ...] = ()  # default: every model but the baseline
    max_drop: float = 0.0  # in units of the measure, from 0
    bound: str = "mean"  # mean | lower: judge the mean delta, or its interval's lower end
    min_n: int = 1
    critical: bool = False
    max_failed_share: float | None = None  # also: share of pairs without a score


@dataclass(frozen=True)
class SuiteSpec:
    """One suite as its YAML file states it (configs/suites/NAME.yaml)."""

    name: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    baseline: str = "first_stage"
    title: str = ""
    description: str = ""

    measures: tuple[str, ...] = ("nDCG@10", "RR@10", "AP", "P@5", "R@5", "Success@1")
    primary: str = "nDCG@10"
    slices: tuple[str, ...] = ()  # attributes of queries or judgments
    min_slice_n: int = 5  # smaller slices are shown in grey; a gate rule has its own min_n
    tie: str = "trec"  # trec | docid_asc | input | expected | pessimistic | optimistic
    no_relevant: str = "zero"  # zero | skip | nan
    samples: int = 10_000  # bootstrap resamples
    seed: int = 17
    confidence: float = 0.95
    worst: int = 10  # regressions shown a challenger
    gate: tuple[GateRule, ...] = ()

    store: str = "store"
    engine: str = "auto"  # auto | inline | ray
    cluster: str = ""  # a file in configs/clusters, or a Ray address
    workers: int | None = None  # actors a model; default: what the machine holds
    num_cpus: int | None = None  # of the embedded Ray
    token_budget: int | None = None  # tokens a batch; default: found on the device
    max_deaths: int = 8  # process deaths after which a shard is given up
    shard_timeout: float = 3600.0  # seconds after which a worker stuck in one shard is ended
    max_failed_pairs: int = 0  # pairs without a score that still count as success

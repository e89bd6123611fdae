"""What a suite is: tasks, models, measures, slices and release rules, and how wide to run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rerank.ledger import MAX_DEATHS

BOUNDS = ("mean", "lower")
INTERVALS = ("percentile", "bca", "expanded")
MACRO = "macro"  # the name under which means over tasks are reported


@dataclass(frozen=True)
class GateRule:
    """One release rule: a challenger may not lose more than `max_drop` against the baseline.

    The whole task is judged unless `slice` names one (`language=ko`). Below `min_n` queries, and on
    a slice below the suite's min_slice_n, the rule is not judged, except where it is critical: then
    min_n alone counts, and too few queries fail it. What is limited beside the drop, from
    max_failed_share on, is of the whole task. A figure that nobody measured fails its rule.
    """

    measure: str = ""  # default: the suite's primary measure
    task: str = ""  # default: every task
    slice: str = ""  # attribute=value, or a crossing: language*intent=ko*exact_id
    challengers: tuple[str, ...] = ()  # default: every model but the baseline
    max_drop: float | None = 0.0  # in units of the measure, from 0; null: no drop is judged
    bound: str = "mean"  # mean | lower: judge the mean delta, or its interval's lower end
    superior: bool = False  # instead of a drop: delta above 0 and its corrected p below alpha
    min_n: int = 1
    critical: bool = False
    max_failed_share: float | None = None  # pairs without a score / pairs
    max_unjudged_share: float | None = None  # mean unjudged@10 of the challenger
    max_p95_latency: float | None = None  # seconds a query
    max_cost: float | None = None  # units of price_per_hour for 1,000 queries
    price_per_hour: float | None = None  # of one worker's machine; max_cost needs it


@dataclass(frozen=True)
class ImportedResults:
    """Published scores that the report shows beside the replayed ones, marked as imported.

    They are values without pairs: no interval, rank, delta or test, and no mean with tasks that
    they lack. What was published under another protocol is another entry, never the same.
    """

    files: tuple[str, ...]  # relative to the suite's file; patterns as in results/*.json
    protocol: str  # how they were made: first stage, depth, gold injected or not, tool and version
    source: str  # where they were published
    tasks: dict[str, str] = field(default_factory=dict)  # published name -> task of the suite
    measure: str = ""  # of a table that has no column `measure`; without it none is guessed
    model: str = ""  # of mteb results without a model_meta.json beside them
    stage: str = ""  # of files that hold several, as stage1 and stage2
    ignored: tuple[str, ...] = ()  # columns of a table that are no task
    mean: str = ""  # the column of published means: checked against the rows


@dataclass(frozen=True)
class SuiteSpec:
    """One suite as its YAML file states it (configs/suites/NAME.yaml)."""

    name: str
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    baseline: str = "first_stage"
    title: str = ""
    description: str = ""
    # keys of every task that this suite sets (inject_gold, depth ...); such a task is another one
    # and is named TASK.VARIANT, so that its numbers stand beside no other's
    task_overrides: dict[str, Any] = field(default_factory=dict)
    variant: str = ""

    analyzers: tuple[str, ...] = ()  # compared by `rerank stage1`; default: each task's own
    measures: tuple[str, ...] = ("nDCG@10", "RR@10", "AP", "P@5", "R@5", "Success@1")
    primary: str = "nDCG@10"
    # attributes of queries or judgments, rows of COMPUTED_SLICES, crossings (language*intent)
    slices: tuple[str, ...] = ()
    min_slice_n: int = 5  # smaller slices are shown in grey, not tested, and gate only if critical
    tie: str = "trec"  # trec | docid_asc | input | expected | pessimistic | optimistic
    no_relevant: str = "zero"  # zero | skip | nan
    samples: int = 10_000  # bootstrap resamples, and sign flips of a test (more for many tests)
    seed: int = 17
    confidence: float = 0.95
    interval: str = "percentile"  # percentile | bca | expanded
    clusters: str = ""  # a query attribute (topic, document, user): its values are resampled whole
    test: str = "randomization"  # randomization | t | wilcoxon | sign
    correction: str = "holm"  # over challengers x measures x slices: holm | bonferroni | bh | none
    alpha: float = 0.05  # a corrected p-value below it is marked
    effect: float = 0.01  # the delta that matters: the queries needed to find it are told
    worst: int = 10  # regressions shown a challenger
    gate: tuple[GateRule, ...] = ()
    imported: tuple[ImportedResults, ...] = ()  # published results, shown and never compared

    store: str = "store"
    engine: str = "auto"  # auto | inline | ray
    cluster: str = ""  # a file in configs/clusters, or a Ray address
    workers: int | None = None  # actors a model; default: what the machine holds
    num_cpus: int | None = None  # of the embedded Ray
    token_budget: int | None = None  # tokens a batch; default: found on the device
    max_deaths: int = MAX_DEATHS  # process deaths after which a shard is given up
    shard_timeout: float = 3600.0  # seconds after which a worker stuck in one shard is ended
    max_failed_pairs: int = 0  # pairs without a score that still count as success

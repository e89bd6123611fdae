"""The report document: one JSON-able dict, written as report.json and drawn as HTML and Markdown.

`rerank.suite.summary.document` makes it. Rules: a value that does not exist is null, never NaN;
every mean stands beside its n (queries); deltas are challenger minus baseline on the same queries;
text from data is raw here and escaped where it is shown. Keys marked NotRequired may be left out.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

MACRO = "macro"  # the task name under which means over tasks stand in `results`


class Interval(TypedDict):
    """A confidence interval of a mean, or of a mean paired delta."""

    low: float | None
    high: float | None
    kind: str  # percentile, wilson, ...: how it was made
    degenerate: bool  # all values were equal, so resampling cannot show any spread


class Mean(TypedDict):
    mean: float | None
    n: int


class Suite(TypedDict):
    name: str
    title: str
    description: str
    baseline: str  # name of the system that all others are compared with
    primary: str  # the measure that orders the leaderboard
    confidence: float  # 0.95
    samples: int  # bootstrap resamples
    seed: int
    min_slice_n: NotRequired[int]  # slices with fewer queries are shown in grey, and not tested
    interval: NotRequired[str]  # percentile | bca
    clusters: NotRequired[str]  # the attribute whose values are resampled whole; empty: queries
    test: NotRequired[str]  # randomization | t | wilcoxon | sign
    correction: NotRequired[str]  # holm | bonferroni | bh | none
    alpha: NotRequired[float]
    effect: NotRequired[float]  # the delta that `queries_needed` is about
    tests: NotRequired[int]  # how many the correction counts


class Convention(TypedDict):
    idcg_convention: str
    tie: str
    gain: str
    queries: str
    no_relevant: str
    failed: str
    interval: NotRequired[str]
    clusters: NotRequired[str | None]
    test: NotRequired[str]
    correction: NotRequired[str]
    alpha: NotRequired[float]
    statements: list[str]  # the same in full sentences


class FirstStage(TypedDict):
    method: str
    analyzer: NotRequired[str | None]
    k1: NotRequired[float | None]
    b: NotRequired[float | None]


class Task(TypedDict):
    """A frozen task: what was judged, what stage 1 found, and what identifies both."""

    name: str
    title: str
    language: str
    description: NotRequired[str]
    fingerprint: str
    recipe_fingerprint: str
    queries: int
    documents: int
    pairs: int
    depth: int
    judgments: int
    grades: dict[str, int]  # grade -> number of judgments
    provenance: dict[str, int]  # human, derived, synthetic, translated -> number of judgments
    source: str
    licence: str
    first_stage: FirstStage
    inject_gold: bool
    injected_rows: int
    candidate_recall: Mean
    candidate_coverage: Mean  # share of queries with at least one relevant candidate
    retrieved_recall: float | None  # without injected rows
    unreachable_queries: int  # queries whose relevant documents are none of the candidates
    unreachable: NotRequired[list[str]]  # their ids
    no_relevant: list[str]  # ids of queries without any relevant document
    without_candidates: NotRequired[list[str]]
    unjudged_queries: NotRequired[list[str]]
    notes: list[str]


class System(TypedDict):
    """A reranker (or the first stage) as it was run."""

    name: str
    adapter: str
    description: str
    licence: str
    weights: str | None
    recipe: str  # verified | unverified: was the scoring recipe checked against its authors' code
    is_baseline: bool
    revision: NotRequired[Any]
    device: NotRequired[str | None]
    dtype: str | None
    attention: str | None
    max_length: int | None
    parameters: dict[str, Any]
    runs: dict[str, str]  # task -> fingerprint of the run


class Result(TypedDict):
    task: str  # or MACRO
    system: str
    measure: str
    mean: float | None
    n: int
    interval: Interval | None
    weighted_mean: float | None  # weighted by traffic
    weighted_interval: NotRequired[Interval | None]
    ranks: NotRequired[list[int] | None]  # best and worst plausible rank, by the primary measure
    beaten: NotRequired[float | None]  # share of resamples with the best system above this one
    failed_pairs: int
    failed_queries: int


class Diagnostics(TypedDict):
    task: str
    system: str
    tied_share: float | None
    ties_at_cutoff: dict[str, int]  # cutoff -> queries whose cutoff falls inside a tie
    tie_range: NotRequired[list[float] | None]  # primary measure: ties lowest and highest first
    unjudged_at_10: float | None
    truncated_share: float | None
    truncated_queries: NotRequired[int]
    failed_pairs: int
    missing_queries: list[str]
    pairs: int
    seconds: NotRequired[float | None]


class Headroom(TypedDict):
    task: str
    system: str
    measure: str
    oracle: float | None  # the best order of the same candidates
    value: float | None
    headroom: float | None  # oracle - value
    recovered: float | None  # (value - baseline) / (oracle - baseline)
    n: int


class SliceMean(TypedDict):
    task: str
    system: str
    measure: str
    attribute: str
    value: str
    n: int
    mean: float | None
    interval: Interval | None


class Delta(TypedDict):
    mean: float | None
    median: float | None
    p05: float | None
    p25: float | None
    p75: float | None
    p95: float | None


class QueryDelta(TypedDict):
    query_id: str
    query: str
    baseline: float
    challenger: float
    delta: float


class SliceDelta(TypedDict):
    attribute: str
    value: str
    n: int
    mean: float | None
    interval: Interval | None
    improved: int
    tied: int
    regressed: int
    p_value: NotRequired[float | None]  # null: not tested
    corrected_p: NotRequired[float | None]
    agrees: NotRequired[bool]  # does the test point the way of the mean?
    effect_size: NotRequired[float | None]  # mean / standard deviation of the deltas
    detectable: NotRequired[float | None]  # smallest mean delta found with 80% power
    queries_needed: NotRequired[int | None]  # for the suite's `effect` to be found with 80% power
    small: bool  # fewer queries than the suite's min_slice_n


class Comparison(TypedDict):
    """One challenger against the baseline, for one measure on one task, query by query."""

    task: str
    baseline: str
    challenger: str
    measure: str
    n: int
    left_out: NotRequired[int]  # queries without a value in one of the two
    delta: Delta
    weighted_delta: NotRequired[float | None]  # by traffic
    weighted_interval: NotRequired[Interval | None]
    interval: Interval | None
    improved: int
    tied: int
    regressed: int
    p_value: NotRequired[float | None]  # null: not tested
    corrected_p: NotRequired[float | None]
    agrees: NotRequired[bool]  # does the test point the way of the mean?
    effect_size: NotRequired[float | None]  # mean / standard deviation of the deltas
    detectable: NotRequired[float | None]  # smallest mean delta found with 80% power
    queries_needed: NotRequired[int | None]  # for the suite's `effect` to be found with 80% power
    unjudged_bounds: NotRequired[list[float] | None]  # see `unjudged_bounds` of metrics
    deltas: list[tuple[str, float]]  # (query id, delta), smallest first
    worst: list[QueryDelta]
    best: list[QueryDelta]
    slices: list[SliceDelta]
    warnings: list[str]


class MacroComparison(TypedDict):
    """The mean over tasks of the mean paired deltas."""

    challenger: str
    baseline: str
    measure: str
    tasks: int
    n: int
    mean: float | None
    interval: Interval | None
    weighted_delta: NotRequired[float | None]
    weighted_interval: NotRequired[Interval | None]
    won: int  # tasks with a mean delta above 0
    lost: int


class RuleVerdict(TypedDict):
    rule: NotRequired[str]  # the key that sets the limit: max_drop, superior, max_failed_share ...
    sentence: str
    challenger: str
    task: str
    measure: str
    slice: str | None  # attribute=value; empty or null: the whole task
    limit: float | None
    observed: float | None
    n: int
    verdict: str  # pass | fail | too few queries


class Gate(TypedDict):
    passed: bool | None  # null: the suite has no rules
    rules: list[RuleVerdict]


class Environment(TypedDict):
    rows: list[list[str]]  # [what, value]


class ImportedColumn(TypedDict):
    name: str  # as it was published
    task: str | None  # the suite's task that it stands for


class ImportedRow(TypedDict):
    model: str
    values: dict[str, dict[str, float | None]]  # measure -> published name -> value
    mean: dict[str, float | None]  # measure -> mean over all columns; null where one is missing


class Imported(TypedDict):
    """Published results of one protocol: shown, never compared query by query."""

    protocol: str
    source: str
    measures: list[str]
    columns: list[ImportedColumn]
    rows: list[ImportedRow]
    facts: list[str]
    notes: list[str]


class Efficiency(TypedDict):
    """What is on file of cost: see `rerank.efficiency.facts`."""

    frontier: dict[str, Any] | None  # as `rerank frontier` wrote it
    measured: list[dict[str, Any]]  # the newest record of `rerank measure` for each run
    notes: list[str]


class Report(TypedDict):
    schema: int
    suite: Suite
    convention: Convention
    tasks: list[Task]
    systems: list[System]
    measures: list[str]
    results: list[Result]
    diagnostics: list[Diagnostics]
    headroom: list[Headroom]
    slices: list[SliceMean]  # of the primary measure
    comparisons: list[Comparison]  # of every measure
    macro_comparisons: NotRequired[list[MacroComparison]]
    gate: Gate
    imported: NotRequired[list[Imported]]  # published results, an entry a protocol
    efficiency: NotRequired[Efficiency]
    environment: Environment
    warnings: list[str]

"""What values per query say: means with intervals, paired deltas with tests, standings.

Systems are aligned by query id. A query that other files have and a system lacks is a failure of
that system: leaving it out without a word would raise its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import metrics
from metrics.arrays import Array, Floats
from metrics.paired import equal_but_for_rounding
from rerank.errors import InputError
from rerank.files.system_values import SystemValues


@dataclass(frozen=True)
class Settings:
    """How intervals and tests are made; every one starts from the same seed.

    method: a row of metrics.bootstrap.METHODS. test: of metrics.TESTS. correction: of
    metrics.CORRECTIONS. effect: the delta to plan for, or None.
    """

    samples: int = 10_000
    seed: int = 17
    confidence: float = 0.95
    method: str = "percentile"
    test: str = "randomization"
    correction: str = "holm"
    alpha: float = 0.05
    effect: float | None = None

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Aligned:
    """All systems over the same queries: values[system][measure] is (n,) float64, NaN = failed.

    clusters: (n,) labels, or None.
    """

    systems: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: dict[str, dict[str, Floats]]
    absent: dict[str, int]
    clusters: Array | None

    def shared(self, systems: Sequence[str]) -> list[str]:
        """Measures that all of the systems have, in the first one's order."""
        first, *others = (self.values[name] for name in systems)
        return [measure for measure in first if all(measure in other for other in others)]


@dataclass(frozen=True)
class SystemMean:
    """One system under one measure. mean: over n_valid; zero_mean: failures as 0, over all.

    n_failed: null, missing or absent; n_absent: of these, queries that its file does not have.
    wilson: the interval of a proportion where all values are 0 or all are 1, else None.
    """

    system: str
    measure: str
    mean: float
    zero_mean: float
    n_valid: int
    n_failed: int
    n_absent: int
    interval: metrics.Interval | None

    @property
    def failed_share(self) -> float:
        return self.n_failed / (self.n_valid + self.n_failed)


@dataclass(frozen=True)
class Pair:
    """A challenger minus the baseline over the queries that are valid in both.

    p: uncorrected; p_corrected: over all pairs of challenger and measure. detectable: smallest mean
    delta found with 80 % power; queries_needed: for `Settings.effect`. NaN, None: undefined.
    """

    baseline: str
    challenger: str
    measure: str
    summary: metrics.PairedSummary
    interval: metrics.Interval | None
    p: float
    p_corrected: float
    detectable: float
    queries_needed: int | None


@dataclass(frozen=True)
class Standings:
    """Systems under one measure over the n queries that are valid in all.

    ranks: (best, worst) plausible rank of each system, 1-based. better: (m, m), probability that
    the row's system is above the column's, ties half.
    """

    measure: str
    systems: tuple[str, ...]
    n: int
    means: Floats
    ranks: tuple[tuple[int, int], ...]
    better: Floats


def aligned(systems: Sequence[SystemValues]) -> Aligned:
    """All systems over the union of their queries, in byte order of the ids."""
    query_ids = tuple(sorted({query for system in systems for query in system.query_ids}))
    place = {query: at for at, query in enumerate(query_ids)}
    values: dict[str, dict[str, Floats]] = {}
    for system in systems:
        rows = [place[query] for query in system.query_ids]
        values[system.name] = {}
        for measure, column in system.values.items():
            whole = np.full(len(query_ids), np.nan)
            whole[rows] = column
            values[system.name][measure] = whole
    return Aligned(
        systems=tuple(system.name for system in systems),
        query_ids=query_ids,
        values=values,
        absent={system.name: len(query_ids) - len(system.query_ids) for system in systems},
        clusters=_clusters(systems, query_ids),
    )


def system_means(found: Aligned, settings: Settings) -> list[SystemMean]:
    """Every system under every measure; all intervals from the same resamples."""
    series = [(name, measure) for name in found.systems for measure in found.values[name]]
    matrix = np.stack([found.values[name][measure] for name, measure in series], axis=1)
    intervals = metrics.bootstrap_intervals(
        matrix,
        samples=settings.samples,
        confidence=settings.confidence,
        rng=settings.rng,
        clusters=found.clusters,
        method=settings.method,
    )
    means = []
    for (name, measure), column, interval in zip(series, matrix.T, intervals, strict=True):
        valid = column[~np.isnan(column)]
        means.append(
            SystemMean(
                system=name,
                measure=measure,
                mean=float(valid.mean()) if len(valid) else float("nan"),
                zero_mean=float(valid.sum()) / len(column),
                n_valid=len(valid),
                n_failed=len(column) - len(valid),
                n_absent=found.absent[name],
                interval=interval,
            )
        )
    return means


def pairs(found: Aligned, baseline: str, settings: Settings) -> list[Pair]:
    """Every other system against the baseline under every measure that all of them have."""
    challengers = [name for name in found.systems if name != baseline]
    series = [
        (name, measure)
        for name in challengers
        for measure in found.shared([baseline, *challengers])
    ]
    if not series:
        return []
    columns = [
        (found.values[baseline][measure], found.values[name][measure]) for name, measure in series
    ]
    deltas = np.stack([after - before for before, after in columns], axis=1)
    clusters = found.clusters
    units = deltas if clusters is None else metrics.cluster_deltas(deltas, clusters)
    intervals = metrics.bootstrap_intervals(
        deltas,
        samples=settings.samples,
        confidence=settings.confidence,
        rng=settings.rng,
        clusters=clusters,
        method=settings.method,
        deltas=True,
    )
    p_values = metrics.paired_tests(
        units,
        settings.test,
        samples=metrics.flips_needed(settings.samples, len(series), settings.alpha),
        rng=settings.rng,
    )
    p_values[np.isnan(deltas).all(axis=0)] = np.nan  # no common query: nothing was tested
    corrected = metrics.corrected(p_values, settings.correction)
    return [
        Pair(
            baseline=baseline,
            challenger=name,
            measure=measure,
            summary=metrics.paired_deltas(*columns[at]),
            interval=intervals[at],
            p=float(p_values[at]),
            p_corrected=float(corrected[at]),
            detectable=_detectable(units[:, at], settings),
            queries_needed=_needed(units[:, at], deltas[:, at], settings),
        )
        for at, (name, measure) in enumerate(series)
    ]


def standings(found: Aligned, settings: Settings) -> list[Standings]:
    """Rank intervals under every measure that all systems have, from three systems on."""
    measures = found.shared(found.systems)
    if len(found.systems) < 3:
        return []
    by_queries: dict[bytes, list[str]] = {}
    tables = {
        measure: np.stack([found.values[name][measure] for name in found.systems], axis=1)
        for measure in measures
    }
    for measure, table in tables.items():
        by_queries.setdefault(np.isnan(table).any(axis=1).tobytes(), []).append(measure)
    ranked: dict[str, Standings] = {}
    for members in by_queries.values():
        kept = ~np.isnan(tables[members[0]]).any(axis=1)
        labels = None if found.clusters is None else found.clusters[kept]
        if np.count_nonzero(kept) < 2 or (labels is not None and len(np.unique(labels)) < 2):
            continue
        width = len(found.systems)
        means = metrics.bootstrap_means(
            np.hstack([tables[measure][kept] for measure in members]),
            samples=settings.samples,
            rng=settings.rng,
            clusters=labels,
        )
        for at, measure in enumerate(members):
            mine = means[:, at * width : (at + 1) * width]
            ranks = metrics.rank_intervals(mine, confidence=settings.confidence)
            ranked[measure] = Standings(
                measure=measure,
                systems=found.systems,
                n=int(np.count_nonzero(kept)),
                means=tables[measure][kept].mean(axis=0),
                ranks=tuple((int(best), int(worst)) for best, worst in ranks),
                better=metrics.probability_better(mine),
            )
    return [ranked[measure] for measure in measures if measure in ranked]


def _clusters(systems: Sequence[SystemValues], query_ids: Sequence[str]) -> Array | None:
    """The label of every query; InputError where two files put one into different clusters."""
    labels: dict[str, tuple[str, SystemValues]] = {}
    for system in systems:
        for query, label in zip(system.query_ids, system.clusters or (), strict=False):
            known, source = labels.setdefault(query, (label, system))
            if known != label:
                raise InputError(
                    f"query '{query}' is in cluster '{known}' in {source.path} and in '{label}' in "
                    f"{system.path}; a query has one cluster"
                )
    if not labels:
        return None
    return np.array([labels[query][0] for query in query_ids], dtype=object)


def _detectable(units: Floats, settings: Settings) -> float:
    """NaN where the deltas have no spread: equal deltas tell nothing of what would be seen."""
    if not _spread(units):
        return float("nan")
    return metrics.detectable_effect(units, alpha=settings.alpha)


def _needed(units: Floats, deltas: Floats, settings: Settings) -> int | None:
    """Queries, at the present number of queries a cluster."""
    if settings.effect is None or not _spread(units):
        return None
    needed = metrics.queries_needed(units, effect=settings.effect, alpha=settings.alpha)
    size = np.count_nonzero(~np.isnan(deltas)) / np.count_nonzero(~np.isnan(units))
    return int(np.ceil(needed * size))


def _spread(units: Floats) -> bool:
    return not equal_but_for_rounding(units[~np.isnan(units)])

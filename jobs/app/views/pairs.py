"""Two systems on a task, query by query: what is compared, whatever the page shows of it.

Against the suite's baseline, intervals and p-values are those of evaluate, corrected for all tests
of the suite. Of any other two systems they are made here in closed form: Student's t on the paired
deltas, Holm's correction over the rows of the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

import metrics
from jobs.app.reading import Aggregates
from rerank.reporting.wording import Reading, read_delta

LEAST = 2  # queries of which a spread is known


@dataclass(frozen=True)
class Delta:
    """The mean delta of some queries: second system minus first.

    label: a slice (`language=ko`), a task, or empty for a whole task. cached: from evaluate.
    """

    label: str
    n: int
    mean: float | None
    low: float | None = None
    high: float | None = None
    degenerate: bool = False
    p_value: float | None = None
    corrected_p: float | None = None
    agrees: bool = True
    improved: int = 0
    tied: int = 0
    regressed: int = 0
    small: bool = False
    cached: bool = False

    @property
    def interval(self) -> dict[str, Any] | None:
        """As the report's schema has it."""
        if self.low is None or self.high is None:
            return None
        ends = {"low": self.low, "high": self.high}
        return {**ends, "kind": "percentile", "degenerate": self.degenerate}

    def reading(self, alpha: float) -> Reading:
        """What the delta allows to say; of a small slice nothing."""
        if self.small:
            return "unknown"
        return read_delta(
            self.mean,
            self.interval,  # type: ignore[arg-type]
            self.corrected_p,
            alpha,
            p_value=self.p_value,
            agrees=self.agrees,
        )


@dataclass(frozen=True)
class Pair:
    """Values of two systems on one task's queries, (n_queries,) each; kept: which are compared."""

    task: str
    first: str
    second: str
    measure: str
    first_values: np.ndarray
    second_values: np.ndarray
    kept: np.ndarray

    @property
    def deltas(self) -> np.ndarray:
        """(n_queries,) float64; NaN where not kept."""
        return np.where(self.kept, self.second_values - self.first_values, np.nan)


def pair_of(data: Aggregates, task: str, first: str, second: str, measure: str) -> Pair:
    """The queries where both systems scored every pair and have a value."""
    names = [f"m:{measure}", "failed"]
    (one, one_failed), (two, two_failed) = (
        data.columns(task, system, names) for system in (first, second)
    )
    one, two = one.astype(np.float64), two.astype(np.float64)
    failed = one_failed.astype(bool) | two_failed.astype(bool)
    kept = ~failed & ~np.isnan(one) & ~np.isnan(two)
    return Pair(task, first, second, measure, one, two, kept)


def whole_delta(data: Aggregates, task: str, first: str, second: str, measure: str) -> Delta:
    """The whole task, from evaluate where it compared these two."""
    found = cached_deltas(data, task, first, second, measure)
    whole = [delta for delta in found if not delta.label]
    if whole:
        return whole[0]
    return plain_delta(pair_of(data, task, first, second, measure).deltas, "", data)


def slice_deltas(data: Aggregates, pair: Pair) -> list[Delta]:
    """Every slice of the task; from evaluate where it compared these two in this measure."""
    found = cached_deltas(data, pair.task, pair.first, pair.second, pair.measure)
    slices = [delta for delta in found if delta.label]
    if slices or (found and pair.measure == data.primary):
        return slices
    least = int(data.suite["min_slice_n"])
    made = []
    for label, inside in slice_masks(data, pair.task).items():
        deltas = pair.deltas[inside]
        small = int((~np.isnan(deltas)).sum()) < least
        made.append(replace(plain_delta(deltas, label, data), small=small))
    return corrected([delta for delta in made if delta.n])


def slice_masks(data: Aggregates, task: str) -> dict[str, np.ndarray]:
    """`attribute=value` -> (n_queries,) bool, in the order of the suite's slices, then by value."""

    def read() -> dict[str, np.ndarray]:
        column = data.queries(task)["slices"].combine_chunks()
        parents = pc.list_parent_indices(column).to_numpy()
        labels = column.flatten().dictionary_encode()
        codes = labels.indices.to_numpy()
        masks: dict[str, np.ndarray] = {}
        for code, label in enumerate(labels.dictionary.to_pylist()):
            mask = np.zeros(len(column), dtype=bool)
            mask[parents[codes == code]] = True
            masks[label] = mask
        order = {name: at for at, name in enumerate(data.suite["slices"])}

        def place(label: str) -> tuple[int, str]:
            return (order.get(label.partition("=")[0], len(order)), label)

        names = sorted(masks, key=place)
        return {label: masks[label] for label in names}

    return data.cache.get(("slices", task), read)


def plain_delta(deltas: np.ndarray, label: str, data: Aggregates) -> Delta:
    """Mean, t interval and t test of paired deltas; NaN are left out.

    Where the suite resamples clusters of queries, queries are not independent: the mean alone.
    """
    kept = deltas[~np.isnan(deltas)]
    n = len(kept)
    if not n:
        return Delta(label, 0, None)
    mean, spread = float(kept.mean()), float(kept.std(ddof=1)) if n >= LEAST else 0.0
    plain = Delta(
        label,
        n,
        mean,
        improved=int((kept > 0).sum()),
        tied=int((kept == 0).sum()),
        regressed=int((kept < 0).sum()),
    )
    if n < LEAST or data.suite["clusters"]:
        return plain
    if spread == 0:
        return replace(plain, low=mean, high=mean, degenerate=True)
    half = _t_quantile(n - 1, float(data.suite["confidence"])) * spread / np.sqrt(n)
    return replace(plain, low=mean - half, high=mean + half, p_value=metrics.t_test(kept))


def _t_quantile(freedom: int, confidence: float) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + confidence) / 2, freedom))


def corrected(deltas: Sequence[Delta]) -> list[Delta]:
    """Holm's correction over the deltas that were tested and are not small."""
    tested = [delta for delta in deltas if delta.p_value is not None and not delta.small]
    values = metrics.holm(np.array([delta.p_value for delta in tested], dtype=np.float64))
    found = {id(delta): float(p) for delta, p in zip(tested, values, strict=True)}
    return [replace(delta, corrected_p=found.get(id(delta))) for delta in deltas]


def cached_deltas(
    data: Aggregates, task: str, first: str, second: str, measure: str
) -> list[Delta]:
    """What evaluate found of these two on a task; empty unless one is the baseline."""
    if data.baseline not in (first, second) or first == second:
        return []
    challenger, turned = (second, False) if first == data.baseline else (first, True)
    table = data.table("comparisons")
    inside = pc.and_(
        pc.and_(pc.equal(table["task"], task), pc.equal(table["challenger"], challenger)),
        pc.equal(table["measure"], measure),
    )
    rows = table.filter(inside).to_pylist()
    return [_turned(_delta(row)) if turned else _delta(row) for row in rows]


def _delta(row: dict[str, Any]) -> Delta:
    label = f"{row['attribute']}={row['value']}" if row["attribute"] else ""
    names = ("n", "mean", "low", "high", "p_value", "corrected_p", "improved", "tied", "regressed")
    return Delta(
        label=label,
        **{name: row[name] for name in names},
        degenerate=bool(row["degenerate"]),
        agrees=row["agrees"] is not False,
        small=bool(row["small"]),
        cached=True,
    )


def _turned(delta: Delta) -> Delta:
    """The same seen from the other system."""

    def minus(value: float | None) -> float | None:
        return None if value is None else -value

    return replace(
        delta,
        mean=minus(delta.mean),
        low=minus(delta.high),
        high=minus(delta.low),
        improved=delta.regressed,
        regressed=delta.improved,
    )


def common_tasks(data: Aggregates, first: str, second: str) -> list[str]:
    """Tasks on which both have values."""
    return [task for task in data.tasks if {first, second} <= set(data.systems_on(task))]

"""How often 95 % intervals hold the true mean, on simulated evaluations whose truth is known.

Oracle: the mean of the distribution that the values are drawn from. Values per query are mixtures
as measures have them (zeros, ones, a Beta between; reciprocal ranks), deltas are half tied. The
table is printed. 20,000 evaluations a cell have a standard error of 0.15 points.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from metrics import bootstrap_interval, bootstrap_intervals, bootstrap_macro

pytestmark = pytest.mark.slow

DEFAULT = inspect.signature(bootstrap_interval).parameters["method"].default
BATCH = 200  # evaluations that share their resamples
SAMPLES = 2_000
EVALUATIONS = {50: 20_000, 200: 10_000, 1_000: 6_000}
LOW, HIGH = 0.93, 0.97

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


@dataclass(frozen=True)
class Design:
    """draw: (rng, shape) -> values; mean: their true mean."""

    draw: Draw
    mean: float
    deltas: bool = False


def mixture(zeros: float, ones: float, a: float, b: float) -> Design:
    """A share of exact 0s and 1s, Beta(a, b) between."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        kind = rng.random(shape)
        return np.where(
            kind < zeros, 0.0, np.where(kind < zeros + ones, 1.0, rng.beta(a, b, shape))
        )

    return Design(draw, ones + (1 - zeros - ones) * a / (a + b))


def reciprocal_ranks() -> Design:
    values = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 0])
    shares = np.array([0.5, 0.15, 0.08, 0.05, 0.04, 0.03, 0.15])
    return Design(
        lambda rng, shape: rng.choice(values, p=shares, size=shape), float(values @ shares)
    )


def tied_deltas(tied: float, improved: float, a: float, b: float) -> Design:
    """A share of exact ties; the others are Beta(a, b) up or down."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        sign = np.where(rng.random(shape) < improved, 1.0, -1.0)
        return np.where(rng.random(shape) < tied, 0.0, sign * rng.beta(a, b, shape))

    return Design(draw, (1 - tied) * (2 * improved - 1) * a / (a + b), deltas=True)


DESIGNS = {
    "nDCG@10": mixture(0.12, 0.25, 2.0, 1.5),
    "nDCG@10, hard": mixture(0.50, 0.08, 1.2, 2.5),
    "RR": reciprocal_ranks(),
    "deltas, 30 % tied": tied_deltas(0.30, 0.55, 1.0, 5.0),
    "deltas, half tied": tied_deltas(0.50, 0.60, 1.0, 3.0),
}


def coverage(design: Design, n: int, method: str) -> float:
    """Share of simulated evaluations of n queries whose interval holds the true mean."""
    rng = np.random.default_rng(n)
    inside = 0
    for _ in range(EVALUATIONS[n] // BATCH):
        values = design.draw(rng, (n, BATCH))
        found = bootstrap_intervals(
            values, samples=SAMPLES, rng=rng, method=method, deltas=design.deltas
        )
        inside += sum(i is not None and i.low <= design.mean <= i.high for i in found)
    return inside / EVALUATIONS[n]


@pytest.fixture(scope="module")
def table() -> dict[tuple[str, str, int], float]:
    return {
        (method, name, n): coverage(design, n, method)
        for method in ("percentile", "bca", "expanded")
        for name, design in DESIGNS.items()
        for n in EVALUATIONS
    }


@pytest.mark.timeout(900)
def test_the_table(
    table: dict[tuple[str, str, int], float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed whatever the verdicts are."""
    with capsys.disabled():
        print("\ncoverage of 95 % intervals, percent")
        for method, name in dict.fromkeys(key[:2] for key in table):
            cells = "  ".join(f"n={n}: {100 * table[method, name, n]:.2f}" for n in EVALUATIONS)
            print(f"{method:>11}  {name:<20}{cells}")


@pytest.mark.parametrize("method", dict.fromkeys([DEFAULT, "percentile", "expanded"]))
def test_intervals_cover(table: dict[tuple[str, str, int], float], method: str) -> None:
    """The default interval, the plain and the expanded percentiles: 93 to 97 % everywhere."""
    found = {key: share for key, share in table.items() if key[0] == method}
    assert [key for key, share in found.items() if not LOW <= share <= HIGH] == []


def test_expanded_intervals_are_the_nearest_for_few_queries(
    table: dict[tuple[str, str, int], float],
) -> None:
    """At 50 queries plain percentiles are short of 95 % in each design, expanded ones less so."""
    for name in DESIGNS:
        plain, expanded = (table[method, name, 50] for method in ("percentile", "expanded"))
        assert plain < 0.9475, name
        assert 0.94 <= expanded <= 0.955, name


def test_bca_is_for_values_and_not_for_few_tied_deltas(
    table: dict[tuple[str, str, int], float],
) -> None:
    """BCa covers 93 to 97 % but for 50 deltas of which many are tied, where it is the worst."""
    short = [
        key[1:] for key, share in table.items() if key[0] == "bca" and not LOW <= share <= HIGH
    ]
    assert short == [("deltas, 30 % tied", 50), ("deltas, half tied", 50)]
    for name, n in short:
        assert table["bca", name, n] < table["percentile", name, n]


def clustered(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Evaluations of 60 clusters of 5 queries: half of the variance is the cluster's."""
    while True:
        shared = np.repeat(rng.normal(size=(60, BATCH)), 5, axis=0)
        yield shared + rng.normal(size=(300, BATCH))


def test_clustered_intervals_cover_where_queries_move_together() -> None:
    """Drawn by cluster: 93 to 97 %. Drawn by query: far too narrow."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(60), 5)
    inside = {"by query": 0, "by cluster": 0}
    batches = clustered(rng)
    for _ in range(20):
        values = next(batches)
        for name, clusters in (("by query", None), ("by cluster", labels)):
            found = bootstrap_intervals(values, samples=1_000, rng=rng, clusters=clusters)
            inside[name] += sum(i is not None and i.low <= 0 <= i.high for i in found)
    shares = {name: count / (20 * BATCH) for name, count in inside.items()}
    assert LOW <= shares["by cluster"] <= HIGH, shares
    assert shares["by query"] < 0.85, shares


def test_macro_intervals_cover() -> None:
    """Three tasks of 60, 200 and 800 queries: the mean of their means is held 93 to 97 %."""
    rng = np.random.default_rng(2)
    designs = [DESIGNS["nDCG@10"], DESIGNS["nDCG@10, hard"], DESIGNS["RR"]]
    truth = sum(design.mean for design in designs) / 3
    inside = 0
    for _ in range(2_000):
        tasks = [
            design.draw(rng, (n, 1))[:, 0]
            for design, n in zip(designs, (60, 200, 800), strict=True)
        ]
        found = bootstrap_macro(tasks, samples=500, rng=rng)
        inside += found is not None and found.low <= truth <= found.high
    assert LOW <= inside / 2_000 <= HIGH

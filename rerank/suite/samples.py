"""Series of values over some of a task's queries; those of the same queries are taken at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Values of some of a task's queries: (n,) float64, and which of the n count: (n,) bool."""

    values: np.ndarray
    inside: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        return np.asarray(self.values[self.inside])


@dataclass(frozen=True)
class Group:
    """Samples of the same queries.

    at: where they stand among all samples; inside: (n,) bool; values: (n_inside, n_samples).
    """

    at: tuple[int, ...]
    inside: np.ndarray
    values: np.ndarray


def groups_of(samples: Sequence[Sample]) -> Iterator[Group]:
    """The samples, those of the same queries together: they can share resamples and sign flips."""
    members: dict[bytes, list[int]] = {}
    for position, sample in enumerate(samples):
        members.setdefault(sample.inside.tobytes(), []).append(position)
    for at in members.values():
        values = np.stack([samples[position].kept for position in at], axis=1)
        yield Group(tuple(at), samples[at[0]].inside, values)

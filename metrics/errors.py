"""The one error of this floor."""

from __future__ import annotations

from collections.abc import Iterable


class MetricError(ValueError):
    """Input that has no honest number. One sentence: what, where, what to do now.

    rows: 0-based rows of the array the sentence speaks of, so that whoever read the array from a
        file can name the lines. table: "run" or "judgments", the one that holds these rows.
    """

    def __init__(self, message: str, rows: Iterable[int] = (), table: str = "") -> None:
        super().__init__(message)
        self.rows = tuple(int(row) for row in rows)
        self.table = table

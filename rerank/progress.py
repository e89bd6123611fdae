"""How far a replay is, as a file of the store: what `rerank jobs` shows without asking the cluster.

progress/MODEL/SESSION.json is written at every change of state, and at most every few seconds in
between. It is news, not the truth: that is in the receipts.
"""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rerank.errors import RerankError
from rerank.store import Store

QUEUED, LOADING, SCORING = "queued", "loading", "scoring"
COMPLETE, INCOMPLETE, REFUSED = "complete", "incomplete", "refused"
WRITE_EVERY = 10.0  # seconds


@dataclass
class Progress:
    """One driver's progress with one model over all its tasks. Pairs are candidate rows."""

    store: Store
    suite: str
    model: str
    session: str
    tasks: Sequence[str]
    shards_total: int
    pairs_total: int
    shards_done: int = 0
    pairs_done: int = 0
    state: str = ""
    message: str = ""
    started: float = field(default_factory=time.time)
    written: float = 0.0  # monotonic seconds

    def enter(self, state: str, message: str = "") -> None:
        """Write a change of state at once; the same state with another message is throttled."""
        changed = state != self.state
        self.state, self.message = state, message
        if changed or self._due():
            self.write()

    def advance(self, shards: int, pairs: int) -> None:
        """Count what was committed."""
        self.shards_done += shards
        self.pairs_done += pairs
        if self._due():
            self.write()

    def write(self) -> None:
        """Put the file; a store that refuses it (a full disk) is logged, since work goes on."""
        self.written = time.monotonic()
        key = f"progress/{self.model}/{self.session}.json"
        try:
            self.store.write_json(key, self.record())
        except RerankError as error:
            logging.getLogger(__name__).warning("progress is not written: %s", error)

    def record(self) -> dict[str, Any]:
        """The file's content; times in Unix seconds."""
        return {
            "suite": self.suite,
            "model": self.model,
            "state": self.state,
            "message": self.message,
            "shards_done": self.shards_done,
            "shards_total": self.shards_total,
            "pairs_done": self.pairs_done,
            "pairs_total": self.pairs_total,
            "started": self.started,
            "updated": time.time(),
            "submission_id": os.environ.get("RERANK_SUBMISSION_ID", ""),
            "host": platform.node(),
            "pid": os.getpid(),
            "tasks": list(self.tasks),
        }

    def _due(self) -> bool:
        return time.monotonic() - self.written >= WRITE_EVERY

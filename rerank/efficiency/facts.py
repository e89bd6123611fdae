"""What the report shows of efficiency: the frontier and the measurements that are on file."""

from __future__ import annotations

from typing import Any

from rerank.efficiency.results import newest
from rerank.store import Store
from rerank.suite.findings import Findings

FRONTIER_KEYS = {"suite", "measure", "cost", "unit", "confidence", "tasks"}

Record = dict[str, Any]


def frontier_key(suite: str) -> str:
    """Where a suite's frontier stands in the store."""
    return f"evaluations/{suite}/frontier.json"


def efficiency_facts(store: Store, findings: Findings) -> Record:
    """{"frontier", "measured", "notes"} of these runs alone, as JSON types.

    A frontier of other runs is left out, and a note says so: its quality would not be that of the
    report's tables.
    """
    notes = []
    frontier = store.read_record(frontier_key(findings.suite.name), FRONTIER_KEYS)
    if frontier is not None:
        kept = [task for task in frontier["tasks"] if _is_of(task, findings)]
        if len(kept) < len(frontier["tasks"]):
            notes.append("a frontier on file is of other runs; run rerank frontier again")
        frontier = {**frontier, "tasks": kept} if kept else None
    found = [
        newest(store, system.task, system.model, system.run.fingerprint)
        for system in findings.systems
    ]
    measured = [record for record in found if record is not None]
    return {"frontier": frontier, "measured": measured, "notes": notes}


def _is_of(task: Record, findings: Findings) -> bool:
    """Is every run of the frontier one of the report's?"""
    here = {(s.task, s.model): s.run.fingerprint for s in findings.systems}
    return all(here.get((task["task"], model)) == run for model, run in task["runs"].items())

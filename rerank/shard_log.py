"""Structured logs: one JSON line a shard on standard error, where RERANK_LOG=json asks for it."""

from __future__ import annotations

import json
import os
import sys
import time

from rerank.replay import FAILED, Outcome


def wanted() -> bool:
    """Does this process's environment ask for JSON lines?"""
    return os.environ.get("RERANK_LOG", "") == "json"


def write_line(outcome: Outcome, session: str) -> None:
    """One line on what became of a shard; written in one call, so that lines never mix."""
    sys.stderr.write(line(outcome, session) + "\n")
    sys.stderr.flush()


def line(outcome: Outcome, session: str) -> str:
    """The JSON of an outcome: run, shard, node, seconds, and why it failed."""
    _, task, model, fingerprint = outcome.job.split("/")
    facts = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "level": "error" if outcome.status == FAILED else "info",
        "event": "shard",
        "session": session,
        "run": fingerprint,
        "task": task,
        "model": model,
        "shard": outcome.shard,
        "status": outcome.status,
        "pairs": outcome.rows,
        "failed_pairs": outcome.failed_rows,
        "seconds": round(outcome.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in outcome.stages.items()},
        "node": outcome.node,
        "host": outcome.host,
        "message": outcome.message,
    }
    return json.dumps(facts, ensure_ascii=False)

"""What workers tell Prometheus, through the metrics of Ray (each node's metrics port).

Ray puts `ray_` before the names and `_total` after those of counters. Every series has the tags
`task` and `model`.
"""

from __future__ import annotations

from typing import Any

from rerank.replay import COMMITTED, Outcome

TAGS = ("task", "model")
# name -> (its own tag, what it counts)
COUNTERS: dict[str, tuple[str, str]] = {
    "rerank_pairs": ("", "candidate pairs scored"),
    "rerank_failed_pairs": ("", "pairs that were left without a score"),
    "rerank_tokens": ("", "tokens forwarded, without padding"),
    "rerank_oom_halvings": ("", "batches that were split in two for want of memory"),
    "rerank_shards": ("status", "shards by what became of them: committed, skipped, failed"),
    "rerank_stage_seconds": ("stage", "seconds of work by stage: read, encode, forward, write"),
}
TOKEN_BUDGET = "rerank_token_budget"


class WorkerMetrics:
    """The metrics of one worker process."""

    def __init__(self, model: str) -> None:
        from ray.util.metrics import Counter, Gauge

        self.model = model
        self.counters: dict[str, Any] = {
            name: Counter(name, description=text, tag_keys=(*TAGS, *([tag] if tag else [])))
            for name, (tag, text) in COUNTERS.items()
        }
        self.budget = Gauge(
            TOKEN_BUDGET, description="tokens of one batch, padding included", tag_keys=TAGS
        )

    def record(self, outcome: Outcome) -> None:
        """Count one outcome."""
        tags = {"task": outcome.job.split("/")[1], "model": self.model}
        for name, own, value in increments(outcome):
            if value > 0:
                self.counters[name].inc(value, {**tags, **own})
        if outcome.token_budget:
            self.budget.set(outcome.token_budget, tags)


def increments(outcome: Outcome) -> list[tuple[str, dict[str, str], float]]:
    """(counter, its own tag, by how much) for one outcome; a skipped shard's pairs are not ours."""
    scored = outcome.rows - outcome.failed_rows if outcome.status == COMMITTED else 0
    return [
        ("rerank_shards", {"status": outcome.status}, 1),
        ("rerank_pairs", {}, scored),
        ("rerank_failed_pairs", {}, outcome.failed_rows),
        ("rerank_tokens", {}, outcome.tokens),
        ("rerank_oom_halvings", {}, outcome.oom_halvings),
        *(("rerank_stage_seconds", {"stage": k}, v) for k, v in outcome.stages.items()),
    ]

"""What a run took, measured or from its receipts: seconds a query and worker seconds in all.

`rerank measure` times requests one by one. A receipt's seconds are those of one shard: the latency
of a request only where a shard is one query (a task frozen with `shard_pairs: 1`, replayed), since
in a bigger shard queries share batches. Whatever was not measured whole has no figure here, but the
reason why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rerank.efficiency.results import newest
from rerank.runs import Run

TIMES = ("started", "finished", "report", "deaths")  # of a receipt
LEAST = 72  # requests: of fewer, all may lie below the 95th percentile (0.95 ** 72 < 0.025)


class NotMeasured(Exception):  # noqa: N818  (it is a state, not a mistake)
    """There is no figure; the message says why and how to get one."""


def p95_latency(run: Run) -> tuple[float, int]:
    """95th percentile of the seconds a query took, and n.

    Of the requests of one client with all candidates where `rerank measure` timed enough of them;
    else of the receipts (reading a query's input and forwarding). NotMeasured where there is no
    measurement, and shards hold several queries or a shard was not scored in one go.
    """
    record = newest(run.store, run.task.name, run.model, run.fingerprint)
    for found in record["latency"] if record is not None and record["depth"] is None else ():
        if found["load"]["concurrency"] == 1 and found["n"] >= LEAST and not found["unanswered"]:
            return float(found["latency"]["p95"]["value"]), int(found["n"])
    receipts = timed_receipts(run)
    queries = [shard.queries for shard in run.task.shards]
    if max(queries, default=0) != 1:
        raise NotMeasured(
            "shards hold several queries, which share their batches; freeze the task with "
            "`shard_pairs: 1`, replay, and every query is timed on its own; or time requests with "
            "`rerank measure`"
        )
    seconds = [
        receipt["report"]["seconds_encode"] + receipt["report"]["seconds_forward"]
        for receipt in receipts
    ]
    return float(np.quantile(seconds, 0.95)), len(seconds)


def cost_per_thousand(run: Run, price_per_hour: float) -> tuple[float, int]:
    """Price of 1,000 queries at what one worker costs an hour, and the queries measured.

    Worker seconds are a shard's whole time: reading, encoding, forwarding, writing. NotMeasured
    where a shard was not scored in one go, or where a server was asked, which has its own bill.
    """
    receipts = timed_receipts(run)
    if any("requests" in receipt["report"].get("counts", {}) for receipt in receipts):
        raise NotMeasured(
            "its server sends its own bill, which a worker's hours say nothing about; leave it out "
            "of the rule's challengers and judge that bill"
        )
    queries = sum(shard.queries for shard in run.task.shards)
    seconds = sum(receipt["finished"] - receipt["started"] for receipt in receipts)
    return 1000 * seconds / queries * price_per_hour / 3600, queries


def timed_receipts(run: Run) -> Sequence[dict[str, Any]]:
    """Receipts whose times are those of the whole shard; NotMeasured where there is none, or one
    has no times or those of a part."""
    receipts = run.receipts()
    if not receipts:
        raise NotMeasured("there are no receipts; replay the run")
    for number, receipt in sorted(receipts.items()):
        if any(key not in receipt for key in TIMES):
            raise NotMeasured(
                f"the receipt of shard {number} has no times; remove the run's folder and replay"
            )
        if receipt["deaths"]:
            raise NotMeasured(
                f"shard {number} was taken up again after its process had died, so its times are "
                "those of a part; remove the run's folder and replay"
            )
    return [receipt for _, receipt in sorted(receipts.items())]

"""A run on disk: one model over one frozen task, shard by shard.

runs/TASK/MODEL/FINGERPRINT/
  run.json                        identity, circumstances, and the recipe as the workers had it
  scores/00007.ATTEMPT.parquet    the scores of a shard; garbage until a receipt names it
  receipts/00007.json             the commit point: names and hashes the score file
  failures/00007.json             why a shard has no receipt
  attempts/00007/                 the ledger of a shard in work
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from rerank.errors import FrozenDataError, IncompleteRun
from rerank.fingerprint import fingerprint, sha256_bytes
from rerank.frozen import FrozenTask, Shard
from rerank.schemas import check_table
from rerank.store import Store, table_from_bytes

RECEIPT_KEYS = {"shard", "fingerprint", "candidates", "file", "sha256", "rows", "failed", "worker"}
FAILURE_KEYS = {"kind", "message"}
POISONED = "poisoned"  # kind of failure that only --retry-failed takes up again
READERS = 16  # threads: a bucket answers each in tens of milliseconds
PART = 64  # shards that a thread takes at a time

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Run:
    """One model over one frozen task; `identity` is all that can change its scores."""

    store: Store
    task: FrozenTask
    model: str
    identity: dict[str, Any]

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint({"task": self.task.fingerprint, "model": self.identity})

    @cached_property
    def key(self) -> str:
        return f"runs/{self.task.name}/{self.model}/{self.fingerprint}"

    def receipt(self, shard: Shard) -> dict[str, Any] | None:
        """The shard's receipt if it is valid: same run, same candidates, score file intact."""
        return valid_receipt(self.store, self.key, self.fingerprint, shard)

    def receipts(self) -> dict[int, dict[str, Any]]:
        """Shard number -> valid receipt: the full check, which reads every receipt and score file.

        Whatever counts a run as complete rests on this, never on a listing.
        """
        checked = self.checked()
        return {number: receipt for number, receipt in checked.items() if receipt is not None}

    def checked(self, keep: Collection[str] | None = None) -> dict[int, dict[str, Any] | None]:
        """Shard number -> receipt, None where it is not valid, of the shards that a listing shows.

        keep: keys that are wanted of them, None for all; batch plans of very many shards are large.
        """
        there = self.listed()
        shards = [shard for shard in self.task.shards if shard.number in there]

        def kept(shard: Shard) -> dict[str, Any] | None:
            receipt = self.receipt(shard)
            if receipt is None or keep is None:
                return receipt
            return {key: value for key, value in receipt.items() if key in keep}

        numbers = [shard.number for shard in shards]
        return dict(zip(numbers, in_threads(kept, shards), strict=True))

    def listed(self) -> set[int]:
        """Shards with a receipt and a score file of theirs, by two listings and no reading.

        A replay starts by it: reading 100,000 receipts first would take minutes of a bucket.
        """
        receipts = set(self.store.files(f"{self.key}/receipts"))
        scored = {name.partition(".")[0] for name in self.store.files(f"{self.key}/scores")}
        return {
            shard.number
            for shard in self.task.shards
            if f"{shard.name}.json" in receipts and shard.name in scored
        }

    def failures(self) -> dict[int, dict[str, Any]]:
        """Shard number -> why it could not be scored, of those that a listing shows."""
        names = set(self.store.files(f"{self.key}/failures"))
        shards = [shard for shard in self.task.shards if f"{shard.name}.json" in names]
        read = zip(shards, in_threads(self._failure, shards), strict=True)
        return {shard.number: failure for shard, failure in read}

    def _failure(self, shard: Shard) -> dict[str, Any]:
        key = f"{self.key}/failures/{shard.name}.json"
        failure = self.store.read_record(key, FAILURE_KEYS)
        return failure or {"kind": "error", "message": f"unreadable record {self.store.where(key)}"}

    def missing(self) -> list[Shard]:
        """Shards without a receipt or a score file, by listing."""
        done = self.listed()
        return [shard for shard in self.task.shards if shard.number not in done]

    def todo(self) -> list[Shard]:
        """What a replay has to do: the missing shards that are not poisoned, longest first."""
        poisoned = self.all_poisoned()
        waiting = [shard for shard in self.missing() if shard.number not in poisoned]
        return sorted(waiting, key=lambda shard: (-shard.characters, shard.number))

    def all_poisoned(self) -> set[int]:
        """Shards that only --retry-failed takes up again."""
        return {number for number, found in self.failures().items() if found["kind"] == POISONED}

    def forget_failures(self, shards: Sequence[Shard] | None = None) -> int:
        """Take up again what failed: poisoned shards, and shards with failed rows. How many.

        shards: those that are meant, None for all.
        """
        receipts, failures = self.receipts(), self.failures()
        count = 0
        for shard in self.task.shards if shards is None else shards:
            failed_rows = shard.number in receipts and receipts[shard.number]["failed"] > 0
            if not (failed_rows or shard.number in failures):
                continue
            count += 1
            self.store.remove(f"{self.key}/failures/{shard.name}.json")
            if failed_rows:
                self.store.remove(f"{self.key}/receipts/{shard.name}.json")
            for name in self.store.files(f"{self.key}/attempts/{shard.name}"):
                self.store.remove(f"{self.key}/attempts/{shard.name}/{name}")
        return count

    def recipe(self, receipts: dict[int, dict[str, Any]]) -> dict[str, Any] | None:
        """What the workers read with: tokenizer, rendered prompt, limits; None if none told.

        FrozenDataError where two shards were read differently, as with another tokenizer on one of
        the nodes: the run is not one run.
        """
        found = {number: r["recipe"] for number, r in receipts.items() if "recipe" in r}
        if not found:
            return None
        (first, recipe), *others = found.items()
        for number, other in others:
            differing = sorted(k for k in {**recipe, **other} if recipe.get(k) != other.get(k))
            if differing:
                raise FrozenDataError(
                    f"run {self.model} on {self.task.name} ({self.fingerprint}): shards {first} "
                    f"and {number} were read with different {', '.join(differing)}; make the "
                    f"model's files equal on all nodes, remove {self.store.where(self.key)} and "
                    "replay"
                )
        return dict(recipe)

    def record_recipe(self, receipts: dict[int, dict[str, Any]]) -> None:
        """Write `recipe` of a complete run into its run.json."""
        recipe, key = self.recipe(receipts), f"{self.key}/run.json"
        if recipe is None or not self.store.exists(key):
            return
        record = self.store.read_json(key)
        if record.get("recipe") != recipe:
            self.store.write_json(key, {**record, "recipe": recipe})

    def scores(self) -> pa.Table:
        """All scores, sorted as the candidates are; IncompleteRun where a shard is missing."""
        receipts = self.receipts()
        self.require_complete(receipts)
        self.recipe(receipts)
        tables = [self.shard_scores(shard, receipts[shard.number]) for shard in self.task.shards]
        return pa.concat_tables(tables) if tables else check_table(_no_scores(), "scores", self.key)

    def shard_scores(self, shard: Shard, receipt: dict[str, Any]) -> pa.Table:
        """The scores of one shard; FrozenDataError where they are not the receipt's."""
        data = score_bytes(self.store, self.key, receipt)
        where = self.store.where(f"{self.key}/scores/{receipt['file']}")
        if data is None:
            raise FrozenDataError(f"{where} does not match its receipt; replay the run again")
        table = check_table(
            table_from_bytes(data, where).replace_schema_metadata(), "scores", where
        )
        if table.num_rows != shard.rows:
            raise FrozenDataError(f"{where} holds {table.num_rows} rows, its shard {shard.rows}")
        return table

    def require_complete(self, receipts: dict[int, dict[str, Any]] | None = None) -> None:
        """IncompleteRun with the missing shards and the command that finishes them."""
        done = self.receipts() if receipts is None else receipts
        missing = [shard.number for shard in self.task.shards if shard.number not in done]
        if missing:
            raise IncompleteRun(
                f"run {self.model} on {self.task.name} ({self.fingerprint}) lacks "
                f"{len(missing)} of {len(self.task.shards)} shards ({abbreviate(missing)}); "
                "finish it with the same `rerank run` or `rerank replay` command"
                + (", adding --retry-failed" if self.all_poisoned() else "")
            )


def valid_receipt(store: Store, run_key: str, print_: str, shard: Shard) -> dict[str, Any] | None:
    """The receipt of a shard if all that it claims is so, else None: the shard is not done.

    It must be of this run and these candidates, and its score file the one it names and hashes.
    """
    receipt = store.read_record(f"{run_key}/receipts/{shard.name}.json", RECEIPT_KEYS)
    if receipt is None:
        return None
    same = (receipt["fingerprint"], receipt["candidates"]) == (print_, shard.content)
    return receipt if same and score_bytes(store, run_key, receipt) is not None else None


def score_bytes(store: Store, run_key: str, receipt: dict[str, Any]) -> bytes | None:
    """The bytes of the score file that a receipt names; None where it is missing or another."""
    try:
        data = store.read(f"{run_key}/scores/{receipt['file']}")
    except FileNotFoundError:
        return None
    return data if sha256_bytes(data) == receipt["sha256"] else None


def in_threads(question: Callable[[Shard], Answer], shards: Sequence[Shard]) -> list[Answer]:
    """`question` of every shard, in their order, a bounded number at a time."""

    def of_some(some: Sequence[Shard]) -> list[Answer]:
        return [question(shard) for shard in some]

    parts = [shards[start : start + PART] for start in range(0, len(shards), PART)]
    pool = ThreadPoolExecutor(READERS, "reader")
    try:
        return [answer for answers in pool.map(of_some, parts) for answer in answers]
    finally:
        pool.shutdown(cancel_futures=True)  # an error or Ctrl-C does not wait for the rest


def abbreviate(numbers: list[int], limit: int = 8) -> str:
    """`3, 5, 9 … and 4 more`."""
    shown = ", ".join(str(number) for number in numbers[:limit])
    return shown + (f" … and {len(numbers) - limit} more" if len(numbers) > limit else "")


def _no_scores() -> pa.Table:
    from rerank.schemas import SCHEMAS

    return SCHEMAS["scores"].empty_table()

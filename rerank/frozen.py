"""A frozen task on disk: its manifest, its shards, and the check that nobody changed them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from rerank.errors import ConfigError, FrozenDataError
from rerank.fingerprint import fingerprint, sha256_bytes, sha256_rows
from rerank.node_cache import cached
from rerank.records import QueryGroup
from rerank.schemas import check_table
from rerank.store import Store, table_from_bytes

MANIFEST_KEYS = {
    "task",
    "fingerprint",
    "recipe_fingerprint",
    "identity",
    "shards",
    "files",
    "counts",
}

CANDIDATES = "candidates"  # folder of the shards, below the task's
MANY_SHARDS = 1000  # of a local store: so many are read and hashed before a replay starts


@dataclass(frozen=True)
class Shard:
    """Whole queries of a task, in one file."""

    number: int
    file: str  # below the task's folder
    rows: int
    queries: int
    characters: int  # of all documents: what "longest first" sorts by
    content: str  # digest of the rows, enters the task's identity
    sha256: str  # digest of the file, finds tampering

    @property
    def name(self) -> str:
        return f"{self.number:05d}"


@dataclass(frozen=True)
class FrozenTask:
    """One frozen task. Texts and judgments are read, and checked, when asked for."""

    store: Store
    folder: str
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["task"])

    @property
    def fingerprint(self) -> str:
        return str(self.manifest["fingerprint"])

    @property
    def counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = self.manifest["counts"]
        return counts

    @cached_property
    def shards(self) -> list[Shard]:
        return [Shard(**facts) for facts in self.manifest["shards"]]

    @cached_property
    def queries(self) -> pa.Table:
        return self._side_table("queries")

    @cached_property
    def judgments(self) -> pa.Table:
        return self._side_table("judgments")

    def candidates(self, shard: Shard) -> pa.Table:
        """The rows of a shard; FrozenDataError where the file is not the one that was frozen."""
        key = f"{self.folder}/{shard.file}"
        data, where = candidate_bytes(self.store, key, shard.sha256), self.store.where(key)
        return check_table(table_from_bytes(data, where), "candidates", where)

    def verify(self) -> None:
        """FrozenDataError names the first file that is missing or differs from its digest.

        Of a remote store, and of more than MANY_SHARDS, the shards are only listed: whoever scores
        one checks it then, and a driver need not read them all before anything starts.
        """
        for name, digest in self.manifest["files"].items():
            checked_bytes(self.store, f"{self.folder}/{name}", digest)
        folder = f"{self.folder}/{CANDIDATES}"
        there = set(self.store.files(folder))
        only_list = not self.store.is_local or len(self.shards) > MANY_SHARDS
        for shard in self.shards:
            key = f"{self.folder}/{shard.file}"
            if shard.file.removeprefix(f"{CANDIDATES}/") not in there:
                raise _missing(self.store, key)
            if not only_list:
                checked_bytes(self.store, key, shard.sha256)

    def _side_table(self, name: str) -> pa.Table:
        key = f"{self.folder}/{name}.parquet"
        data = checked_bytes(self.store, key, self.manifest["files"][f"{name}.parquet"])
        where = self.store.where(key)
        table = check_table(table_from_bytes(data, where), name, where)
        return check_content(table, self.manifest["identity"][name], where)


def checked_bytes(store: Store, key: str, digest: str) -> bytes:
    """The bytes at `key` if their sha256 is `digest`; FrozenDataError if not."""
    try:
        data = store.read(key)
    except FileNotFoundError as error:
        raise _missing(store, key) from error
    found = sha256_bytes(data)
    if found != digest:
        raise FrozenDataError(
            f"{store.where(key)} was changed after freezing (sha256 {found[7:19]}…, frozen as "
            f"{digest[7:19]}…); restore the file, or remove its folder and freeze again"
        )
    return data


def candidate_bytes(store: Store, key: str, digest: str) -> bytes:
    """`checked_bytes` of a shard; of a remote store they are fetched once a node."""
    if store.is_local:
        return checked_bytes(store, key, digest)
    return cached(digest, lambda: checked_bytes(store, key, digest))


def _missing(store: Store, key: str) -> FrozenDataError:
    return FrozenDataError(
        f"{store.where(key)} is missing; remove its folder and run `rerank freeze` again"
    )


def query_groups(table: pa.Table) -> Iterator[QueryGroup]:
    """The shard's queries, in file order, each with its candidates."""
    columns = [
        table[name].to_pylist() for name in ("query_id", "query", "doc_id", "document", "rank")
    ]
    ids, queries, doc_ids, documents, ranks = columns
    start = 0
    for stop in range(1, len(ids) + 1):
        if stop == len(ids) or ids[stop] != ids[start]:
            span = slice(start, stop)
            yield QueryGroup(
                query_id=ids[start],
                query=queries[start],
                doc_ids=tuple(doc_ids[span]),
                documents=tuple(documents[span]),
                ranks=tuple(ranks[span]),
            )
            start = stop


def content_digest(table: pa.Table) -> str:
    """Digest of a table's rows: the same whatever wrote the Parquet file."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for batch in table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                yield tuple(row.values())

    return sha256_rows(rows())


def check_content(table: pa.Table, digest: str, where: str) -> pa.Table:
    """`table` if its rows are those of the task's identity: file digests alone can be edited."""
    if content_digest(table) != digest:
        raise FrozenDataError(
            f"{where} holds other rows than were frozen, although its file digest was made to "
            "agree; restore it, or remove its folder and freeze again"
        )
    return table


def frozen_key(task: str, print_: str) -> str:
    return f"frozen/{task}/{print_}"


def open_frozen(store: Store, task: str, print_: str) -> FrozenTask:
    """The frozen task of that fingerprint, its manifest checked against it."""
    folder = frozen_key(task, print_)
    manifest = store.read_json(f"{folder}/manifest.json")
    if not isinstance(manifest, dict) or not manifest.keys() >= MANIFEST_KEYS:
        raise FrozenDataError(
            f"{store.where(folder)}/manifest.json is not a manifest; restore it, or remove its "
            "folder and freeze again"
        )
    if fingerprint(manifest["identity"]) != print_ or manifest["fingerprint"] != print_:
        raise FrozenDataError(
            f"{store.where(folder)}/manifest.json does not hash to {print_}: it was changed after "
            "freezing; restore it, or remove its folder and freeze again"
        )
    contents = [facts["content"] for facts in manifest["shards"]]
    if contents != manifest["identity"]["candidates"]:
        raise FrozenDataError(
            f"{store.where(folder)}/manifest.json lists other shards than its identity; "
            "restore it, or remove its folder and freeze again"
        )
    return FrozenTask(store, folder, manifest)


def all_frozen(store: Store, task: str) -> list[FrozenTask]:
    """Every complete freeze of a task, sorted by fingerprint."""
    return [
        open_frozen(store, task, print_)
        for print_ in store.folders(f"frozen/{task}")
        if store.exists(f"{frozen_key(task, print_)}/manifest.json")
    ]


def find_frozen(store: Store, task: str, *, recipe: str) -> FrozenTask | None:
    """The freeze made by that recipe (spec and source digests), if the store holds it."""
    found = [
        item for item in all_frozen(store, task) if item.manifest["recipe_fingerprint"] == recipe
    ]
    return found[0] if found else None


def remember(store: Store, task: FrozenTask) -> None:
    """Note the freeze that a task file last came to, for verbs that do not read its source."""
    key = _pointer(task.name, task.manifest["identity"]["recipe"]["spec"])
    value = {"fingerprint": task.fingerprint}
    if store.read_record(key, {"fingerprint"}) != value:
        store.write_json(key, value)


def _pointer(task: str, spec_identity: dict[str, Any]) -> str:
    return f"frozen/{task}/current/{fingerprint(spec_identity)}.json"


def current_frozen(store: Store, task: str, spec_identity: dict[str, Any]) -> FrozenTask:
    """The freeze that a task file last came to, without reading its source again.

    ConfigError where there is none, or where the store cannot know which is meant.
    """
    pointer = store.read_record(_pointer(task, spec_identity), {"fingerprint"})
    if pointer is not None:
        return open_frozen(store, task, pointer["fingerprint"])
    found = [
        item
        for item in all_frozen(store, task)
        if item.manifest["identity"]["recipe"]["spec"] == spec_identity
    ]
    if not found:
        raise ConfigError(f"task '{task}' is not frozen in {store.root}; run `rerank freeze` first")
    if len(found) > 1:
        raise ConfigError(
            f"task '{task}' is frozen {len(found)} times from different sources "
            f"({', '.join(item.fingerprint for item in found)}); remove the ones you do not mean "
            f"from {store.where(f'frozen/{task}')}"
        )
    return found[0]

"""The attempt ledger: what keeps a shard that kills its process from killing the job for ever.

A worker writes an attempt file before it touches a shard and removes it when the shard ended, well
or with an error. An attempt file that outlives its process is a death. From the first death on
the shard is worked with a journal: before each batch the worker notes which inputs it is about
to forward, and afterwards what came out. So the next attempt goes on where the last one died:

    death 1  nothing known          -> same batches again, with a journal
    death 2  in a batch             -> the inputs of that batch one by one
    death 3  on one input alone     -> the same once more: not every death is an input's doing
    death 5  the third time so      -> that input fails, everything else is scored

A death is charged only where the input can be to blame. When a driver is killed, its Ray actors
die with it; those attempts are other sessions' and are set aside. In the inline engine driver and
worker are one process, so its deaths count across sessions. A process that went with its node, as
on a spot machine that was taken back, is no death of the shard's making either: it is counted
apart, in `lost`, so that what takes a whole node down each time still comes to an end.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rerank.fingerprint import fingerprint
from rerank.store import Store

MAX_DEATHS = 12  # of its processes after which a shard is given up until --retry-failed
DEATHS_ALONE = 3  # fewer may be anybody's: the kernel's when memory is short, an operator's
OWNER_KEYS = {"session", "engine", "host", "pid", "started"}


@dataclass(frozen=True)
class Session:
    """One driver process: `id` is its own, `engine` says whether workers share its process."""

    id: str
    engine: str  # inline | ray

    @staticmethod
    def new(engine: str) -> Session:
        return Session(uuid.uuid4().hex[:12], engine)


def no_node_lost(node: str) -> bool:
    """Where there are no nodes, none is lost."""
    return False


class Attempt:
    """One try at one shard. Also the `Journal` of the scoring loop, once a death is on record.

    node: where this process runs, as the engine calls it; lost: is a node of that name gone?
    """

    def __init__(
        self,
        store: Store,
        run_key: str,
        shard: str,
        session: Session,
        node: str = "",
        lost: Callable[[str], bool] = no_node_lost,
    ) -> None:
        self.store = store
        self.folder = f"{run_key}/attempts/{shard}"
        self.id = uuid.uuid4().hex[:12]
        self.session = session
        self.node = node
        self.node_lost = lost
        self.charged: set[str] = set()  # attempts whose deaths count
        self.lost = 0  # attempts that went with their node
        self._judge_deaths()
        self.deaths = len(self.charged)
        self.crumbs = self._read("doing") if self.deaths else []
        self.results = {
            key: value
            for entry in self._read("done")
            if isinstance(entry, dict)
            for key, value in entry.items()
        }
        self._write("attempt", self._owner())

    def end(self) -> None:
        """The shard ended without a death: this attempt no longer counts."""
        for kind in ("doing", "attempt"):
            self.store.remove(f"{self.folder}/{self.id}.{kind}.json")

    def clear(self) -> None:
        """The shard is committed: its whole ledger goes."""
        for name in self.store.files(self.folder):
            self.store.remove(f"{self.folder}/{name}")

    # the journal ---------------------------------------------------------------------------

    def recall(self, batch: tuple[str, ...]) -> list[np.ndarray | str | None] | None:
        """Outputs of exactly this batch, if an earlier attempt finished it."""
        entry = self.results.get(_batch_key(batch))
        if entry is None:
            return None
        return [
            np.asarray(value, dtype=np.float32) if isinstance(value, list) else value
            for value in entry
        ]

    def suspects(self, batch: tuple[str, ...]) -> bool:
        """Did a process die while it forwarded these inputs together?"""
        return len(batch) > 1 and list(batch) in self.crumbs

    def doomed(self, item: str) -> bool:
        """Did processes die, time and again, while they forwarded this input alone?"""
        return self.crumbs.count([item]) >= DEATHS_ALONE

    def begin(self, items: tuple[str, ...]) -> None:
        """Durable note, before the forward, of what is about to be forwarded."""
        self._write("doing", list(items))

    def finish(self, batch: tuple[str, ...], outputs: Sequence[np.ndarray | str | None]) -> None:
        """Durable outputs of a batch; fp32 values survive JSON exactly (shortest repr)."""
        values = [
            value.astype(np.float64).tolist() if isinstance(value, np.ndarray) else value
            for value in outputs
        ]
        key = _batch_key(batch)
        self._write("done", {key: values}, name=f"{key}.done")

    # files -----------------------------------------------------------------------------------

    def _owner(self) -> dict[str, Any]:
        return {
            "session": self.session.id,
            "engine": self.session.engine,
            "node": self.node,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": process_start(os.getpid()),
        }

    def _judge_deaths(self) -> None:
        """Charge what died. A verdict is looked at again: a node may be known as lost only later,
        since its processes die before it does."""
        ended = {".attempt.json": self._bury, ".dead.json": self._load}
        for name in self.store.files(self.folder):
            attempt, _, kind = name.partition(".")
            owner = ended.get(f".{kind}", _nothing)(name)
            if owner is None:
                continue
            if isinstance(owner, dict) and self.node_lost(str(owner.get("node", ""))):
                self.lost += 1
            else:
                self.charged.add(attempt)

    def _bury(self, name: str) -> dict[str, Any] | None:
        """The owner of an attempt that died and whose shard may be to blame; None if it did not.

        Its file becomes that of a death, or goes where the shard cannot be to blame.
        """
        owner = self._load(name)
        if not isinstance(owner, dict) or not owner.keys() >= OWNER_KEYS or self._alive(owner):
            return None
        attempt = name.partition(".")[0]
        to_blame = owner["session"] == self.session.id or owner["engine"] == "inline"
        if to_blame:
            self._write("dead", owner, name=f"{attempt}.dead")
        else:
            self.store.remove(f"{self.folder}/{attempt}.doing.json")
        self.store.remove(f"{self.folder}/{name}")
        return owner if to_blame else None

    def _alive(self, owner: dict[str, Any]) -> bool:
        """A process elsewhere is taken for alive unless this session itself started it."""
        if owner["host"] != socket.gethostname():
            return bool(owner["session"] != self.session.id)
        return bool(process_start(owner["pid"]) == owner["started"] != "")

    def _read(self, kind: str) -> list[Any]:
        """The files of one kind; notes count only where the death of their attempt does."""
        found = []
        for name in self.store.files(self.folder):
            if not name.endswith(f".{kind}.json"):
                continue
            if kind == "doing" and name.split(".")[0] not in self.charged:
                continue
            value = self._load(name)
            if value is not None:
                found.append(value)
        return found

    def _load(self, name: str) -> Any:
        """A file that a worker on the same shard may remove at any moment: None if it did."""
        try:
            return json.loads(self.store.read(f"{self.folder}/{name}"))
        except (FileNotFoundError, ValueError):
            return None

    def _write(self, kind: str, value: Any, name: str | None = None) -> None:
        self.store.write(
            f"{self.folder}/{name or f'{self.id}.{kind}'}.json", json.dumps(value).encode()
        )


def _nothing(name: str) -> None:
    return None


def _batch_key(batch: Sequence[str]) -> str:
    return fingerprint(list(batch))


def process_start(pid: int) -> str:
    """When a process of this host started (clock ticks since boot), '' if there is none.

    Tells a process from another that later got the same number. A zombie counts as gone.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return _process_start_elsewhere(pid)
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def _process_start_elsewhere(pid: int) -> str:
    """Systems without /proc (macOS): only whether the process lives is known."""
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"
    return "alive"

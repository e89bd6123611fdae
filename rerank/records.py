"""The records that the floors hand to each other: a model, what it scores, what it gives back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class ModelSpec:
    """One reranker as its YAML file states it (configs/models/NAME.yaml).

    `params` is the frozen dataclass of the adapter's own settings (a row of `ADAPTERS` names it).
    `max_length` counts tokens of the whole model input; None takes the model's own limit.
    """

    name: str
    adapter: str
    weights: str = ""  # hub id, local folder, or a name inside `weights_from`
    weights_from: str = (
        "auto"  # auto (folder if it exists, else hub) | hub | folder | a package source
    )
    revision: str = ""  # hub commit; a folder's revision is the digest of its files
    licence: str = ""
    description: str = ""
    # verified | unverified: was the scoring recipe checked against its source? Only who wrote the
    # file can say so
    recipe: str = "unverified"
    max_length: int | None = None
    dtype: str = "auto"  # auto | float32 | bfloat16 | float16
    attention: str = "auto"  # auto | eager | sdpa | flash_attention_2
    trust_code: bool = False  # run Python code that comes with the model
    pickled_weights: bool = False  # also load *.bin files, tensors only; else safetensors alone
    tokenizer_ids: str = (
        ""  # "sha256:..." of the ids of fixed texts; any other tokenizer is refused
    )
    device: str = "auto"  # auto | cpu | cuda
    num_gpus: float = 1.0  # per actor, where the device is cuda
    num_cpus: float = 1.0  # per actor
    memory_gib: float | None = None  # main memory an actor reserves on a cluster; None: nothing
    # custom resources that an actor asks for on a cluster, by name
    resources: dict[str, float] = field(default_factory=dict)
    accelerator: str = ""  # kind of GPU asked for, as Ray's node label has it: L4, A100, H100
    parameters: float | None = None  # of the model, in billions: what "small first" sorts by
    params: Any = None


@dataclass(frozen=True)
class Placement:
    """What `auto` for device, dtype and attention came to; the last two enter the identity."""

    device: str  # cpu | cuda
    dtype: str  # float32 | bfloat16 | float16
    attention: str  # eager | sdpa | flash_attention_2 | none (weightless models)


@dataclass(frozen=True)
class QueryGroup:
    """One query with its candidates in stage-1 order; all sequences are parallel."""

    query_id: str
    query: str
    doc_ids: tuple[str, ...]
    documents: tuple[str, ...]
    ranks: tuple[int, ...]  # 1-based stage-1 rank

    def __len__(self) -> int:
        return len(self.doc_ids)


@dataclass(frozen=True)
class Item:
    """One model input: what a single row of a batch holds.

    `tokens` is the length the model sees, `truncated` whether text was cut to reach it. `payload`
    belongs to the adapter (token ids, for example) and never leaves it. Items of one `share` begin
    with the same `shared_tokens` tokens, which their adapter computes once for all of them that
    are forwarded together.
    """

    payload: Any
    tokens: int
    truncated: bool
    label: str  # for error messages: "query q1, document d7"
    failure: str | None = None  # set where the adapter refuses this input: it is never forwarded
    share: Hashable = None
    shared_tokens: int = 0


@dataclass(frozen=True)
class GroupScores:
    """Scores of one QueryGroup, aligned with its documents.

    scores: (n,) float64 holding raw fp32 margins or logits, NaN where `failures` says why;
    tokens: (n,) int32; truncated: (n,) bool; counts: what the adapter counts on the way, such as
    {"windows": 9, "fallbacks": 1}, summed over the shard into its receipt.
    """

    scores: np.ndarray
    tokens: np.ndarray
    truncated: np.ndarray
    failures: tuple[str | None, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


Rows = np.ndarray | Sequence[np.ndarray | str]


class Scorer(Protocol):
    """A loaded model. The loop in `rerank.scoring` owns batching, out-of-memory and order.

    encode:  groups -> items, the distinct model inputs (pairs, or texts that several pairs share);
    forward: items -> one float32 row an item, any batch composition: an (n_items, width) array, or
             a list of (width,) arrays of any widths, a string in place of a row saying why the
             input has none;
    combine: groups + one output row per item (None where the item failed) -> GroupScores a group.
    """

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]: ...

    def forward(self, items: Sequence[Item]) -> Rows: ...

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]: ...

    def describe(self) -> dict[str, Any]:
        """Circumstances for run.json: tokenizer digest, prompt hash, library facts."""
        ...


@runtime_checkable
class Segmented(Protocol):
    """A scorer whose pairs are independent: whole queries of about `segment_pairs` pairs are
    encoded at a time, the next ones while the model forwards."""

    segment_pairs: int


@runtime_checkable
class Filled(Protocol):
    """A scorer whose longest input holds several documents of a query: how many, for probing."""

    probe_documents: int


@runtime_checkable
class Costly(Protocol):
    """A scorer whose outputs cost money: every batch is written down at once, so that a shard that
    fails later asks for none of them again, in whatever process it is taken up."""

    costs_money: bool


@runtime_checkable
class Advancing(Protocol):
    """A scorer that goes through its inputs in rounds, each made from what the last one gave."""

    def advance(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[Item]:
        """The next round's items, none where all is done. All rounds' items so far come in, and
        all come to `combine`."""
        ...


@dataclass(frozen=True)
class LoadedWeights:
    """Where a model's files lie on this machine and what identifies them."""

    folder: str
    revision: str  # hub commit, or "sha256:..." of the files
    origin: str = field(default="", compare=False)

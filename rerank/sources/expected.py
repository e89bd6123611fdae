"""Counts that a task's file expects of its source: checked before anything is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rerank.errors import ConfigError, InputError, unknown_name
from rerank.files.formats import Judgment
from rerank.sources.collection import Collection
from rerank.tasks import TaskSpec


@dataclass(frozen=True)
class Counts:
    """What is counted, of a split or of the whole task. None: the source does not hold it."""

    queries: int  # judged ones; all where the source brings candidates
    documents: int | None  # of the corpus
    judgments: int  # judged pairs, grade 0 too
    relevant: int  # judged pairs with a grade from 1
    candidates: int | None = None  # pairs that the source brings

    @classmethod
    def of(
        cls,
        judgments: list[Judgment],
        *,
        queries: int | None = None,
        documents: int | None = None,
        candidates: int | None = None,
    ) -> Counts:
        """Counted from judgments; `queries` where not only judged ones are evaluated."""
        return cls(
            queries=len({row.query_id for row in judgments}) if queries is None else queries,
            documents=documents,
            judgments=len(judgments),
            relevant=sum(row.grade >= 1 for row in judgments),
            candidates=candidates,
        )


KINDS = tuple(Counts.__dataclass_fields__)


def expected_counts(spec: TaskSpec) -> dict[str, dict[str, int]]:
    """Split ("" for the whole task) -> kind -> count; ConfigError for what is no such thing."""
    whole: dict[str, int] = {}
    found: dict[str, dict[str, int]] = {"": whole}
    for key, value in spec.expected.items():
        if key in spec.splits and isinstance(value, dict):
            found[key] = {kind: _count(spec, kind, value[kind]) for kind in value}
        else:
            whole[key] = _count(spec, key, value)
    return {split: counts for split, counts in found.items() if counts}


def _count(spec: TaskSpec, kind: object, value: object) -> int:
    if kind not in KINDS:
        raise unknown_name(f"count in expected of task '{spec.name}'", str(kind), KINDS)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"task '{spec.name}': expected {kind} must be an integer, is {value!r}")
    return value


def expected_queries(spec: TaskSpec) -> int | None:
    """Queries of the task as its file expects them, over all splits; None where it does not say."""
    counts = expected_counts(spec)
    if "queries" in counts.get("", {}):
        return counts[""]["queries"]
    parts = [counts.get(split, {}).get("queries") for split in spec.splits]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def check_counts(spec: TaskSpec, found: Mapping[str, Counts]) -> None:
    """InputError for the first difference: which count, expected and found, in which split."""
    for split, counts in expected_counts(spec).items():
        if split and split not in found:
            raise ConfigError(
                f"task '{spec.name}': expected counts of split '{split}', but source "
                f"{spec.source} does not count by split; write them without the split"
            )
        there = asdict(found[split])
        for kind, number in counts.items():
            if there[kind] != number:
                place = f"split '{split}'" if split else f"split '{', '.join(spec.splits)}'"
                where = f", {place}" if spec.splits else ""
                raise InputError(
                    f"task '{spec.name}'{where}: {number:,} {kind} expected and "
                    f"{_number(there[kind])} found; get the revision that the task pins, or change "
                    "expected in its YAML if the data are right"
                )


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def counts_of(collection: Collection) -> Counts:
    """Counts of a whole collection."""
    lists = collection.candidates
    return Counts.of(
        collection.judgments,
        queries=len(collection.queries) if lists is not None else None,
        documents=len(collection.documents) or _candidate_documents(collection),
        candidates=None if lists is None else sum(map(len, lists.values())),
    )


def _candidate_documents(collection: Collection) -> int | None:
    if collection.candidates is None:
        return None
    return len({row.doc_id for rows in collection.candidates.values() for row in rows})

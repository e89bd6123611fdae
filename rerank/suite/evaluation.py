"""Evaluate: scores of a complete run become values per query, with what a reader must know beside.

A pair without a score ranks behind every pair with one, and is counted; a judged query without
candidates is worth 0 and is counted. Nothing disappears from a mean without being named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import metrics
from rerank.errors import ConfigError, FrozenDataError
from rerank.frozen import FrozenTask, Shard
from rerank.runs import Run
from rerank.schemas import table_of
from rerank.suite import query_properties
from rerank.suite.slices import (
    COMPUTED_SLICES,
    Members,
    Stated,
    parts_of,
    slice_members,
    stated_attributes,
)
from rerank.suite.suites import SuiteSpec

# what is read of receipts beside the scores: machines, times, what was read and counted
RECEIPT_FACTS = ("worker", "recipe", "report", "rows", "deaths", "started", "finished")


@dataclass(frozen=True)
class TaskView:
    """What evaluation needs of a frozen task, without documents: judgments, ranks, weights."""

    task: FrozenTask
    judgments: metrics.Judgments
    query_ids: np.ndarray  # object, one an evaluated query, sorted by bytes
    weights: np.ndarray  # float64, aligned with query_ids
    candidate_queries: np.ndarray  # object, one a candidate row
    candidate_docs: np.ndarray  # object
    ranks: np.ndarray  # int64, 1-based stage-1 rank
    injected: np.ndarray  # bool
    document_lengths: np.ndarray  # int64, characters

    @cached_property
    def texts(self) -> dict[str, str]:
        """Query id -> text, for the report."""
        table = self.task.queries
        return dict(zip(table["query_id"].to_pylist(), table["query"].to_pylist(), strict=True))

    @cached_property
    def attributes(self) -> dict[str, dict[str, str]]:
        """Query id -> attribute -> value; a query's own attributes alone, not its judgments'."""
        table = self.task.queries
        pairs = map(dict, table["attributes"].to_pylist())
        return dict(zip(table["query_id"].to_pylist(), pairs, strict=True))

    @cached_property
    def stated(self) -> list[Stated]:
        """The attributes of queries and judgments, for slices."""
        return stated_attributes(self.task.queries, self.task.judgments)

    @cached_property
    def properties(self) -> dict[str, np.ndarray]:
        """What is computed of each query for slices: name -> (n_queries,) int64, as query_ids."""
        ids = self.query_ids.tolist()
        relevant = query_properties.relevant_candidates(
            self.candidate_queries, self.candidate_docs, self.judgments
        )
        found = relevant & ~self.injected
        return {
            "query_length": np.array([len(self.texts[query]) for query in ids], dtype=np.int64),
            "gold_rank": query_properties.best_ranks(
                ids, self.candidate_queries[found].tolist(), self.ranks[found]
            ),
            "relevant": query_properties.relevant_counts(ids, self.judgments),
            "document_length": query_properties.mean_lengths(
                ids, self.candidate_queries[relevant].tolist(), self.document_lengths[relevant]
            ),
        }


def view_task(task: FrozenTask) -> TaskView:
    """Read a frozen task's judgments, query weights and candidate ids."""
    tables = [_without_texts(task, shard) for shard in task.shards]
    rows = pa.concat_tables(tables) if tables else None
    judged = task.judgments
    return TaskView(
        task=task,
        judgments=metrics.Judgments(
            query_ids=_objects(judged["query_id"]),
            doc_ids=_objects(judged["doc_id"]),
            grades=judged["grade"].to_numpy().astype(np.float64),
        ),
        query_ids=_objects(task.queries["query_id"]),
        weights=task.queries["weight"].to_numpy().astype(np.float64),
        candidate_queries=_objects(rows["query_id"]) if rows else np.empty(0, dtype=object),
        candidate_docs=_objects(rows["doc_id"]) if rows else np.empty(0, dtype=object),
        ranks=_integers(rows["rank"]) if rows else np.empty(0, dtype=np.int64),
        injected=_bools(rows["injected"]) if rows else np.empty(0, dtype=bool),
        document_lengths=_integers(rows["length"]) if rows else np.empty(0, dtype=np.int64),
    )


def _without_texts(task: FrozenTask, shard: Shard) -> pa.Table:
    """The shard's rows with the length of each document instead of its text."""
    table = task.candidates(shard)
    lengths = pc.utf8_length(table["document"])
    kept = table.select(["query_id", "doc_id", "rank", "injected"])
    return kept.append_column("length", lengths)


@dataclass(frozen=True)
class SystemEvaluation:
    """One model on one task: values per query and the counts that qualify them."""

    run: Run
    view: TaskView
    evaluation: metrics.Evaluation
    scored: metrics.Run  # what was evaluated
    failed_pairs: int
    failed_queries: frozenset[str]  # queries with at least one pair without a score
    truncated_pairs: int
    truncated_queries: frozenset[str]
    pairs: int

    @cached_property
    def receipts(self) -> list[dict[str, Any]]:
        """The run's receipts, read and verified once; without batch plans, which are large."""
        checked = self.run.checked(RECEIPT_FACTS)
        return [receipt for receipt in checked.values() if receipt is not None]

    @property
    def task(self) -> str:
        return self.run.task.name

    @property
    def model(self) -> str:
        return self.run.model

    @property
    def query_ids(self) -> tuple[str, ...]:
        return self.evaluation.query_ids

    def values(self, measure: str) -> np.ndarray:
        """(n_queries,) float64, aligned with `query_ids`."""
        return np.asarray(self.evaluation.values[measure], dtype=np.float64)

    @cached_property
    def weights(self) -> np.ndarray:
        """Traffic weights aligned with `query_ids`."""
        known = dict(zip(self.view.query_ids.tolist(), self.view.weights.tolist(), strict=True))
        return np.array([known[query_id] for query_id in self.query_ids], dtype=np.float64)

    @cached_property
    def valid(self) -> np.ndarray:
        """bool: queries whose every pair has a score."""
        return np.array([query not in self.failed_queries for query in self.query_ids], dtype=bool)

    @cached_property
    def _places(self) -> np.ndarray:
        """Where each of `query_ids` stands in the view: a query may have been left out."""
        places = {query_id: index for index, query_id in enumerate(self.view.query_ids.tolist())}
        return np.array([places[query_id] for query_id in self.query_ids], dtype=np.int64)

    @cached_property
    def properties(self) -> dict[str, np.ndarray]:
        """The view's numbers of each query, and what this system made of it: (n_queries,) int64."""
        cut = [query in self.truncated_queries for query in self.query_ids]
        return {
            **{name: found[self._places] for name, found in self.view.properties.items()},
            "truncated": np.array(cut, dtype=np.int64),
            "tied": (self.evaluation.tied_share > 0).astype(np.int64),
        }

    def slices(self, attributes: Sequence[str]) -> Members:
        """Members of every slice that has any; `truncated` and `tied` are this system's own."""
        asked = {part for name in attributes for part in parts_of(name)}
        computed = self.properties if asked & COMPUTED_SLICES.keys() else {}
        return slice_members(self.query_ids, self.view.stated, attributes, computed)

    def clusters(self, attribute: str) -> np.ndarray | None:
        """(n_queries,) object: each query's value of the attribute; None for no attribute.

        ConfigError names a query without it: it would belong to no cluster.
        """
        if not attribute:
            return None
        stated = self.view.attributes
        missing = [query for query in self.query_ids if attribute not in stated[query]]
        if missing:
            raise ConfigError(
                f"task '{self.task}': query '{missing[0]}' has no attribute '{attribute}', by "
                f"which `clusters` groups queries ({len(missing)} of {len(self.query_ids)} lack "
                "it); add it to the queries and the task's query_attributes, or leave clusters out"
            )
        return np.array([stated[query][attribute] for query in self.query_ids], dtype=object)


def evaluate_run(run: Run, view: TaskView, suite: SuiteSpec) -> SystemEvaluation:
    """Values of the suite's measures for one complete run; IncompleteRun where it is not."""
    scores = run.scores()
    query_ids, doc_ids = _objects(scores["query_id"]), _objects(scores["doc_id"])
    check_alignment(run, view, query_ids, doc_ids)
    failed = _bools(pc.is_valid(scores["failure"]))
    truncated = _bools(scores["truncated"])
    values = scores["score"].to_numpy(zero_copy_only=False).astype(np.float64)
    # a query of which no pair has a score has no order to measure: it counts as missing, 0
    scored = set(query_ids[~failed].tolist())
    kept = np.array([query_id in scored for query_id in query_ids], dtype=bool)
    ranked = metrics.Run(
        query_ids=view.candidate_queries[kept],  # the view's strings: all systems share them
        doc_ids=view.candidate_docs[kept],
        scores=values[kept],
        positions=view.ranks[kept],
    )
    evaluation = metrics.evaluate(
        ranked, view.judgments, evaluated_measures(suite), conventions_of(suite)
    )
    return SystemEvaluation(
        run=run,
        view=view,
        evaluation=evaluation,
        scored=ranked,
        failed_pairs=int(failed.sum()),
        failed_queries=frozenset(query_ids[failed].tolist()),
        truncated_pairs=int(truncated.sum()),
        truncated_queries=frozenset(query_ids[truncated].tolist()),
        pairs=len(values),
    )


def conventions_of(suite: SuiteSpec) -> metrics.Conventions:
    """How odd input counts: as the suite says; a pair without a score ranks last."""
    return metrics.Conventions(tie=suite.tie, no_relevant=suite.no_relevant, on_bad_score="worst")


def check_alignment(run: Run, view: TaskView, query_ids: np.ndarray, doc_ids: np.ndarray) -> None:
    """Scores are joined by (query, document), never by position alone: both must agree."""
    same = len(query_ids) == len(view.candidate_queries) and bool(
        np.all(query_ids == view.candidate_queries) and np.all(doc_ids == view.candidate_docs)
    )
    if not same:
        raise FrozenDataError(
            f"scores of {run.model} on {run.task.name} ({run.fingerprint}) are not of the rows of "
            f"candidates {run.task.fingerprint}; replay the run again"
        )


def evaluated_measures(suite: SuiteSpec) -> list[str]:
    """The suite's measures, its gate's, and what the report always shows."""
    asked = [*suite.measures, suite.primary, *(rule.measure for rule in suite.gate if rule.measure)]
    always = ["unjudged@10", "candidate_recall", "candidate_coverage"]
    ceilings = [f"oracle({suite.primary})", f"headroom({suite.primary})"]
    return list(dict.fromkeys([*asked, *always, *ceilings]))


def retrieved_recall(view: TaskView) -> float | None:
    """Mean candidate recall without the injected rows; None where nothing was injected."""
    if not view.injected.any():
        return None
    kept = ~view.injected
    evaluation = metrics.evaluate(
        metrics.Run(
            query_ids=view.candidate_queries[kept],
            doc_ids=view.candidate_docs[kept],
            scores=-view.ranks[kept].astype(np.float64),
            positions=view.ranks[kept],
        ),
        view.judgments,
        ["candidate_recall"],
        metrics.Conventions(),
    )
    mean = evaluation.mean("candidate_recall")
    return None if np.isnan(mean) else mean


def query_metrics_table(systems: Sequence[SystemEvaluation]) -> pa.Table:
    """Long form: task, model, query_id, measure, value; undefined values are null."""
    columns: dict[str, list[object]] = {
        name: [] for name in ("task", "model", "query_id", "measure", "value")
    }
    for system in systems:
        for measure in system.evaluation.values:
            values = system.values(measure).tolist()
            columns["task"] += [system.task] * len(values)
            columns["model"] += [system.model] * len(values)
            columns["query_id"] += system.query_ids
            columns["measure"] += [measure] * len(values)
            columns["value"] += [None if value != value else value for value in values]
    return table_of("query_metrics", columns)


def _objects(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=object)


def _integers(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _bools(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=bool)

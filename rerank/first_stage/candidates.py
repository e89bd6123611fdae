"""Candidates: what the first stage offers for each query, with the gold where it was asked for.

`FIRST_STAGES` lists the first stages. A first stage tells, for one query, which documents it found
with which scores; how many of them are kept, and whether gold is added, is decided for all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rerank.analyzers import analyzer, analyzer_kind
from rerank.errors import ConfigError, InputError, unknown_name
from rerank.files.formats import RunRow
from rerank.files.run_files import read_run
from rerank.first_stage.bm25 import BM25Settings
from rerank.first_stage.fusion import reciprocal_rank_fusion
from rerank.first_stage.id_lists import read_id_lists, unordered
from rerank.first_stage.injection import GOLD_RULES, Offer, Row, Scores, chosen_rows, gold_documents
from rerank.first_stage.saved_index import CorpusIndex
from rerank.sources import Collection, Query, file_digest
from rerank.tasks import TaskSpec

SEARCHED_AT_ONCE = 512  # queries; bounds the memory of what is found and not yet chosen from

Found = Mapping[str, float]  # document id -> BM25 score, best first


@dataclass(frozen=True)
class FirstStageFiles:
    """What a task's first stage reads beside the source: id lists, runs to fuse, their digests."""

    id_lists: Mapping[str, list[str]] = field(default_factory=dict)
    fused: tuple[Mapping[str, list[str]], ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """All that a first stage may look at."""

    spec: TaskSpec
    collection: Collection
    queries: Mapping[str, Query]
    files: FirstStageFiles
    build_index: Callable[[], CorpusIndex]

    @cached_property
    def corpus(self) -> CorpusIndex:
        return self.build_index()

    def tokens(self, query_id: str) -> list[str]:
        """The query's text as the task's analyzer sees it."""
        return analyzer(self.spec.analyzer)(self.queries[query_id].text)

    def without(self, query_id: str, doc_ids: Iterable[str]) -> list[str]:
        """The ids that may be offered for a query, in their order."""
        banned = self.collection.excluded.get(query_id, frozenset())
        return [doc_id for doc_id in doc_ids if doc_id not in banned]

    def known(self, query_id: str, doc_ids: Iterable[str], what: str) -> None:
        """InputError where an imported list holds a document that the corpus does not."""
        for doc_id in doc_ids:
            if doc_id not in self.collection.documents:
                raise InputError(
                    f"task '{self.spec.name}': the {what} lists document '{doc_id}' for query "
                    f"'{query_id}', which the corpus does not hold; use the {what}'s own corpus"
                )


# (stage, query id, its gold, what BM25 found where it takes part)
FirstStage = Callable[[Stage, str, frozenset[str], Found], Offer]


def check_first_stage(spec: TaskSpec) -> None:
    """ConfigError for keys of the first stage that no task can have."""
    if spec.first_stage not in FIRST_STAGES:
        raise unknown_name("first stage", spec.first_stage, FIRST_STAGES)
    if spec.gold_rule not in GOLD_RULES:
        raise unknown_name(f"gold_rule of task '{spec.name}'", spec.gold_rule, GOLD_RULES)
    _check_lists(spec)
    if spec.first_stage == "hybrid" and (spec.rrf_k < 0 or spec.rrf_depth < spec.depth):
        raise ConfigError(
            f"task '{spec.name}': rrf_k is from 0, and rrf_depth at least depth ({spec.depth})"
        )
    if needs_analyzer(spec):
        analyzer_kind(spec.analyzer)
        settings_of(spec).check()


def _check_lists(spec: TaskSpec) -> None:
    """A first stage has the files that it reads, and no other's, which nobody would look at."""
    for stage, key in (("run", "run"), ("ids", "ids"), ("hybrid", "fused_runs")):
        named = bool(getattr(spec, key))
        if named and spec.first_stage != stage:
            raise ConfigError(
                f"task '{spec.name}': first_stage: {spec.first_stage} does not read {key}:; "
                f"remove it, or set first_stage: {stage}"
            )
        if not named and spec.first_stage == stage and stage != "run":
            raise ConfigError(f"task '{spec.name}': first_stage: {stage} needs {key}: in its YAML")


def settings_of(spec: TaskSpec) -> BM25Settings:
    return BM25Settings(method=spec.method, k1=spec.k1, b=spec.b)


def needs_analyzer(spec: TaskSpec) -> bool:
    """Do a task's candidates depend on how its analyzer sees text?"""
    return spec.source != "frozen_jsonl" and spec.first_stage in ("bm25", "hybrid")


def read_first_stage_files(spec: TaskSpec) -> FirstStageFiles:
    """The files that the task's first stage names; InputError where one is wrong."""
    folder = Path(spec.folder)
    if spec.first_stage == "ids":
        path = folder / spec.ids
        return FirstStageFiles(id_lists=read_id_lists(path), digests={"ids": file_digest(path)})
    if spec.first_stage == "hybrid":
        paths = [folder / name for name in spec.fused_runs]
        return FirstStageFiles(
            fused=tuple(_ids_by_query(read_run(path)) for path in paths),
            digests={f"fused_run_{n}": file_digest(path) for n, path in enumerate(paths, 1)},
        )
    return FirstStageFiles()


def candidate_rows(stage: Stage) -> Iterator[tuple[str, list[Row]]]:
    """(query id, candidate rows in rank order) for every query."""
    spec, collection = stage.spec, stage.collection
    if collection.candidates is not None:
        yield from _given(spec, collection, stage.queries)
        return
    gold = gold_documents(collection.judgments) if spec.inject_gold else {}
    offer = FIRST_STAGES[spec.first_stage]
    for query_id, found in _searched(stage, gold):
        wanted = frozenset(stage.without(query_id, gold.get(query_id, ())))
        offered = offer(stage, query_id, wanted, found)
        yield (
            query_id,
            chosen_rows(offered, wanted, collection.documents, spec.depth, spec.gold_rule),
        )


def _searched(stage: Stage, gold: Mapping[str, set[str]]) -> Iterator[tuple[str, Found]]:
    """Every query with what BM25 found, where the first stage makes use of it."""
    spec, ids = stage.spec, list(stage.queries)
    if not needs_analyzer(spec):
        yield from ((query_id, {}) for query_id in ids)
        return
    depth = spec.rrf_depth if spec.first_stage == "hybrid" else spec.depth
    for start in range(0, len(ids), SEARCHED_AT_ONCE):
        chunk = ids[start : start + SEARCHED_AT_ONCE]
        depths = [depth + len(gold.get(query_id, ())) for query_id in chunk]
        yield from zip(chunk, search(stage, chunk, depths), strict=True)


def search(stage: Stage, query_ids: Sequence[str], depths: Sequence[int]) -> list[Found]:
    """BM25's best documents of each query, as many as asked, of those that may be offered."""
    banned = [len(stage.collection.excluded.get(query_id, ())) for query_id in query_ids]
    best = stage.corpus.best(
        [stage.tokens(query_id) for query_id in query_ids],
        [depth + more for depth, more in zip(depths, banned, strict=True)],
    )
    return [
        {key: scores[key] for key in stage.without(query_id, scores)[:depth]}
        for query_id, scores, depth in zip(query_ids, best, depths, strict=True)
    ]


def bm25(stage: Stage, query_id: str, gold: frozenset[str], found: Found) -> Offer:
    """BM25 over the task's analyzer; a document without a token of the query is not found."""
    absent = [doc_id for doc_id in gold if doc_id not in found]
    return Offer(found, stage.corpus.scores(stage.tokens(query_id), absent) if absent else {})


def imported_run(stage: Stage, query_id: str, gold: frozenset[str], found: Found) -> Offer:
    """The scores of an imported run, in its order by score."""
    rows = _best_first((stage.collection.run or {}).get(query_id, []))
    scores = {row.doc_id: row.score for row in rows}
    stage.known(query_id, scores, "run")
    kept = {key: scores[key] for key in stage.without(query_id, scores)}
    return Offer(kept, _without_scores(stage, gold - kept.keys()))


def id_list(stage: Stage, query_id: str, gold: frozenset[str], found: Found) -> Offer:
    """An id list: a set whose order decides nothing, or a ranking with score = -rank.

    InputError where a set is longer than `depth`: which ids to leave out, nothing says.
    """
    spec = stage.spec
    listed = stage.files.id_lists.get(query_id, [])
    stage.known(query_id, listed, "id list")
    kept = stage.without(query_id, listed)
    if spec.ids_ordered:
        ranks = {doc_id: -float(rank) for rank, doc_id in enumerate(kept, 1)}
        return Offer(ranks, _without_scores(stage, gold - ranks.keys()))
    if len(kept) > spec.depth:
        raise InputError(
            f"task '{spec.name}': query '{query_id}' lists {len(kept)} ids, depth is {spec.depth}, "
            "and a set has no best ones; set depth to the longest list, or ids_ordered: true if "
            "the order is a ranking that saw no judgment"
        )
    return Offer(
        dict.fromkeys(unordered(kept)), _without_scores(stage, gold - set(kept)), ordered=False
    )


def hybrid(stage: Stage, query_id: str, gold: frozenset[str], found: Found) -> Offer:
    """BM25 and imported runs, fused by reciprocal rank; each gives its `rrf_depth` best."""
    depth = stage.spec.rrf_depth
    rankings = [list(found)[:depth]]
    for run in stage.files.fused:
        listed = run.get(query_id, [])
        stage.known(query_id, listed, "run")
        rankings.append(stage.without(query_id, listed)[:depth])
    fused = reciprocal_rank_fusion(rankings, stage.spec.rrf_k)
    absent = _without_scores(stage, gold - fused.keys())
    return Offer(fused, dict.fromkeys(absent, 0.0))


def _without_scores(stage: Stage, absent: Iterable[str]) -> Scores:
    """Gold that an imported list lacks, as far as the corpus holds it."""
    return dict.fromkeys(doc_id for doc_id in absent if doc_id in stage.collection.documents)


def _best_first(rows: list[RunRow]) -> list[RunRow]:
    """Score descending, then document id descending by UTF-8 bytes (trec_eval's rule)."""
    by_id = sorted(rows, key=lambda row: row.doc_id.encode("utf-8"), reverse=True)
    return sorted(by_id, key=lambda row: -row.score)


def _ids_by_query(rows: list[RunRow]) -> dict[str, list[str]]:
    grouped: dict[str, list[RunRow]] = {}
    for row in rows:
        grouped.setdefault(row.query_id, []).append(row)
    return {key: [row.doc_id for row in _best_first(mine)] for key, mine in grouped.items()}


def _given(
    spec: TaskSpec, collection: Collection, queries: Mapping[str, Query]
) -> Iterator[tuple[str, list[Row]]]:
    if spec.inject_gold:
        raise ConfigError(
            f"task '{spec.name}': inject_gold needs a corpus; frozen candidates are kept as given"
        )
    lists = collection.candidates or {}
    for query_id in queries:
        yield query_id, [Row(candidate, injected=False) for candidate in lists[query_id]]


FIRST_STAGES: dict[str, FirstStage] = {
    "bm25": bm25,
    "run": imported_run,
    "ids": id_list,
    "hybrid": hybrid,
}

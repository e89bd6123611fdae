"""From a task or from loose files to what is checked, with everything that could not be read.

A source is first read as freezing reads it. Only where that fails are its files read line by line,
so that all of the trouble is told at once; what freezing accepts is never called unreadable here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rerank.checking.findings import Finding, shown
from rerank.checking.list_reading import read_lists
from rerank.checking.material import CandidateList, Judged, Material
from rerank.checking.reading import (
    DOCUMENT_IDS,
    QUERY_IDS,
    read_documents,
    read_judgments,
    read_query_texts,
)
from rerank.checking.rows import Troubles, json_objects
from rerank.errors import RerankError
from rerank.files.formats import RunRow, finite_score, grade_of, text_field
from rerank.first_stage.bm25 import bm25_index
from rerank.first_stage.candidates import (
    Stage,
    candidate_rows,
    needs_analyzer,
    read_first_stage_files,
    settings_of,
)
from rerank.first_stage.saved_index import CorpusIndex
from rerank.first_stage.token_blocks import blocks_of_texts, tokenise_here
from rerank.freezing import check_spec, evaluated_queries
from rerank.sources import Candidate, Collection, load_collection, qrels_file
from rerank.tasks import TaskSpec

MOST_SEARCHED = 50_000  # documents of a corpus that is searched here; freezing searches any
SENTENCES = {
    "unreadable_files": "files cannot be read and are left out of what follows",
    "unreadable_rows": "rows cannot be read and are left out of what follows",
    "doubled_ids_of_documents": "documents stand twice under one id; the first is taken",
    "doubled_ids_of_queries": "queries stand twice under one id; the first is taken",
    "judged_twice": "pairs are judged twice; the first grade is taken",
    "listed_twice": "documents are listed twice for a query; the first is taken",
    "scores_not_finite": "scores are not finite; these rows are left out",
    "texts_disagree": "candidates have another text than their document has elsewhere: freezing "
    "keeps each query's own, so one id is scored on several texts; here the first is examined",
}
HARMS = ("texts_disagree",)  # freezing takes it; every other trouble it refuses


@dataclass(frozen=True)
class Loaded:
    """What is checked. ordered: False where the task does not use the order of its lists."""

    material: Material
    findings: list[Finding]
    ordered: bool = True


def load_task(spec: TaskSpec, *, stated: bool = True) -> Loaded:
    """A task as its file states it, whatever its source.

    stated: False for a folder without a task's file, whose first stage is the default one.
    """
    troubles = Troubles()
    try:
        collection = load_collection(spec)
    except RerankError as error:
        material = _read_leniently(spec, troubles)
        if not troubles.keys() - set(HARMS):
            troubles["source"].append(str(error))
        return Loaded(material, findings_of(troubles), ordered=_is_ordered(spec, None))
    material = _of_collection(collection, spec, troubles)
    found: list[Finding] = []
    if spec.first_stage == "ids" and collection.candidates is None:
        lists = troubles.attempt_file(read_lists, Path(spec.folder) / spec.ids, troubles)
        material = replace(material, lists=lists)
    if material.lists is None:
        material, found = _searched(material, collection, spec)
        default = "" if stated else " (the default: a folder names none)"
        material = replace(material, chosen_by=_first_stage_words(spec) + default)
    ordered = _is_ordered(spec, collection)
    return Loaded(material, [*findings_of(troubles), *found], ordered=ordered)


def _first_stage_words(spec: TaskSpec) -> str:
    analyzer = f", analyzer {spec.analyzer}" if needs_analyzer(spec) else ""
    return f"{spec.first_stage}{analyzer}"


def _is_ordered(spec: TaskSpec, collection: Collection | None) -> bool:
    """An id list is an unordered set unless the task says otherwise, and so is what a hub brings.

    Frozen candidates have ranks, whatever the first stage that such a task does not need.
    """
    if spec.source == "frozen_jsonl":
        return True
    if collection is not None and collection.candidates is not None:
        return False
    return spec.first_stage != "ids" or spec.ids_ordered


def load_files(
    lists: Path, qrels: Path | None, corpus: Path | None, queries: Path | None
) -> Loaded:
    """A run or id-list file with the files that belong to it, as far as they are given."""
    troubles = Troubles()
    material = Material(
        judgments=(troubles.attempt_file(read_judgments, qrels, troubles) if qrels else None) or [],
        judged=qrels is not None,
        documents=troubles.attempt_file(read_documents, corpus, troubles) if corpus else None,
        queries=troubles.attempt_file(read_query_texts, queries, troubles) if queries else None,
        lists=troubles.attempt_file(read_lists, lists, troubles),
        by_score=True,
    )
    return Loaded(material, findings_of(troubles))


def findings_of(troubles: Troubles) -> list[Finding]:
    """One finding a kind of trouble, with its first sentences."""
    return [
        Finding(
            "warning" if kind in HARMS else "error",
            kind,
            SENTENCES.get(kind, "the source cannot be read"),
            len(sentences),
            shown(sentences),
            harms=kind in HARMS,
        )
        for kind, sentences in troubles.items()
    ]


def _of_collection(collection: Collection, spec: TaskSpec, troubles: Troubles) -> Material:
    own = collection.candidates
    documents = collection.documents
    lists: dict[str, CandidateList] | None = None
    if own is not None:
        documents = _texts_of(own.values(), troubles)
        lists = {query_id: _given(candidates) for query_id, candidates in own.items()}
    elif collection.run is not None:
        lists = {query_id: _listed(rows) for query_id, rows in collection.run.items()}
    return Material(
        judgments=[Judged(j.query_id, j.doc_id, float(j.grade)) for j in collection.judgments],
        queries={query_id: query.text for query_id, query in collection.queries.items()},
        documents=documents,
        lists=lists,
        by_score=own is None,
        evaluates_all=own is not None,
        language=spec.language,
    )


def _texts_of(lists: Iterable[list[Candidate]], troubles: Troubles) -> dict[str, str]:
    """Every candidate's text once; freezing keeps each query's own, so a difference is told."""
    found: dict[str, str] = {}
    for candidates in lists:
        for candidate in candidates:
            if found.setdefault(candidate.doc_id, candidate.text) != candidate.text:
                troubles["texts_disagree"].append(candidate.doc_id)
    return found


def _given(candidates: list[Candidate]) -> CandidateList:
    """In rank order; with scores only where they follow the ranks."""
    doc_ids = tuple(candidate.doc_id for candidate in candidates)
    scores = [candidate.score for candidate in candidates if candidate.score is not None]
    falling = all(high >= low for high, low in zip(scores, scores[1:], strict=False))
    return CandidateList(
        doc_ids, tuple(scores) if len(scores) == len(doc_ids) and falling else None
    )


def _listed(rows: list[RunRow]) -> CandidateList:
    """As the file has them; by rank where it has no scores."""
    if any(row.rank is not None for row in rows):
        rows = sorted(rows, key=lambda row: -row.score)  # 1 / rank
        return CandidateList(tuple(row.doc_id for row in rows))
    return CandidateList(tuple(row.doc_id for row in rows), tuple(row.score for row in rows))


def _searched(
    material: Material, collection: Collection, spec: TaskSpec
) -> tuple[Material, list[Finding]]:
    """The task's own first stage over a corpus that is small enough, for its recall."""
    if len(collection.documents) > MOST_SEARCHED:
        message = (
            f"the corpus has more than {MOST_SEARCHED:,} documents and is not searched here: "
            "`rerank freeze` tells candidate recall in its report"
        )
        return material, [Finding("fact", "not_searched", message)]
    if {row.query_id for row in collection.judgments} - collection.queries.keys():
        return material, []  # told as judged queries without text
    try:
        check_spec(spec)
        files = read_first_stage_files(spec)
        queries = evaluated_queries(collection, spec)
        build = partial(_index, collection.documents, spec)
        rows = dict(candidate_rows(Stage(spec, collection, queries, files, build)))
    except RerankError as error:
        return material, [Finding("error", "first_stage", str(error))]
    lists = {
        query_id: CandidateList(tuple(row.candidate.doc_id for row in found))
        for query_id, found in rows.items()
    }
    return replace(material, lists=lists, computed=True, by_score=False), []


def _index(documents: Mapping[str, str], spec: TaskSpec) -> CorpusIndex:
    """As freezing builds it, without a store to keep it in."""
    doc_ids = sorted(documents, key=str.encode, reverse=True)
    blocks = blocks_of_texts(documents[doc_id] for doc_id in doc_ids)
    return CorpusIndex(bm25_index(tokenise_here(spec.analyzer, blocks), settings_of(spec)), doc_ids)


def _read_leniently(spec: TaskSpec, troubles: Troubles) -> Material:
    """The files of a source line by line; of a source without such files nothing."""
    if spec.source == "frozen_jsonl":
        return _frozen_leniently(spec, troubles)
    if spec.source not in ("beir", "trec"):
        return Material([], judged=False)
    folder = Path(spec.folder)
    listed = {"run": spec.run, "ids": spec.ids}.get(spec.first_stage, "")
    return Material(
        judgments=troubles.attempt_file(_own_judgments, spec, troubles) or [],
        queries=troubles.attempt_file(read_query_texts, folder / spec.queries, troubles),
        documents=troubles.attempt_file(read_documents, folder / spec.corpus, troubles),
        lists=troubles.attempt_file(read_lists, folder / listed, troubles) if listed else None,
        by_score=True,
        language=spec.language,
    )


def _own_judgments(spec: TaskSpec, troubles: Troubles) -> list[Judged]:
    return read_judgments(qrels_file(spec), troubles)


def _objects(path: Path, troubles: Troubles) -> list[tuple[str, dict[str, Any]]]:
    return list(json_objects(path, troubles))


def _frozen_leniently(spec: TaskSpec, troubles: Troubles) -> Material:
    """Frozen candidates: what of each line can be read."""
    path = Path(spec.folder) / spec.candidates
    queries: dict[str, str] = {}
    documents: dict[str, str] = {}
    lists: dict[str, CandidateList] = {}
    judgments: list[Judged] = []
    rows = troubles.attempt_file(_objects, path, troubles) or []
    for where, row in rows:
        key = troubles.attempt(text_field, row, QUERY_IDS, where)
        text = troubles.attempt(text_field, row, ("query", "text"), where)
        if key is None or text is None:
            continue
        if key in queries:
            troubles["doubled_ids_of_queries"].append(f"{where}: {key}")
            continue
        queries[key] = text
        entries = row.get("candidates")
        if not isinstance(entries, list):
            troubles["unreadable_rows"].append(f"{where}: field 'candidates' must be a list")
            entries = []
        found = _entries(entries, where, troubles)
        for candidate, grade in found:
            if documents.setdefault(candidate.doc_id, candidate.text) != candidate.text:
                troubles["texts_disagree"].append(f"{where}: {candidate.doc_id}")
            if grade is not None:
                judgments.append(Judged(key, candidate.doc_id, grade))
        lists[key] = _given(sorted((c for c, _ in found), key=lambda one: one.rank))
    if spec.qrels:
        qrels = Path(spec.folder) / spec.qrels
        judgments += troubles.attempt_file(read_judgments, qrels, troubles) or []
    return Material(judgments, queries, documents, lists, evaluates_all=True)


def _entries(
    entries: list[Any], where: str, troubles: Troubles
) -> list[tuple[Candidate, float | None]]:
    found: dict[str, tuple[Candidate, float | None]] = {}
    for place, entry in enumerate(entries, 1):
        spot = f"{where}, candidate {place}"
        if not isinstance(entry, dict):
            troubles["unreadable_rows"].append(f"{spot}: must be an object")
            continue
        read = troubles.attempt(_entry, entry, place, spot)
        if read is not None and read[0].doc_id in found:
            troubles["listed_twice"].append(f"{spot}: {read[0].doc_id}")
        elif read is not None:
            found[read[0].doc_id] = read
    return list(found.values())


def _entry(entry: dict[str, Any], place: int, where: str) -> tuple[Candidate, float | None]:
    names = ("text", "document")
    null = any(name in entry and entry[name] is None for name in names)
    rank, score = entry.get("retrieval_rank", place), entry.get("retrieval_score")
    grade = entry.get("relevance_grade", entry.get("grade"))
    candidate = Candidate(
        doc_id=text_field(entry, DOCUMENT_IDS, where),
        text="" if null else text_field(entry, names, where),
        rank=rank if isinstance(rank, int) else place,
        score=None if score is None else finite_score(score, where),
    )
    return candidate, None if grade is None else float(grade_of(grade, where))

"""Tasks in files: BEIR folders, TREC files with a corpus, and frozen-candidate JSONL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rerank.errors import InputError
from rerank.files.formats import (
    Judgment,
    RunRow,
    attributes_of,
    checked_text,
    finite_score,
    grade_of,
    json_lines,
    lines,
    provenance_of,
    text_field,
)
from rerank.files.qrels_files import read_qrels
from rerank.files.run_files import read_run
from rerank.fingerprint import sha256_bytes, sha256_file
from rerank.sources.collection import Candidate, Collection, Query
from rerank.tasks import TaskSpec

QUERY_ID = ("query_id", "qid", "_id", "id")
MAX_RANK = 2**24  # first_stage scores are -rank in fp32, exact below this
MAX_WEIGHT = 1e12  # traffic of one query; sums of weights stay exact enough
DOC_ID = ("document_id", "doc_id", "docid", "_id", "id")


def read_beir(spec: TaskSpec) -> Collection:
    """A BEIR folder: corpus.jsonl, queries.jsonl and qrels (TREC, TSV or JSONL); optional run."""
    folder = Path(spec.folder)
    files = {
        "corpus": folder / spec.corpus,
        "queries": folder / spec.queries,
        "qrels": qrels_file(spec),
    }
    if spec.first_stage == "run":
        files["run"] = run_file(spec)
    documents, nulls = read_corpus(files["corpus"])
    queries = read_queries(files["queries"], spec.query_attributes)
    own = queries.keys() & documents.keys() if spec.ignore_identical_ids else ()
    return Collection(
        queries=queries,
        documents=documents,
        excluded={key: frozenset({key}) for key in own},
        judgments=read_qrels(files["qrels"], spec.provenance),
        run=by_query(read_run(files["run"])) if "run" in files else None,
        digests={role: file_digest(path) for role, path in files.items()},
        notes={"null_documents": nulls},
    )


def read_trec(spec: TaskSpec) -> Collection:
    """TREC topics (JSONL or `id<TAB>text`), qrels and a run, with the corpus as JSONL or TSV.

    The candidates are the run's; a task with `first_stage: bm25` is a BEIR folder with TREC qrels.
    """
    if spec.first_stage != "run":
        raise InputError(
            f"task '{spec.name}': source trec takes its candidates from a run; "
            "set first_stage: run and run: FILE, or source: beir for BM25"
        )
    return read_beir(spec)


def read_frozen_jsonl(spec: TaskSpec) -> Collection:
    """Frozen candidates: one query a line with its candidate texts, ranks and grades.

    Grades in the lines are judgments; a `qrels` file, if named, adds judged documents that no
    candidate list holds. `document_version`, where given, must be the text's sha256.
    """
    path = Path(spec.folder) / spec.candidates
    digests = {"candidates": file_digest(path)}
    queries: dict[str, Query] = {}
    candidates: dict[str, list[Candidate]] = {}
    judgments: list[Judgment] = []
    sources: set[str] = set()
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        query = _query(row, where, ("query", "text"), spec.query_attributes)
        if query.query_id in queries:
            raise InputError(f"{where}: query '{query.query_id}' stands twice; join the lines")
        queries[query.query_id] = query
        candidates[query.query_id] = _candidates(row, where)
        judgments += _inline_judgments(row, query.query_id, spec.provenance, where)
        sources.add(f"{row.get('candidate_source', '?')} @ {row.get('corpus_version', '?')}")
    if spec.qrels:
        qrels = Path(spec.folder) / spec.qrels
        digests["qrels"] = file_digest(qrels)
        judgments = merge_judgments(judgments, read_qrels(qrels, spec.provenance), str(qrels))
    return Collection(
        queries=queries,
        documents={},
        judgments=judgments,
        candidates=candidates,
        digests=digests,
        notes={"candidate_sources": sorted(sources)},
    )


def file_digest(path: Path) -> str:
    """sha256 of a source file; InputError where it cannot be read."""
    try:
        return sha256_file(path)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; check the path in the task's YAML"
        ) from error


def _candidates(row: dict[str, Any], where: str) -> list[Candidate]:
    entries = row.get("candidates")
    if not isinstance(entries, list):
        raise InputError(f"{where}: field 'candidates' must be a list")
    found: dict[str, Candidate] = {}
    ranks: set[int] = set()
    for position, entry in enumerate(entries, 1):
        spot = f"{where}, candidate {position}"
        if not isinstance(entry, dict):
            raise InputError(f"{spot}: must be an object")
        candidate = _candidate(entry, position, spot)
        if candidate.doc_id in found:
            raise InputError(f"{spot}: document '{candidate.doc_id}' is listed twice; keep one")
        if candidate.rank in ranks:
            raise InputError(f"{spot}: rank {candidate.rank} is given twice")
        found[candidate.doc_id] = candidate
        ranks.add(candidate.rank)
    return sorted(found.values(), key=lambda candidate: candidate.rank)


def _candidate(entry: dict[str, Any], position: int, where: str) -> Candidate:
    text = _text(entry, ("text", "document"), where)
    version = entry.get("document_version")
    if isinstance(version, str) and version.startswith("sha256:"):
        found = sha256_bytes(text.encode("utf-8"))
        if len(version) == len(found) and version != found:
            raise InputError(f"{where}: document_version {version} but the text is {found}")
    rank = entry.get("retrieval_rank", position)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank < MAX_RANK:
        raise InputError(f"{where}, field 'retrieval_rank': {rank!r} is not a rank from 1")
    score = entry.get("retrieval_score")
    return Candidate(
        doc_id=text_field(entry, DOC_ID, where),
        text=text,
        rank=rank,
        score=None if score is None else finite_score(score, where),
    )


def _inline_judgments(
    row: dict[str, Any], query_id: str, provenance: str, where: str
) -> Iterator[Judgment]:
    for entry in row["candidates"]:
        grade = entry.get("relevance_grade", entry.get("grade"))
        if grade is not None:
            doc_id = text_field(entry, DOC_ID, where)
            attributes = attributes_of(entry.get("attributes", {}), where)
            source = provenance_of(entry.get("provenance", provenance), where)
            yield Judgment(query_id, doc_id, grade_of(grade, where), source, attributes)


def merge_judgments(first: list[Judgment], second: list[Judgment], where: str) -> list[Judgment]:
    """Both lists; InputError where they grade one document differently."""
    merged = {(row.query_id, row.doc_id): row for row in first}
    for row in second:
        known = merged.setdefault((row.query_id, row.doc_id), row)
        if known.grade != row.grade:
            raise InputError(
                f"{where}: document '{row.doc_id}' of query '{row.query_id}' has grade "
                f"{row.grade} here and {known.grade} beside the candidates; make them agree"
            )
    return list(merged.values())


def read_corpus(path: Path) -> tuple[dict[str, str], int]:
    """Document id -> text, and how many texts were null (kept as the empty text)."""
    documents: dict[str, str] = {}
    nulls = 0
    for number, row in json_lines(path):
        where = f"{path}, line {number}"
        doc_id = text_field(row, DOC_ID, where)
        if doc_id in documents:
            raise InputError(f"{where}: document '{doc_id}' stands twice; keep one")
        nulls += row.get("text", "") is None
        text = _text(row, ("text", "contents"), where)
        title = _text(row, ("title",), where) if "title" in row else ""
        documents[doc_id] = f"{title} {text}" if title and text else title or text
    return documents, nulls


def read_queries(path: Path, attributes: tuple[str, ...] = ()) -> dict[str, Query]:
    """Query id -> Query from JSONL or from `id<TAB>text` lines."""
    queries: dict[str, Query] = {}
    rows = (
        _jsonl_queries(path, attributes)
        if path.name.removesuffix(".gz").endswith(".jsonl")
        else _tsv_queries(path)
    )
    for number, query in rows:
        if query.query_id in queries:
            raise InputError(f"{path}, line {number}: query '{query.query_id}' stands twice")
        queries[query.query_id] = query
    return queries


def _jsonl_queries(path: Path, attributes: tuple[str, ...]) -> Iterator[tuple[int, Query]]:
    for number, row in json_lines(path):
        yield number, _query(row, f"{path}, line {number}", ("text", "query"), attributes)


def _tsv_queries(path: Path) -> Iterator[tuple[int, Query]]:
    for number, text in lines(path):
        if not text:
            continue
        query_id, tab, query = text.partition("\t")
        if not tab:
            raise InputError(f"{path}, line {number}: no tab; a line is `query id<TAB>text`")
        yield number, Query(query_id, query)


def _query(
    row: dict[str, Any], where: str, names: tuple[str, ...], attributes: tuple[str, ...]
) -> Query:
    weight = row.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise InputError(f"{where}, field 'weight': {weight!r:.60} is not a number from 0")
    if not 0 <= weight <= MAX_WEIGHT:
        raise InputError(f"{where}, field 'weight': must be from 0 to {MAX_WEIGHT:g}")
    metadata = row.get("metadata") or {}
    own = row.get("attributes") or {}
    if not isinstance(metadata, dict) or not isinstance(own, dict):
        raise InputError(f"{where}: metadata and attributes must be objects")
    chosen = {key: metadata[key] for key in attributes if key in metadata}
    return Query(
        query_id=text_field(row, QUERY_ID, where),
        text=_text(row, names, where),
        weight=float(weight),
        attributes=attributes_of({**own, **chosen}, where),
    )


def _text(row: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    """A text that may be null: null and empty both survive as the empty text."""
    if any(name in row and row[name] is None for name in names):
        return ""
    return checked_text(text_field(row, names, where), where)


def qrels_file(spec: TaskSpec) -> Path:
    """The task's qrels, or the first of the usual names that exists."""
    folder = Path(spec.folder)
    if spec.qrels:
        return folder / spec.qrels
    usual = ("judgments.jsonl", f"qrels/{spec.split}.tsv", "qrels.trec", "qrels.tsv", "qrels.txt")
    for name in usual:
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f"task '{spec.name}': no judgments in {folder} (looked for {', '.join(usual)}); "
        "name the file with qrels: in the task's YAML"
    )


def run_file(spec: TaskSpec) -> Path:
    """The imported first-stage run; InputError where the task names none."""
    if not spec.run:
        raise InputError(f"task '{spec.name}': first_stage: run needs run: FILE in its YAML")
    return Path(spec.folder) / spec.run


def by_query(rows: list[RunRow]) -> dict[str, list[RunRow]]:
    """Query id -> its rows, in file order."""
    grouped: dict[str, list[RunRow]] = {}
    for row in rows:
        grouped.setdefault(row.query_id, []).append(row)
    return grouped

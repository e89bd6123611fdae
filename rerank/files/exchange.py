"""Scores, judgments and texts of a frozen task as the files other tools read; bytes out.

TREC (trec_eval, pytrec_eval, ir_measures), dictionaries in JSON (ranx 0.3, BEIR 2.2) and the BEIR
folder. Scores keep their 17 significant digits, so the other tool sees what was measured here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from rerank.errors import InputError
from rerank.files.formats import BEIR_HEADER, BLANKS, Judgment, write_qrels, write_run
from rerank.frozen import FrozenTask

Scores = dict[str, dict[str, float]]  # query id -> document id -> score, best first
BREAKS = re.compile("[\t\r\n]")  # what a TSV without quoting cannot carry


def best_first(scores: pa.Table) -> Scores:
    """A table of scores as dictionaries: queries by id bytes, each best first.

    Equal scores go by document id descending (bytes), trec_eval's rule. A pair without a score is
    left out: an evaluator then has it behind all others.
    """
    rows = [
        (query_id, doc_id, score)
        for query_id, doc_id, score in zip(
            *(scores[name].to_pylist() for name in ("query_id", "doc_id", "score")), strict=True
        )
        if score is not None
    ]
    return ordered_scores(rows)


def ordered_scores(rows: Iterable[tuple[str, str, float]]) -> Scores:
    """(query, document, score) rows in the order of `best_first`."""
    by_document = sorted(rows, key=lambda row: row[1].encode("utf-8"), reverse=True)
    found: Scores = {}
    for query_id, doc_id, score in sorted(
        by_document, key=lambda row: (row[0].encode("utf-8"), -row[2])
    ):
        found.setdefault(query_id, {})[doc_id] = score
    return found


def judgments_of(task: FrozenTask) -> list[Judgment]:
    """The task's judgments as records, in the order they are frozen in."""
    return [
        Judgment(
            row["query_id"],
            row["doc_id"],
            row["grade"],
            row["provenance"],
            dict(row["attributes"]),
        )
        for row in task.judgments.to_pylist()
    ]


def grades_of(judgments: Iterable[Judgment]) -> dict[str, dict[str, int]]:
    """Query id -> document id -> grade."""
    found: dict[str, dict[str, int]] = {}
    for row in judgments:
        found.setdefault(row.query_id, {})[row.doc_id] = row.grade
    return found


def judged_lists(scores: Scores, judged: Iterable[str]) -> tuple[Scores, int]:
    """The lists of the judged queries, and how many queries without a judgment were left out.

    A judged query without a scored document keeps an empty list, which ranx, BEIR and mteb count
    as 0; without it ranx raises, and BEIR and mteb leave the query out of their means. A query
    without judgments makes ranx and mteb raise.
    """
    kept = {query_id: scores.get(query_id, {}) for query_id in sorted(set(judged), key=str.encode)}
    return kept, len(scores.keys() - kept.keys())


def trec_run(scores: Scores, tag: str) -> bytes:
    """A TREC run, rank from 1; InputError where an id holds an ASCII blank."""
    rows = [
        (query_id, doc_id, rank, score)
        for query_id, found in scores.items()
        for rank, (doc_id, score) in enumerate(found.items(), 1)
    ]
    return write_run(rows, tag)


def trec_qrels(judgments: list[Judgment]) -> bytes:
    """TREC qrels; InputError where an id holds an ASCII blank."""
    for row in judgments:
        for name in (row.query_id, row.doc_id):
            if not name or BLANKS.search(name) or "\n" in name:
                raise InputError(
                    f"id {name!r:.80} holds an ASCII blank, which TREC qrels cannot carry; export "
                    "as ranx or mteb, whose JSON can, or rename it in the source"
                )
    return write_qrels(judgments)


def plain_json(value: Any) -> bytes:
    """Strict JSON in UTF-8 on one line, keys in the order given (ranx keeps the input's order)."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return (text + "\n").encode("utf-8")


def document_texts(task: FrozenTask) -> dict[str, str]:
    """Document id -> text of every candidate, by id bytes.

    InputError where one id has two texts, as frozen lists may: a corpus has one text an id.
    """
    texts: dict[str, str] = {}
    for shard in task.shards:
        table = task.candidates(shard)
        pairs = zip(table["doc_id"].to_pylist(), table["document"].to_pylist(), strict=True)
        for doc_id, text in pairs:
            if texts.setdefault(doc_id, text) != text:
                raise InputError(
                    f"task '{task.name}': document '{doc_id}' has two different texts in its "
                    "candidate lists, and a BEIR corpus holds one an id; export another format"
                )
    return {doc_id: texts[doc_id] for doc_id in sorted(texts, key=str.encode)}


def beir_corpus(texts: Mapping[str, str]) -> bytes:
    """corpus.jsonl; the title is part of a frozen text, so `title` is empty."""
    return _json_lines({"_id": key, "title": "", "text": text} for key, text in texts.items())


def beir_queries(queries: pa.Table) -> bytes:
    """queries.jsonl of a frozen queries table: text, slice attributes and traffic weight."""
    return _json_lines(
        {
            "_id": row["query_id"],
            "text": row["query"],
            "metadata": dict(row["attributes"]),
            "weight": row["weight"],
        }
        for row in queries.to_pylist()
    )


def beir_qrels(judgments: list[Judgment]) -> bytes:
    """qrels/SPLIT.tsv with its header, without quoting; InputError for an id that needs some."""
    lines = ["\t".join(BEIR_HEADER)]
    for row in judgments:
        for name in (row.query_id, row.doc_id):
            if not name or BREAKS.search(name) or name.startswith('"'):
                raise InputError(
                    f"id {name!r:.80} is empty, holds a tab or a line end, or starts with a quote, "
                    "which BEIR's TSV cannot carry; export as ranx or mteb, whose JSON can"
                )
        lines.append(f"{row.query_id}\t{row.doc_id}\t{row.grade}")
    return ("\n".join(lines) + "\n").encode("utf-8")


def beir_note(task: FrozenTask, documents: int, without_text: int) -> bytes:
    """README.md beside a BEIR folder: what its corpus is, and what it is not."""
    return (
        f"# {task.name}: frozen candidates in the BEIR layout\n\n"
        f"Frozen task `{task.fingerprint}`.\n\n"
        f"corpus.jsonl holds the {documents:,} documents that stage 1 offered for any query, not "
        "the whole collection: retrieval over it is easier than over the collection. A title, "
        "where there was one, is part of the text. "
        f"{without_text:,} judged documents were offered for no query; they have no text here and "
        "are left out of corpus.jsonl, but stay in the qrels, so that an ideal ranking counts "
        "them.\n\n"
        "results/MODEL.json: query id -> document id -> score, best first. A pair without a score "
        "is left out; a judged query without any has an empty list and counts as 0.\n"
    ).encode()


def _json_lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(
        (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
        for row in rows
    )

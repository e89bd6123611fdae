"""A frozen task small enough to do by hand, with the runs of two models that need no weights."""

from __future__ import annotations

import json
from pathlib import Path

from jobs.__main__ import main
from tests.conftest import write_jsonl

# overlap ranks by the share of the query's words: the scores of these texts are all different
TEXTS = {
    "a b": "reset the filter of the pump",  # an id with a blank, as JSON can hold
    "d1": "reset the pump",
    "d2": "warranty of the pump, reset and more words than are asked for",
    "d3": "nothing to see",
}
QUERIES = {"q1": "reset the pump", "q2": "필터 warranty", "q3": "no document at all"}
GRADES = [("q1", "d1", 2), ("q1", "d3", 0), ("q2", "d2", 1), ("q2", "gone", 1), ("q3", "gone", 1)]


def write_suite(folder: Path, ids: dict[str, str] | None = None) -> list[str]:
    """Write configs and source; the words that follow a verb. `ids` renames documents.

    q1 and q2 offer all four documents, q3 is judged and has no candidate, q4 is not judged.
    """
    names = {doc_id: (ids or {}).get(doc_id, doc_id) for doc_id in TEXTS}
    candidates = [{"doc_id": names[key], "text": text} for key, text in TEXTS.items()]
    asked = {**QUERIES, "q4": "pump"}
    write_jsonl(
        folder / "source/candidates.jsonl",
        [
            {
                "query_id": query_id,
                "query": text,
                "attributes": {"language": "en"},
                "candidates": [] if query_id == "q3" else candidates,
            }
            for query_id, text in asked.items()
        ],
    )
    write_jsonl(
        folder / "source/judgments.jsonl",
        [
            {"query_id": query_id, "doc_id": names.get(doc_id, doc_id), "grade": grade}
            for query_id, doc_id, grade in GRADES
        ],
    )
    files = {
        "tasks/tiny.yaml": {
            "source": "frozen_jsonl",
            "folder": str(folder / "source"),
            "qrels": "judgments.jsonl",
            "language": "en, ko",
        },
        "models/first_stage.yaml": {"adapter": "first_stage"},
        "models/overlap.yaml": {"adapter": "overlap"},
        "suites/s.yaml": {"tasks": ["tiny"], "models": ["first_stage", "overlap"]},
    }
    for name, values in files.items():
        path = folder / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    return [str(folder / "configs/suites/s.yaml"), f"store={folder}/store"]


def replayed_suite(folder: Path, ids: dict[str, str] | None = None) -> list[str]:
    """`write_suite`, frozen and scored."""
    words = write_suite(folder, ids)
    assert main(["freeze", *words]) == 0
    assert main(["replay", *words]) == 0
    return words

"""The freeze report. Oracles: `metrics` for recall and the unjudged share, numpy and Python for
lengths, html.parser for the page.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import metrics
from jobs.freeze import write_freeze_report
from rerank.checking import examine
from rerank.checking.loading import load_task
from rerank.freezing import freeze
from rerank.frozen import FrozenTask, open_frozen
from rerank.frozen_facts import BINS_A_DECADE, frozen_facts, lengths_of
from rerank.reporting.freeze_report import render_freeze_report
from rerank.reporting.histograms import histogram, trimmed
from rerank.store import Store
from rerank.suite.evaluation import retrieved_recall, view_task
from rerank.tasks import TaskSpec
from tests import hub_folders
from tests.conftest import write_jsonl
from tests.rerank.test_reporting import KNOWN_ELEMENTS, Outline
from tests.rerank.test_reporting_document import HOSTILE


@pytest.fixture
def frozen(tmp_path: Path, make_task: Callable[..., Path]) -> Callable[..., FrozenTask]:
    def make(lists: Sequence[dict[str, object]] = (), **keys: object) -> FrozenTask:
        folder = make_task()
        write_jsonl(folder / "ids.jsonl", lists)
        judged = folder / "judgments.jsonl"
        relevant = {
            (row["query_id"], row["doc_id"])
            for row in map(json.loads, judged.read_text().splitlines())
        }
        with judged.open("a") as stream:  # grade 0 is judged, a negative one is not (trec_eval)
            for at in range(12 * 40):
                pair = (f"q{at % 12:02d}", f"d{at // 12:03d}")
                if at % 5 < 2 and pair not in relevant:
                    row = {"query_id": pair[0], "doc_id": pair[1], "grade": -(at % 5)}
                    stream.write(json.dumps(row) + "\n")
        spec = TaskSpec(name="tiny", folder=str(folder), shard_pairs=20, depth=5)
        values = {**spec.__dict__, **keys}
        return freeze(TaskSpec(**values), Store(tmp_path / "store"))

    return make


@pytest.mark.parametrize("inject", [False, True])
def test_recall_and_unjudged_are_those_of_metrics(
    frozen: Callable[..., FrozenTask], inject: bool
) -> None:
    """Every depth; without the injected rows as the report of a suite has it; rows counted."""
    task = frozen(inject_gold=inject)
    facts, view = frozen_facts(task), view_task(task)
    names = [f"candidate_recall@{entry['depth']}" for entry in facts["recall"]]
    evaluation = metrics.evaluate(
        metrics.Run(
            query_ids=view.candidate_queries,
            doc_ids=view.candidate_docs,
            scores=-view.ranks.astype(np.float64),
            positions=view.ranks,
        ),
        view.judgments,
        names,
        metrics.Conventions(),
    )
    for entry, name in zip(facts["recall"], names, strict=True):
        assert entry["recall"] == pytest.approx(evaluation.mean(name), abs=1e-12)
    grades = {(j["query_id"], j["doc_id"]): j["grade"] for j in task.judgments.to_pylist()}
    rows = [row for shard in task.shards for row in task.candidates(shard).to_pylist()]
    there = [grades.get((r["query_id"], r["doc_id"]), -1) < 0 for r in rows if r["rank"] <= 10]
    assert facts["unjudged_at_10"] == pytest.approx(np.mean(there), abs=1e-12)
    assert facts["candidates_at_10"] == len(there)
    said = " ".join(Outline(render_freeze_report(facts)).texts)
    assert f"Of {len(there)} candidates at ranks 1 to 10, nobody judged" in said
    without = facts["recall"][-1]["without_injected"]
    plain = retrieved_recall(view)
    assert without == pytest.approx(facts["recall"][-1]["recall"] if plain is None else plain)
    assert (plain is None) != inject


@pytest.mark.parametrize("rule", ["beside", "union", "within"])
def test_recall_without_injected_rows_is_that_of_the_plain_list(
    frozen: Callable[..., FrozenTask], rule: str
) -> None:
    """Oracle: the same task frozen without injection; under `within` at the deepest depth alone."""
    plain = {entry["depth"]: entry["recall"] for entry in frozen_facts(frozen())["recall"]}
    facts = frozen_facts(frozen(inject_gold=True, gold_rule=rule))
    assert facts["injected"]["rows"] > 0
    *above, deepest = facts["recall"]
    assert deepest["without_injected"] == pytest.approx(plain[max(plain)])
    for entry in above:
        expected = plain.get(entry["depth"], plain[max(plain)])
        assert entry["without_injected"] == (None if rule == "within" else pytest.approx(expected))
    said = " ".join(Outline(render_freeze_report(facts)).texts)
    assert ("known at the deepest depth alone" in said) == (rule == "within")


@pytest.mark.parametrize("ordered", [True, False])
def test_of_a_set_there_is_no_depth(frozen: Callable[..., FrozenTask], ordered: bool) -> None:
    """The ids of a set stand in an order that means nothing: recall of the whole, no unjudged."""
    every = [f"d{n:03d}" for n in range(5)]
    lists = [{"query_id": f"q{n:02d}", "relevance_ids": every} for n in range(12)]
    task = frozen(first_stage="ids", ids="ids.jsonl", ids_ordered=ordered, lists=lists)
    facts = frozen_facts(task)
    assert facts["ordered"] == ordered
    assert [entry["depth"] for entry in facts["recall"]] == ([1, 3, 5] if ordered else [5])
    assert (facts["unjudged_at_10"] is None) != ordered
    said = " ".join(Outline(render_freeze_report(facts)).texts)
    assert ("their ranks mean nothing" in said) != ordered


def test_injected_rows_are_listed_by_query(frozen: Callable[..., FrozenTask]) -> None:
    """As many as the manifest counts, each at its query."""
    task = frozen(inject_gold=True)
    expected = Counter()
    for shard in task.shards:
        for row in task.candidates(shard).to_pylist():
            expected[row["query_id"]] += row["injected"]
    added = frozen_facts(task)["injected"]
    assert {entry["query_id"]: entry["rows"] for entry in added["queries"]} == +expected
    assert added["rows"] == task.counts["injected"] > 0


def test_lengths_and_grades_are_counted(frozen: Callable[..., FrozenTask]) -> None:
    """Characters in Python, the document of every pair; grades of pairs from the judgments."""
    task = frozen()
    rows = [row for shard in task.shards for row in task.candidates(shard).to_pylist()]
    facts = frozen_facts(task)
    lengths = [len(row["document"]) for row in rows]
    assert facts["document_characters"]["n"] == len(rows)
    assert facts["document_characters"]["max"] == max(lengths)
    assert facts["document_characters"]["mean"] == pytest.approx(np.mean(lengths))
    queries = [len(text) for text in task.queries["query"].to_pylist()]
    assert facts["query_characters"]["median"] == int(np.median(queries))
    judged = {(j["query_id"], j["doc_id"]): j["grade"] for j in task.judgments.to_pylist()}
    grades = Counter(str(judged.get((r["query_id"], r["doc_id"]), "unjudged")) for r in rows)
    assert facts["candidate_grades"] == grades
    assert {"-1", "0", "unjudged"} <= grades.keys()


@pytest.mark.parametrize("seed", range(5))
def test_histograms_hold_every_value_once(seed: int) -> None:
    """Whole edges, growing by one factor, each value in the bin that says so."""
    rng = np.random.default_rng(seed)
    values = np.concatenate([[0], np.exp(rng.uniform(0, 12, 500)).astype(np.int64), [seed]])
    bins = lengths_of(values)["bins"]
    assert sum(n for _, _, n in bins) == len(values)
    for low, high, n in bins:
        assert n == int(((values >= low) & (values < high)).sum())
    assert [low for low, _, _ in bins[1:]] == [high for _, high, _ in bins[:-1]]
    assert bins[0][:2] == [0, 1]
    assert bins[-1][1] / bins[-1][0] == pytest.approx(10 ** (1 / BINS_A_DECADE), rel=1e-3)


@pytest.mark.parametrize("value", [0, 1, 9, 10, 100, 10**6])
def test_one_value_has_one_bin(value: int) -> None:
    """Also at an edge."""
    (kept,) = trimmed(lengths_of(np.array([value] * 3))["bins"])
    assert kept[0] <= value < kept[1]
    assert kept[2] == 3
    assert histogram([kept], label="x", unit="y").count("<rect") == 1


def test_nothing_is_drawn_of_nothing() -> None:
    """No value, no bin."""
    assert lengths_of(np.array([], dtype=np.int64)) == {"n": 0, "bins": []}
    assert histogram([], label="x", unit="y").startswith("<svg")


def test_the_page_and_its_json_stand_beside_the_manifest(
    frozen: Callable[..., FrozenTask],
) -> None:
    """Written once; the frozen task is the same before and after, and its files verify."""
    task = frozen(inject_gold=True)
    where = write_freeze_report(task.store, task)
    page = Path(where).read_text(encoding="utf-8")
    written = json.loads(Path(where).with_suffix(".json").read_text())
    assert written == json.loads(json.dumps(frozen_facts(task)))
    Path(where).write_text("mine")
    write_freeze_report(task.store, task)
    assert Path(where).read_text() == "mine"
    again = open_frozen(task.store, task.name, task.fingerprint)
    again.verify()
    assert again.manifest == task.manifest
    outline = Outline(page)
    assert outline.open == []
    assert outline.elements <= KNOWN_ELEMENTS
    said = " ".join(outline.texts)
    for entry in written["recall"]:
        assert f"{entry['recall']:.4f}" in said
    assert f"{task.counts['injected']} relevant documents in" in said
    assert all(entry["query_id"] in said for entry in written["injected"]["queries"])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(frozen: Callable[..., FrozenTask], text: str) -> None:
    """Titles, notes and ids of data hold no markup."""
    facts = frozen_facts(frozen(inject_gold=True))
    facts["about"] = {"title": text, "language": text, "licence": text}
    facts["notes"] = {text: text}
    facts["injected"]["queries"][0]["query_id"] = text
    outline = Outline(render_freeze_report(facts))
    assert outline.open == []
    assert outline.elements <= KNOWN_ELEMENTS
    assert not [name for name, _ in outline.attributes if name.startswith("on")]


def test_a_task_without_any_candidate(frozen: Callable[..., FrozenTask]) -> None:
    """As older versions froze them: no figure is NaN or a share, and the page says so."""
    task = frozen()
    facts = frozen_facts(FrozenTask(task.store, task.folder, {**task.manifest, "shards": []}))
    assert facts["recall"] == []
    assert (facts["unjudged_at_10"], facts["candidates_at_10"]) == (None, 0)
    json.dumps(facts, allow_nan=False)
    outline = Outline(render_freeze_report(facts))
    assert outline.open == []
    assert "There are no candidates." in " ".join(outline.texts)


def test_what_a_hub_brings_is_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen in an order that says nothing: in the report and in `rerank check` no depth."""
    hub_folders.isolate(monkeypatch, tmp_path)
    rows = [(f"question {n}", [f"right {n}"], [f"wrong {n} {k}" for k in range(6)]) for n in (1, 2)]
    folder = hub_folders.write_folder(tmp_path / "data", hub_folders.reranking("test", rows))
    spec = TaskSpec(
        name="hub", source="hub", dataset=str(folder), layout="reranking", splits=("test",)
    )
    facts = frozen_facts(freeze(spec, Store(tmp_path / "store")))
    assert not facts["ordered"]
    assert [(entry["depth"], entry["recall"]) for entry in facts["recall"]] == [(7, 1.0)]
    assert (facts["unjudged_at_10"], facts["candidates_at_10"]) == (None, None)
    loaded = load_task(spec)
    assert not loaded.ordered
    found = {one.kind: one for one in examine(loaded.material, ordered=loaded.ordered)}
    assert found["candidate_recall"].values == {"7": 1.0}
    assert "unjudged" not in found

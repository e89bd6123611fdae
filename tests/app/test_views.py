"""The app's views. Oracle: arithmetic on the trial's orders, scipy, numpy filters, brute force."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import metrics
from jobs.app.material import query_material
from jobs.app.reading import Aggregates, Cache, evaluated_suites, read_index
from jobs.app.views.comparing import delta_grid, forest, gate_grid, task_deltas
from jobs.app.views.finding import CHOICES, Search, find_queries, pair_table, queries_grid
from jobs.app.views.overview import imported_grids, overview
from jobs.app.views.pairs import (
    cached_deltas,
    corrected,
    pair_of,
    plain_delta,
    slice_masks,
    whole_delta,
)
from jobs.app.views.rankings import ranking, ranking_html, reasons, test_case
from jobs.app.views.scope import Scope, chosen_systems, chosen_tasks, macro_means, size_of
from jobs.app.views.speed import frontier, speed_figure
from jobs.app.wording import Words
from rerank.errors import FrozenDataError
from rerank.sources import read_frozen_jsonl
from rerank.store import Store
from rerank.tasks import TaskSpec
from tests.app.stores import GRADES, HOSTILE, HTML, SUITE, evaluated, query_ids
from tests.app.test_aggregates import BASE, NEW, WORST

pytest.importorskip("duckdb", reason="the app's own packages are not installed (extra app)")

WORDS = Words("en")
test_case.__test__ = False  # a function of the product, no test


def scope(data: Aggregates, *tasks: str, measure: str = "nDCG@10") -> Scope:
    return Scope(tasks or ("one", "two"), tuple(data.systems), measure)


def test_a_system_without_a_task_has_no_mean_over_it(data: Aggregates) -> None:
    """`partial` lacks task two: no mean over both, one over task one; it is named in a note."""
    both = overview(data, scope(data), WORDS)
    rows = {row["system"]: row for row in both.rows}
    assert rows["partial"]["mean"] is None
    assert rows["partial"]["rank"] is None
    assert [row["system"] for row in both.rows][-1] == "partial"
    assert any("Without a mean" in note and "partial" in note for note in both.notes)
    alone = overview(data, scope(data, "one"), WORDS)
    assert {row["system"] for row in alone.rows if row["mean"] is not None} == set(data.systems)
    assert not any("Without a mean" in note for note in alone.notes)


def test_the_mean_over_tasks_counts_tasks_not_queries(data: Aggregates) -> None:
    one, two = (10 * NEW + 2 * WORST) / 12, (3 * NEW + WORST) / 4
    found = macro_means(data, scope(data))
    assert found["new"].mean == pytest.approx((one + two) / 2)
    assert found["new"].n == 16
    assert found["new"].rank == (1, 1)
    assert found["new"].low <= found["new"].mean <= found["new"].high
    assert found["base"].rank in {(2, 2), (2, 3)}


def test_of_other_measures_several_tasks_have_no_interval(data: Aggregates) -> None:
    assert macro_means(data, scope(data, measure="P@1"))["new"].low is None
    assert macro_means(data, scope(data, "one", measure="P@1"))["new"].low is not None


def test_the_interval_of_one_task_is_that_of_evaluate(data: Aggregates) -> None:
    """200 resamples of evaluate itself, not of the app's copy."""
    row = data.results()["one", "new", "nDCG@10"]
    found = macro_means(data, scope(data, "one"))["new"]
    assert (found.low, found.high) == (row["low"], row["high"])


def test_filters_of_tasks_and_systems(data: Aggregates) -> None:
    assert chosen_tasks(data, ["ko"], []) == ["one"]
    assert chosen_tasks(data, ["ko"], ["two"]) == []
    assert chosen_tasks(data, [], []) == ["one", "two"]
    assert chosen_systems(data, ["3-9B"], []) == ["broken"]
    assert chosen_systems(data, ["?"], []) == ["base", "partial"]
    assert chosen_systems(data, [], ["MIT", "?"]) == ["base", "partial"]
    assert [size_of(x) for x in (None, 0.1, 0.2, 9.0)] == ["?", "<0.2B", "0.2-0.7B", ">=9B"]


def test_the_best_is_marked_and_ties_within_its_interval(data: Aggregates) -> None:
    grid = overview(data, scope(data), WORDS)
    at = {row["system"]: number for number, row in enumerate(grid.rows)}
    assert grid.marks[at["new"], "mean"] == "best"
    low = data.results()["two", "new", "nDCG@10"]["low"]
    assert (grid.marks.get((at["base"], "task:two")) == "near") == (low <= BASE)


def test_failures_and_synthetic_judgments_are_told(data: Aggregates) -> None:
    notes = " ".join(overview(data, scope(data), WORDS).notes)
    assert "systems that have some: broken" in notes
    assert "synthetic" in notes
    assert "2 systems were scored by a recipe that was not checked" in notes


def test_the_frontier_against_brute_force() -> None:
    rng = np.random.default_rng(3)
    points = [tuple(pair) for pair in rng.integers(0, 6, (40, 2)).astype(float).tolist()]

    def beaten(point: tuple[float, float]) -> bool:
        return any(
            other[0] >= point[0] and other[1] >= point[1] and other != point for other in points
        )

    assert {points[at] for at in frontier(points)} == {p for p in points if not beaten(p)}


def test_systems_without_a_speed_are_named_and_not_drawn(data: Aggregates) -> None:
    grid = overview(data, scope(data), WORDS)
    figure, without = speed_figure(grid, "replay_pps", WORDS)
    assert without == ["partial"]
    assert figure is not None
    assert figure.count("<circle") == 3
    assert speed_figure(grid, "pps", WORDS)[0] is None


def test_published_results_stand_in_tables_of_their_own(tmp_path: Path) -> None:
    """A value that is missing leaves the published mean out."""
    block = {
        "protocol": "theirs",
        "source": "paper",
        "measures": ["nDCG@10"],
        "columns": [{"name": "A", "task": "one"}, {"name": "B", "task": None}],
        "rows": [
            {"model": HTML, "values": {"nDCG@10": {"A": 0.5, "B": None}}, "mean": {"nDCG@10": None}}
        ],
        "facts": ["fact"],
        "notes": [],
    }
    evaluated(tmp_path, imported=[block])
    store = Store(tmp_path / "store")
    data = Aggregates(store, read_index(store, "trial"))
    ((title, grid),) = imported_grids(data, WORDS)
    assert title == "theirs (paper)"
    assert dict(grid.rows[0]) == {"model": HTML, "mean": None, "task:A": 0.5, "task:B": None}
    assert HTML not in {row["system"] for row in overview(data, scope(data), WORDS).rows}
    assert "compared with nothing" in grid.notes[0]


def test_deltas_of_the_baseline_are_those_of_evaluate_and_turn_round(data: Aggregates) -> None:
    there = cached_deltas(data, "one", "base", "new", "nDCG@10")[0]
    back = cached_deltas(data, "one", "new", "base", "nDCG@10")[0]
    assert there.cached
    assert there.mean == pytest.approx((10 * (NEW - BASE) + 2 * (WORST - BASE)) / 12)
    assert (back.mean, back.low, back.high) == (-there.mean, -there.high, -there.low)
    assert (back.improved, back.regressed) == (there.regressed, there.improved)
    assert cached_deltas(data, "one", "new", "broken", "nDCG@10") == []


def test_other_pairs_have_t_intervals_as_scipy_makes_them(data: Aggregates) -> None:
    """Queries without a score in one of the two are left out."""
    pair = pair_of(data, "one", "new", "broken", "nDCG@10")
    assert int(pair.kept.sum()) == 11
    deltas = pair.deltas[pair.kept]
    found = whole_delta(data, "one", "new", "broken", "nDCG@10")
    expected = scipy.stats.ttest_1samp(deltas, 0.0)
    ends = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx(deltas.mean())
    assert (found.low, found.high) == (pytest.approx(ends.low), pytest.approx(ends.high))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.n == found.improved + found.tied + found.regressed == 11


def test_deltas_without_a_spread_or_of_one_query(data: Aggregates) -> None:
    assert plain_delta(np.array([0.5, np.nan]), "", data).interval is None
    assert plain_delta(np.array([0.5, 0.5]), "", data).degenerate
    assert plain_delta(np.array([np.nan]), "", data).n == 0
    clustered = Aggregates(
        data.store, {**data.index, "suite": {**data.suite, "clusters": "kind"}}, Cache()
    )
    assert plain_delta(np.array([0.1, 0.5]), "", clustered).p_value is None


def test_holm_over_the_tests_of_a_view(data: Aggregates) -> None:
    deltas = [plain_delta(np.array([0.1, 0.2, x]), "", data) for x in (0.15, 0.4, -0.3)]
    found = corrected([*deltas[:2], replace(deltas[2], small=True)])
    expected = metrics.holm(np.array([deltas[0].p_value, deltas[1].p_value]))
    assert [delta.corrected_p for delta in found] == [*expected.tolist(), None]


def test_slices_of_the_view_are_the_queries_own(data: Aggregates) -> None:
    masks = slice_masks(data, "one")
    assert list(masks) == ["language=en", "language=ko", "kind=k0", "kind=k1", "kind=k2"]
    ids = np.array(data.queries("one")["query_id"].to_pylist(), dtype=object)
    assert set(ids[masks["language=ko"]]) == {query_ids("one")[n] for n in range(1, 12, 2)}


def test_a_forest_of_any_two_systems(data: Aggregates) -> None:
    grid = forest(data, pair_of(data, "one", "new", "partial", "nDCG@10"), WORDS)
    labels = [row["label"] for row in grid.rows]
    assert labels == ["whole task", *slice_masks(data, "one")]
    assert "Neither is the suite's baseline" in grid.notes[0]
    base = forest(data, pair_of(data, "one", "base", "new", "nDCG@10"), WORDS)
    assert "tied=no" in [row["label"] for row in base.rows]  # the challenger's own slices too


def test_task_deltas_begin_with_their_mean(data: Aggregates) -> None:
    deltas = task_deltas(data, "base", "new", "nDCG@10")
    assert [delta.label for delta in deltas] == ["", "one", "two"]
    assert deltas[0].mean == pytest.approx((deltas[1].mean + deltas[2].mean) / 2)
    assert deltas[0].low < deltas[0].mean < deltas[0].high
    assert [delta.label for delta in task_deltas(data, "base", "partial", "nDCG@10")] == ["one"]


def test_where_less_is_better_the_readings_are_swapped(data: Aggregates) -> None:
    delta = replace(plain_delta(np.array([0.1, 0.11, 0.12, 0.13]), "t", data), corrected_p=0.001)
    up = delta_grid("g", [delta], ("Task", ""), data, WORDS, "nDCG@10")
    down = delta_grid("g", [delta], ("Task", ""), data, WORDS, "unjudged@10")
    assert up.rows[0]["reading"] == "better"
    assert down.rows[0]["reading"] == "worse"


def test_the_gate_shows_the_rules_about_the_two(data: Aggregates) -> None:
    rows = gate_grid(data, ("base", "broken"), WORDS).rows
    assert {row["challenger"] for row in rows} == {"broken"}
    failed = [row for row in rows if row["verdict"] == "fail"]
    assert [(row["rule"], row["task"]) for row in failed] == [("max_failed_share", "one")]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("text", ["", "QUERY 1", "one-00"])
@pytest.mark.parametrize("slice_", ["", "language=ko"])
def test_searches_against_plain_filters(
    data: Aggregates, choice: str, text: str, slice_: str
) -> None:
    """The same rows by Python on the same table, and the order of deltas."""
    search = Search("", "base", "broken", "nDCG@10", choice, text, slice_)
    rows = pair_table(data, search).to_pylist()
    rule = {
        "regressions": lambda row: row["delta"] is not None and row["delta"] < 0,
        "gains": lambda row: row["delta"] is not None and row["delta"] > 0,
        "every": lambda row: True,
        "no_gold": lambda row: row["gold_rank"] == 0 and row["relevant"] > 0,
        "truncated": lambda row: row["truncated"],
        "tied": lambda row: row["tied_share"] > 0,
        "failed": lambda row: row["failed"],
        "unanswerable": lambda row: row["relevant"] == 0,
    }[choice]
    expected = {
        (row["task"], row["query_id"])
        for row in rows
        if rule(row)
        and (not text or text.lower() in row["query"].lower() or text == row["query_id"])
        and (not slice_ or slice_ in row["slices"])
    }
    found, total = find_queries(data, search)
    assert total == len(expected)
    assert {(row["task"], row["query_id"]) for row in found.to_pylist()} == expected
    deltas = [row["delta"] for row in found.to_pylist() if row["delta"] is not None]
    if choice != "tied":
        assert deltas == sorted(deltas, reverse=choice == "gains")


def test_pages_of_a_search_are_parts_of_the_whole(
    data: Aggregates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.app.views.finding.PAGE", 5)
    search = Search("one", "base", "new", "nDCG@10", "every")
    parts = [find_queries(data, search, page=page)[0].to_pylist() for page in range(3)]
    whole, total = find_queries(data, search, everything=True)
    assert [len(part) for part in parts] == [5, 5, 2]
    assert list(itertools.chain(*parts)) == whole.to_pylist()
    assert total == 12


def test_a_hostile_search_is_a_text_and_nothing_else(data: Aggregates) -> None:
    for text in ("' OR 1=1 --", "%", "_", "\\", *HOSTILE[:4]):
        _, total = find_queries(data, Search("one", "base", "new", "nDCG@10", "every", text))
        assert total == sum(
            text.lower() in query.lower() for query in data.queries("one")["query"].to_pylist()
        )


def test_a_failed_query_says_so_in_its_row(data: Aggregates) -> None:
    rows, _ = find_queries(data, Search("one", "base", "broken", "nDCG@10", "failed"))
    (row,) = queries_grid(rows, Search("one", "base", "broken", "nDCG@10"), WORDS).rows
    assert row["query_id"] == "one-00"
    assert row["delta"] is None
    assert row["flags"] == "no score, tied"


@pytest.mark.parametrize("system", ["base", "new", "broken", "partial"])
def test_the_shown_order_has_the_evaluated_value(data: Aggregates, system: str) -> None:
    """nDCG of the order that is shown, by hand, is the value of the aggregates."""
    for at, query_id in enumerate(sorted(query_ids("one"), key=str.encode)):
        material = query_material(data, "one", query_id, [system])
        order = [entry.candidate.grade or 0 for entry in ranking(material, system, SUITE.tie)]
        gain = sum(grade / np.log2(rank + 1) for rank, grade in enumerate(order, 1))
        ideal = sum(grade / np.log2(rank + 1) for rank, grade in enumerate((2, 1, 1), 1))
        value = data.values("one", system, "nDCG@10")[at]
        assert gain / ideal == pytest.approx(value, abs=1e-12)


def test_ties_by_each_rule(data: Aggregates) -> None:
    """`broken` ties d0, d1 and d2; d3 is below."""
    material = query_material(data, "one", "one-01", ["broken"])

    def order(tie: str) -> list[str]:
        return [entry.candidate.doc_id for entry in ranking(material, "broken", tie)]

    assert order("trec") == ["d2", "d1", "d0", "d3"]
    assert order("docid_asc") == ["d0", "d1", "d2", "d3"]
    assert order("input") == ["d0", "d1", "d2", "d3"]
    assert order("expected") == order("trec")
    tied = [entry.tied for entry in ranking(material, "broken", "trec")]
    assert tied == [True, True, True, False]


def test_why_a_query_moved(data: Aggregates) -> None:
    """d1 falls from 2 to 4, d3 rises from 4 to 3; the third relevant document is no candidate."""
    material = query_material(data, "one", "one-03", ["base", "new"])
    first, second = (ranking(material, name, "trec") for name in ("base", "new"))
    assert reasons(first, second, material, WORDS) == [
        "The first relevant document moved from rank 2 to 3.",
        "d1 (grade 2) fell from rank 2 to 4.",
        "d3 (grade 1) rose from rank 4 to 3.",
        "Relevant documents that are no candidates, out of reach of both: 1.",
    ]
    same = reasons(first, first, replace(material, missed=()), WORDS)
    assert same == ["The relevant documents stand at the same ranks in both."]
    none = [replace(e, candidate=replace(e.candidate, grade=None)) for e in first]
    assert "Every relevant document was missed" in reasons(none, none, material, WORDS)[0]


def test_a_failure_is_shown_beside_its_document(data: Aggregates) -> None:
    material = query_material(data, "one", "one-00", ["base", "broken"])
    side = ranking(material, "broken", "trec")
    assert [entry.candidate.doc_id for entry in side] == ["d2", "d3", "d1", "d0"]
    html = ranking_html("broken", side, side, 10, WORDS)
    assert html.count("no score: out of memory") == 2
    assert "<script" not in html
    assert "onerror=&quot;" in html or "onerror=" not in html


@pytest.mark.parametrize("number", range(12))
def test_a_copied_test_case_is_read_back_byte_for_byte(
    data: Aggregates, tmp_path: Path, number: int
) -> None:
    """Oracle: the product's own reader of frozen candidates."""
    query_id = query_ids("one")[number]
    material = query_material(data, "one", query_id, [])
    line = test_case(material, "fingerprint")
    assert "\n" not in line
    (tmp_path / "candidates.jsonl").write_text(line + "\n", encoding="utf-8")
    read = read_frozen_jsonl(TaskSpec(name="t", source="frozen_jsonl", folder=str(tmp_path)))
    (query,) = read.queries.values()
    assert query.query_id == query_id
    assert query.text == f"query {number} {HOSTILE[number % len(HOSTILE)]}"
    assert query.attributes == {"language": "ko" if number % 2 else "en", "kind": f"k{number % 3}"}
    texts = [f"{HOSTILE[(number + n) % len(HOSTILE)]} document {n}" for n in range(4)]
    assert [candidate.text for candidate in read.candidates[query_id]] == texts
    grades = {row.doc_id: row.grade for row in read.judgments}
    assert grades == {f"d{n}": grade for n, grade in GRADES.items() if grade is not None}
    assert json.loads(line)["candidates"][0]["retrieval_score"] == 10.0


def test_a_query_that_is_none_and_scores_that_are_gone(tmp_path: Path) -> None:
    """Nothing is shown that does not match its receipt."""
    evaluated(tmp_path)
    store = Store(tmp_path / "store")
    data = Aggregates(store, read_index(store, "trial"))
    assert query_material(data, "one", "nobody", ["base"]) is None
    print_ = data.system("new")["runs"]["one"]
    folder = f"runs/one/new/{print_}/scores"
    store.write(f"{folder}/{store.files(folder)[0]}", b"other")
    with pytest.raises(FrozenDataError, match="no valid scores of shard 0 any more; replay"):
        query_material(data, "one", "one-00", ["base", "new"])


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert evaluated_suites(store) == []
    store.write_json("evaluations/s/aggregates/index.json", {"version": 0})
    assert evaluated_suites(store) == ["s"]
    with pytest.raises(FrozenDataError, match="run `rerank evaluate` again"):
        read_index(store, "s")


def test_the_cache_keeps_what_was_used_last() -> None:
    cache, made = Cache(most=2), []
    for key in ("a", "b", "a", "c", "a", "b"):
        cache.get(key, lambda key=key: made.append(key))
    assert made == ["a", "b", "c", "b"]

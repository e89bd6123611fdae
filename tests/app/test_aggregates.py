"""What evaluate writes for the app. Oracle: the evaluation itself, and arithmetic by hand.

Every query of the trial has the same grades, so a system's value follows from its order alone.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.__main__ import main
from jobs.app.reading import Aggregates, read_index
from jobs.app.views.overview import overview
from jobs.app.views.scope import Scope
from jobs.app.wording import Words
from rerank.efficiency.results import KEYS, write_measurement
from rerank.store import Store
from rerank.suite.aggregate_tables import _latency, replay_rate
from rerank.suite.aggregates import aggregates_key, write_aggregates
from rerank.suite.findings import find
from tests.app.stores import MODELS, QUERIES, SUITE, evaluated, query_ids
from tests.jobs.small_suite import replayed_suite, write_suite

SECOND, THIRD, FOURTH = (1 / math.log2(rank + 1) for rank in (2, 3, 4))
IDEAL = 2 + SECOND + THIRD  # grades 2, 1 and the 1 that is no candidate
BASE = (2 * SECOND + FOURTH) / IDEAL  # d0 (0), d1 (2), d2 (unjudged), d3 (1)
NEW = (2 + THIRD) / IDEAL  # d1, d2, d3, d0
WORST = (THIRD + 2 * FOURTH) / IDEAL  # d0, d2, d3, d1: new's order on every fourth query


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    evaluated(folder)
    return folder


def read(root: Path, name: str) -> list[dict]:
    store = Store(root / "store")
    key = aggregates_key("trial")
    stamp = store.read_json(f"{key}/index.json")["stamp"]
    return store.read_table(f"{key}/{stamp}/{name}.parquet").to_pylist()


def test_values_a_query(root: Path) -> None:
    """`base` has one value on all queries; the first query has no score of `broken` for d0, d1."""
    base = read(root, "values/one/base")
    assert [row["query_id"] for row in base] == sorted(query_ids("one"), key=str.encode)
    assert [row["m:nDCG@10"] for row in base] == pytest.approx([BASE] * 12)
    broken = {row["query_id"]: row for row in read(root, "values/one/broken")}
    assert [key for key, row in broken.items() if row["failed"]] == ["one-00"]
    assert broken["one-01"]["tied_share"] == pytest.approx(3 / 4)


def test_means_and_what_qualifies_them(root: Path) -> None:
    """new: three of four queries are NEW, the others have d1 on the last place."""
    means = {
        (row["task"], row["system"]): row
        for row in read(root, "results")
        if row["measure"] == "nDCG@10"
    }
    assert means["two", "new"]["mean"] == pytest.approx((3 * NEW + WORST) / 4)
    assert means["two", "new"]["n"] == 4
    facts = {(row["task"], row["system"]): row for row in read(root, "systems")}
    assert facts["one", "broken"]["failed_pairs"] == 2
    assert facts["one", "broken"]["failed_queries"] == 1
    assert facts["one", "base"]["oracle"] == pytest.approx((2 + SECOND) / IDEAL)
    assert facts["one", "base"]["headroom"] == pytest.approx((2 + SECOND) / IDEAL - BASE)
    # three shards of 16 pairs took 2 s each
    assert facts["one", "base"]["replay_pps"] == pytest.approx(8.0)


def test_comparisons_hold_the_slices_of_the_primary_measure(root: Path) -> None:
    """Odd queries are Korean; of the twelve deltas of `new` two are below 0."""
    rows = [
        row
        for row in read(root, "comparisons")
        if (row["task"], row["challenger"], row["measure"]) == ("one", "new", "nDCG@10")
    ]
    whole = next(row for row in rows if not row["attribute"])
    assert (whole["improved"], whole["tied"], whole["regressed"]) == (10, 0, 2)
    assert whole["mean"] == pytest.approx((10 * (NEW - BASE) + 2 * (WORST - BASE)) / 12)
    sizes = {f"{row['attribute']}={row['value']}": row["n"] for row in rows if row["attribute"]}
    assert sizes["language=ko"] == 6
    assert sizes["language=en"] == 6
    assert not any(row["measure"] != "nDCG@10" and row["attribute"] for row in rows)


def test_candidates_by_depth(root: Path) -> None:
    """Relevant candidates stand on ranks 2 and 4 of stage 1; a third relevant document is none."""
    depths = {row["depth"]: row for row in read(root, "depths") if row["task"] == "one"}
    assert list(depths) == [1, 2, 3, 4]
    assert [depths[k]["coverage"] for k in depths] == pytest.approx([0, 1, 1, 1])
    assert [depths[k]["recall"] for k in depths] == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3])
    assert depths[2]["oracle"] == pytest.approx(2 / IDEAL)
    golds = [(row["rank"], row["queries"]) for row in read(root, "gold_ranks")]
    assert golds == [(2, QUERIES["one"]), (2, QUERIES["two"])]


def test_unjudged_shares_by_cutoff(root: Path) -> None:
    """d2 is unjudged: third in base's order, second in new's on all but two queries."""
    found = {
        (row["system"], row["k"]): row["value"]
        for row in read(root, "unjudged")
        if row["task"] == "one"
    }
    assert found["base", 1] == 0
    assert found["base", 3] == pytest.approx(1 / 3)
    assert found["new", 3] == pytest.approx(1 / 3)
    assert found["new", 1] == 0


def test_queries_with_their_shared_slices(root: Path) -> None:
    """`tied` is each system's own and no query's."""
    rows = {row["query_id"]: row for row in read(root, "queries/one")}
    assert rows["one-01"]["slices"] == ["language=ko", "kind=k1"]
    assert rows["one-01"]["candidates"] == 4
    assert rows["one-01"]["relevant"] == 3
    assert rows["one-01"]["gold_rank"] == 2
    assert {row["shard"] for row in rows.values()} == {0, 1, 2}


def test_resamples_are_shared(root: Path) -> None:
    """In every resample of task two the delta is a mean of four draws of two values."""
    rows = read(root, "resamples/two")
    assert len(rows) == SUITE.samples
    deltas = np.array([row["new"] - row["base"] for row in rows])
    steps = np.array([(k * NEW + (4 - k) * WORST) / 4 - BASE for k in range(5)])
    assert np.abs(deltas[:, None] - steps).min(axis=1).max() < 1e-6


def test_nothing_is_written_twice_and_old_tables_go(tmp_path: Path) -> None:
    """The same findings leave every file alone; a change of the suite replaces them."""
    findings, store = evaluated(tmp_path), Store(tmp_path / "store")
    key = aggregates_key("trial")
    index = store.read_json(f"{key}/index.json")
    before = index["stamp"]
    store.write(f"{key}/{before}/results.parquet", b"seen")
    write_aggregates(store, findings, MODELS)
    assert store.read(f"{key}/{before}/results.parquet") == b"seen"
    changed = find(replace(SUITE, confidence=0.9), findings.systems)
    write_aggregates(store, changed, MODELS)
    after = store.read_json(f"{key}/index.json")["stamp"]
    assert after != before
    assert store.folders(key) == [after] or store.files(f"{key}/{before}") == []
    assert store.files(f"{key}/{before}/values/one") == []


def test_words_about_models_are_part_of_the_stamp(tmp_path: Path) -> None:
    """A licence that is corrected in a model's file reaches the app."""
    findings, store = evaluated(tmp_path), Store(tmp_path / "store")
    models = [replace(model, licence="GPL-3.0") for model in MODELS]
    index = store.read_json(write_aggregates(store, findings, models))
    assert {system["licence"] for system in index["systems"]} == {"GPL-3.0"}


ONE_CLIENT = {
    **{"name": "closed 1", "load": {"concurrency": 1}, "n": 5000, "unanswered": 0},
    "latency": {"p95": {"value": 0.25}},
}


@pytest.mark.parametrize(
    "changed",
    [
        {"depth": 1},
        {"served": {"network": True}},
        {"latency": [{**ONE_CLIENT, "unanswered": 2}]},
        {"latency": [{**ONE_CLIENT, "load": {"concurrency": 32}}]},
    ],
)
def test_what_is_no_request_of_one_client_has_no_place_in_the_column(changed: dict) -> None:
    """Fewer candidates, a server's network, only those that were answered, other load."""
    record = {"depth": None, "latency": [ONE_CLIENT]}
    assert _latency(record) == {"p95": 0.25, "load": "closed 1"}
    assert _latency({**record, **changed}) == {"p95": None, "load": None}


def test_a_folder_that_lost_a_table_is_written_again(tmp_path: Path) -> None:
    """The index is whole, and what it stands for is not."""
    findings, store = evaluated(tmp_path), Store(tmp_path / "store")
    shutil.rmtree(tmp_path / "store/evaluations")  # the trial's own lack a system's task
    write_aggregates(store, findings, MODELS)
    tables = sorted((tmp_path / "store/evaluations/trial/aggregates").rglob("*.parquet"))
    before = {table: table.read_bytes() for table in tables}
    for table in tables:
        table.unlink()
        write_aggregates(store, findings, MODELS)
        assert table.read_bytes() == before[table], table


def test_measurements_of_speed_are_taken_in(tmp_path: Path) -> None:
    """One record of task one, as `rerank measure` writes it: another stamp, and figures."""
    findings, store = evaluated(tmp_path), Store(tmp_path / "store")
    before = store.read_json("evaluations/trial/aggregates/index.json")["stamp"]
    record = {
        **dict.fromkeys(KEYS),
        **{"id": "t-1", "task": "one", "model": "new"},
        "run": findings.system("one", "new").run.fingerprint,
        "throughput": {"shared": None, "whole": {"best": {"pairs_per_second": 120.0}}},
        "latency": [ONE_CLIENT],
    }
    write_measurement(store, record)
    write_aggregates(store, findings, MODELS)
    data = Aggregates(store, read_index(store, "trial"))
    assert data.index["stamp"] != before
    row = data.system_rows()["one", "new"]
    assert (row["pps"], row["p95"], row["load"]) == (120.0, 0.25, "closed 1")
    grid = overview(data, Scope(("one", "two"), tuple(data.systems), data.primary), Words())
    speeds = {row["system"]: (row["pps"], row["p95"]) for row in grid.rows}
    assert speeds["new"] == (120.0, 0.25)
    assert speeds["base"] == (None, None)
    assert "Pairs/s: mean over the tasks on which it was measured: one." in grid.notes


def test_the_verb_evaluate_writes_them(tmp_path: Path) -> None:
    """`rerank evaluate` alone: no model is loaded again."""
    words = replayed_suite(tmp_path)
    assert main(["evaluate", *words]) == 0
    index = Store(tmp_path / "store").read_json("evaluations/s/aggregates/index.json")
    assert [task["name"] for task in index["tasks"]] == ["tiny"]
    assert [system["name"] for system in index["systems"]] == ["first_stage", "overlap"]
    assert index["systems"][0]["runs"].keys() == {"tiny"}


def test_a_running_suite_is_evaluated_as_far_as_it_is_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """overlap was not replayed: refused without the option, else left out and named."""
    words = write_suite(tmp_path)
    assert main(["freeze", *words]) == 0
    assert main(["replay", *words, "models=[first_stage]"]) == 0
    assert main(["evaluate", *words]) == 1
    assert "lacks 1 of 1 shards" in capsys.readouterr().err
    assert main(["evaluate", *words, "--complete-only"]) == 1
    assert "left out, since their runs are not complete: overlap" in capsys.readouterr().out
    store = Store(tmp_path / "store")
    data = Aggregates(store, read_index(store, "s"))
    assert (data.systems, data.index["waiting"]) == (["first_stage"], ["overlap"])
    notes = overview(data, Scope(("tiny",), ("first_stage",), data.primary), Words()).notes
    assert any("not complete when it was made: overlap" in note for note in notes)
    assert main(["replay", *words]) == 0
    assert main(["evaluate", *words, "--complete-only"]) == 0
    assert read_index(store, "s")["waiting"] == []


@pytest.mark.parametrize(
    ("receipts", "rate"),
    [
        ([{"rows": 10, "deaths": 0, "started": 1.0, "finished": 3.0}], 5.0),
        ([{"rows": 10, "deaths": 1, "started": 1.0, "finished": 3.0}], None),
        ([{"rows": 10, "deaths": 0}], None),
        ([], None),
    ],
)
def test_a_replay_rate_is_of_whole_shards_alone(receipts: list[dict], rate: float | None) -> None:
    assert replay_rate(receipts) == rate

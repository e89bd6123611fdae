"""`rerank significance` through the command line.

Oracles: the conformance cases 42, 44 and 45 (numbers by hand), statsmodels, numpy on the same
values, and `metrics` called on the aligned arrays.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from statsmodels.stats.multitest import multipletests

import metrics
from jobs.__main__ import main
from rerank.schemas import SCHEMAS
from tests.conftest import write_jsonl

Capture = pytest.CaptureFixture[str]


def answer(capsys: Capture, *words: object, code: int = 0) -> dict:
    """The JSON document that the command prints; strict, so NaN would not parse."""
    assert main(["significance", *map(str, words), "--json"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def refusal(capsys: Capture, *words: object) -> str:
    """The one sentence of an error; exit code 2, nothing on standard output."""
    assert main(["significance", *map(str, words)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


def write_values(path: Path, columns: dict[str, list], **fields: list) -> Path:
    """A row a query: q000, q001, ... with the measures and other fields given as columns."""
    named = {**columns, **fields}
    n = len(next(iter(named.values())))
    rows = [
        {"query_id": f"q{at:03d}", **{name: column[at] for name, column in named.items()}}
        for at in range(n)
    ]
    return write_jsonl(path, rows)


@pytest.fixture
def three(tmp_path: Path) -> tuple[dict[str, dict[str, np.ndarray]], list[Path]]:
    """Three systems, two measures, 60 queries in 12 topics; one value of `new` failed."""
    rng = np.random.default_rng(5)
    base = {"nDCG@10": rng.beta(2, 2, 60), "RR": rng.beta(1, 1, 60)}
    values = {
        "base": base,
        "new": {
            name: np.clip(column + rng.normal(0.05, 0.1, 60), 0, 1) for name, column in base.items()
        },
        "old": {name: column * 0.97 for name, column in base.items()},
    }
    values["new"]["nDCG@10"][7] = np.nan
    topics = [f"t{at % 12}" for at in range(60)]
    paths = [
        write_values(
            tmp_path / f"{name}.jsonl",
            {
                m: [None if np.isnan(v) else v for v in column.tolist()]
                for m, column in found.items()
            },
            topic=topics,
        )
        for name, found in values.items()
    ]
    return values, paths


def test_corrections_leave_out_the_baseline(tmp_path: Path, capsys: Capture) -> None:
    """Case 42: m = 3; Bonferroni, Holm and BH by hand; the baseline's own row does not count."""
    file = tmp_path / "p.json"
    tested = {"m1": 0.012, "m2": 0.02, "m3": 0.3}
    for written in (tested, {"m0": 1.0, **tested}):
        file.write_text(json.dumps({"baseline": "m0", "alpha": 0.05, "p": written}))
        found = answer(capsys, "--p-values", file)
        assert found["m"] == 3
        assert found["bonferroni"] == pytest.approx({"m1": 0.036, "m2": 0.06, "m3": 0.9})
        assert found["holm"] == pytest.approx({"m1": 0.036, "m2": 0.04, "m3": 0.3})
        assert found["bh"] == pytest.approx({"m1": 0.03, "m2": 0.03, "m3": 0.3})
        assert found["rejected"] == {"holm": ["m1", "m2"], "bonferroni": ["m1"], "bh": ["m1", "m2"]}
    assert main(["significance", "--p-values", str(file)]) == 0
    assert "3 tests, the baseline not counted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"p": {"m1": 1.2}}, "p.json, field 'p.m1': 1.2 is no number between 0 and 1"),
        ({"p": {"m1": True}}, "field 'p.m1': True"),
        ({"p": {}}, "field 'p': must be an object of p-values"),
        ({"p": {"m1": 0.1}, "alpha": "x"}, "field 'alpha': 'x'"),
        ({"p": {"m1": 0.1}, "baseline": 3}, "field 'baseline': 3"),
    ],
)
def test_wrong_p_values_are_named(
    tmp_path: Path, capsys: Capture, document: dict, message: str
) -> None:
    """File and field in one sentence."""
    file = tmp_path / "p.json"
    file.write_text(json.dumps(document))
    assert message in refusal(capsys, "--p-values", file)


def test_twenty_of_twenty_is_not_certain(tmp_path: Path, capsys: Capture) -> None:
    """Case 44: the bootstrap gives [1, 1] and is flagged; Wilson 95 % is [0.8389, 1]."""
    rows = [{"qid": f"q{at}", "success@1": 1} for at in range(1, 21)]
    file = write_jsonl(tmp_path / "perquery.jsonl", rows)
    (found,) = answer(capsys, "--values", file)["systems"]
    assert (found["mean"], found["bootstrap"]) == (1.0, [1.0, 1.0])
    assert found["flag"] == "degenerate_bootstrap"
    assert found["wilson95"] == pytest.approx([0.8388748419471806, 1.0], abs=1e-15)
    assert found["interval"]["kind"] == "wilson"
    assert main(["significance", "--values", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "[0.8389, 1.0000] wilson*" in printed
    assert "* degenerate" in printed


def test_failures_are_counted_and_gate(tmp_path: Path, capsys: Capture) -> None:
    """Case 45: 0.6667 over three, 0.5 with the failure as 0; the share fails the gate."""
    rows: list[dict] = [
        {"qid": "q1", "faithfulness": 1.0},
        {"qid": "q2", "faithfulness": 1.0},
        {"qid": "q3", "faithfulness": None, "error": "Timeout"},
        {"qid": "q4", "faithfulness": 0.0},
    ]
    file = write_jsonl(tmp_path / "perquery.jsonl", rows)
    document = answer(capsys, "--values", file, "--max-failed-share", "0.1", code=1)
    (found,) = document["systems"]
    assert (found["mean"], found["zero_mean"]) == (2 / 3, 0.5)
    assert (found["n_valid"], found["n_failed"]) == (3, 1)
    assert found["gate"] == "fail: failed share 0.25 > 0.10"
    assert document["passed"] is False
    assert answer(capsys, "--values", file, "--max-failed-share", "0.25")["passed"] is True
    rows[2] = {"qid": "q3"}  # a missing field is a failure too
    write_jsonl(file, rows)
    assert answer(capsys, "--values", file)["systems"][0]["n_failed"] == 1
    assert main(["significance", "--values", str(file), "--max-failed-share", "0.1"]) == 1
    assert "perquery, faithfulness: fail: failed share 0.25 > 0.10" in capsys.readouterr().out


def test_a_share_just_above_the_limit_is_not_printed_as_equal(
    tmp_path: Path, capsys: Capture
) -> None:
    """0.1004 > 0.10 would read "0.10 > 0.10" with two places."""
    values = [None] * 101 + [0.5] * 904 + [1.0]
    file = write_values(tmp_path / "v.jsonl", {"m": values})
    found = answer(capsys, "--values", file, "--max-failed-share", "0.1", code=1)
    assert found["systems"][0]["gate"] == "fail: failed share 0.1004 > 0.1000"


def test_pairs_take_common_valid_queries_only(
    three: tuple[dict[str, dict[str, np.ndarray]], list[Path]], capsys: Capture
) -> None:
    """Means, counts and p-values of numpy, `metrics` and statsmodels on the same queries."""
    values, paths = three
    found = answer(capsys, "--values", *paths, "--effect", "0.01", "--samples", "2000")
    assert [(row["challenger"], row["measure"]) for row in found["pairs"]] == [
        ("new", "nDCG@10"), ("new", "RR"), ("old", "nDCG@10"), ("old", "RR"),
    ]  # fmt: skip
    first = found["pairs"][0]
    deltas = values["new"]["nDCG@10"] - values["base"]["nDCG@10"]
    kept = deltas[~np.isnan(deltas)]
    assert (first["n"], first["left_out"]) == (59, 1)
    assert first["mean"] == pytest.approx(kept.mean(), abs=1e-15)
    assert first["improved"] == np.count_nonzero(kept > 0)
    assert first["effect_size"] == pytest.approx(kept.mean() / kept.std(ddof=1))
    assert first["detectable_effect"] == pytest.approx(metrics.detectable_effect(kept))
    assert first["queries_needed"] == metrics.queries_needed(kept, effect=0.01)
    p_values = [row["p"] for row in found["pairs"]]
    expected = multipletests(p_values, method="holm")[1]
    assert [row["p_corrected"] for row in found["pairs"]] == pytest.approx(expected, abs=1e-12)
    assert found["tests"] == 4
    plain = metrics.bootstrap_interval(
        values["base"]["RR"], samples=2000, rng=np.random.default_rng(17)
    )
    assert plain is not None
    assert found["systems"][1]["interval"] == vars(plain)


def test_a_test_of_choice_and_its_correction(
    three: tuple[dict[str, dict[str, np.ndarray]], list[Path]], capsys: Capture
) -> None:
    """--test t --correction bh are `metrics.t_test` and statsmodels' fdr_bh."""
    values, paths = three
    words = ["--values", *paths, "--baseline", "old", "--test", "t", "--correction", "bh"]
    found = answer(capsys, *words, "-m", "RR", "--samples", "500", "--method", "bca")["pairs"]
    assert [row["challenger"] for row in found] == ["base", "new"]
    expected = [
        metrics.t_test(values[name]["RR"] - values["old"]["RR"]) for name in ("base", "new")
    ]
    assert [row["p"] for row in found] == pytest.approx(expected, rel=1e-12)
    corrected = multipletests(expected, method="fdr_bh")[1]
    assert [row["p_corrected"] for row in found] == pytest.approx(corrected, rel=1e-12)
    assert {row["interval"]["kind"] for row in found} == {"bca"}


def test_standings_of_three_systems(
    three: tuple[dict[str, dict[str, np.ndarray]], list[Path]], capsys: Capture
) -> None:
    """`metrics.rank_intervals` and `probability_better` on the queries valid in all."""
    values, paths = three
    found = answer(capsys, "--values", *paths, "--samples", "1000")["standings"]
    table = np.stack([values[name]["nDCG@10"] for name in ("base", "new", "old")], axis=1)
    kept = table[~np.isnan(table).any(axis=1)]
    means = metrics.bootstrap_means(kept, samples=1000, rng=np.random.default_rng(17))
    assert found[0]["n"] == 59
    ranks = [row["ranks"] for row in found[0]["systems"]]
    assert ranks == metrics.rank_intervals(means).tolist()
    better = metrics.probability_better(means)
    assert found[0]["systems"][1]["probability_better"] == {
        "base": better[1, 0], "old": better[1, 2],
    }  # fmt: skip
    assert answer(capsys, "--values", *paths[:2])["standings"] == []
    assert main(["significance", "--values", *map(str, paths)]) == 0
    assert "nDCG@10, 59 queries" in capsys.readouterr().out


def test_clusters_are_tested_whole(
    three: tuple[dict[str, dict[str, np.ndarray]], list[Path]], capsys: Capture
) -> None:
    """12 topics: the exact randomisation over 2^12 flips of cluster sums, and their spread."""
    values, paths = three
    found = answer(
        capsys, "--values", *paths[:2], "--clusters", "topic", "-m", "RR", "--effect", "0.02"
    )
    deltas = values["new"]["RR"] - values["base"]["RR"]
    sums = deltas.reshape(5, 12).sum(axis=0)
    flips = np.arange(1 << 12)[:, None] >> np.arange(12) & 1
    reached = np.abs((1 - 2 * flips) @ sums) >= abs(sums.sum()) - 1e-12
    (row,) = found["pairs"]
    assert found["clusters"] == 12
    assert row["p"] == reached.mean()
    units = sums / 5
    assert row["detectable_effect"] == pytest.approx(metrics.detectable_effect(units))
    assert row["queries_needed"] == 5 * metrics.queries_needed(units, effect=0.02)
    expected = metrics.bootstrap_interval(
        deltas, rng=np.random.default_rng(17), clusters=[f"t{at % 12}" for at in range(60)]
    )
    assert expected is not None
    assert row["interval"] == vars(expected)


def test_parquet_says_what_jsonl_says(
    three: tuple[dict[str, dict[str, np.ndarray]], list[Path]], tmp_path: Path, capsys: Capture
) -> None:
    """The long form of `query_metrics`, queries in another order: the same document."""
    values, paths = three
    rows = [
        {"task": "a", "model": name, "query_id": f"q{at:03d}", "measure": measure, "value": value}
        for name, found in values.items()
        for measure, column in found.items()
        for at, value in enumerate(column.tolist())
    ]
    rows = [
        {**row, "value": None if row["value"] != row["value"] else row["value"]} for row in rows
    ]
    order = np.argsort([row["measure"] == "RR" for row in rows], kind="stable")
    shuffled = [
        rows[at]
        for at in sorted(order, key=lambda at: (7 * int(rows[at]["query_id"][1:]) % 60, at))
    ]
    file = tmp_path / "metrics.parquet"
    pq.write_table(pa.Table.from_pylist(shuffled, schema=SCHEMAS["query_metrics"]), file)
    expected = answer(capsys, "--values", *paths, "--samples", "300")
    assert answer(capsys, "--values", file, "--samples", "300") == expected
    pq.write_table(
        pa.Table.from_pylist([*rows, {**rows[0], "task": "b"}], schema=SCHEMAS["query_metrics"]),
        file,
    )
    assert "holds 2 tasks (a, b); choose one with --task" in refusal(capsys, "--values", file)
    assert answer(capsys, "--values", file, "--task", "a", "--samples", "300") == expected


def test_a_query_that_a_file_lacks_is_a_failure(tmp_path: Path, capsys: Capture) -> None:
    """The second tool dropped its failed query: counted, not forgotten."""
    first = write_values(tmp_path / "a.jsonl", {"m": [0.0, 1.0, 0.5]})
    second = write_jsonl(
        tmp_path / "b.jsonl", [{"query_id": "q001", "m": 1.0}, {"query_id": "q002", "m": 1.0}]
    )
    found = answer(capsys, "--values", first, second)
    row = found["systems"][1]
    assert (row["n_valid"], row["n_failed"], row["n_absent"]) == (2, 1, 1)
    assert (row["mean"], row["zero_mean"]) == (1.0, 2 / 3)
    assert (found["pairs"][0]["n"], found["pairs"][0]["mean"]) == (2, 0.25)


def test_equal_systems_prove_nothing(tmp_path: Path, capsys: Capture) -> None:
    """All deltas 0: p = 1, an interval marked degenerate, no detectable effect, no NaN in JSON."""
    same = {"m": [0.0, 1.0, 0.5]}
    paths = [write_values(tmp_path / f"{name}.jsonl", same) for name in "ab"]
    (row,) = answer(capsys, "--values", *paths)["pairs"]
    assert (row["p"], row["detectable_effect"], row["effect_size"]) == (1.0, None, None)
    assert row["interval"] == {"low": 0, "high": 0, "kind": "percentile", "degenerate": True}


def test_files_of_the_same_name_are_told_apart(tmp_path: Path, capsys: Capture) -> None:
    """Two folders, one file name: the path is part of the system's name."""
    paths = [
        write_values(tmp_path / folder / "v.jsonl", {"m": [0.0, 1.0]}) for folder in ("a", "b")
    ]
    names = [row["system"] for row in answer(capsys, "--values", *paths)["systems"]]
    assert names == [f"{path}:v" for path in paths]
    assert "given twice" in refusal(capsys, "--values", paths[0], paths[0])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query_id": "q9", "m": "0.5"}, "line 2, field 'm': '0.5' is no number"),
        ({"query_id": "q9", "m": True}, "line 2, field 'm': True is no number"),
        ({"query_id": "q9", "m": float("nan")}, "line 2, field 'm': nan is not finite"),
        ({"query_id": "q9", "m": 10**400}, "is not finite"),
        ({"query_id": "q1", "m": 0.1}, "lines 1 and 2: query 'q1' occurs twice"),
        ({"query_id": 9, "m": 0.1}, "line 2, field 'query_id': 9 is int, must be a string"),
        ({"m": 0.1}, "line 2: field 'query_id' is missing"),
        ({"query_id": "q9", "m": 0.1, "error": "Timeout"}, "line 2, field 'error': the row has"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, capsys: Capture, row: dict, message: str) -> None:
    """File, line and field in one sentence, and exit code 2."""
    file = write_jsonl(tmp_path / "v.jsonl", [{"query_id": "q1", "m": 0.5}, row])
    said = refusal(capsys, "--values", file)
    assert f"{file}, line" in said
    assert message in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "x"], "no measure 'x'; it has m"),
        (["--baseline", "vv"], "unknown baseline 'vv'. Did you mean 'v'?"),
        (["--clusters", "topic"], "line 1, field 'topic': None is no cluster"),
        (["--confidence", "95"], "--confidence 95: give a number between 0 and 1"),
        (["--effect", "0"], "--effect 0: give the delta that matters"),
        (["--max-failed-share", "2"], "--max-failed-share 2: give a number between 0 and 1"),
        (["--samples", "0"], "--samples must be 1 or more"),
        (["--task", "x"], "no task 'x'"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: Capture, words: list[str], message: str
) -> None:
    """One sentence each."""
    file = write_values(tmp_path / "v.jsonl", {"m": [0.5, 0.25]}, language=["ko", "en"])
    assert message in refusal(capsys, "--values", file, *words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": [0.5, float("inf")]}, "row 2, column 'value': inf is not finite"),
        ({"query_id": ["q1", "q1"]}, "rows 1 and 2: RR of query 'q1' occurs twice"),
        ({"query_id": [1, 2]}, "column 'query_id' is int64, must be string"),
        ({"query_id": ["q1", None]}, "column 'query_id' holds nulls"),
        ({"value": ["a", "b"]}, "column 'value' is string, must be a number"),
        ({"measure": None}, "no column 'measure'; it has query_id, value"),
    ],
)
def test_wrong_parquet_is_named(
    tmp_path: Path, capsys: Capture, change: dict, message: str
) -> None:
    """File, row and column."""
    columns = {"query_id": ["q1", "q2"], "measure": ["RR", "RR"], "value": [0.5, 1.0], **change}
    file = tmp_path / "v.parquet"
    pq.write_table(pa.table({name: found for name, found in columns.items() if found}), file)
    said = refusal(capsys, "--values", file)
    assert f"{file}" in said
    assert message in said

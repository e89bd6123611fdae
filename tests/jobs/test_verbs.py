"""The command: verbs, exit codes, one sentence of error, and what each verb must not import.

Numbers are checked against pytrec_eval on the exported run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import pytrec_eval

from jobs.__main__ import VERBS, main
from tests.conftest import ROOT

SUITE = {
    "tasks": ["tiny"],
    "models": ["first_stage", "overlap"],
    "baseline": "first_stage",
    "measures": ["nDCG@10", "RR", "AP", "P@5", "R@5", "Success@1"],
    "slices": ["language", "document"],
    "samples": 500,
}


@pytest.fixture
def project(tmp_path: Path, make_task: Callable[..., Path]) -> Callable[..., list[str]]:
    """Writes a configs folder; gives the words that follow a verb."""

    def make(task: dict | None = None, **suite: object) -> list[str]:
        files = {
            "tasks/tiny.yaml": {
                "folder": str(make_task()),
                "depth": 10,
                "shard_pairs": 30,
                "query_attributes": ["language"],
                **(task or {}),
            },
            "models/first_stage.yaml": {"adapter": "first_stage"},
            "models/overlap.yaml": {"adapter": "overlap"},
            "suites/s.yaml": {**SUITE, **suite},
        }
        for name, values in files.items():
            path = tmp_path / "configs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))
        return [str(tmp_path / "configs/suites/s.yaml"), f"store={tmp_path}/store"]

    return make


def report(words: list[str]) -> dict:
    store = words[1].removeprefix("store=")
    return json.loads(Path(store, "reports/s/report.json").read_text())


def test_run_does_everything_and_a_second_time_nothing(
    project: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The table, the report's path, and `complete, nothing to score` afterwards."""
    words = project()
    assert main(["run", *words]) == 0
    first = capsys.readouterr().out
    assert "overlap" in first
    assert "report.html" in first
    before = report(words)
    assert main(["run", *words]) == 0
    assert capsys.readouterr().out.count("complete, nothing to score") == 2
    assert report(words) == before


def test_a_model_that_is_added_later_is_the_only_one_scored(
    project: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """models=[...] on the command line."""
    words = project()
    assert main(["run", *words, "models=[first_stage]"]) == 0
    capsys.readouterr()
    assert main(["run", *words]) == 0
    said = capsys.readouterr().out
    assert "first_stage: complete" in said
    assert "overlap: 120 pairs in 4 shards: 4 committed" in said


def test_values_are_those_of_pytrec_eval(project: Callable[..., list[str]], tmp_path: Path) -> None:
    """Every shared measure of every query to 1e-9, on the exported run."""
    words = project()
    assert main(["run", *words]) == 0
    assert main(["export", *words, "--to", str(tmp_path / "out")]) == 0
    with (tmp_path / "out/tiny/qrels.trec").open() as stream:
        qrels = pytrec_eval.parse_qrel(stream)
    names = {
        "nDCG@10": "ndcg_cut_10",
        "RR": "recip_rank",
        "AP": "map",
        "P@5": "P_5",
        "R@5": "recall_5",
    }
    ours = pq.read_table(tmp_path / "store/evaluations/s/query_metrics.parquet").to_pylist()
    for model in ("first_stage", "overlap"):
        with (tmp_path / f"out/tiny/{model}.run").open() as stream:
            run = pytrec_eval.parse_run(stream)
        theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names.values())).evaluate(run)
        checked = 0
        for row in ours:
            if row["model"] == model and row["measure"] in names:
                expected = theirs[row["query_id"]][names[row["measure"]]]
                assert row["value"] == pytest.approx(expected, abs=1e-9), row
                checked += 1
        assert checked == 12 * len(names)


def test_the_gate_fails_with_exit_1_and_names_its_rule(
    project: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A drop that no system can avoid, a slice that nobody has, and a rule that holds."""
    words = project(
        gate=[
            {"max_drop": 1.0},
            {"slice": "language=ko", "bound": "lower"},
            {"slice": "language=fr", "critical": True},
        ]
    )
    assert main(["run", *words]) == 1
    said = capsys.readouterr().out
    assert "gate: FAILED (3 checks, 2 failed)" in said
    assert "nDCG@10 of overlap on tiny, language=ko: lower end" in said
    assert (
        "language=fr: 0 queries, the rule needs 1; a critical slice may not go unmeasured" in said
    )
    assert main(["compare", *words]) == 1
    assert report(words)["gate"]["passed"] is False


def test_compare_leaves_a_verdict_file(
    project: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the store by default, elsewhere on request; the exit code says the same."""
    words = project(gate=[{"max_drop": 1.0}, {"max_drop": None, "max_p95_latency": 0.1}])
    assert main(["run", *words]) == 1
    capsys.readouterr()
    assert main(["compare", *words]) == 1
    said = capsys.readouterr().out
    default = tmp_path / "store/evaluations/s/verdict.json"
    assert f"verdict: {default}" in said
    assert "randomization test, holm correction over" in said
    found = json.loads(default.read_text())
    assert found["passed"] is False
    assert [rule["verdict"] for rule in found["rules"]] == ["pass", "fail"]
    assert "was not measured: shards hold several queries" in found["rules"][1]["sentence"]
    folders = [path.name for path in (tmp_path / "store/runs/tiny/overlap").iterdir()]
    assert found["runs"]["tiny"]["overlap"] == folders[0]
    elsewhere = tmp_path / "ci/verdict.json"
    assert main(["compare", *words, "--verdict", str(elsewhere)]) == 1
    assert json.loads(elsewhere.read_text()) == found
    assert main(["compare", *words, "--verdict", "/"]) == 2


def test_latency_is_measured_on_a_task_of_one_query_a_shard(
    project: Callable[..., list[str]], tmp_path: Path
) -> None:
    """What the failed rule says works: shard_pairs: 1, replay, and there is a figure."""
    rule = {"max_drop": None, "max_p95_latency": 60.0, "max_cost": 1e6, "price_per_hour": 1.0}
    words = project(task={"shard_pairs": 1}, gate=[rule])
    assert main(["run", *words]) == 0
    assert main(["compare", *words]) == 0
    found = json.loads((tmp_path / "store/evaluations/s/verdict.json").read_text())["rules"]
    assert [(rule["rule"], rule["n"]) for rule in found] == [
        ("max_p95_latency", 12),
        ("max_cost", 12),
    ]
    assert all(rule["observed"] > 0 for rule in found)


def test_report_writes_tables_for_papers(project: Callable[..., list[str]], tmp_path: Path) -> None:
    """Beside report.html, with the numbers of report.json."""
    words = project(slices=["language*relevant", "gold_rank"], interval="bca", test="t")
    assert main(["run", *words]) == 0
    mean = next(r["mean"] for r in report(words)["results"] if r["system"] == "overlap")
    for name in ("tables.tex", "tables.md"):
        assert f"{mean:.4f}" in (tmp_path / "store/reports/s" / name).read_text()
    slices = {(s["attribute"], s["value"]) for s in report(words)["slices"]}
    assert ("language*relevant", "ko*2-4") in slices  # two relevant documents a query
    assert {"gold_rank", "language*relevant"} == {attribute for attribute, _ in slices}


def test_an_incomplete_run_has_no_numbers(
    project: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """evaluate exits 1 and says which shards; status says how to finish."""
    words = project()
    assert main(["run", *words]) == 0
    receipt = sorted(tmp_path.glob("store/runs/tiny/overlap/*/receipts/*.json"))[1]
    receipt.unlink()
    capsys.readouterr()
    assert main(["evaluate", *words]) == 1
    assert "lacks 1 of 4 shards (1)" in capsys.readouterr().err
    assert main(["status", *words]) == 1
    said = capsys.readouterr().out
    assert "missing 1" in said
    assert "finish it with: rerank run" in said
    assert main(["replay", *words]) == 0
    assert main(["status", *words]) == 0


@pytest.mark.parametrize("garbage", [b"", b"{", b"{}", b"[]", b"null", b"\xff"])
def test_a_torn_record_does_not_count(
    project: Callable[..., list[str]], tmp_path: Path, garbage: bytes
) -> None:
    """Receipts, failure records and ledgers that are garbage: the shard is simply not done."""
    words = project()
    assert main(["run", *words]) == 0
    before = report(words)
    (folder,) = tmp_path.glob("store/runs/tiny/overlap/*")
    (folder / "receipts" / "00001.json").write_bytes(garbage)
    (folder / "failures").mkdir(exist_ok=True)
    (folder / "failures" / "00001.json").write_bytes(garbage)
    (folder / "attempts" / "00001").mkdir(parents=True, exist_ok=True)
    for kind in ("attempt", "doing", "done"):
        (folder / "attempts" / "00001" / f"x.{kind}.json").write_bytes(garbage)
    assert main(["status", *words]) == 1
    assert main(["run", *words]) == 0
    assert report(words) == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": {"folder": "/nowhere"}}, "no judgments in /nowhere"),
        ({"task": {"analyzer": "mecap"}}, "Did you mean 'mecab'"),
        ({"models": ["first_stage", "overlp"]}, "Did you mean 'overlap'"),
        ({"measures": ["nDGC@10"]}, "nDCG"),
        ({"slices": "language"}, "must be a list"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_2(
    project: Callable[..., list[str]],
    change: dict,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No traceback, and nothing half-done that counts."""
    words = project(**change)
    assert main(["run", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_a_tampered_shard_stops_the_replay(
    project: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a model is loaded."""
    words = project()
    assert main(["freeze", *words]) == 0
    (shard,) = tmp_path.glob("store/frozen/tiny/*/candidates/00001.parquet")
    shard.write_bytes(shard.read_bytes() + b" ")
    assert main(["replay", *words]) == 2
    assert "was changed after freezing" in capsys.readouterr().err
    assert not list(tmp_path.glob("store/runs/tiny/*/*/receipts/*"))


def test_runs_over_other_candidates_are_not_compared(
    project: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Conformance 39: injected against not injected; the message says which digest and why."""
    words = project()
    assert main(["run", *words]) == 0
    assert main(["run", *project(task={"inject_gold": True, "depth": 10})]) == 0
    runs = sorted(
        str(p.relative_to(tmp_path / "store/runs"))
        for p in tmp_path.glob("store/runs/tiny/overlap/*")
    )
    assert len(runs) == 2
    capsys.readouterr()
    assert main(["compare", *words, "--runs", *runs]) == 2
    said = capsys.readouterr().err
    assert "differ in candidates, recipe (one has gold injected, the other has not)" in said
    assert main(["compare", *words, "--runs", runs[0], runs[0]]) == 0


@pytest.mark.parametrize(
    ("verb", "forbidden"),
    [
        ("run", {"ray"}),
        ("replay", {"ray"}),
        ("evaluate", {"ray", "torch", "transformers", "datasets", "bm25s"}),
        ("compare", {"ray", "torch", "transformers", "datasets", "bm25s"}),
        ("report", {"ray", "torch", "transformers", "datasets", "bm25s"}),
        ("status", {"ray", "torch", "transformers", "datasets", "bm25s"}),
    ],
)
def test_a_verb_with_nothing_to_score_stays_light(
    project: Callable[..., list[str]], verb: str, forbidden: set[str]
) -> None:
    """A no-op resume never imports Ray; what reads scores never imports torch."""
    words = [*project(), "engine=ray"]
    assert main(["run", *words, "engine=inline"]) == 0
    code = (
        "import sys; from jobs.__main__ import main; code = main(sys.argv[1:]); "
        "print('LOADED', *{name.split('.')[0] for name in sys.modules}); sys.exit(code)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, verb, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert not forbidden & set(answer.stdout.split("LOADED")[1].split())


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`rerank VERB --help` works for each row of VERBS."""
    for verb in VERBS:
        with pytest.raises(SystemExit) as caught:
            main([verb, "--help"])
        assert caught.value.code == 0
        assert VERBS[verb].split(",")[0].split(";")[0][:20] in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["measures", "models", "tasks"])
def test_lists_name_everything_there_is(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the tables hold is what the lists show."""
    from metrics import METRICS
    from rerank.analyzers import ANALYZERS
    from rerank.models.adapters import ADAPTERS
    from rerank.sources import SOURCES

    tables = {"measures": METRICS, "models": ADAPTERS, "tasks": {**SOURCES, **ANALYZERS}}
    arguments = [verb] if verb == "measures" else [verb, "--configs", str(ROOT / "configs")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert [name for name in tables[verb] if name not in said] == []

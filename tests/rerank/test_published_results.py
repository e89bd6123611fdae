"""Published results: read, listed, shown beside what was replayed, never mixed with it.

Oracles: the tables' own published means; rows written here; the report document without imports.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import metrics
from jobs.__main__ import main
from rerank.errors import ConfigError, InputError
from rerank.files.mteb_results import MEASURES, measure_of
from rerank.files.published_results import PublishedScore, read_published
from rerank.reporting import render_html, render_markdown
from rerank.reporting.imported import MARK
from rerank.reporting.leaderboard import leaderboard_table, measures_table
from rerank.reporting.schema import Report
from rerank.suite.imported import imported_block, plain_mean
from rerank.suite.suites import ImportedResults
from tests.rerank.test_reporting import KNOWN_ELEMENTS, Outline
from tests.rerank.test_reporting_document import HOSTILE, full_report

TASKS = ("Ko-StrategyQA", "AutoRAGRetrieval", "PublicHealthQA", "BelebeleRetrieval")
TASKS += ("MIRACLRetrieval", "MrTidyRetrieval", "MultiLongDocRetrieval", "SQuADKorV1Retrieval")
TASKS += ("LawIRKo",)
WITHOUT_LONG = {"jinaai/jina-reranker-v3", "jinaai/jina-reranker-v3.5"}


def entry(**keys: Any) -> ImportedResults:
    return ImportedResults(**{"files": ("x",), "protocol": "BM25 top 50", "source": "web", **keys})


def block(scores: list[PublishedScore], **keys: Any) -> dict[str, Any]:
    tasks = keys.pop("suite_tasks", ("demo",))
    return imported_block(entry(**keys), scores, tasks, ["nDCG@10", "R@5"], "suite 's', imported 1")


def score(model: str, task: str, value: float | None, **keys: Any) -> PublishedScore:
    return PublishedScore(model, task, keys.pop("measure", "nDCG@10"), value, **keys)


def test_the_published_means_come_out_of_the_published_rows(data_folder: Path) -> None:
    """kmteb9: 17 means of nine tasks to 4 digits; the two jina models have no MultiLongDoc."""
    path = data_folder / "published_tables/kmteb9_readme_table.tsv"
    with pytest.raises(InputError, match="'mean9_published' is the mean of the others in all 17"):
        read_published(path, measure="nDCG@10")
    scores = read_published(path, measure="nDCG@10", mean="mean9_published")
    found = block(scores, mean="mean9_published")
    assert [column["name"] for column in found["columns"]] == list(TASKS)
    assert found["notes"][1:] == []  # no published mean differs; the first says: nothing mapped
    with path.open(encoding="utf-8") as stream:
        published = {row["model"]: row for row in csv.DictReader(stream, delimiter="\t")}
    ours = {row["model"]: row["mean"]["nDCG@10"] for row in found["rows"]}
    assert {model for model, mean in ours.items() if mean is None} == WITHOUT_LONG
    assert len(ours) == 19
    for model, mean in ours.items():
        stated = published[model]["mean9_published"]
        assert (stated == "") == (mean is None)
        if mean is not None:
            # nine values of 4 digits may move their mean by half a digit, its own rounding too
            assert mean == pytest.approx(float(stated), abs=1e-4 + 1e-12)
            assert mean == pytest.approx(np.mean([float(published[model][t]) for t in TASKS]))


def test_the_table_of_2026_has_two_measures(data_folder: Path) -> None:
    """19 models; nDCG@10 of nine tasks, PPS beside it; the jina models stay out of the mean."""
    scores = read_published(data_folder / "published_tables/korean_rerankers_2026.tsv")
    assert len(scores) == 19 * 2 * 9
    assert {s.measure for s in scores} == {"nDCG@10", "PPS"}
    found = block(scores)
    assert found["measures"] == ["nDCG@10"]
    means = {row["model"]: row["mean"]["nDCG@10"] for row in found["rows"]}
    assert {model for model, mean in means.items() if mean is None} == WITHOUT_LONG
    # by hand: (0.8720 + 0.9653 + 0.8654 + 0.9785 + 0.8513 + 0.8416 + 0.8255 + 0.9897 + 0.9013) / 9
    assert means["Qwen/Qwen3-Reranker-8B"] == pytest.approx(8.0906 / 9)


def test_the_flattened_results_hold_two_protocols(data_folder: Path) -> None:
    """Stage 1 and stage 2 are never one table; subsets are columns of their own."""
    scores = read_published(data_folder / "published_tables/reranker_simple_benchmark.json")
    with pytest.raises(ConfigError, match="several stages .stage1, stage2."):
        block(scores)
    first, second = block(scores, stage="stage1"), block(scores, stage="stage2")
    assert len(first["rows"]) == 4
    assert len(second["rows"]) == 14
    mecab = next(row for row in first["rows"] if row["model"] == "bm25_Mecab")
    assert mecab["values"]["nDCG@10"]["AutoRAGRetrieval"] == 0.90863
    names = [column["name"] for column in second["columns"]]
    assert "BelebeleRetrieval/kor_Hang-kor_Hang" in names
    assert "BelebeleRetrieval" not in names
    assert "mteb_version: 1.38.1, 1.38.57" in second["facts"]


def test_other_protocols_are_other_entries(data_folder: Path) -> None:
    """Two files that both speak of one model and task cannot be one entry."""
    scores = read_published(data_folder / "published_tables/korean_rerankers_2026.tsv")
    kmteb = data_folder / "published_tables/kmteb9_readme_table.tsv"
    scores += read_published(kmteb, measure="nDCG@10", ignored=["mean9_published"])
    with pytest.raises(ConfigError, match="is published twice in its files"):
        block(scores)


@pytest.mark.parametrize("name", MEASURES)
def test_keys_are_measures(name: str) -> None:
    """ndcg_at_10 is nDCG@10, which metrics knows by that name."""
    measure = measure_of(f"{name}_at_10")
    assert measure == f"{MEASURES[name]}@10"
    assert str(metrics.parse_measure(measure)) == measure
    for key in (name, f"{name}_at_", f"{name}_at_0", f"{name}_at_x", f"nauc_{name}_at_10_max"):
        assert measure_of(key) is None


MTEB = {
    "task_name": "T",
    "mteb_version": "1.15.4",
    "dataset_revision": "abc",
    "scores": {"test": [{"hf_subset": "ko", "main_score": 0.5, "ndcg_at_10": 0.5, "mrr_at_10": 1}]},
}
FLAT = {"_model": "o/m", "_task": "T", "_split": "dev", "ndcg_at_10": 0.25, "pps": 12.5}


def test_an_mteb_result_takes_its_model_from_beside_it(tmp_path: Path) -> None:
    """model_meta.json, or what the suite states; never a folder's name."""
    path = tmp_path / "org__model/T.json"
    path.parent.mkdir()
    path.write_text(json.dumps(MTEB).replace("0.5,", "NaN,", 1))
    with pytest.raises(InputError, match="does not say which model"):
        read_published(path)
    assert {s.model for s in read_published(path, model="mine")} == {"mine"}
    (path.parent / "model_meta.json").write_text('{"name": "org/model"}')
    found = read_published(path)
    assert [(s.model, s.task, s.measure, s.value, s.subset, s.split) for s in found] == [
        ("org/model", "T", "nDCG@10", 0.5, "ko", "test"),
        ("org/model", "T", "RR@10", 1.0, "ko", "test"),
    ]
    assert found[0].facts == {"mteb_version": "1.15.4", "dataset_revision": "abc"}


def test_a_flat_result_names_its_model_itself(tmp_path: Path) -> None:
    """And its speed, which is no measure of ours."""
    path = tmp_path / "T.json"
    path.write_text(json.dumps({**FLAT, "_max_length": 8192, "pps_sweep": {"8": 1.0}}))
    found = read_published(path)
    assert [(s.measure, s.value, s.split) for s in found] == [
        ("nDCG@10", 0.25, "dev"),
        ("PPS", 12.5, "dev"),
    ]
    assert found[0].facts == {"max_length": "8192"}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.json", "{}", "is no published result"),
        ("a.json", "3", "is no published result"),
        ("a.json", "[3]", "entry 1: must be an object"),
        ("a.json", '[{"model": "m", "ndcg_at_10": 1}]', "entry 1, field 'task'"),
        ("a.json", '[{"model": "m", "task": "t", "ndcg_at_10": 86.5}]', "not in percent"),
        ("a.json", '[{"model": "m", "task": "t", "ndcg_at_10": "x"}]', "'x' is not a number"),
        ("a.json", '[{"model": "m", "task": "t", "split": 1}]', "must be texts"),
        ("a.json", "{", "not JSON"),
        ("a.tsv", "name\tT\nx\t1\n", "one of them `model`"),
        ("a.tsv", "model\tT\tT\nx\t1\t1\n", "every column once"),
        ("a.tsv", "model\tT\nx\n", "line 2: 1 cells, the header has 2"),
        ("a.tsv", "model\tT\tnotes\nx\t1\tgood\n", "column 'notes': 'good' is no number"),
        ("a.csv", "model,T\nx,inf\n", "is not a number or null"),
        ("a.csv", "model,measure,T\nx,nDCG@10,86.5\n", "nDCG@10 is 86.5"),
        ("a.csv", "model,T\n,1\n", "field 'model'"),
    ],
)
def test_a_wrong_file_names_its_place(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    """One sentence of InputError."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_published(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_empty_cells_are_no_values(tmp_path: Path) -> None:
    """Nothing, a dash and N/A; a mean of fewer tasks is not made."""
    path = tmp_path / "a.csv"
    path.write_text("\ufeffmodel,params,A,B\r\nm,1B,0.5,\r\nn,,—,N/A\r\nk,,0.25,0.75\r\n")
    scores = read_published(path, measure="ndcg@10")
    assert [s.value for s in scores] == [0.5, None, None, None, 0.25, 0.75]
    assert {s.measure for s in scores} == {"nDCG@10"}
    means = [row["mean"]["nDCG@10"] for row in block(scores)["rows"]]
    assert means == [None, None, 0.5]
    assert plain_mean([]) is None


def test_a_published_mean_that_does_not_come_out_is_told() -> None:
    """0.5 and 0.7 do not give 0.7; a mean stated over a gap is told too."""
    scores = [score("m", "A", 0.5), score("m", "B", 0.7), score("m", "mean", 0.7)]
    scores += [score("n", "A", 0.5), score("n", "B", None), score("n", "mean", 0.5)]
    scores += [score("k", "A", 0.33334), score("k", "B", 0.33334), score("k", "mean", 0.3333)]
    assert block(scores, mean="mean")["notes"][1:] == [
        "m: mean is 0.7000, but they give 0.6000",
        "n: mean is 0.5000, but not all 2 are published",
    ]


MEANS = "model\tT1\tT2\toverall\nm\t0.5\t0.7\t0.6\nn\t0.4\t0.9\t0.65\nk\t0.1\t\t0.1\n"


def test_a_column_of_means_is_no_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """(0.5 + 0.7) / 2 and (0.4 + 0.9) / 2; named or left out it is read."""
    path = tmp_path / "t.tsv"
    path.write_text(MEANS)
    with pytest.raises(InputError, match="column 'overall' is the mean .* `mean:`.*`ignored:`"):
        read_published(path)
    named = read_published(path, mean="overall")
    assert {score.task for score in named} == {"T1", "T2", "overall"}
    assert {score.task for score in read_published(path, ignored=["overall"])} == {"T1", "T2"}
    assert main(["results", str(path)]) == 2
    assert "--ignore" in capsys.readouterr().err
    assert main(["results", str(path), "--ignore", "overall"]) == 0


@pytest.mark.parametrize(
    "text",
    [
        MEANS.replace("0.65", "0.651"),  # one row is otherwise
        "model\tT1\tT2\tT3\nm\t0.5\t0.7\t0.6\nn\t0.5\t\t0.5\n",  # one full row
        "model\tT1\tT2\nm\t0.5\t0.5\nn\t0.7\t0.7\n",  # one other column
        "model\tT1\tT2\tT3\nm\t1\t1\t1\nn\t0\t0\t0\n",  # equal values
    ],
)
def test_what_is_not_surely_a_mean_is_a_task(tmp_path: Path, text: str) -> None:
    """Every column is read."""
    path = tmp_path / "t.tsv"
    path.write_text(text)
    assert len({s.task for s in read_published(path)}) == text.split("\n")[0].count("\t")


def test_a_table_without_a_measure_is_never_guessed() -> None:
    """Alone and beside one that says its measure."""
    unstated = score("m", "A", 0.5, measure="")
    for scores in ([unstated], [score("m", "B", 0.5), unstated]):
        with pytest.raises(ConfigError, match="does not say which measure .* with `measure`"):
            block(scores)
    with pytest.raises(ConfigError, match="its files hold no score"):
        block([])


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"tasks": {"Z": "demo"}}, "unknown published task in suite 's', imported 1 'Z'"),
        ({"tasks": {"A": "nobody"}}, "unknown task of the suite"),
        ({"mean": "Z"}, "unknown column of `mean`"),
        ({"stage": "two"}, "unknown stage"),
    ],
)
def test_wrong_names_are_config_errors(keys: dict[str, Any], sentence: str) -> None:
    """With the known ones."""
    with pytest.raises(ConfigError) as caught:
        block([score("m", "A", 0.5)], **keys)
    assert sentence in str(caught.value)


def test_a_measure_that_the_suite_does_not_have() -> None:
    """PPS alone is nothing that a leaderboard of nDCG could show."""
    with pytest.raises(ConfigError, match="none of the suite's measures .* has PPS"):
        block([score("m", "A", 3.0, measure="PPS")])


def with_imports() -> dict[str, Any]:
    """Two protocols: one has both tasks for one of two models, the other has one task."""
    both = [score("alpha", "Demo", 0.9), score("alpha", "AutoRAG", 0.7), score("beta", "Demo", 0.8)]
    both += [
        score("beta", "AutoRAG", None),
        score("beta", "Other", 0.1),
        score("alpha", "Other", 0.2),
    ]
    mapping = {"Demo": "demo", "AutoRAG": "autorag-ko"}
    tasks = ("demo", "autorag-ko")
    report = full_report()
    report["imported"] = [
        block(both, suite_tasks=tasks, tasks=mapping, protocol="BM25 Mecab, gold injected"),
        block([score("gamma", "demo", 0.99)], suite_tasks=tasks, protocol="dense top 100"),
    ]
    return report


def rows_of(report: dict[str, Any], place: str) -> dict[str, list[str]]:
    table = leaderboard_table(cast(Report, report), place)
    return {
        row.cells[0].text: [cell if isinstance(cell, str) else cell.text for cell in row.cells[1:]]
        for row in table.rows
        if not isinstance(row.cells[0], str) and MARK in row.cells[0].labels
    }


def test_imported_rows_stand_under_the_replayed_ones() -> None:
    """Marked, with a value and nothing else: no interval, n, rank, delta or reading."""
    report = with_imports()
    table = leaderboard_table(cast(Report, report), "demo")
    names = [row.cells[0].text for row in table.rows]
    assert names[-3:] == ["alpha", "beta", "gamma"]
    assert len(names) == len(report["systems"]) + 3
    for name, value in (("alpha", "0.9000"), ("beta", "0.8000"), ("gamma", "0.9900")):
        cells = rows_of(report, "demo")[name]
        assert [cell for cell in cells if cell] == [value]
    notes = {row.cells[0].text: row.cells[0].note for row in table.rows[-3:]}
    assert notes["alpha"] == "BM25 Mecab, gold injected"
    assert notes["gamma"] == "dense top 100"
    measures = measures_table(cast(Report, report), "demo")
    assert [row.cells[0].text for row in measures.rows[-3:]] == ["alpha", "beta", "gamma"]


def test_a_mean_over_tasks_needs_every_task_of_the_suite() -> None:
    """alpha has both: (0.9 + 0.7) / 2; beta and gamma lack one and are not there."""
    report = with_imports()
    assert [cell for cell in rows_of(report, "macro")["alpha"] if cell] == ["0.8000"]
    assert list(rows_of(report, "macro")) == ["alpha"]
    assert list(rows_of(report, "autorag-ko")) == ["alpha"]


def test_imports_change_nothing_that_was_replayed() -> None:
    """Every number and sentence of the report without them is in the one with them."""
    plain = full_report()
    before, after = render_markdown(plain), render_markdown(with_imports())
    lost = set(before.splitlines()) - set(after.splitlines())
    assert lost == set()
    without = [row.cells for row in leaderboard_table(cast(Report, plain), "demo").rows]
    with_rows = leaderboard_table(cast(Report, with_imports()), "demo").rows
    assert [row.cells for row in with_rows][: len(without)] == without
    added = set(after.splitlines()) - set(before.splitlines())
    assert sum(MARK in line for line in added) >= 2 * 7  # board and measures, demo and the others


def test_the_report_says_that_protocols_differ() -> None:
    """Both protocols with their sources, on the boards that show them, and their own tables."""
    report = with_imports()
    for text in (" ".join(Outline(render_html(report)).texts), render_markdown(report)):
        assert "Protocols differ" in text
        assert "BM25 Mecab, gold injected (web)" in text
        assert "Published results" in text
        assert "0.1000" in text  # of the task that the suite does not have
    assert "Published results" not in render_markdown(full_report())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_imports_are_text(text: str) -> None:
    """Models, columns, protocol and source are data."""
    report = full_report()
    scores = [score(text, text, 0.5, facts={"mteb_version": text})]
    report["imported"] = [
        block(
            scores,
            suite_tasks=("demo",),
            tasks={text: "demo"},
            protocol=text,
            source=text,
        )
    ]
    outline = Outline(render_html(report))
    assert outline.open == []
    assert outline.elements <= KNOWN_ELEMENTS
    for part in render_markdown(report).split("\n\n"):
        if part.startswith("| "):
            lines = part.strip().split("\n")
            assert {line.count("|") for line in lines} == {lines[0].count("|")}


@pytest.fixture
def suite(tmp_path: Path, make_task: Callable[..., Path]) -> Callable[..., list[str]]:
    """Writes a suite with `imported`; gives the words that follow a verb."""

    def make(**imported: Any) -> list[str]:
        files = {
            "tasks/tiny.yaml": {"folder": str(make_task()), "depth": 10},
            "models/first_stage.yaml": {"adapter": "first_stage"},
            "models/overlap.yaml": {"adapter": "overlap"},
            "suites/s.yaml": {
                "tasks": ["tiny"],
                "models": ["first_stage", "overlap"],
                "samples": 100,
                "imported": [
                    {"files": ["t.tsv"], "protocol": "P", "source": "S", "tasks": {"T": "tiny"}}
                    | {"measure": "nDCG@10"}
                    | imported
                ],
            },
            "suites/t.tsv": "model\tT\tU\nnobody/here\t0.9123\t0.5\n",
        }
        for name, values in files.items():
            path = tmp_path / "configs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(values if isinstance(values, str) else json.dumps(values))
        return [str(tmp_path / "configs/suites/s.yaml"), f"store={tmp_path}/store"]

    return make


def test_a_suite_shows_its_imports(suite: Callable[..., list[str]], tmp_path: Path) -> None:
    """run: in all three files of the report, and in no result, comparison or paper table."""
    words = suite()
    assert main(["run", *words]) == 0
    folder = tmp_path / "store/reports/s"
    report = json.loads((folder / "report.json").read_text())
    (found,) = report["imported"]
    assert found["rows"][0]["values"]["nDCG@10"] == {"T": 0.9123, "U": 0.5}
    assert found["columns"] == [{"name": "T", "task": "tiny"}, {"name": "U", "task": None}]
    assert {r["system"] for r in report["results"]} == {"first_stage", "overlap"}
    assert {c["challenger"] for c in report["comparisons"]} == {"overlap"}
    assert "0.9123" in (folder / "report.html").read_text()
    assert re.search(rf"nobody/here \*{MARK}\*.*0\.9123", (folder / "report.md").read_text())
    assert "0.9123" not in (folder / "tables.tex").read_text()


@pytest.mark.parametrize(
    ("imported", "sentence"),
    [
        ({"protocol": " "}, "imported 1: protocol is empty"),
        ({"source": ""}, "imported 1: source is empty"),
        ({"files": []}, "files must name at least one"),
        ({"files": ["no*.json"]}, "no file is named like"),
        ({"tasks": {"T": "tiny", "U": "tiny"}}, "are both called 'tiny'"),
        ({"tasks": {"T": 1}}, "tasks is a mapping"),
        ({"measure": "nobody"}, "unknown measure"),
        ({"measure": ""}, "a table does not say which measure it holds"),
        ({"protocoll": "x"}, "unknown key in"),
        ({"tasks": {"Z": "tiny"}}, "unknown published task"),
    ],
)
def test_wrong_imports_are_told(
    suite: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    imported: dict[str, Any],
    sentence: str,
) -> None:
    """Exit 2, one sentence, before anything is frozen."""
    assert main(["run", *suite(**imported)]) == 2
    out, said = capsys.readouterr()
    assert sentence in said
    assert said.count("\n") == 1
    assert out == ""


def test_results_lists_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """mteb's as before; of the others models by tasks with their mean, and JSON rows."""
    (tmp_path / "mteb.json").write_text(json.dumps(MTEB))
    (tmp_path / "flat.json").write_text(json.dumps(FLAT))
    (tmp_path / "t.csv").write_text("model,A,B\nm,0.5,0.25\nn,1,\n")
    names = [str(tmp_path / name) for name in ("mteb.json", "flat.json", "t.csv")]
    assert main(["results", *names, "--measure", "nDCG@10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["T", "ko", "test", "0.5000"] in [line.split() for line in lines]
    assert ["o/m", "0.2500", "0.2500"] in [line.split() for line in lines]
    assert ["m", "0.5000", "0.2500", "0.3750"] in [line.split() for line in lines]
    assert ["n", "1.0000", "—", "—"] in [line.split() for line in lines]
    assert main(["results", names[2], "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["model"], row["task_name"], row["value"]) for row in rows] == [
        ("m", "A", 0.5),
        ("m", "B", 0.25),
        ("n", "A", 1.0),
        ("n", "B", None),
    ]
    assert main(["results", names[2], "--write", str(tmp_path / "o.json")]) == 2
    assert "--write is for a result of mteb" in capsys.readouterr().err
    assert main(["results", names[1], "--measure", "R@5"]) == 2
    assert "has no R@5; it has nDCG@10, PPS" in capsys.readouterr().err
    (tmp_path / "e.json").write_text("[]")
    assert main(["results", str(tmp_path / "e.json")]) == 2
    assert "e.json holds no score; check the file" in capsys.readouterr().err

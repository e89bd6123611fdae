"""Tables for papers. Oracles: the report document for numbers and marks, LaTeX's special signs."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from rerank.reporting import latex_tables, markdown_tables
from rerank.reporting.paper_tables import ABOVE, BELOW, latex_escape, paper_tables
from rerank.reporting.schema import Report
from tests.rerank.test_reporting_document import HOSTILE, full_report, minimal_report


def cells(report: dict[str, Any], place: str) -> dict[tuple[str, str], Any]:
    """(system, measure) -> cell of the table of that place."""
    (table,) = [found for found in paper_tables(report) if found.place == place]
    return {
        (system.rstrip("*"), measure): cell
        for system, _, row in table.rows
        for measure, cell in zip(table.measures, row, strict=True)
    }


@pytest.mark.parametrize("place", ["macro", "demo", "autorag-ko"])
def test_best_and_near_are_those_of_the_document(place: str) -> None:
    """The highest mean of each measure; inside its interval: at least its lower end."""
    report = full_report()
    found = cells(report, place)
    for measure in report["measures"]:
        results = [r for r in report["results"] if (r["task"], r["measure"]) == (place, measure)]
        best = max(results, key=lambda r: r["mean"])
        for result in results:
            cell = found[result["system"], measure]
            assert cell.text == f"{result['mean']:.4f}"
            assert cell.best == (result is best)
            inside = result["mean"] >= best["interval"]["low"]
            assert cell.near == (inside and result is not best)


def test_daggers_are_corrected_and_have_a_direction() -> None:
    """Above or below the baseline with a corrected p below alpha; means over tasks have none."""
    report = full_report()
    report["comparisons"][0] |= {"corrected_p": 0.03}  # overlap, nDCG@10: below the baseline
    found = cells(report, "demo")
    expected = {
        (c["challenger"], c["measure"]): (ABOVE if c["delta"]["mean"] > 0 else BELOW)
        for c in report["comparisons"]
        if c["task"] == "demo" and c["corrected_p"] < 0.05
    }
    assert {key: cell.mark for key, cell in found.items() if cell.mark} == expected
    assert set(expected.values()) == {ABOVE, BELOW}
    assert not any(cell.mark for cell in cells(report, "macro").values())
    assert "Means over tasks are not tested." in markdown_tables(report)


def test_captions_say_what_the_marks_mean() -> None:
    """Test, correction, number of tests, alpha, n, interval, judgments, and what failed."""
    report = full_report()
    text = markdown_tables(report)
    for words in (
        "n = 64 queries, judgments: 100.0% synthetic",
        "two-sided paired randomization test, corrected p &lt; 0.05 (holm, 240 tests)",
        "within the best's 95% interval (percentile bootstrap over queries, 10,000 resamples)",
        "overlap: 3 pairs without a score",
        "recipe not checked against its authors' code",
    ):
        assert words in text, words


def test_latex_is_a_table_with_constant_columns() -> None:
    """Every row has as many cells as the head, environments are closed, braces balance."""
    text = latex_tables(full_report())
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    rows = [line for line in text.split("\n") if line.endswith(r" \\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {7}
    assert len(rows) == 3 * 6
    assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))
    assert r"first\_stage" in text
    assert not re.search(r"(?<!\\)[%#_]", text.split("\n", 1)[1])


def test_latex_signs_are_escaped_one_by_one() -> None:
    """What LaTeX would read as a command, comment, alignment, or another character."""
    assert latex_escape("a_b & 50% #1 $x$ {y}") == r"a\_b \& 50\% \#1 \$x\$ \{y\}"
    assert latex_escape(r"\input{x}") == r"\textbackslash{}input\{x\}"
    assert latex_escape("~^<>|") == (
        r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
    )
    assert latex_escape("한국어 †") == r"한국어 \textdagger{}"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_names(text: str) -> None:
    """A system may be called anything; the tables keep their shape."""
    report = full_report()
    for part in (*report["results"], *report["systems"]):
        for key in ("system", "name"):
            if part.get(key) == "overlap":
                part[key] = text
    drawn = latex_tables(report)
    rows = [line for line in drawn.split("\n") if line.endswith(r" \\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {7}
    for block in markdown_tables(report).split("\n\n"):
        lines = block.strip().split("\n")
        if lines[0].startswith("| "):
            assert {line.count("|") for line in lines} == {lines[0].count("|")}


def test_a_report_without_values_has_tables_too() -> None:
    """One system, no value: a dash, no mark, no claim of a test."""
    report = minimal_report()
    del report["suite"]["tests"]
    (table,) = paper_tables(cast(Report, report))
    assert [cell.text for _, _, row in table.rows for cell in row] == ["—"]
    assert "test" not in table.caption
    assert latex_tables(report)

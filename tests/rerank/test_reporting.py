"""The report: every section draws every document, data stays text, and numbers stay numbers.

Oracles: the report document itself for numbers, html.parser for the structure of HTML, and
GitHub's table rule (cells are parted by bars) for Markdown.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from html.parser import HTMLParser
from typing import Any, cast

import pytest

from rerank.reporting import SECTIONS, markdown, render_html, render_markdown
from rerank.reporting.charts import MOST_BARS, evenly_spaced, scale_of, waterfall
from rerank.reporting.leaderboard import leaderboard_table
from rerank.reporting.markup import VOID, element, join
from rerank.reporting.schema import Interval, Report
from rerank.reporting.selection import mixed_judgments
from rerank.reporting.visible import clipped, visible
from rerank.reporting.wording import interval_text, number, p_text, read_delta, share, signed
from tests.rerank.test_reporting_document import HOSTILE, full_report, minimal_report

DOCUMENTS = {"full": full_report, "minimal": minimal_report}
KNOWN_ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "nav", "section", "div"),
    *("article", "footer", "h1", "h2", "h3", "h4", "p", "ul", "ol", "li", "a", "dl", "dt", "dd"),
    *("table", "thead", "tbody", "tr", "th", "td", "span", "strong", "small", "code", "bdi"),
    *("details", "summary", "figure", "figcaption"),
    *("svg", "text", "line", "rect", "circle", "polygon"),
}


class Outline(HTMLParser):
    """Elements and text of a page; fails where an end tag does not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(params=DOCUMENTS)
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    return DOCUMENTS[request.param]()


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_draws_every_document(name: str, report: dict[str, Any]) -> None:
    """A section never fails and never says nothing, however little there is."""
    section = SECTIONS[name]
    assert Outline(section.html(cast(Report, report))).open == []
    assert section.markdown(cast(Report, report)).strip()


def test_html_is_well_formed_and_holds_only_our_elements(report: dict[str, Any]) -> None:
    """All tags are balanced, and no element or handler came out of data."""
    page = Outline(render_html(report))
    assert page.open == []
    assert page.elements <= KNOWN_ELEMENTS
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_html_loads_nothing(report: dict[str, Any]) -> None:
    """The page refers to places within itself only, and says so to the browser."""
    page = Outline(render_html(report))
    references = [value for name, value in page.attributes if name in ("href", "src")]
    assert all(value.startswith("#") for value in references)
    assert "url(" not in render_html(report)
    assert "@import" not in render_html(report)
    assert any(value.startswith("default-src 'none'") for _, value in page.attributes)


def test_contents_lead_to_sections(report: dict[str, Any]) -> None:
    """Every link of the table of contents has its target."""
    attributes = Outline(render_html(report)).attributes
    targets = {f"#{value}" for name, value in attributes if name == "id"}
    assert {value for name, value in attributes if name == "href"} == targets


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    """What a query says is read in the page as it was written, up to its length."""
    report = full_report()
    entry = report["comparisons"][0]
    entry["worst"][0]["query"] = text
    page = Outline(render_html(report))
    assert clipped(visible(text)) in page.texts


@pytest.mark.parametrize("place", ["title", "system", "task", "slice", "warning", "note"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_harmless_everywhere(text: str, place: str) -> None:
    """Names and notes are data too."""
    report = _with(text, place)
    page = Outline(render_html(report))
    assert page.open == []
    assert page.elements <= KNOWN_ELEMENTS
    _assert_tables_are_whole(render_markdown(report))


def _with(text: str, place: str) -> dict[str, Any]:
    report = full_report()
    if place == "title":
        report["suite"]["title"] = report["suite"]["description"] = text
    elif place == "warning":
        report["warnings"] = report["comparisons"][0]["warnings"] = [text]
    elif place == "note":
        report["tasks"][0]["notes"] = report["tasks"][0]["no_relevant"] = [text]
    else:
        old = {"system": "overlap", "task": "demo", "slice": "outdated"}[place]
        report = _renamed(report, old, text)
    return report


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {_renamed(key, old, new): _renamed(entry, old, new) for key, entry in value.items()}
    if isinstance(value, list):
        return [_renamed(entry, old, new) for entry in value]
    return new if value == old else value


def test_no_control_character_is_left(report: dict[str, Any]) -> None:
    """Nothing in either file can hide, reorder or end text; both are UTF-8."""
    for text in (render_html(report), render_markdown(report)):
        assert text.encode("utf-8")
        assert visible(text.replace("\n", "")) == text.replace("\n", "")


def test_markdown_tables_have_constant_columns(report: dict[str, Any]) -> None:
    """Every row of a table has as many cells as its head."""
    assert _assert_tables_are_whole(render_markdown(report)) > 5


def _assert_tables_are_whole(text: str) -> int:
    """The number of tables found."""
    found = [block.split("\n") for block in text.strip().split("\n\n") if block.startswith("| ")]
    for lines in found:
        assert re.fullmatch(r"\|( -+:? \|)+", lines[1])
        assert {line.count("|") for line in lines} == {lines[0].count("|")}
        assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
    return len(found)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_escape_leaves_no_markup(text: str) -> None:
    """No unescaped sign that begins code, a link, emphasis, HTML, a heading or a cell."""
    escaped = markdown.escape(text)
    bare = re.sub(r"\\[^\w\s]", "", escaped)
    assert not re.search(r"[<>|`*#\n\r]|\]\(|://", bare.replace("&#124;", "").replace("&#58;", ""))
    assert not re.match(r"[-+=\[#>]|\d+[.)]", markdown.paragraph(text))


@pytest.mark.parametrize("place", ["macro", "demo", "autorag-ko"])
def test_leaderboard_shows_the_numbers_of_the_document(place: str) -> None:
    """Mean, interval and n of every system, to 4 decimals, best first, in both files."""
    report = full_report()
    table = leaderboard_table(cast(Report, report), place)
    expected = sorted(
        (r for r in report["results"] if (r["task"], r["measure"]) == (place, "nDCG@10")),
        key=lambda r: -r["mean"],
    )
    page, text = render_html(report), render_markdown(report)
    assert [_texts(entry)[0] for entry in table.rows] == [r["system"] for r in expected]
    for entry, result in zip(table.rows, expected, strict=True):
        low, high = result["interval"]["low"], result["interval"]["high"]
        numbers = {f"{result['mean']:.4f}", f"[{low:.4f}, {high:.4f}]", str(result["n"])}
        assert numbers <= set(_texts(entry))
        assert all(shown in page and shown in text for shown in numbers)


def test_an_unverified_recipe_is_said_beside_its_numbers() -> None:
    """On the leaderboard of both files, at that system and at no other."""
    report = full_report()
    unverified = {s["name"] for s in report["systems"] if s["recipe"] == "unverified"}
    assert unverified
    for entry in leaderboard_table(cast(Report, report), "demo").rows:
        system = entry.cells[0]
        assert ("unverified recipe" in system.labels) == (system.text in unverified)
    assert "unverified recipe" in render_html(report)
    assert "*unverified recipe*" in render_markdown(report)


def _texts(entry: Any) -> list[str]:
    return [cell if isinstance(cell, str) else cell.text for cell in entry.cells]


def test_html_and_markdown_show_the_same_numbers() -> None:
    """Every value with 4 decimals that Markdown shows is in the page, and the reverse."""
    report = full_report()
    page = Outline(render_html(report))
    decimals = re.compile(r"(?<![\w.])\d+\.\d{4}(?!\d)")
    shown = set(decimals.findall(" ".join(page.texts)))
    # tooltips of the bars show each query's delta, which Markdown has no room for
    bars = {f"{abs(delta):.4f}" for c in report["comparisons"] for _, delta in c["deltas"]}
    assert set(decimals.findall(render_markdown(report))) <= shown
    assert shown - bars <= set(decimals.findall(render_markdown(report)))


def test_missing_numbers_are_never_nan() -> None:
    """Values that are null, NaN or infinite are a dash, in tables and plots."""
    report = full_report()
    for result in report["results"]:
        result["mean"] = float("nan")
        result["interval"] = {"low": float("nan"), "high": float("inf"), "kind": "percentile"}
        result["interval"]["degenerate"] = False
    for entry in report["headroom"]:
        entry["value"] = entry["oracle"] = entry["recovered"] = float("nan")
    for text in (render_html(report), render_markdown(report)):
        assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)


def test_rendering_does_not_change_the_document() -> None:
    """Drawing is pure: the same document gives the same bytes again."""
    report = full_report()
    before = deepcopy(report)
    assert render_html(report) == render_html(report)
    assert render_markdown(report) == render_markdown(report)
    assert json.dumps(report) == json.dumps(before)


def test_labels_without_people_are_marked() -> None:
    """Synthetic judgments are named at the top and at the task, human ones are not."""
    report = full_report()
    assert "synthetic labels: 50.0% of the judgments" in render_markdown(report)
    for task in report["tasks"]:
        task["provenance"] = {"human": 812}
    assert "synthetic labels" not in render_markdown(report)


@pytest.mark.parametrize(
    ("passed", "words"),
    [(True, "Release gate passed"), (False, "Release gate failed: 1 of 3 rules broken")],
)
def test_gate_is_said_first(passed: bool, words: str) -> None:
    """The verdict and the sentence of the broken rule come before any table."""
    report = full_report()
    report["gate"]["passed"] = passed
    text = render_markdown(report)
    broken = report["gate"]["rules"][0]["sentence"]
    assert text.index(words) < text.index(markdown.paragraph(broken)) < text.index("| --- |")


def test_only_near_systems_are_said_to_be_near() -> None:
    """Inside the interval of the best: mean at least its lower end."""
    report = full_report()
    results = [r for r in report["results"] if (r["task"], r["measure"]) == ("demo", "nDCG@10")]
    best = max(results, key=lambda r: r["mean"])
    near = {r["system"] for r in results if r["mean"] >= best["interval"]["low"]} - {best["system"]}
    labelled = {
        cell.text
        for entry in leaderboard_table(cast(Report, report), "demo").rows
        if not isinstance(cell := entry.cells[0], str)
        and "inside the best's interval" in cell.labels
    }
    assert labelled == near


def _interval(low: float, high: float, kind: str = "percentile", **rest: bool) -> Interval:
    return {"low": low, "high": high, "kind": kind, "degenerate": rest.get("degenerate", False)}


@pytest.mark.parametrize(
    ("mean", "interval", "reading"),
    [
        (0.1, _interval(0.05, 0.15), "better"),
        (-0.1, _interval(-0.15, -0.05), "worse"),
        (0.1, _interval(-0.01, 0.2), "undecided"),
        (0.1, _interval(0.0, 0.2), "undecided"),
        (0.0, _interval(0.0, 0.0, degenerate=True), "equal"),
        (0.5, _interval(0.5, 0.5, degenerate=True), "unknown"),
        (0.1, None, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_reading_of_a_delta_by_its_interval(
    mean: float | None, interval: Interval | None, reading: str
) -> None:
    """An interval that holds 0 shows no difference; one of width 0 is no certainty."""
    assert read_delta(mean, interval) == reading


@pytest.mark.parametrize(
    ("ends", "corrected_p", "reading"),
    [
        ((0.05, 0.15), 0.01, "better"),
        ((-0.15, -0.05), 0.049, "worse"),
        ((0.05, 0.15), 0.05, "uncorrected"),
        ((-0.15, -0.05), 1.0, "uncorrected"),
        ((-0.05, 0.15), 0.01, "undecided"),
        ((0.05, 0.15), None, "better"),
    ],
)
def test_reading_of_a_delta_after_correction(
    ends: tuple[float, float], corrected_p: float | None, reading: str
) -> None:
    """An interval without 0 counts only if the corrected p-value is below alpha, where tested."""
    assert read_delta(sum(ends) / 2, _interval(*ends), corrected_p, alpha=0.05) == reading


def test_p_values_in_words() -> None:
    """Never 0, and a value that does not exist is a dash."""
    assert [p_text(p) for p in (0.0123, 0.0009, 1e-300, 1.0, None, float("nan"))] == [
        "p = 0.012",
        "p < 0.001",
        "p < 0.001",
        "p = 1.000",
        "—",
        "—",
    ]


def test_what_was_tested_stands_beside_the_delta() -> None:
    """p-values, power and rank of the document are in both files."""
    report = full_report()
    page, text = render_html(report), render_markdown(report)
    comparison = report["comparisons"][0]
    expected = [
        f"corrected {p_text(comparison['corrected_p'])}",
        f"a mean delta of {number(comparison['detectable'])} is found with 80% power",
        f"would take {comparison['queries_needed']:,}",
        "(holm, 240 tests)",
        "1-3",
        "beaten 97.3%",
    ]
    shown = " ".join(Outline(page).texts)
    assert [words for words in expected if words not in shown] == []
    assert [words for words in expected if markdown.escape(words) not in text] == []


def test_mixed_judgments_are_told_wherever_a_mean_mixes_them() -> None:
    """Two tasks of one kind each: the mean over both mixes them, those of the tasks do not."""
    report = cast(Report, full_report())
    assert (
        mixed_judgments(report, "macro")
        == "Means rest on 50.0% human and 50.0% synthetic judgments."
    )
    assert mixed_judgments(report, "demo") == ""
    report["tasks"][0]["provenance"] = {"human": 609, "synthetic": 203}
    words = "Means rest on 75.0% human and 25.0% synthetic judgments."
    assert mixed_judgments(report, "demo") == words
    boards_slices_and_comparisons = render_markdown(report).count(words)
    assert boards_slices_and_comparisons == 1 + 1 + 4  # four challengers
    assert words in " ".join(Outline(render_html(report)).texts)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (_interval(0.1, 0.2), "[0.1000, 0.2000]"),
        (_interval(0.1, 0.2, "bca"), "[0.1000, 0.2000]"),
        (_interval(1.0, 1.0, degenerate=True), "degenerate (all values equal)"),
        (
            _interval(0.94, 1.0, "wilson", degenerate=True),
            "degenerate (all values equal), Wilson [0.9400, 1.0000]",
        ),
        (_interval(0.1, 0.2, "wilson"), "Wilson [0.1000, 0.2000]"),
        (None, "—"),
    ],
)
def test_intervals_in_words(interval: Interval | None, text: str) -> None:
    """Degenerate intervals say so, those that are not resampled are named."""
    assert interval_text(interval) == text


def test_numbers_in_words() -> None:
    """4 decimals, signs on deltas, no negative zero, no share that overstates."""
    assert [number(0.12345), number(-0.00001), number(None)] == ["0.1235", "0.0000", "—"]
    assert [signed(0.5), signed(-0.5), signed(-0.00001)] == ["+0.5000", "-0.5000", "0.0000"]
    assert [share(0.0), share(0.0001), share(0.9999), share(1.0)] == [
        "0.0%",
        "<0.1%",
        ">99.9%",
        "100.0%",
    ]


def test_elements_escape_what_is_not_markup() -> None:
    """Text and attributes are escaped once; markup is kept."""
    inner = element("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert element("p", inner, "'\"") == f"<p>{inner}&#x27;&quot;</p>"
    assert element("p", title='"><x') == '<p title="&quot;&gt;&lt;x"></p>'
    assert join([inner, "<"], ", ") == f"{inner}, &lt;"


def test_text_is_made_visible() -> None:
    """Controls become symbols, direction marks their code point, long text is counted."""
    assert visible("a\x00b\nc\x7f\u202e\ud800") == "a␀b␊c␡[U+202E][U+D800]"
    assert clipped("x" * 300, 10) == "xxxxxxxxxx… (300 characters)"


def test_scales_hold_their_values_and_end_on_round_numbers() -> None:
    """Ticks are multiples of 1, 2 or 5 times a power of ten."""
    scale = scale_of([0.47, 0.73])
    assert scale.ticks == (0.4, 0.5, 0.6, 0.7, 0.8)
    assert scale_of([]).low < scale_of([]).high
    assert scale_of([0.3, 0.3]).low < 0.3 < scale_of([0.3, 0.3]).high


def test_waterfall_of_many_queries_stays_small() -> None:
    """More queries than bars: the ends are kept, and the picture does not grow."""
    deltas = [(f"q{index}", index / 10_000 - 0.5) for index in range(10_000)]
    shown = evenly_spaced(deltas, MOST_BARS)
    assert (len(shown), shown[0], shown[-1]) == (MOST_BARS, deltas[0], deltas[-1])
    assert waterfall(deltas, scale_of([-0.5, 0.5]), label="").count("<rect") == MOST_BARS

"""Published results in the report: marked rows on the leaderboards, and a table a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rerank.reporting import markdown
from rerank.reporting.markup import Markup, bullets, details, element, join, paragraph
from rerank.reporting.schema import MACRO, Imported, Report
from rerank.reporting.table import Cell, Column, Row, Table, html_table, markdown_table, row
from rerank.reporting.visible import clipped
from rerank.reporting.wording import count, exists, number

MARK = "imported, not replayed"
SHOWN_NOTE = 90  # characters of a protocol beside a name
TITLE = "Published results"
EXPLANATION = (
    f"Rows marked '{MARK}' are published numbers. Their pairs are not here, so they have no "
    "interval, rank, delta or test, and they are in no mean with the systems above. Protocols "
    "differ from this suite's and from each other: "
)


def imported_rows(report: Report, place: str, columns: Sequence[Column]) -> list[Row]:
    """Rows of a leaderboard at `place`, under the replayed ones, best first within a protocol."""
    primary = report["suite"]["primary"]
    return [
        _board_row(entry, model, {primary: value}, columns)
        for entry in report.get("imported", [])
        for model, value in sorted(_values(report, entry, place, primary), key=lambda it: -it[1])
    ]


def imported_measure_rows(report: Report, place: str, columns: Sequence[Column]) -> list[Row]:
    """The same models with every measure that was published."""
    found = []
    for entry in report.get("imported", []):
        values = {
            measure: dict(_values(report, entry, place, measure)) for measure in report["measures"]
        }
        primary = values[report["suite"]["primary"]]
        for model in sorted(primary, key=lambda name: -primary[name]):
            mine = {measure: known[model] for measure, known in values.items() if model in known}
            found.append(_board_row(entry, model, mine, columns))
    return found


def _values(
    report: Report, entry: Imported, place: str, measure: str
) -> Iterator[tuple[str, float]]:
    """(model, value) at a task, or the mean over exactly the suite's tasks."""
    names = {column["task"]: column["name"] for column in entry["columns"] if column["task"]}
    wanted = [task["name"] for task in report["tasks"]] if place == MACRO else [place]
    if measure not in entry["measures"] or not all(name in names for name in wanted):
        return
    for published in entry["rows"]:
        found = [published["values"][measure][names[name]] for name in wanted]
        known = [value for value in found if exists(value)]
        if len(known) == len(wanted):
            yield published["model"], sum(known) / len(known)


def _board_row(
    entry: Imported, model: str, values: dict[str, float], columns: Sequence[Column]
) -> Row:
    """Cells under the board's own columns: the name, the values, and nothing where we have none."""
    name = Cell(model, labels=(MARK,), note=clipped(entry["protocol"], SHOWN_NOTE))
    rest = [Cell(number(values[c.name]) if c.name in values else "") for c in columns[1:]]
    return Row((name, *rest), tone="muted")


def imported_sentence(report: Report, place: str) -> str:
    """What the marked rows of a board are; empty where it has none."""
    primary = report["suite"]["primary"]
    shown = [
        entry
        for entry in report.get("imported", [])
        if any(True for _ in _values(report, entry, place, primary))
    ]
    if not shown:
        return ""
    told = "; ".join(f"{entry['protocol']} ({entry['source']})" for entry in shown)
    return f"{EXPLANATION}{told}."


def imported_html(report: Report) -> Markup | None:
    """Every protocol with all it published, also tasks that the suite does not have."""
    entries = report.get("imported", [])
    if not entries:
        return None
    return join([element("h3", TITLE), *(_entry_html(entry) for entry in entries)])


def imported_markdown(report: Report) -> str | None:
    entries = report.get("imported", [])
    if not entries:
        return None
    return markdown.blocks(markdown.heading(3, TITLE), *map(_entry_markdown, entries))


def _entry_html(entry: Imported) -> Markup:
    return join(
        [
            paragraph(element("strong", MARK), f": {_told(entry)}"),
            bullets([*entry["facts"], *entry["notes"]], class_="fine"),
            *(
                details(_caption(entry, measure), html_table(published_table(entry, measure)))
                for measure in entry["measures"]
            ),
        ]
    )


def _entry_markdown(entry: Imported) -> str:
    return markdown.blocks(
        f"**{MARK}**: {markdown.escape(_told(entry))}",
        markdown.bullets([*entry["facts"], *entry["notes"]]),
        *(
            markdown.blocks(
                markdown.paragraph(_caption(entry, measure)),
                markdown_table(published_table(entry, measure)),
            )
            for measure in entry["measures"]
        ),
    )


def _told(entry: Imported) -> str:
    return f"{entry['protocol']}. Source: {entry['source']}."


def _caption(entry: Imported, measure: str) -> str:
    models, tasks = len(entry["rows"]), len(entry["columns"])
    return f"{measure}: {count(models, 'model')} on {count(tasks, 'task')}"


def published_table(entry: Imported, measure: str) -> Table:
    """Models by their mean, those without one last; a column a task as it was published."""
    columns = (
        Column("Model"),
        *(Column(_head(column["name"], column["task"]), "number") for column in entry["columns"]),
        Column(f"Mean of {len(entry['columns'])}", "number"),
    )
    ordered = sorted(entry["rows"], key=lambda one: -(one["mean"][measure] or 0.0))
    rows = [
        row(
            published["model"],
            *(number(published["values"][measure][c["name"]]) for c in entry["columns"]),
            number(published["mean"][measure]),
        )
        for published in ordered
    ]
    return Table(columns, rows)


def _head(name: str, task: str | None) -> str:
    return name if task in (None, name) else f"{name} (here {task})"

"""The leaderboard as static files: index.html, a page a challenger, and every table's files.

They need no server and no network, and run no script; figures and tables are those of the app.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.app.reading import Aggregates, read_index
from jobs.app.views.ceilings import (
    depths_figure,
    depths_grid,
    gold_figure,
    gold_grid,
    headroom_grid,
    task_sentence,
    unjudged_grid,
)
from jobs.app.views.comparing import delta_grid, distribution, forest, gate_grid, task_deltas
from jobs.app.views.overview import imported_grids, interval_figure, overview
from jobs.app.views.pairs import common_tasks, pair_of
from jobs.app.views.scope import Scope
from jobs.app.views.speed import speed_figure
from jobs.app.wording import Words
from rerank.reporting.grid import GRID_FILES, Grid, grid_table
from rerank.reporting.markup import Content, Markup, bullets, element, join, paragraph
from rerank.reporting.pictures import PLOT_STYLE
from rerank.reporting.stylesheet import STYLESHEET
from rerank.reporting.table import html_table
from rerank.store import Store

SECURITY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is loaded, nothing runs
TABLES = "tables"
EXTRA = Markup(
    ":root { --s1: #b2701a; --s2: #3d7a4a; --s3: #8a4a8f; --s4: #555d66; --s5: #a8323e; }"
    + PLOT_STYLE
    + """
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; padding: 0; }
ul.legend i { display: inline-block; width: 1.1rem; height: 3px; margin: 0 0.4rem 0.2rem 0; }
i.s0 { background: var(--accent); } i.s1 { background: var(--s1); } i.s2 { background: var(--s2); }
.files a { margin-right: 0.8rem; }
thead th { white-space: nowrap; }
nav { position: static; padding-top: 0; } nav ol { flex-direction: row; }
"""
)


@dataclass
class Site:
    """Where pages and tables go; every table's files are written once."""

    store: Store
    words: Words
    written: set[str] = field(default_factory=set)

    def table(self, grid: Grid, prefix: str = "") -> Markup:
        """The grid's table, its notes, and links to its files, which are written."""
        name = _safe(f"{prefix}{grid.name}")
        while name in self.written:
            name += "-2"
        self.written.add(name)
        links: list[Content] = []
        for ending, (_, write) in GRID_FILES.items():
            self.store.write(f"{TABLES}/{name}.{ending}", write(grid))
            links.append(element("a", ending, href=f"{TABLES}/{name}.{ending}"))
        files = paragraph(f"{self.words.of('files')}: ", *links, class_="fine files")
        notes = [paragraph(note, class_="fine") for note in grid.notes]
        return join([html_table(grid_table(grid)), *notes, files])


def export(store: Store, suite: str, folder: Path, language: str) -> str:
    """Write the suite's leaderboard below the folder; the address of index.html."""
    data = Aggregates(store, read_index(store, suite))
    words = Words(language)
    site = Site(Store(folder), words)
    pages = {name: f"compare-{at:03d}.html" for at, name in enumerate(_challengers(data), 1)}
    sections = [
        (words.of("overview"), _overview(data, site)),
        (words.of("compare"), _comparisons(data, site, pages)),
        (words.of("candidates_page"), _candidates(data, site)),
        (words.of("runs_page"), _runs(data, site)),
    ]
    title = data.suite["title"] or suite
    site.store.write("index.html", _page(title, data, sections, words))
    for name, file in pages.items():
        whole = [(name, _challenger(data, name, site))]
        site.store.write(file, _page(f"{name} – {title}", data, whole, words))
    return site.store.where("index.html")


def _challengers(data: Aggregates) -> list[str]:
    return [name for name in data.systems if name != data.baseline]


def _overview(data: Aggregates, site: Site) -> Markup:
    words = site.words
    scope = Scope(tuple(data.tasks), tuple(data.systems), data.primary)
    grid = overview(data, scope, words)
    key = "pps" if any(row["pps"] is not None for row in grid.rows) else "replay_pps"
    figure, _ = speed_figure(grid, key, words)
    parts: list[Content] = [
        site.table(grid),
        bullets(data.index["warnings"], class_="warnings"),
        element("h3", words.of("intervals_title")),
        interval_figure(grid, data.baseline, words),
    ]
    if figure is not None:
        told = words.of("scatter_measured" if key == "pps" else "scatter_replay")
        parts += [element("h3", words.of("scatter_title")), element("figure", figure)]
        parts.append(paragraph(told, class_="fine"))
    for title, published in imported_grids(data, words):
        parts += [element("h3", f"{words.of('imported_title')}: {title}"), site.table(published)]
    for task in data.tasks if len(data.tasks) > 1 else ():
        board = overview(data, Scope((task,), tuple(data.systems), data.primary), words)
        parts += [element("h3", task), site.table(board, f"{task}-")]
    return join(parts)


def _comparisons(data: Aggregates, site: Site, pages: dict[str, str]) -> Markup:
    """A link to every challenger's page, and the gate."""
    words = site.words
    links = [element("li", element("a", name, href=file)) for name, file in pages.items()]
    parts: list[Content] = [
        paragraph(words.of("reference_note", data.baseline)),
        element("ul", *links),
    ]
    rules = gate_grid(data, data.systems, words)
    if rules.rows:
        parts += [element("h3", words.of("gate")), site.table(rules)]
    return join(parts)


def _challenger(data: Aggregates, name: str, site: Site) -> Markup:
    words, measure = site.words, data.primary
    heads = (words.of("task"), words.of("mean_over_tasks"))
    deltas = task_deltas(data, data.baseline, name, measure)
    tasks = delta_grid("tasks", deltas, heads, data, words, measure)
    parts: list[Content] = [
        paragraph(element("a", words.of("overview"), href="index.html")),
        paragraph(words.of("reference_note", data.baseline)),
        paragraph(words.of("delta_means")),
        site.table(tasks, f"{name}-"),
    ]
    for task in common_tasks(data, data.baseline, name):
        pair = pair_of(data, task, data.baseline, name, measure)
        parts += [
            element("h3", task),
            element("figure", distribution(pair, words)),
            site.table(forest(data, pair, words), f"{name}-{task}-"),
        ]
    return join(parts)


def _candidates(data: Aggregates, site: Site) -> Markup:
    words, parts = site.words, []
    for task in data.tasks:
        depths, gold = depths_grid(data, task, words), gold_grid(data, task, words)
        parts += [
            element("h3", data.task(task)["title"] or task),
            paragraph(task_sentence(data, task, words)),
            element("figure", depths_figure(depths, words)),
            site.table(depths),
            element("figure", gold_figure(gold, words)),
            site.table(gold),
            site.table(headroom_grid(data, task, words)),
            site.table(unjudged_grid(data, task, words)),
        ]
    return join(parts)


def _runs(data: Aggregates, site: Site) -> Markup:
    """Which runs were evaluated, by fingerprint."""
    from rerank.reporting.grid import GridColumn

    words = site.words
    rows = tuple(
        {"system": system["name"], "task": task, "fingerprint": print_}
        for system in data.index["systems"]
        for task, print_ in system["runs"].items()
    )
    columns = (
        GridColumn("system", words.of("system")),
        GridColumn("task", words.of("task")),
        GridColumn("fingerprint", words.of("fingerprint"), "code"),
    )
    return site.table(Grid("runs", columns, rows))


def _page(
    title: str, data: Aggregates, sections: Sequence[tuple[str, Markup]], words: Words
) -> bytes:
    told = words.of("exported", str(data.store.root), data.index["stamp"])
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=SECURITY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} – Rerank Replay"),
        element("style", STYLESHEET, EXTRA),
    )
    links = [
        element("li", element("a", name, href=f"#part-{at}"))
        for at, (name, _) in enumerate(sections)
    ]
    body = element(
        "body",
        element("header", paragraph("Rerank Replay", class_="brand"), element("h1", title)),
        element("nav", element("ol", *links)) if len(sections) > 1 else None,
        *(
            element("section", element("h2", name), content, id=f"part-{at}")
            for at, (name, content) in enumerate(sections)
        ),
        element("footer", paragraph(told)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang=words.language)}\n".encode()


def _safe(name: str) -> str:
    """A name of a file of it: letters, digits and `.-_@`, everything else one `_`."""
    return re.sub(r"[^\w.\-@]+", "_", name).strip("._")[:120] or "table"

"""Published results as blocks of the report document: shown beside what was replayed, never mixed.

One entry of the suite is one protocol and one block. A value stands there as it was published; the
only thing computed is the plain mean over tasks, for models that have a value on every one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import metrics
from rerank.errors import ConfigError, unknown_name
from rerank.files.published_results import PublishedScore
from rerank.suite.suites import ImportedResults

UNMAPPED = (
    "none of these tasks stands for one of the suite's: `tasks` in the suite's file maps them"
)
MEAN_DIGITS = 5e-5  # what rounding the published mean to 4 digits may change ...
ROUNDED = 5e-5  # ... and what rounding each of its values may


def imported_block(
    entry: ImportedResults,
    scores: Sequence[PublishedScore],
    tasks: Sequence[str],
    measures: Sequence[str],
    where: str,
) -> dict[str, Any]:
    """One entry as the report's `Imported` (rerank/reporting/schema.py), strict-JSON ready.

    tasks, measures: the suite's, its primary measure first. ConfigError names what in the entry is
    wrong: an unknown task, two protocols in one entry, two values for one cell.
    """
    if not scores:
        raise ConfigError(f"{where}: its files hold no score; check `files`")
    if not all(score.measure for score in scores):
        raise ConfigError(
            f"{where}: a table does not say which measure it holds; name the one of a table with "
            "`measure`"
        )
    spelled = {str(metrics.parse_measure(measure)): measure for measure in measures}
    kept = [
        replace(score, measure=spelled.get(score.measure, score.measure))
        for score in _of_one_stage(scores, entry, where)
    ]
    labels = column_labels(kept)
    columns = list(dict.fromkeys(labels[_place(score)] for score in kept))
    means = [name for name in columns if name == entry.mean]
    if entry.mean and not means:
        raise unknown_name(f"column of `mean` in {where}", entry.mean, columns)
    columns = [name for name in columns if name != entry.mean]
    mapped = _mapped(columns, entry, tasks, where)
    cells = _cells(kept, labels, where)
    shown = [measure for measure in measures if any(key[2] == measure for key in cells)]
    if not shown:
        known = sorted({score.measure for score in kept})
        raise ConfigError(
            f"{where}: none of the suite's measures is published there, which has "
            f"{', '.join(known)}; name the one of a table with `measure`"
        )
    models = list(dict.fromkeys(score.model for score in kept))
    rows = [_row(model, columns, shown, cells) for model in models]
    return {
        "protocol": entry.protocol,
        "source": entry.source,
        "measures": shown,
        "columns": [{"name": name, "task": mapped.get(name)} for name in columns],
        "rows": rows,
        "facts": _facts(kept),
        "notes": [
            *([] if mapped else [UNMAPPED]),
            *(_mean_notes(rows, cells, entry.mean, shown[0], len(columns)) if means else []),
        ],
    }


Place = tuple[str, str, str]  # task, subset, split
Cells = dict[tuple[str, str, str], float | None]  # model, column, measure


def _place(score: PublishedScore) -> Place:
    return (score.task, score.subset, score.split)


def column_labels(scores: Sequence[PublishedScore]) -> dict[Place, str]:
    """(task, subset, split) -> TASK, with /SUBSET and /SPLIT where a task has several of them."""
    places = list(dict.fromkeys(map(_place, scores)))
    found = {}
    for task, subset, split in places:
        several = [len({place[at] for place in places if place[0] == task}) > 1 for at in (1, 2)]
        parts = [name for name, shown in zip((subset, split), several, strict=True) if shown]
        found[task, subset, split] = "/".join([task, *parts])
    return found


def _of_one_stage(
    scores: Sequence[PublishedScore], entry: ImportedResults, where: str
) -> list[PublishedScore]:
    """The scores of the entry's stage: a first stage and a reranker are two protocols."""
    stages = sorted({score.stage for score in scores})
    if entry.stage and entry.stage not in stages:
        raise unknown_name(f"stage in {where}", entry.stage, stages)
    if len(stages) > 1 and not entry.stage:
        raise ConfigError(
            f"{where}: its files hold several stages ({', '.join(stages)}), which are protocols of "
            "their own; choose one with `stage`"
        )
    return [score for score in scores if not entry.stage or score.stage == entry.stage]


def _mapped(
    columns: Sequence[str], entry: ImportedResults, tasks: Sequence[str], where: str
) -> dict[str, str]:
    """Published name -> task of the suite, by the entry or by being the same name."""
    for name, task in entry.tasks.items():
        if name not in columns:
            raise unknown_name(f"published task in {where}", name, columns)
        if task not in tasks:
            raise unknown_name(f"task of the suite in {where}", task, tasks)
    taken = set(entry.tasks.values())
    same = {name: name for name in columns if name in tasks and name not in taken}
    return {**same, **entry.tasks}


def _cells(scores: Sequence[PublishedScore], labels: Mapping[Place, str], where: str) -> Cells:
    cells: Cells = {}
    for score in scores:
        key = (score.model, labels[_place(score)], score.measure)
        if key in cells:
            raise ConfigError(
                f"{where}: {score.measure or 'a value'} of {score.model} on {key[1]} is published "
                "twice in its files; name each file once, and other protocols in another entry"
            )
        cells[key] = score.value
    return cells


def _row(
    model: str, columns: Sequence[str], measures: Sequence[str], cells: Cells
) -> dict[str, Any]:
    values = {
        measure: {name: cells.get((model, name, measure)) for name in columns}
        for measure in measures
    }
    means = {measure: plain_mean(list(found.values())) for measure, found in values.items()}
    return {"model": model, "values": values, "mean": means}


def plain_mean(values: Sequence[float | None]) -> float | None:
    """The mean over tasks; None where a value is missing: a mean of fewer tasks is another one."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _facts(scores: Sequence[PublishedScore]) -> list[str]:
    """What the files say of how they were made, each once: `mteb_version 1.38.1, 1.38.57`."""
    found: dict[str, dict[str, None]] = {}
    for score in scores:
        for key, value in score.facts.items():
            told = f"{score.task} {value}" if key == "dataset_revision" else value
            found.setdefault(key, {})[told] = None
    return [f"{key}: {', '.join(sorted(values))}" for key, values in sorted(found.items())]


def _mean_notes(
    rows: Sequence[Mapping[str, Any]], cells: Cells, column: str, measure: str, n: int
) -> list[str]:
    """Published means that do not come out of the published values."""
    tolerance = MEAN_DIGITS + ROUNDED + 1e-12
    found = []
    for row in rows:
        stated, ours = cells.get((row["model"], column, measure)), row["mean"][measure]
        if stated is None or (ours is not None and abs(stated - ours) <= tolerance):
            continue
        told = f"they give {ours:.4f}" if ours is not None else f"not all {n} are published"
        found.append(f"{row['model']}: {column} is {stated:.4f}, but {told}")
    return found

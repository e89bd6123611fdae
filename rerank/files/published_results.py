"""Published results: scores of a model on a task, without the pairs, as benchmarks print them.

Four forms are read, told by content: TASK.json of mteb (1.11 to 2.x); a flat TASK.json as
reranker-simple-benchmark writes it (`_model`, `_task`, `ndcg_at_10`, ...); a JSON list of such
rows (`model`, `task`, `subset`, `split`, ...); a TSV or CSV table with a column `model` and a
column a task. Nothing is computed, and no model or measure is taken from a file's name.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import metrics
from rerank.errors import InputError
from rerank.files.formats import UNREADABLE, cannot_read, checked_text, opened, unique_keys
from rerank.files.mteb_results import checked_result, measure_of, result_rows, without_nan

TABLES = (".csv", ".tsv")
NO_TASKS = ("model", "params", "measure")  # columns of a table that are known to be no task
MEAN_DIGITS = 5e-4  # what rounding may put between a mean and the values beside it
NO_VALUE = ("", "-", "–", "—", "N/A", "n/a")
FORMS = (
    "an mteb result (task_name, scores), a flat result (_model, _task, ndcg_at_10), a list of such "
    "rows (model, task), or a TSV or CSV table with a column `model`"
)
FACTS = ("mteb_version", "dataset_revision", "_max_length", "_neg_top_k")


@dataclass(frozen=True)
class PublishedScore:
    """One number as it was published.

    measure: as `metrics` names it (nDCG@10), what the file calls it where `metrics` has none (PPS),
    empty where a table does not say. value: None where it has none. facts: what the file says about
    how it was made.
    """

    model: str
    task: str
    measure: str
    value: float | None
    split: str = ""
    subset: str = ""
    stage: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def read_published(
    path: Path,
    *,
    model: str = "",
    measure: str = "",
    ignored: Sequence[str] = (),
    mean: str = "",
) -> list[PublishedScore]:
    """The scores of one file, in its order. InputError names file, line or field.

    model: of an mteb result without a model_meta.json beside it. measure: of a table without a
    column `measure`. ignored: columns of a table that are no task. mean: its column of means over
    tasks; another column that is one is an InputError.
    """
    if path.suffix.lower() in TABLES:
        scores = list(_table_scores(path, measure, ignored))
        _check_means([score for score in scores if score.task != mean], path)
        return scores
    value = _json(path)
    if isinstance(value, list):
        return [score for n, row in enumerate(value, 1) for score in _row_scores(row, path, n)]
    if "scores" in value:
        return list(_mteb_scores(path, value, model))
    if "_model" in value and "_task" in value:
        return list(_flat_scores(value, str(path)))
    raise InputError(f"{path} is no published result: it must be {FORMS}")


def is_mteb_result(path: Path) -> bool:
    """Is it a result of mteb, or what only a reader of those can tell the trouble of?"""
    if path.suffix.lower() in TABLES:
        return False
    try:
        value = _json(path)
    except InputError:
        return True
    return isinstance(value, dict) and not ("_model" in value and "_task" in value)


def _json(path: Path) -> Any:
    """A JSON object or list; bare NaN, which mteb writes, is read as null."""
    try:
        with opened(path) as stream:
            text = stream.read().decode("utf-8-sig")
        value = without_nan(json.loads(text, object_pairs_hook=unique_keys))
    except UNREADABLE as error:
        raise cannot_read(path, error) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); mend the file") from error
    if not isinstance(value, dict | list):
        raise InputError(f"{path} is no published result: it must be {FORMS}")
    checked_text(json.dumps(value, ensure_ascii=False), str(path))
    return value


def _mteb_scores(path: Path, value: dict[str, Any], model: str) -> Iterator[PublishedScore]:
    name = model or model_beside(path)
    if not name:
        raise InputError(
            f"{path} does not say which model it is of, and no model_meta.json stands beside it; "
            "state the model"
        )
    for row in result_rows(checked_result(value, path)):
        where = f"{path}, split '{row['split']}', subset '{row['hf_subset']}'"
        facts = _facts({**row, "mteb_version": value.get("mteb_version")})
        for key, measure in _measures(row):
            yield PublishedScore(
                model=name,
                task=row["task_name"],
                measure=measure,
                value=_value(row[key], measure, f"{where}, field '{key}'"),
                split=row["split"],
                subset=row["hf_subset"],
                facts=facts,
            )


def model_beside(path: Path) -> str:
    """The name in the model_meta.json that mteb writes beside its results; empty without one."""
    meta = path.parent / "model_meta.json"
    if not meta.is_file():
        return ""
    value = _json(meta)
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        raise InputError(f"{meta}, field 'name': must be the model's name")
    return name


def _flat_scores(row: dict[str, Any], where: str) -> Iterator[PublishedScore]:
    """reranker-simple-benchmark since 2026: a file a model and task, its circumstances with `_`."""
    yield from _plain_scores(row, where, "_model", "_task", "_split")
    if row.get("pps") is not None:
        value = _value(row["pps"], "PPS", f"{where}, field 'pps'")
        model, task = _name(row, "_model", where), _name(row, "_task", where)
        yield PublishedScore(model, task, "PPS", value, split=str(row.get("_split") or ""))


def _row_scores(row: Any, path: Path, number: int) -> Iterator[PublishedScore]:
    where = f"{path}, entry {number}"
    if not isinstance(row, dict):
        raise InputError(f"{where}: must be an object, is {row!r:.40}")
    return _plain_scores(row, where, "model", "task", "split")


def _plain_scores(
    row: dict[str, Any], where: str, model: str, task: str, split: str
) -> Iterator[PublishedScore]:
    texts = [row.get(key) or "" for key in (split, "subset", "stage")]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: split, subset and stage must be texts")
    for key, measure in _measures(row):
        yield PublishedScore(
            model=_name(row, model, where),
            task=_name(row, task, where),
            measure=measure,
            value=_value(row[key], measure, f"{where}, field '{key}'"),
            split=texts[0],
            subset=texts[1],
            stage=texts[2],
            facts=_facts(row),
        )


def _name(row: dict[str, Any], key: str, where: str) -> str:
    name = row.get(key)
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}, field '{key}': is {name!r:.40}, must be a text")
    return name


def _measures(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(key, measure) of every key that is a measure of ours."""
    for key in row:
        if (measure := measure_of(key)) is not None:
            yield key, measure


def _facts(row: Mapping[str, Any]) -> dict[str, str]:
    return {key.lstrip("_"): str(row[key]) for key in FACTS if row.get(key) is not None}


def _value(value: Any, measure: str, where: str) -> float | None:
    """A number or null; a measure of ours lies from 0 to 1."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{where}: {value!r:.40} is not a number or null")
    if is_known(measure) and not 0 <= value <= 1:
        raise InputError(f"{where}: {measure} is {value:g}, must be from 0 to 1; not in percent")
    return float(value)


def is_known(measure: str) -> bool:
    """Is it a measure of `metrics`?"""
    try:
        metrics.parse_measure(measure)
    except metrics.MetricError:
        return False
    return True


def _table_scores(path: Path, measure: str, ignored: Sequence[str]) -> Iterator[PublishedScore]:
    """One row a model (and measure); an empty cell is a value that was not published."""
    rows = _cells(path)
    header = [name.strip() for name in next(rows, [])]
    if "model" not in header or len(set(header)) < len(header) or not all(header):
        raise InputError(
            f"{path}, line 1: must name every column once, one of them `model`: {header!r:.120}"
        )
    missing = sorted(set(ignored) - set(header))
    if missing:
        raise InputError(f"{path}: has no column '{missing[0]}' to ignore; it has {header}")
    tasks = [name for name in header if name not in (*NO_TASKS, *ignored)]
    for number, cells in enumerate(rows, 2):
        where = f"{path}, line {number}"
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise InputError(f"{where}: {len(cells)} cells, the header has {len(header)}")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        named = _name(row, "model", where)
        told = row.get("measure", "") or measure
        known = str(metrics.parse_measure(told)) if is_known(told) else told
        for task in tasks:
            value = _cell(row[task], known, f"{where}, column '{task}'")
            yield PublishedScore(named, task, known, value)


def _check_means(scores: Sequence[PublishedScore], path: Path) -> None:
    """InputError for a column that is the mean of all others: it would count as a task.

    Told by values: in every full row of one measure, two rows or more, of which one at least has
    columns that differ. Rows of equal values have no column of means.
    """
    rows: dict[str, dict[str, dict[str, float | None]]] = {}
    for score in scores:
        rows.setdefault(score.measure, {}).setdefault(score.model, {})[score.task] = score.value
    for models in rows.values():
        whole = [list(row.values()) for row in models.values()]
        full = np.array([row for row in whole if None not in row], np.float64)
        if len(full) < 2 or full.shape[1] < 3:
            continue
        others = (full.sum(axis=1, keepdims=True) - full) / (full.shape[1] - 1)
        means = (np.abs(full - others) <= MEAN_DIGITS).all(axis=0)
        if means.any() and (np.ptp(full, axis=1) > 2 * MEAN_DIGITS).any():
            column = list(next(iter(models.values())))[int(np.flatnonzero(means)[0])]
            raise InputError(
                f"{path}: column '{column}' is the mean of the others in all {len(full)} "
                f"full rows and would count as a task; name it with `mean:` of "
                "`imported` in the suite's file, or leave it out with `ignored:` there and "
                "`--ignore` of rerank results"
            )


def _cells(path: Path) -> Iterator[list[str]]:
    """The rows of a table as cells."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        yield from csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter)
    except csv.Error as error:
        raise InputError(f"{path} is no table: {error}; mend the file") from error


def _cell(text: str, measure: str, where: str) -> float | None:
    if text in NO_VALUE:
        return None
    try:
        number = float(text)
    except ValueError as error:
        raise InputError(
            f"{where}: '{text:.40}' is no number; a column that is no task goes into `ignored`"
        ) from error
    return _value(number, measure, where)


def _text(path: Path) -> str:
    try:
        with opened(path) as stream:
            return stream.read().decode("utf-8-sig")
    except UNREADABLE as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason}); convert the file") from error

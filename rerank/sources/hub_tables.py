"""Tables of a hub data set: its configurations and splits, its columns read as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as kinds

from rerank.errors import InputError
from rerank.fingerprint import sha256_rows
from rerank.sources.hub_location import DATASETS_FOLDER, Located, declared_files

ID = ("_id", "id")  # a table's own ids, under either name
BATCH = 8192  # rows turned into Python values at a time

Found = TypeVar("Found")


@dataclass(frozen=True)
class Texts:
    """Document id -> text, and what was seen while reading: null texts, rows that stand twice."""

    by_id: dict[str, str]
    nulls: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class HubTables:
    """One data set, opened. Everything is read by `datasets` and nothing is written."""

    located: Located
    task: str
    loaded: dict[tuple[str, str], Any] = field(default_factory=dict)  # opened once
    corpora: dict[tuple[str, str], Texts] = field(default_factory=dict)  # read once

    @cached_property
    def cache_dir(self) -> str | None:
        """Where `datasets` keeps its copy of a folder: another place once a file has changed.

        datasets 5.2 names the copy of a folder after its path and README alone, and would go on
        serving the old rows of a file that was replaced.
        """
        import datasets

        if self.located.kind == "hub":
            return None
        state = sha256_rows(_files(Path(self.located.path))).removeprefix("sha256:")
        return str(Path(datasets.config.HF_DATASETS_CACHE) / "rerank" / state[:16])

    @cached_property
    def configs(self) -> list[str]:
        """The configurations that the data set declares."""
        import datasets

        return list(self.declared) or self._from_hub(
            lambda: datasets.get_dataset_config_names(
                self.located.path, revision=self.located.revision
            )
        )

    @cached_property
    def declared(self) -> dict[str, dict[str, list[str]]]:
        """What a folder's README declares; a folder may hold the files of one language alone.

        datasets 5.2 looks for the first configuration's files even where another one is asked for,
        so the files are named to it.
        """
        return {} if self.located.kind == "hub" else declared_files(Path(self.located.path))

    def _arguments(self, config: str) -> dict[str, Any]:
        """What every call of `datasets` about one configuration is given."""
        files = self.declared.get(config)
        return {
            "revision": self.located.revision,
            "cache_dir": self.cache_dir,
            **({"data_files": files} if files else {}),
        }

    def config(self, *names: str) -> str:
        """The first of `names` that the data set has; InputError lists what is there."""
        for name in names:
            if name in self.configs:
                return name
        raise InputError(
            f"{self.where()}: no configuration '{names[0]}' (there are {listed(self.configs)}); "
            "check dataset, layout and subset in the task's YAML"
        )

    def split(self, config: str, wanted: str) -> str:
        """`wanted` if the configuration has it, else its only split (as MTEB reads corpora)."""
        import datasets

        there = list(self.declared.get(config, ())) or self._from_hub(
            lambda: datasets.get_dataset_split_names(
                self.located.path, config, **self._arguments(config)
            )
        )
        if wanted in there:
            return wanted
        if len(there) == 1:
            return str(there[0])
        raise InputError(
            f"{self.where(config)}: no split '{wanted}' (there are {listed(there)}); "
            "check splits in the task's YAML"
        )

    def exact_split(self, config: str, wanted: str) -> str:
        """`wanted`, or InputError: the split of judgments is never another one's."""
        found = self.split(config, wanted)
        if found != wanted:
            raise InputError(
                f"{self.where(config)}: no split '{wanted}' (there is '{found}'); "
                "check splits in the task's YAML"
            )
        return found

    def rows(self, config: str, split: str, columns: Iterable[Iterable[str]]) -> Iterator[pa.Table]:
        """Batches of the first column there is of each group; InputError lists the columns."""
        table = self._table(config, split)
        chosen = [self._column(table.column_names, tuple(names), config) for names in columns]
        arrow = table.select_columns(list(dict.fromkeys(chosen))).with_format("arrow")
        for batch in arrow.iter(batch_size=BATCH):
            yield batch.select(chosen)

    def columns(self, config: str, split: str) -> list[str]:
        """The names of a table's columns."""
        return list(self._table(config, split).column_names)

    def _table(self, config: str, split: str) -> Any:
        import datasets

        if (config, split) not in self.loaded:
            self.loaded[config, split] = self._from_hub(
                lambda: datasets.load_dataset(
                    self.located.path, config, split=split, **self._arguments(config)
                )
            )
        return self.loaded[config, split]

    def where(self, config: str = "") -> str:
        """How errors name this data set."""
        return f"task '{self.task}': {self.located.dataset}" + (config and f", {config}")

    def _column(self, there: list[str], names: tuple[str, ...], config: str) -> str:
        for name in names:
            if name in there:
                return name
        raise InputError(
            f"{self.where(config)}: no column '{names[0]}' (there are {listed(there)}); "
            "check layout in the task's YAML"
        )

    def _from_hub(self, action: Callable[[], Found]) -> Found:
        from datasets.exceptions import DatasetsError

        try:
            return action()
        except (OSError, ValueError, DatasetsError, pa.ArrowException) as error:
            cause = error.__cause__ or error  # datasets says the same of every fault
            reason = (str(cause).splitlines() or [type(cause).__name__])[0]
            raise InputError(
                f"{self.where()} cannot be loaded from {self.located.path}: {reason:.300}; check "
                f"its files, the network and the revision, or name a folder in {DATASETS_FOLDER}"
            ) from error


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """(path, bytes, nanoseconds of the last change) of a folder's files, notes of tools apart."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith((".git/", ".cache/")):
            status = path.stat()
            yield name, status.st_size, status.st_mtime_ns


def listed(names: Iterable[str], limit: int = 24) -> str:
    """Names for an error, the first `limit` of them."""
    known = sorted(map(str, names))
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return (", ".join(known[:limit]) or "none") + more


def texts_of(column: pa.ChunkedArray, where: str) -> list[str | None]:
    """Texts as they are, null where there is none; InputError for any other type."""
    if not (is_text(column.type) or kinds.is_null(column.type)):
        raise InputError(f"{where}: holds {column.type}, must be text; check layout in the YAML")
    return _decoded(column, where)


def _decoded(column: pa.ChunkedArray, where: str) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 ({error.reason}); mend the data set") from error
    return values


def ids_of(column: pa.ChunkedArray, where: str) -> list[str]:
    """Ids as text; integers in their decimal form. InputError for another type, null or empty."""
    if not (is_text(column.type) or kinds.is_integer(column.type)):
        raise InputError(f"{where}: holds {column.type}, must be ids as text or integers")
    values = _decoded(column, where)
    missing = next((row for row, value in enumerate(values) if value is None or value == ""), None)
    if missing is not None:
        raise InputError(f"{where}: an id is null or empty; mend the data set")
    return [str(value) for value in values]


def id_lists_of(column: pa.ChunkedArray, where: str) -> list[list[str]]:
    """Lists of ids, one a row; a plain id is a list of one, a null list is empty."""
    if not is_list(column.type):
        return [[value] for value in ids_of(column, where)]
    found: list[list[str]] = []
    for chunk in column.chunks:
        values = chunk.flatten()
        ids = iter(ids_of(pa.chunked_array([values], type=values.type), where))
        for length in chunk.value_lengths().fill_null(0).to_pylist():
            found.append(list(islice(ids, length)))
    return found


def grades_of(column: pa.ChunkedArray, where: str) -> list[int]:
    """Integer grades; a float without a fraction passes, anything else is an InputError."""
    try:
        whole = column.cast(pa.int32(), safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{where}: a grade is no integer of 32 bits ({error})") from error
    values: list[int] = whole.to_pylist()
    if None in values:
        raise InputError(f"{where}: a grade is null; mend the data set")
    return values


def is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))

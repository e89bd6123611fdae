"""What kind of file holds a run or judgments, told from its first bytes, and how it is opened."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metrics.arrays import Floats, Integers, Objects
from metrics.ids import Ids, objects
from rerank.errors import InputError
from rerank.files.formats import UNREADABLE, cannot_read, opened, unique_keys
from rerank.files.shared_names import ArrowIds

ID_OF_QUERY = ("query_id", "qid", "q_id", "query-id")
ID_OF_DOCUMENT = ("doc_id", "document_id", "docid", "docno", "corpus-id")
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}
_OBJECT = re.compile(rb"\{\s*[\"}]")  # how a JSON object begins
COLUMNS = (".txt", ".trec", ".run", ".tsv", ".qrels")


def kind_of(path: Path) -> str:
    """parquet, json, jsonl or columns. InputError where the file cannot be read."""
    try:
        with opened(path) as stream:
            start = stream.read(1 << 16).removeprefix(b"\xef\xbb\xbf")
    except UNREADABLE as error:
        raise cannot_read(path, error) from error
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if start.startswith(b"PAR1"):
        return "parquet"
    if suffix == ".parquet":
        raise InputError(
            f"{path} is not a Parquet file: it does not begin with PAR1; write it again"
        )
    if start.lstrip().startswith(b"{"):
        if _is_object(start.lstrip().split(b"\n")[0]):
            return "jsonl"
        if suffix not in COLUMNS or _OBJECT.match(start.lstrip()):
            return SUFFIXES.get(suffix, "json")
    return SUFFIXES.get(suffix, "columns")


def _is_object(line: bytes) -> bool:
    """Whether a line is a JSON row of its own: an object with a query id."""
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and any(name in value for name in ID_OF_QUERY)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; bare NaN and Infinity, which Python's writers make, are read as numbers."""
    try:
        with opened(path) as stream:
            text = stream.read().decode("utf-8-sig")
    except UNREADABLE as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason}); convert the file") from error
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); mend the file") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: must be a JSON object, is {value!r:.40}")
    return value


@dataclass(frozen=True)
class FileRows:
    """What every table of a file knows.

    lines: (n,) int64, 1-based; None where a place is a row. unit: line, row, or "" where a place
    has no number but its query and document (one JSON object).
    """

    path: Path
    lines: Integers | None
    unit: str

    def place(self, *rows: int) -> str:
        """`run.txt, lines 1 and 3`: the file and where these rows stand in it."""
        if not self.unit:
            return str(self.path)
        numbers = sorted({row + 1 if self.lines is None else int(self.lines[row]) for row in rows})
        shown = " and ".join(map(str, numbers[:2]))
        shown += f" and {len(numbers) - 2} more" if len(numbers) > 2 else ""
        return f"{self.path}, {self.unit}{'s'[: len(numbers) - 1]} {shown}"


@dataclass(frozen=True)
class ParquetColumn:
    """A column as the file has it; `where` names it in errors. Ids and texts must be strings."""

    data: Any
    where: str

    def ids(self) -> Ids:
        """Ids, each distinct one made once: they repeat, and Python strings are dear."""
        import pyarrow as pa

        kind = self._text_kind()
        if self.data.null_count:
            raise InputError(f"{self.where} holds {self.data.null_count} nulls; remove these rows")
        data = self.data if pa.types.is_dictionary(kind) else self.data.dictionary_encode()
        coded = data.unify_dictionaries().combine_chunks()
        try:
            names = coded.dictionary.to_pylist()
        except UnicodeDecodeError as error:
            raise InputError(f"{self.where}: not UTF-8 ({error.reason}); mend the file") from error
        codes = coded.indices.to_numpy().astype(np.int64)
        return ArrowIds(codes, objects(names), coded.dictionary)

    def texts(self) -> Objects:
        """(n,) object, str or None."""
        self._text_kind()
        return objects(self.data.to_pylist())

    def whole_numbers(self) -> Integers | None:
        """(n,) int64; None where one is null or no whole number below 2^53."""
        values = self.numbers()
        if not np.all((np.abs(values) < 2**53) & (values == np.floor(values))):
            return None
        return values.astype(np.int64)

    def numbers(self) -> Floats:
        """(n,) float64, null = NaN; an integer or floating column."""
        import pyarrow as pa

        kind = self.data.type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{self.where} is {kind}, must be a number")
        values: Floats = self.data.to_numpy().astype(np.float64, copy=False)
        return values

    def _text_kind(self) -> Any:
        import pyarrow as pa

        kind = self.data.type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
            raise InputError(f"{self.where} is {inner}, must be string; write ids as text")
        return kind


def parquet_columns(
    path: Path, needed: Mapping[str, tuple[str, ...]], optional: Mapping[str, tuple[str, ...]]
) -> dict[str, ParquetColumn]:
    """Columns of a Parquet file under our names.

    needed, optional: our name -> the names that a file may use, the first found counts. The needed
    ones are ids, read as dictionaries where the file holds them so.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            known = file.schema_arrow.names
    except (OSError, pa.ArrowException) as error:
        raise cannot_read(path, error) from error
    names = {}
    for ours, theirs in {**needed, **optional}.items():
        found = next((name for name in theirs if name in known), None)
        if found is None and ours in needed:
            raise InputError(f"{path}: no column '{theirs[0]}'; it has {known}")
        if found is not None:
            names[ours] = found
            if known.count(found) > 1:
                raise InputError(f"{path} has several columns '{found}'; keep one")
    ids = [names[ours] for ours in needed]
    try:
        with pq.ParquetFile(path, read_dictionary=ids) as file:
            table = file.read(columns=list(dict.fromkeys(names.values())))
    except (OSError, pa.ArrowException) as error:
        raise cannot_read(path, error) from error
    return {
        ours: ParquetColumn(table[name], f"{path}, column '{name}'") for ours, name in names.items()
    }

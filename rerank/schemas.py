"""The Arrow schemas of every table, and the check at each door.

Ids are strings compared byte by byte. Text is `large_string`, since one shard may hold more than
2 GiB of it. Candidates carry no labels: a model's input cannot leak what it is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rerank.errors import InputError

ATTRIBUTES = pa.map_(pa.string(), pa.string())


def _table(*columns: tuple[str, pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=null) for name, kind, null in columns])


SCHEMAS: dict[str, pa.Schema] = {
    # one row a (query, candidate), sorted by (query_id, rank); a query lies whole in one shard
    "candidates": _table(
        ("query_id", pa.string(), False),
        ("doc_id", pa.string(), False),
        ("rank", pa.int32(), False),  # 1-based, of the first stage
        ("retrieval_score", pa.float64(), True),
        ("query", pa.large_string(), False),
        ("document", pa.large_string(), False),
        ("doc_version", pa.string(), False),  # sha256 of the document's UTF-8 bytes
        ("injected", pa.bool_(), False),  # put there by inject_gold, not by the first stage
    ),
    # one row an evaluated query
    "queries": _table(
        ("query_id", pa.string(), False),
        ("query", pa.large_string(), False),
        ("weight", pa.float64(), False),  # traffic
        ("attributes", ATTRIBUTES, False),
    ),
    # all judged documents, retrieved or not; absent means unjudged, which is not grade 0
    "judgments": _table(
        ("query_id", pa.string(), False),
        ("doc_id", pa.string(), False),
        ("grade", pa.int32(), False),
        ("provenance", pa.string(), False),  # human | derived | synthetic | translated | unstated
        ("attributes", ATTRIBUTES, False),
    ),
    # the rows of one candidate shard with what the model made of them
    "scores": _table(
        ("query_id", pa.string(), False),
        ("doc_id", pa.string(), False),
        ("score", pa.float64(), True),  # raw fp32 margin or logit; null where `failure` says why
        ("tokens", pa.int32(), False),
        ("truncated", pa.bool_(), False),
        ("failure", pa.string(), True),
    ),
    # long form: a new measure adds rows, not columns
    "query_metrics": _table(
        ("task", pa.string(), False),
        ("model", pa.string(), False),
        ("query_id", pa.string(), False),
        ("measure", pa.string(), False),
        ("value", pa.float64(), True),
    ),
}


def check_table(table: pa.Table, name: str, where: str) -> pa.Table:
    """`table` if its columns, types and nulls are those of `SCHEMAS[name]`; InputError if not."""
    schema = SCHEMAS[name]
    missing = [column for column in schema.names if column not in table.column_names]
    extra = [column for column in table.column_names if column not in schema.names]
    if missing or extra:
        raise InputError(
            f"{where}: not a {name} table (missing columns: {missing or 'none'}; "
            f"unknown columns: {extra or 'none'}); freeze or replay it again"
        )
    for column in schema:
        found = table.schema.field(column.name).type
        if found != column.type:
            raise InputError(f"{where}: column '{column.name}' is {found}, must be {column.type}")
        if not column.nullable and table[column.name].null_count:
            raise InputError(f"{where}: column '{column.name}' holds nulls and must not")
    return table


def table_of(name: str, columns: Mapping[str, object]) -> pa.Table:
    """A table of the named schema from plain columns."""
    return pa.table(dict(columns), schema=SCHEMAS[name])

"""Parts of a hub data set that layouts share: corpus, queries, judgments and candidate sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rerank.errors import InputError
from rerank.files.formats import Judgment, checked_text
from rerank.sources.collection import Query
from rerank.sources.hub_tables import (
    ID,
    HubTables,
    Texts,
    grades_of,
    id_lists_of,
    ids_of,
    texts_of,
)
from rerank.tasks import TaskSpec

QRELS = (("query-id",), ("corpus-id",), ("score",))


def corpus_of(hub: HubTables, config: str, split: str, text: tuple[str, ...] = ("text",)) -> Texts:
    """Texts of a corpus table, its title first; InputError where one id has two texts."""
    found_split = hub.split(config, split)
    if (config, found_split) in hub.corpora:
        return hub.corpora[config, found_split]
    titled = "title" in hub.columns(config, found_split)
    columns = (ID, text, ("title",)) if titled else (ID, text)
    where = hub.where(config)
    documents: dict[str, str] = {}
    rows = nulls = 0
    for batch in hub.rows(config, found_split, columns):
        ids, texts = ids_of(batch.column(0), where), texts_of(batch.column(1), where)
        titles = texts_of(batch.column(2), where) if titled else [None] * len(ids)
        rows += len(ids)
        nulls += texts.count(None)
        for doc_id, title, body in zip(ids, titles, texts, strict=True):
            whole = f"{title} {body}" if title and body else title or body or ""
            if documents.setdefault(doc_id, whole) != whole:
                raise InputError(f"{where}: document '{doc_id}' stands twice with different texts")
    found = Texts(documents, nulls, rows - len(documents))
    hub.corpora[config, found_split] = found
    return found


def queries_of(hub: HubTables, config: str, split: str, spec: TaskSpec) -> dict[str, Query]:
    """Query id -> Query, judged or not; the task's query_attributes are columns beside the text."""
    where = hub.where(config)
    queries: dict[str, Query] = {}
    columns = (ID, ("text",), *((name,) for name in spec.query_attributes))
    for batch in hub.rows(config, hub.split(config, split), columns):
        ids, texts = ids_of(batch.column(0), where), texts_of(batch.column(1), where)
        slices = [texts_of(batch.column(place), where) for place in range(2, batch.num_columns)]
        for row, (query_id, text) in enumerate(zip(ids, texts, strict=True)):
            chosen = zip(spec.query_attributes, (column[row] for column in slices), strict=True)
            attributes = {name: value for name, value in chosen if value is not None}
            query = query_of(query_id, text, where, attributes)
            if queries.setdefault(query_id, query) != query:
                raise InputError(f"{where}: query '{query_id}' stands twice with different texts")
    return queries


def with_instructions(
    hub: HubTables, config: str, split: str, queries: dict[str, Query]
) -> dict[str, Query]:
    """The queries, each with its instruction behind one blank, where it has one."""
    where = hub.where(config)
    added: dict[str, str | None] = {}
    for batch in hub.rows(config, hub.split(config, split), (("query-id",), ("instruction",))):
        ids = ids_of(batch.column(0), where)
        added.update(zip(ids, texts_of(batch.column(1), where), strict=True))
    return {
        key: Query(key, f"{query.text} {added[key]}", query.weight, query.attributes)
        if added.get(key) is not None
        else query
        for key, query in queries.items()
    }


def judgments_of(
    hub: HubTables,
    config: str,
    split: str,
    spec: TaskSpec,
    columns: tuple[tuple[str, ...], ...] = QRELS,
) -> list[Judgment]:
    """Every judged pair, grade 0 too; InputError where one pair has two grades."""
    where = hub.where(config)
    found: dict[tuple[str, str], int] = {}
    for batch in hub.rows(config, split, columns):
        queries, grades = ids_of(batch.column(0), where), grades_of(batch.column(2), where)
        documents = id_lists_of(batch.column(1), where)
        for query_id, doc_ids, grade in zip(queries, documents, grades, strict=True):
            for doc_id in doc_ids:
                if found.setdefault((query_id, doc_id), grade) != grade:
                    raise InputError(
                        f"{where}: document '{doc_id}' of query '{query_id}' has two grades; "
                        "mend the data set"
                    )
    return [Judgment(*pair, grade, spec.provenance) for pair, grade in found.items()]


def candidate_sets_of(hub: HubTables, config: str, split: str) -> dict[str, list[str]]:
    """Query id -> ids of its candidates; InputError where a list or an id stands twice."""
    where = hub.where(config)
    lists: dict[str, list[str]] = {}
    columns = (("query-id",), ("corpus-ids",))
    for batch in hub.rows(config, hub.split(config, split), columns):
        ids = ids_of(batch.column(0), where)
        for query_id, documents in zip(ids, id_lists_of(batch.column(1), where), strict=True):
            if query_id in lists:
                raise InputError(f"{where}: query '{query_id}' has two candidate lists")
            if len(set(documents)) != len(documents):
                raise InputError(f"{where}: query '{query_id}' lists a document twice")
            lists[query_id] = documents
    return lists


def python_rows(
    hub: HubTables, config: str, split: str, columns: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[Any, ...]]:
    """Rows of small tables, whose columns' types the reader checks itself."""
    for batch in hub.rows(config, split, columns):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def numbered(letter: str, texts: Iterable[Any]) -> dict[Any, str]:
    """Distinct text -> id: the letter and its number in order of first appearance."""
    distinct = dict.fromkeys(text for text in texts if text is not None)
    return {text: f"{letter}{number}" for number, text in enumerate(distinct)}


def query_of(
    query_id: str, text: object, where: str, attributes: dict[str, str] | None = None
) -> Query:
    """A query whose text may be null, as the empty text."""
    return Query(query_id, string_of(text, where), attributes=attributes or {})


def string_of(text: object, where: str) -> str:
    """A text; null survives as the empty text, as in the other sources."""
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InputError(f"{where}: {text!r:.40} is {type(text).__name__}, must be text")
    return checked_text(text, where)

"""How hub data sets are laid out: one reader a layout, each giving the data of one split.

`LAYOUTS` lists them. The layout is named in the task's YAML; configurations and columns must then
be there. Where MTEB derives a retrieval task from another layout, ids are given as MTEB 2.26 gives
them, so that its prediction files fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rerank.errors import ConfigError, InputError
from rerank.files.formats import Judgment
from rerank.files.qrels_files import read_qrels
from rerank.sources.collection import Query
from rerank.sources.files import read_queries
from rerank.sources.hub_location import locate
from rerank.sources.hub_parts import (
    QRELS,
    candidate_sets_of,
    corpus_of,
    judgments_of,
    numbered,
    python_rows,
    queries_of,
    query_of,
    string_of,
    with_instructions,
)
from rerank.sources.hub_tables import ID, HubTables, Texts, id_lists_of, ids_of, texts_of
from rerank.tasks import TaskSpec

NO_IDS: tuple[list[str], ...] = (["N/A"], [])  # how BRIGHT writes that nothing is excluded


@dataclass(frozen=True)
class SplitData:
    """One split as its layout has it: all queries, judged or not."""

    corpus: Texts
    queries: dict[str, Query]
    judgments: list[Judgment]
    lists: dict[str, list[str]] | None = None  # candidates that the data set brings, as sets
    excluded: dict[str, frozenset[str]] = field(default_factory=dict)


def read_mteb(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """MTEB: `[SUBSET-]corpus`, queries, qrels (or default), top_ranked, instruction.

    `topics` and `qrels` files of the task replace the data set's own, as for TREC tracks over the
    MS MARCO corpus. A query's instruction stands behind its text, as in MTEB.
    """
    prefix = f"{spec.subset}-" if spec.subset else ""
    queries = (
        read_queries(Path(spec.folder) / spec.topics, spec.query_attributes)
        if spec.topics
        else queries_of(hub, hub.config(f"{prefix}queries", f"{prefix}query"), split, spec)
    )
    if f"{prefix}instruction" in hub.configs and not spec.topics:
        queries = with_instructions(hub, f"{prefix}instruction", split, queries)
    if spec.qrels:
        judgments = read_qrels(Path(spec.folder) / spec.qrels, spec.provenance)
    else:
        names = (f"{prefix}qrels",) if prefix else ("default", "qrels")
        config = hub.config(*names)
        judgments = judgments_of(hub, config, hub.exact_split(config, split), spec)
    top = f"{prefix}top_ranked"
    return SplitData(
        corpus=corpus_of(hub, hub.config(f"{prefix}corpus"), split),
        queries=queries,
        judgments=judgments,
        lists=candidate_sets_of(hub, top, split) if top in hub.configs else None,
    )


def read_nanobeir(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """NanoBEIR as sentence-transformers has it: splits named after data sets, grades all 1.

    A qrels row holds one document id or a list of them.
    """
    judgments = {}
    for batch in hub.rows("qrels", hub.exact_split("qrels", split), QRELS[:2]):
        where = hub.where("qrels")
        for query_id, documents in zip(
            ids_of(batch["query-id"], where), id_lists_of(batch["corpus-id"], where), strict=True
        ):
            for doc_id in documents:
                judgments[query_id, doc_id] = Judgment(query_id, doc_id, 1, spec.provenance)
    return SplitData(
        corpus=corpus_of(hub, hub.config("corpus"), hub.exact_split("corpus", split)),
        queries=queries_of(hub, hub.config("queries"), hub.exact_split("queries", split), spec),
        judgments=list(judgments.values()),
    )


def read_reranking(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """The old reranking layout: query, positive[], negative[] in each row.

    Query ids are SPLIT_queryN, document ids apositive_QUERY_NNNNN and negative_QUERY_NNNNN.
    """
    config = hub.config(spec.subset or "default")
    texts: dict[str, str] = {}
    queries: dict[str, Query] = {}
    judgments: list[Judgment] = []
    columns = (("query",), ("positive",), ("negative",))
    rows = python_rows(hub, config, hub.exact_split(config, split), columns)
    for number, (query, positive, negative) in enumerate(rows):
        query_id = f"{split}_query{number}"
        queries[query_id] = query_of(query_id, query, hub.where(config))
        for name, grade, found in (("apositive", 1, positive), ("negative", 0, negative)):
            for place, text in enumerate(found or []):
                doc_id = f"{name}_{query_id}_{place:05d}"
                texts[doc_id] = string_of(text, hub.where(config))
                judgments.append(Judgment(query_id, doc_id, grade, spec.provenance))
    lists: dict[str, list[str]] = {query_id: [] for query_id in queries}
    for row in judgments:
        lists[row.query_id].append(row.doc_id)
    return SplitData(Texts(texts), queries, judgments, lists)


def read_question_answer(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """PublicHealthQA: question, answer in each row; equal texts are one query or one document.

    Ids count the distinct texts in order, Q0 ... and D0 ...; a row with a null half is left out.
    """
    config = hub.config(spec.subset or "default")
    rows = list(
        python_rows(hub, config, hub.exact_split(config, split), (("question",), ("answer",)))
    )
    questions = numbered("Q", (question for question, _ in rows))
    answers = numbered("D", (answer for _, answer in rows))
    pairs = [(q, a) for q, a in rows if q is not None and a is not None]
    judged = dict.fromkeys((questions[q], answers[a]) for q, a in pairs)
    where = hub.where(config)
    return SplitData(
        corpus=Texts({answers[a]: string_of(a, where) for _, a in pairs}),
        queries={questions[q]: query_of(questions[q], q, where) for q, _ in pairs},
        judgments=[Judgment(query, doc, 1, spec.provenance) for query, doc in judged],
    )


def read_belebele(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """Belebele: link, flores_passage, question; the subset is CORPUS_LANGUAGE-QUERY_LANGUAGE.

    Passages are one a link (C0 ...), queries one a question text (Q0 ...).
    """
    corpus_config, dash, query_config = spec.subset.partition("-")
    if not dash:
        raise ConfigError(
            f"task '{spec.name}': subset '{spec.subset}' of layout belebele must name two "
            "languages, corpus and queries, as in kor_Hang-kor_Hang"
        )
    columns = (("link",), ("flores_passage",), ("question",))
    config = hub.config(corpus_config)
    passages: dict[str, str] = {}
    for link, passage, _ in python_rows(hub, config, hub.exact_split(config, split), columns):
        passages.setdefault(
            string_of(link, hub.where(config)), string_of(passage, hub.where(config))
        )
    links = {link: f"C{number}" for number, link in enumerate(passages)}
    config = hub.config(query_config)
    rows = list(python_rows(hub, config, hub.exact_split(config, split), columns))
    ids = numbered("Q", (question for _, _, question in rows))
    unknown = next((link for link, _, _ in rows if link not in links), None)
    if unknown is not None:
        raise InputError(f"{hub.where(config)}: no passage has the link '{unknown}' of a question")
    judged = dict.fromkeys((ids[question], links[link]) for link, _, question in rows)
    return SplitData(
        corpus=Texts({links[link]: text for link, text in passages.items()}),
        queries={ids[q]: query_of(ids[q], q, hub.where(config)) for _, _, q in rows},
        judgments=[Judgment(query, doc, 1, spec.provenance) for query, doc in judged],
    )


def read_bright(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """BRIGHT: documents or long_documents (id, content) and examples, one hub split a domain.

    The task's subset is the domain, its split `standard` or `long`. `excluded_ids` of an example
    may not be offered for it.
    """
    sides = {"standard": ("documents", "gold_ids"), "long": ("long_documents", "gold_ids_long")}
    if split not in sides:
        raise ConfigError(f"task '{spec.name}': splits of layout bright are standard and long")
    corpus_config, gold_column = sides[split]
    where = hub.where(hub.config("examples"))
    queries, judgments, excluded = {}, {}, {}
    columns = (ID, ("query",), (gold_column,), ("excluded_ids",))
    for batch in hub.rows("examples", hub.exact_split("examples", spec.subset), columns):
        ids, texts = ids_of(batch.column(0), where), texts_of(batch.column(1), where)
        golds, out = id_lists_of(batch.column(2), where), id_lists_of(batch.column(3), where)
        for query_id, text, gold, without in zip(ids, texts, golds, out, strict=True):
            queries[query_id] = query_of(query_id, text, where)
            for doc_id in gold:
                judgments[query_id, doc_id] = Judgment(query_id, doc_id, 1, spec.provenance)
            if without not in NO_IDS:
                excluded[query_id] = frozenset(without)
    config = hub.config(corpus_config)
    return SplitData(
        corpus=corpus_of(hub, config, hub.exact_split(config, spec.subset), text=("content",)),
        queries=queries,
        judgments=list(judgments.values()),
        excluded=excluded,
    )


def read_airbench(hub: HubTables, spec: TaskSpec, split: str) -> SplitData:
    """AIR-Bench 24.05: configuration SUBSET, splits corpus_NAME, queries_NAME_SPLIT.

    The task's subset is VERSION/NAME (AIR-Bench_24.05/default). Judgments are a data set of their
    own (`qrels_dataset`, `qrels_revision`): split qrels_NAME_SPLIT with qid, docid, relevance.
    """
    version, slash, name = spec.subset.partition("/")
    if not slash or not spec.qrels_dataset:
        raise ConfigError(
            f"task '{spec.name}': layout airbench needs subset: VERSION/NAME, as in "
            "AIR-Bench_24.05/default, and qrels_dataset:"
        )
    name = name.replace("-", "_")
    beside = Path(spec.folder)
    judged = HubTables(
        locate(spec.qrels_dataset, spec.qrels_revision, beside=beside, task=spec.name), spec.name
    )
    config = hub.config(version)
    return SplitData(
        corpus=corpus_of(hub, config, hub.exact_split(config, f"corpus_{name}")),
        queries=queries_of(hub, config, hub.exact_split(config, f"queries_{name}_{split}"), spec),
        judgments=judgments_of(
            judged,
            judged.config(version),
            judged.exact_split(version, f"qrels_{name}_{split}"),
            spec,
            columns=(("qid",), ("docid",), ("relevance",)),
        ),
    )


Layout = Callable[[HubTables, TaskSpec, str], SplitData]
LAYOUTS: dict[str, Layout] = {
    "mteb": read_mteb,
    "reranking": read_reranking,
    "nanobeir": read_nanobeir,
    "bright": read_bright,
    "airbench": read_airbench,
    "belebele": read_belebele,
    "question_answer": read_question_answer,
}

"""`rerank pool`: the top unjudged documents of all systems for judging, and the grades merged back.

rerank pool SUITE --depth 10 --to pool.jsonl           of a suite's complete runs
rerank pool --qrels Q --run R [--run R2] --to pool.csv  of anyone's run files
rerank pool --merge graded.csv --judgments Q --provenance human --to judgments.v2.jsonl
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobs.config import Suite
from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from jobs.suite_arguments import suite_of
from rerank.errors import ConfigError, InputError, unknown_name
from rerank.files.exchange import Scores, best_first, judgments_of, ordered_scores
from rerank.files.formats import PROVENANCES
from rerank.files.qrels_files import read_qrels
from rerank.files.run_files import read_run
from rerank.fingerprint import sha256_bytes
from rerank.frozen import FrozenTask, query_groups
from rerank.pools import (
    WRITERS,
    Pair,
    Pool,
    judged_pairs,
    judgments_jsonl,
    merge_graded,
    pool_of,
    pool_rows,
    read_graded,
)
from rerank.sources import read_corpus, read_queries
from rerank.store import Store

Rows = list[dict[str, str | None]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", nargs="?", default="", help="YAML file of a suite")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="replace keys of the suite: store=/data"
    )
    parser.add_argument("--to", required=True, metavar="FILE", help="pool.jsonl or pool.csv")
    parser.add_argument(
        "--depth", type=int, default=10, help="first ranks of every system (default 10)"
    )
    parser.add_argument("--seed", type=int, default=17, help="of the blind order (default 17)")
    parser.add_argument(
        "--task",
        default="",
        help="the one task of the suite or of the graded pool; for run files the task's name",
    )
    files = parser.add_argument_group("of run files instead of a suite")
    files.add_argument(
        "--run",
        dest="runs",  # `run` is the verb's function
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="a run: TREC, MS MARCO, JSONL, JSON or Parquet; repeat for each system",
    )
    files.add_argument("--qrels", default="", help="judgments so far; default: none")
    files.add_argument("--queries", default="", help="queries.jsonl or TSV, for the texts")
    files.add_argument("--corpus", default="", help="corpus.jsonl, for the texts")
    merging = parser.add_argument_group(
        "merge a graded pool",
        "Writes a new judgments file and leaves the old one as it is. Point `qrels:` of the "
        "task's YAML to it: judgments are part of a frozen task's fingerprint, so freezing again "
        "makes a new version of the task, and old numbers stay with the old one.",
    )
    merging.add_argument("--merge", default="", metavar="FILE", help="the pool with its grades")
    merging.add_argument("--judgments", default="", metavar="FILE", help="the judgments so far")
    merging.add_argument("--provenance", choices=PROVENANCES, help="of the new grades")
    merging.add_argument(
        "--judged-provenance",
        choices=PROVENANCES,
        default="unstated",
        help="of judgments so far that do not say; give what the task's YAML states",
    )


def run(arguments: argparse.Namespace) -> int:
    sources = [bool(arguments.merge), bool(arguments.suite), bool(arguments.runs)]
    if sum(sources) != 1:
        raise ConfigError("name one of: a suite's YAML file, --run FILE, or --merge FILE")
    if arguments.merge:
        return merge(arguments)
    suffix = Path(arguments.to).suffix
    if suffix not in WRITERS:
        raise unknown_name("suffix of --to", suffix, WRITERS)
    if arguments.depth < 1:
        raise ConfigError(f"--depth must be at least 1, is {arguments.depth}")
    pooled = suite_rows(arguments) if arguments.suite else file_rows(arguments)
    write_new(Path(arguments.to), WRITERS[suffix](pooled))
    say(f"{len(pooled):,} pairs to judge in {arguments.to}: fill in 'grade', then --merge it")
    return 0


def suite_rows(arguments: argparse.Namespace) -> Rows:
    """Pool rows of the suite's tasks; IncompleteRun where a run lacks shards."""
    suite, store = suite_of(arguments)
    tasks = frozen_tasks(suite, store)
    names = [task.name for task in tasks]
    if arguments.task and arguments.task not in names:
        raise unknown_name("task", arguments.task, names)
    rows: Rows = []
    for task in tasks:
        if arguments.task in ("", task.name):
            judged = judged_pairs(judgments_of(task))
            ranked = suite_systems(suite, store, task)
            pool = pool_of(ranked, judged, depth=arguments.depth, seed=arguments.seed)
            say(counts(task.name, pool, arguments.depth))
            queries = task.queries
            asked = dict(
                zip(queries["query_id"].to_pylist(), queries["query"].to_pylist(), strict=True)
            )
            rows += pool_rows(task.name, pool, asked, candidate_texts(task, set(pool.pairs)))
    return rows


def suite_systems(
    suite: Suite, store: Store, task: FrozenTask
) -> Iterator[Mapping[str, list[str]]]:
    """Each model's documents, best first, by trec_eval's rule of ties."""
    for model in suite.models:
        (placed,) = runs_of(store, [task], model)
        yield ranked_documents(best_first(placed.scores()))


def candidate_texts(task: FrozenTask, wanted: set[Pair]) -> dict[Pair, str]:
    """The texts of some pairs as the models read them."""
    found: dict[Pair, str] = {}
    for shard in task.shards:
        for group in query_groups(task.candidates(shard)):
            for doc_id, text in zip(group.doc_ids, group.documents, strict=True):
                if (group.query_id, doc_id) in wanted:
                    found[group.query_id, doc_id] = text
    return found


def file_rows(arguments: argparse.Namespace) -> Rows:
    """Pool rows of run files."""
    judgments = read_qrels(Path(arguments.qrels)) if arguments.qrels else []
    pool = pool_of(
        (ranked_documents(read_system(Path(name))) for name in arguments.runs),
        judged_pairs(judgments),
        depth=arguments.depth,
        seed=arguments.seed,
    )
    queries, texts = file_texts(arguments, pool)
    name = arguments.task or Path(arguments.qrels or arguments.runs[0]).name.partition(".")[0]
    without = sum(pair not in texts for pair in pool.pairs)
    say(
        counts(name, pool, arguments.depth)
        + (f"; {without:,} pairs have no document text" if without else "")
    )
    return list(pool_rows(name, pool, queries, texts))


def file_texts(arguments: argparse.Namespace, pool: Pool) -> tuple[dict[str, str], dict[Pair, str]]:
    """Texts of the queries and of the pool's pairs, as far as files give them."""
    queries: dict[str, str] = {}
    texts: dict[Pair, str] = {}
    if arguments.queries:
        read = read_queries(Path(arguments.queries))
        queries = {query_id: query.text for query_id, query in read.items()}
    if arguments.corpus:
        documents, _ = read_corpus(Path(arguments.corpus))
        texts = {pair: documents[pair[1]] for pair in pool.pairs if pair[1] in documents}
    return queries, texts


def read_system(path: Path) -> Scores:
    """One system's scores from a run file; the score decides the order, not the rank column."""
    return ordered_scores((row.query_id, row.doc_id, row.score) for row in read_run(path))


def ranked_documents(scores: Scores) -> dict[str, list[str]]:
    return {query_id: list(found) for query_id, found in scores.items()}


def counts(task: str, pool: Pool, depth: int) -> str:
    """What a task's pool holds; nothing about a single system."""
    queries = len({query_id for query_id, _ in pool.pairs})
    return (
        f"{task}: {len(pool.pairs):,} pairs to judge in {queries:,} queries; the top {depth} of "
        f"{pool.systems} systems hold {pool.pooled:,} pairs, {pool.judged_share:.1%} judged"
    )


def merge(arguments: argparse.Namespace) -> int:
    """A graded pool and the judgments so far become a new judgments file."""
    if not arguments.judgments or not arguments.provenance:
        raise ConfigError(
            "--merge needs --judgments FILE, the judgments so far, and --provenance, who graded: "
            + ", ".join(PROVENANCES)
        )
    pool, before = Path(arguments.merge), Path(arguments.judgments)
    graded, unjudged = read_graded(pool, arguments.provenance, arguments.task)
    if not graded:
        raise InputError(f"{pool} has no grade; fill in 'grade' and merge it then")
    old = read_qrels(before, arguments.judged_provenance)
    merged = merge_graded(old, graded, pool=pool, judgments=before)
    data = judgments_jsonl(merged.judgments)
    write_new(Path(arguments.to), data)
    provenance = Counter(row.provenance for row in merged.judgments)
    new = len(merged.judgments) - len(old)
    replaced = f"{merged.added - new:,} in place of a negative grade, " * (merged.added > new)
    say(
        f"{len(merged.judgments):,} judgments in {arguments.to}: {len(old):,} before, "
        f"{new:,} added, {replaced}{merged.known:,} known with the same grade, {unjudged:,} of the "
        f"pool still unjudged, {merged.new_queries:,} queries that had no judgment"
    )
    say("provenance: " + ", ".join(f"{name} {n:,}" for name, n in sorted(provenance.items())))
    say(f"judgments version {sha256_bytes(data)}")
    return 0


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet: one that is may hold somebody's grades."""
    if path.is_file() and path.read_bytes() == data:
        return
    if path.exists():
        raise ConfigError(f"{path} exists and holds something else; choose another --to")
    Store(path.parent).write(path.name, data)

"""`rerank score-run --qrels Q --run R`: measures of anyone's files, with nothing frozen."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import metrics
from jobs.console import say
from jobs.tables import MISSING, number, p_number, signed, table
from metrics.ids import coded
from metrics.peers import PEERS, peer
from metrics.records import CHOICES
from metrics.trec_names import from_trec_name, listed_names
from rerank.errors import ConfigError
from rerank.run_comparison import RunComparison, compare_runs
from rerank.run_scoring import ORDERS, ScoredRun, Scoring, score_files
from rerank.schemas import SCHEMAS
from rerank.store import Store, finite_or_none, parquet_bytes

DEFAULT_MEASURES = ("nDCG@10", "RR@10", "AP", "P@5", "R@5", "Success@1", "Judged@10")
HELP = {
    "tie": "order of documents with equal scores; default trec: document id descending by bytes",
    "queries": "every judged query counts, or only those of the run; default qrels",
    "no_relevant": "value of a query without a relevant document; default zero",
    "on_bad_score": "a NaN or null score is an error, or ranks last; default error",
    "on_duplicate": "a document twice in a query is an error, or its best score counts",
    "on_conflict": "a document judged twice is an error, or its highest grade counts",
    "score_dtype": "float32 compares scores as trec_eval 9 and pytrec_eval do; default float64",
    "gains": "gain of nDCG and DCG where the measure does not say; float: grades may be fractions",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "files: TREC, MS MARCO, BEIR, JSONL, JSON and Parquet, told from their content. measures: "
        "`rerank measures`, and the names of trec_eval (ndcg_cut_10). example: rerank score-run "
        "--qrels qrels.txt --run bm25.run --run reranked.run -m nDCG@10 RR@10 --compare"
    )
    parser.add_argument("--qrels", required=True, type=Path, metavar="FILE")
    parser.add_argument("--run", required=True, nargs="+", action="extend", type=Path,
                        metavar="FILE", dest="runs", help="once or more")  # fmt: skip
    parser.add_argument("-m", "--measure", nargs="+", action="extend", metavar="MEASURE",
                        dest="measures", help=f"default: {' '.join(DEFAULT_MEASURES)}")  # fmt: skip
    parser.add_argument("--per-query", action="store_true", help="also the value of every query")
    parser.add_argument(
        "--json", action="store_true", help="one strict JSON object a run, a line each"
    )
    parser.add_argument("--to", type=Path, metavar="FILE",
                        help="write the values per query: .parquet or .jsonl")  # fmt: skip
    parser.add_argument("--compare", action="store_true",
                        help="paired deltas of the other runs to the first")  # fmt: skip
    _add_conventions(parser.add_argument_group("conventions"))
    _add_readings(parser.add_argument_group("reading"))


def _add_conventions(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--compat", choices=list(PEERS), default="",
                       help="reproduce a tool's conventions; single options still win")  # fmt: skip
    for name, choices in CHOICES.items():
        group.add_argument(f"--{name.replace('_', '-')}", choices=choices, help=HELP[name])
    group.add_argument("--rel", type=int, metavar="N", help="lowest relevant grade; default 1")
    group.add_argument(
        "--depth", type=int, metavar="N", help="only the first N ranks (trec_eval -M)"
    )
    group.add_argument("--judged-only", action="store_true", default=None,
                       help="leave unjudged documents out of all lists (trec_eval -J)")  # fmt: skip
    group.add_argument("--ignore-identical-ids", action="store_true", default=None,
                       help="leave out documents whose id is the query's (BEIR)")  # fmt: skip


def _add_readings(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--order", choices=ORDERS, default="",
                       help="what decides the order of a run; default score")  # fmt: skip
    group.add_argument("--by", default="", metavar="FIELD",
                       help="the field of JSONL or Parquet that holds the score")  # fmt: skip
    group.add_argument("--candidates", type=Path, metavar="FILE",
                       help="the first stage's list: texts and ranks")  # fmt: skip
    group.add_argument("--dedupe", choices=["text"], default="",
                       help="documents of a query with equal text count once")  # fmt: skip
    group.add_argument("--normalise-ids", choices=["NFC"], default="",
                       help="compare ids after Unicode normalisation")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    scoring = scoring_of(arguments)
    if arguments.to and arguments.to.suffix not in WRITERS:
        raise ConfigError(f"--to {arguments.to}: write a .parquet or a .jsonl file")
    if len(set(arguments.runs)) < len(arguments.runs):
        raise ConfigError("--run names a file twice; name each run once")
    if arguments.to and not arguments.to.absolute().parent.is_dir():
        raise ConfigError(f"--to {arguments.to}: there is no such folder; make it first")
    names = measures_of(arguments, scoring)
    scored = score_files(
        arguments.qrels,
        arguments.runs,
        list(names.values()),
        scoring,
        by=arguments.by,
        candidates=arguments.candidates,
    )
    comparisons = compare_runs(scored, list(names.values())) if arguments.compare else []
    if arguments.to:
        folder, rows = Store(arguments.to.resolve().parent), WRITERS[arguments.to.suffix]
        folder.write(arguments.to.name, rows(scored, names))
    if arguments.json:
        for item in scored:
            found = [row for row in comparisons if row.pair.challenger == str(item.run.path)]
            say(
                json.dumps(
                    document(item, names, scoring, found), allow_nan=False, ensure_ascii=False
                )
            )
    else:
        show(scored, names, comparisons, per_query=arguments.per_query)
    return 0


def scoring_of(arguments: argparse.Namespace) -> Scoring:
    """The options that are stated; what is not stated is the tool's or our own."""
    names = [*CHOICES, "rel", "depth", "judged_only", "ignore_identical_ids"]
    stated = {name: getattr(arguments, name) for name in names}
    return Scoring(
        compat=arguments.compat,
        conventions={name: value for name, value in stated.items() if value is not None},
        order=arguments.order,
        dedupe=arguments.dedupe,
        normalise_ids=arguments.normalise_ids,
    )


def measures_of(arguments: argparse.Namespace, scoring: Scoring) -> dict[str, str]:
    """Name as asked -> name as `metrics` has it."""
    usual = peer(scoring.compat).measures if scoring.compat else DEFAULT_MEASURES
    words = [part for word in arguments.measures or usual for part in listed_names(word)]
    return {name: from_trec_name(name) for name in words}


def document(
    scored: ScoredRun,
    names: Mapping[str, str],
    scoring: Scoring,
    comparisons: Sequence[RunComparison] = (),
) -> dict[str, Any]:
    """One run as strict JSON: values that do not exist are null."""
    found = scored.evaluation
    counts = {name: found.n(ours) for name, ours in names.items()}
    return {
        "run": str(scored.run.path),
        "measures": {name: finite_or_none(found.mean(ours)) for name, ours in names.items()},
        "n": next(iter(counts.values())),
        "n_per_measure": counts,
        "missing": list(found.missing),
        "empty_lists": list(scored.run.empty),
        "unjudged_queries": list(found.unjudged_queries),
        "no_relevant": list(found.no_relevant),
        "unreachable": list(found.unreachable),
        "tie_rate": found.tie_rate,
        "ties_at_cutoff": {str(k): n for k, n in found.ties_at_cutoff.items()},
        "tie_range": {
            name: [finite_or_none(value) for value in found.tie_range[ours]]
            for name, ours in names.items()
        },
        "bad_scores": found.bad_scores,
        "rank_disagrees": len(scored.disagreeing),
        "duplicate_text_groups": [list(group) for group in scored.duplicate_texts],
        "n_pairs": len(scored.listed.scores),
        "n_docs": len(coded(scored.listed.doc_ids).present()),
        "n_judgments": len(scored.judgments.grades),
        "conventions": conventions_of(names, scoring),
        "warnings": list(scored.warnings),
        "per_query": {
            query: {name: finite_or_none(found.values[ours][at]) for name, ours in names.items()}
            for at, query in enumerate(found.query_ids)
        },
        **({"comparison": [row.as_json() for row in comparisons]} if comparisons else {}),
    }


def conventions_of(names: Mapping[str, str], scoring: Scoring) -> dict[str, Any]:
    """What the numbers rest on, in full."""
    stated = {name: value for name, value in vars(scoring.resolved).items()}
    return {
        "compat": scoring.compat or None,
        **stated,
        "order": "rank" if scoring.by_rank else "score",
        "dedupe": scoring.dedupe or None,
        "normalise_ids": scoring.normalise_ids or None,
        "measures": {name: str(metrics.parse_measure(ours)) for name, ours in names.items()},
        "differs": list(peer(scoring.compat).differs) if scoring.compat else [],
    }


def show(
    scored: Sequence[ScoredRun],
    names: Mapping[str, str],
    comparisons: Sequence[RunComparison],
    *,
    per_query: bool,
) -> None:
    """Tables for people: a run a table, then deltas."""
    for item in scored:
        found = item.evaluation
        rows = [
            [name, _four(found.mean(ours)), str(found.n(ours)), _range(found, ours)]
            for name, ours in names.items()
        ]
        say(f"{item.run.path}\n{table(['measure', 'mean', 'n', 'over the order of ties'], rows)}")
        for label, ids in _lists(found).items():
            if ids:
                say(
                    f"{label}: {len(ids)} ({', '.join(ids[:10])}{', ...' if len(ids) > 10 else ''})"
                )
        for k, n in found.ties_at_cutoff.items():
            if n:
                say(f"tie at cutoff {k}: {n} {'query' if n == 1 else 'queries'}")
        for warning in item.warnings:
            say(f"warning: {warning}")
        if per_query:
            say(_per_query(found, names))
        say("")
    if comparisons:
        say(table(DELTAS, [_delta_cells(row) for row in comparisons]))
        for row in comparisons:
            for warning in row.warnings:
                say(f"warning: {warning}")


DELTAS = ("delta", "measure", "mean", "95% interval", "up/tied/down", "n", "p", "Holm")


def _delta_cells(row: RunComparison) -> list[str]:
    """The row under DELTAS."""
    pair, found, interval = row.pair, row.pair.summary, row.pair.interval
    return [
        f"{pair.challenger} - {pair.baseline}",
        pair.measure,
        signed(finite_or_none(found.mean)),
        f"[{interval.low:+.4f}, {interval.high:+.4f}]" if interval else MISSING,
        f"{found.improved}/{found.tied}/{found.regressed}",
        str(found.n),
        p_number(finite_or_none(pair.p)),
        p_number(finite_or_none(pair.p_corrected)),
    ]


def _lists(found: metrics.Evaluation) -> dict[str, tuple[str, ...]]:
    return {
        "judged queries that the run lacks": found.missing,
        "queries of the run without judgments, left out": found.unjudged_queries,
        "queries without a relevant document": found.no_relevant,
        "queries none of whose relevant documents is in the run": found.unreachable,
    }


def _per_query(found: metrics.Evaluation, names: Mapping[str, str]) -> str:
    rows = [
        [query, *(_four(found.values[ours][at]) for ours in names.values())]
        for at, query in enumerate(found.query_ids)
    ]
    return table(["query", *names], rows)


def _range(found: metrics.Evaluation, measure: str) -> str:
    low, high = found.tie_range[measure]
    return MISSING if low == high or math.isnan(low) else f"{low:.4f} to {high:.4f}"


def _four(value: float) -> str:
    return number(finite_or_none(value))


def _parquet(scored: Sequence[ScoredRun], names: Mapping[str, str]) -> bytes:
    """The `query_metrics` table; the run's file is the model."""
    import pyarrow as pa

    parts = []
    for item in scored:
        found = item.evaluation
        n, queries = len(found.query_ids), pa.array(found.query_ids, pa.string())
        for name, ours in names.items():
            columns = {
                "task": pa.repeat(pa.scalar(""), n),
                "model": pa.repeat(pa.scalar(str(item.run.path)), n),
                "query_id": queries,
                "measure": pa.repeat(pa.scalar(name), n),
                "value": pa.array(found.values[ours], from_pandas=True),  # NaN is null
            }
            parts.append(pa.table(columns, schema=SCHEMAS["query_metrics"]))
    return parquet_bytes(pa.concat_tables(parts))


def _jsonl(scored: Sequence[ScoredRun], names: Mapping[str, str]) -> bytes:
    """A query a line, a measure a field, as `rerank significance` reads it."""
    lines = [
        json.dumps(
            {
                "model": str(item.run.path),
                "query_id": query,
                **{
                    n: finite_or_none(item.evaluation.values[ours][at]) for n, ours in names.items()
                },
            },
            allow_nan=False,
            ensure_ascii=False,
        )
        for item in scored
        for at, query in enumerate(item.evaluation.query_ids)
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


WRITERS = {".parquet": _parquet, ".jsonl": _jsonl}

"""Our measures and bootstrap against pytrec_eval and scipy, in alternating rounds of one run.

Whole: a Parquet run and Parquet judgments become a Parquet file of values per query; pytrec_eval's
dictionaries are built from the same files by the quickest way we know, zipped columns. Beside it
stands the plain way, row by row (`Table.to_pylist`). Measures: our ranking and measures, from
joined pairs to values, against pytrec_eval's evaluate call. That call joins as well, which cannot
be taken out of it; beside it stand, therefore, our join, ranking and measures together (like for
like), our `evaluate`, which gives ranges over ties as well, and the measure functions on lists that
are ranked already. Bootstrap: 10,000 resamples of 380 series in units of one
`scipy.stats.bootstrap` call with its defaults (BCa, vectorized, one batch) and 2,000 resamples of a
single series of that length; beside it in units of its percentile method, which has no jackknife.
All values are compared in the same run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Values = Mapping[str, Mapping[str, float]]  # query -> measure -> value

MEASURES = {
    "nDCG@10": "ndcg_cut_10",
    "RR": "recip_rank",
    "AP": "map",
    "P@5": "P_5",
    "R@50": "recall_50",
}
SYSTEMS, SUITE_MEASURES, SAMPLES, UNIT_SAMPLES = 19, 20, 10_000, 2_000
TOLERANCE = 1e-12
PLAIN = 300  # queries on which the formulas are also written out
WAYS = ("ours, whole", "pytrec_eval, rows", "pytrec_eval, columns", "ours, measures",
        "ours, of ranked lists", "ours, evaluate", "ours, join to values",
        "pytrec_eval, evaluate", "ours, bootstrap", "scipy, BCa", "scipy, percentile")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds of all")
    parser.add_argument("--queries", type=int, default=12_054)
    parser.add_argument("--candidates", type=int, default=51, help="of a query")
    parser.add_argument("--deep", type=int, default=1_000, metavar="N",
                        help="candidates a query to measure peak memory on; 0: none")  # fmt: skip


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peak = deep_peak(folder / "deep", arguments.queries, arguments.deep)
        rounds = all_rounds(folder, arguments)
    medians = {way: statistics.median(row[way] for row in rounds) for way in WAYS}
    print("  ".join(f"{cell:>21}" for cell in ("median", *(f"{medians[w]:.3f} s" for w in WAYS))))
    return figures(rounds, peak)


def figures(rounds: list[dict[str, float]], peak: float | None) -> dict[str, Any]:
    """Ratios of medians over the rounds; peak: GiB of the deep run, None if it was not made."""
    medians = {way: statistics.median(row[way] for row in rounds) for way in WAYS}

    def ratio(above: str, below: str) -> float:
        return round(medians[above] / medians[below], 3)

    return {
        "whole_speedup_over_pytrec_eval": ratio("pytrec_eval, columns", "ours, whole"),
        "measures_speedup_over_pytrec_eval": ratio("pytrec_eval, evaluate", "ours, measures"),
        "bootstrap_scipy_units": ratio("ours, bootstrap", "scipy, BCa"),
        "whole_speedup_over_row_by_row": ratio("pytrec_eval, rows", "ours, whole"),
        "join_to_values_speedup": ratio("pytrec_eval, evaluate", "ours, join to values"),
        "evaluate_speedup_with_tie_ranges": ratio("pytrec_eval, evaluate", "ours, evaluate"),
        "ranked_lists_speedup": ratio("pytrec_eval, evaluate", "ours, of ranked lists"),
        "bootstrap_scipy_percentile_units": ratio("ours, bootstrap", "scipy, percentile"),
        **({} if peak is None else {"peak_gib": round(peak, 3)}),
    }


def all_rounds(folder: Path, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Seconds of every way in each round, after one round that is not counted but checked."""
    from scripts.benchmarks.evaluation_data import write_collection

    run_file, qrels_file = write_collection(folder, arguments.queries, arguments.candidates)
    ours, theirs = folder / "ours.parquet", folder / "theirs.parquet"
    ours_whole(run_file, qrels_file, ours)
    theirs_whole(run_file, qrels_file, theirs, from_columns)
    run_table, qrels_table = from_rows(run_file, "score"), from_rows(qrels_file, "grade")
    assert run_table == from_columns(run_file, "score")
    check_values(values_of(ours), values_of(theirs))
    check_formulas(values_of(ours), run_table, qrels_table)
    check_bootstrap()
    series = np.random.default_rng(31).beta(
        0.5, 0.7, size=(arguments.queries, SYSTEMS * SUITE_MEASURES)
    )
    evaluate, join_to_values, measure, of_ranked = our_measures(run_file, qrels_file)
    evaluate_theirs = evaluator(qrels_table)
    ways: dict[str, Callable[[], object]] = {
        "ours, whole": lambda: ours_whole(run_file, qrels_file, ours),
        "pytrec_eval, rows": lambda: theirs_whole(run_file, qrels_file, theirs, from_rows),
        "pytrec_eval, columns": lambda: theirs_whole(run_file, qrels_file, theirs, from_columns),
        "ours, measures": measure,
        "ours, of ranked lists": of_ranked,
        "ours, evaluate": evaluate,
        "ours, join to values": join_to_values,
        "pytrec_eval, evaluate": lambda: evaluate_theirs(run_table),
        "ours, bootstrap": lambda: our_bootstrap(series),
        "scipy, BCa": lambda: scipy_bootstrap(series[:, 0], "BCa"),
        "scipy, percentile": lambda: scipy_bootstrap(series[:, 0], "percentile"),
    }
    print("  ".join(f"{head:>21}" for head in ("round", *WAYS)))
    rounds = []
    for number in range(-1, arguments.rounds):
        row = {way: seconds(ways[way]) for way in WAYS}
        if number >= 0:  # the round before warms caches and memory
            rounds.append(row)
            cells = (str(number), *(f"{row[way]:.3f} s" for way in WAYS))
            print("  ".join(f"{cell:>21}" for cell in cells), flush=True)
    return rounds


def seconds(way: Callable[[], object]) -> float:
    started = time.perf_counter()
    way()
    return time.perf_counter() - started


def ours_whole(run_file: Path, qrels_file: Path, to: Path) -> None:
    """The work of `rerank score-run --to`, warnings and ranges of ties included."""
    from jobs.score_run import WRITERS
    from rerank.run_scoring import Scoring, score_files

    scored = score_files(qrels_file, [run_file], list(MEASURES), Scoring())
    to.write_bytes(WRITERS[".parquet"](scored, {name: name for name in MEASURES}))


def our_measures(run_file: Path, qrels_file: Path) -> tuple[Callable[[], object], ...]:
    """On columns in memory, as in the whole job: `evaluate`; its join, ranking and measures without
    the ranges over ties; ranking and measures of joined pairs; the measures of ranked lists."""
    import metrics
    from metrics.blocks import each_block
    from metrics.evaluation import measure_block
    from metrics.joining import join
    from metrics.ordering import blocks_of, ranked
    from rerank.files.qrels_files import read_qrels_file
    from rerank.files.run_files import read_run_file
    from rerank.files.shared_names import under_one_list

    listed, judged = read_run_file(run_file), read_qrels_file(qrels_file)
    queries = under_one_list(listed.query_ids, judged.query_ids)
    documents = under_one_list(listed.doc_ids, judged.doc_ids)
    run_columns = metrics.Run(queries[0], documents[0], listed.scores)
    judgments = metrics.Judgments(queries[1], documents[1], judged.grades)
    how = metrics.Conventions()
    asked = {name: metrics.parse_measure(name) for name in MEASURES}

    def measured(pairs: Any) -> dict[str, Any]:
        values = {name: np.zeros(len(pairs.query_ids)) for name in asked}

        def of_block(members: Any) -> None:
            block = ranked(pairs, members, how)
            for name, column in measure_block(block.ranking, block.judged, asked, how).items():
                values[name][members] = column

        each_block(of_block, list(blocks_of(pairs, np.arange(len(pairs.query_ids)))))
        return values

    def join_to_values() -> dict[str, Any]:
        return measured(join(run_columns, judgments, how))

    pairs = join(run_columns, judgments, how)
    everything = np.arange(len(pairs.query_ids))
    blocks = [ranked(pairs, members, how) for members in blocks_of(pairs, everything)]

    def of_ranked() -> object:
        return [measure_block(block.ranking, block.judged, asked, how) for block in blocks]

    def evaluate() -> Any:
        return metrics.evaluate(run_columns, judgments, list(MEASURES))

    for name, column in evaluate().values.items():
        assert np.array_equal(column, join_to_values()[name])
    return evaluate, join_to_values, lambda: measured(pairs), of_ranked


def theirs_whole(
    run_file: Path,
    qrels_file: Path,
    to: Path,
    nested: Callable[[Path, str], dict[str, dict[str, Any]]],
) -> None:
    """The same job through pytrec_eval; nested: file and column -> query -> document -> value."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rerank.schemas import SCHEMAS

    found = evaluator(nested(qrels_file, "grade"))(nested(run_file, "score"))
    queries = list(found)
    columns = {
        "task": [""] * len(queries) * len(MEASURES),
        "model": [str(run_file)] * len(queries) * len(MEASURES),
        "query_id": queries * len(MEASURES),
        "measure": [name for name in MEASURES for _ in queries],
        "value": [found[query][name] for name in MEASURES.values() for query in queries],
    }
    pq.write_table(pa.table(columns, schema=SCHEMAS["query_metrics"]), to)


def evaluator(qrels: Mapping[str, Mapping[str, float]]) -> Callable[[Any], Values]:
    import pytrec_eval

    evaluate: Callable[[Any], Values] = pytrec_eval.RelevanceEvaluator(
        qrels, set(MEASURES.values())
    ).evaluate
    return evaluate


def from_rows(file: Path, column: str) -> dict[str, dict[str, Any]]:
    """query -> document -> value, pytrec_eval's own form, row by row."""
    import pyarrow.parquet as pq

    found: dict[str, dict[str, Any]] = {}
    for row in pq.read_table(file).to_pylist():
        found.setdefault(row["query_id"], {})[row["doc_id"]] = row[column]
    return found


def from_columns(file: Path, column: str) -> dict[str, dict[str, Any]]:
    """The same from zipped columns."""
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=["query_id", "doc_id", column])
    columns = [table[name].to_numpy(zero_copy_only=False) for name in table.column_names]
    found: dict[str, dict[str, Any]] = {}
    for query, document, value in zip(columns[0], columns[1], columns[2].tolist(), strict=True):
        found.setdefault(query, {})[document] = value
    return found


def values_of(file: Path) -> Values:
    """query -> measure -> value of a per-query file."""
    import pyarrow.parquet as pq

    found: dict[str, dict[str, float]] = {}
    for row in pq.read_table(file).to_pylist():
        found.setdefault(row["query_id"], {})[row["measure"]] = row["value"]
    return found


def check_values(ours: Values, theirs: Values) -> None:
    """The same queries, every value equal to TOLERANCE."""
    assert ours.keys() == theirs.keys()
    for query, values in theirs.items():
        for name, value in values.items():
            assert abs(ours[query][name] - value) <= TOLERANCE, (query, name)


def check_formulas(
    ours: Values, listed: Mapping[str, Mapping[str, float]], judged: Mapping[str, Mapping[str, int]]
) -> None:
    """nDCG@10 and AP written out for some queries: score, then document id, descending."""
    for query in sorted(judged)[:PLAIN]:
        scores, grades = listed[query], judged[query]
        order = sorted(scores, key=lambda name, scores=scores: (scores[name], name), reverse=True)
        gains = [grades.get(document, 0) for document in order]
        ideal = sorted(grades.values(), reverse=True)
        best = dcg(ideal[:10])
        ndcg = dcg(gains[:10]) / best if best else 0.0
        relevant = sum(grade > 0 for grade in ideal)
        hits = precision = 0.0
        for rank, gain in enumerate(gains, 1):
            if gain > 0:
                hits += 1
                precision += hits / rank
        average = precision / relevant if relevant else 0.0
        assert abs(ours[query]["nDCG@10"] - ndcg) <= TOLERANCE, query
        assert abs(ours[query]["AP"] - average) <= TOLERANCE, query


def dcg(gains: list[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def check_bootstrap() -> None:
    """Means of the drawn rows, index by index, on a small case of three series."""
    from metrics import bootstrap_means

    values = np.random.default_rng(1).random((50, 3))
    found = bootstrap_means(values, samples=400, rng=np.random.default_rng(2))
    drawn = np.random.default_rng(2).integers(0, 50, size=(400, 50), dtype=np.int32)
    plain = np.array(
        [[sum(values[row, at] for row in rows) / 50 for at in range(3)] for rows in drawn]
    )
    assert np.abs(found - plain).max() <= 1e-11


def our_bootstrap(series: np.ndarray) -> None:
    from metrics import bootstrap_means

    bootstrap_means(series, samples=SAMPLES, rng=np.random.default_rng(17))


def scipy_bootstrap(column: np.ndarray, method: str) -> None:
    from scipy import stats

    stats.bootstrap(
        (column,), np.mean, n_resamples=UNIT_SAMPLES, method=method, rng=np.random.default_rng(17)
    )


def deep_peak(folder: Path, queries: int, candidates: int) -> float | None:
    """Peak memory, GiB, of the whole job in a process of its own; None for 0 candidates."""
    if not candidates:
        return None
    folder.mkdir()
    module = "scripts.benchmarks"
    write = f"from {module}.evaluation_data import write_collection as write; from pathlib import "
    write += f"Path; write(Path({str(folder)!r}), {queries}, {candidates})"
    subprocess.run([sys.executable, "-c", write], check=True)
    started = time.perf_counter()
    code = f"import sys; from {module}.metrics import print_peak; print_peak(sys.argv[1])"
    answer = subprocess.run(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, check=True
    )
    peak = float(answer.stdout)
    print(
        f"{queries:,} x {candidates:,}: {time.perf_counter() - started:.1f} s, peak {peak:.2f} GiB"
    )
    return peak


def print_peak(folder: str) -> None:
    """Run the whole job in this process and print its peak resident memory, GiB."""
    import resource

    place = Path(folder)
    ours_whole(place / "run.parquet", place / "qrels.parquet", place / "values.parquet")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)  # Linux counts in KiB

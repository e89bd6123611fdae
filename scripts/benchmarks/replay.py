"""`rerank replay` from end to end against `sentence_transformers.CrossEncoder.predict`.

Ours is the verb's own work on the inline engine: verifying the task, reading and checking shards,
tokenising, forwarding, the ledger, writing scores and receipts, and the check of all of it at the
end. The peer only predicts, with the batch size that it is fastest with. Same weights, pairs, dtype
and threads, in one process, in turn; a short run of each comes first. Loading the model is left out
on both sides and printed. Rates are per second of CPU time, which other programs on the machine
distort least; the rates by the wall clock stand beside them.

The peak is the best rate of a large matrix multiplication in the same process and dtype, taken in
every round. The share of it counts for both sides the FLOP of whole inputs without padding, and for
ours in brackets what it really forwarded, shared beginnings once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scripts.benchmarks.models import (
    BATCH_SIZES,
    WARM_UP,
    Rates,
    fastest,
    load_peer,
    median,
    timed,
)
from scripts.benchmarks.rerankers import MAX_LENGTH, RERANKERS, pairs_by_query
from scripts.trials.suite_files import write_configs

MODELS = ("xlmr", "modernbert", "qwen3")
COLUMNS = (
    *("model", "ours", "peer (batch)", "ratio", "wall ours", "wall peer", "of peak", "peer's"),
    *("load s", "beside s", "difference"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=400, help="pairs, in queries of 50")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of both")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and tokenizers")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--shard-pairs", type=int, default=2000, help="pairs of a shard")
    parser.add_argument("--models", default=",".join(MODELS), help="of " + ", ".join(MODELS))


@dataclass
class Measured:
    """One model. ours, peer: rates of each round; beside: seconds of ours that are no forward."""

    ours: list[Rates] = field(default_factory=list)
    peer: dict[int, list[Rates]] = field(default_factory=dict)  # by batch size
    peaks: list[float] = field(default_factory=list)  # FLOP/s
    loads: list[float] = field(default_factory=list)  # seconds
    beside: list[float] = field(default_factory=list)
    difference: float = 0.0
    flop_whole: float = 0.0  # a pair
    flop_forwarded: float = 0.0


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):  # read when torch, tokenizers are loaded
        os.environ[name] = str(arguments.threads)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    print(
        f"{arguments.pairs} pairs, {arguments.rounds} rounds, {arguments.threads} thread(s), "
        f"{arguments.dtype}; pairs per second of CPU time"
    )
    print("  ".join(f"{name:>12}" for name in COLUMNS))
    rows = {}
    for name in arguments.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            RERANKERS[name].write(Path(folder) / name)
            rows[name] = figures(measure(name, Path(folder), arguments))
        print(line(name, rows[name]), flush=True)
    return {
        **ratios(rows),
        "ratio_of": f"pairs per second of CPU time, medians of {arguments.rounds} rounds",
        **{key: getattr(arguments, key) for key in ("pairs", "threads", "dtype")},
        "models": rows,
    }


def ratios(rows: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """The lowest encoder's and the decoder's; None for what was not measured."""
    encoders = [row["ratio"] for name, row in rows.items() if not RERANKERS[name].prompt]
    decoders = [row["ratio"] for name, row in rows.items() if RERANKERS[name].prompt]
    return {
        "encoder_ratio": min(encoders, default=None),
        "shared_prefix_ratio": min(decoders, default=None),
    }


def measure(name: str, folder: Path, arguments: argparse.Namespace) -> Measured:
    """Both sides in turn, the peer with each batch size that may still be its best."""
    from rerank.efficiency.flops import matmul_peak
    from rerank.records import Placement

    asked = pairs_by_query(arguments.pairs)
    pairs = [(query, text) for query, texts in asked for text in texts]
    suite = write_suite(name, folder, asked, arguments)
    found = Measured()
    started = time.perf_counter()
    peer = load_peer(name, folder / name, Placement("cpu", arguments.dtype, "sdpa"))
    peer_load = time.perf_counter() - started
    peer.predict(pairs[:WARM_UP], show_progress_bar=False)
    replay(suite, folder / "warm", found)  # also the first import of everything
    found.ours.clear()
    found.beside.clear()
    sizes = BATCH_SIZES["cpu"]
    for number in range(arguments.rounds):
        scores = replay(suite, folder / f"store-{number}", found)
        for size in sizes:
            with timed(len(pairs), found.peer.setdefault(size, [])):
                other = peer.predict(pairs, batch_size=size, show_progress_bar=False)
            found.difference = max(found.difference, float(np.abs(scores - other).max()))
        sizes = fastest(found.peer, "cpu")[:2]
        found.peaks.append(matmul_peak("cpu", arguments.dtype, time.process_time))
    print(f"{'':>12}  the peer took {peer_load:.1f} s to load", flush=True)
    return found


def write_suite(
    name: str, folder: Path, asked: list[tuple[str, list[str]]], arguments: argparse.Namespace
) -> Path:
    """A configs folder whose one task holds the pairs and whose one model the weights."""
    from rerank.models.pair_encoder import PairEncoderParams
    from tests.standins.prompts import params

    source = folder / "source"
    source.mkdir()
    with (source / "candidates.jsonl").open("w") as stream:
        for number, (query, texts) in enumerate(asked):
            listed = [
                {"document_id": f"d{at:03d}", "text": text, "relevance_grade": int(at == 0)}
                for at, text in enumerate(texts)
            ]
            row = {"query_id": f"q{number:05d}", "query": query, "candidates": listed}
            stream.write(json.dumps(row) + "\n")
    reranker = RERANKERS[name]
    recipe = params("qwen3") if reranker.prompt else PairEncoderParams()
    model = {
        "adapter": reranker.adapter, "weights_from": "folder", "weights": str(folder / name),
        "max_length": MAX_LENGTH, "dtype": arguments.dtype, "device": "cpu", "attention": "sdpa",
        "num_cpus": float(arguments.threads), "num_gpus": 0.0,
    }  # fmt: skip
    settings = {key: _plain(value) for key, value in asdict(recipe).items()}
    task = {
        "source": "frozen_jsonl", "folder": str(source), "shard_pairs": arguments.shard_pairs,
    }  # fmt: skip
    files = {
        "tasks/bench.yaml": task,
        f"models/{name}.yaml": {**model, **settings},
        "suites/bench.yaml": {
            "tasks": ["bench"], "models": [name], "baseline": name, "engine": "inline",
        },
    }  # fmt: skip
    return write_configs(folder, files) / "suites/bench.yaml"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def replay(suite_file: Path, store_root: Path, found: Measured) -> np.ndarray:
    """One replay into an empty store; its scores in the order of the pairs, its rates noted.

    The CPU time of loading is not known apart from the rest: it is taken as the share of the wall
    time that the whole replay was running for.
    """
    from jobs.config import load_suite
    from jobs.freeze import freeze_tasks, frozen_tasks
    from jobs.replay import replay_models
    from rerank.store import Store

    suite = load_suite(suite_file, [f"store={store_root}"])
    store = Store(suite.spec.store)
    freeze_tasks(suite, store, lambda text: None)
    wall, cpu = time.perf_counter(), time.process_time()
    (run_,) = replay_models(suite, store, frozen_tasks(suite, store))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    receipts = list(run_.receipts().values())
    load = float(receipts[0]["load_seconds"])
    wall, cpu = wall - load, cpu - load * cpu / wall
    rows = sum(receipt["rows"] for receipt in receipts)
    found.ours.append((rows / cpu, rows / wall))
    found.loads.append(load)
    forwards = sum(receipt["report"]["seconds_forward"] for receipt in receipts)
    found.beside.append(wall - forwards)
    _count_flop(found, run_, receipts)
    scores: np.ndarray = run_.scores()["score"].to_numpy()
    return scores


def _count_flop(found: Measured, run_: Any, receipts: list[dict[str, Any]]) -> None:
    """FLOP a pair: of whole inputs; and of the tokens that were forwarded, as a share of it."""
    if found.flop_whole:
        return
    from jobs.config import load_suite
    from rerank.efficiency.flops import cost_of
    from rerank.models.adapters import load_scorer
    from rerank.records import Placement

    suite = load_suite(Path(run_.store.root).parent / "configs/suites/bench.yaml")
    (model,) = suite.models
    cost = cost_of(load_scorer(model, Placement("cpu", model.dtype, "sdpa")))
    if cost is None:
        raise SystemExit(f"{model.name} has no known cost")
    lengths = run_.scores()["tokens"].to_pylist()
    tokens = sum(receipt["report"]["tokens"] for receipt in receipts)
    found.flop_whole = cost.of(lengths) / len(lengths)
    found.flop_forwarded = found.flop_whole * tokens / sum(lengths)


def figures(found: Measured) -> dict[str, Any]:
    """The row of a model, as JSON types; rates and seconds are medians."""
    size = fastest(found.peer, "cpu")[0]
    ours, peer = median(found.ours, "cpu"), median(found.peer[size], "cpu")
    peak = max(found.peaks)
    return {
        "ours": round(ours, 2),
        "peer": round(peer, 2),
        "batch_size": size,
        "ratio": round(ours / peer, 3),
        "wall_ours": round(median(found.ours, "cpu", wall=True), 2),
        "wall_peer": round(median(found.peer[size], "cpu", wall=True), 2),
        "matmul_peak_gflops": round(peak / 1e9, 1),
        "share_of_peak": round(ours * found.flop_whole / peak, 3),
        "share_of_peak_forwarded": round(ours * found.flop_forwarded / peak, 3),
        "peer_share_of_peak": round(peer * found.flop_whole / peak, 3),
        "load_seconds": round(statistics.median(found.loads), 2),
        "seconds_beside_forwards": round(statistics.median(found.beside), 3),
        "largest_difference": found.difference,
    }


def line(name: str, row: dict[str, Any]) -> str:
    """One row of the table."""
    cells = (
        name,
        f"{row['ours']:.1f}",
        f"{row['peer']:.1f} ({row['batch_size']})",
        f"{row['ratio']:.2f}",
        f"{row['wall_ours']:.1f}",
        f"{row['wall_peer']:.1f}",
        f"{row['share_of_peak']:.0%} ({row['share_of_peak_forwarded']:.0%})",
        f"{row['peer_share_of_peak']:.0%}",
        f"{row['load_seconds']:.1f}",
        f"{row['seconds_beside_forwards']:.2f}",
        f"{row['largest_difference']:.1e}",
    )
    return "  ".join(f"{cell:>12}" for cell in cells)

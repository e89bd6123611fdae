"""Pairs per second of the adapters against `sentence_transformers.CrossEncoder.predict`.

Same weights, dtype, texts, length limit (which no text reaches) and threads, in one process, ours
and the peer's runs in turn; a short run of each comes first and is not counted. Tokenising is part
of both. The peer has the batch size that it is fastest with: the first round tries several, the
later ones the two best of them, and the median over all rounds decides.

On a CPU the rates are per second of CPU time, which other programs on the machine distort least;
the rates by the wall clock stand beside them. On a GPU there are only those by the wall clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scripts.benchmarks.rerankers import MAX_LENGTH, RERANKERS, pairs_by_query

# that the peer may take; on a CPU 2 and 32 were slower than the best of these wherever tried
BATCH_SIZES = {"cpu": (4, 8, 16), "cuda": (16, 32, 64, 128, 256)}
WARM_UP = 16  # pairs
COLUMNS = (
    "model",
    "parameters",
    "ours",
    "peer (batch)",
    "ratio",
    "wall ours",
    "wall peer",
    "padding",
    "tokens/s",
    "shared",
    "difference",
)

Rates = tuple[float, float]  # pairs per second of CPU time, and of wall time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=200, help="pairs, in queries of 50")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of both")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and tokenizers")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument(
        "--quick", action="store_true", help="100 pairs, one round, two batch sizes"
    )


@dataclass
class Measured:
    """One model. ours, peer: rates of each round; difference: the largest of two scores."""

    parameters: int
    ours: list[Rates] = field(default_factory=list)
    peer: dict[int, list[Rates]] = field(default_factory=dict)  # by batch size
    difference: float = 0.0
    report: Any = None  # ScoringReport of our last run


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.quick:
        arguments.pairs, arguments.rounds = 100, 1
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):  # read when torch, tokenizers are loaded
        os.environ[name] = str(arguments.threads)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    clock = "CPU time" if arguments.device == "cpu" else "wall time"
    print(
        f"{arguments.pairs} pairs, {arguments.rounds} rounds, {arguments.threads} thread(s), "
        f"{arguments.dtype}, {arguments.device}; pairs and tokens per second of {clock}"
    )
    print("  ".join(f"{name:>12}" for name in COLUMNS))
    rows = {}
    for name in RERANKERS:
        with tempfile.TemporaryDirectory() as folder:
            RERANKERS[name].write(Path(folder) / name)
            found = measure(name, Path(folder) / name, arguments)
        rows[name] = figures(found, arguments.device)
        print(line(name, rows[name]), flush=True)
    encoders = [name for name, reranker in RERANKERS.items() if not reranker.prompt]
    (decoder,) = (name for name, reranker in RERANKERS.items() if reranker.prompt)
    return {
        "encoder_ratio": min(rows[name]["ratio"] for name in encoders),
        "shared_prefix_ratio": rows[decoder]["ratio"],
        "ratio_of": f"pairs per second of {clock}, medians of {arguments.rounds} rounds",
        **{key: getattr(arguments, key) for key in ("pairs", "threads", "dtype", "device")},
        "models": rows,
    }


def measure(name: str, folder: Path, arguments: argparse.Namespace) -> Measured:
    """Both sides in turn, the peer with each batch size that may still be its best."""
    from rerank.probing import find_token_budget
    from rerank.records import Placement

    groups = query_groups(arguments.pairs)
    pairs = [(group.query, document) for group in groups for document in group.documents]
    placement = Placement(arguments.device, arguments.dtype, "sdpa")
    scorer = load_ours(name, folder, placement, arguments.threads)
    peer = load_peer(name, folder, placement)
    budget = find_token_budget(scorer, groups, placement)
    found = Measured(sum(weight.numel() for weight in peer[0].model.parameters()))
    whole_scores(scorer, groups[:1], budget)
    peer.predict(pairs[:WARM_UP], show_progress_bar=False)
    sizes = BATCH_SIZES[arguments.device][: 2 if arguments.quick else None]
    for _ in range(arguments.rounds):
        with timed(len(pairs), found.ours):
            scores, found.report = whole_scores(scorer, groups, budget)
        for size in sizes:
            with timed(len(pairs), found.peer.setdefault(size, [])):
                other = peer.predict(pairs, batch_size=size, show_progress_bar=False)
            found.difference = max(found.difference, float(np.abs(scores - other).max()))
        sizes = fastest(found.peer, arguments.device)[:2]
    return found


def query_groups(pairs: int) -> list[Any]:
    """The texts as the adapters take them."""
    from rerank.records import QueryGroup

    groups = []
    for number, (query, texts) in enumerate(pairs_by_query(pairs)):
        ranks = tuple(range(1, len(texts) + 1))
        groups.append(QueryGroup(f"q{number}", query, tuple(map(str, ranks)), tuple(texts), ranks))
    return groups


def whole_scores(scorer: Any, groups: list[Any], budget: int) -> tuple[np.ndarray, Any]:
    """Our scores in the order of the pairs, and the report. SystemExit where a text was cut."""
    from rerank.scoring import score_groups

    results, report = score_groups(scorer, groups, budget)
    if any(result.truncated.any() for result in results):
        raise SystemExit("a text was cut, so the two sides differ; make MAX_LENGTH longer")
    return np.concatenate([result.scores for result in results]), report


def fastest(peer: dict[int, list[Rates]], device: str) -> tuple[int, ...]:
    """Batch sizes of the last round, fastest first."""
    rounds = max(map(len, peer.values()))
    last = [size for size, rates in peer.items() if len(rates) == rounds]
    return tuple(sorted(last, key=lambda size: -median(peer[size], device)))


@contextmanager
def timed(pairs: int, rates: list[Rates]) -> Iterator[None]:
    """Append the rates at which the block scores `pairs` pairs."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    rates.append((pairs / (time.process_time() - cpu), pairs / (time.perf_counter() - wall)))


def median(rates: list[Rates], device: str, *, wall: bool = False) -> float:
    """Median over rounds: of CPU time, or of wall time, which is all that counts on a GPU."""
    return statistics.median(rate[wall or device == "cuda"] for rate in rates)


def load_ours(name: str, folder: Path, placement: Any, threads: int) -> Any:
    """The adapter, with the recipe of the original."""
    from rerank.models.adapters import load_scorer
    from rerank.models.pair_encoder import PairEncoderParams
    from rerank.records import ModelSpec
    from tests.standins.prompts import params

    reranker = RERANKERS[name]
    spec = ModelSpec(
        name=name,
        adapter=reranker.adapter,
        weights=str(folder),
        max_length=MAX_LENGTH,
        dtype=placement.dtype,
        device=placement.device,
        num_cpus=threads,
        params=params("qwen3") if reranker.prompt else PairEncoderParams(),
    )
    return load_scorer(spec, placement)


def load_peer(name: str, folder: Path, placement: Any) -> Any:
    """A CrossEncoder that gives raw logits; for a decoder with its chat template and two tokens."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    loading = {
        "dtype": getattr(torch, placement.dtype),
        "attn_implementation": placement.attention,
    }
    shared = {"device": placement.device, "activation_fn": torch.nn.Identity()}
    if not RERANKERS[name].prompt:
        return CrossEncoder(str(folder), max_length=MAX_LENGTH, model_kwargs=loading, **shared)
    text = {"method": "forward", "method_output_name": "logits"}
    transformer = Transformer(
        str(folder),
        transformer_task="text-generation",
        model_kwargs=loading,
        modality_config={"text": text, "message": {**text, "format": "flat"}},
        module_output_name="causal_logits",
        processing_kwargs={"chat_template": {"add_generation_prompt": True}},
        max_seq_length=MAX_LENGTH,
    )
    labels = transformer.tokenizer.convert_tokens_to_ids(["yes", "no"])
    return CrossEncoder(modules=[transformer, LogitScore(*labels)], **shared)


def figures(found: Measured, device: str) -> dict[str, Any]:
    """The row of a model, as JSON types. Rates are medians; tokens are those without padding."""
    size = fastest(found.peer, device)[0]
    ours, peer = median(found.ours, device), median(found.peer[size], device)
    report = found.report
    return {
        "parameters": found.parameters,
        "ours": round(ours, 2),
        "peer": round(peer, 2),
        "batch_size": size,
        "ratio": round(ours / peer, 3),
        "wall_ours": round(median(found.ours, device, wall=True), 2),
        "wall_peer": round(median(found.peer[size], device, wall=True), 2),
        "padding_share": round(report.padding_share, 4),
        "tokens_per_second": round(ours * report.tokens / report.pairs),
        "shared_share": round(report.reused_tokens / (report.tokens + report.reused_tokens), 4),
        "largest_difference": found.difference,
    }


def line(name: str, row: dict[str, Any]) -> str:
    """One row of the table."""
    cells = (
        name,
        f"{row['parameters'] / 1e6:.1f} M",
        f"{row['ours']:.1f}",
        f"{row['peer']:.1f} ({row['batch_size']})",
        f"{row['ratio']:.2f}",
        f"{row['wall_ours']:.1f}",
        f"{row['wall_peer']:.1f}",
        f"{row['padding_share']:.1%}",
        f"{row['tokens_per_second']:,}",
        f"{row['shared_share']:.1%}",
        f"{row['largest_difference']:.1e}",
    )
    return "  ".join(f"{cell:>12}" for cell in cells)

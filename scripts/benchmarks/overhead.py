"""What orchestration costs: `rerank replay` on Ray against a bare loop over the same batches.

The loop encodes and forwards the shards' texts in one process: no Ray, no ledger, no checks, no
files. Both use one thread, the same weights, texts and batches, in alternating rounds of one run,
each in a process of its own. Model load and the fixed start of Ray and its first dataset are left
out of the ratio and printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.trials.suite_files import write_configs

WORDS = [f"word{number}" for number in range(2000)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=20_000, help="pairs to score, at least")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of both")
    parser.add_argument("--layers", type=int, default=2, help="layers of the random BERT")
    parser.add_argument("--hidden", type=int, default=128, help="its hidden size")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model", arguments.layers, arguments.hidden)
        suite = write_suite(folder, arguments.pairs)
        command = [sys.executable, "-m", "jobs"]
        subprocess.run([*command, "freeze", str(suite), f"store={folder}/store-0"], check=True)
        heads = ("round", "loop pairs/s", "replay pairs/s", "model load s", "Ray start s")
        print("  ".join(f"{head:>14}" for head in heads))
        rounds = []
        for number in range(arguments.rounds):
            loop = bare_loop(suite, folder / "store-0")
            replay = ray_replay(command, suite, folder, number)
            rounds.append((loop, *replay))
            rates, seconds = (loop, replay[0]), replay[1:]
            cells = [f"{number}", *(f"{x:,.0f}" for x in rates), *(f"{x:.1f}" for x in seconds)]
            print("  ".join(f"{cell:>14}" for cell in cells), flush=True)
    loops, replays = ([row[column] for row in rounds] for column in (0, 1))
    ratio = statistics.median(replays) / statistics.median(loops)
    return {
        "replay_over_loop": round(ratio, 4),
        "loop_pairs_per_second": round(statistics.median(loops), 1),
        "replay_pairs_per_second": round(statistics.median(replays), 1),
        "model_load_seconds": round(statistics.median(row[2] for row in rounds), 2),
        "ray_start_seconds": round(statistics.median(row[3] for row in rounds), 2),
        "pairs": arguments.pairs,
    }


def write_model(folder: Path, layers: int, hidden: int) -> None:
    """A random BERT cross-encoder with a word-level vocabulary."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    torch.manual_seed(17)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=512,
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=4 * hidden,
        num_labels=1,
        pad_token_id=0,
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def write_suite(folder: Path, pairs: int) -> Path:
    """A configs folder with one task of mixed lengths and one model."""
    rng = random.Random(17)
    source = folder / "source"
    source.mkdir()
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(10, 120))) for _ in range(2000)]
    with (source / "candidates.jsonl").open("w") as stream:
        for number in range(-(-pairs // 50)):
            candidates = [
                {
                    "document_id": f"d{index}",
                    "text": texts[index],
                    "relevance_grade": int(rank == 0),
                }
                for rank, index in enumerate(rng.sample(range(len(texts)), 50))
            ]
            row = {"query_id": f"q{number:05d}", "query": " ".join(rng.choices(WORDS, k=6))}
            stream.write(json.dumps({**row, "candidates": candidates}) + "\n")
    files = {
        "tasks/bench.yaml": {"source": "frozen_jsonl", "folder": str(source), "shard_pairs": 2000},
        "models/tiny.yaml": {
            "adapter": "pair_encoder",
            "weights": str(folder / "model"),
            "device": "cpu",
        },
        "suites/bench.yaml": {"tasks": ["bench"], "models": ["tiny"], "baseline": "tiny"},
    }
    return write_configs(folder, files) / "suites/bench.yaml"


def bare_loop(suite: Path, store: Path) -> float:
    """Pairs per second of the loop, in a process with one thread."""
    code = "import sys; from scripts.benchmarks.overhead import loop; loop(*sys.argv[1:])"
    answer = subprocess.run(
        [sys.executable, "-c", code, str(suite), str(store)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(answer.stdout.split()[-1])


def loop(suite_file: str, store_root: str) -> None:
    """Encode, batch, forward; prints pairs per second without the model's load."""
    import torch

    from jobs.config import load_suite
    from jobs.freeze import frozen_tasks
    from jobs.replay import placement_of
    from rerank.batching import Length, plan_batches
    from rerank.frozen import query_groups
    from rerank.models.adapters import load_scorer
    from rerank.probing import CPU_TOKEN_BUDGET
    from rerank.store import Store

    torch.set_num_threads(1)
    suite = load_suite(suite_file)
    (task,) = frozen_tasks(suite, Store(store_root))
    (model,) = suite.models
    shards = [list(query_groups(task.candidates(shard))) for shard in task.shards]
    scorer = load_scorer(model, placement_of(model))
    started = time.perf_counter()
    for groups in shards:
        items = scorer.encode(groups)
        for batch in plan_batches([Length(item.tokens) for item in items], CPU_TOKEN_BUDGET):
            scorer.forward([items[number] for number in batch])
    seconds = time.perf_counter() - started
    print(sum(len(group) for groups in shards for group in groups) / seconds)


def ray_replay(
    command: list[str], suite: Path, folder: Path, number: int
) -> tuple[float, float, float]:
    """(pairs/s between first start and last commit, model load s, start s) of one replay."""
    store = folder / f"store-{number + 1}"
    subprocess.run(["cp", "-r", str(folder / "store-0"), str(store)], check=True)
    began = time.time()
    subprocess.run(
        [*command, "replay", str(suite), f"store={store}", "engine=ray", "workers=1"],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    receipts = [json.loads(file.read_text()) for file in store.glob("runs/*/*/*/receipts/*.json")]
    first = min(receipt["started"] for receipt in receipts)
    last = max(receipt["finished"] for receipt in receipts)
    load = receipts[0]["load_seconds"]
    return sum(r["rows"] for r in receipts) / (last - first), load, first - began - load

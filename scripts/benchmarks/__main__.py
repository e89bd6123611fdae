"""`scripts/bench NAME`: a readable table, and as the last line one JSON object with the figures."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

# name -> what it measures; the module of the same name has `add_arguments` and `run`
BENCHMARKS = {
    "overhead": "pairs/s of `rerank replay` over a bare loop on the same batches; goal 0.95",
    "models": "pairs/s of the adapters over sentence-transformers' CrossEncoder; goals 1.0 and 1.5",
    "scale": "pairs/s of 1 to 16 workers over linear; the driver's memory and start; goal 0.9",
    "replay": "pairs/s of `rerank replay` end to end over CrossEncoder.predict; goals 1.0 and 1.5",
    "leaderboard": "seconds to the leaderboard's first page and of its interactions; goals 3 and 1",
    "latency": "the latency harness in real time over queueing arithmetic; goal: errors below 0.1",
    "metrics": "measures over pytrec_eval, bootstrap over scipy, peak memory; goals 5, 10 and 10",
    "stage1": "tokens/s of all cores over one, peak GiB, retrieval over bm25s; goals 1.7, 16 and 1",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    names = parser.add_subparsers(dest="name", required=True)
    for name, help_text in BENCHMARKS.items():
        child = names.add_parser(name, help=help_text, description=help_text)
        module = importlib.import_module(f"scripts.benchmarks.{name}")
        module.add_arguments(child)
        child.set_defaults(run=module.run)
    arguments = parser.parse_args()
    print(json.dumps(arguments.run(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

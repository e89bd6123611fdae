"""The `rerank` command: one verb, one module.

Exit codes: 0 fine, 1 incomplete or gate failed, 2 wrong input.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence

from metrics import MetricError
from rerank.errors import RerankError
from rerank.reporting.visible import visible

# verb -> what it does; the module of that name in `jobs` (`-` as `_`) has `add_arguments` and `run`
VERBS: dict[str, str] = {
    "init": "write a task folder with a working example, ready to check and to run",
    "check": "what is missing, doubled or odd in a task, and labels that an order gives away",
    "run": "freeze, replay, evaluate, compare and report a suite: whatever of it is missing",
    "stage1": "compare first stages, no model: recall, precision, nDCG, F1 by task and analyzer",
    "freeze": "turn the tasks of a suite into frozen candidates, once",
    "replay": "score the frozen candidates with the models of a suite; rerun only what is missing",
    "plan": "pairs, tokens, shards, GPU-hours and cost before anything is spent",
    "measure": "pairs a second, latency under load and its cost, with the conditions beside them",
    "frontier": "depths and cascades by quality and cost, from scores that are there; no model",
    "submit": "one Ray job a model on a cluster, for whatever the store does not hold yet",
    "jobs": "the jobs of a suite: state, shards done, pairs a second, time left, last error",
    "logs": "what a model's job printed; -f follows it to its end",
    "stop": "end the jobs of a suite; nothing that was committed is lost",
    "evaluate": "turn scores into measures, per query and on average",
    "compare": "paired deltas against the baseline, slices and the release gate",
    "report": "write report.html, report.md and report.json",
    "leaderboard": "look at a store in the browser: systems, slices, queries, runs; or as files",
    "export": "write scores and judgments for other tools: TREC, ranx, BEIR, MTEB",
    "score-run": "measures of anyone's run files against qrels; nothing frozen, no suite",
    "significance": "intervals, paired tests and corrections from files of per-query values",
    "calibration": "how far scores in [0, 1] are from probabilities: ECE, Brier, NLL",
    "pool": "the top unjudged documents of all systems for judging, and the judgments merged back",
    "results": "read published results (mteb, tables), list their scores, write strict JSON",
    "status": "what is frozen, which runs are complete, what is missing and how to finish it",
    "measures": "list the measures with one line each",
    "models": "list the models of the configs folder and the adapters",
    "contract": "print what a model reads of a pair, or what two models read differently",
    "tasks": "list the tasks of the configs folder: queries, what they measure, their traps",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code; the user sees one sentence, --debug the traceback."""
    words = list(sys.argv[1:] if words is None else words)
    parser = command_line(words[0] if words else "")
    arguments = parser.parse_args(words)
    try:
        return int(arguments.run(arguments))
    except (RerankError, MetricError) as error:
        if arguments.debug:
            traceback.print_exc()
        print(f"rerank {arguments.verb}: {visible(str(error))}", file=sys.stderr)
        return error.exit_code if isinstance(error, RerankError) else RerankError.exit_code
    except OSError as error:
        if arguments.debug:
            traceback.print_exc()
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"rerank {arguments.verb}: cannot use {what:.300}", file=sys.stderr)
        return RerankError.exit_code
    except KeyboardInterrupt:
        print(
            "\ninterrupted: every committed shard is kept; the same command finishes the rest",
            file=sys.stderr,
        )
        return 1


def command_line(verb: str) -> argparse.ArgumentParser:
    """The parser; only the chosen verb's module is imported, so that light verbs start fast."""
    parser = argparse.ArgumentParser(
        prog="rerank",
        description="Replay frozen candidates through text rerankers, and compare them honestly.",
        epilog="exit codes: 0 fine, 1 incomplete or gate failed, 2 wrong input",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, help_text in VERBS.items():
        child = verbs.add_parser(name, help=help_text, description=help_text)
        child.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if name == verb:
            module = importlib.import_module(f"jobs.{name.replace('-', '_')}")
            module.add_arguments(child)
            child.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())

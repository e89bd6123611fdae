"""`rerank export SUITE`: the suite's scores and judgments as the files of other tools.

trec: TREC runs and qrels, for trec_eval, pytrec_eval and ir_measures; ranx: JSON; beir: a BEIR
folder with the candidates' texts; mteb: predictions and results that its ResultCache loads.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version

from jobs.config import Suite
from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from rerank.files import exchange, mteb_results
from rerank.files.formats import Judgment
from rerank.frozen import FrozenTask
from rerank.models.adapters import ADAPTERS, resolve_weights
from rerank.runs import Run
from rerank.store import Store
from rerank.suite.evaluation import SystemEvaluation, evaluate_run, view_task
from rerank.suite.suites import SuiteSpec


@dataclass(frozen=True)
class MtebWords:
    """What MTEB asks of a task and a task file need not say."""

    subset: str
    split: str  # '' takes the task's
    language: str  # of tasks that state none


@dataclass(frozen=True)
class Exported:
    """One task with its runs, read once whatever the number of formats."""

    suite: Suite
    task: FrozenTask
    runs: dict[str, Run]  # by model name
    words: MtebWords

    @cached_property
    def judgments(self) -> list[Judgment]:
        return exchange.judgments_of(self.task)

    @cached_property
    def scores(self) -> dict[str, exchange.Scores]:
        return {name: exchange.best_first(run.scores()) for name, run in self.runs.items()}

    @cached_property
    def judged_scores(self) -> dict[str, exchange.Scores]:
        """The lists of the judged queries alone, as tools want them that keep a dictionary."""
        judged = {row.query_id for row in self.judgments}
        return {
            name: exchange.judged_lists(scores, judged)[0] for name, scores in self.scores.items()
        }

    @cached_property
    def left_out(self) -> str:
        judged = {row.query_id for row in self.judgments}
        queries = {query_id for scores in self.scores.values() for query_id in scores} - judged
        return f"; {len(queries):,} queries without judgments left out" if queries else ""

    @property
    def split(self) -> str:
        spec = self.task.manifest["identity"]["recipe"]["spec"]
        return self.words.split or str(spec["split"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    parser.add_argument(
        "--to",
        default="",
        metavar="FOLDER",
        help="a folder or a URL; default: exports/SUITE in the store",
    )
    parser.add_argument(
        "--format",
        nargs="+",
        action="extend",
        choices=sorted(FORMATS),
        help="one or several, default trec. trec: FOLDER/TASK/{qrels.trec, MODEL.run}; ranx: "
        "FOLDER/ranx/TASK/{qrels.json, MODEL.run.json}; beir: FOLDER/beir/TASK/{corpus.jsonl, "
        "queries.jsonl, qrels/SPLIT.tsv, results/MODEL.json}; mteb: FOLDER/mteb/{results, "
        "predictions}, FOLDER/mteb being the cache_path of mteb's ResultCache",
    )
    parser.add_argument(
        "--subset", default="default", help="hf_subset of the mteb files (default: default)"
    )
    parser.add_argument(
        "--split", default="", help="split of the beir and mteb files (default: the task's own)"
    )
    parser.add_argument(
        "--language",
        default="",
        help="languages of the mteb files for tasks whose YAML states none: ko, or kor-Hang. The "
        "task's name is MTEB's task name, so name the YAML file as MTEB names the task",
    )


def run(arguments: argparse.Namespace) -> int:
    suite, store = suite_of(arguments)
    target = Store(arguments.to) if arguments.to else store.below(f"exports/{suite.spec.name}")
    words = MtebWords(arguments.subset, arguments.split, arguments.language)
    for task in frozen_tasks(suite, store):
        runs = {model.name: runs_of(store, [task], model)[0] for model in suite.models}
        exported = Exported(suite, task, runs, words)
        for name in dict.fromkeys(arguments.format or ["trec"]):
            say(f"{task.name}: {FORMATS[name](exported, target)}")
    return 0


def write_trec(exported: Exported, target: Store) -> str:
    """TREC qrels and one run a model; every query, judged or not."""
    folder = exported.task.name
    target.write(f"{folder}/qrels.trec", exchange.trec_qrels(exported.judgments))
    for name, scores in exported.scores.items():
        target.write(f"{folder}/{name}.run", exchange.trec_run(scores, name))
    return f"qrels.trec and {len(exported.scores)} runs in {target.where(folder)}"


def write_ranx(exported: Exported, target: Store) -> str:
    """qrels.json and one MODEL.run.json a model, for Qrels.from_file and Run.from_file."""
    folder = f"ranx/{exported.task.name}"
    qrels = exchange.grades_of(exported.judgments)
    target.write(f"{folder}/qrels.json", exchange.plain_json(qrels))
    for name, scores in exported.judged_scores.items():
        target.write(f"{folder}/{name}.run.json", exchange.plain_json(scores))
    where = target.where(folder)
    return f"qrels.json and {len(exported.runs)} ranx runs in {where}{exported.left_out}"


def write_beir(exported: Exported, target: Store) -> str:
    """A BEIR folder of the candidates' texts, with one result dictionary a model."""
    task, folder = exported.task, f"beir/{exported.task.name}"
    texts = exchange.document_texts(task)
    without = len({row.doc_id for row in exported.judgments} - texts.keys())
    target.write(f"{folder}/corpus.jsonl", exchange.beir_corpus(texts))
    target.write(f"{folder}/queries.jsonl", exchange.beir_queries(task.queries))
    target.write(f"{folder}/qrels/{exported.split}.tsv", exchange.beir_qrels(exported.judgments))
    target.write(f"{folder}/README.md", exchange.beir_note(task, len(texts), without))
    for name, scores in exported.judged_scores.items():
        target.write(f"{folder}/results/{name}.json", exchange.plain_json(scores))
    return (
        f"BEIR folder of {len(texts):,} candidate documents and {len(exported.runs)} results in "
        f"{target.where(folder)}; {without:,} judged documents have no text and are left out of "
        f"corpus.jsonl{exported.left_out}"
    )


def write_mteb(exported: Exported, target: Store) -> str:
    """Per model: predictions, and a result below results/ with the model_meta.json it needs."""
    task, words = exported.task, exported.words
    about, spec = task.manifest["about"], task.manifest["identity"]["recipe"]["spec"]
    languages = mteb_results.language_codes(
        about["language"] or words.language, f"task '{task.name}'"
    )
    weights = {model.name: resolve_weights(model) for model in exported.suite.models}
    names = mteb_results.model_names({name: found.origin for name, found in weights.items()})
    view = view_task(task)
    for model in exported.suite.models:
        name, revision = names[model.name], weights[model.name].revision
        weightless = ADAPTERS[model.adapter].weightless
        row = {
            **mteb_row(evaluate_run(exported.runs[model.name], view, mteb_suite(exported.suite))),
            "hf_subset": words.subset,
            "languages": languages,
            "conventions": mteb_conventions(exported, exported.runs[model.name]),
        }
        result = mteb_results.result_document(
            task.name, spec["revision"] or f"frozen-{task.fingerprint}", exported.split, [row]
        )
        meta = mteb_results.model_meta(model, name, revision, weightless=weightless)
        predictions = mteb_results.predictions_document(
            name, revision, words.subset, exported.split, exported.judged_scores[model.name]
        )
        folder = f"mteb/results/{mteb_results.model_folder(name, revision)}"
        target.write(f"{folder}/model_meta.json", mteb_results.strict_json(meta))
        target.write(f"{folder}/{task.name}.json", mteb_results.strict_json(result))
        target.write(
            f"mteb/predictions/{model.name}/{task.name}_predictions.json",
            exchange.plain_json(predictions),
        )
    where = target.where("mteb")
    return f"{len(exported.runs)} results and predictions of mteb in {where}{exported.left_out}"


def mteb_suite(suite: Suite) -> SuiteSpec:
    """The suite with mteb's metrics in place of its own; its conventions stay."""
    return replace(suite.spec, measures=tuple(mteb_results.measure_names()), gate=())


def mteb_row(system: SystemEvaluation) -> dict[str, float | None]:
    return mteb_results.metric_scores(system.evaluation.mean)


def mteb_conventions(exported: Exported, placed: Run) -> dict[str, object]:
    """What the numbers of a result row rest on, for a reader who takes them for mteb's own."""
    suite = exported.suite.spec
    return {
        "tool": f"rerank-replay {version('rerank-replay')}",
        "note": "means over all judged queries (mteb: over returned queries), not rounded; "
        "reranking of frozen candidates",
        "queries": "qrels",
        "no_relevant": suite.no_relevant,
        "tie": suite.tie,
        "gain": "linear",
        "ideal": "judged",
        "ap_denominator": "R",
        "failed": "worst",
        "task_fingerprint": exported.task.fingerprint,
        "run_fingerprint": placed.fingerprint,
    }


FORMATS: dict[str, Callable[[Exported, Store], str]] = {
    "trec": write_trec,
    "ranx": write_ranx,
    "beir": write_beir,
    "mteb": write_mteb,
}

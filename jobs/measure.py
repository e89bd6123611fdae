"""`rerank measure SUITE`: pairs a second, latency under load and its cost, with conditions."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from typing import Any

from jobs.config import Suite, load_cluster
from jobs.console import say
from jobs.freeze import frozen_tasks
from jobs.replay import command_of, finishing, placement_of, runs_of
from jobs.suite_arguments import add_suite_arguments, suite_of
from jobs.tables import MISSING, table
from rerank.efficiency.load import REQUESTS, WARM_UP
from rerank.efficiency.measuring import QUERIES, SAMPLE_PAIRS, Measurement, measure
from rerank.efficiency.results import write_measurement
from rerank.errors import ConfigError, RerankError, ScoringError
from rerank.models.adapters import ADAPTERS
from rerank.store import Store, json_bytes

Record = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_suite_arguments(parser)
    number: dict[str, Any] = {"type": int, "metavar": "N"}
    add = parser.add_argument
    add("--sample", default=SAMPLE_PAIRS, help=f"pairs of a pass ({SAMPLE_PAIRS})", **number)
    add("--queries", default=QUERIES, help=f"queries asked in turn ({QUERIES})", **number)
    add("--depth", help="candidates of a request (default: all)", **number)
    add("--requests", default=REQUESTS, help=f"measured requests a load ({REQUESTS:,})", **number)
    add("--warm-up", default=WARM_UP, help=f"requests before them ({WARM_UP})", **number)
    add("--concurrency", default="1,8,32", help="clients of the closed loops ('' for none)")
    add("--rates", default="", help="requests/s of open loops with Poisson arrivals: 2,5,10")
    add("--max-batch-tokens", help="of the batcher (default: the device's budget)", **number)
    add("--max-wait-ms", type=float, default=5.0, help="that a request waits for company (5)")
    add("--timeout", type=float, help="seconds after which a client gives an attempt up")
    add("--retries", default=0, help="attempts after the first (0)", **number)
    add(
        "--exclusive",
        action="store_true",
        help="refuse a machine that others use (else the figures say that it was shared)",
    )
    add("--json", action="store_true", help="strict JSON on standard output, without progress")
    parser.epilog = (
        "engine=inline measures in this process, engine=ray on one actor; a cluster's file has the "
        "price per hour that costs are made of."
    )


def run(arguments: argparse.Namespace) -> int:
    """Every model on every task, written to the store one by one."""
    suite, store = suite_of(arguments)
    records, problems = [], []
    with finishing(command_of(arguments)):
        for work in works_of(arguments, suite, store):
            try:
                record = _measured(suite, work, (lambda text: None) if arguments.json else say)
            except ScoringError as error:
                problems.append(str(error))
                continue
            gc.collect()  # the last model, before the next one is loaded
            key = write_measurement(store, record)
            records.append(record)
            if not arguments.json:
                say_record(record)
                say(f"written: {store.where(key)}\n")
    if arguments.json:
        say(json_bytes({"suite": suite.spec.name, "measurements": records}).decode().rstrip())
    if problems:
        raise ScoringError("; ".join(problems))
    return 0


def works_of(arguments: argparse.Namespace, suite: Suite, store: Store) -> list[Measurement]:
    """One measurement a model and task. ConfigError: an option's value is none."""
    concurrency = _listed(arguments.concurrency, int, "--concurrency", "1,8,32")
    rates = _listed(arguments.rates, float, "--rates", "2,5.5")
    for name in ("sample", "queries", "requests"):
        if getattr(arguments, name) < 1:
            raise ConfigError(f"--{name} must be at least 1, is {getattr(arguments, name)}")
    cluster = load_cluster(suite.root, suite.spec.cluster) if suite.spec.cluster else None
    models = [model for model in suite.models if model.adapter != "first_stage"]
    if not models:
        raise ConfigError("this suite names no model to measure; add one by models=[NAME]")
    tasks = frozen_tasks(suite, store)
    works = [
        Measurement(
            store_root=str(store.root),
            task=placed.task.name,
            task_fingerprint=placed.task.fingerprint,
            run=placed.fingerprint,
            model=model,
            placement=placement_of(model),
            sample=arguments.sample,
            queries=arguments.queries,
            depth=arguments.depth,
            concurrency=concurrency,
            rates=rates,
            warm_up=arguments.warm_up,
            requests=arguments.requests,
            max_batch_tokens=(
                suite.spec.token_budget
                if arguments.max_batch_tokens is None
                else arguments.max_batch_tokens
            ),
            max_wait=arguments.max_wait_ms / 1000,
            timeout=arguments.timeout,
            retries=arguments.retries,
            seed=suite.spec.seed,
            exclusive=arguments.exclusive,
            price_per_hour=None if cluster is None else cluster.price_per_hour,
        )
        for model in models
        for placed in runs_of(store, tasks, model)
    ]
    for work in works:
        _check(work)
    return works


def _check(work: Measurement) -> None:
    """ConfigError now rather than after the first model was measured."""
    if work.depth is not None and work.depth < 1:
        raise ConfigError(f"--depth must be at least 1, is {work.depth}")
    if not 0 <= work.max_wait < 1e6:
        raise ConfigError("--max-wait-ms is from 0")
    if work.max_batch_tokens is not None and work.max_batch_tokens < 1:
        raise ConfigError(f"--max-batch-tokens must be at least 1, is {work.max_batch_tokens}")
    if work.timeout is not None and not 0 < work.timeout < 1e6:
        raise ConfigError(f"--timeout must be above 0 seconds, is {work.timeout}")
    if not work.loads and ADAPTERS[work.model.adapter].weightless:
        raise ConfigError("nothing to measure: give --concurrency or --rates")


def _listed(words: str, kind: type[Any], option: str, example: str) -> tuple[Any, ...]:
    try:
        values = tuple(kind(word) for word in words.split(",") if word.strip())
    except ValueError as error:
        raise ConfigError(f"{option} '{words}': write numbers with commas: {example}") from error
    if not all(0 < value < 1e9 for value in values):
        raise ConfigError(f"{option} '{words}': every number must be above 0, as in {example}")
    return values


def _measured(suite: Suite, work: Measurement, tell: Any) -> Record:
    spec = suite.spec
    weightless = ADAPTERS[work.model.adapter].weightless
    engine = spec.engine
    if engine == "auto":
        engine = "inline" if weightless and not spec.cluster else "ray"
    tell(f"{work.model.name} on {work.task}: {engine}, {work.placement.device}")
    if engine == "inline":
        return _inline(work, tell)
    from cluster.measuring import measure_on_ray

    cluster = load_cluster(suite.root, spec.cluster) if spec.cluster else None
    return measure_on_ray(work, cluster.address if cluster else "", spec.num_cpus, tell)


def _inline(work: Measurement, tell: Any) -> Record:
    try:
        return measure(work, tell)
    except RerankError:
        raise
    except Exception as error:
        # whatever else a model meets reaches the user as one sentence; --debug shows the rest
        raise ScoringError(f"model '{work.model.name}' cannot be measured: {error!r}") from error


def say_record(record: Record) -> None:
    """The batch-size curve and the latency table of one measurement."""
    throughput = record["throughput"]
    if throughput is not None:
        for name, label in (("whole", ""), ("shared", ", shared beginnings")):
            if throughput[name] is not None:
                say(f"\n{record['model']} on {record['task']}{label}")
                say(table(CURVE_HEAD, [_curve_row(p) for p in throughput[name]["points"]]))
                say(_best(throughput[name], throughput["matmul_peak"]))
    if record["latency"]:
        say(f"\n{record['model']} on {record['task']}, a request: {_request(record)}")
        say(table(LATENCY_HEAD, [_latency_row(found) for found in record["latency"]]))
    for found in record["latency"]:
        if lost := found["unanswered"]:
            say(
                f"note: {found['name']}: {lost:,} of {found['n'] + lost:,} requests got no answer; "
                "the percentiles are of the others alone"
            )
    for reason in record["conditions"]["other_load"]["shared"]:
        say(f"note: this machine was shared: {reason}")
    if record["served"]:
        say("note: a server's latency, its network and rate limit included")


CURVE_HEAD = ("batch", "pairs/s", "tokens/s", "padding", "TFLOP/s", "of peak", "peak GiB")
LATENCY_HEAD = (
    *("load", "p50 ms", "p95 ms", "p99 ms", "requests/s", "queue", "network", "tokenize"),
    *("compute", "sort", "timeouts", "cost/1,000"),
)


def _curve_row(point: Record) -> list[str]:
    rate, share, peak = point["flop_per_second"], point["share_of_peak"], point["peak_memory"]
    return [
        f"{point['batch_size']}",
        f"{point['pairs_per_second']:,.1f}",
        f"{point['tokens_per_second']:,.0f}",
        f"{point['padding_share']:.1%}",
        MISSING if rate is None else f"{rate / 1e12:,.3f}",
        MISSING if share is None else f"{share:.1%}",
        MISSING if peak is None else f"{peak / 2**30:.2f}",
    ]


def _best(curve: Record, peak: float | None) -> str:
    best, full = curve["best"], curve["out_of_memory"]
    text = f"fastest: {best['pairs_per_second']:,.1f} pairs/s at batch size {best['batch_size']}"
    text += f"; {full} did not fit" if full else "; the sample ended before memory did"
    return text + (f"; matrix multiplication here: {peak / 1e12:,.3f} TFLOP/s" if peak else "")


def _request(record: Record) -> str:
    depth = record["conditions"]["candidate_depth"]
    return f"{depth['mean']:.4g} candidates on average, {depth['most']} at most"


def _latency_row(found: Record) -> list[str]:
    levels, parts = found["latency"], found["parts"]
    cost = found["cost_per_1000"]
    times: Sequence[str] = [_interval(levels.get(name)) for name in ("p50", "p95", "p99")]
    return [
        found["name"],
        *times,
        f"{found['requests_per_second']:,.2f}",
        *(f"{parts[name]['share']:.0%}" for name in ("queue", "network", "tokenization")),
        *(f"{parts[name]['share']:.0%}" for name in ("compute", "sort")),
        f"{found['timeouts']}",
        MISSING if cost is None else f"{cost:,.4f}",
    ]


def _interval(level: Record | None) -> str:
    if level is None:
        return MISSING
    text = f"{1000 * level['value']:,.1f}"
    if level["low"] is None:
        return text
    high = MISSING if level["high"] is None else f"{1000 * level['high']:,.1f}"
    return f"{text} [{1000 * level['low']:,.1f}, {high}]"

"""What a suite would take, before anything is spent: pairs, tokens, hours and money.

Every figure says what it rests on: `measured` in receipts of the same model on the same task, or in
pairs per second that `rerank measure` found for both; `estimated` from something stated beside it,
or `unknown`. Nothing is frozen, fetched or scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rerank.efficiency.results import best_curve, newest_of_model
from rerank.frozen import FrozenTask
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec
from rerank.runs import Run
from rerank.store import Store

MEASURED, ESTIMATED, UNKNOWN = "measured", "estimated", "unknown"

# characters a token, by the language of a task. Counted with the vocabulary of XLM-RoBERTa on
# AutoRAG-ko (1.95) and KorQuAD (1.80), and on SciFact (4.02), NovelEval (4.14), Cranfield (4.27)
CHARACTERS_PER_TOKEN = {"ko": 1.9, "en": 4.1}
OTHER_LANGUAGES = 3.0
FRAME_TOKENS = 4  # special tokens a pair; prompts come on top and are not known without a model

# dense bf16 (T4: fp16) TFLOP/s as NVIDIA's data sheets state them
PEAK_TFLOPS = {
    "T4": 65.0,
    "A10G": 70.0,
    "L4": 121.0,
    "A100": 312.0,
    "L40S": 362.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2250.0,
}
UTILISATION = 0.35  # of the peak: an assumption
SAMPLE = 200  # receipts read of one run, evenly spread
TIMES = ("started", "finished", "rows", "tokens", "deaths", "worker")


@dataclass(frozen=True)
class Figure:
    """A number, what it rests on, and the words for that. `value` is None where it is unknown."""

    value: float | None
    basis: str
    source: str


@dataclass(frozen=True)
class Machine:
    """What hours are estimated for where no receipt tells: a GPU, and what an hour of it costs."""

    gpu: str
    tflops: float
    utilisation: float = UTILISATION
    price_per_hour: float | None = None  # of one GPU


@dataclass(frozen=True)
class Part:
    """One model on one task. Tokens and hours are of the pairs that have no score yet.

    hours: of one worker; gpu_hours: hours times the worker's GPUs, 0 for models without one.
    """

    model: str
    task: str
    pairs: int
    shards: int
    pairs_left: int
    shards_left: int
    tokens: Figure
    hours: Figure
    gpu_hours: Figure
    cost: Figure


@dataclass(frozen=True)
class Speed:
    """Sums over receipts of shards that were scored in one go."""

    pairs: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Speed) -> Speed:
        return Speed(
            self.pairs + other.pairs, self.tokens + other.tokens, self.seconds + other.seconds
        )


@dataclass(frozen=True)
class Pace:
    """What `rerank measure` found of a model on one task: forwards alone, at the fastest batch
    size. source: the key of the record in the store."""

    pairs_per_second: float
    tokens_per_second: float
    source: str


def plan_model(
    store: Store,
    tasks: Sequence[FrozenTask],
    model: ModelSpec,
    runs: Sequence[Run] | None,
    machine: Machine,
) -> list[Part]:
    """One part a task. `runs` None where the model's identity cannot be told here: all is left."""
    speeds = {task.name: speed_of(store, task.name, model) for task in tasks}
    paces = {task.name: pace for task in tasks if (pace := pace_of(store, task.name, model))}
    known = {} if runs is None else {run_.task.name: run_ for run_ in runs}
    return [_part(task, model, known.get(task.name), machine, speeds, paces) for task in tasks]


def _part(
    task: FrozenTask,
    model: ModelSpec,
    run_: Run | None,
    machine: Machine,
    speeds: dict[str, Speed],
    paces: dict[str, Pace],
) -> Part:
    shards = task.shards
    left = shards if run_ is None else run_.missing()
    pairs = sum(shard.rows for shard in left)
    tokens = tokens_of(task, model, pairs, sum(s.characters for s in left), speeds[task.name])
    hours = hours_of(model, pairs, tokens, speeds, task.name, machine, paces)
    gpu_hours = (
        _scaled(hours, model.num_gpus) if on_gpu(model) else Figure(0.0, MEASURED, "needs no GPU")
    )
    return Part(
        model=model.name,
        task=task.name,
        pairs=sum(shard.rows for shard in shards),
        shards=len(shards),
        pairs_left=pairs,
        shards_left=len(left),
        tokens=tokens,
        hours=hours,
        gpu_hours=gpu_hours,
        cost=_cost(gpu_hours, machine),
    )


def tokens_of(
    task: FrozenTask, model: ModelSpec, pairs: int, characters: int, speed: Speed
) -> Figure:
    """Tokens that the model reads of `pairs` pairs whose documents have so many characters.

    Measured: the mean of the receipts of this model on this task. Estimated: characters of queries
    and documents by the factor of the task's language, each pair cut at max_length on average.
    """
    if not pairs:
        return Figure(0.0, MEASURED, "nothing left")
    if speed.pairs and speed.tokens:
        return Figure(pairs * speed.tokens / speed.pairs, MEASURED, "tokens of its receipts")
    language = str(task.manifest["about"]["language"])
    factor = characters_per_token(language)
    texts = task.queries["query"].to_pylist()
    query = sum(map(len, texts)) / max(1, len(texts))
    each = (query + characters / pairs) / factor + FRAME_TOKENS
    each = min(each, model.max_length or each)
    return Figure(pairs * each, ESTIMATED, f"{factor:.3g} characters a token ({language or 'any'})")


def characters_per_token(language: str) -> float:
    """The factor of a task's `language`, which may list several (`ko, en`): as many characters of
    each are assumed."""
    names = [name.strip() for name in language.split(",")]
    factors = [CHARACTERS_PER_TOKEN.get(name, OTHER_LANGUAGES) for name in names]
    return len(factors) / sum(1 / factor for factor in factors)


def hours_of(
    model: ModelSpec,
    pairs: int,
    tokens: Figure,
    speeds: dict[str, Speed],
    task: str,
    machine: Machine,
    paces: Mapping[str, Pace] | None = None,
) -> Figure:
    """Hours of one worker: by its receipts on the task, which hold all that a shard takes; else by
    its measured pairs per second on it, forwards alone; else by the receipts, or the measured
    tokens per second, of other tasks; else by its parameters: 2 x parameters x tokens / (peak x
    utilisation x its GPUs). That counts embedding tables too, which forward nothing: half of a
    small multilingual encoder.
    """
    own, elsewhere = speeds[task], sum(speeds.values(), Speed())
    measured = paces or {}
    if not pairs:
        return Figure(0.0, MEASURED, "nothing left")
    if own.pairs and own.seconds:
        return Figure(pairs * own.seconds / own.pairs / 3600, MEASURED, "speed of its receipts")
    if task in measured:
        pace = measured[task]
        source = f"{pace.pairs_per_second:,.1f} pairs/s measured, forwards alone ({pace.source})"
        return Figure(pairs / pace.pairs_per_second / 3600, MEASURED, source)
    if elsewhere.tokens and elsewhere.seconds and tokens.value is not None:
        hours = tokens.value * elsewhere.seconds / elsewhere.tokens / 3600
        return Figure(hours, ESTIMATED, "its tokens a second on other tasks")
    if measured and tokens.value is not None:
        other, pace = min(measured.items(), key=lambda item: item[1].tokens_per_second)
        source = f"{pace.tokens_per_second:,.0f} tokens/s measured on {other} ({pace.source})"
        return Figure(tokens.value / pace.tokens_per_second / 3600, ESTIMATED, source)
    if not on_gpu(model):
        return Figure(None, UNKNOWN, "no receipt of it on CPUs")
    if model.parameters is None or tokens.value is None:
        return Figure(None, UNKNOWN, "no receipt, and no `parameters` in its YAML")
    flops = 2 * model.parameters * 1e9 * tokens.value
    rate = machine.tflops * 1e12 * machine.utilisation * model.num_gpus
    return Figure(
        flops / rate / 3600,
        ESTIMATED,
        f"{model.parameters:g} billion parameters at {machine.utilisation:.0%} of "
        f"{machine.tflops:g} TFLOP/s ({machine.gpu})",
    )


def on_gpu(model: ModelSpec) -> bool:
    """Is the model meant for GPUs? What this machine has says nothing about the cluster."""
    weightless = ADAPTERS[model.adapter].weightless
    return not weightless and model.device != "cpu" and model.num_gpus > 0


def speed_of(store: Store, task: str, model: ModelSpec) -> Speed:
    """What receipts of the model on the task say of its speed, on its kind of device."""
    folder = f"runs/{task}/{model.name}"
    found = Speed()
    for print_ in store.folders(folder):
        for receipt in _receipts(store, f"{folder}/{print_}/receipts"):
            if receipt["deaths"] == 0 and _on_its_device(receipt, model):
                seconds = receipt["finished"] - receipt["started"]
                found += Speed(receipt["rows"], receipt["tokens"], seconds)
    return found


def pace_of(store: Store, task: str, model: ModelSpec) -> Pace | None:
    """The slowest of what a model of this name was measured with on its kind of device: of several
    recipes it is not known here which one is planned. None where nothing was measured."""
    found = []
    for record in newest_of_model(store, task, model.name):
        curve = best_curve(record)
        here = record["conditions"]["machine"].get("device") == "cuda"
        if curve is not None and here == on_gpu(model):
            best, key = curve["best"], f"efficiency/{task}/{model.name}/{record['run']}"
            source = f"{key}/{record['id']}.json"
            found.append(Pace(best["pairs_per_second"], best["tokens_per_second"], source))
    return min(found, key=lambda pace: pace.pairs_per_second, default=None)


def _receipts(store: Store, folder: str) -> Iterator[dict[str, Any]]:
    names = store.files(folder)
    for name in names[:: max(1, len(names) // SAMPLE)]:
        receipt = store.read_record(f"{folder}/{name}", set(TIMES))
        if receipt is not None:
            yield receipt


def _on_its_device(receipt: dict[str, Any], model: ModelSpec) -> bool:
    worker = receipt["worker"]
    return isinstance(worker, dict) and (worker.get("device") == "cuda") == on_gpu(model)


def _scaled(figure: Figure, factor: float) -> Figure:
    value = None if figure.value is None else figure.value * factor
    return Figure(value, figure.basis, figure.source)


def _cost(gpu_hours: Figure, machine: Machine) -> Figure:
    if machine.price_per_hour is None:
        return Figure(None, UNKNOWN, "no price_per_hour")
    return _scaled(gpu_hours, machine.price_per_hour)


def total(figures: Sequence[Figure]) -> Figure:
    """The sum; unknown where one is, measured where all are."""
    bases = {figure.basis for figure in figures}
    source = "; ".join(dict.fromkeys(figure.source for figure in figures if figure.value))
    values = [figure.value for figure in figures]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Figure(None, UNKNOWN, source)
    basis = MEASURED if bases <= {MEASURED} else ESTIMATED
    return Figure(float(sum(known)), basis, source)

"""What a suite's keys may hold. Each error names file and key, and what to write instead."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import metrics
from rerank.errors import ConfigError, unknown_name
from rerank.suite.slices import check_slice_names, parse_slice
from rerank.suite.suites import (
    BOUNDS,
    INTERVALS,
    MACRO,
    GateRule,
    ImportedResults,
    SuiteSpec,
)

ENGINES = ("auto", "inline", "ray")
# names become folders of the store; Korean and other letters are welcome
NAME = re.compile(r"\w[\w.\-]{0,99}")


def check_suite(spec: SuiteSpec, file: Path) -> None:
    """ConfigError for a value that no key may have."""
    for name in ("tasks", "models"):
        listed = getattr(spec, name)
        if len(set(listed)) != len(listed) or not listed:
            raise ConfigError(f"{file}: {name} must name at least one, each once: {list(listed)}")
    for name in (spec.primary, *spec.measures, *(rule.measure for rule in spec.gate)):
        _check_measure(name or spec.primary, file)
    _check_ranges(spec, file)
    _check_names_of_rows(spec, file)
    for number, rule in enumerate(spec.gate, 1):
        _check_rule(rule, spec, f"{file}, gate rule {number}")
    for number, entry in enumerate(spec.imported, 1):
        _check_imported(entry, f"{file}, imported {number}")
    strangers = {name for rule in spec.gate for name in rule.challengers} - set(spec.models)
    if strangers:
        # models=[...] may leave a gated model out on purpose: its rules then have nothing to judge
        unknown = sorted(strangers - {path.stem for path in _siblings(file, "models")})
        if unknown:
            raise unknown_name("challenger in a gate rule", unknown[0], spec.models)


def check_names(spec: SuiteSpec, file: Path, tasks: list[str], models: list[str]) -> None:
    """Names as the files state them: they become folders of the store."""
    if spec.baseline not in models:
        raise ConfigError(
            f"{file}: baseline '{spec.baseline}' is not among models {models}; "
            "add it, or set baseline= to one of them"
        )
    for name in (spec.name, *tasks, *models):
        if name == MACRO:
            raise ConfigError(f"{file}: the name '{MACRO}' stands for the mean over tasks")
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{file}: the name '{name:.80}' cannot be a folder; use up to 100 letters, digits, "
                "dots, dashes and underscores"
            )
    for kind, names in (("tasks", tasks), ("models", models)):
        if len(set(names)) != len(names):
            raise ConfigError(f"{file}: two {kind} have the same name: {names}")


def _check_ranges(spec: SuiteSpec, file: Path) -> None:
    at_least_one = ("samples", "workers", "num_cpus", "token_budget", "max_deaths", "min_slice_n")
    for key in at_least_one:
        value = getattr(spec, key)
        if value is not None and value < 1:
            raise ConfigError(f"{file}: {key} must be at least 1, is {value}")
    for key in ("confidence", "alpha"):
        if not 0 < getattr(spec, key) < 1:
            raise ConfigError(f"{file}: {key} must lie between 0 and 1, is {getattr(spec, key)}")
    if not spec.effect > 0:
        raise ConfigError(
            f"{file}: effect must be above 0, is {spec.effect}; it is the delta that matters to you"
        )
    if spec.seed < 0 or spec.worst < 0 or spec.max_failed_pairs < 0 or spec.shard_timeout <= 0:
        raise ConfigError(f"{file}: seed, worst, max_failed_pairs and shard_timeout are from 0")
    if not metrics.parse_measure(spec.primary).metric.more_is_better:
        raise ConfigError(f"{file}: of {spec.primary} less is better; name a primary to maximise")
    if metrics.parse_measure(spec.primary).of is not None:
        raise ConfigError(f"{file}: primary cannot be {spec.primary}: name the measure itself")


def _check_names_of_rows(spec: SuiteSpec, file: Path) -> None:
    """Keys whose value is the name of something, and slices."""
    for key, value, known in (
        ("engine", spec.engine, ENGINES),
        ("interval", spec.interval, INTERVALS),
        ("test", spec.test, tuple(metrics.TESTS)),
        ("correction", spec.correction, tuple(metrics.CORRECTIONS)),
    ):
        if value not in known:
            raise unknown_name(f"{key} in {file}", value, known)
    try:
        check_slice_names(spec.slices)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def _check_measure(name: str, file: Path) -> None:
    try:
        metrics.parse_measure(name)
    except metrics.MetricError as error:
        raise ConfigError(f"{file}: {error}") from error


def _check_rule(rule: GateRule, spec: SuiteSpec, where: str) -> None:
    """A rule that is about nothing would never fail: a wrong name in it is an error."""
    if rule.task and rule.task not in spec.tasks:
        raise unknown_name(f"task in {where}", rule.task, spec.tasks)
    if rule.slice and parse_slice(rule.slice)[0] not in spec.slices:
        raise unknown_name(f"slice attribute in {where}", parse_slice(rule.slice)[0], spec.slices)
    if spec.baseline in rule.challengers:
        raise ConfigError(f"{where}: the baseline '{spec.baseline}' cannot be a challenger")
    if rule.bound not in BOUNDS:
        raise unknown_name(f"bound in {where}", rule.bound, BOUNDS)
    if (rule.max_drop or 0.0) < 0 or rule.min_n < 1:
        raise ConfigError(f"{where}: max_drop is from 0 and min_n from 1")
    limits = ("max_failed_share", "max_unjudged_share", "max_p95_latency", "max_cost")
    stated = {key: getattr(rule, key) for key in limits if getattr(rule, key) is not None}
    for key, value in {**stated, "price_per_hour": rule.price_per_hour or 0.0}.items():
        if value < 0:
            raise ConfigError(f"{where}: {key} is from 0, is {value}")
    for key in ("max_failed_share", "max_unjudged_share"):
        if stated.get(key, 0.0) > 1:
            raise ConfigError(f"{where}: {key} is a share from 0 to 1, is {stated[key]}")
    if rule.slice and stated:
        raise ConfigError(
            f"{where}: {', '.join(stated)} judge the whole task; write them in a rule without slice"
        )
    if rule.price_per_hour is not None and rule.max_cost is None:
        raise ConfigError(f"{where}: price_per_hour is for max_cost, which is not set")
    measure = rule.measure or spec.primary
    if not metrics.parse_measure(measure).metric.more_is_better:
        raise ConfigError(
            f"{where}: of {measure} less is better, so no drop of it can be judged; name another"
        )
    if rule.superior and (rule.max_drop or rule.bound != "mean"):
        raise ConfigError(
            f"{where}: superior allows no drop; leave out max_drop and bound, or write two rules"
        )
    if rule.max_drop is None and not rule.superior and not stated:
        raise ConfigError(
            f"{where}: it judges nothing; set max_drop or superior, or one of {', '.join(limits)}"
        )
    if rule.max_cost is not None and rule.price_per_hour is None:
        raise ConfigError(
            f"{where}: max_cost needs price_per_hour, what one worker's machine costs an hour"
        )


def _check_imported(entry: ImportedResults, where: str) -> None:
    """Numbers without a protocol and a source would be read as if they were like ours."""
    for key in ("protocol", "source"):
        if not getattr(entry, key).strip():
            raise ConfigError(f"{where}: {key} is empty; say it in words, readers will see them")
    if not entry.files:
        raise ConfigError(f"{where}: files must name at least one")
    if not all(isinstance(name, str) for name in entry.tasks.values()):
        raise ConfigError(f"{where}: tasks is a mapping, `published name: task of the suite`")
    twice = [name for name, n in Counter(entry.tasks.values()).items() if n > 1]
    if twice:
        raise ConfigError(f"{where}: two published tasks are both called '{twice[0]}'; keep one")
    if entry.measure:
        _check_measure(entry.measure, Path(where))


def _siblings(file: Path, kind: str) -> list[Path]:
    return sorted((file.resolve().parent.parent / kind).glob("*.yaml"))

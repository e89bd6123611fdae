"""YAML files and `key=value` overrides become frozen dataclasses; anything unknown is an error.

A name in a suite stands for the file of that name: `models: [overlap]` in configs/suites/x.yaml
is configs/models/overlap.yaml. A path to a YAML file works as well. A task's `base: NAME` takes
the keys of families/NAME.yaml beside it; its own keys win.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from jobs.clusters import ClusterSpec, check_cluster, placed_on
from jobs.suite_checks import check_names, check_suite
from rerank.errors import ConfigError, unknown_name
from rerank.models.adapters import ADAPTERS
from rerank.records import ModelSpec
from rerank.sources.expected import expected_counts
from rerank.suite.suites import GateRule, ImportedResults, SuiteSpec
from rerank.tasks import TaskSpec

Built = TypeVar("Built")
RECIPES = ("verified", "unverified")
# what a suite may set for its tasks: how candidates are chosen, and counts of a scaled copy
OVERRIDABLE = {field.name for field in fields(TaskSpec)} - {"name", "source", "folder"}


@dataclass(frozen=True)
class Suite:
    """A suite with the tasks and models it names."""

    spec: SuiteSpec
    tasks: tuple[TaskSpec, ...]
    models: tuple[ModelSpec, ...]
    root: Path = Path("configs")  # where the names of models, tasks and clusters are looked up


def load_suite(path: str | Path, overrides: Sequence[str] = ()) -> Suite:
    """The suite of a YAML file with its tasks and models. ConfigError says file and key."""
    file = Path(path)
    spec = suite_spec(file, overrides)
    root = file.resolve().parent.parent
    tasks = suite_tasks(spec, root)
    models = tuple(load_model(root, name) for name in spec.models)
    if spec.cluster:
        cluster = load_cluster(root, spec.cluster)
        models = tuple(placed_on(cluster, model) for model in models)
    check_names(spec, file, [task.name for task in tasks], [model.name for model in models])
    return Suite(
        spec=spec,
        tasks=tasks,
        models=models,
        root=root,
    )


def suite_spec(file: Path, overrides: Sequence[str] = ()) -> SuiteSpec:
    """What a suite's file and the command line say, before tasks and models are looked up."""
    values = {**read_yaml(file), **parse_overrides(overrides)}
    values.setdefault("name", file.stem)
    rules = values.get("gate") or []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ConfigError(f"{file}: gate must be a list of rules, each `key: value`")
    values["gate"] = [
        build(GateRule, rule, f"{file}, gate rule {number}") for number, rule in enumerate(rules, 1)
    ]
    values["imported"] = _imported(values.get("imported") or [], file)
    spec = build(SuiteSpec, values, str(file))
    check_suite(spec, file)
    _reject_unknown(spec.task_overrides, OVERRIDABLE, f"task_overrides of {file}")
    if bool(spec.task_overrides) != bool(spec.variant):
        raise ConfigError(
            f"{file}: task_overrides and variant belong together: a task with other keys is "
            "another task, frozen as TASK.VARIANT; set both or neither"
        )
    return spec


def _imported(entries: Any, file: Path) -> list[ImportedResults]:
    """The entries of a suite's `imported`; their files become absolute."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{file}: imported must be a list of entries, each `key: value`")
    built = [
        build(ImportedResults, entry, f"{file}, imported {number}")
        for number, entry in enumerate(entries, 1)
    ]
    folder = file.resolve().parent
    return [
        replace(entry, files=tuple(str(folder / name) for name in entry.files)) for entry in built
    ]


def suite_tasks(spec: SuiteSpec, root: Path) -> tuple[TaskSpec, ...]:
    """The tasks of a suite, with what it sets for all of them."""
    return tuple(
        load_task(root, name, overrides=spec.task_overrides, variant=spec.variant)
        for name in spec.tasks
    )


def load_task(
    root: Path, name: str, *, overrides: Mapping[str, Any] | None = None, variant: str = ""
) -> TaskSpec:
    """The task of that name below `root`/tasks; its folder becomes absolute.

    `overrides` win over the file's keys, and the task's name then ends in `.variant`.
    """
    file = named_file(root, "tasks", name)
    values = {**task_values(file), **(overrides or {})}
    values.setdefault("name", file.stem)
    if variant:
        values["name"] = f"{values['name']}.{variant}"
    spec = build(TaskSpec, values, str(file))
    expected_counts(spec)
    return replace(spec, folder=str((file.parent / spec.folder).resolve()))


def task_values(file: Path) -> dict[str, Any]:
    """The keys of a task's file, over those of its family where it names one with `base`."""
    values = read_yaml(file)
    base = values.pop("base", None)
    if base is None:
        return values
    families = file.parent / "families"
    if not isinstance(base, str) or not (families / f"{base}.yaml").is_file():
        known = [path.stem for path in families.glob("*.yaml")]
        raise unknown_name(f"base in {file}", str(base), known)
    return {**read_yaml(families / f"{base}.yaml"), **values}


def load_model(root: Path, name: str) -> ModelSpec:
    """The model of that name below `root`/models, its adapter's parameters in `params`."""
    file = named_file(root, "models", name)
    values = read_yaml(file)
    values.setdefault("name", file.stem)
    kind = values.get("adapter", "")
    if not isinstance(kind, str) or kind not in ADAPTERS:
        raise unknown_name(f"adapter in {file}", str(kind), ADAPTERS)
    params = ADAPTERS[kind].params
    own = {field.name for field in fields(ModelSpec)} - {"params"}
    settings = {key: value for key, value in values.items() if key not in own}
    common = {key: value for key, value in values.items() if key in own}
    known = own | {field.name for field in fields(params)}
    _reject_unknown(settings, known, str(file))
    if ADAPTERS[kind].own:
        common.setdefault("recipe", "verified")
    spec = build(ModelSpec, common, str(file))
    if spec.recipe not in RECIPES:
        raise unknown_name(f"recipe in {file}", spec.recipe, RECIPES)
    if (spec.max_length is not None and spec.max_length < 1) or spec.num_cpus <= 0:
        raise ConfigError(f"{file}: max_length is from 1, num_cpus above 0")
    positive = [size for size in (spec.memory_gib, spec.parameters) if size is not None]
    if spec.num_gpus < 0 or any(size <= 0 for size in positive):
        raise ConfigError(f"{file}: num_gpus is from 0, memory_gib and parameters above 0")
    _check_resources(spec.resources, file)
    return replace(spec, params=build(params, settings, str(file)))


def _check_resources(resources: Any, file: Path) -> None:
    """Custom resources are names with amounts, as Ray takes them."""
    amounts = resources.values() if isinstance(resources, dict) else [None]
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and x > 0 for x in amounts):
        raise ConfigError(f"{file}: resources are names with numbers above 0, as in {{slot: 1}}")


def load_cluster(root: Path, name: str) -> ClusterSpec:
    """A cluster file's content; `auto` and a name with `:` are taken for an address itself.

    An address is a dashboard's where it begins with http:// or https://, else Ray's own.
    """
    if name.startswith(("http://", "https://")):
        spec = ClusterSpec(name=name, dashboard=name)
        check_cluster(spec, f"cluster={name}")
        return spec
    if name == "auto" or ":" in name:
        return ClusterSpec(name=name, address=name)
    file = named_file(root, "clusters", name)
    values = read_yaml(file)
    values.setdefault("name", file.stem)
    spec = build(ClusterSpec, values, str(file))
    check_cluster(spec, str(file))
    return spec


def named_file(root: Path, kind: str, name: str) -> Path:
    """The file that a name stands for, or the path itself; ConfigError with the nearest name."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    file = root / kind / f"{name}.yaml"
    if not file.is_file():
        known = [path.stem for path in (root / kind).glob("*.yaml")]
        raise unknown_name(f"{kind.removesuffix('s')} (no file {file})", name, known)
    return file


def read_yaml(file: Path, *, resolve: bool = True) -> dict[str, Any]:
    """A YAML mapping, `${oc.env:NAME}` resolved or left; ConfigError with the parser's line."""
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        text = file.read_text(encoding="utf-8")
        values = OmegaConf.to_container(OmegaConf.create(text), resolve=resolve)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; check the path") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not YAML in UTF-8: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"{file}: {str(error).splitlines()[0]}; set that variable or write the value"
        ) from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must hold `key: value` lines")
    return {str(key): value for key, value in values.items()}


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """`key=value` words, values read as YAML (`models=[a,b]`, `workers=2`)."""
    import yaml

    values: dict[str, Any] = {}
    for word in overrides:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"'{word}' is no override; write key=value, as in workers=2")
        try:
            values[key] = yaml.safe_load(value)
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"override '{word}': the value is not YAML") from error
    return values


def build(kind: type[Built], values: Mapping[str, Any], where: str) -> Built:
    """A frozen dataclass from a mapping; ConfigError for unknown, missing or ill-typed keys."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    _reject_unknown(values, known, where)
    missing = [
        name
        for name, field in known.items()
        if name not in values and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: key '{missing[0]}' is missing")
    hints = get_type_hints(kind)
    return kind(**{key: _typed(hints[key], values[key], f"{where}: {key}") for key in values})


def _reject_unknown(values: Mapping[str, Any], known: Any, where: str) -> None:
    for key in values:
        if key not in known:
            raise unknown_name(f"key in {where}", key, known)


def _typed(hint: Any, value: Any, where: str) -> Any:
    """`value` as the annotated type; integers pass for floats, lists become tuples."""
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where}: must be a list, is {value!r}")
        return tuple(_typed(get_args(hint)[0], item, where) for item in value)
    if origin is dict:
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) < 1e300:  # NaN and infinities too
            raise ConfigError(f"{where}: must be a finite number, is {value}")
        return float(value)
    if hint is str and isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{where}: holds a NUL character")
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise ConfigError(f"{where}: must be {getattr(hint, '__name__', hint)}, is {value!r}")


def _one_of(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    kept = [choice for choice in choices if choice is not type(None)]
    if len(kept) == 1:
        return _typed(kept[0], value, where)
    for choice in kept:
        try:
            return _typed(choice, value, where)
        except ConfigError:
            continue
    names = " or ".join(getattr(choice, "__name__", str(choice)) for choice in choices)
    raise ConfigError(f"{where}: must be {names}, is {value!r}")

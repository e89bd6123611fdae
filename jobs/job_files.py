"""The configuration that travels with one model's job, and the command that it starts.

What was asked for is written out: overrides applied, placement and revision stated, so that the
job means what the submitter meant even where the image holds other configs. `${oc.env:NAME}` in a
model's file travels as it stands and is read on the nodes, so no secret leaves by it.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.clusters import ClusterSpec
from jobs.config import Suite, named_file, read_yaml
from jobs.submissions import AUTO, Asked

SUITE_FILE = "configs/suites/{}.yaml"


def job_texts(suite: Suite, asked: Asked) -> dict[str, str]:
    """Relative file name -> text: a suite of this one model, its model, its tasks. JSON is YAML."""
    model = asked.model
    texts = {
        SUITE_FILE.format(suite.spec.name): _suite_values(suite, model.name),
        f"configs/models/{model.name}.yaml": _model_values(suite, asked),
    }
    for task in suite.tasks:
        texts[f"configs/tasks/{task.name}.yaml"] = asdict(task)
    return {name: json.dumps(values, ensure_ascii=False) for name, values in texts.items()}


def _suite_values(suite: Suite, model: str) -> dict[str, Any]:
    values = asdict(suite.spec)
    values |= {"models": [model], "baseline": model, "gate": [], "cluster": "", "imported": []}
    values |= {"task_overrides": {}, "variant": ""}  # the tasks' files have them applied
    values |= {"tasks": [task.name for task in suite.tasks], "store": job_store(suite)}
    return values


def _model_values(suite: Suite, asked: Asked) -> dict[str, Any]:
    """The model's own file, unresolved, with what this machine decided about it."""
    model = asked.model
    position = [one.name for one in suite.models].index(model.name)
    file = named_file(suite.root, "models", suite.spec.models[position])
    values = read_yaml(file, resolve=False)
    decided = {"name": model.name, "revision": model.revision}
    decided |= {key: getattr(model, key) for key in ("device", "dtype", "attention")}
    if model.weights and Path(model.weights).is_dir():
        decided["weights"] = str(Path(model.weights).absolute())
    return values | {key: value for key, value in decided.items() if value not in ("", AUTO)}


def job_store(suite: Suite) -> str:
    """The store as a job on a node names it: a URL as it is, a folder by its absolute path."""
    root = suite.spec.store
    return root if "://" in root else str(Path(root).absolute())


def job_command(
    suite: Suite, model: str, cluster: ClusterSpec, workers: int, *, retry_failed: bool
) -> str:
    """The shell line of a job; before it a check of the variables that the nodes must have."""
    python = [sys.executable] if cluster.local else shlex.split(cluster.python)
    words = [*python, "-m", "jobs", "replay", SUITE_FILE.format(suite.spec.name)]
    words += [f"models=[{json.dumps(model, ensure_ascii=False)}]"]  # a name may look like a number
    words += ["cluster=auto", f"workers={workers}"]
    words += ["--retry-failed"] if retry_failed else []
    checks = [f': "${{{name}:?is not set on the nodes of this cluster}}"' for name in cluster.env]
    return " && ".join([*checks, shlex.join(words)])

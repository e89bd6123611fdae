"""What a suite asks of a cluster, model by model, and what the store holds of it already.

The identity of a run must be known before it runs, on a machine that may have neither its GPU nor
its weights: so placements are stated, and a commit of the hub is looked up, never downloaded.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster.job_queue import COMPLETE, GIVEN_UP, INCOMPLETE, family_of
from jobs.clusters import ClusterSpec
from jobs.config import Suite, load_cluster, load_suite, parse_overrides
from jobs.freeze import frozen_tasks
from jobs.replay import placement_of
from rerank.errors import ConfigError, ScoringError
from rerank.fingerprint import fingerprint
from rerank.frozen import FrozenTask
from rerank.models.adapters import ADAPTERS, model_identity, planned_weights
from rerank.models.weights import COMMIT
from rerank.records import LoadedWeights, ModelSpec, Placement
from rerank.runs import Run
from rerank.store import Store

UNKNOWN = "unknown here: "  # before the words of a YAML file, in place of a revision
SECRETS = re.compile(r"://[^/?#]*@|[?&][^=]*(secret|password|token|access_key)[^=]*=", re.I)
LOCAL_SCHEMES = ("file", "local", "memory")  # stores of one machine or one process
AUTO = "auto"


@dataclass(frozen=True)
class Asked:
    """One model over all asked tasks. `family` is shared by all attempts at it on a cluster."""

    model: ModelSpec
    placement: Placement
    runs: tuple[Run, ...]
    fingerprint: str
    known: bool  # False: its weights cannot be identified here, only where it runs

    @property
    def family(self) -> str:
        return family_of(self.model.name, self.fingerprint)


def submission_suite(arguments: argparse.Namespace) -> tuple[Suite, Store, ClusterSpec]:
    """The suite, its store and the cluster it names; rules of the gate are left aside.

    ConfigError where no cluster is named. A choice of models need not hold the baseline.
    """
    chosen = parse_overrides(arguments.overrides)
    words = [*arguments.overrides, "gate=[]"]
    models = chosen.get("models")
    if isinstance(models, list) and models and "baseline" not in chosen:
        words.append(f"baseline={json.dumps(models[0])}")
    suite = load_suite(arguments.suite, words)
    if not suite.spec.cluster:
        raise ConfigError(
            f"rerank {arguments.verb} needs a cluster: cluster=NAME, a file in {suite.root}/"
            "clusters, or cluster=http://HOST:8265"
        )
    cluster = load_cluster(suite.root, suite.spec.cluster)
    if not cluster.dashboard:
        raise ConfigError(
            f"cluster '{cluster.name}' has no dashboard to submit to; write "
            "`dashboard: http://HOST:8265` into its file, or name cluster=http://HOST:8265"
        )
    return suite, Store(suite.spec.store), cluster


def submitted_models(arguments: argparse.Namespace) -> tuple[Suite, ClusterSpec, list[Asked]]:
    """What `rerank submit` of the same words asks for, from the store's frozen tasks alone."""
    suite, store, cluster = submission_suite(arguments)
    check_placements(suite, cluster)
    return suite, cluster, asked_of(suite, store, frozen_tasks(suite, store))


def check_store(suite: Suite, cluster: ClusterSpec) -> None:
    """ConfigError where the nodes of a cluster could not reach the store, or a URL holds a key."""
    root = suite.spec.store
    if SECRETS.search(root):
        raise ConfigError(
            "the store's URL holds credentials, which everyone who sees the dashboard could read; "
            "leave them out and set them on the nodes (AWS_PROFILE, a role, a secret)"
        )
    scheme = root.partition("://")[0] if "://" in root else "file"
    if cluster.local or (scheme == "file" and cluster.shared_store) or scheme not in LOCAL_SCHEMES:
        return
    raise ConfigError(
        f"the nodes of cluster '{cluster.name}' cannot see the store {root} of this machine; use a "
        "URL (store=s3://BUCKET/PREFIX), or set `shared_store: true` in the cluster's file where "
        "all nodes see that folder, or `local: true` where the cluster runs on this machine"
    )


def asked_of(suite: Suite, store: Store, tasks: Sequence[FrozenTask]) -> list[Asked]:
    """Every model of the suite over the tasks, in the suite's order."""
    return [_asked(store, tasks, model) for model in suite.models]


def _asked(store: Store, tasks: Sequence[FrozenTask], model: ModelSpec) -> Asked:
    weights = known_weights(model)
    placement = placement_of(model)
    identity = model_identity(model, placement, weights)
    known = not weights.revision.startswith(UNKNOWN)
    runs = tuple(Run(store, task, model.name, identity) for task in tasks)
    # the store is part of it: the same work for two stores is two pieces of work
    print_ = fingerprint(
        {"model": model.name, "store": str(store.root), "runs": [run.fingerprint for run in runs]}
    )
    if not known:
        runs = tuple(_run_in_store(run) for run in runs)
    elif not model.revision and COMMIT.fullmatch(weights.revision):
        model = replace(model, revision=weights.revision)  # what was newest when it was asked for
    return Asked(model, placement, runs, print_, known)


def check_placements(suite: Suite, cluster: ClusterSpec) -> None:
    """ConfigError where a model leaves to the cluster's machines what identifies its runs."""
    if cluster.local:
        return
    open_ = {
        model.name: [key for key in ("device", "dtype", "attention") if getattr(model, key) == AUTO]
        for model in suite.models
        if not ADAPTERS[model.adapter].weightless
    }
    left = {name: keys for name, keys in open_.items() if keys}
    if left:
        keys = sorted({key for found in left.values() for key in found})
        raise ConfigError(
            f"{', '.join(keys)} of {', '.join(left)} cannot be known on this machine, and they "
            f"identify the runs; state what the nodes of '{cluster.name}' use in its file (device: "
            "cuda, dtype: bfloat16, attention: sdpa) or in the models' files"
        )


def known_weights(model: ModelSpec) -> LoadedWeights:
    """What identifies a model's weights, without fetching them; UNKNOWN and its words if nothing.

    A folder or a package may be on the nodes alone, and the hub out of reach: then the job says
    what its weights are, or why it cannot load them.
    """
    try:
        return planned_weights(model)
    except ScoringError:
        words = f"{model.weights_from}:{model.weights}@{model.revision}"
        return LoadedWeights("", f"{UNKNOWN}{words}")


def _run_in_store(run: Run) -> Run:
    """The run of an unidentified model that the store holds, the fullest; else `run` itself.

    All but the weights must agree: task, recipe, dtype, attention.
    """
    store, found = run.store, []
    folder = f"runs/{run.task.name}/{run.model}"
    for print_ in store.folders(folder):
        record = store.read_record(f"{folder}/{print_}/run.json", {"identity", "task_fingerprint"})
        if record is None or record["task_fingerprint"] != run.task.fingerprint:
            continue
        identity: dict[str, Any] = record["identity"]
        if {**identity, "weights": run.identity["weights"]} == run.identity:
            found.append(replace(run, identity=identity))
    return max(found, key=lambda item: len(item.receipts()), default=run)


def stored_state(asked: Asked, max_failed_pairs: int, *, retry_failed: bool = False) -> str:
    """complete | incomplete | given up: what the store alone says, every score file checked.

    Given up: what is missing has failed for good, and only --retry-failed takes it up again.
    """
    missing = given_up = failed = 0
    for run in asked.runs:
        receipts = run.receipts()
        absent = {shard.number for shard in run.task.shards} - receipts.keys()
        missing += len(absent)
        given_up += len(absent & run.all_poisoned()) if absent else 0
        failed += max(0, sum(receipt["failed"] for receipt in receipts.values()) - max_failed_pairs)
    if not missing and not failed:
        return COMPLETE
    if retry_failed or missing > given_up:
        return INCOMPLETE
    return GIVEN_UP

"""What is wrong with a Kubernetes object, by its published schema and by KubeRay's own rules.

The schemas say nothing of what KubeRay checks in Go when it takes an object up, and name no values
for `submissionMode`. Those rules are written out below, each with the function it comes from: where
no other file is named, of ray-operator/controllers/ray/utils/validation.go in
github.com/ray-project/kuberay at commit feeaf72f (Apache-2.0). Fields behind a feature gate are
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator

HERE = Path(__file__).parent
SCHEMAS = {
    "ray.io/v1": "ray.io_v1.json",
    "monitoring.coreos.com/v1": "monitoring.coreos.com_v1.json",
    "networking.k8s.io/v1": "kubernetes_v1.json",
    "v1": "kubernetes_v1.json",
}
# JobSubmissionMode in ray-operator/apis/ray/v1/rayjob_types.go
SUBMISSION_MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")
# MaxRayClusterNameLength and MaxRayJobNameLength in utils/constant.go; generateName adds 5
NAME_LENGTHS = {"RayCluster": 53, "RayJob": 47}
SUFFIX = 5
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
QUALIFIED_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?")
RESOURCE_PARAMS = {"num-cpus", "num-gpus", "memory", "resources"}
TOKEN_SINCE = (2, 52)
GATED = ("networkPolicy", "tlsOptions", "historyServerOptions")

Spec = dict[str, Any]


class Rule(NamedTuple):
    """A condition on a spec that KubeRay requires."""

    source: str  # the Go function
    broken: str  # what is wrong where it does not hold
    holds: Callable[[Spec], bool]


def problems(document: Spec) -> list[str]:
    """Every reason why the object would be refused, or would not do what it says; [] is fine."""
    kind = str(document.get("kind"))
    found = [*_schema_problems(document, str(document.get("apiVersion")), kind)]
    found += _schema_problems(document.get("metadata"), "v1", "ObjectMeta")
    if kind in NAME_LENGTHS and not found:
        cluster = cluster_spec(document)
        found += _name_problems(document["metadata"], kind)
        found += _broken(RAY_JOB_RULES, document["spec"]) if kind == "RayJob" else []
        found += _broken(RAY_CLUSTER_RULES, cluster)
        for name, template in pod_templates(cluster).items():
            metadata = _schema_problems(template.get("metadata", {}), "v1", "ObjectMeta")
            found += [f"{name}: {problem}" for problem in metadata]
    return found


def cluster_spec(document: Spec) -> Spec:
    """The RayClusterSpec of a RayCluster or RayJob; {} where a job names an existing cluster."""
    spec: Spec = document["spec"]
    return spec if document["kind"] == "RayCluster" else spec.get("rayClusterSpec", {})


def pod_templates(cluster: Spec) -> dict[str, Spec]:
    """Group name -> pod template, the head's under `head`."""
    groups = cluster.get("workerGroupSpecs", [])
    head = {"head": cluster["headGroupSpec"]["template"]} if "headGroupSpec" in cluster else {}
    return {**head, **{group["groupName"]: group["template"] for group in groups}}


@cache
def _validator(version: str, kind: str) -> Draft202012Validator:
    content = json.loads((HERE / SCHEMAS[version]).read_text())
    return Draft202012Validator({"$defs": content["$defs"], **content["kinds"][kind]})


def _schema_problems(part: Any, version: str, kind: str) -> list[str]:
    if version not in SCHEMAS:
        return [f"apiVersion '{version}' is none of {', '.join(SCHEMAS)}"]
    content = json.loads((HERE / SCHEMAS[version]).read_text())
    if kind not in content["kinds"]:
        return [f"kind '{kind}' is none of {', '.join(content['kinds'])}"]
    errors = _validator(version, kind).iter_errors(part)
    return [f"{error.json_path}: {error.message[:300]}" for error in errors]


def _name_problems(metadata: Spec, kind: str) -> Iterator[str]:
    name = metadata.get("name") or metadata.get("generateName", "") + "x" * SUFFIX
    if len(name) > NAME_LENGTHS[kind]:
        yield f"metadata.name: more than {NAME_LENGTHS[kind]} characters (Validate{kind}Metadata)"
    if not DNS_1035.fullmatch(name):
        yield f"metadata.name: '{name}' is no DNS label (Validate{kind}Metadata)"


def _broken(rules: tuple[Rule, ...], spec: Spec) -> list[str]:
    return [f"{rule.broken} ({rule.source})" for rule in rules if spec and not rule.holds(spec)]


def _groups(cluster: Spec) -> list[Spec]:
    """The head's group and the worker groups."""
    return [cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", [])]


def _workers(cluster: Spec) -> list[Spec]:
    groups: list[Spec] = cluster.get("workerGroupSpecs", [])
    return groups


def _autoscaled(cluster: Spec) -> bool:
    return bool(cluster.get("enableInTreeAutoscaling"))


def _version_2(cluster: Spec) -> bool:
    return cluster.get("autoscalerOptions", {}).get("version") == "v2"


def _head_variables(cluster: Spec) -> dict[str, Any]:
    container = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


def _ray_version(cluster: Spec) -> tuple[int, ...]:
    words = str(cluster.get("rayVersion", "")).split(".")
    return tuple(int(word) for word in words[:2]) if all(w.isdigit() for w in words) else ()


def _is_mapping(text: str) -> bool:
    try:
        return isinstance(yaml.safe_load(text or "{}"), dict)
    except yaml.YAMLError:
        return False


RAY_JOB_RULES: tuple[Rule, ...] = (
    Rule(
        "JobSubmissionMode",
        f"submissionMode is none of {', '.join(SUBMISSION_MODES)}",
        lambda job: job.get("submissionMode", "K8sJobMode") in SUBMISSION_MODES,
    ),
    Rule(
        "ValidateRayJobSpec",
        "suspend needs shutdownAfterJobFinishes",
        lambda job: not job.get("suspend") or job.get("shutdownAfterJobFinishes", False),
    ),
    Rule(
        "ValidateRayJobSpec",
        "ttlSecondsAfterFinished is from 0",
        lambda job: job.get("ttlSecondsAfterFinished", 0) >= 0,
    ),
    Rule(
        "validateDeletionConfiguration",
        "ttlSecondsAfterFinished needs shutdownAfterJobFinishes",
        lambda job: (
            job.get("ttlSecondsAfterFinished", 0) <= 0 or job.get("shutdownAfterJobFinishes", False)
        ),
    ),
    Rule(
        "validateDeletionConfiguration",
        "deletionStrategy needs the feature gate RayJobDeletionPolicy",
        lambda job: "deletionStrategy" not in job,
    ),
    Rule(
        "ValidateRayJobSpec",
        "one of rayClusterSpec and clusterSelector must be set",
        lambda job: bool(job.get("rayClusterSpec") or job.get("clusterSelector")),
    ),
    Rule(
        "ValidateRayJobSpec",
        "clusterSelector goes with neither suspend, SidecarMode nor backoffLimit",
        lambda job: (
            not job.get("clusterSelector")
            or not (
                job.get("suspend")
                or job.get("submissionMode") == "SidecarMode"
                or job.get("backoffLimit", 0) > 0
            )
        ),
    ),
    Rule(
        "ValidateRayJobSpec",
        "InteractiveMode takes no backoffLimit",
        lambda job: (
            job.get("submissionMode") != "InteractiveMode" or job.get("backoffLimit", 0) <= 0
        ),
    ),
    Rule(
        "ValidateRayJobSpec",
        "SidecarMode takes neither submitterPodTemplate nor submitterConfig",
        lambda job: (
            job.get("submissionMode") != "SidecarMode"
            or not {"submitterPodTemplate", "submitterConfig"} & job.keys()
        ),
    ),
    Rule(
        "ValidateRayJobSpec",
        "authOptions.enableK8sTokenAuth is not supported for a RayJob",
        lambda job: (
            not job.get("rayClusterSpec", {}).get("authOptions", {}).get("enableK8sTokenAuth")
        ),
    ),
    Rule(
        "ValidateRayJobSpec",
        "runtimeEnvYAML is no YAML mapping",
        lambda job: _is_mapping(job.get("runtimeEnvYAML", "")),
    ),
    Rule(
        "ValidateRayJobSpec",
        "activeDeadlineSeconds and preRunningDeadlineSeconds are from 1, backoffLimit from 0",
        lambda job: (
            job.get("activeDeadlineSeconds", 1) > 0
            and job.get("preRunningDeadlineSeconds", 1) > 0
            and job.get("backoffLimit", 0) >= 0
        ),
    ),
)
RAY_CLUSTER_RULES: tuple[Rule, ...] = (
    Rule(
        "ValidateRayClusterSpec",
        "every group needs a container",
        lambda cluster: all(group["template"]["spec"]["containers"] for group in _groups(cluster)),
    ),
    Rule(
        "validateRayGroupResources",
        "resources stand in rayStartParams or in the group's resources, not in both",
        lambda cluster: (
            not any(
                RESOURCE_PARAMS & group.get("rayStartParams", {}).keys() and group.get("resources")
                for group in _groups(cluster)
            )
        ),
    ),
    Rule(
        "validateRayGroupLabels",
        "labels stand in the group's labels, not in rayStartParams",
        lambda cluster: not any("labels" in g.get("rayStartParams", {}) for g in _groups(cluster)),
    ),
    Rule(
        "validateRayGroupLabels",
        "a group's label is no Kubernetes label",
        lambda cluster: all(
            QUALIFIED_NAME.fullmatch(key) and LABEL_VALUE.fullmatch(value)
            for group in _groups(cluster)
            for key, value in group.get("labels", {}).items()
        ),
    ),
    Rule(
        "ValidateRayClusterSpec",
        "minReplicas is from 0 and not above maxReplicas",
        lambda cluster: all(
            0 <= group.get("minReplicas", 0) <= group.get("maxReplicas", 2**31 - 1)
            for group in _workers(cluster)
        ),
    ),
    Rule(
        "ValidateRayClusterSpec",
        "autoscaler v2 wants pods that are never restarted",
        lambda cluster: (
            not (_autoscaled(cluster) and _version_2(cluster))
            or all(
                template["spec"].get("restartPolicy", "Never") == "Never"
                for template in pod_templates(cluster).values()
            )
        ),
    ),
    Rule(
        "ValidateRayClusterSpec",
        "RAY_enable_autoscaler_v2 is set beside autoscalerOptions.version or without autoscaling",
        lambda cluster: "RAY_enable_autoscaler_v2" not in _head_variables(cluster),
    ),
    Rule(
        "ValidateRayClusterSpec",
        "autoscalerOptions.idleTimeoutSeconds is from 0",
        lambda cluster: cluster.get("autoscalerOptions", {}).get("idleTimeoutSeconds", 0) >= 0,
    ),
    Rule(
        "validateWorkerGroupIdleTimeout, validateWorkerGroupPriority",
        "a group's idleTimeoutSeconds and priority need autoscaler v2",
        lambda cluster: (
            _version_2(cluster)
            or not any({"idleTimeoutSeconds", "priority"} & g.keys() for g in _workers(cluster))
        ),
    ),
    Rule(
        "ValidateRayClusterSpec",
        "RAY_REDIS_ADDRESS needs gcsFaultToleranceOptions",
        lambda cluster: (
            "RAY_REDIS_ADDRESS" not in _head_variables(cluster)
            or "gcsFaultToleranceOptions" in cluster
        ),
    ),
    Rule(
        "ValidateRayClusterSpec",
        "a worker group is suspended, which neither the default gates nor the autoscaler take",
        lambda cluster: not any(group.get("suspend") for group in _workers(cluster)),
    ),
    Rule(
        "ValidateRayClusterSpec",
        f"authOptions.mode token needs a rayVersion from {'.'.join(map(str, TOKEN_SINCE))}",
        lambda cluster: (
            cluster.get("authOptions", {}).get("mode") != "token"
            or _ray_version(cluster) >= TOKEN_SINCE
        ),
    ),
    Rule(
        "ValidateRayClusterSpec",
        f"{', '.join(GATED)} need feature gates",
        lambda cluster: not any(field in cluster for field in GATED),
    ),
)

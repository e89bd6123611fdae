"""The cluster files against the tools that will read them.

Oracles: the published CRDs and KubeRay's own rules (tests/cluster/schemas), Ray's validator of
`ray up` files, hadolint, and this project's suite loader.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.__main__ import VERBS
from jobs.config import load_cluster, load_suite
from tests.cluster.schemas.kuberay import cluster_spec, pod_templates, problems
from tests.conftest import ROOT

FILES = ROOT / "cluster"
KUBERAY = sorted((FILES / "kuberay").glob("*.yaml"))
RAY_UP = sorted((FILES / "autoscaler").glob("*.yaml"))
IMAGE_ROOT = "/opt/rerank-replay"  # WORKDIR of the Dockerfile
Document = dict[str, Any]


def documents(file: Path) -> list[Document]:
    return list(yaml.safe_load_all(file.read_text()))


def named(file: str, kind: str) -> Document:
    return next(d for d in documents(FILES / "kuberay" / file) if d["kind"] == kind)


def at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[int(key) if key.isdigit() else key]
    return document


def tool(name: str) -> str:
    """A linter of the dev extra, beside the interpreter or on the PATH; skips without it."""
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    found = beside or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install -c constraints.txt -e '.[dev]'")
    return found


RAY_OBJECTS = [
    pytest.param(document, id=file.name)
    for file in KUBERAY
    for document in documents(file)
    if document["apiVersion"] == "ray.io/v1"
]


@pytest.mark.parametrize("file", KUBERAY, ids=lambda file: file.name)
def test_kubernetes_objects_are_valid(file: Path) -> None:
    assert [problems(document) for document in documents(file)] == [[] for _ in documents(file)]


FAULTS = [
    # a key that no schema knows
    ("spec.rayClusterSpec.workerGroupSpecs.0", "maxReplica", 8, "'maxReplica' was unexpected"),
    ("spec.rayClusterSpec.headGroupSpec.template.spec.containers.0", "imagee", "x", "'imagee' was"),
    ("spec", "entryPoint", "rerank", "'entryPoint' was unexpected"),
    ("metadata", "label", {"a": "b"}, "'label' was unexpected"),
    # a value of the wrong type or outside an enum of the CRD
    ("spec.rayClusterSpec.autoscalerOptions", "version", "v3", "'v3' is not one of"),
    ("spec.rayClusterSpec.authOptions", "mode", "tokens", "'tokens' is not one of"),
    ("spec", "backoffLimit", "0", "'0' is not of type 'integer'"),
    ("spec.rayClusterSpec.headGroupSpec.rayStartParams", "num-cpus", 0, "0 is not of type"),
    # what only KubeRay's Go code refuses
    ("spec", "submissionMode", "HttpMode", "submissionMode is none of"),
    ("spec", "shutdownAfterJobFinishes", False, "needs shutdownAfterJobFinishes"),
    ("spec", "activeDeadlineSeconds", 0, "activeDeadlineSeconds and preRunningDeadlineSeconds"),
    ("spec", "rayClusterSpec", None, "one of rayClusterSpec and clusterSelector"),
    ("spec", "runtimeEnvYAML", "env_vars: [", "runtimeEnvYAML is no YAML mapping"),
    ("spec.rayClusterSpec", "rayVersion", "2.51.0", "needs a rayVersion from 2.52"),
    ("spec.rayClusterSpec.workerGroupSpecs.0", "minReplicas", 9, "not above maxReplicas"),
    ("spec.rayClusterSpec.workerGroupSpecs.0", "resources", {"GPU": "1"}, "not in both"),
    ("spec.rayClusterSpec.workerGroupSpecs.0", "labels", {"a b": "c"}, "no Kubernetes label"),
    ("spec.rayClusterSpec.workerGroupSpecs.0.rayStartParams", "labels", "a=b", "not in rayStart"),
    ("spec.rayClusterSpec.workerGroupSpecs.0.template.spec", "restartPolicy", "Always", "never re"),
    ("metadata", "generateName", "rerank-" * 6 + "-", "more than 47 characters"),
    ("metadata", "generateName", "Rerank-", "no DNS label"),
]


@pytest.mark.parametrize(("path", "key", "value", "said"), FAULTS)
def test_a_seeded_fault_is_named(path: str, key: str, value: Any, said: str) -> None:
    job = copy.deepcopy(named("rayjob.yaml", "RayJob"))
    at(job, path)[key] = value
    if key == "resources":
        at(job, path)["rayStartParams"]["num-gpus"] = "1"
    if value is None:
        del at(job, path)[key]
    found = problems(job)
    assert any(said in problem for problem in found), found


def test_core_objects_are_checked_as_strictly() -> None:
    claim = named("store-pvc.yaml", "PersistentVolumeClaim")
    claim["spec"]["accessMode"] = claim["spec"].pop("accessModes")
    monitor = named("podmonitor.yaml", "PodMonitor")
    monitor["spec"]["podMetricsEndpoints"][0]["intervall"] = "15s"
    policy = named("access.yaml", "NetworkPolicy")
    policy["spec"]["ingress"][0]["form"] = policy["spec"]["ingress"][0].pop("from")
    for document, said in ((claim, "accessMode"), (monitor, "intervall"), (policy, "form")):
        assert any(f"'{said}' was unexpected" in problem for problem in problems(document))


def test_the_three_clusters_are_one_but_for_the_store() -> None:
    cluster = cluster_spec(named("raycluster.yaml", "RayCluster"))
    assert cluster_spec(named("rayjob.yaml", "RayJob")) == cluster
    # through JSON: YAML aliases make one object of head's and workers' parts
    shared = json.loads(json.dumps(cluster_spec(named("rayjob-pvc.yaml", "RayJob"))))
    claim = named("store-pvc.yaml", "PersistentVolumeClaim")["metadata"]["name"]
    for name, template in pod_templates(shared).items():
        pod = template["spec"]
        assert pod["volumes"].pop() == {
            "name": "store",
            "persistentVolumeClaim": {"claimName": claim},
        }
        container = pod["containers"][0]
        assert container["volumeMounts"].pop() == {"name": "store", "mountPath": "/store"}
        variables = {entry["name"]: entry for entry in container["env"]}
        assert variables["RERANK_STORE"]["value"].startswith("/store/")
        assert variables["RERANK_DATA"]["value"].startswith("/store/")
        # what is left of the pod is the other variant's
        container["env"] = pod_templates(cluster)[name]["spec"]["containers"][0]["env"]
    assert shared == cluster


@pytest.mark.parametrize("document", RAY_OBJECTS)
def test_pods_are_confined_bounded_and_private(document: Document) -> None:
    """The project's own rules: non-root, limits, shared memory, drain time, no public dashboard."""
    cluster = cluster_spec(document)
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert cluster["headGroupSpec"]["enableIngress"] is False
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["enableInTreeAutoscaling"] is True
    for name, template in pod_templates(cluster).items():
        pod = template["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert (
            container["resources"]["requests"]["memory"]
            == (container["resources"]["limits"]["memory"])
        )
        assert pod["terminationGracePeriodSeconds"] >= 60
        assert pod["automountServiceAccountToken"] is (name == "head")
        assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
        has_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
        tolerated = [entry["key"] for entry in pod.get("tolerations", [])]
        assert has_gpu is ("nvidia.com/gpu" in tolerated) is (name != "head")
        literal = {entry["name"] for entry in container["env"] if "value" in entry}
        assert not [name for name in literal if re.search("TOKEN|SECRET|PASSWORD|KEY", name)]


@pytest.mark.parametrize("document", [p for p in RAY_OBJECTS if p.values[0]["kind"] == "RayJob"])
def test_a_job_runs_a_command_that_exists(document: Document) -> None:
    """The suite of the entry point loads with its overrides; a retry would rebuild the cluster."""
    spec = document["spec"]
    assert (spec["submissionMode"], spec["backoffLimit"]) == ("HTTPMode", 0)
    assert spec["shutdownAfterJobFinishes"] is True
    words = shlex.split(spec["entrypoint"].replace(IMAGE_ROOT, str(ROOT)))
    command, verb, suite, *overrides = words
    assert command == "rerank"
    assert verb in VERBS
    loaded = load_suite(suite, overrides)
    cluster = load_cluster(loaded.root, loaded.spec.cluster)
    assert (cluster.address, cluster.device) == ("auto", "cuda")  # the head itself has no GPU
    # the pool does not grow with the cluster: it is as wide as the group may become
    assert loaded.spec.workers == spec["rayClusterSpec"]["workerGroupSpecs"][0]["maxReplicas"]
    assert loaded.spec.store == "$RERANK_STORE"  # the shell of the Jobs API fills it in


def test_only_named_peers_reach_the_pods() -> None:
    """All pods wear the label that the policy and the monitor select; nobody else gets the API."""
    policy = named("access.yaml", "NetworkPolicy")["spec"]
    monitor = named("podmonitor.yaml", "PodMonitor")["spec"]
    label = {"app": "rerank-replay"}
    assert policy["podSelector"] == monitor["selector"] == {"matchLabels": label}
    head_ports: set[str] = set()
    for parameter in RAY_OBJECTS:
        for name, template in pod_templates(cluster_spec(parameter.values[0])).items():
            assert label.items() <= template["metadata"]["labels"].items()
            if name == "head":
                head_ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= head_ports
    own, *others = policy["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": label}}]}
    for rule in others:
        assert all("namespaceSelector" in peer for peer in rule["from"])
        assert rule["ports"]
    reach_the_dashboard = [r for r in others if 8265 in [port["port"] for port in r["ports"]]]
    assert len(reach_the_dashboard) == 1
    (operator,) = reach_the_dashboard[0]["from"]
    assert operator["podSelector"] == {
        "matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}
    }


def checked_by_ray(config: Document) -> Document:
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared: Document = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


@pytest.mark.parametrize("file", RAY_UP, ids=lambda file: file.name)
def test_ray_takes_the_launcher_files(file: Path) -> None:
    from jsonschema import ValidationError

    (config,) = documents(file)
    prepared = checked_by_ray(config)
    with pytest.raises(ValidationError, match="max_worker"):
        checked_by_ray({**config, "max_worker": 2})
    types = prepared["available_node_types"]
    for name, kind in types.items():
        spot = "on-demand" if name == config["head_node_type"] else "spot"
        assert kind["labels"]["ray.io/market-type"] == spot
        assert ("spot" in json.dumps(kind["node_config"]).lower()) is (spot == "spot")
    assert types["head"]["resources"] == {"CPU": 0, "GPU": 0}
    assert prepared["idle_timeout_minutes"] <= 15
    start = next(c for c in prepared["head_start_ray_commands"] if "--head" in c)
    assert "--dashboard-host=127.0.0.1" in start
    assert "--env RAY_AUTH_MODE=token" in prepared["docker"]["run_options"]
    assert "/home/ray/.ray/auth_token" in prepared["file_mounts"]
    # Ray's own defaults install a nightly wheel
    assert [prepared[f"{who}setup_commands"] for who in ("", "head_", "worker_")] == [[], [], []]


def lint(text: str) -> list[str]:
    answer = subprocess.run(
        [tool("hadolint"), "--no-color", "--format", "json", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return [finding["code"] for finding in json.loads(answer.stdout)]


def test_the_dockerfile_lints() -> None:
    text = (FILES / "Dockerfile").read_text()
    assert lint(text) == []
    assert "DL3002" in lint(text + "USER root\n")  # the last user is root
    assert "DL3013" in lint(text + "RUN pip install --no-cache-dir mteb\n")  # no version


def test_the_image_holds_the_project_and_nothing_else() -> None:
    """Data, stores and secrets stay outside twice: by the ignore file and by what is copied."""
    lines = (FILES / "Dockerfile").read_text().splitlines()
    copied = {
        name
        for line in lines
        if line.startswith("COPY")
        for name in [word for word in line.split()[1:] if not word.startswith("--")][:-1]
    }
    ignore = (FILES / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages | {"configs", "pyproject.toml", "constraints.txt", "README.md", "LICENSE"} == (
        copied
    )
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 1000:100"
    assert f"WORKDIR {IMAGE_ROOT}" in lines
    assert not re.search(r"(TOKEN|SECRET|PASSWORD|API_KEY)=", "\n".join(lines))


def test_versions_agree() -> None:
    """Ray and Python must be the same on head, workers, driver and laptop, patch and minor."""
    constraints = dict(
        line.strip().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    )
    project = (ROOT / "pyproject.toml").read_text()
    (own,) = re.findall(r'^version = "(.*)"$', project, re.M)
    wanted = {constraints["ray"]}
    dockerfile = (FILES / "Dockerfile").read_text()
    ((base, python),) = re.findall(r"^FROM rayproject/ray:([\d.]+)-(py\d+)-", dockerfile, re.M)
    assert {base, *re.findall(r"ray\.__version__ == '([\d.]+)'", dockerfile)} == wanted
    assert re.findall(r"torch==([\d.]+)", dockerfile) == [constraints["torch"]]
    minor = python.removeprefix("py")
    assert f'python_version = "{minor[0]}.{minor[1:]}"' in project
    tag = f"{own}-ray{constraints['ray']}-{python}"
    texts = [file.read_text() for file in [*KUBERAY, *RAY_UP]]
    images = [image for text in texts for image in re.findall(r"rerank-replay:(\S+)", text)]
    assert set(images) == {tag}
    assert len(images) == 2 * len(RAY_OBJECTS) + len(RAY_UP)
    assert f"rerank-replay:{tag}" in dockerfile
    assert {cluster_spec(p.values[0])["rayVersion"] for p in RAY_OBJECTS} == wanted


@pytest.mark.parametrize("file", [*KUBERAY, *RAY_UP], ids=lambda file: file.name)
def test_the_header_says_what_to_change(file: Path) -> None:
    """Every placeholder of the text is named in the comment above it."""
    lines = file.read_text().splitlines()
    header = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    assert "# Change:" in header
    body = "\n".join(line for line in lines if not line.startswith("#"))
    for placeholder in set(re.findall(r"[\w-]*change-me[\w-]*(?:\.example\.com)?", body)):
        assert any(placeholder in line for line in header), placeholder
    assert not re.search(r"TODO|FIXME|XXX|<[A-Z_-]+>", "\n".join(lines))

"""Cut published schemas down to what the cluster files need, and make them strict.

    python -m tests.cluster.schemas.prune KUBERAY_CRDS PROMETHEUS_CRDS KUBERNETES_DEFINITIONS

writes `ray.io_v1.json`, `monitoring.coreos.com_v1.json` and `kubernetes_v1.json` beside this file.
The CRDs are 0.9 and 1.4 MB of YAML, mostly prose and the same pod template again and again; a
pruned file keeps what validates, says a repeated part once, and refuses unknown keys, which the
API server would drop without a word.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
Schema = dict[str, Any]

KEPT = (
    "enum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "required",
)
NESTED = ("allOf", "anyOf", "oneOf")
SHORT = 160  # characters below which a repeated part is cheaper written out

KUBERAY = (
    "github.com/ray-project/kuberay, ray-operator/config/crd/bases, commit "
    "feeaf72facab4881ba2b179248bb67315634e229 (v1.7.0-rc.0+5), Apache-2.0"
)
PROMETHEUS = (
    "github.com/prometheus-operator/prometheus-operator, example/prometheus-operator-crd, "
    "commit 6adcebc5076c34f4f55f8f5f7b1e528929373ac7 (v0.93.0), Apache-2.0"
)
KUBERNETES = (
    "github.com/kubernetes/kubernetes, OpenAPI definitions of v1.37, as JSON schema in the package "
    "kubernetes-validate 1.37.0 (v1.37.0-local-strict/_definitions.json), Apache-2.0"
)
CORE_KINDS = {
    "Namespace": "io.k8s.api.core.v1.Namespace",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "ObjectMeta": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
}


def pruned(schema: Schema) -> Schema:
    """The validating part of an OpenAPI schema as strict JSON schema."""
    kept: Schema = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        kept["type"] = ["integer", "string"]
        return kept  # its anyOf says the same again
    if "$ref" in schema:
        kept["$ref"] = f"#/$defs/{_short(schema['$ref'])}"
    if "type" in schema:
        kept["type"] = schema["type"]
    for key in NESTED:
        if key in schema:
            kept[key] = [pruned(part) for part in schema[key]]
    if "items" in schema:
        kept["items"] = pruned(schema["items"])
    if "properties" in schema:
        # the API server fills in defaults before it looks for what is required
        absent = [name for name in kept.get("required", []) if not _has_default(schema, name)]
        kept.pop("required", None)
        if absent:
            kept["required"] = absent
        kept["properties"] = {name: pruned(part) for name, part in schema["properties"].items()}
        kept["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        kept["additionalProperties"] = pruned(more)
    return kept


def _has_default(schema: Schema, name: str) -> bool:
    return "default" in schema["properties"].get(name, {})


def shared(kinds: dict[str, Schema]) -> Schema:
    """The kinds with every longer part that occurs twice moved to `$defs`."""
    seen: Counter[str] = Counter()
    for schema in kinds.values():
        seen.update(json.dumps(part, sort_keys=True) for part in _parts(schema))
    names: dict[str, str] = {}
    defs: dict[str, Schema] = {}

    def inner(schema: Schema) -> Schema:
        written = dict(schema)
        if "properties" in schema:
            written["properties"] = {
                name: put(part, name) for name, part in schema["properties"].items()
            }
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                written[key] = put(schema[key], key)
        return written

    def put(schema: Schema, hint: str) -> Schema:
        text = json.dumps(schema, sort_keys=True)
        if len(text) < SHORT or seen[text] < 2:
            return inner(schema)
        if text not in names:
            taken = sum(name.partition("-")[0] == hint for name in names.values())
            names[text] = f"{hint}-{taken + 1}" if taken else hint
            defs[names[text]] = inner(schema)
        return {"$ref": f"#/$defs/{names[text]}"}

    written = {kind: put(schema, kind) for kind, schema in kinds.items()}
    return {"kinds": written, "$defs": dict(sorted(defs.items()))}


def _parts(schema: Schema) -> Iterator[Schema]:
    """A schema and all schemas below it."""
    yield schema
    for part in schema.get("properties", {}).values():
        yield from _parts(part)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _parts(schema[key])


def crd(file: Path) -> Schema:
    """The v1 schema of a CRD file without its status; `metadata` is checked as ObjectMeta."""
    versions = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    schema = next(v for v in versions["spec"]["versions"] if v["name"] == "v1")
    kept = pruned(schema["schema"]["openAPIV3Schema"])
    kept["properties"].pop("status", None)
    kept["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return kept


def core(file: Path) -> Schema:
    """The core kinds with the definitions they refer to, by the last part of their names."""
    definitions = json.loads(file.read_text())["$defs"]
    wanted: dict[str, Schema] = {}
    todo = list(CORE_KINDS.values())
    while todo:
        name = todo.pop()
        if _short(name) not in wanted:
            definitions[name].get("properties", {}).pop("status", None)
            wanted[_short(name)] = pruned(definitions[name])
            todo += re.findall(r"\$defs/([\w.]+)", json.dumps(definitions[name]))
    kinds = {kind: {"$ref": f"#/$defs/{_short(name)}"} for kind, name in CORE_KINDS.items()}
    return {"kinds": kinds, "$defs": dict(sorted(wanted.items()))}


def _short(name: str) -> str:
    return re.split(r"[./]", name)[-1]


def write(name: str, source: str, content: Schema) -> None:
    text = json.dumps({"$comment": f"Pruned by prune.py from {source}", **content}, indent=0)
    (HERE / name).write_text(text.replace("\n", "") + "\n")


def main(kuberay: Path, prometheus: Path, kubernetes: Path) -> None:
    kinds = {
        kind: crd(kuberay / f"ray.io_{kind.lower()}s.yaml") for kind in ("RayCluster", "RayJob")
    }
    write("ray.io_v1.json", KUBERAY, shared(kinds))
    monitor = crd(prometheus / "monitoring.coreos.com_podmonitors.yaml")
    write(
        "monitoring.coreos.com_v1.json",
        PROMETHEUS,
        shared({"PodMonitor": monitor}),
    )
    write("kubernetes_v1.json", KUBERNETES, core(kubernetes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))

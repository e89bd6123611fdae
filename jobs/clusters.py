"""What a cluster is: where jobs are submitted, how wide they run, and what travels with them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from rerank.devices import ATTENTIONS, DEVICES, DTYPES
from rerank.errors import ConfigError, unknown_name
from rerank.records import ModelSpec

CODES = ("image", "working_dir")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ClusterSpec:
    """An existing Ray cluster (configs/clusters/NAME.yaml).

    `device`, `dtype` and `attention` say what `auto` in a model's file comes to on its workers, so
    that this machine, which may have no GPU, knows the identity of a run before it runs.
    """

    name: str
    address: str = "auto"  # as ray.init takes it: auto, HOST:6379, ray://HOST:10001
    dashboard: str = ""  # where jobs are submitted: http://127.0.0.1:8265
    description: str = ""
    workers: int | None = None  # actors a model; default: its share of the cluster
    max_concurrent: int | None = None  # jobs in flight; default: all that are submitted
    gpus: float | None = None  # that it may grow to; default: what it has now
    local: bool = False  # it runs on this machine, with this Python and these files
    shared_store: bool = False  # a local store is a folder that all its nodes see
    code: str = "image"  # image: its nodes have this project installed | working_dir: it is sent
    python: str = "python"  # the interpreter there, where `local` does not say it
    env: tuple[str, ...] = ()  # names of variables that its nodes must have; values never travel
    device: str = "auto"  # cpu | cuda
    dtype: str = "auto"  # float32 | bfloat16 | float16
    attention: str = "auto"  # eager | sdpa | flash_attention_2
    price_per_hour: float | None = None  # of one GPU


def check_cluster(spec: ClusterSpec, where: str) -> None:
    """ConfigError for a value that no key may have."""
    for key, value, known in (
        ("code", spec.code, CODES),
        ("device", spec.device, DEVICES),
        ("dtype", spec.dtype, DTYPES),
        ("attention", spec.attention, ATTENTIONS),
    ):
        if value not in known:
            raise unknown_name(f"{key} in {where}", value, known)
    for key in ("workers", "max_concurrent"):
        value = getattr(spec, key)
        if value is not None and value < 1:
            raise ConfigError(f"{where}: {key} must be at least 1, is {value}")
    for key in ("gpus", "price_per_hour"):
        value = getattr(spec, key)
        if value is not None and value < 0:
            raise ConfigError(f"{where}: {key} is from 0, is {value}")
    if not spec.python.strip():
        raise ConfigError(
            f"{where}: python must name an interpreter, such as python or /opt/bin/py"
        )
    for number, name in enumerate(spec.env, 1):
        if not VARIABLE.fullmatch(name):  # its text is not repeated: it may be a secret
            raise ConfigError(
                f"{where}: entry {number} of env is no name of a variable; list names alone, and "
                "set the values on the nodes, by the image or a secret"
            )
    _check_dashboard(spec, where)


def _check_dashboard(spec: ClusterSpec, where: str) -> None:
    try:
        parts = urlsplit(spec.dashboard)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if spec.dashboard and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ConfigError(
            f"{where}: dashboard must be a URL such as http://127.0.0.1:8265, is '{spec.dashboard}'"
        )
    if parts.username or parts.password or port == 0:
        raise ConfigError(
            f"{where}: dashboard must hold host and port alone; a token comes from "
            "RAY_AUTH_TOKEN_PATH"
        )
    if spec.local and spec.dashboard and parts.hostname not in LOOPBACK:
        raise ConfigError(
            f"{where}: local is for a cluster on this machine, but its dashboard is at "
            f"{parts.hostname}; leave local out, or correct dashboard"
        )


def placed_on(cluster: ClusterSpec, model: ModelSpec) -> ModelSpec:
    """The model with what `auto` in its file comes to on the cluster's workers, where it says so.

    Flash attention computes in halves alone: a model that states float32 takes sdpa instead.
    """
    on_cpu = model.device == "auto" and model.num_gpus == 0
    device = cluster.device if model.device == "auto" and not on_cpu else model.device
    dtype = cluster.dtype if model.dtype == "auto" else model.dtype
    attention = cluster.attention if model.attention == "auto" else model.attention
    if model.attention == "auto" and attention == "flash_attention_2" and dtype == "float32":
        attention = "sdpa"
    return replace(model, device=device, dtype=dtype, attention=attention)

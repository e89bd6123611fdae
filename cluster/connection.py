"""Connect to Ray: an embedded local one by default, or an existing cluster by address."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rerank.errors import ConfigError

# Set before Ray starts: what an embedded Ray must not do on somebody's laptop.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else a driver under `uv run` starts workers through uv
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # else every actor pool prints a scare of ray#53727
}
# An embedded Ray listens on loopback alone. On Linux `_node_ip_address="127.0.0.1"` is turned back
# into the outer address; this switch of Ray's, its default on macOS and Windows, is what it obeys.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
CONNECT_TIMEOUT = 10.0  # seconds
OBJECT_STORE_BYTES = 200 * 2**20  # descriptors and outcomes only: texts never pass through it


@contextmanager
def connected(address: str, num_cpus: int | None = None) -> Iterator[None]:
    """A Ray connection for the length of a `with` block; an embedded one if `address` is empty.

    ConfigError where the cluster does not answer or refuses the token.
    """
    for name, value in {**QUIET, **({} if address else LOOPBACK)}.items():
        os.environ.setdefault(name, value)
    if address:
        use_token()
        check_reachable(address)
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(**(_remote(address) if address else _embedded(num_cpus)))
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"cannot connect to Ray at '{address or 'local'}': {_first_line(error)}; check the "
            "address in configs/clusters and RAY_AUTH_TOKEN_PATH, or leave cluster= out"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """ConfigError where nothing listens at `HOST:PORT`: Ray itself would try for minutes."""
    target = _running_here() if address == "auto" else address
    host, _, port = target.removeprefix("ray://").rpartition(":")
    try:
        listens(host, int(port))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no Ray cluster answers at '{address}' ({error}); check the address in "
            "configs/clusters, or leave cluster= out"
        ) from error


def listens(host: str, port: int) -> None:
    """OSError where nothing takes a TCP connection there within CONNECT_TIMEOUT."""
    socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()


def use_token() -> None:
    """Show the Ray token of this machine, if it has one: a head that found one asks for it.

    To be called before Ray is imported, which reads the environment only then.
    """
    if _token_exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _running_here() -> str:
    """The address that Ray takes for `auto`: RAY_ADDRESS, or the cluster last started here."""
    file = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    return os.environ.get("RAY_ADDRESS") or (file.read_text().strip() if file.is_file() else "")


def _token_exists() -> bool:
    """Is there a Ray token where Ray itself looks for one?"""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return True
    default = Path.home() / ".ray" / "auth_token"
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH", default)).is_file()


def _embedded(num_cpus: int | None) -> dict[str, Any]:
    return {
        "address": "local",  # else Ray joins whatever cluster runs on this machine
        "num_cpus": num_cpus,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }


def _remote(address: str) -> dict[str, Any]:
    return {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__

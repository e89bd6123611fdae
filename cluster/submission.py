"""Ray's Jobs API, as far as submitting models needs it: submit, list, stop, logs, capacity.

A job's truth is its status, asked for again and again: log streams may stop early, and the end of
a stream says nothing (ray#51601, ray#60665). Jobs are never deleted, so their logs stay.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cluster.connection import QUIET, listens, use_token
from rerank.errors import ConfigError

PENDING, RUNNING, SUCCEEDED = "PENDING", "RUNNING", "SUCCEEDED"
FAILED, STOPPED = "FAILED", "STOPPED"
ACTIVE = (PENDING, RUNNING)
ADDRESSES = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")  # Ray lets them override any address given
MAX_NODES = 10_000
ENTRYPOINT_LINE = "Running entrypoint for job"
# Ray's loggers that tell of every upload
CHATTY = ("ray.dashboard.modules.dashboard_sdk", "ray._private.runtime_env.packaging")


class Unreachable(ConfigError):  # noqa: N818  (it is a state, not a mistake)
    """The dashboard does not answer; what runs on the cluster may go on."""


@dataclass(frozen=True)
class Job:
    """One submitted job, as the cluster knows it. Times are seconds since 1970."""

    id: str
    status: str  # PENDING | RUNNING | SUCCEEDED | FAILED | STOPPED
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def reason(self) -> str:
        """The last line of the message, where Ray puts the end of the log.

        Ray's own line about the command may be written after what a quick command said.
        """
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        told = [line for line in lines if not line.startswith(ENTRYPOINT_LINE)]
        return told[-1] if told else ""


class JobsApi:
    """The jobs of one cluster, by the URL of its dashboard.

    Every call raises ConfigError in one sentence: no answer (`Unreachable`), a missing or wrong
    token, or what the server says.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        _check_listening(self.url)
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        use_token()
        with self._asking(), _no_other_address():
            from ray.job_submission import JobSubmissionClient

            for name in CHATTY:
                logging.getLogger(name).setLevel(logging.WARNING)
            self.client = JobSubmissionClient(self.url)

    def jobs(self, prefix: str = "") -> dict[str, Job]:
        """Submitted jobs whose id begins with `prefix`, by id."""
        with self._asking():
            found = [_job(details) for details in self.client.list_jobs() if details.submission_id]
        return {job.id: job for job in found if job.id.startswith(prefix)}

    def job(self, id_: str) -> Job:
        with self._asking():
            return _job(self.client.get_job_info(id_))

    def submit(
        self, id_: str, entrypoint: str, runtime_env: dict[str, Any], metadata: dict[str, str]
    ) -> bool:
        """Submit a job; False where a job has this id already, as when two submit at once.

        The job asks for no GPU of its own: Ray cannot stop a job that waits for one (ray#58353).
        """
        with self._asking():
            try:
                self.client.submit_job(
                    entrypoint=entrypoint,
                    submission_id=id_,
                    runtime_env=runtime_env,
                    metadata=metadata,
                )
            except RuntimeError as error:
                if "already exists" not in str(error):
                    raise
                return False
        return True

    def stop(self, id_: str) -> None:
        """Ask a job to end; its status tells whether and when it did."""
        with self._asking():
            self.client.stop_job(id_)

    def logs(self, id_: str) -> str:
        """All that the job has printed so far."""
        with self._asking():
            return str(self.client.get_job_logs(id_))

    def capacity(self) -> dict[str, float]:
        """Total CPU and GPU of the nodes that live now."""
        from ray.util.state import list_nodes

        with self._asking(), _no_other_address():
            nodes = list_nodes(address=self.url, limit=MAX_NODES, timeout=30)
        living = [node.resources_total or {} for node in nodes if node.state == "ALIVE"]
        return {
            kind: sum(float(resources.get(kind, 0.0)) for resources in living)
            for kind in ("CPU", "GPU")
        }

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """What can go wrong between here and the dashboard, as one sentence."""
        import requests
        from ray.exceptions import AuthenticationError, RayError

        try:
            yield
        except AuthenticationError as error:
            raise ConfigError(_token_sentence(self.url, str(error))) from error
        except (ConnectionError, requests.exceptions.ConnectionError) as error:
            raise _unreachable(self.url, error) from error
        except (RuntimeError, ValueError, RayError, requests.exceptions.RequestException) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"the dashboard at {self.url} refuses: {first:.300}; check `dashboard` in the "
                "cluster's file, and the Ray versions here and there"
            ) from error


def _job(details: Any) -> Job:
    def seconds(milliseconds: int | None) -> float | None:
        return milliseconds / 1000 if milliseconds else None

    return Job(
        id=details.submission_id,
        status=getattr(details.status, "value", str(details.status)),
        message=details.message or "",
        metadata=dict(details.metadata or {}),
        started=seconds(details.start_time),
        ended=seconds(details.end_time),
    )


def _check_listening(url: str) -> None:
    """Unreachable where nothing listens: an HTTP request alone could wait for minutes."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        listens(parts.hostname or "", port)
    except OSError as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, error: Exception) -> Unreachable:
    return Unreachable(
        f"no Ray dashboard answers at {url} ({str(error):.200}); start the cluster or its port "
        "forwarding, or correct `dashboard` in its file"
    )


def _token_sentence(url: str, answer: str) -> str:
    file = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
    file = "RAY_AUTH_TOKEN" if os.environ.get("RAY_AUTH_TOKEN") else file
    remedy = "export RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE with the cluster's token"
    if "invalid" in answer.lower():
        return f"the cluster at {url} refuses the token of this machine ({file}); {remedy}"
    return f"the cluster at {url} asks for a token, and none is shown from here; {remedy}"


@contextmanager
def _no_other_address() -> Iterator[None]:
    """Without the variables by which Ray would go to another cluster than the one named."""
    kept = {name: os.environ.pop(name) for name in ADDRESSES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)

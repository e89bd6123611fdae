"""`rerank logs -f` and `rerank stop` against a cluster whose answers are scripted.

Oracle: the script. What a job prints last, as it ends, must be seen, and a job that does not stop
must be told.
"""

from __future__ import annotations

import pytest

from cluster.submission import PENDING, RUNNING, STOPPED, SUCCEEDED, Job
from jobs import logs, stop


class Scripted:
    """A cluster of one job: a list of (status, log), one step further at each look at it."""

    def __init__(self, *steps: tuple[str, str]) -> None:
        self.steps = list(steps)
        self.stopped = 0

    def job(self, id_: str) -> Job:
        return Job(id_, self.steps[0][0])

    def logs(self, id_: str) -> str:
        text = self.steps[0][1]
        if len(self.steps) > 1:
            self.steps.pop(0)
        return text

    def jobs(self, prefix: str) -> dict[str, Job]:
        status, _ = self.steps[0]
        if len(self.steps) > 1:
            self.steps.pop(0)
        return {"rerank-m-01-a1": Job("rerank-m-01-a1", status)}

    def stop(self, id_: str) -> None:
        self.stopped += 1


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "POLL", 0.0)
    monkeypatch.setattr(stop, "POLL", 0.0)


def test_the_tail_of_a_followed_log_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """The last lines come between the last look at a running job and its end."""
    api = Scripted(
        (PENDING, ""), (RUNNING, "one\ntw"), (RUNNING, "one\ntwo\n"), (SUCCEEDED, "one\ntwo\nend\n")
    )
    assert logs.follow(api, Job("rerank-m-01-a1", PENDING)).status == SUCCEEDED
    assert capsys.readouterr().out == "one\ntwo\nend\n"


def test_a_job_is_asked_to_stop_until_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    """While it is pending nobody hears; it is asked again when it runs."""
    api = Scripted((PENDING, ""), (RUNNING, ""), (STOPPED, ""))
    assert stop.stop_all(api, {"rerank-m-01-a1"}, 60.0) == {}
    assert api.stopped == 2
    assert capsys.readouterr().out == "rerank-m-01-a1: STOPPED\n"


def test_a_job_that_does_not_stop_is_returned() -> None:
    """As a job that waits for a node: Ray says that it was asked, and nothing happens."""
    api = Scripted((PENDING, ""))
    left = stop.stop_all(api, {"rerank-m-01-a1"}, 0.0)
    assert {id_: job.status for id_, job in left.items()} == {"rerank-m-01-a1": PENDING}

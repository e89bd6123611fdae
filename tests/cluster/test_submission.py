"""Submitting models to a real head: once, twice, at once, after a failure; stop, logs, table.

Oracle: what the cluster lists (one job an attempt, never two), and an inline replay of the suite.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.heads import Head, free_ports, ray_head
from tests.conftest import ROOT
from tests.jobs.small_suite import write_suite
from tests.standins.rerank_server import Asked, Reply, rerank_server

LIMIT = 150  # seconds: nothing here may hang
ELSEWHERE = "203.0.113.1:6379"  # Ray would go there, whatever address it is given

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with ray_head() as started:
        yield started


class Client:
    """The command line of somebody who knows the head's token."""

    def __init__(self, head: Head, folder: Path, models: dict[str, dict[str, object]]) -> None:
        self.head = head
        self.folder = folder
        self.words = [*write_suite(folder), "cluster=here"]
        self.write("clusters/here", {"dashboard": head.url, "local": True})
        for name, values in models.items():
            self.write(f"models/{name}", values)
        self.write(
            "suites/s", {"tasks": ["tiny"], "models": list(models), "baseline": [*models][0]}
        )

    def write(self, name: str, values: dict[str, object]) -> None:
        file = self.folder / f"configs/{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))

    def start(self, verb: str, *words: str, first: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "jobs", verb, *first, *self.words, *words],
            env={**self.head.environment, "RAY_ADDRESS": ELSEWHERE},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, verb: str, *words: str, first: tuple[str, ...] = ()) -> tuple[int, str, str]:
        process = self.start(verb, *words, first=first)
        out, err = process.communicate(timeout=LIMIT)
        return process.returncode, out, err

    def attempts(self) -> dict[str, list[str]]:
        """Model -> the last part of the ids of its jobs, as the cluster lists them."""
        code = (
            "import json, sys; from cluster.submission import JobsApi;"
            "jobs = JobsApi(sys.argv[1]).jobs().values();"
            "print(json.dumps({job.id: dict(job.metadata) for job in jobs}))"
        )
        answer = subprocess.run(
            [sys.executable, "-c", code, self.head.url],
            env=self.head.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, list[str]] = {}
        for id_, metadata in sorted(json.loads(answer.stdout).items()):
            if metadata["store"] == str(self.folder / "store"):
                found.setdefault(metadata["model"], []).append(id_.rpartition("-")[2])
        return found

    def rows(self) -> dict[str, dict[str, object]]:
        """Model -> its row of `rerank jobs`."""
        _, out, _ = self.run("jobs", "--json")
        return {row["model"]: row for row in json.loads(out)}


def served(url: str, **values: object) -> dict[str, object]:
    return {"adapter": "http", "url": url, "model": "m", "retries": 0, **values}


def falling(asked: Asked) -> Reply:
    """Scores that fall in the order of the documents."""
    count = len(asked.documents)
    results = [{"index": i, "relevance_score": 1 / (i + 1)} for i in range(count)]
    return Reply(body={"results": results})


def test_submitting_again_and_at_once_is_harmless(head: Head, tmp_path: Path) -> None:
    """Two at once make one job; while it runs it is left alone; stopped, the next attempt ends it.

    The served model answers only when it is let go, so that the job runs for as long as is wanted.
    """
    gate = threading.Event()
    with rerank_server() as server:
        server.always = lambda asked: falling(asked) if gate.wait(LIMIT) else None
        client = Client(head, tmp_path, {"served": served(server.url)})
        assert client.run("freeze")[0] == 0
        both = [client.start("submit") for _ in range(2)]
        said = [process.communicate(timeout=LIMIT) for process in both]
        assert [process.returncode for process in both] == [0, 0], said
        assert client.attempts() == {"served": ["a1"]}

        code, out, err = client.run("submit")
        assert code == 0, err
        assert "-a1 is on the cluster already, left alone" in out
        follower = client.start("logs", "-f", first=("served",))
        wait_for(lambda: bool(server.asked), follower)
        row = client.rows()["served"]
        assert (row["shards_done"], row["shards_total"]) == (0, 1)
        assert row["state"] in ("starting", "loading", "scoring")

        code, out, err = client.run("stop")
        assert (code, "-a1: STOPPED" in out) == (0, True), out + err
        text, end = follower.communicate(timeout=LIMIT)
        assert follower.returncode == 1
        assert "-m jobs replay configs/suites/s.yaml" in text
        assert "-a1: STOPPED" in end
        row = client.rows()["served"]
        assert row["state"] == "stopped"

        gate.set()
        code, out, err = client.run("submit", "--wait")
        assert code == 0, out + err
        assert client.attempts() == {"served": ["a1", "a2"]}
        assert "served: complete in the store" in out
    code, out, _ = client.run("stop")
    assert (code, "nothing to stop, SUCCEEDED" in out) == (0, True)
    # what is complete is known without the cluster
    client.write(
        "clusters/here", {"dashboard": f"http://127.0.0.1:{free_ports(1)[0]}", "local": True}
    )
    code, out, err = client.run("submit")
    assert (code, "complete in the store, skipped" in out) == (0, True), err
    assert client.attempts() == {"served": ["a1", "a2"]}


def test_a_model_that_cannot_load_fails_its_own_job(head: Head, tmp_path: Path) -> None:
    """The other model's job is done; put right, the failed one goes on under the next attempt.

    A queue of one: the second job is submitted when the first has ended, whatever its end.
    """
    with rerank_server() as server:
        server.always = falling
        models = {
            "served": served(server.url, key_variable="KEY_THAT_NO_NODE_HAS"),
            "overlap": {"adapter": "overlap"},
        }
        client = Client(head, tmp_path, models)
        code, out, err = client.run("submit", "--wait", "--max-concurrent", "1")
        assert code == 1, out + err
        assert "overlap: complete in the store" in out, client.run("logs", first=("overlap",))
        (failure,) = [line for line in out.splitlines() if line.startswith("served: FAILED")]
        assert "KEY_THAT_NO_NODE_HAS" in failure
        rows = client.rows()
        assert (rows["served"]["state"], rows["overlap"]["state"]) == ("failed", "complete")
        assert "KEY_THAT_NO_NODE_HAS" in str(rows["served"]["error"])
        code, text, _ = client.run("logs", first=("served",))
        assert (code, "KEY_THAT_NO_NODE_HAS" in text) == (0, True)

        client.write("models/served", served(server.url))
        code, out, err = client.run("submit", "--wait")
        assert code == 0, out + err
        assert "overlap: complete in the store, skipped" in out
    assert client.attempts() == {"served": ["a1", "a2"], "overlap": ["a1"]}
    files = (tmp_path / "store/runs/tiny").glob("*/*/receipts/*.json")
    assert sorted(file.parts[-4] for file in files) == ["overlap", "served"]


def test_code_and_required_variables_travel_by_name(head: Head, tmp_path: Path) -> None:
    """`code: working_dir` runs the code of this checkout; a variable that no node has is told."""
    client = Client(head, tmp_path, {"overlap": {"adapter": "overlap"}})
    here: dict[str, object] = {"dashboard": head.url, "local": True, "code": "working_dir"}
    client.write("clusters/here", {**here, "env": ["NO_NODE_HAS_THIS"]})
    code, out, err = client.run("submit", "--wait")
    assert code == 1, out + err
    assert "NO_NODE_HAS_THIS: is not set on the nodes" in out
    client.write("clusters/here", here)
    code, out, err = client.run("submit", "--wait")
    assert code == 0, out + err
    assert client.attempts() == {"overlap": ["a1", "a2"]}


@pytest.mark.parametrize(
    ("token", "words"),
    [(None, "asks for a token"), ("f" * 32, "refuses the token")],
)
def test_without_the_token_it_is_one_sentence(
    token: str | None, words: str, head: Head, tmp_path: Path
) -> None:
    """No token, or another one: exit 2, no traceback, and what to export."""
    environment = {k: v for k, v in head.environment.items() if not k.startswith("RAY_AUTH")}
    environment |= {"HOME": str(tmp_path), **({"RAY_AUTH_TOKEN": token} if token else {})}
    stranger = Head(head.url, head.folder, environment)
    client = Client(stranger, tmp_path, {"overlap": {"adapter": "overlap"}})
    code, _, err = client.run("submit")
    assert code == 2, err
    (line,) = [line for line in err.splitlines() if line.startswith("rerank submit:")]
    assert words in line
    assert "RAY_AUTH_TOKEN_PATH=FILE" in line
    assert "Traceback" not in err


def test_without_a_cluster_the_store_is_asked_alone(tmp_path: Path) -> None:
    """`submit` is one sentence at once; `jobs` says what the store holds, and that it is all."""
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    nobody = Head(url, tmp_path, dict(os.environ))
    client = Client(nobody, tmp_path, {"overlap": {"adapter": "overlap"}})
    code, _, err = client.run("submit")
    assert code == 2
    assert f"no Ray dashboard answers at {url}" in err
    code, _, err = client.run("submit", "--max-concurrent", "0")
    assert (code, "--max-concurrent must be at least 1" in err) == (2, True)
    code, out, err = client.run("jobs")
    assert code == 1
    assert "unknown, 0 of 1 shards in storage" in out
    assert "from storage alone" in err
    client.words.remove("cluster=here")
    assert client.run("replay")[0] == 0
    client.words.append("cluster=here")
    code, out, _ = client.run("jobs")
    assert (code, "complete" in out) == (0, True)


def wait_for(condition: Callable[[], bool], follower: subprocess.Popen[str]) -> None:
    """Until it is so; a follower of the job's log that ends before tells why it never will be."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert follower.poll() is None, follower.communicate()
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.1)

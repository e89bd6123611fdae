"""A whole suite with its store in a bucket: real processes against a real S3 server (moto).

Oracles: the same suite in a local folder (equal bytes), the log of what was forwarded, the
server's log of requests, and what another S3 client lists.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.__main__ import main
from rerank.models.adapters import ADAPTERS
from tests import faulty
from tests.conftest import ROOT
from tests.jobs.small_suite import write_suite
from tests.s3_server import KEYS, S3Server, s3_server

LIMIT = 150  # seconds: nothing here may hang


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3Server]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RERANK_CACHE", str(tmp_path / "cache"))
    with s3_server() as state:
        state.client().create_dir("bucket")
        yield state


class Bucket:
    """A store in the bucket, a task file, and a log of what was forwarded."""

    def __init__(self, server: S3Server, folder: Path, task_file: Path) -> None:
        self.server, self.task_file, self.log = server, task_file, folder / "log"

    def start(self, engine: str, delay: float = 0.0, **options: object) -> subprocess.Popen:
        words = [self.server.url("bucket/s"), str(self.task_file)]
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.faulty",
                *words,
                json.dumps({"engine": engine, **options}),
            ],
            cwd=ROOT,
            env={**os.environ, "FAULTY_LOG": str(self.log), "FAULTY_DELAY": str(delay)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> None:
        """To its end, with the inline engine in this process."""
        words = [self.server.url("bucket/s"), str(self.task_file), '{"engine": "inline"}']
        assert faulty.main(*words) == 0

    def receipts(self) -> dict[str, dict]:
        paths = [path for path in self.server.objects("bucket/s/runs") if "/receipts/" in path]
        return {Path(path).stem: json.loads(self.server.read(path)) for path in sorted(paths)}

    def scores(self) -> dict[str, bytes]:
        """Shard -> bytes of the score file that its receipt names."""
        files = {Path(p).name: p for p in self.server.objects("bucket/s/runs") if "/scores/" in p}
        return {
            shard: self.server.read(files[receipt["file"]])
            for shard, receipt in self.receipts().items()
        }

    def fetched(self) -> Counter[str]:
        """Candidate file -> how often it was asked for."""
        requests = self.server.requests
        return Counter(p for method, p, _ in requests if method == "GET" and "/candidates/" in p)

    def forwarded(self) -> Counter[str]:
        return Counter(self.log.read_text().splitlines()) if self.log.exists() else Counter()


@pytest.fixture
def bucket(
    server: S3Server,
    tmp_path: Path,
    make_task: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Bucket:
    monkeypatch.setitem(ADAPTERS, "faulty", None)  # what a run in this process registers goes again
    monkeypatch.setenv("FAULTY_LOG", str(tmp_path / "log"))
    task = tmp_path / "tiny.yaml"
    source = make_task(queries=24, documents=40)
    task.write_text(json.dumps({"folder": str(source), "depth": 10, "shard_pairs": 12}))
    return Bucket(server, tmp_path, task)


@pytest.fixture
def calm(bucket: Bucket, tmp_path: Path) -> dict[str, bytes]:
    """Shard -> score bytes of an undisturbed run in a local folder."""
    words = [str(tmp_path / "calm"), str(bucket.task_file), '{"engine": "inline"}']
    assert faulty.main(*words) == 0
    bucket.log.unlink()
    (folder,) = (tmp_path / "calm").glob("runs/*/*/*")
    receipts = [json.loads(file.read_text()) for file in sorted((folder / "receipts").iterdir())]
    return {f"{r['shard']:05d}": (folder / "scores" / r["file"]).read_bytes() for r in receipts}


def wait_for(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, process.communicate()[0][-2000:]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_that_is_killed_and_resumed(bucket: Bucket, calm: dict[str, bytes]) -> None:
    """SIGKILL in the middle: nothing committed is scored again, bytes as in the folder."""
    process = bucket.start("inline", delay=0.02)
    wait_for(lambda: len(bucket.receipts()) >= 3, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = bucket.receipts()
    assert 3 <= len(done) < len(calm)
    pairs = {
        f"{row['query_id']} {row['doc_id']}"
        for data in bucket.scores().values()
        for row in pq.read_table(io.BytesIO(data)).to_pylist()
    }
    forwarded = bucket.forwarded()
    bucket.finish()
    assert not pairs & (bucket.forwarded() - forwarded).keys()
    assert {name: bucket.receipts()[name]["file"] for name in done} == {
        name: receipt["file"] for name, receipt in done.items()
    }
    assert bucket.scores() == calm


def test_workers_of_ray_share_the_node_s_candidates(bucket: Bucket, calm: dict[str, bytes]) -> None:
    """Two actors, equal bytes; candidates are fetched once, by whichever actor came first."""
    process = bucket.start("ray", workers=2)
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, text[-2000:]
    assert bucket.scores() == calm
    assert (len(bucket.fetched()), set(bucket.fetched().values())) == (len(calm), {1})


def test_a_score_file_that_was_changed_is_scored_again(
    bucket: Bucket, calm: dict[str, bytes]
) -> None:
    """A listing does not see it: the check at the end does, in the same command.

    The node has the shard's candidates: they are not fetched again.
    """
    bucket.finish()
    (changed, *_) = [path for path in bucket.server.objects("bucket/s/runs") if "/scores/" in path]
    with bucket.server.client().open_output_stream(changed) as stream:
        stream.write(b"x")
    forwarded = bucket.forwarded()
    bucket.finish()
    again = bucket.forwarded() - forwarded
    assert 0 < sum(again.values()) < sum(forwarded.values())
    assert bucket.scores() == calm
    assert set(bucket.fetched().values()) == {1}


def test_requests_of_a_shard_are_few(bucket: Bucket) -> None:
    """Freezing, scoring and checking it: bounded, whatever the number of shards."""
    bucket.finish()
    shards = len(bucket.receipts())
    of_shards = [
        (method, path, query)
        for method, path, query in bucket.server.requests
        if any(f"/{kind}/" in path or f"{kind}%2F" in query for kind in PER_SHARD)
    ]
    assert len(of_shards) <= 24 * shards


PER_SHARD = ("receipts", "scores", "attempts", "failures", "candidates")


def test_every_verb_of_a_suite(
    server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers and the exported files are those of a local store; addresses are told."""
    suite, local = write_suite(tmp_path, {"a b": "d0"})
    remote = f"store={server.url('bucket/suite')}"
    for store in (local, remote):
        assert main(["run", suite, store]) == 0
        assert main(["export", suite, store, "--format", "trec", "beir"]) == 0
    told = capsys.readouterr().out
    assert "report: s3://bucket/suite/reports/s/report.html" in told
    assert "in s3://bucket/suite/exports/s/tiny" in told
    folder = tmp_path / "store"
    for file in sorted((folder / "exports").rglob("*")):
        if file.is_file():
            assert server.read(f"bucket/suite/{file.relative_to(folder)}") == file.read_bytes()
    for name in ("report.md", "tables.md", "tables.tex"):
        here, there = (folder / "reports/s" / name).read_text(), f"bucket/suite/reports/s/{name}"
        if name != "report.md":  # which tells the times of its run
            assert server.read(there).decode() == here
    assert main(["status", suite, remote]) == 0
    told = capsys.readouterr().out
    assert "report: s3://bucket/suite/reports/s/report.html" in told
    assert "overlap" in told
    assert "complete" in told
    verdict = server.url("bucket/elsewhere/verdict.json")
    assert main(["compare", suite, remote, "--verdict", verdict]) == 0
    assert json.loads(server.read("bucket/elsewhere/verdict.json"))
    assert main(["replay", suite, remote]) == 0
    assert "complete, nothing to score" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["tasks/tiny", "models/overlap", "suites/s"])
@pytest.mark.parametrize("name", ["../x", "..", ".", "a/b", "/etc/x", "a\\b", "a\0b", "a b", ""])
def test_names_that_lead_out_of_the_store(
    server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str
) -> None:
    """Names come from files: refused in one sentence before anything is written."""
    suite, _ = write_suite(tmp_path)
    file = tmp_path / f"configs/{kind}.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": name}))
    assert main(["run", suite, f"store={server.url('bucket/names')}"]) == 2
    message = capsys.readouterr().err.strip()
    assert "folder" in message or "NUL" in message or "YAML" in message
    assert message.count("\n") == 0
    assert server.objects("bucket") == {}


def test_a_bucket_that_is_missing_stops_a_run(
    server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, _ = write_suite(tmp_path)
    assert main(["run", suite, f"store={server.url('nobody/x')}"]) == 2
    message = capsys.readouterr().err.strip()
    assert "the bucket does not exist" in message
    assert "create it" in message
    assert message.count("\n") == 0

"""The Slurm script: sound by bash and shellcheck, and what it does with stand-ins for its commands.

Oracle: what each stand-in records of its calls. `srun` runs its command here; `ray` listens on the
head's port and waits; `rerank` does what a test tells it. Real Ray is left to the other tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.test_cluster_files import tool
from tests.conftest import ROOT

SCRIPT = ROOT / "cluster" / "slurm.sh"
PATIENCE = 30.0  # seconds

SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCONTROL = """#!/usr/bin/env bash
case $1 in
    show) printf '%s\\n' node-1 node-2 ;;
    *) echo "scontrol $*" >> "$RECORD" ;;
esac
"""
RAY = """#!/usr/bin/env bash
echo "ray $* mode=$RAY_AUTH_MODE token=${#RAY_AUTH_TOKEN} pid=$$" >> "$RECORD"
case $* in
    *--head*) ;;
    *) exec sleep 60 ;;
esac
[ "${HEAD:-}" != broken ] || exit 1
exec "$REAL_PYTHON" -c '
import os, socket, sys, time
port = next(w for w in sys.argv if w.startswith("--port=")).partition("=")[2]
server = socket.create_server(("127.0.0.1", int(port)))
time.sleep(1 if os.environ.get("HEAD") == "dies" else 60)
' "$@"
"""
PYTHON = """#!/usr/bin/env bash
cat > /dev/null
[ -z "${NODES:-}" ] || exit "$NODES"
until [ "$(grep -c '^ray ' "$RECORD")" -eq 2 ]; do sleep 0.05; done  # both nodes have joined
"""
RERANK = """#!/usr/bin/env bash
echo "rerank $*" >> "$RECORD"
[ "${DRIVER:-0}" = waits ] || exit "$DRIVER"
trap 'echo "rerank got TERM" >> "$RECORD"; kill "$!"; exit 1' TERM
sleep 60 &
wait
"""
STANDINS = {"srun": SRUN, "scontrol": SCONTROL, "ray": RAY, "python": PYTHON, "rerank": RERANK}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a Slurm job of two nodes, both of them this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in STANDINS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = f"{os.getpid()}{port}"
    yield {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RECORD": str(tmp_path / "record"),
        "REAL_PYTHON": sys.executable,
        "SLURM_JOB_ID": job,
        "SLURM_JOB_NODELIST": "node-[1-2]",
        "SLURM_CPUS_PER_TASK": "8",
        "SLURM_GPUS_ON_NODE": "4",
        "RERANK_HEAD_ADDRESS": "127.0.0.1",
        "RERANK_PORT": str(port),
        "DRIVER": "0",
    }
    shutil.rmtree(f"/tmp/rerank-{job}", ignore_errors=True)


def start(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(SCRIPT), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, standard error and what was recorded; nothing of the job may be left."""
    _, errors = process.communicate(timeout=PATIENCE)
    file = Path(environment["RECORD"])
    record = file.read_text() if file.exists() else ""
    for word in record.split():
        if word.startswith("pid="):
            assert not Path(f"/proc/{word[4:]}").exists(), record
    assert not Path(f"/tmp/rerank-{environment['SLURM_JOB_ID']}").exists()
    return process.returncode, errors, record


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_script_is_sound_bash() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    words = [tool("shellcheck"), "--severity=style", "-"]
    text = SCRIPT.read_text()
    answer = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert answer.stdout == ""
    seeded = text + "\nrm -rf $scratch/*\n"
    answer = subprocess.run(words, input=seeded, capture_output=True, text=True, check=False)
    assert "SC2086" in answer.stdout  # an unquoted variable


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_exit_code_is_that_of_rerank(environment: dict[str, str], code: int) -> None:
    environment["DRIVER"] = str(code)
    process = start(environment, "configs/suites/demo.yaml", "store=/shared/a b")
    returned, _, record = finish(process, environment)
    assert returned == code
    port = environment["RERANK_PORT"]
    head, worker = sorted(
        (line for line in record.splitlines() if line.startswith("ray ")),
        key=lambda line: "--head" not in line,
    )
    assert f"--node-ip-address=127.0.0.1 --port={port} --include-dashboard=false" in head
    assert f"ray start --address=127.0.0.1:{port}" in worker
    for line in (head, worker):
        assert "--num-cpus=8 --num-gpus=4" in line
        assert "--block mode=token token=64" in line  # 32 random bytes, in no word of the command
    expected = f"rerank run configs/suites/demo.yaml store=/shared/a b cluster=127.0.0.1:{port}"
    assert expected in record.splitlines()


def test_the_time_limit_reaches_the_driver(environment: dict[str, str]) -> None:
    """SIGTERM ahead of the limit: the driver ends its shards, the job goes back to the queue."""
    environment |= {"DRIVER": "waits", "RERANK_REQUEUE": "1"}
    process = start(environment, "configs/suites/demo.yaml")
    record = Path(environment["RECORD"])
    until(lambda: record.exists() and "rerank run" in record.read_text())
    process.send_signal(signal.SIGTERM)
    returned, errors, text = finish(process, environment)
    assert returned == 1
    assert "rerank got TERM" in text
    assert f"scontrol requeue {environment['SLURM_JOB_ID']}" in text
    assert "every committed shard is kept" in errors


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"HEAD": "broken"}, "the head ended while it started"),
        ({"HEAD": "dies", "DRIVER": "waits"}, "the head of the cluster ended before the suite"),
        ({"NODES": "1"}, "not all nodes joined in time"),
    ],
)
def test_what_breaks_is_said_and_cleaned_up(
    environment: dict[str, str], fault: dict[str, str], said: str
) -> None:
    environment |= fault
    returned, errors, _ = finish(start(environment, "configs/suites/demo.yaml"), environment)
    assert returned == 1
    assert said in errors


def test_wrong_input_starts_nothing(environment: dict[str, str]) -> None:
    returned, errors, record = finish(start(environment), environment)
    assert (returned, record) == (2, "")
    assert "no suite given" in errors
    outside = {**environment, "SLURM_JOB_ID": ""}
    process = start(outside, "configs/suites/demo.yaml")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "not inside a Slurm job" in errors

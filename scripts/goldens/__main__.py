"""Run the references in their environments: scripts/goldens/run --help. Standard library alone."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from scripts.goldens.compare import report

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "tests" / "golden"
# script -> environment, the authors' file that it needs
GENERATORS = {
    "flag_embedding": ("v4", None),
    "mxbai": ("v4", None),
    "qwen3": ("v5", "qwen3_readme"),
    "sentence_transformers_prompts": ("v5", None),
    "ctxl": ("v5", None),
    "nemotron": ("v5", "nemotron_model"),
}
SOURCES = {
    "qwen3_readme": "README.md of github.com/QwenLM/Qwen3-Embedding, commit f4ad0c4",
    "nemotron_model": "nemo_automodel/components/models/llama_bidirectional/model.py of "
    "github.com/NVIDIA-NeMo/Automodel, commit 36044ad",
}


def arguments() -> argparse.Namespace:
    """The command line. SystemExit names an authors' file that is missing."""
    parser = argparse.ArgumentParser(prog="scripts/goldens/run")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=f"of {', '.join(GENERATORS)}")
    parser.add_argument("--check", action="store_true", help="compare only, write no golden file")
    for name in ("v4", "v5"):
        parser.add_argument(
            f"--{name}",
            type=Path,
            metavar="PYTHON",
            help=f"python of an environment with requirements-{name}.txt (default: make one)",
        )
    for name, source in SOURCES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, metavar="FILE", help=source)
    given = parser.parse_args()
    given.scripts = given.scripts or list(GENERATORS)
    for script in given.scripts:
        if script not in GENERATORS:
            parser.error(f"no script '{script}'; there are {', '.join(GENERATORS)}")
        needed = GENERATORS[script][1]
        if needed and getattr(given, needed) is None:
            option = f"--{needed.replace('_', '-')}"
            parser.error(f"{script} needs {option} FILE: {SOURCES[needed]}; or name other scripts")
    return given


def environment(name: str, folder: Path) -> Path:
    """A new environment with the packages of requirements-NAME.txt; torch first, by itself."""
    print(f"making the {name} environment (some minutes)", flush=True)
    venv.create(folder / name, with_pip=True)
    python = folder / name / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    requirements = Path(__file__).with_name(f"requirements-{name}.txt")
    subprocess.run([*pip, "torch==2.13.0"], check=True)
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    return python


def run(python: Path, script: str, *options: str) -> None:
    """One script of this folder, offline, on one thread."""
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    command = [str(python), "-W", "ignore", "-m", f"scripts.goldens.{script}", *options]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **quiet}, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        sys.exit(f"{script} failed:\n{done.stderr}")


def main() -> int:
    """0 where every new file agrees with the committed one, or was written."""
    given = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pythons = {"v5": given.v5 or environment("v5", folder)}
        if any(GENERATORS[script][0] == "v4" for script in given.scripts):
            pythons["v4"] = given.v4 or environment("v4", folder)
        standins, out = folder / "standins", folder / "golden"
        out.mkdir()
        run(pythons["v5"], "standins", str(standins))
        for script in given.scripts:
            where, needed = GENERATORS[script]
            file = [f"--{needed.replace('_', '-')}", getattr(given, needed)] if needed else []
            options = ["--standins", standins, "--out", out, *file]
            run(pythons[where], script, *map(str, options))
        agree = report(out, COMMITTED)
        if given.check:
            return 0 if agree else 1
        for path in out.glob("*.json"):
            shutil.copy(path, COMMITTED / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Build every stand-in that the goldens use: python -m scripts.goldens.standins FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.standins import decoders, xlmr


def build_all(folder: Path) -> None:
    """One folder for each kind."""
    for kind in decoders.KINDS:
        decoders.build(kind, folder / kind)
    xlmr.build(folder / "xlmr")


if __name__ == "__main__":
    build_all(Path(sys.argv[1]))

"""New golden files against the committed ones: python -m scripts.goldens.compare NEW COMMITTED."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOLERANCE = 1e-5  # of an fp32 score


def read(path: Path) -> dict[str, Any]:
    """A golden file."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def differences(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """What differs beyond the tolerance of scores; versions may differ."""
    found = [key for key in ("standin", "settings") if new[key] != old[key]]
    if [row["name"] for row in new["rows"]] != [row["name"] for row in old["rows"]]:
        return [*found, "names of rows"]
    for row, before in zip(new["rows"], old["rows"], strict=True):
        found += [
            f"{row['name']}: {key}"
            for key in ("query", "document", "ids")
            if row[key] != before[key]
        ]
        if abs(row["score"] - before["score"]) > TOLERANCE:
            found.append(f"{row['name']}: score {before['score']} -> {row['score']}")
    return found


def largest_difference(new: dict[str, Any], old: dict[str, Any]) -> float:
    """Over the scores of rows of the same place."""
    pairs = zip(new["rows"], old["rows"], strict=False)
    return max(abs(row["score"] - before["score"]) for row, before in pairs)


def report(new_folder: Path, old_folder: Path) -> bool:
    """Print a line for each new file. Whether all agree."""
    agree = True
    for path in sorted(new_folder.glob("*.json")):
        committed = old_folder / path.name
        if not committed.exists():
            print(f"{path.stem}: not in {old_folder}")
            agree = False
            continue
        new, old = read(path), read(committed)
        found = differences(new, old)
        agree = agree and not found
        versions = "" if new["versions"] == old["versions"] else "; other versions"
        largest = f"largest score difference {largest_difference(new, old):.1e}{versions}"
        print(f"{path.stem}: {largest}" + "".join(f"\n  differs: {text}" for text in found))
    return agree


if __name__ == "__main__":
    sys.exit(0 if report(Path(sys.argv[1]), Path(sys.argv[2])) else 1)

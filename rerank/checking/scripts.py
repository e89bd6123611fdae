"""Which scripts a text is written in, counted letter by letter (Unicode blocks, no dependency).

A script is not a language: Latin may be English or Vietnamese, Han without Kana is mostly Chinese.
Digits, punctuation, signs and blanks are no letters and are not counted.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from metrics.arrays import Integers

MIXED = 0.8  # below this share of its letters in one script a text is mixed
BATCH = 4_000_000  # characters held as code points at a time

# script -> first and last code point of its ranges
RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": (
        *((0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xBA, 0xBA), (0xC0, 0xD6), (0xD8, 0xF6)),
        *((0xF8, 0x2B8), (0x1E00, 0x1EFF), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A)),
    ),
    "Greek": ((0x370, 0x373), (0x376, 0x377), (0x37A, 0x37D), (0x37F, 0x37F), (0x386, 0x386))
    + ((0x388, 0x3E1), (0x3F0, 0x3FF), (0x1F00, 0x1FFC)),
    "Cyrillic": ((0x400, 0x481), (0x48A, 0x52F), (0x1C80, 0x1C8A), (0xA640, 0xA66E)),
    "Hebrew": ((0x5D0, 0x5EA), (0x5EF, 0x5F2)),
    "Arabic": (
        *((0x620, 0x64A), (0x66E, 0x66F), (0x671, 0x6D3), (0x6EE, 0x6EF), (0x6FA, 0x6FC)),
        *((0x750, 0x77F), (0x8A0, 0x8C9), (0xFB50, 0xFBB1), (0xFBD3, 0xFD3D), (0xFE70, 0xFEFC)),
    ),
    "Devanagari": ((0x904, 0x939), (0x958, 0x961), (0x971, 0x97F)),
    "Bengali": ((0x985, 0x9B9), (0x9DC, 0x9E1), (0x9F0, 0x9F1)),
    "Telugu": ((0xC05, 0xC39), (0xC58, 0xC61)),
    "Thai": ((0xE01, 0xE30), (0xE32, 0xE33), (0xE40, 0xE46)),
    "Hangul": (
        *((0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xAC00, 0xD7A3)),
        *((0xD7B0, 0xD7FB), (0xFFA1, 0xFFDC)),
    ),
    "Kana": ((0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF))
    + ((0x31F0, 0x31FF), (0xFF66, 0xFF9D)),
    "Han": ((0x3005, 0x3006), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAD9))
    + ((0x20000, 0x323AF),),
}
SCRIPTS = (*RANGES, "other")
OTHER = len(RANGES)
NO_LETTER = OTHER + 1

# script that a text of this language is mostly written in; only what is sure
OF_LANGUAGE = {
    **dict.fromkeys(("cs", "de", "en", "es", "fi", "fr", "id", "it", "nl", "pl", "pt"), "Latin"),
    **dict.fromkeys(("sv", "sw", "tr", "vi", "yo"), "Latin"),
    **dict.fromkeys(("ru", "uk"), "Cyrillic"),
    **dict.fromkeys(("ar", "fa"), "Arabic"),
    **{"ko": "Hangul", "hi": "Devanagari", "bn": "Bengali", "te": "Telugu", "th": "Thai"},
}

_ROWS = sorted((low, high, at) for at, spans in enumerate(RANGES.values()) for low, high in spans)
_STARTS = np.array([low for low, _, _ in _ROWS], np.int64)
_ENDS = np.array([high for _, high, _ in _ROWS], np.int64)
_KINDS = np.array([at for _, _, at in _ROWS], np.int64)


def letter_counts(texts: Iterable[str]) -> Integers:
    """Letters of each script in each text: (n_texts, n_scripts) int64, columns as `SCRIPTS`."""
    parts = [_batch_counts(batch) for batch in _batches(texts)]
    return np.concatenate(parts) if parts else np.zeros((0, len(SCRIPTS)), np.int64)


def main_scripts(texts: Iterable[str]) -> Counter[str]:
    """How many texts are mainly of each script.

    A text is of the script that has MIXED of its letters or more; else it is `mixed`, named by its
    two most frequent scripts; without any letter it is `no letters`.
    """
    found: Counter[str] = Counter()
    for batch in _batches(texts):
        for row in _batch_counts(batch):
            found[script_of(row)] += 1
    return found


def script_of(counts: Integers) -> str:
    """The name for one text's letters: (n_scripts,) int64."""
    total = int(counts.sum())
    if not total:
        return "no letters"
    order: list[int] = np.argsort(-counts, kind="stable").tolist()
    first, second = order[:2]
    if counts[first] >= MIXED * total:
        return SCRIPTS[first]
    return f"mixed {' and '.join(sorted((SCRIPTS[first], SCRIPTS[second])))}"


def _batch_counts(texts: Sequence[str]) -> Integers:
    lengths = np.array([len(text) for text in texts], np.int64)
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds(points.astype(np.int64))
    owners = np.repeat(np.arange(len(texts)), lengths)
    flat = np.bincount(owners * (NO_LETTER + 1) + kinds, minlength=len(texts) * (NO_LETTER + 1))
    return flat.reshape(len(texts), NO_LETTER + 1)[:, :NO_LETTER].astype(np.int64)


def _kinds(points: Integers) -> Integers:
    """(n,) int64 index into SCRIPTS, NO_LETTER for what is no letter."""
    at = np.searchsorted(_STARTS, points, side="right") - 1
    inside = (at >= 0) & (points <= _ENDS[at])
    kinds = np.where(inside, _KINDS[at], NO_LETTER)
    rest, where = np.unique(points[~inside], return_inverse=True)
    letters = [unicodedata.category(chr(point)).startswith("L") for point in rest.tolist()]
    kinds[~inside] = np.where(np.array(letters, bool), OTHER, NO_LETTER)[where]
    return np.asarray(kinds, np.int64)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts, each closed once it holds BATCH characters."""
    source = iter(texts)
    while first := list(islice(source, 1)):
        size = len(first[0])
        for text in source if size < BATCH else ():
            first.append(text)
            size += len(text)
            if size >= BATCH:
                break
        yield first

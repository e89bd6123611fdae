"""Made-up Korean passages and queries, seeded: words by Zipf's law, particles and verb endings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

NOUNS = 60_000
ZIPF = 1.05  # exponent: how much more frequent the first words are than the last
MEAN_WORDS, SPREAD = 52, 0.45  # words of a passage: log-normal
BLOCK = 20_000  # passages drawn at once
# the syllables that made-up nouns are written with, frequent ones of real Korean
SYLLABLES = (
    "가각간감강개거건검견결경계고공과관교구국군권귀규극근금기김나남내년노농단달당대도독동두등라"
    "란람래량력로록론료류리마만말망매면명모목무문물미민박반방배백범법변병보복본부북분비사산상생"
    "서석선설성세소속손송수술숙순시식신실심아안양어언업여연영예오옥온완왕외요용우운원월위유육윤"
    "은음의이인일임입자작잔장재저적전절점정제조족종주죽준중증지직진질집차착창책천철청체초총추축"
    "출충치칠탐태토통특판편평포표품풍피필하학한합항해행향허현형호화환황회효후훈휘"
)
PARTICLES = ("은", "는", "이", "가", "을", "를", "의", "에", "에서", "로", "와", "과", "도", "")
VERBS = ("하였다", "했다", "되었다", "한다", "된다", "이다", "있다", "있었다", "하고", "되어")


@dataclass(frozen=True)
class Collection:
    """texts: document id -> passage. queries: texts of questions about words of some passages."""

    texts: dict[str, str]
    queries: list[str]


def collection(passages: int, queries: int, seed: int = 17) -> Collection:
    """The same passages and queries for the same numbers."""
    rng = np.random.default_rng(seed)
    nouns = _nouns(rng)
    texts: dict[str, str] = {}
    while len(texts) < passages:
        count = min(BLOCK, passages - len(texts))
        for text in _passages(nouns, count, rng):
            texts[f"{len(texts):07d}#{len(texts) % 7}"] = text
    ids = list(texts)
    chosen = rng.choice(len(ids), size=queries, replace=passages < queries)
    return Collection(texts, [_query(texts[ids[at]], rng) for at in chosen])


def _nouns(rng: np.random.Generator) -> np.ndarray:
    """Distinct words of two to four syllables, the most frequent first."""
    found: dict[str, None] = {}
    while len(found) < NOUNS:
        length = int(rng.choice([2, 3, 4], p=[0.6, 0.3, 0.1]))
        found.setdefault("".join(rng.choice(list(SYLLABLES), size=length)))
    return np.array(list(found), dtype=object)


def _passages(nouns: np.ndarray, count: int, rng: np.random.Generator) -> Iterator[str]:
    lengths = np.maximum(6, rng.lognormal(np.log(MEAN_WORDS), SPREAD, count)).astype(int)
    total = int(lengths.sum())
    weights = np.arange(1, len(nouns) + 1) ** -ZIPF
    edges = np.cumsum(weights / weights.sum())
    words = nouns[np.minimum(np.searchsorted(edges, rng.random(total)), len(nouns) - 1)]
    words = words + np.array(PARTICLES, dtype=object)[rng.integers(0, len(PARTICLES), total)]
    ends = rng.random(total) < 0.1  # a verb closes a sentence
    verbs = np.array(VERBS, dtype=object)[rng.integers(0, len(VERBS), total)]
    words = np.where(ends, words + " " + verbs + ".", words)
    for start, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
        yield " ".join(words[start : start + length])


def _query(passage: str, rng: np.random.Generator) -> str:
    """Some neighbouring words of a passage, as a question."""
    words = passage.split()
    length = int(rng.integers(3, 8))
    start = int(rng.integers(0, max(1, len(words) - length)))
    return " ".join(words[start : start + length]) + " 무엇인가?"

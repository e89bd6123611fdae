"""BPE vocabularies written down, not trained: the same under every release of tokenizers."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import pre_tokenizers

LABELS = ("yes", "no", "Yes", "No", "\n\n", "\n", "?\n", ".\n", ">\n")
# words of the literal templates, so that a frame is tens of tokens as it is in the real models
TEXT = """
system user assistant Judge whether the Document meets requirements based on Query and Instruct
provided Note that answer can only be or Given a web search query retrieve relevant passages that
answer passage determine contains by providing prediction of either question document query You are
Check given document contains information helpful to expert who evaluates how well documents match
search queries For each pair carefully analyze semantic relationship between them then provide your
binary relevance judgment not Relevance is created filter replace months every reset
"""
BARE = ("query", "document", "question", "system", "user", "assistant")
KOREAN = ("필터", "교체", "주기", "한글", " 필터", " 교체")
MARKS = ("<Instruct>:", "<Query>:", "<Document>:", "??", "...", "  ", "\t")

Merges = list[tuple[str, str]]


def byte_characters(text: str) -> str:
    """`text` in the characters that byte-level tokenizers write its UTF-8 bytes with."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(piece for piece, _ in level.pre_tokenize_str(text))


def pieces() -> list[str]:
    """Texts that are one token: labels first, so that no other merge can stand in their way."""
    words = list(dict.fromkeys(TEXT.split()))
    capital = [word for word in words if word[0].isupper()]
    spaced = [f" {word}" for word in words]
    return [*LABELS, *spaced, *capital, *BARE, *KOREAN, *MARKS]


def merges_of(texts: Iterable[str], alphabet: Iterable[str]) -> tuple[Merges, list[str]]:
    """Merges that join each text from its left end, and the vocabulary in the order of ids."""
    merges: Merges = []
    vocabulary = list(alphabet)
    known = set(vocabulary)
    for text in texts:
        left = text[0]
        for right in text[1:]:
            if left + right not in known:
                merges.append((left, right))
                vocabulary.append(left + right)
                known.add(left + right)
            left += right
    return merges, vocabulary


def byte_level() -> tuple[Merges, list[str]]:
    """Merges and vocabulary of a byte-level BPE; id 0 is "!", as in GPT-2, Qwen and Llama 3."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return merges_of(map(byte_characters, pieces()), alphabet)


def metaspace(specials: Iterable[str]) -> tuple[Merges, list[str]]:
    """Merges and vocabulary of a BPE with byte fallback: specials, bytes, ASCII, then merges."""
    ascii_characters = [chr(code) for code in range(33, 127)]
    alphabet = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "\n", "\t"]
    texts = [text.replace(" ", "▁") for text in pieces() if text.isascii()]
    return merges_of(texts, [*alphabet, *ascii_characters])

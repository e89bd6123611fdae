"""A prompt as its pieces: literal text around {query} and {document}, each piece tokenised alone.

Where a piece ends decides token ids: "?\\n" is one token where query and line break are joined and
two where they are pieces of their own. So a recipe states its pieces, not one string.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rerank.errors import ConfigError, ScoringError

QUERY, DOCUMENT, INSTRUCTION = "{query}", "{document}", "{instruction}"
FIELDS = re.compile(r"(\{query\}|\{document\})")


@dataclass(frozen=True)
class Piece:
    """Literals and fields (QUERY, DOCUMENT) in order; what stands between two pieces is a cut."""

    parts: tuple[str, ...]

    @property
    def has_field(self) -> bool:
        """Does it hold a text of the pair?"""
        return QUERY in self.parts or DOCUMENT in self.parts

    def render(self, query: str, document: str) -> str:
        """The text of this piece."""
        fields = {QUERY: query, DOCUMENT: document}
        return "".join(fields.get(part, part) for part in self.parts)

    def around_document(self, query: str) -> tuple[str, str]:
        """The text before and after the document."""
        place = self.parts.index(DOCUMENT)
        before, after = Piece(self.parts[:place]), Piece(self.parts[place + 1 :])
        return before.render(query, ""), after.render(query, "")

    def ends_with_only(self, field: str) -> bool:
        """Is `field` the only field of this piece, and its end?"""
        fields = [part for part in self.parts if part in (QUERY, DOCUMENT)]
        return fields == [field] and self.parts[-1] == field


@dataclass(frozen=True)
class Template:
    """A whole prompt; `document_piece` is the number of the piece that holds the document."""

    pieces: tuple[Piece, ...]
    document_piece: int

    @staticmethod
    def of(texts: Sequence[str], instruction: str) -> Template:
        """From the pieces of a YAML file. ConfigError: a field is missing, or an instruction."""
        whole = "\0".join(texts)
        if QUERY in instruction or DOCUMENT in instruction:
            raise ConfigError("an instruction holds no {query} or {document}; the prompt does")
        if whole.count(DOCUMENT) != 1 or QUERY not in whole:
            raise ConfigError(
                "a prompt holds {document} exactly once and {query} at least once; it holds them "
                f"{whole.count(DOCUMENT)} and {whole.count(QUERY)} times"
            )
        if (INSTRUCTION in whole) != bool(instruction):
            raise ConfigError(
                "`instruction` is written where the prompt says {instruction}: state both or none"
            )
        filled = [text.replace(INSTRUCTION, instruction) for text in texts]
        pieces = tuple(Piece(tuple(filter(None, FIELDS.split(text)))) for text in filled)
        place = next(n for n, piece in enumerate(pieces) if DOCUMENT in piece.parts)
        return Template(pieces, place)


def template_of_model(name: str, tokenizer: Any, messages: Sequence[str], instruction: str) -> str:
    """The prompt that the model's own chat template makes of messages, as one piece.

    messages: "ROLE: CONTENT" each, with the fields in the contents. ScoringError: the tokenizer has
    no chat template, or the template changes or drops a field.
    """
    import jinja2

    if not tokenizer.chat_template:
        raise ScoringError(
            f"model '{name}': its tokenizer has no chat template; write the prompt out as `prompt`"
        )
    turns = []
    for message in messages:
        role, colon, content = message.partition(": ")
        if not colon:
            raise ConfigError(f"message '{message}': write ROLE: CONTENT, as in user: {{query}}")
        turns.append({"role": role, "content": content.replace(INSTRUCTION, instruction)})
    try:
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except (jinja2.TemplateError, ValueError, TypeError) as error:
        raise ScoringError(
            f"model '{name}': its chat template refuses the messages ({error}); "
            "check their roles, or write the prompt out as `prompt`"
        ) from error
    if text.count(DOCUMENT) != 1 or QUERY not in text:
        raise ScoringError(
            f"model '{name}': its chat template does not keep the fields of the messages; "
            "write the prompt out as `prompt`"
        )
    return str(text)

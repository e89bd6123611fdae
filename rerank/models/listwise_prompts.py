"""One query and a window of its passages as the prompt of a model that writes their order.

Templates are the authors' literal strings; what is cut are the passages, all at the same length,
never the frame around them: the words that ask for the answer stand at the prompt's end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rerank.errors import ScoringError
from rerank.models.listwise_generation_params import USER, ListwiseGenerationParams
from rerank.models.transformer import token_ids

Ids = tuple[int, ...]


@dataclass(frozen=True)
class WindowPrompt:
    """The ids of a window's prompt, or why there are none. new_tokens: most of the answer;
    cuts: units kept and units had, one pair a passage."""

    ids: Ids
    new_tokens: int
    cuts: tuple[tuple[int, int], ...]
    refusal: str | None = None

    @property
    def truncated(self) -> tuple[bool, ...]:
        """Was a passage cut, one flag each."""
        return tuple(kept < whole for kept, whole in self.cuts)


class WindowReader:
    """Reads windows. max_length: most tokens of a prompt and its answer together."""

    def __init__(
        self, tokenizer: Any, params: ListwiseGenerationParams, *, max_length: int
    ) -> None:
        self.tokenizer = tokenizer
        self.params = params
        self.max_length = max_length
        self.fix = _fixer(params.fix_text)
        ids = self._ids(self.render("a query", ["a passage", "another"]))
        if tokenizer.bos_token_id is not None and ids.count(tokenizer.bos_token_id) > 1:
            raise ScoringError(
                f"the prompt begins with {tokenizer.bos_token} twice, from its template and from "
                "the tokenizer; set add_special_tokens: false"
            )

    def read(self, query: str, passages: Sequence[str]) -> WindowPrompt:
        """The prompt of a query and its passages, these cut alike until all fits."""
        count, limit = len(passages), self.params.passages_cap
        units = [self._units(self._fixed(passage)) for passage in passages]
        cap = limit / count if limit is not None else float(max(map(len, units)))
        while True:
            cap = max(1.0, cap)  # rank_llm's goes below, where its cuts are taken from the end
            prompt = self._prompt(query, units, int(cap))
            excess = len(prompt.ids) + prompt.new_tokens - self.max_length
            if excess <= 0:
                return prompt
            if int(cap) == 1:
                return replace(prompt, refusal=self._refusal(count))
            cap -= max(1, excess // (count * 4))  # rank_llm's step

    def _fixed(self, passage: str) -> str:
        return self.fix(passage.strip()) if self.params.fix_text else passage

    def _prompt(self, query: str, units: Sequence[Sequence[Any]], cap: int) -> WindowPrompt:
        kept = [unit[:cap] for unit in units]
        passages = [self._escaped(self._text(unit)) for unit in kept]
        return WindowPrompt(
            ids=self._ids(self.render(self._escaped(query), passages)),
            new_tokens=self.answer_tokens(len(units)),
            cuts=tuple(zip(map(len, kept), map(len, units), strict=True)),
        )

    def _refusal(self, count: int) -> str:
        return (
            f"the prompt of {count} passages cut to one of their {self.params.cap_unit} each has "
            f"more than the {self.max_length} tokens that the model reads and writes; raise "
            "max_length, or take a smaller window"
        )

    def answer_tokens(self, count: int) -> int:
        """Tokens of the answer about `count` passages: those of a whole permutation without the
        beginning-of-text token, as rank_llm counts, unless they are stated."""
        if self.params.max_new_tokens is not None:
            return self.params.max_new_tokens
        whole = " > ".join(f"[{rank}]" for rank in range(1, count + 1))
        return len(self._ids(whole)) - 1

    def render(self, query: str, passages: Sequence[str]) -> str:
        """The prompt as one string."""
        params = self.params
        named = {"num": len(passages), "query": query}
        asked = [
            params.passage.format(rank=rank, passage=passage)
            for rank, passage in enumerate(passages, 1)
        ]
        prefix, suffix = params.prefix.format(**named), params.suffix.format(**named)
        user = prefix + params.separator.join(asked) + suffix
        if params.frame is not None:
            return self.fix(params.frame.replace(USER, user))
        turns = [("system", params.system)] if params.system else []
        if params.prefix_reply:
            turns += [("user", prefix), ("assistant", params.prefix_reply.format(**named))]
            for rank, passage in enumerate(asked, 1):
                turns += [("user", passage), ("assistant", params.passage_reply.format(rank=rank))]
            user = suffix
        return self.fix(self._chat([*turns, ("user", user)]))

    def _chat(self, turns: Sequence[tuple[str, str]]) -> str:
        from jinja2 import TemplateError

        messages = [{"role": role, "content": content} for role, content in turns]
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except (TemplateError, ValueError) as error:
            raise ScoringError(
                f"the tokenizer's chat template does not take these turns ({error}); write the "
                "prompt around {user} as `frame`"
            ) from error
        return text

    def _ids(self, text: str) -> Ids:
        encoded = self.tokenizer(
            text, add_special_tokens=self.params.add_special_tokens, verbose=False
        )
        return tuple(encoded["input_ids"])

    def _escaped(self, text: str) -> str:
        return re.sub(r"\[(\d+)\]", r"(\1)", text) if self.params.escape_identifiers else text

    def _units(self, text: str) -> Sequence[Any]:
        """What `cap_unit` counts of a text: its words, its characters or its token ids."""
        if self.params.cap_unit == "words":
            return text.split()
        if self.params.cap_unit == "characters":
            return text
        return token_ids(self.tokenizer, [text], split_special_tokens=False)[0]

    def _text(self, units: Sequence[Any]) -> str:
        """Words are joined by one space each, whatever stood between them, as in rank_llm."""
        if isinstance(units, str):
            return units
        if self.params.cap_unit == "words":
            return " ".join(units)
        text: str = self.tokenizer.decode(list(units))
        return text


def _fixer(wanted: bool) -> Callable[[str], str]:
    if not wanted:
        return str
    from ftfy import fix_text

    fix: Callable[[str], str] = fix_text
    return fix

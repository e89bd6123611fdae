"""Settings of generative listwise rerankers, and the check that their templates are whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Formatter

from rerank.errors import ConfigError, unknown_name
from rerank.models.permutations import PARSERS, TOP_WINDOWS

CAP_UNITS = ("words", "characters", "tokens")
USER = "{user}"
FIELDS = {  # of each template
    "prefix": {"num", "query"},
    "passage": {"rank", "passage"},
    "suffix": {"num", "query"},
    "prefix_reply": {"num", "query"},
    "passage_reply": {"rank"},
}


@dataclass(frozen=True)
class ListwiseGenerationParams:
    """Settings of a generative listwise reranker. The defaults are RankZephyr's under rank_llm.

    system, prefix, passage, separator, suffix: the literal prompt, with {num} passages, {query},
        {rank} (from 1 on) and {passage} as str.format writes them.
    frame: literal text around {user}; null takes the tokenizer's own chat template.
    prefix_reply, passage_reply: the assistant's turns after the prefix and after each passage
        (RankGPT); both empty for one user turn.
    window, stride, passes: passages of a window, how far up the next begins, how often over all.
    top_window: see `permutations.windows`.
    passages_cap: units (`cap_unit`) of all passages of a window together; each gets its equal
        part, and less, by and by, until prompt and answer fit into max_length. rank_llm gives 300
        words each of twenty passages; words say little where none are written with spaces. null
        cuts only what does not fit.
    fix_text: strip passages, and repair them and the whole prompt with ftfy, as rank_llm does.
    escape_identifiers: write [1] inside a text as (1), so that it is no identifier.
    add_special_tokens: let the tokenizer add its own to the prompt (a beginning-of-text token).
    max_new_tokens: of the answer; null counts those of a whole permutation, as rank_llm does.
    exact_length: write that many tokens even where the model would end earlier (rank_llm's vLLM).
    repetition_penalty: of the generation; null demands a model whose own settings state none.
    parser: rank_llm takes identifiers as they come and completes them; strict takes a whole
        permutation or keeps the old order.
    max_fallback_share: largest share of a shard's windows whose answer is of no use at all.
    pad_token: an existing token to pad with, for tokenizers that have none.

    Special tokens written in a text are read as such, as rank_llm and mteb read them.
    """

    system: str = (
        "You are RankLLM, an intelligent assistant that can rank passages based on their "
        "relevancy to the query"
    )
    prefix: str = (
        "I will provide you with {num} passages, each indicated by a numerical identifier []. "
        "Rank the passages based on their relevance to the search query: {query}.\n"
    )
    passage: str = "[{rank}] {passage}\n"
    separator: str = ""
    suffix: str = (
        "Search Query: {query}.\nRank the {num} passages above based on their relevance to the "
        "search query. All the passages should be included and listed using identifiers, in "
        "descending order of relevance. The output format should be [] > [], e.g., [2] > [1], "
        "Answer concisely and directly and only respond with the ranking results, do not say any "
        "word or explain."
    )
    frame: str | None = None
    prefix_reply: str = ""
    passage_reply: str = ""
    window: int = 20
    stride: int = 10
    passes: int = 1
    top_window: str = "clipped"
    passages_cap: int | None = 6000
    cap_unit: str = "words"
    fix_text: bool = True
    escape_identifiers: bool = True
    add_special_tokens: bool = True
    max_new_tokens: int | None = None
    exact_length: bool = True
    repetition_penalty: float | None = None
    parser: str = "rank_llm"
    max_fallback_share: float = field(default=0.1, metadata={"identity": False})
    pad_token: str | None = None

    def __post_init__(self) -> None:
        for kind, known in (
            ("top_window", TOP_WINDOWS),
            ("cap_unit", CAP_UNITS),
            ("parser", PARSERS),
        ):
            if getattr(self, kind) not in known:
                raise unknown_name(kind, getattr(self, kind), known)
        if not 1 <= self.stride <= self.window or self.window < 2 or self.passes < 1:
            raise ConfigError(
                f"window {self.window}, stride {self.stride}, passes {self.passes}: give a window "
                "of at least 2, a stride from 1 to the window, and at least one pass"
            )
        if not 0 <= self.max_fallback_share <= 1:
            raise ConfigError(f"max_fallback_share {self.max_fallback_share}: give 0.0 to 1.0")
        _check_templates(self)


def _check_templates(params: ListwiseGenerationParams) -> None:
    """ConfigError: a template has a field that it may not have, or lacks one that it needs."""
    used = {name: _fields(name, getattr(params, name)) for name in FIELDS}
    for name, found in used.items():
        if found - FIELDS[name]:
            raise ConfigError(
                f"{name} holds {{{sorted(found - FIELDS[name])[0]}}}; it may hold "
                f"{', '.join(f'{{{field}}}' for field in sorted(FIELDS[name]))}"
            )
    if used["passage"] != FIELDS["passage"] or "query" not in used["prefix"] | used["suffix"]:
        raise ConfigError(
            "`passage` must hold {rank} and {passage}, and `prefix` or `suffix` the {query}"
        )
    if bool(params.prefix_reply) != bool(params.passage_reply):
        raise ConfigError("give both prefix_reply and passage_reply, or neither")
    if params.frame is None:
        return
    if params.frame.count(USER) != 1 or params.system or params.prefix_reply:
        raise ConfigError(
            "a frame holds {user} exactly once and is the whole prompt around it: leave `system`, "
            "`prefix_reply` and `passage_reply` empty"
        )


def _fields(name: str, template: str) -> set[str]:
    try:
        return {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise ConfigError(
            f"{name} is no template: {error}; write a brace as {{{{ or }}}}"
        ) from error

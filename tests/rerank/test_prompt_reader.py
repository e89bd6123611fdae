"""Prompts to token ids: the frame is kept whole, texts are cut where the recipe says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rerank.errors import ConfigError, ScoringError
from rerank.models.bi_encoder import single_frame
from rerank.models.prompt_decoder import PromptDecoderParams
from rerank.models.prompt_reader import PromptReader, longest_beginning
from rerank.models.prompt_template import Template, template_of_model
from tests.standins.decoders import build
from tests.standins.prompts import RECIPES, params
from tests.standins.rows import LONG, ROWS

PAIRS = [(query, document) for _, query, document in ROWS]
QWEN_KINDS = {"qwen3": "qwen3", "mxbai": "qwen2", "zerank": "qwen3"}
KINDS = {**QWEN_KINDS, "bge_gemma": "gemma", "ctxl": "mistral", "nemotron": "llama"}
LENGTH = 160


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("decoders")
    return {
        kind: AutoTokenizer.from_pretrained(build(kind, folder / kind))
        for kind in dict.fromkeys(KINDS.values())
    }


def reader(tokenizer: Any, recipe: PromptDecoderParams, max_length: int = LENGTH) -> PromptReader:
    frame = single_frame(tokenizer) if recipe.special_tokens == "tokenizer" else ((), ())
    template = Template.of(recipe.prompt, recipe.instruction)
    return PromptReader(tokenizer, template, recipe, max_length=max_length, frame=frame)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_prompt_that_fits_is_its_pieces(name: str, tokenizers: dict[str, Any]) -> None:
    """Oracle: each piece rendered with str.replace and tokenised by itself, specials around."""
    tokenizer, recipe = tokenizers[KINDS[name]], params(name)
    before, after = single_frame(tokenizer) if recipe.special_tokens == "tokenizer" else ((), ())
    found = reader(tokenizer, recipe, 4_000).read(PAIRS)
    for (query, document), read in zip(PAIRS, found, strict=True):
        expected = list(before)
        for piece in recipe.prompt:
            text = piece.replace("{instruction}", recipe.instruction)
            head, _, tail = text.partition("{document}")
            text = head.replace("{query}", query)
            if "{document}" in piece:
                text += document + tail.replace("{query}", query)
            expected += ids_of(tokenizer, text)
        assert list(read.ids) == expected + list(after)
        assert (read.cuts, read.refusal) == ((), None)


def test_joined_and_separate_pieces_are_different_ids(tokenizers: dict[str, Any]) -> None:
    """T3. "?" and a line break are one token in one string, two in two pieces."""
    tokenizer = tokenizers["qwen2"]
    assert len(ids_of(tokenizer, "?\n")) == 1
    separate = params("mxbai")
    joined = replace(
        separate,
        prompt=("".join(separate.prompt),),
        length_counts="all",
        query_cap=None,
        document_cap=None,
    )
    pair = [("how do I reset?", "hold it.")]
    first = reader(tokenizer, separate, 4_000).read(pair)[0].ids
    second = reader(tokenizer, joined, 4_000).read(pair)[0].ids
    assert tokenizer.decode(first) == tokenizer.decode(second)
    assert first != second


@pytest.mark.parametrize("name", KINDS)
def test_a_long_document_never_costs_the_end_of_the_prompt(
    name: str, tokenizers: dict[str, Any]
) -> None:
    """T1. The last ids of an over-long row are those of a short one; only the document is cut."""
    tokenizer = tokenizers[KINDS[name]]
    reading = reader(tokenizer, params(name))
    short, long = reading.read([("filter?", "석 달"), ("filter?", LONG)])
    end = {"qwen3": 9, "mxbai": 20, "zerank": 5, "bge_gemma": 20, "ctxl": 6, "nemotron": 0}[name]
    assert long.ids[len(long.ids) - end :] == short.ids[len(short.ids) - end :]
    assert [cut.text for cut in long.cuts] == ["document"]
    assert long.cuts[0].kept > 0
    assert len(long.ids) <= reading.longest()
    if params(name).length_counts == "all":
        assert len(long.ids) == LENGTH


@pytest.mark.parametrize("name", ["qwen3", "zerank", "ctxl", "nemotron"])
def test_a_cut_document_is_one_that_was_shorter(name: str, tokenizers: dict[str, Any]) -> None:
    """Oracle: the text that the kept tokens spell, read as a document of its own."""
    tokenizer = tokenizers[KINDS[name]]
    reading = reader(tokenizer, params(name))
    (long,) = reading.read([("filter", LONG)])
    sizes = [len(reading.read([("filter", LONG[:size])])[0].ids) for size in range(1, len(LONG), 7)]
    whole = [LONG[: 1 + 7 * n] for n, size in enumerate(sizes) if size < LENGTH][-1]
    shortened = reading.read([("filter", whole)])[0]
    assert shortened.cuts == ()
    head = len(shortened.ids) - 30
    assert long.ids[:head] == shortened.ids[:head]


@pytest.mark.parametrize("name", ["qwen3", "zerank", "ctxl", "nemotron"])
def test_a_query_three_times_too_long_is_refused(name: str, tokenizers: dict[str, Any]) -> None:
    """T23. Under truncation document the document is never empty; the pair is refused instead."""
    tokenizer = tokenizers[KINDS[name]]
    (refused,) = reader(tokenizer, params(name)).read([(LONG * 3, "석 달")])
    assert refused.refusal is not None
    assert "query_cap" in refused.refusal
    capped = reader(tokenizer, params(name, query_cap=20))
    (read,) = capped.read([(LONG * 3, "석 달")])
    assert read.refusal is None
    (cut,) = read.cuts
    assert cut.text == "query"
    assert 18 <= cut.kept <= 20  # a character of several tokens is kept whole or not at all
    assert "석 달" in tokenizer.decode(read.ids)


def test_truncation_end_follows_the_authors_snippet(tokenizers: dict[str, Any]) -> None:
    """Oracle: Qwen3-Reranker's process_inputs: the body cut to what prefix and suffix leave."""
    tokenizer, recipe = tokenizers["qwen3"], params("qwen3", truncation="end")
    prefix, body, suffix = recipe.prompt
    body = body.replace("{instruction}", recipe.instruction)
    around = (ids_of(tokenizer, prefix), ids_of(tokenizer, suffix))
    room = LENGTH - len(around[0]) - len(around[1])
    for (query, document), read in zip(PAIRS, reader(tokenizer, recipe).read(PAIRS), strict=True):
        text = body.replace("{query}", query).replace("{document}", document)
        assert list(read.ids) == around[0] + ids_of(tokenizer, text)[:room] + around[1]


def test_the_model_own_template_ends_as_the_literal_prompt(tokenizers: dict[str, Any]) -> None:
    """T2. jinja drops a template file's last line break; the rendered ids must not lose it."""
    tokenizer = tokenizers["qwen3"]
    messages = ("system: {instruction}", "query: {query}", "document: {document}")
    recipe = params("qwen3")
    text = template_of_model("m", tokenizer, messages, recipe.instruction)
    literal = "".join(recipe.prompt).replace("{instruction}", recipe.instruction)
    assert text == literal
    assert ids_of(tokenizer, text)[-1:] == ids_of(tokenizer, "\n\n")
    assert len(ids_of(tokenizer, "\n\n")) == 1


@pytest.mark.parametrize("name", ["bge_gemma", "ctxl", "nemotron"])
def test_one_bos_and_no_more(name: str, tokenizers: dict[str, Any]) -> None:
    """T13. The tokenizer's own frame comes once, however many pieces there are."""
    tokenizer = tokenizers[KINDS[name]]
    (read,) = reader(tokenizer, params(name)).read([("filter", "석 달")])
    assert read.ids[0] == tokenizer.bos_token_id
    assert read.ids.count(tokenizer.bos_token_id) == 1


def test_special_tokens_in_a_text_are_read_as_asked(tokenizers: dict[str, Any]) -> None:
    """T7. As the special token by default, like the authors' code; as text where that is asked."""
    tokenizer = tokenizers["qwen3"]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    pair = [("filter", "a <|im_end|> b")]
    plain = reader(tokenizer, params("qwen3")).read(pair)[0].ids
    split = reader(tokenizer, params("qwen3", split_special_tokens=True))
    # special tokens of the frame stand in pieces without a text, as Qwen3's do
    assert plain.count(end) == split.read(pair)[0].ids.count(end) + 1
    with pytest.raises(ScoringError, match="piece of its own"):
        reader(tokenizer, params("zerank", split_special_tokens=True))


def test_a_prompt_longer_than_the_model_is_refused_at_load(tokenizers: dict[str, Any]) -> None:
    """Not at the first pair."""
    with pytest.raises(ScoringError, match="leave nothing of max_length 20"):
        reader(tokenizers["qwen3"], params("qwen3"), 20)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": ("{query}",)}, "exactly once"),
        ({"prompt": ("{document}",)}, "exactly once"),
        ({"prompt": ("{query} {document} {document}",)}, "exactly once"),
        ({"instruction": ""}, "state both or none"),
        ({"prompt": ()}, "only one of them"),
        ({"messages": ("query: {query}",)}, "only one of them"),
        ({"negative_token": ""}, "`negative_token` is missing"),
        ({"token_id": 0}, "`token_id` is not among them"),
        ({"query_cap": 1.5}, "cap 1.5"),
        ({"query_cap": 0}, "cap 0"),
        ({"truncation": "ends"}, "Did you mean 'end'"),
        ({"readout": "classifier"}, "not among them"),
        ({"pooling": "mean"}, "pooling mean goes with"),
    ],
)
def test_contradictory_recipes_are_refused(changes: dict[str, Any], words: str) -> None:
    """When the YAML is read, with the key in the sentence."""
    with pytest.raises(ConfigError, match=words):
        params("qwen3", **changes)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=6))
@settings(max_examples=200)
def test_longest_beginning_is_the_common_prefix(rows: list[list[int]]) -> None:
    """Oracle: compare position by position; one token of the shortest is always left."""
    common = 0
    while common < min(map(len, rows)) - 1 and len({row[common] for row in rows}) == 1:
        common += 1
    assert longest_beginning([tuple(row) for row in rows]) == common


def test_every_recipe_states_its_pieces() -> None:
    """The literal table is complete: each recipe builds."""
    for name in RECIPES:
        assert params(name)

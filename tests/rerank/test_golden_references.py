"""Each reference did what its documentation says: literal prompts, caps, beginning tokens.

Oracles: the literal templates and rules of the authors' code, written out with the tokenizer alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

from tests.standins.goldens import GOLDENS, ids_of, scores_of, standin, token_ids
from tests.standins.rows import ROWS
from tests.standins.templates import END, INSTRUCTION, JUDGE

FRAME = f"<|im_start|>system\n{JUDGE}<|im_end|>\n<|im_start|>user\n"

Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A stand-in of a kind, built once."""
    root = tmp_path_factory.mktemp("standins")
    return lambda kind: standin(kind, root)


def tokenizer_of(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


def test_three_ways_to_qwen3_agree() -> None:
    """README functions, sentence-transformers and the converted classifier: ids and scores."""
    for other in ("qwen3_st", "seqcls"):
        assert ids_of(other) == ids_of("qwen3")
        np.testing.assert_allclose(scores_of(other), scores_of("qwen3"), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["qwen3", "qwen3_st", "seqcls"])
def test_qwen3_keeps_its_frame_on_every_row(name: str, folder: Folder) -> None:
    """Traps 1 and 2: prefix and suffix whole, and the last token is the one for two line breaks."""
    tokenizer = tokenizer_of(folder("qwen3"))
    prefix, suffix = token_ids(tokenizer, FRAME), token_ids(tokenizer, END)
    assert suffix[-1:] == token_ids(tokenizer, "\n\n")
    for row, ids in ids_of(name).items():
        assert ids[: len(prefix)] == prefix, row
        assert ids[-len(suffix) :] == suffix, row
    assert len(ids_of(name)["long_document"]) == GOLDENS[name]["settings"]["max_length"]


def test_literal_prompts(folder: Folder) -> None:
    """Each template written out, for a row that needs no cut, as its ids."""
    _, query, document = ROWS[0]
    qwen, mistral, llama = (tokenizer_of(folder(kind)) for kind in ("qwen3", "mistral", "llama"))
    body = f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
    assert ids_of("qwen3")["short"] == token_ids(qwen, FRAME + body + END)
    chat = f"<|im_start|>system\n{query}<|im_end|>\n<|im_start|>user\n{document}<|im_end|>\n"
    assert ids_of("zerank")["short"] == token_ids(qwen, chat + "<|im_start|>assistant\n")
    task = "Check whether a given document contains information helpful to answer the query."
    asked = f"{task}\n<Document> {document}\n<Query> {query}"
    assert ids_of("ctxl")["short"] == token_ids(qwen, f"{asked} ??")
    instructed = token_ids(mistral, f"{asked} Prefer the manual. ??")
    assert ids_of("ctxl_6b")["short"] == [mistral.bos_token_id, *instructed]
    pair = token_ids(llama, f"question:{query} \n \n passage:{document}")
    assert ids_of("nemotron")["short"] == [llama.bos_token_id, *pair]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("flag_llm_reranker", "gemma"), ("ctxl_6b", "mistral"), ("nemotron", "llama")],
)
def test_one_beginning_token(name: str, kind: str, folder: Folder) -> None:
    """Trap 13. Only texts that contain the token themselves may bring another."""
    tokenizer = tokenizer_of(folder(kind))
    for (_, query, document), ids in zip(ROWS, ids_of(name).values(), strict=True):
        inside = (query + document).count(tokenizer.bos_token)
        assert ids[0] == tokenizer.bos_token_id
        assert ids.count(tokenizer.bos_token_id) == 1 + inside


def test_mxbai_joins_pieces_that_were_tokenised_apart(folder: Folder) -> None:
    """Trap 3: "filter?" and "\n" stay two tokens, where one string would make "?\n" one."""
    tokenizer = tokenizer_of(folder("qwen2"))
    (joined,) = token_ids(tokenizer, "?\n")
    mark, line = token_ids(tokenizer, "?") + token_ids(tokenizer, "\n")
    _, query, document = next(row for row in ROWS if row[0] == "question")
    ids = ids_of("mxbai")["question"]
    pieces = (f"query: {query}", "\n", f"document: {document}", "\n")
    apart = [token for piece in pieces for token in token_ids(tokenizer, piece)]
    start = next(at for at in range(len(ids)) if ids[at : at + len(apart)] == apart)
    assert ids[start : start + len(apart)].count(joined) == 1  # inside the document alone
    end_of_query = start + len(token_ids(tokenizer, pieces[0]))
    assert ids[end_of_query - 1 : end_of_query + 1] == [mark, line]
    assert token_ids(tokenizer, "".join(pieces)) != apart


def test_flag_embedding_caps(folder: Folder) -> None:
    """Query to three quarters of max_length, document to the rest; the prompt is not counted."""
    plain, gemma = tokenizer_of(folder("xlmr")), tokenizer_of(folder("gemma"))
    query, document = next(row[1:] for row in ROWS if row[0] == "both_long")
    first, second = token_ids(plain, query)[:96], token_ids(plain, document)
    pair = [0, *first, 2, 2, *second]
    assert ids_of("flag_reranker")["both_long"] == [*pair[:127], 2]
    prompt = token_ids(
        gemma,
        "Given a query A and a passage B, determine whether the passage contains an answer to the "
        "query by providing a prediction of either 'Yes' or 'No'.",
    )
    line = token_ids(gemma, "\n")
    asked = [gemma.bos_token_id, *token_ids(gemma, f"A: {query}")[:96]]
    whole = [*asked, *line, *token_ids(gemma, f"B: {document}")[:128]]
    room = 128 + len(line) + len(prompt)
    assert ids_of("flag_llm_reranker")["both_long"] == [*whole[:room], *line, *prompt]


def test_mxbai_caps(folder: Folder) -> None:
    """Query to three quarters, query and document to max_length together, the frame beside it."""
    tokenizer = tokenizer_of(folder("qwen2"))
    query, document = next(row[1:] for row in ROWS if row[0] == "both_long")
    asked = [*token_ids(tokenizer, f"query: {query}")[:192], *token_ids(tokenizer, "\n")]
    content = [*asked, *token_ids(tokenizer, f"document: {document}")][:256]
    ids = ids_of("mxbai")["both_long"]
    frame = len(ids) - 256
    short = ids_of("mxbai")["empty_document"]
    texts = [*token_ids(tokenizer, "query: filter\n"), *token_ids(tokenizer, "document: ")]
    assert frame == len(short) - len(texts) > 0
    assert any(ids[at : at + 256] == content for at in range(frame + 1))

"""Token blocks: some documents as counts of tokens, under a vocabulary of their own.

A corpus is tokenised block by block, wherever there are processors, and `merged` by whoever asked:
the words of a block are told once, all else that travels is integers. What comes out does not
depend on where blocks were cut or worked on.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

import numpy as np

from rerank.analyzers import analyzer, analyzer_versions
from rerank.errors import RerankError

BLOCK_DOCUMENTS = 2**14  # at most; a document's number within its block fits 16 bits
BLOCK_CHARACTERS = 2**20  # small, so that no processor is left waiting for the last block
DROPPED = 2**32 - 1  # the id of a piece that is no token


@dataclass(frozen=True)
class TokenBlock:
    """Documents as counts of tokens. Postings are sorted by token, then document.

    lengths: (n_documents,) uint32, tokens of each. vocabulary: the distinct tokens in the order in
    which they first occur. document_counts: (n_vocabulary,) uint32, documents that hold each.
    documents: (n_postings,) uint16, number within the block; frequencies: (n_postings,) uint16 or
    uint32, how often. versions: of what decides the tokens, where the block was made.
    """

    lengths: np.ndarray
    vocabulary: list[str]
    document_counts: np.ndarray
    documents: np.ndarray
    frequencies: np.ndarray
    versions: dict[str, str]


# (analyzer name, texts by block) -> their blocks, in the same order
Tokenise = Callable[[str, Iterable[Sequence[str]]], Iterator[TokenBlock]]


class _Numbers(dict[str, int]):
    """Piece -> number of its token; a piece is read once, when it is first seen."""

    def __init__(self, token: Callable[[str], str]) -> None:
        super().__init__()
        self.token = token
        self.vocabulary: dict[str, int] = {}

    def __missing__(self, piece: str) -> int:
        token = self.token(piece)
        known = self.vocabulary
        number = self[piece] = known.setdefault(token, len(known)) if token else DROPPED
        return number


def token_block(analyzer_name: str, texts: Sequence[str]) -> TokenBlock:
    """The block of at most 2**16 texts. ConfigError where the analyzer is not installed."""
    analyze = analyzer(analyzer_name)
    numbers = _Numbers(analyze.token)
    look_up = numbers.__getitem__
    flat, ends = array("I"), array("Q")
    for text in texts:
        flat.extend(map(look_up, analyze.split(text)))
        ends.append(len(flat))
    pieces = np.frombuffer(flat, dtype=np.uint32) if flat else np.empty(0, np.uint32)
    counts = np.diff(np.array([0, *ends], dtype=np.int64))
    owners = np.repeat(np.arange(len(texts)), counts.tolist())
    kept = pieces != DROPPED
    return _counted(pieces[kept], owners[kept], len(texts), list(numbers.vocabulary), analyzer_name)


def _counted(
    tokens: np.ndarray, owners: np.ndarray, n: int, vocabulary: list[str], analyzer_name: str
) -> TokenBlock:
    """Occurrences (token number, document number) as sorted postings with frequencies."""
    pairs = tokens.astype(np.int64) * max(n, 1) + owners
    pairs.sort()
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    frequencies = np.diff(starts, append=len(pairs))
    narrow = np.uint16 if frequencies.max(initial=0) < 2**16 else np.uint32
    found = pairs[starts]
    return TokenBlock(
        lengths=np.bincount(owners, minlength=n).astype(np.uint32),
        vocabulary=vocabulary,
        document_counts=np.bincount(found // max(n, 1), minlength=len(vocabulary)).astype(
            np.uint32
        ),
        documents=(found % max(n, 1)).astype(np.uint16),
        frequencies=frequencies.astype(narrow),
        versions=analyzer_versions(analyzer_name),
    )


def blocks_of_texts(
    texts: Iterable[str], documents: int = BLOCK_DOCUMENTS, characters: int = BLOCK_CHARACTERS
) -> Iterator[list[str]]:
    """The texts in order, in lists closed by whichever bound is met first."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if len(block) == documents or size >= characters:
            yield block
            block, size = [], 0
    if block:
        yield block


def tokenise_here(analyzer_name: str, blocks: Iterable[Sequence[str]]) -> Iterator[TokenBlock]:
    """Block after block in this process."""
    return (token_block(analyzer_name, texts) for texts in blocks)


def tokenise_in_processes(processes: int) -> Tokenise:
    """Processes of this machine, few blocks ahead: memory does not grow with the corpus.

    RerankError where one of them is ended (most often for want of memory).
    """

    def tokenise(analyzer_name: str, blocks: Iterable[Sequence[str]]) -> Iterator[TokenBlock]:
        pending = iter(blocks)
        # spawned, not forked: a fork of a process with threads may never start
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            waiting: deque[Future[TokenBlock]] = deque(
                pool.submit(token_block, analyzer_name, texts)
                for texts in islice(pending, 2 * processes)
            )
            while waiting:
                yield _made(waiting.popleft())
                for texts in islice(pending, 1):
                    waiting.append(pool.submit(token_block, analyzer_name, texts))

    return tokenise


def _made(block: Future[TokenBlock]) -> TokenBlock:
    try:
        return block.result()
    except BrokenProcessPool as error:
        raise RerankError(
            "a process that tokenised the corpus was ended, most often for want of memory; "
            "free memory or set workers=1, then run the same command again"
        ) from error


def processors() -> int:
    """How many processors this process may use."""
    count = getattr(os, "sched_getaffinity", None)
    return len(count(0)) if count else os.cpu_count() or 1

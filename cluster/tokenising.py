"""Tokenise on Ray: blocks of a corpus as tasks, a few ahead, taken back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from cluster.fanout import embedded_or
from rerank.errors import RerankError
from rerank.first_stage.token_blocks import TokenBlock, Tokenise, token_block, tokenise_here

MAX_AHEAD = 64  # blocks under way, of some megabytes each: one driver feeds them all
RETRIES = 3  # of a block whose worker or node was lost


def tokenise_on_ray(address: str = "", num_cpus: int | None = None) -> Tokenise:
    """One task a block, a CPU each, on the cluster at `address` (or an embedded Ray).

    A corpus of a single block is tokenised here: no cluster is worth asking for it. RerankError
    where a node cannot do it, in that node's words.
    """

    def tokenise(analyzer_name: str, blocks: Iterable[Sequence[str]]) -> Iterator[TokenBlock]:
        pending = iter(blocks)
        first = list(islice(pending, 2))
        if len(first) < 2:
            yield from tokenise_here(analyzer_name, first)
            return
        with embedded_or(address, num_cpus):
            yield from _spread(analyzer_name, chain(first, pending))

    return tokenise


def _spread(analyzer_name: str, blocks: Iterable[Sequence[str]]) -> Iterator[TokenBlock]:
    import ray

    task = ray.remote(num_cpus=1, max_retries=RETRIES)(token_block)
    ahead = min(MAX_AHEAD, 2 * max(1, int(ray.cluster_resources().get("CPU", 1))))
    waiting: deque[Any] = deque()
    for texts in blocks:
        if len(waiting) >= ahead:
            yield _made(waiting.popleft())
        waiting.append(task.remote(analyzer_name, texts))
    while waiting:
        yield _made(waiting.popleft())


def _made(block: Any) -> TokenBlock:
    import ray
    import ray.exceptions

    try:
        made: TokenBlock = ray.get(block)
    except ray.exceptions.RayTaskError as error:
        raise RerankError(f"a node could not tokenise the corpus: {error.cause}") from error
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        raise RerankError(
            f"the workers that tokenised the corpus were lost {RETRIES + 1} times ({reason}); "
            "give the nodes more memory, or tokenise here without cluster="
        ) from error
    return made

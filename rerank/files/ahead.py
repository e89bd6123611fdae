"""Files read one ahead: the next is read while the last one is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def read_ahead(reads: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """What each of `reads` returns, in their order; at most two are in memory ahead of the caller.

    The first error in this order is raised, whichever came first in time.
    """
    with ThreadPoolExecutor(2) as threads:
        waiting: deque[Future[Any]] = deque()
        for read in reads:
            waiting.append(threads.submit(read))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

"""Served rerankers: an HTTP server scores a query's documents, and its scores are taken as served.

What the server does with the texts (template, truncation, precision, activation) cannot be seen
from here; a run says so, and says which model and revision its operator claims.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rerank.errors import ScoringError
from rerank.models.contract import Contract, Reading
from rerank.models.http_dialects import (
    DIALECTS,
    Question,
    as_float32,
    look_like_probabilities,
    read_scores,
)
from rerank.models.http_params import RECIPE, HttpParams, key_of, settings_of
from rerank.models.pointwise import empty_scores
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup

if TYPE_CHECKING:
    from rerank.models.http_client import Client

ClientKind = TypeVar("ClientKind", bound="Client")


@dataclass(frozen=True)
class Request:
    """Payload of an item: a body, and the documents it asks about, `rows` of group `group`."""

    body: bytes
    digest: str  # of the body
    group: int
    rows: range


class ServedReranker:
    """A reranker behind HTTP; see `Scorer`. One item is one request.

    An item's `tokens` is its number of documents, so that a token budget makes batches of some
    dozens of requests; within a batch, `concurrency` of them are on their way at once. The `tokens`
    of the scores are 0 (not known: servers count per request, if at all), `truncated` is false for
    the same reason.

    Scores arrive as JSON numbers and are kept in float32, as all scores are. Distinct ones that
    become equal by that are counted as `collapsed`, within each request.

    An answer may have cost money, so what was answered is kept until its shard is combined: a shard
    that failed and is tried again in this process asks only for what is missing. After a failure
    nothing more is sent, but requests on their way are waited for, and kept.
    """

    costs_money = True

    def __init__(self, params: HttpParams, client: Client) -> None:
        self.params = params
        self.dialect = DIALECTS[params.dialect]
        self.client = client
        self.answered: dict[str, np.ndarray | str] = {}  # by digest of the request

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """One item per request: a query's whole list, or parts of `documents_per_request`."""
        items = []
        for number, group in enumerate(groups):
            size = self.params.documents_per_request or max(1, len(group))
            for start in range(0, len(group), size):
                rows = range(start, min(start + size, len(group)))
                items.append(self._item(number, group, rows))
        return items

    def _item(self, number: int, group: QueryGroup, rows: range) -> Item:
        question = Question(
            group.query,
            group.documents[rows.start : rows.stop],
            self.params.model,
            self.params.truncate,
        )
        body = json.dumps(self.dialect.body(question) | self.params.extra_body).encode()
        first, last = group.doc_ids[rows.start], group.doc_ids[rows.stop - 1]
        return Item(
            payload=Request(body, hashlib.sha256(body).hexdigest(), number, rows),
            tokens=len(rows),
            truncated=False,
            label=f"query '{group.query_id}', documents '{first}' to '{last}'",
        )

    def forward(self, items: Sequence[Item]) -> list[np.ndarray | str]:
        """Per item (documents + 1,) float32: the scores in the order sent, then the number of
        collapsed ones; or why the server refuses the input.

        ScoringError: a request that got no answer after all retries, a wrong key, url or model, or
        an answer without exactly one finite score a document.
        """
        waiting = {
            item.payload.digest: item for item in items if item.payload.digest not in self.answered
        }
        self._ask_all(list(waiting.values()))
        return [self.answered[item.payload.digest] for item in items]

    def _ask_all(self, items: Sequence[Item]) -> None:
        from rerank.models.http_client import Stopped

        stop = threading.Event()
        with ThreadPoolExecutor(self.params.concurrency) as pool:
            asked = [pool.submit(self._ask, item, stop) for item in items]
            try:
                wait(asked, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()  # also where the user interrupts: queued requests are not sent
        errors = [error for future in asked if (error := future.exception())]
        for error in errors:
            if not isinstance(error, Stopped):
                raise error

    def _ask(self, item: Item, stop: threading.Event) -> None:
        from rerank.models.http_client import Refused

        request = item.payload
        try:
            answer = self.client.post(request.body, item.label, stop)
            if isinstance(answer, Refused):
                self.answered[request.digest] = answer.reason
            else:
                self.answered[request.digest] = self._row(answer.value, item)
        except BaseException:
            stop.set()  # here, before this thread takes the next request
            raise

    def _row(self, answer: Any, item: Item) -> np.ndarray:
        try:
            scores = read_scores(self.dialect, answer, len(item.payload.rows))
        except ScoringError as error:
            problem = self.client.said(str(error))
        else:
            rounded, collapsed = as_float32(scores)
            return np.append(rounded, np.float32(collapsed))
        raise ScoringError(f"{item.label}: {self.client.url}: {problem}")

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        """See `Scorer.combine`. counts: `requests`; `collapsed` scores; and, where all scores of
        the shard lie in [0, 1], `looks_like_probabilities` scores."""
        results = empty_scores(groups)
        reasons: list[list[str | None]] = [[None] * len(group) for group in groups]
        counts = [{"requests": 0, "collapsed": 0, "looks_like_probabilities": 0} for _ in groups]
        for item, output, failure in zip(items, outputs, failures, strict=True):
            rows, number = item.payload.rows, item.payload.group
            counts[number]["requests"] += 1
            for row in rows:
                reasons[number][row] = failure
            if output is not None:
                results[number].scores[rows.start : rows.stop] = output[:-1]
                counts[number]["collapsed"] += int(output[-1])
            self.answered.pop(item.payload.digest, None)
        scored = [result.scores[~np.isnan(result.scores)] for result in results]
        if look_like_probabilities(np.concatenate(scored or [np.empty(0)])):
            for count, scores in zip(counts, scored, strict=True):
                count["looks_like_probabilities"] = len(scores)
        return [
            GroupScores(result.scores, result.tokens, result.truncated, tuple(reason), count)
            for result, reason, count in zip(results, reasons, counts, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`: the same for all shards of a run. Where nobody states a revision,
        the url stands for it, so that one run is not scored half by one server, half by another."""
        pinned = bool(self.params.model_revision)
        return facts(self.params) | {"url": None if pinned else self.params.url}


def facts(params: HttpParams) -> dict[str, Any]:
    """What decides a request, and what its operator says of the model behind it; JSON types."""
    dialect = DIALECTS[params.dialect]
    return {
        "recipe": RECIPE,
        "model": params.model,
        "model_revision": params.model_revision or "unpinned: the server's model may change",
        "dialect": params.dialect,
        "path": dialect.path,
        "readout": dialect.readout,
        "documents_per_request": params.documents_per_request,
        "truncate": params.truncate if dialect.truncates else "not said: the server decides",
        "extra_body": params.extra_body,
        "tokenizer": "the server's own, not visible",
    }


def load(spec: ModelSpec, placement: Placement) -> ServedReranker:
    """A `ServedReranker`; nothing is sent yet. ScoringError: the key's variable is not set here.

    ConfigError: see `settings_of`.
    """
    from rerank.models.http_client import Client

    params = settings_of(spec)
    return ServedReranker(params, client_of(params, Client))


def client_of(params: HttpParams, kind: type[ClientKind]) -> ClientKind:
    """The client that the settings ask for. ScoringError: the key's variable is not set here."""
    return kind(
        params.url.rstrip("/") + DIALECTS[params.dialect].path,
        key=key_of(params),
        key_variable=params.key_variable,
        connect_timeout=params.connect_timeout,
        timeout=params.timeout,
        retries=params.retries,
        concurrency=params.concurrency,
        requests_per_minute=params.requests_per_minute,
    )


def contract(spec: ModelSpec) -> Contract:
    """What is known of the input without asking: the request. ConfigError: see `settings_of`."""
    refusal = "the server tokenises; ask its operator what it reads of a pair"
    return Contract(facts(settings_of(spec)), lambda query, document: Reading((), (), refusal))

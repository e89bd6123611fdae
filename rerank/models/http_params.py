"""Settings of a served reranker, their checks at the door, and the key from the environment."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rerank.errors import ConfigError, ScoringError, unknown_name
from rerank.models.http_dialects import DIALECTS, Question
from rerank.records import ModelSpec

RECIPE = "the server's recipe is not visible; scores as served"
CIRCUMSTANCE = {"identity": False}  # how the server is reached and asked, not what it computes
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
KEY = re.compile(r"[!-~]+")  # what a header can carry as one word


@dataclass(frozen=True)
class HttpParams:
    """Settings of a served reranker. Fields marked as circumstance stay out of a run's identity.

    url: base url; the dialect's path is appended (https://api.cohere.com/v2, http://host:8080).
    dialect: how the server is spoken to, a row of DIALECTS.
    model: the served model's name; sent where the dialect has a place for it.
    model_revision: the revision that the server's operator states; '' is recorded as unpinned.
    key_variable: NAME of the environment variable that holds the API key, '' for none. The key is
        read where the model is loaded, on every machine with workers, and written nowhere.
    connect_timeout, timeout: seconds for the connection, and for the whole answer.
    retries: tries after the first, where trouble may pass (429, 5xx, timeouts, broken answers).
    concurrency: requests at once, and requests_per_minute (0: no limit): both of one worker.
    list_atomic: the server reads a query's documents together, or may do so, so that they are never
        asked apart. Only `false` allows documents_per_request.
    documents_per_request: most documents of one request; null sends a query's whole list as one,
        and what the server refuses then is recorded as refused.
    truncate: may the server cut over-long texts? For the dialects whose requests say so.
    extra_body: further fields of every request, such as vLLM's `use_activation: false` (logits) or
        Cohere's `max_tokens_per_doc`. They are part of the identity and written into run.json.
    """

    url: str = field(default="", metadata=CIRCUMSTANCE)
    dialect: str = "cohere"
    model: str = ""
    model_revision: str = ""
    key_variable: str = field(default="", metadata=CIRCUMSTANCE)
    connect_timeout: float = field(default=10.0, metadata=CIRCUMSTANCE)
    timeout: float = field(default=120.0, metadata=CIRCUMSTANCE)
    retries: int = field(default=6, metadata=CIRCUMSTANCE)
    concurrency: int = field(default=4, metadata=CIRCUMSTANCE)
    requests_per_minute: float = field(default=0.0, metadata=CIRCUMSTANCE)
    list_atomic: bool = field(default=True, metadata=CIRCUMSTANCE)
    documents_per_request: int | None = None
    truncate: bool = False
    extra_body: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise unknown_name("dialect", self.dialect, DIALECTS)
        if self.url:
            _check_url(self.url)
        _check_ranges(self)
        _check_lists(self)
        _check_body(self)
        if self.key_variable and not VARIABLE.fullmatch(self.key_variable):
            # the value is not repeated: it may be the key itself
            raise ConfigError(
                "key_variable must be the NAME of an environment variable in capitals, such as "
                "RERANK_API_KEY; the key itself belongs into that variable, never into a file"
            )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets or a port that are none
        usable = False
    if not usable:
        raise ConfigError("url must be http(s)://HOST[:PORT][/PATH]; correct it in the YAML")
    if "@" in parts.netloc or parts.query or parts.fragment:
        # not repeated either: these are the places where keys are put
        raise ConfigError(
            f"url at {parts.hostname}: give no user, password, query or fragment in it; "
            "put the key into the environment variable that key_variable names"
        )


def _check_ranges(params: HttpParams) -> None:
    if params.connect_timeout <= 0 or params.timeout <= 0:
        raise ConfigError("connect_timeout and timeout are seconds above 0")
    if params.retries < 0 or params.concurrency < 1 or params.requests_per_minute < 0:
        raise ConfigError("retries and requests_per_minute are from 0, concurrency from 1")


def _check_lists(params: HttpParams) -> None:
    if params.documents_per_request is None:
        return
    if params.documents_per_request < 1:
        raise ConfigError("documents_per_request is from 1, or null for a query's whole list")
    if params.list_atomic:
        raise ConfigError(
            f"documents_per_request {params.documents_per_request} would split lists that are "
            "list_atomic; leave it null, or set list_atomic: false if the served model scores "
            "each document on its own"
        )


def _check_body(params: HttpParams) -> None:
    dialect = DIALECTS[params.dialect]
    if params.truncate and not dialect.truncates:
        raise ConfigError(
            f"dialect '{params.dialect}' has no truncate; name the server's own field for it in "
            "extra_body"
        )
    try:
        json.dumps(params.extra_body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"extra_body: {error}; give values that JSON can hold") from error
    if not isinstance(params.extra_body, dict):
        raise ConfigError("extra_body must be a mapping of further request fields")
    taken = sorted(dialect.body(Question("", ())).keys() & params.extra_body.keys())
    if taken:
        raise ConfigError(f"extra_body: the dialect sets {', '.join(taken)} itself; remove it")


def settings_of(spec: ModelSpec) -> HttpParams:
    """The params of a spec that makes sense for a served model.

    ConfigError: no url or model; a setting that only the server can follow; or the claim that a
    recipe which cannot be seen was verified.
    """
    params: HttpParams = spec.params or HttpParams()
    if not params.url or (DIALECTS[params.dialect].names_model and not params.model):
        raise ConfigError(f"model '{spec.name}': name `url` and `model` of the server in its YAML")
    ignored = [name for name in ("weights", "revision", "max_length") if getattr(spec, name)]
    if ignored:
        raise ConfigError(
            f"model '{spec.name}': {', '.join(ignored)} would have no effect on a served model; "
            "remove it (the revision served is `model_revision`, limits go into `extra_body`)"
        )
    if spec.recipe == "verified":
        raise ConfigError(f"model '{spec.name}': {RECIPE}; write `recipe: unverified` in its YAML")
    return params


def key_of(params: HttpParams) -> str:
    """The API key, '' where none is wanted. ScoringError without its value: not set, or unfit."""
    variable = params.key_variable
    key = os.environ.get(variable, "") if variable else ""
    if variable and not KEY.fullmatch(key):
        state = "holds what no header can carry (a space or a line end?)" if key else "is not set"
        raise ScoringError(
            f"the environment variable {variable} {state} on this machine; put the API key there, "
            "and on a cluster on every node"
        )
    return key

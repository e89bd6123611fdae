"""The table of model kinds. A model of a known kind is one YAML file, a new kind one row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from rerank.errors import ConfigError, ScoringError, unknown_name
from rerank.models.bi_encoder import BiEncoderParams
from rerank.models.contract import Contract, tokenizer_parts
from rerank.models.encoder_decoder_reader import EncoderDecoderParams
from rerank.models.first_stage import FirstStageParams
from rerank.models.http_params import HttpParams
from rerank.models.listwise_blocks import ListwiseEmbeddingParams
from rerank.models.listwise_generation_params import ListwiseGenerationParams
from rerank.models.overlap import OverlapParams
from rerank.models.pair_encoder import PairEncoderParams
from rerank.models.prompt_decoder import PromptDecoderParams
from rerank.models.weights import input_folder, is_from_hub, planned_folder, resolve_folder
from rerank.records import LoadedWeights, ModelSpec, Placement, Scorer
from rerank.scoring import SCORING_VERSION

Load = Callable[[ModelSpec, Placement], Scorer]


@dataclass(frozen=True)
class Adapter:
    """One kind of model.

    params: frozen dataclass of its settings, whose fields stand beside ModelSpec's in the YAML;
    load: makes the scorer, and is the only place that may import torch; weightless: it has no
    weights, so nothing is resolved, downloaded or placed on a device; own: its formula is this
    project's, so there is no author's recipe to check it against.
    """

    params: type[Any]
    load: Load
    weightless: bool
    description: str
    own: bool = False


def adapter_of(spec: ModelSpec) -> Adapter:
    """The row of `spec.adapter`; ConfigError names the known ones."""
    if spec.adapter not in ADAPTERS:
        raise unknown_name("adapter", spec.adapter, ADAPTERS)
    return ADAPTERS[spec.adapter]


def comes_from_hub(spec: ModelSpec) -> bool:
    """Has the model weights, and do they come from the Hugging Face hub?"""
    return not adapter_of(spec).weightless and is_from_hub(spec)


def load_scorer(spec: ModelSpec, placement: Placement) -> Scorer:
    """Load the model, ready to score. `spec.params` None takes the adapter's defaults.

    ScoringError: weights are missing, unreadable or incomplete, or contradict the configuration.
    """
    adapter = adapter_of(spec)
    if spec.params is not None and not isinstance(spec.params, adapter.params):
        raise ScoringError(
            f"model '{spec.name}': params are {type(spec.params).__name__}, "
            f"adapter '{spec.adapter}' takes {adapter.params.__name__}"
        )
    return adapter.load(spec, placement)


def resolve_weights(spec: ModelSpec) -> LoadedWeights:
    """Where the model's files are and what identifies them; downloads or converts if need be.

    A weightless adapter has folder '' and revision 'none'. ScoringError says what is missing and
    what to do.
    """
    if adapter_of(spec).weightless:
        return LoadedWeights(folder="", revision="none", origin="")
    return resolve_folder(spec)


def planned_weights(spec: ModelSpec) -> LoadedWeights:
    """As `resolve_weights`, without fetching weights from the hub: for plans, listings, drivers."""
    if adapter_of(spec).weightless:
        return LoadedWeights(folder="", revision="none", origin="")
    return planned_folder(spec)


def input_contract(spec: ModelSpec) -> Contract:
    """What the model reads of a pair and what decides it, without loading its weights.

    ConfigError: the adapter has no input of its own. ScoringError: tokenizer or configuration files
    are missing, or the recipe does not fit them.
    """
    adapter = adapter_of(spec)
    module = import_module(f"rerank.models.{spec.adapter}")
    if not hasattr(module, "contract"):
        raise ConfigError(
            f"model '{spec.name}': adapter {spec.adapter} makes no input for a model, so there is "
            "no contract to show; name a model that reads text"
        )
    found: Contract = module.contract(spec)
    params = spec.params if spec.params is not None else adapter.params()
    facts = {"adapter": spec.adapter, **_identifying(params), **found.facts}
    if not adapter.weightless:
        facts |= tokenizer_parts(Path(input_folder(spec)))
    return Contract(facts, found.read)


def model_identity(spec: ModelSpec, placement: Placement, weights: LoadedWeights) -> dict[str, Any]:
    """Everything of a model that can change a score, as JSON types; the rest is circumstance.

    Names, paths, licences, GPUs and batch sizes stay out, so the same recipe on the same weights
    has the same identity wherever its files lie.
    """
    params = spec.params if spec.params is not None else adapter_of(spec).params()
    return {
        "adapter": spec.adapter,
        "params": _identifying(params),
        "weights": weights.revision,
        "max_length": spec.max_length,
        "dtype": placement.dtype,
        "attention": placement.attention,
        "scoring_version": SCORING_VERSION,
    }


def _identifying(params: Any) -> dict[str, Any]:
    """The settings that can change a score: all but fields with the metadata `identity: False`."""
    kept = {entry.name for entry in fields(params) if entry.metadata.get("identity", True)}
    return {name: value for name, value in asdict(params).items() if name in kept}


def _lazily(module: str) -> Load:
    """The `load` of a module of this package, imported when the first model is loaded."""

    def load(spec: ModelSpec, placement: Placement) -> Scorer:
        scorer: Scorer = import_module(f"rerank.models.{module}").load(spec, placement)
        return scorer

    return load


ADAPTERS: dict[str, Adapter] = {
    "first_stage": Adapter(
        params=FirstStageParams,
        load=_lazily("first_stage"),
        weightless=True,
        description="the order of stage 1, without a reranker: the baseline",
        own=True,
    ),
    "overlap": Adapter(
        params=OverlapParams,
        load=_lazily("overlap"),
        weightless=True,
        description="shared words and CJK character bigrams; no weights, for tests and as a floor",
        own=True,
    ),
    "bi_encoder": Adapter(
        params=BiEncoderParams,
        load=_lazily("bi_encoder"),
        weightless=False,
        description="query and document embedded apart, score = similarity of the embeddings",
    ),
    "pair_encoder": Adapter(
        params=PairEncoderParams,
        load=_lazily("pair_encoder"),
        weightless=False,
        description="cross-encoder: an encoder reads both texts together, score = raw logit",
    ),
    "http": Adapter(
        params=HttpParams,
        load=_lazily("http"),
        weightless=True,
        description="a rerank API (Cohere, Jina, vLLM, TEI): scores as the server gives them",
    ),
    "prompt_decoder": Adapter(
        params=PromptDecoderParams,
        load=_lazily("prompt_decoder"),
        weightless=False,
        description="a decoder answers a prompt, score = raw margin of its answer's logits",
    ),
    "encoder_decoder": Adapter(
        params=EncoderDecoderParams,
        load=_lazily("encoder_decoder"),
        weightless=False,
        description="an encoder reads the document, a decoder answers, score = margin of logits",
    ),
    "listwise_embedding": Adapter(
        params=ListwiseEmbeddingParams,
        load=_lazily("listwise_embedding"),
        weightless=False,
        description="a decoder reads a query's documents at once, score = cosine of two states",
    ),
    "listwise_generation": Adapter(
        params=ListwiseGenerationParams,
        load=_lazily("listwise_generation"),
        weightless=False,
        description="a decoder writes the order of a window of documents, score = minus final rank",
    ),
}

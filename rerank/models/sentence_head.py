"""Heads that sentence-transformers saves as modules: pooling, dense layers, a layer that scores.

A modular cross-encoder (ettin-reranker) is a bare encoder followed by the modules of modules.json,
which hand each other named features; the last Dense writes `scores`. Semantics as in
sentence-transformers 6.2 (base/modules/dense.py, sentence_transformer/modules/pooling.py,
layer_norm.py, base/modules/normalize.py), computed in fp32 whatever the encoder's dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from rerank.errors import ScoringError
from rerank.models.loading import reason
from rerank.models.pooling import POOL
from rerank.models.sentence_modules import (
    EMBEDDING,
    SCORES,
    STATES,
    SentenceModule,
    check_encoder,
    modules_of,
    stated_poolings,
)
from rerank.records import ModelSpec

# what a Dense layer may say; anything else would be left out silently
DENSE_KEYS = {
    "in_features",
    "out_features",
    "bias",
    "activation_function",
    "module_input_name",
    "module_output_name",
    "use_residual",
}


@dataclass(frozen=True)
class Stage:
    """One module: reads a feature, computes in fp32, writes a feature.

    compute: (feature, mask) -> feature; weights: a torch module that holds its parameters, named as
    in its file, or None.
    """

    reads: str
    writes: str
    compute: Callable[[Any, Any], Any]
    weights: Any = None
    outputs: int | None = None  # width of what it writes, where it changes it


@dataclass(frozen=True)
class SentenceHead:
    """The modules after the encoder."""

    stages: Sequence[Stage]

    @property
    def labels(self) -> int:
        """Number of scores of one pair."""
        widths = [stage.outputs for stage in self.stages if stage.writes == SCORES]
        return next(width for width in reversed(widths) if width is not None)

    def to(self, device: str) -> None:
        """Move the weights; they stay in fp32."""
        for stage in self.stages:
            if stage.weights is not None:
                stage.weights.to(device)

    def __call__(self, states: Any, mask: Any) -> Any:
        """(n, length, hidden) states of the encoder, (n, length) mask -> (n, labels) fp32."""
        features = {STATES: states.float()}
        for stage in self.stages:
            features[stage.writes] = stage.compute(features[stage.reads], mask)
        return features[SCORES]


def has_modular_head(name: str, folder: Path) -> bool:
    """Does modules.json list a Dense layer that writes `scores`?"""
    return any(
        module.kind == "Dense" and module.config.get("module_output_name") == SCORES
        for module in modules_of(name, folder)
    )


def load_head(spec: ModelSpec, folder: Path) -> SentenceHead:
    """The head of a modular cross-encoder, on the CPU, in evaluation mode.

    ScoringError: a module, a setting or a file that is unknown, missing or of another shape.
    """
    first, *rest = modules_of(spec.name, folder)
    check_encoder(spec.name, folder, first)
    unknown = [module.kind for module in rest if module.kind not in STAGES]
    if unknown:
        raise ScoringError(
            f"model '{spec.name}': {folder / 'modules.json'} has modules that head: st_modules "
            f"does not compute: {', '.join(unknown)}; known are {', '.join(sorted(STAGES))}"
        )
    stages = [STAGES[module.kind](spec, module) for module in rest]
    written = {STATES}
    for module, stage in zip(rest, stages, strict=True):
        if stage.reads not in written:
            raise ScoringError(
                f"model '{spec.name}': {module.folder} reads '{stage.reads}', which no module "
                "before it writes; restore its config.json"
            )
        written.add(stage.writes)
    return SentenceHead(stages)


def _pooling(spec: ModelSpec, module: SentenceModule) -> Stage:
    stated = stated_poolings(module.config)
    if len(stated) != 1 or not stated <= set(POOL):
        raise ScoringError(
            f"model '{spec.name}': {module.folder} pools by {', '.join(sorted(stated))}; "
            f"one of {', '.join(sorted(POOL))} is supported"
        )
    return Stage(STATES, EMBEDDING, POOL[stated.pop()])


def _dense(spec: ModelSpec, module: SentenceModule) -> Stage:
    from torch import nn

    config = module.config
    unknown = sorted(set(config) - DENSE_KEYS)
    if unknown:
        raise ScoringError(
            f"model '{spec.name}': {module.folder}/config.json has settings that head: st_modules "
            f"does not know: {', '.join(unknown)}; this layer is not supported"
        )
    sizes = _size(spec, module, "in_features"), _size(spec, module, "out_features")
    layers = {"linear": nn.Linear(*sizes, bias=config.get("bias", True))}
    residual = config.get("use_residual", False)
    if residual and sizes[0] != sizes[1]:
        layers["residual"] = nn.Linear(*sizes, bias=False)
    # sentence-transformers' default, for folders that do not say
    said = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    activation = _activation(spec, module, said)

    def compute(feature: Any, mask: Any) -> Any:
        found = activation(layers["linear"](feature))
        if not residual:
            return found
        return found + (layers["residual"](feature) if "residual" in layers else feature)

    reads = config.get("module_input_name", EMBEDDING)
    writes = config.get("module_output_name") or reads
    weights = _with_weights(spec, module, nn.ModuleDict(layers))
    return Stage(reads, writes, compute, weights, outputs=sizes[1])


def _size(spec: ModelSpec, module: SentenceModule, key: str) -> int:
    found = module.config.get(key)
    if not isinstance(found, int):
        raise ScoringError(
            f"model '{spec.name}': {module.folder}/config.json has no {key}; restore the file"
        )
    return found


def _activation(spec: ModelSpec, module: SentenceModule, path: str) -> Any:
    """The activation of that path: a class of torch.nn without arguments, nothing else."""
    from torch import nn

    package, _, name = path.rpartition(".")
    found = getattr(nn, name, None) if package.startswith("torch.nn") else None
    refusal = ScoringError(
        f"model '{spec.name}': {module.folder} has the activation {path}; only activations "
        "of torch.nn that need no arguments are supported"
    )
    if not isinstance(found, type) or package not in ("torch.nn", found.__module__):
        raise refusal
    try:
        return found()
    except TypeError as error:  # a layer with sizes
        raise refusal from error


def _layer_norm(spec: ModelSpec, module: SentenceModule) -> Stage:
    from torch import nn

    norm = nn.LayerNorm(_size(spec, module, "dimension"))
    weights = _with_weights(spec, module, nn.ModuleDict({"norm": norm}))
    return Stage(EMBEDDING, EMBEDDING, lambda feature, mask: norm(feature), weights)


def _normalize(spec: ModelSpec, module: SentenceModule) -> Stage:
    from torch.nn import functional

    reads = module.config.get("module_input_name") or EMBEDDING
    writes = module.config.get("module_output_name") or reads
    return Stage(reads, writes, lambda feature, mask: functional.normalize(feature, p=2, dim=-1))


def _dropout(spec: ModelSpec, module: SentenceModule) -> Stage:
    return Stage(EMBEDDING, EMBEDDING, lambda feature, mask: feature)  # nothing in evaluation


def _with_weights(spec: ModelSpec, module: SentenceModule, layers: Any) -> Any:
    """`layers` with the weights of the module's file, in fp32: every one of both, and no other."""
    found = _read_weights(spec, module)
    wanted = {key: tuple(value.shape) for key, value in layers.state_dict().items()}
    shapes = {key: tuple(value.shape) for key, value in found.items()}
    wrong = sorted(key for key in {*wanted, *shapes} if wanted.get(key) != shapes.get(key))
    if wrong:
        raise ScoringError(
            f"model '{spec.name}': the weights in {module.folder} are not those of its "
            f"{module.kind} layer: {', '.join(wrong)} missing, unexpected or of another shape; "
            "restore the folder's files"
        )
    layers.load_state_dict({key: value.float() for key, value in found.items()})
    return layers.requires_grad_(False).eval()


def _read_weights(spec: ModelSpec, module: SentenceModule) -> dict[str, Any]:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    safe, pickled = module.folder / "model.safetensors", module.folder / "pytorch_model.bin"
    try:
        if safe.is_file() or not spec.pickled_weights:
            return dict(load_file(safe))
        return dict(torch.load(pickled, map_location="cpu", weights_only=True))
    except (OSError, ValueError, RuntimeError, SafetensorError, UnpicklingError) as error:
        raise ScoringError(
            f"model '{spec.name}': the weights of {module.folder} cannot be loaded: "
            f"{reason(error)}; it needs model.safetensors, or pytorch_model.bin and "
            "pickled_weights: true"
        ) from error


STAGES: dict[str, Callable[[ModelSpec, SentenceModule], Stage]] = {
    "Pooling": _pooling,
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": _normalize,
    "Dropout": _dropout,
}

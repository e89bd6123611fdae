"""The parts of a listwise embedding reranker: a stock Qwen3 decoder, and the projector above it.

Not verified against the real repositories (their files were not at hand): that their config.json
says model_type qwen3, and that their weights are named model.* and projector.0/projector.2. Loading
refuses a folder where this is not so.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rerank.errors import ScoringError
from rerank.models.loading import loading, read_json
from rerank.records import ModelSpec

MODEL_CLASS, MODEL_TYPE = "Qwen3Model", "qwen3"
PROJECTOR = ("projector.0.weight", "projector.2.weight")  # Linear, ReLU, Linear; no biases
STOCK_CODE = ("AutoModel", "AutoModelForCausalLM")  # whose own class this adapter does without


def load_projector(name: str, folder: str, hidden: int) -> tuple[Any, Any]:
    """The projector's matrices, (m, hidden) and (width, m), fp32. ScoringError: not as stated."""
    from safetensors import safe_open

    found: dict[str, Any] = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found |= {key: file.get_tensor(key) for key in list(file.keys()) if "projector" in key}
    shapes = {key: tuple(weight.shape) for key, weight in sorted(found.items())}
    first, second = (shapes.get(key, ()) for key in PROJECTOR)
    fits = len(first) == len(second) == 2 and first[1] == hidden and second[1] == first[0]
    if set(found) != set(PROJECTOR) or not fits:
        raise ScoringError(
            f"model '{name}': {folder} must hold {' and '.join(PROJECTOR)} of fitting shapes for "
            f"{hidden} hidden units, and holds {shapes or 'no projector'}; it is another model's"
        )
    return found[PROJECTOR[0]].float(), found[PROJECTOR[1]].float()


def without_own_code(spec: ModelSpec, folder: str) -> ModelSpec:
    """A spec that the loaders accept where the only code of the folder is the class that this
    adapter does without: that class is never imported, so it needs no trust."""
    configs = [Path(folder) / file for file in ("config.json", "tokenizer_config.json")]
    code = [read_json(spec.name, path).get("auto_map") or {} for path in configs if path.is_file()]
    stock = all(isinstance(found, dict) and set(found) <= set(STOCK_CODE) for found in code)
    return replace(spec, trust_code=True) if stock else spec


def attention_layers(name: str, config: Any, expected: int | None) -> str:
    """How many layers see everything before a token and how many a window of it, in words.

    ScoringError: the config asks for windows and states no length, or a length that is not used, or
    has another number of such layers than `expected`.
    """
    kinds = list(config.layer_types)
    sliding = kinds.count("sliding_attention")
    if sliding and not config.sliding_window:
        raise ScoringError(
            f"model '{name}': its config has {sliding} layers of sliding attention and no window "
            "in use; set use_sliding_window and sliding_window in its config.json"
        )
    if expected is not None and sliding != expected:
        raise ScoringError(
            f"model '{name}': its config gives {sliding} of {len(kinds)} layers a sliding window, "
            f"the YAML says sliding_layers: {expected}; the pattern may stand in config.json under "
            "a key that this version of transformers does not read: state layer_types there"
        )
    window = f", {sliding} with a window of {config.sliding_window} tokens" if sliding else ""
    return f"{len(kinds) - sliding} full{window}"


def stock_config(spec: ModelSpec, folder: str) -> Any:
    """The folder's Qwen3 configuration. ScoringError: it is of another architecture."""
    from transformers import AutoConfig

    with loading(spec, folder, "configuration"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if config.model_type != MODEL_TYPE:
        raise ScoringError(
            f"model '{spec.name}': {folder} holds a {config.model_type} model, adapter "
            f"listwise_embedding reads {MODEL_TYPE}; use the adapter of that model"
        )
    return config

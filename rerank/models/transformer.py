"""Loading a transformers model so that nothing is guessed: no random weight, no silent overflow.

Imports torch and transformers inside its functions, so adapters can be listed without either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rerank.batching import padded_length
from rerank.errors import ScoringError
from rerank.fingerprint import canonical_json, sha256_file
from rerank.models.loading import check_code, loading, own_code
from rerank.models.tokenizer_file import file_tokenizer, with_pad_token
from rerank.models.tokenizer_probe import PROBE_TEXTS
from rerank.models.weights import has_safetensors
from rerank.records import ModelSpec, Placement

NO_LIMIT = 1_000_000  # tokenizers without a limit of their own state 1e30


def load_tokenizer(spec: ModelSpec, folder: str, pad_token: str | None) -> Any:
    """The tokenizer of a folder's tokenizer.json, with a pad token.

    ScoringError names the YAML key to set, or says that its ids are not those of `tokenizer_ids`.
    """
    tokenizer = with_pad_token(spec, file_tokenizer(spec, folder), pad_token)
    found = probe_digest(tokenizer)
    if spec.tokenizer_ids not in ("", found):
        raise ScoringError(
            f"model '{spec.name}': the tokenizer in {folder} gives other ids than the one that its "
            f"recipe was checked with ({found}, not {spec.tokenizer_ids}); restore its files and "
            "library versions, or correct `tokenizer_ids` if the change is wanted"
        )
    return tokenizer


def probe_digest(tokenizer: Any) -> str:
    """`sha256:...` of the ids of `PROBE_TEXTS`, special tokens read as such."""
    return _ids_digest(token_ids(tokenizer, PROBE_TEXTS, split_special_tokens=False))


def _ids_digest(ids: object) -> str:
    return "sha256:" + hashlib.sha256(canonical_json(ids).encode()).hexdigest()


def load_model(
    auto_class: str,
    spec: ModelSpec,
    placement: Placement,
    folder: str,
    *,
    unused: Sequence[str] = (),
    dtype: str = "float32",
) -> Any:
    """A model in evaluation mode, in fp32 on the CPU: `place` moves it where it will run.

    auto_class: name of a transformers Auto class. dtype: auto loads as saved, for large models
    whose head is copied in fp32 before the rest is cast. unused: top-level modules that the adapter
    never reads, whose weights may be missing. ScoringError names weights that are missing or of
    another shape; transformers would fill them with random numbers.
    """
    import transformers

    transformers.utils.logging.set_verbosity_error()  # its load report goes into our error
    transformers.utils.logging.disable_progress_bar()
    with loading(spec, folder, "model"):
        model, info = getattr(transformers, auto_class).from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=placement.attention,
            trust_remote_code=spec.trust_code,
            # `resolve_folder` admits *.bin only where the YAML does; torch reads tensors only
            use_safetensors=has_safetensors(folder) or not spec.pickled_weights,
            weights_only=True,
            ignore_mismatched_sizes=True,  # they are reported, and refused below
            output_loading_info=True,
        )
    wrong = [key for key in info["missing_keys"] if key.split(".")[0] not in unused]
    wrong += [str(key[0]) for key in info["mismatched_keys"]]
    if wrong:
        raise ScoringError(
            f"model '{spec.name}': {folder} lacks {len(wrong)} weights of {type(model).__name__}, "
            f"which would be random: {', '.join(sorted(wrong)[:5])}; the folder belongs to another "
            "adapter, or its head was not saved"
        )
    return model.eval()


def empty_model(auto_class: str, spec: ModelSpec, folder: str) -> Any:
    """The model's architecture without its weights, on the meta device: for limits and layout."""
    import torch
    import transformers

    with loading(spec, folder, "model"):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=spec.trust_code)
        with torch.device("meta"):
            return getattr(transformers, auto_class).from_config(
                config, trust_remote_code=spec.trust_code
            )


def place(model: Any, spec: ModelSpec, placement: Placement, keep_fp32: Sequence[Any] = ()) -> Any:
    """Cast the weights, except those of the modules in `keep_fp32`, and move the model.

    Only parameters are cast: buffers such as rotary frequencies lose positions in half precision.
    Threads follow `num_cpus`, so an actor's share of a machine and a lone process sum alike.
    """
    import torch

    kept = {id(weight) for module in keep_fp32 for weight in module.parameters()}
    dtype = getattr(torch, placement.dtype)
    for weight in model.parameters():
        weight.requires_grad_(False)
        if id(weight) not in kept:
            weight.data = weight.data.to(dtype)
    for module in keep_fp32:
        module.register_forward_pre_hook(_upcast)
    torch.set_float32_matmul_precision("highest")  # no TF32: fp32 means fp32
    torch.set_num_threads(max(1, int(spec.num_cpus)))
    return model.to(placement.device)


def _upcast(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Forward pre-hook: floating point inputs of a module in fp32."""
    import torch

    return tuple(
        value.float() if torch.is_tensor(value) and value.is_floating_point() else value
        for value in inputs
    )


def head_modules(model: Any) -> list[Any]:
    """Top-level modules beside the encoder: what turns its states into logits.

    ScoringError: the model, of a folder's own code, does not say which module is the encoder.
    """
    encoder = getattr(model, model.base_model_prefix, None) if model.base_model_prefix else None
    if encoder is None:
        raise ScoringError(
            f"{type(model).__name__} does not tell its encoder from its head (base_model_prefix); "
            "set keep_head_fp32: false in the model's YAML, with dtype: float32 for exact scores"
        )
    return [module for module in model.children() if module is not encoder]


def position_limit(model: Any) -> int | None:
    """Most tokens that the model has positions for, None where it sets no bound.

    A position table counts its rows; where it reserves a padding row (the XLM-R family numbers
    positions from padding_idx + 1), those up to it are lost. Without a table the config decides.
    """
    import torch

    for name, module in model.named_modules():
        if name.split(".")[-1] == "position_embeddings" and isinstance(module, torch.nn.Embedding):
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            return int(module.num_embeddings) - reserved
    stated = getattr(model.config, "max_position_embeddings", None)
    return int(stated) if stated else None


def input_limit(spec: ModelSpec, tokenizer: Any, positions: int | None) -> int:
    """`max_length`, or the model's own limit where it is null. ScoringError if it is too large."""
    if spec.max_length is not None:
        if positions is not None and spec.max_length > positions:
            raise ScoringError(
                f"model '{spec.name}': max_length {spec.max_length} is more than the {positions} "
                f"positions that the model has; set max_length: {positions} or less"
            )
        return spec.max_length
    limits = [limit for limit in (positions, int(tokenizer.model_max_length)) if limit]
    if not limits or min(limits) > NO_LIMIT:
        raise ScoringError(
            f"model '{spec.name}': neither model nor tokenizer states a length limit; "
            "set max_length in its YAML"
        )
    return min(limits)


def check_positions(spec: ModelSpec, longest: int, positions: int | None) -> None:
    """ScoringError where the longest input, frame included, has more tokens than positions."""
    if positions is not None and longest > positions:
        raise ScoringError(
            f"model '{spec.name}': its longest input has {longest} tokens with the prompt around "
            f"the texts, the model {positions} positions; lower max_length by {longest - positions}"
        )


def token_ids(
    tokenizer: Any, texts: Sequence[str], *, split_special_tokens: bool
) -> list[list[int]]:
    """Ids of each text: no special tokens added, nothing cut, nothing padded."""
    if not texts:
        return []
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        truncation=False,
        padding=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        split_special_tokens=split_special_tokens,
        verbose=False,
    )
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def cut(ids: Sequence[int], length: int, side: str) -> tuple[int, ...]:
    """At most `length` ids; `side` is the end that is cut off (the tokenizer's truncation_side)."""
    if side == "left":
        return tuple(ids[len(ids) - length :]) if len(ids) > length else tuple(ids)
    return tuple(ids[:length])


def padded_inputs(
    rows: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]] | None,
    *,
    pad_id: int,
    positions: int | None,
    device: str,
) -> dict[str, Any]:
    """Model inputs of shape (n, padded length), int64, padded on the right and masked there."""
    import torch

    longest = max(map(len, rows))
    length = padded_length(longest)
    if positions is not None:
        length = max(longest, min(length, positions))
    arrays = {
        "input_ids": np.full((len(rows), length), pad_id, dtype=np.int64),
        "attention_mask": np.zeros((len(rows), length), dtype=np.int64),
    }
    if types is not None:
        arrays["token_type_ids"] = np.zeros((len(rows), length), dtype=np.int64)
    for number, ids in enumerate(rows):
        arrays["input_ids"][number, : len(ids)] = ids
        arrays["attention_mask"][number, : len(ids)] = 1
        if types is not None:
            arrays["token_type_ids"][number, : len(ids)] = types[number]
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def supports_flash(folder: str, *, trust_code: bool) -> bool:
    """Does the first architecture that config.json names support flash attention 2?"""
    import transformers

    check_code(folder, folder, own_code(folder, folder), trusted=trust_code)
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=trust_code)
    names = config.architectures or [""]
    return bool(getattr(getattr(transformers, names[0], None), "_supports_flash_attn", False))


def describe_tokenizer(
    folder: str, rendered: Sequence[int], tokenizer: Any = None
) -> dict[str, str]:
    """Digests of tokenizer.json, of the ids of one rendered input (a changed frame shows), and,
    given the tokenizer, of the ids of `PROBE_TEXTS` (what `tokenizer_ids` in the YAML pins)."""
    facts = {
        "tokenizer": sha256_file(Path(folder) / "tokenizer.json"),
        "rendered_ids": _ids_digest(list(rendered)),
    }
    if tokenizer is not None:
        facts["tokenizer_ids"] = probe_digest(tokenizer)
    return facts

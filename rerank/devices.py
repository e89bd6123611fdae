"""What `auto` comes to on this machine, and what the machine is.

The placement can move a score, so it is part of a run's identity; the description is circumstance.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rerank.errors import ScoringError, unknown_name
from rerank.records import ModelSpec, Placement

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float32", "bfloat16", "float16")
ATTENTIONS = ("auto", "eager", "sdpa", "flash_attention_2")
FLASH_DTYPES = ("bfloat16", "float16")  # the only ones flash attention computes in

WEIGHTLESS = Placement(device="cpu", dtype="float32", attention="none")

# /proc/cpuinfo flags of processors that multiply bf16 matrices natively: Intel AMX, Arm BFMMLA and
# SVE BFMMLA. AVX512_BF16 is not among them: it has dot products only, and gains little
NATIVE_BF16_FLAGS = frozenset({"amx_bf16", "bf16", "svebf16"})


def resolve_placement(spec: ModelSpec, weightless: bool) -> Placement:
    """Device, dtype and attention of a model on this machine; imports torch only if it must.

    device: cuda if torch sees a GPU and the model asks for one (num_gpus > 0). dtype: bfloat16 on
    cuda and on CPUs with native bf16 matrix units, else float32. attention: flash_attention_2 on
    cuda where flash_attn is installed, the architecture supports it and the dtype is a half, else
    sdpa. ConfigError: an unknown word. ScoringError: something stated that this machine lacks.
    """
    _check_words(spec)
    if weightless:
        return WEIGHTLESS
    device = _device(spec)
    dtype = spec.dtype if spec.dtype != "auto" else _native_dtype(device)
    return Placement(device, dtype, _attention(spec, device, dtype))


def planned_placement(spec: ModelSpec, weightless: bool) -> Placement:
    """The placement a run is planned with, which need not be possible on this machine.

    Where the YAML states device, dtype and attention, it is taken at its word: the driver of a
    GPU cluster may have no GPU. Every worker compares the plan with its own `resolve_placement`.
    """
    stated = (spec.device, spec.dtype, spec.attention)
    if weightless or "auto" in stated:
        return resolve_placement(spec, weightless)
    _check_words(spec)
    return Placement(*stated)


def _check_words(spec: ModelSpec) -> None:
    stated = (("device", spec.device, DEVICES), ("dtype", spec.dtype, DTYPES))
    for kind, value, known in (*stated, ("attention", spec.attention, ATTENTIONS)):
        if value not in known:
            raise unknown_name(kind, value, known)


def _device(spec: ModelSpec) -> str:
    if spec.device == "cpu" or (spec.device == "auto" and spec.num_gpus == 0):
        return "cpu"
    if sees_cuda():
        return "cuda"
    if spec.device == "cuda":
        raise ScoringError(
            f"model '{spec.name}' states device: cuda, but torch sees no GPU here; "
            "use device=auto, or a machine or cluster with a GPU"
        )
    return "cpu"


def sees_cuda() -> bool:
    """Does torch see a CUDA device? A CPU-only build is told by its version, without the import."""
    try:
        if version("torch").endswith("+cpu"):
            return False
    except PackageNotFoundError:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _native_dtype(device: str) -> str:
    if device == "cuda":
        return "bfloat16"
    return "bfloat16" if NATIVE_BF16_FLAGS & cpu_flags() else "float32"


def _attention(spec: ModelSpec, device: str, dtype: str) -> str:
    flash = spec.attention == "flash_attention_2"
    if flash and (device != "cuda" or dtype not in FLASH_DTYPES or not _has_flash_attn()):
        raise ScoringError(
            f"model '{spec.name}' states attention: flash_attention_2, which needs a GPU, "
            f"dtype bfloat16 or float16, and the package flash-attn; here: {device}, {dtype}; "
            "use attention=auto or attention=sdpa"
        )
    if spec.attention != "auto":
        return spec.attention
    if device != "cuda" or dtype not in FLASH_DTYPES or not _has_flash_attn():
        return "sdpa"
    return "flash_attention_2" if _supports_flash(spec) else "sdpa"


def _has_flash_attn() -> bool:
    return importlib.util.find_spec("flash_attn") is not None


def _supports_flash(spec: ModelSpec) -> bool:
    from rerank.models.transformer import supports_flash
    from rerank.models.weights import input_folder

    return supports_flash(input_folder(spec), trust_code=spec.trust_code)


def cpu_flags() -> frozenset[str]:
    """Instruction set flags of the processor, from /proc/cpuinfo; empty where there is none."""
    return frozenset(
        flag
        for key, value in _cpuinfo()
        if key in ("flags", "Features")  # x86, Arm
        for flag in value.split()
    )


def _cpuinfo() -> list[tuple[str, str]]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return []
    pairs = [line.split(":", 1) for line in path.read_text().splitlines() if ":" in line]
    return [(key.strip(), value.strip()) for key, value in pairs]


def describe_device(placement: Placement) -> dict[str, Any]:
    """The machine that scored: for receipts. Memory in bytes; torch is asked only if loaded."""
    torch = sys.modules.get("torch")
    facts: dict[str, Any] = {
        "device": placement.device,
        "dtype": placement.dtype,
        "attention": placement.attention,
        "host": platform.node(),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "cpu_memory": _memory(),
        "torch": str(torch.__version__) if torch is not None else None,
        "threads": torch.get_num_threads() if torch is not None else 1,
        "transformers": version("transformers") if torch is not None else None,
        "tokenizers": version("tokenizers") if torch is not None else None,
    }
    if placement.device == "cuda" and torch is not None:
        facts |= _describe_gpu(torch)
    return facts


def _describe_gpu(torch: Any) -> dict[str, Any]:
    card = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "gpu": card.name,
        "gpu_memory": card.total_memory,
        "gpu_capability": f"{card.major}.{card.minor}",
        "cuda": torch.version.cuda,
        "driver": _driver(),
    }


def _cpu_name() -> str:
    names = [value for key, value in _cpuinfo() if key == "model name"]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> int | None:
    names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
    if not all(name in os.sysconf_names for name in names):
        return None
    return os.sysconf(names[0]) * os.sysconf(names[1])


def _driver() -> str | None:
    """The NVIDIA kernel driver's version line, or None where /proc does not tell."""
    path = Path("/proc/driver/nvidia/version")
    return path.read_text().splitlines()[0] if path.exists() else None

"""Greedy generation: what a decoder writes when it always takes the best token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rerank.batching import padded_length
from rerank.errors import ScoringError

Ids = tuple[int, ...]
# settings of generation_config.json that `write` states itself or that do not touch greedy tokens
HARMLESS = {
    *("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff"),
    *("eta_cutoff", "top_h", "repetition_penalty", "max_length", "max_new_tokens", "use_cache"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "transformers_version"),
    *("_from_model_config", "cache_implementation", "output_attentions", "output_hidden_states"),
}


class Greedy:
    """Writes answers with a key-value cache. Prompts are padded on the left and masked there, so an
    answer does not depend on the batch but for rounding: in half precision the best token can be
    another where two are equal to the last bit."""

    def __init__(self, model: Any, tokenizer: Any, *, device: str, penalty: float) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.device = device
        self.penalty = penalty
        end = model.generation_config.eos_token_id
        self.end = tokenizer.eos_token_id if end is None else end

    def write(self, prompts: Sequence[Ids], new_tokens: int, *, exact: bool) -> list[str]:
        """The answer to each prompt, special tokens left out, up to the end token or `new_tokens`;
        exact: never end before."""
        import torch
        from transformers import GenerationConfig

        longest = padded_length(max(map(len, prompts)))
        ids = np.full((len(prompts), longest), self.tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros_like(ids)
        for number, prompt in enumerate(prompts):
            ids[number, longest - len(prompt) :] = prompt
            mask[number, longest - len(prompt) :] = 1
        settings = GenerationConfig(
            do_sample=False,
            num_beams=1,
            use_cache=True,
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens if exact else None,
            repetition_penalty=self.penalty,
            eos_token_id=self.end,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        with torch.inference_mode():
            written = self.model.generate(
                input_ids=torch.from_numpy(ids).to(self.device),
                attention_mask=torch.from_numpy(mask).to(self.device),
                generation_config=settings,
            )
        answers: list[str] = self.tokenizer.batch_decode(
            written[:, longest:].tolist(), skip_special_tokens=True
        )
        return answers


def repetition_penalty(name: str, model: Any, stated: float | None) -> float:
    """The penalty to generate with. ScoringError: the folder's generation_config.json sets one that
    the YAML does not mention, or something else that changes what the best token is."""
    own = model.generation_config
    odd = sorted(set(own.to_diff_dict()) - HARMLESS)
    if odd:
        raise ScoringError(
            f"model '{name}': its generation_config.json sets {', '.join(odd)}, which greedy "
            "generation here does not follow; take that out of the file"
        )
    if stated is None and own.repetition_penalty not in (None, 1.0):
        raise ScoringError(
            f"model '{name}': its generation_config.json sets repetition_penalty "
            f"{own.repetition_penalty}; state repetition_penalty in its YAML: that number as "
            "transformers would use, or 1.0 as vLLM does under rank_llm"
        )
    return 1.0 if stated is None else stated

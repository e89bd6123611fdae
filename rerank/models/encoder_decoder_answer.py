"""From the decoder's last state to one score: two rows of the output layer, in fp32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rerank.errors import ScoringError
from rerank.models.encoder_decoder_reader import EncoderDecoderParams
from rerank.models.transformer import token_ids
from rerank.records import ModelSpec


@dataclass(frozen=True)
class Architecture:
    """What a transformers model does between its decoder's last state and its logits.

    scale: of the state; softcap: c, where logits become c * tanh(logit / c); float16: does it stay
    finite in half precision? Read in transformers 5.24, modeling_*.py, ForConditionalGeneration.
    """

    scale: Callable[[Any], float]
    softcap: Callable[[Any], float | None]
    float16: bool


# by config.json's model_type. T5 keeps its `wo` in fp32 where the rest is float16, as transformers
# does; T5Gemma2's states exceed float16 (its authors refuse it as well: "Use bfloat16 or float32")
ARCHITECTURES = {
    "t5": Architecture(
        scale=lambda config: config.d_model**-0.5 if config.scale_decoder_outputs else 1.0,
        softcap=lambda config: None,
        float16=True,
    ),
    "mt5": Architecture(scale=lambda config: 1.0, softcap=lambda config: None, float16=True),
    "t5gemma2": Architecture(
        scale=lambda config: 1.0,
        softcap=lambda config: config.decoder.final_logit_softcapping,
        float16=False,
    ),
}


@dataclass(frozen=True)
class Answer:
    """The readout: weight (2, hidden) fp32, rows of the positive and the negative word."""

    weight: Any
    bias: Any  # (2,) fp32 or None
    scale: float
    softcap: float | None

    def margins(self, states: Any) -> Any:
        """(n, 1) fp32: logit of the positive word less that of the negative one."""
        import torch

        logits = torch.nn.functional.linear(states.float() * self.scale, self.weight, self.bias)
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits[:, :1] - logits[:, 1:]


def answer_of(model: Any, labels: tuple[int, int], device: str) -> Answer:
    """The two rows of the output layer, copied before the weights are cast."""
    head, architecture = model.get_output_embeddings(), ARCHITECTURES[model.config.model_type]
    rows = list(labels)
    bias = None if head.bias is None else head.bias[rows].detach().float().to(device)
    return Answer(
        weight=head.weight[rows].detach().float().to(device),
        bias=bias,
        scale=architecture.scale(model.config),
        softcap=architecture.softcap(model.config),
    )


def architecture_of(spec: ModelSpec, model: Any) -> Architecture:
    """The row of the model's type. ScoringError: a type whose readout is not known."""
    kind = model.config.model_type
    if kind not in ARCHITECTURES:
        raise ScoringError(
            f"model '{spec.name}' is a {kind}; encoder_decoder knows {', '.join(ARCHITECTURES)}: "
            "other models may change their logits in ways that it does not"
        )
    return ARCHITECTURES[kind]


def label_ids(
    spec: ModelSpec, params: EncoderDecoderParams, tokenizer: Any, vocabulary: int
) -> tuple[int, int]:
    """Ids of the positive and the negative word. ScoringError unless each is one token of the
    `vocabulary` rows of the output layer, known, and not the other."""
    words = [params.positive_token, params.negative_token]
    found = token_ids(tokenizer, words, split_special_tokens=False)
    for word, ids in zip(words, found, strict=True):
        if len(ids) != 1 or ids[0] == tokenizer.unk_token_id or ids[0] >= vocabulary:
            raise ScoringError(
                f"model '{spec.name}': its tokenizer reads the label word '{word}' as ids {ids}; "
                f"it must be one known token below {vocabulary}: mind case and leading space"
            )
    if found[0] == found[1]:
        raise ScoringError(
            f"model '{spec.name}': positive_token and negative_token are both id {found[0][0]}; "
            "name two words"
        )
    return found[0][0], found[1][0]


def fp32_modules(model: Any) -> list[Any]:
    """Modules that the model's class names as too large for float16."""
    names = set(getattr(model, "_keep_in_fp32_modules", None) or ())
    return [module for name, module in model.named_modules() if name.split(".")[-1] in names]

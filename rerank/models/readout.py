"""From a decoder's last state to one score: a few rows of its output layer, in fp32.

A vocabulary of 150,000 logits is never computed: the recipe names the one or two that count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rerank.errors import ScoringError
from rerank.records import ModelSpec

READOUTS = ("difference", "token", "token_id", "classifier")


@dataclass(frozen=True)
class Readout:
    """weight: (rows, hidden) fp32; bias: (rows,) fp32 or None. Two rows score first less second."""

    weight: Any
    bias: Any = None

    def scores(self, states: Any) -> Any:
        """(n, 1) fp32 margins or logits of (n, hidden) states of any dtype."""
        import torch

        logits = torch.nn.functional.linear(states.float(), self.weight, self.bias)
        return logits[:, :1] - logits[:, 1:] if logits.shape[1] == 2 else logits

    def to(self, device: str) -> Readout:
        """The same on a device."""
        bias = None if self.bias is None else self.bias.to(device)
        return Readout(self.weight.to(device), bias)


def label_id(spec: ModelSpec, tokenizer: Any, word: str) -> int:
    """The id of a label word. ScoringError: it is not exactly one token of the vocabulary."""
    ids = tokenizer.encode(word, add_special_tokens=False)
    if len(ids) != 1:
        raise ScoringError(
            f"model '{spec.name}': the label '{word}' is {len(ids)} tokens ({ids}); a label is one "
            "token, mind its case and leading space"
        )
    return int(ids[0])


def vocabulary_readout(spec: ModelSpec, model: Any, ids: list[int]) -> Readout:
    """The rows `ids` of a causal model's output layer, before its weights are cast.

    ScoringError: an id beyond the layer, or logits that the model scales or caps afterwards.
    """
    head = model.get_output_embeddings()
    if head is None or max(ids) >= len(head.weight):
        raise ScoringError(
            f"model '{spec.name}': its output layer has no row for the label ids {ids}; "
            "the folder belongs to another adapter or tokenizer"
        )
    if len(set(ids)) != len(ids):
        raise ScoringError(f"model '{spec.name}': positive and negative label are the same token")
    config = model.config.get_text_config()
    changed = [
        k
        for k in ("final_logit_softcapping", "logits_scaling", "logit_scale")
        if getattr(config, k, None)
    ]
    if changed:
        raise ScoringError(
            f"model '{spec.name}': its logits are changed by {changed[0]}, which this adapter does "
            "not compute; use another adapter"
        )
    bias = None if head.bias is None else head.bias[ids].detach().float().clone()
    return Readout(head.weight[ids].detach().float().clone(), bias)


def classifier_readout(spec: ModelSpec, model: Any) -> Readout:
    """The one-label head of a sequence classifier. ScoringError: it has another head."""
    head = getattr(model, "score", None)
    if head is None or getattr(head, "weight", None) is None or head.weight.shape[0] != 1:
        raise ScoringError(
            f"model '{spec.name}': {type(model).__name__} has no linear head `score` of one label; "
            "readout classifier needs one"
        )
    bias = None if head.bias is None else head.bias.detach().float().clone()
    return Readout(head.weight.detach().float().clone(), bias)

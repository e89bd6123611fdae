"""The state of a decoder at the last token of each row; what rows begin with alike, computed once.

Rows are padded on the right, so under causal attention no token can see padding and no mask is
needed; a mask is passed where attention looks both ways, and to flash attention, which then skips
the padding. Shared beginnings go through the model once a batch; their keys and values stand before
each row's own, exactly as if the row had been forwarded whole. The rows of such a batch are of any
length and follow in parts of like length.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rerank.batching import padded_length, parts
from rerank.errors import ScoringError

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """Token ids of one input; the first `shared` of them are those of all rows of `share`."""

    ids: Ids
    share: Hashable = None
    shared: int = 0


class Decoder:
    """A transformers decoder without its head. pooling: last (token) or mean (over all tokens)."""

    def __init__(self, model: Any, *, pad_id: int, device: str, masked: bool, pooling: str) -> None:
        self.model = model
        self.pad_id = pad_id
        self.device = device
        self.masked = masked
        self.pooling = pooling
        parameters = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in parameters else "past_key_values"

    def states(self, rows: Sequence[Row]) -> Any:
        """(n, hidden) state of each row, in the model's dtype."""
        import torch

        with torch.inference_mode():
            count = Counter(row.share for row in rows)
            count[None] = 1
            alone = [number for number, row in enumerate(rows) if count[row.share] == 1]
            shared = [number for number, row in enumerate(rows) if count[row.share] > 1]
            if not shared:
                return self._whole([row.ids for row in rows])
            order, states = [], []
            for part in parts([len(rows[number].ids) for number in alone]):
                order += [alone[row] for row in part]
                states.append(self._whole([rows[alone[row]].ids for row in part]))
            for part, found in self._continued([rows[number] for number in shared]):
                order += [shared[row] for row in part]
                states.append(found)
            return torch.cat(states)[torch.tensor(order, device=self.device).argsort()]

    def _whole(self, rows: Sequence[Ids]) -> Any:
        ids, mask = _padded(rows, self.pad_id, left=False)
        inputs = self._tensors(input_ids=ids, attention_mask=mask)
        if not self.masked:
            del inputs["attention_mask"]
        states = self.model(**inputs, use_cache=False).last_hidden_state
        return self._pooled(states, rows)

    def _pooled(self, states: Any, rows: Sequence[Ids]) -> Any:
        import torch

        lengths = torch.tensor([len(row) for row in rows], device=states.device)
        if self.pooling == "mean":
            inside = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
            return (states * inside[..., None]).float().sum(1) / lengths[:, None]
        return states[torch.arange(len(rows), device=states.device), lengths - 1]

    def _continued(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Any]]:
        """Numbers of rows and their states, part by part, after what they begin with."""
        beginnings = {row.share: row.ids[: row.shared] for row in rows}
        ids, mask = _padded(list(beginnings.values()), self.pad_id, left=True)
        cache = self._beginnings(ids, mask)
        place = {share: number for number, share in enumerate(beginnings)}
        for part in parts([len(row.ids) - row.shared for row in rows]):
            chosen = np.array([place[rows[row].share] for row in part])
            yield part, self._after(cache, chosen, mask[chosen], [rows[row] for row in part])

    def _after(self, cache: Any, chosen: np.ndarray, mask: np.ndarray, rows: Sequence[Row]) -> Any:
        """States of each row's own tokens, with the keys and values of its beginning before them.

        chosen: (n,) the row of the cache that each row begins with; mask: (n, length) of it.
        """
        own = [row.ids[row.shared :] for row in rows]
        own_ids, own_mask = _padded(own, self.pad_id, left=False)
        starts = np.array([row.shared for row in rows])[:, None]
        inputs = self._tensors(
            input_ids=own_ids, position_ids=starts + np.arange(own_ids.shape[1])[None, :]
        )
        if self.masked or not mask.all():
            inputs |= self._tensors(attention_mask=np.hstack([mask, own_mask]))
        inputs[self.cache_name] = _rows_of(cache, self._tensors(rows=chosen)["rows"])
        return self._pooled(self.model(**inputs, use_cache=True).last_hidden_state, own)

    def _beginnings(self, ids: np.ndarray, mask: np.ndarray) -> Any:
        """The cache of left-padded beginnings, (n, heads, length, head size) in each layer."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        positions = np.clip(mask.cumsum(axis=1) - 1, 0, None)
        inputs = self._tensors(input_ids=ids, position_ids=positions)
        if self.masked or not mask.all():
            inputs |= self._tensors(attention_mask=mask)
        inputs[self.cache_name] = cache
        self.model(**inputs, use_cache=True)
        return cache

    def _tensors(self, **arrays: np.ndarray) -> dict[str, Any]:
        import torch

        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}


def _padded(rows: Sequence[Ids], pad_id: int, *, left: bool) -> tuple[np.ndarray, np.ndarray]:
    """(ids, mask), int64 of shape (n, padded length). One beginning alone needs no padding."""
    longest = max(map(len, rows))
    length = longest if left and len(rows) == 1 else padded_length(longest)
    ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    mask = np.zeros((len(rows), length), dtype=np.int64)
    for number, row in enumerate(rows):
        inside = slice(length - len(row), None) if left else slice(len(row))
        ids[number, inside] = row
        mask[number, inside] = 1
    return ids, mask


def _rows_of(cache: Any, rows: Any) -> Any:
    """A cache whose layers give the keys and values of `rows` before new ones, and keep none."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    class Beginning(DynamicLayer):  # type: ignore[misc]
        """Read only: what a layer appends is used by that layer and dropped."""

        def update(self, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            import torch

            before = (self.keys[rows], self.values[rows])
            return torch.cat([before[0], keys], dim=-2), torch.cat([before[1], values], dim=-2)

    found = DynamicCache()
    for layer in cache.layers:
        beginning = Beginning()
        beginning.keys, beginning.values = layer.keys, layer.values
        beginning.device, beginning.is_initialized = layer.keys.device, True
        found.layers.append(beginning)
    return found


def can_share(model: Any) -> bool:
    """Does every layer attend to all earlier tokens, so that a beginning is keys and values only?

    Not so for sliding windows and for linear attention (Qwen3.5), whose state is not addressable.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)


def check_direction(name: str, decoder: Decoder, direction: str) -> None:
    """ScoringError unless attention is what the recipe says: does token 0 see what follows it?"""
    first = decoder.model(**_probe(decoder, (1, 2, 3, 4)), use_cache=False).last_hidden_state[0, 0]
    other = decoder.model(**_probe(decoder, (1, 2, 3, 5)), use_cache=False).last_hidden_state[0, 0]
    found = "bidirectional" if (first - other).abs().max() > 0 else "causal"
    if found != direction:
        raise ScoringError(
            f"model '{name}': its attention is {found}, the recipe says {direction}; correct "
            "`attention_direction` in its YAML, or use the model's own code (trust_code: true)"
        )


def _probe(decoder: Decoder, ids: Ids) -> dict[str, Any]:
    array = np.array([ids], dtype=np.int64)
    return decoder._tensors(input_ids=array, attention_mask=np.ones_like(array))

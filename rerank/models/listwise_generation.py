"""Generative listwise rerankers: the model writes the order of a window, windows go up the list.

Covers RankZephyr and RankGPT prompts as rank_llm 0.25.7 runs them, and LightOn-rerank-LW as mteb
2.26.24 does. A score is minus the final rank. Deviations: a window is never run with its passages
cut to nothing, nor with its question cut off (mteb cuts a long prompt at its end); windows follow
from a query's own number of candidates, not from the longest list it happens to be run with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rerank.errors import ScoringError
from rerank.models import transformer
from rerank.models.contract import Contract, Cut, Reading, sequence
from rerank.models.greedy import Greedy, repetition_penalty
from rerank.models.listwise_generation_params import ListwiseGenerationParams
from rerank.models.listwise_prompts import WindowPrompt, WindowReader
from rerank.models.permutations import PARSERS, Permutation, reordered, windows
from rerank.models.pointwise import empty_scores
from rerank.models.weights import input_folder, resolve_folder
from rerank.records import GroupScores, Item, ModelSpec, Placement, QueryGroup

MODEL_CLASS = "AutoModelForCausalLM"


class Writer(Protocol):
    """What answers prompts; see `Greedy.write`."""

    def write(
        self, prompts: Sequence[tuple[int, ...]], new_tokens: int, *, exact: bool
    ) -> list[str]: ...


LEAST_WINDOWS = 10  # of a shard, from which its share of useless answers says something


@dataclass(frozen=True)
class WindowInput:
    """Payload of an item. group: its number; start: place of the window's first passage in the
    current order; rows: the group's documents in it, in that order."""

    group: int
    start: int
    rows: tuple[int, ...]
    prompt: WindowPrompt


class ListwiseGeneration:
    """A loaded generative listwise reranker; see `Scorer` and `Advancing`.

    An item is one window; its output row is the permutation, then how many places were missing and
    how many numbers ignored, as float32.
    """

    def __init__(self, writer: Writer, reader: WindowReader, *, facts: dict[str, Any]) -> None:
        self.writer = writer
        self.reader = reader
        self.params = reader.params
        self.facts = facts
        self.probe_documents = self.params.window  # see `Filled`

    def encode(self, groups: Sequence[QueryGroup]) -> list[Item]:
        """The bottom window of every query with at least two candidates."""
        return [
            self._item(number, group, 0, range(len(group)))
            for number, group in enumerate(groups)
            if len(group) > 1
        ]

    def advance(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[Item]:
        """The next window of every query that has one and whose windows so far all succeeded."""
        upcoming = []
        for number, (group, numbers) in enumerate(
            zip(groups, _members(groups, items), strict=True)
        ):
            failed = any(failures[at] for at in numbers)
            if not failed and len(numbers) < len(self._windows(group)):
                order = _order(
                    group, [items[at] for at in numbers], [outputs[at] for at in numbers]
                )
                upcoming.append(self._item(number, group, len(numbers), order))
        return upcoming

    def _windows(self, group: QueryGroup) -> list[tuple[int, int]]:
        params = self.params
        return windows(
            len(group), params.window, params.stride, passes=params.passes, top=params.top_window
        )

    def _item(self, number: int, group: QueryGroup, window: int, order: Sequence[int]) -> Item:
        start, end = self._windows(group)[window]
        rows = tuple(order[start:end])
        prompt = self.reader.read(group.query, [group.documents[row] for row in rows])
        return Item(
            payload=WindowInput(number, start, rows, prompt),
            tokens=len(prompt.ids) + prompt.new_tokens,
            truncated=any(prompt.truncated),
            label=f"query '{group.query_id}', window {window + 1} (places {start + 1} to {end})",
            failure=prompt.refusal,
        )

    def forward(self, items: Sequence[Item]) -> list[np.ndarray]:
        """(passages + 2,) float32 of each window."""
        answers = dict.fromkeys(range(len(items)), "")
        for new_tokens in sorted({item.payload.prompt.new_tokens for item in items}):
            numbers = [
                number
                for number, item in enumerate(items)
                if item.payload.prompt.new_tokens == new_tokens
            ]
            prompts = [items[number].payload.prompt.ids for number in numbers]
            written = self.writer.write(prompts, new_tokens, exact=self.params.exact_length)
            answers.update(zip(numbers, written, strict=True))
        parse = PARSERS[self.params.parser]
        return [
            _row(parse(answers[number], len(item.payload.rows)))
            for number, item in enumerate(items)
        ]

    def combine(
        self,
        groups: Sequence[QueryGroup],
        items: Sequence[Item],
        outputs: Sequence[np.ndarray | None],
        failures: Sequence[str | None],
    ) -> list[GroupScores]:
        """See `Scorer.combine`. A document's `tokens` are those of its longest window; without one
        of its windows a query has no score. ScoringError: too many answers were of no use."""
        results = []
        for group, empty, numbers in zip(
            groups, empty_scores(groups), _members(groups, items), strict=True
        ):
            own = [items[at] for at in numbers]
            for item in own:
                rows = list(item.payload.rows)
                empty.tokens[rows] = np.maximum(empty.tokens[rows], item.tokens)
                empty.truncated[rows] |= item.payload.prompt.truncated
            reason = next((failures[at] for at in numbers if failures[at]), None)
            found = [outputs[at] for at in numbers]
            if reason is None:
                order = _order(group, own, found)
                empty.scores[order] = -np.arange(1, len(group) + 1, dtype=np.float64)
            results.append(
                GroupScores(
                    empty.scores,
                    empty.tokens,
                    empty.truncated,
                    (reason,) * len(group),
                    _counts(found),
                )
            )
        self._check_fallbacks(results)
        return results

    def _check_fallbacks(self, results: Sequence[GroupScores]) -> None:
        asked = sum(result.counts["windows"] for result in results)
        useless = sum(result.counts["fallbacks"] for result in results)
        # of a handful of windows one may fail by chance; the counts are in the receipt all the same
        if asked >= LEAST_WINDOWS and useless > self.params.max_fallback_share * asked:
            raise ScoringError(
                f"{useless} of {asked} windows kept their old order because the model's answer "
                f"named no passage, more than max_fallback_share {self.params.max_fallback_share}; "
                "check template, parser and max_new_tokens, or raise the share"
            )

    def describe(self) -> dict[str, Any]:
        """See `Scorer.describe`."""
        return self.facts


def _members(groups: Sequence[QueryGroup], items: Sequence[Item]) -> list[list[int]]:
    """Numbers of the items of each group, its windows in the order in which they were made."""
    members: list[list[int]] = [[] for _ in groups]
    for number, item in enumerate(items):
        members[item.payload.group].append(number)
    return members


def _order(
    group: QueryGroup, items: Sequence[Item], outputs: Sequence[np.ndarray | None]
) -> list[int]:
    """The group's rows, best first, after these windows."""
    order = list(range(len(group)))
    for item, output in zip(items, outputs, strict=True):
        if output is not None:
            ranked = output[: len(item.payload.rows)].astype(int).tolist()
            order = reordered(order, item.payload.start, ranked)
    return order


def _row(found: Permutation) -> np.ndarray:
    return np.array([*found.order, found.missing, found.ignored], dtype=np.float32)


def _counts(outputs: Sequence[np.ndarray | None]) -> dict[str, int]:
    """Windows that were answered, and how many answers were of no use or only of some."""
    found = [
        Permutation(tuple(output[:-2].astype(int).tolist()), int(output[-2]), int(output[-1]))
        for output in outputs
        if output is not None
    ]
    return {
        "windows": len(found),
        "fallbacks": sum(answer.fallback for answer in found),
        "repaired": sum(answer.repaired for answer in found),
    }


def _reader(
    spec: ModelSpec, params: ListwiseGenerationParams, model: Any, folder: str
) -> tuple[WindowReader, dict[str, Any]]:
    """What turns windows into prompts, and the facts about it."""
    tokenizer = transformer.load_tokenizer(spec, folder, params.pad_token)
    positions = transformer.position_limit(model)
    max_length = transformer.input_limit(spec, tokenizer, positions)
    reader = WindowReader(tokenizer, params, max_length=max_length)
    prompt = reader.read("a query", ["a document", "another document"])
    return reader, {
        "max_length": max_length,
        "position_limit": positions,
        "prompt": reader.render("{query}", ["{passage}"] * 2),
        "answer_tokens": reader.answer_tokens(params.window),
        **transformer.describe_tokenizer(folder, prompt.ids, tokenizer),
    }


def load(spec: ModelSpec, placement: Placement) -> ListwiseGeneration:
    """Load a generative listwise reranker. ScoringError: files or templates do not fit."""
    params = spec.params or ListwiseGenerationParams()
    weights = resolve_folder(spec)
    model = transformer.load_model(MODEL_CLASS, spec, placement, weights.folder, dtype="auto")
    reader, facts = _reader(spec, params, model, weights.folder)
    penalty = repetition_penalty(spec.name, model, params.repetition_penalty)
    placed = transformer.place(model, spec, placement)
    writer = Greedy(placed, reader.tokenizer, device=placement.device, penalty=penalty)
    facts |= {
        "model_class": type(model).__name__,
        "weights": weights.revision,
        "repetition_penalty": penalty,
        "end_token_ids": writer.end,
    }
    return ListwiseGeneration(writer, reader, facts=facts)


def contract(spec: ModelSpec) -> Contract:
    """The input contract, from the tokenizer and the configuration alone: a window of one."""
    params = spec.params or ListwiseGenerationParams()
    folder = input_folder(spec)
    model = transformer.empty_model(MODEL_CLASS, spec, folder)
    reader, facts = _reader(spec, params, model, folder)

    def read(query: str, document: str) -> Reading:
        prompt = reader.read(query, [document])
        cap = params.passages_cap
        why = f"max_length {reader.max_length}"
        why = why if cap is None else f"passages_cap {cap} {params.cap_unit}, {why}"
        cuts = [Cut("document", whole, kept, why) for kept, whole in prompt.cuts if kept < whole]
        shown = sequence("window", reader.tokenizer, prompt.ids)
        return Reading((shown,), tuple(cuts), prompt.refusal)

    return Contract(facts, read)

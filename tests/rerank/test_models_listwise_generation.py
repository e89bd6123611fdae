"""listwise_generation against rank_llm and mteb's LightOn wrapper (tests/golden/listwise.json)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from rerank.errors import ConfigError, ScoringError
from rerank.models import load_scorer
from rerank.models.greedy import Greedy
from rerank.models.listwise_generation import ListwiseGeneration, contract
from rerank.models.listwise_generation_params import ListwiseGenerationParams
from rerank.records import GroupScores, ModelSpec, Placement, QueryGroup
from rerank.scoring import OUT_OF_MEMORY, ScoringReport, score_groups
from tests.standins.listwise import build, digest, passages, set_config

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "listwise.json").read_text(encoding="utf-8")
)
CPU = Placement("cpu", "float32", "sdpa")
BUDGET = 8192  # tokens of a batch
# rank_llm's rank_gpt_template.yaml
RANK_GPT = {
    "system": "You are RankGPT, an intelligent assistant that can rank passages based on their "
    "relevancy to the query.",
    "prefix": "I will provide you with {num} passages, each indicated by number identifier [].\n"
    "Rank the passages based on their relevance to query: {query}.",
    "prefix_reply": "Okay, please provide the passages.",
    "passage": "[{rank}] {passage}",
    "passage_reply": "Received passage [{rank}].",
    "suffix": "Search Query: {query}.\nRank the {num} passages above based on their relevance to "
    "the search query. The passages should be listed in descending order using identifiers. The "
    "most relevant passages should be listed first. The output format should be [] > [], e.g., "
    "[1] > [2]. Only response the ranking results, do not say any word or explain.",
}
LIGHTON = {
    "system": "",
    "prefix": "Query: {query}\n\nRank these passages from most to least relevant:\n",
    "passage": "[{rank}]: {passage}",
    "separator": "\n",
    "suffix": "\n\nRanking:",
    "frame": "<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n",
    "window": 4,
    "stride": 2,
    "top_window": "full",
    "passages_cap": None,
    "cap_unit": "tokens",
    "fix_text": False,
    "escape_identifiers": False,
    "max_new_tokens": 30,
    "exact_length": False,
    "parser": "strict",
}
THINK = LIGHTON | {"frame": f"{LIGHTON['frame']}<think>\n\n</think>\n\n"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(kind, tmp_path_factory.mktemp(kind)) for kind in ("zephyr", "lighton")}


def spec_of(folder: Path, max_length: int = 4096, **params: Any) -> ModelSpec:
    settings = ListwiseGenerationParams(**{"max_fallback_share": 1.0, **params})
    return ModelSpec(
        "m", "listwise_generation", weights=str(folder), max_length=max_length, params=settings
    )


def loaded(folder: Path, **settings: Any) -> ListwiseGeneration:
    scorer = load_scorer(spec_of(folder, **settings), CPU)
    assert isinstance(scorer, ListwiseGeneration)
    return scorer


class Recorded:
    """Answers what the reference's model answered to the same token ids, and nothing else."""

    def __init__(self, calls: Sequence[Mapping[str, Any]]) -> None:
        self.calls = {call["ids_sha256"]: call for call in calls}
        self.used: set[str] = set()

    def write(
        self, prompts: Sequence[tuple[int, ...]], new_tokens: int, *, exact: bool
    ) -> list[str]:
        found = [hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest() for ids in prompts]
        self.used |= set(found)
        for call in (self.calls[key] for key in found):
            assert new_tokens == call.get("max_tokens", new_tokens)
            assert exact == (call.get("min_tokens") == new_tokens)
        return [self.calls[key]["answer"] for key in found]


class Told:
    """Answers by a function of the window's passages."""

    def __init__(self, reader: Any, answer: Callable[[list[str]], str]) -> None:
        self.reader = reader
        self.answer = answer
        self.batches: list[int] = []

    def write(
        self, prompts: Sequence[tuple[int, ...]], new_tokens: int, *, exact: bool
    ) -> list[str]:
        self.batches.append(len(prompts))
        texts = [self.reader.tokenizer.decode(list(ids)) for ids in prompts]
        lines = [[line for line in text.split("\n") if line[:1] == "["] for text in texts]
        return [self.answer([line.split("] ", 1)[1] for line in found]) for found in lines]


def order_text(order: Sequence[int]) -> str:
    return " > ".join(f"[{place + 1}]" for place in order)


def told(scorer: ListwiseGeneration, answer: Callable[[list[str]], str]) -> ListwiseGeneration:
    return ListwiseGeneration(Told(scorer.reader, answer), scorer.reader, facts={})


def best_number_first(window: list[str]) -> str:
    """Ranks passages "p7" by their number, the largest first."""
    return order_text(sorted(range(len(window)), key=lambda place: -int(window[place][1:])))


def group_of(query: str, documents: Sequence[str], name: str = "q") -> QueryGroup:
    ids = tuple(f"{name}-d{row}" for row in range(len(documents)))
    return QueryGroup(name, query, ids, tuple(documents), tuple(range(1, len(ids) + 1)))


def scored(
    scorer: ListwiseGeneration, *groups: QueryGroup
) -> tuple[list[GroupScores], ScoringReport]:
    return score_groups(scorer, groups, BUDGET)


def final_order(result: GroupScores) -> list[int]:
    """Rows, best first; the scores must be minus the ranks 1 to n."""
    assert sorted(result.scores) == sorted(-rank for rank in range(1, len(result.scores) + 1))
    order: list[int] = np.argsort(-result.scores).tolist()
    return order


@pytest.mark.parametrize("number", range(len(GOLDEN["rank_llm"])))
def test_prompts_and_orders_are_rank_llms(folders: dict[str, Path], number: int) -> None:
    """`RankListwiseOSLLM.rerank_batch` on the same tokenizer, its vLLM answering the same."""
    assert digest(folders["zephyr"]) == GOLDEN["standins"]["zephyr"]
    case = GOLDEN["rank_llm"][number]
    template = RANK_GPT if case["template"] == "rank_gpt" else {}
    scorer = loaded(folders["zephyr"], max_length=case["context"], **template)
    recorded = Recorded(case["calls"])
    replaying = ListwiseGeneration(recorded, scorer.reader, facts={})
    (result,), report = scored(replaying, group_of(case["query"], case["documents"]))
    assert final_order(result) == case["order"]
    if len(case["documents"]) > 1:  # rank_llm asks even about a single passage
        assert recorded.used == set(recorded.calls)
        assert report.counts["windows"] == len(case["calls"])
    if case["first_prompt"]:
        prompt = scorer.reader.read(case["query"], case["documents"][-20:])
        ids = scorer.reader.tokenizer(case["first_prompt"])["input_ids"]
        assert list(prompt.ids) == ids
        assert any(prompt.truncated) == (case["context"] < 4096)


@pytest.mark.parametrize("number", range(len(GOLDEN["lighton_rankings"])))
def test_prompts_and_orders_are_mtebs_for_lighton(folders: dict[str, Path], number: int) -> None:
    """`LightOnListwiseRerankerWrapper._sliding_window_rank`, one query at a time."""
    assert digest(folders["lighton"]) == GOLDEN["standins"]["lighton"]
    case = GOLDEN["lighton_rankings"][number]
    scorer = loaded(folders["lighton"], **(THINK if case["think"] else LIGHTON))
    recorded = Recorded(case["calls"])
    replaying = ListwiseGeneration(recorded, scorer.reader, facts={})
    (result,), report = scored(replaying, group_of(case["query"], case["documents"]))
    assert final_order(result) == case["order"]
    assert recorded.used == set(recorded.calls)
    assert report.counts == {
        "windows": len(case["calls"]),
        "fallbacks": case["fallbacks"],
        "repaired": 0,
    }


def test_what_the_model_writes_is_what_mtebs_wrapper_gets(folders: dict[str, Path]) -> None:
    """Greedy decoding of a hybrid (linear attention) model, alone and in one padded batch."""
    scorer = loaded(folders["lighton"], **THINK)
    cases = GOLDEN["lighton_windows"]
    prompts = [scorer.reader.read(case["query"], case["documents"]) for case in cases]
    assert [list(prompt.ids) for prompt in prompts] == [case["ids"] for case in cases]
    ids = [prompt.ids for prompt in prompts]
    written = [case["written"] for case in cases]
    assert [scorer.writer.write([row], 30, exact=False)[0] for row in ids] == written
    assert scorer.writer.write(ids, 30, exact=False) == written == GOLDEN["lighton_together"]


@pytest.mark.parametrize("kind", ["zephyr", "lighton"])
def test_what_is_written_does_not_depend_on_the_batch(folders: dict[str, Path], kind: str) -> None:
    """T6: prompts of 60 to 900 tokens side by side, to the end token or to an exact length."""
    scorer = loaded(folders[kind], **(THINK if kind == "lighton" else {}))
    prompts = [
        scorer.reader.read("필터?", passages(count, seed=count)).ids for count in (2, 20, 3, 40, 7)
    ]
    assert max(map(len, prompts)) > 2 * min(map(len, prompts))
    for exact in (False, True):
        together = scorer.writer.write(prompts, 16, exact=exact)
        assert together == [scorer.writer.write([row], 16, exact=exact)[0] for row in prompts]
        assert len(set(together)) >= 3


class Scripted:
    """Stands in for a model: writes the same tokens after every prompt."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = torch.tensor(tokens)
        self.generation_config = GenerationConfig()

    def generate(self, input_ids: Any, **_: Any) -> Any:
        return torch.cat([input_ids, self.tokens.expand(len(input_ids), -1)], dim=1)


def test_special_tokens_are_no_part_of_an_answer(folders: dict[str, Path]) -> None:
    """As vLLM and mteb decode: the end token and the padding behind it are left out."""
    tokenizer = loaded(folders["zephyr"]).reader.tokenizer
    end = tokenizer.eos_token_id
    answer = tokenizer("[2] > [1]", add_special_tokens=False)["input_ids"]
    writer = Greedy(Scripted([*answer, end, end]), tokenizer, device="cpu", penalty=1.0)
    assert writer.write([(5,), (5, 6, 7)], 20, exact=False) == ["[2] > [1]"] * 2


def test_an_exact_length_goes_past_the_end_token(folders: dict[str, Path], tmp_path: Path) -> None:
    """vLLM's min_tokens under rank_llm: the end token is not written before them."""
    ids = loaded(folders["zephyr"]).reader.read("필터?", passages(3)).ids
    free = loaded(folders["zephyr"]).writer.write([ids], 8, exact=True)[0]
    scorer = loaded(folders["zephyr"])
    first = scorer.reader.tokenizer(free, add_special_tokens=False)["input_ids"][0]
    folder = build("zephyr", tmp_path)
    set_config(folder, "generation_config.json", eos_token_id=[first])
    ended = loaded(folder)
    assert ended.describe()["end_token_ids"] == [first]
    assert ended.writer.write([ids], 8, exact=False) == [scorer.reader.tokenizer.decode([first])]
    longer = ended.writer.write([ids], 8, exact=True)[0]
    assert len(longer) > len(scorer.reader.tokenizer.decode([first]))
    assert longer != free


def test_the_best_passage_rises_from_the_bottom_to_the_top(folders: dict[str, Path]) -> None:
    """Oracle: 45 passages, window 20, stride 10; the ten best of all come out first, in order."""
    scorer = told(loaded(folders["zephyr"]), best_number_first)
    numbers = np.random.default_rng(3).permutation(45).tolist()
    (result,), report = scored(scorer, group_of("q", [f"p{number}" for number in numbers]))
    assert [numbers[row] for row in final_order(result)][:10] == list(range(44, 34, -1))
    assert report.counts == {"windows": 4, "fallbacks": 0, "repaired": 0}


def test_scores_follow_the_documents_and_their_order_matters(folders: dict[str, Path]) -> None:
    """T11, T12: minus the final rank at each document's place; what the model is shown is the
    candidates' own order."""
    scorer = told(loaded(folders["zephyr"]), best_number_first)
    (result,), _ = scored(scorer, group_of("q", ["p1", "p3", "p2"]))
    assert result.scores.tolist() == [-3.0, -1.0, -2.0]
    keeping = told(loaded(folders["zephyr"]), lambda window: order_text(range(len(window))))
    (kept,), _ = scored(keeping, group_of("q", ["p1", "p3", "p2"]))
    assert kept.scores.tolist() == [-1.0, -2.0, -3.0]


def test_queries_advance_together_and_each_by_its_own_windows(folders: dict[str, Path]) -> None:
    """Rounds are batched over queries; a query's windows do not depend on the others."""
    scorer = told(loaded(folders["zephyr"]), best_number_first)
    groups = [
        group_of("q", [f"p{(row * 7) % count}" for row in range(count)], f"q{count}")
        for count in (45, 1, 25, 2, 20)
    ]
    results, report = scored(scorer, *groups)
    assert report.counts["windows"] == report.items == 4 + 0 + 2 + 1 + 1
    for group, result in zip(groups, results, strict=True):
        (alone,), _ = scored(scorer, group)
        assert result.scores.tolist() == alone.scores.tolist()
    assert results[1].scores.tolist() == [-1.0]
    assert results[1].tokens.tolist() == [0]


def test_windows_of_other_sizes_have_answers_of_other_lengths(folders: dict[str, Path]) -> None:
    """rank_llm: as many tokens as a whole permutation of that window, prompts included in the
    budget of a batch."""
    scorer = loaded(folders["zephyr"])
    groups = [group_of("q", passages(count), f"q{count}") for count in (2, 20)]
    items = scorer.encode(groups)
    tokenizer = scorer.reader.tokenizer
    for item, count in zip(items, (2, 20), strict=True):
        whole = " > ".join(f"[{rank}]" for rank in range(1, count + 1))
        assert item.payload.prompt.new_tokens == len(tokenizer.encode(whole)) - 1
        assert item.tokens == len(item.payload.prompt.ids) + item.payload.prompt.new_tokens
    rows = scorer.forward(items)
    assert [len(row) for row in rows] == [2 + 2, 20 + 2]
    for item, row in zip(items, rows, strict=True):
        np.testing.assert_array_equal(row, scorer.forward([item])[0])


def test_answers_of_no_use_are_counted_and_bounded(folders: dict[str, Path]) -> None:
    def half_mute(window: list[str]) -> str:
        return "" if "p0" in window else "[2]"

    groups = [group_of("q", [f"p{number % 4}", "p9", "p8"], f"q{number}") for number in range(12)]
    scorer = told(loaded(folders["zephyr"], max_fallback_share=0.25), half_mute)
    results, report = scored(scorer, *groups)
    assert report.counts == {"windows": 12, "fallbacks": 3, "repaired": 9}
    assert results[0].scores.tolist() == [-1.0, -2.0, -3.0]
    assert results[1].scores.tolist() == [-2.0, -1.0, -3.0]
    bounded = told(loaded(folders["zephyr"], max_fallback_share=0.2), half_mute)
    with pytest.raises(
        ScoringError, match="3 of 12 windows kept their old order .* max_fallback_share 0.2"
    ):
        scored(bounded, *groups)
    _, few = scored(bounded, *groups[:4])  # too few windows to say something of the model
    assert few.counts["fallbacks"] == 1


@pytest.mark.parametrize("unit", ["words", "characters", "tokens"])
def test_passages_are_cut_alike_and_the_frame_never(folders: dict[str, Path], unit: str) -> None:
    """T1, T23: too long a window loses passage ends; the question after them stands as it was."""
    documents = ["reset filter " * 200, "교체", "필터 주기 " * 200]
    scorer = loaded(folders["zephyr"], max_length=700, cap_unit=unit, passages_cap=None)
    reader = scorer.reader
    prompt, short = reader.read("필터?", documents), reader.read("필터?", ["a", "b", "c"])
    assert prompt.refusal is None
    assert len(prompt.ids) + prompt.new_tokens <= 700
    assert len(prompt.ids) > 600
    tail = reader.tokenizer.decode(list(short.ids)).split("[3] c")[1]
    assert reader.tokenizer.decode(list(prompt.ids)).endswith(tail)
    assert prompt.truncated == (True, False, True)
    assert prompt.cuts[0][0] == prompt.cuts[2][0] > prompt.cuts[1][0]
    (result,), _ = scored(
        told(scorer, lambda window: order_text(range(3))), group_of("필터?", documents)
    )
    assert result.truncated.tolist() == [True, False, True]


def test_a_cap_is_shared_by_the_passages_of_a_window(tmp_path: Path) -> None:
    """rank_llm: 300 words each of twenty passages, and more of each where they are fewer."""
    folder = build("zephyr", tmp_path, max_position_embeddings=32_768)
    scorer = loaded(folder, max_length=32_768)
    for count, words in ((20, 300), (8, 750), (3, 2000)):
        prompt = scorer.reader.read("q", ["a " * 2500] * count)
        assert prompt.cuts == ((words, 2500),) * count


def test_a_step_too_far_leaves_one_unit_of_each_passage(folders: dict[str, Path]) -> None:
    """rank_llm's step can pass zero, where its cut leaves nearly all of a text again."""
    long = [" ".join(f"word{n * 7}필터" for n in range(size)) for size in (60, 90, 75)]
    prompt = loaded(folders["zephyr"], max_length=1000).reader.read("필터", long)
    assert prompt.refusal is None
    assert prompt.cuts == ((1, 60), (1, 90), (1, 75))
    none = loaded(folders["zephyr"], passages_cap=2).reader.read("필터", long)
    assert none.cuts == ((1, 60), (1, 90), (1, 75))


def test_a_query_that_leaves_no_room_fails_and_no_other(folders: dict[str, Path]) -> None:
    scorer = told(loaded(folders["zephyr"], max_length=600), best_number_first)
    groups = [group_of("필터 " * 300, ["p1", "p2"], "a"), group_of("필터", ["p1", "p2"], "b")]
    (failed, fine), report = scored(scorer, *groups)
    assert np.isnan(failed.scores).all()
    assert "cut to one of their words each has more than the 600" in str(failed.failures[0])
    assert fine.scores.tolist() == [-2.0, -1.0]
    assert report.counts["windows"] == 1


@pytest.mark.parametrize(("place", "asked"), [(5, 3), (0, 4)])
def test_a_window_that_fails_takes_its_whole_query_and_no_other(
    folders: dict[str, Path], place: int, asked: int
) -> None:
    """A window of query a has no memory, its first or its second: the query has no scores, and no
    further windows; what it had is of no use."""

    def scarce(window: list[str]) -> str:
        if window[0] == "p100":
            raise MemoryError
        return order_text(range(len(window)))

    scorer = told(loaded(folders["zephyr"]), scarce)
    plain = [f"p{row}" for row in range(25)]
    groups = [
        group_of("q", [*plain[:place], "p100", *plain[place + 1 :]], "a"),
        group_of("q", plain, "b"),
    ]
    (failed, fine), report = scored(scorer, *groups)
    assert failed.failures == (OUT_OF_MEMORY,) * 25
    assert np.isnan(failed.scores).all()
    assert fine.scores.tolist() == [-rank for rank in range(1, 26)]
    bottom = scorer.encode(groups[1:])[0].tokens  # of twenty passages; the upper window has fifteen
    assert set(fine.tokens[5:]) == {bottom}
    assert 0 < max(fine.tokens[:5]) < bottom
    assert report.items == asked
    assert report.counts["windows"] == asked - 1


def test_empty_and_blank_texts_have_ranks(folders: dict[str, Path]) -> None:
    """T24, with the model itself writing."""
    for kind, template in (("zephyr", {}), ("lighton", LIGHTON)):
        scorer = loaded(folders[kind], **template)
        for query in ("", "필터"):
            (result,), _ = scored(scorer, group_of(query, ["", " ", "\n", "필터"]))
            final_order(result)


def test_a_second_beginning_token_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    """T13: one from a template, one from the tokenizer."""
    bos = loaded(folders["zephyr"]).reader.tokenizer.bos_token_id
    ids = loaded(folders["zephyr"]).reader.read("q", ["a", "b"]).ids
    assert ids.count(bos) == 1
    folder = build("zephyr", tmp_path)
    template = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
    set_config(folder, "tokenizer_config.json", chat_template=template)
    with pytest.raises(ScoringError, match="the prompt begins with <s> twice"):
        loaded(folder)
    assert loaded(folder, add_special_tokens=False).reader.read("q", ["a"]).ids.count(bos) == 1


def test_settings_that_change_the_best_token_are_never_silent(tmp_path: Path) -> None:
    folder = build("zephyr", tmp_path)
    path = folder / "generation_config.json"
    plain = path.read_text()
    set_config(folder, path.name, do_sample=True, temperature=0.6, repetition_penalty=1.3)
    with pytest.raises(ScoringError, match="sets repetition_penalty 1.3; state repetition_penalty"):
        loaded(folder)
    path.write_text(plain)
    ids = [loaded(folder).reader.read("필터?", passages(5)).ids]
    free = loaded(folder).writer.write(ids, 20, exact=True)
    set_config(folder, path.name, do_sample=True, temperature=0.6, repetition_penalty=1.3)
    assert loaded(folder, repetition_penalty=1.0).writer.write(ids, 20, exact=True) == free
    assert loaded(folder, repetition_penalty=1.3).writer.write(ids, 20, exact=True) != free
    for name, value in (("no_repeat_ngram_size", 2), ("min_length", 9), ("suppress_tokens", [5])):
        path.write_text(plain)
        set_config(folder, path.name, **{name: value})
        with pytest.raises(ScoringError, match=f"sets {name}, which greedy generation here"):
            loaded(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"passage": "{passage}"}, "`passage` must hold {rank} and {passage}"),
        ({"prefix": "", "suffix": ""}, "`prefix` or `suffix` the {query}"),
        ({"suffix": "{document}"}, "suffix holds {document}; it may hold {num}, {query}"),
        ({"suffix": "{"}, "suffix is no template"),
        ({"frame": "{user}"}, "leave `system`"),
        ({"frame": "user", "system": ""}, "holds {user} exactly once"),
        ({"prefix_reply": "Okay."}, "give both prefix_reply and passage_reply"),
        ({"stride": 21}, "window 20, stride 21"),
        ({"window": 1, "stride": 1}, "window 1"),
        ({"parser": "rankllm"}, "Did you mean 'rank_llm'"),
        ({"cap_unit": "word"}, "Did you mean 'words'"),
        ({"max_fallback_share": 2.0}, "max_fallback_share 2.0"),
    ],
)
def test_settings_that_contradict_themselves(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ListwiseGenerationParams(**settings)
    assert message in str(caught.value)


def test_a_tokenizer_without_a_chat_template_needs_a_frame(tmp_path: Path) -> None:
    folder = build("zephyr", tmp_path)
    set_config(folder, "tokenizer_config.json", chat_template=None)
    with pytest.raises(ScoringError, match="write the prompt around {user} as `frame`"):
        loaded(folder)
    framed = loaded(folder, frame="[INST]{user}[/INST]", system="")
    assert framed.describe()["prompt"].startswith("[INST]I will provide you with 2 passages")


def test_the_contract_reads_what_the_scorer_reads(folders: dict[str, Path]) -> None:
    scorer = loaded(folders["zephyr"], max_length=500)
    recipe = contract(spec_of(folders["zephyr"], max_length=500))
    for query, document in (("필터?", "교체 [3]"), ("", ""), ("필터?", "reset " * 900)):
        reading = recipe.read(query, document)
        assert reading.sequences[0].ids == scorer.reader.read(query, [document]).ids
        assert reading.refusal is None
    (cut,) = recipe.read("필터?", "reset " * 900).cuts
    assert (cut.text, cut.tokens, cut.why) == (
        "document",
        900,
        "passages_cap 6000 words, max_length 500",
    )
    assert "cut to one of their words" in str(recipe.read("필터 " * 300, "교체").refusal)
    assert recipe.facts["rendered_ids"] == scorer.describe()["rendered_ids"]

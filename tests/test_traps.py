"""The known ways to score a reranker wrongly, each with the tests that fail when it comes back."""

from __future__ import annotations

import ast
import random

import numpy as np
import pytest

import metrics
from tests.conftest import ROOT

RERANK = "tests/rerank/test_"
# trap -> (file below tests/rerank without "test_", test); numbers as in our tests' docstrings
TRAPS: dict[str, list[tuple[str, str]]] = {
    "T1 the end of a long prompt is cut off": [
        ("prompt_reader", "test_a_long_document_never_costs_the_end_of_the_prompt"),
        ("prompt_reader", "test_a_cut_document_is_one_that_was_shorter"),
        ("models_encoder_decoder", "test_the_frame_of_an_over_long_prompt_is_kept"),
        ("models_listwise_generation", "test_passages_are_cut_alike_and_the_frame_never"),
    ],
    "T2 a template file one line break short": [
        ("prompt_reader", "test_the_model_own_template_ends_as_the_literal_prompt")
    ],
    "T3 pieces joined before they are tokenised": [
        ("prompt_reader", "test_joined_and_separate_pieces_are_different_ids"),
        ("golden_prompts", "test_token_ids_are_the_references"),
    ],
    "T4 no pad token": [
        ("models_prompt_decoder", "test_a_folder_without_pad_token_names_the_key"),
        ("models_pair_traps", "test_the_pad_token_reaches_tokenizer_and_model"),
    ],
    "T5 padding side": [
        ("models_prompt_decoder", "test_scores_are_the_whole_models"),
        ("models_pair_traps", "test_padding_does_not_move_a_score"),
        ("models_encoder_decoder", "test_scores_do_not_depend_on_the_batch"),
    ],
    "T6 padding without a mask": [
        ("models_pair_traps", "test_padding_is_masked"),
        ("models_prompt_decoder", "test_scores_are_the_whole_models"),
    ],
    "T7 special tokens inside a text": [
        ("models_prompt_decoder", "test_the_state_read_is_the_last_tokens_whatever_it_is"),
        ("models_pair_traps", "test_special_tokens_in_texts_are_read_as_the_reference_reads_them"),
    ],
    "T8 sigmoid and bf16 make ties": [
        ("models_prompt_decoder", "test_margins_keep_what_bf16_and_sigmoid_lose"),
        ("models_pair_traps", "test_the_head_in_fp32_keeps_scores_apart"),
    ],
    "T10 wrong label ids": [
        ("models_prompt_decoder", "test_labels_are_single_distinct_tokens"),
        ("models_encoder_decoder", "test_labels_are_two_words_of_one_token"),
    ],
    "T11 sorted answers taken for the input's order": [
        ("models_listwise_embedding", "test_scores_follow_the_documents_not_their_order_by_score"),
        ("models_http", "test_each_dialect_asks_in_its_words_and_joins_scores_by_index"),
    ],
    "T12 a list is split": [
        (
            "models_listwise_embedding",
            "test_a_score_depends_on_the_other_documents_and_their_order",
        ),
        ("models_http", "test_a_list_that_must_stay_whole_is_not_split"),
    ],
    "T13 two beginnings of text": [
        ("prompt_reader", "test_one_bos_and_no_more"),
        ("models_listwise_generation", "test_a_second_beginning_token_is_refused"),
    ],
    "T14 a both-ways model run causally": [
        ("models_prompt_decoder", "test_attention_is_what_the_recipe_says"),
        ("models_prompt_decoder", "test_a_model_that_looks_the_other_way_is_refused"),
    ],
    "T15 more tokens than positions": [
        ("models_pair_traps", "test_xlmr_loses_two_rows_of_its_position_table"),
        ("models_prompt_decoder", "test_positions_hold_the_prompt_around_the_texts"),
    ],
    "T16 a random head": [
        ("loading", "test_a_missing_score_weight_is_refused"),
        ("models_sentence_head", "test_a_modular_folder_needs_the_setting"),
        ("models_prompt_decoder", "test_a_classifier_without_its_head_is_refused"),
    ],
    "T17 another tokenizer": [
        ("loading", "test_a_tokenizer_is_pinned_by_its_ids"),
        ("loading", "test_ids_are_those_of_the_tokenizer_file"),
    ],
    "T18 bf16 scores move with the batch": [
        ("models_prompt_decoder", "test_bf16_orders_alike_in_any_batch")
    ],
    "T19 running out of memory changes scores": [
        ("models_prompt_decoder", "test_one_out_of_memory_changes_no_score"),
        ("scoring", "test_out_of_memory_halves_the_same_batch"),
    ],
    "T20 a cached chat template": [
        ("models_prompt_decoder", "test_a_prompt_object_keeps_its_own_template"),
        ("loading", "test_each_load_makes_a_tokenizer_of_its_own"),
    ],
    "T21 remote code patches the library": [
        ("loading", "test_the_librarys_classes_are_what_they_were"),
        ("loading", "test_code_that_replaces_methods_of_the_library_is_refused"),
    ],
    "T22 another instruction": [
        ("models_prompt_decoder", "test_another_instruction_is_another_prompt"),
        ("runs", "test_shards_that_were_read_differently_are_no_run"),
    ],
    "T23 a query longer than the input": [
        ("prompt_reader", "test_a_query_three_times_too_long_is_refused"),
        ("models_encoder_decoder", "test_a_query_longer_than_the_input"),
    ],
    "T24 empty documents": [
        ("models_prompt_decoder", "test_empty_and_blank_documents_have_scores_of_their_own"),
        ("models_pair_traps", "test_an_empty_document_has_a_score"),
        ("models_listwise_generation", "test_empty_and_blank_texts_have_ranks"),
    ],
    "T25 orders that a model writes": [
        ("permutations", "test_rank_llms_parsing"),
        ("permutations", "test_lightons_parsing"),
        ("models_listwise_generation", "test_answers_of_no_use_are_counted_and_bounded"),
    ],
    "T26 pooling aligned to padding": [
        ("models_encoder_decoder", "test_pooling_is_the_mean_of_four_real_states")
    ],
    "T27 a lost sliding window": [
        ("models_pair_traps", "test_the_local_window_is_the_same_in_every_attention"),
        ("models_listwise_embedding", "test_the_sliding_window_is_respected"),
        ("models_encoder_decoder", "test_without_its_window_a_model_scores_otherwise"),
    ],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_has_its_tests(trap: str) -> None:
    """Each named test is there; what it asserts is told by itself."""
    for file, name in TRAPS[trap]:
        tree = ast.parse((ROOT / f"{RERANK}{file}.py").read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_all_traps_are_listed() -> None:
    """T1 to T27; T9 is below."""
    numbers = {int(trap.split()[0][1:]) for trap in TRAPS} | {9}
    assert numbers == set(range(1, 28))


def _constant(order: list[str], tie: str) -> np.ndarray:
    """nDCG@10 per query of a model that scores everything alike, candidates in `order`."""
    queries = [f"q{number:03d}" for number in range(200)]
    run = metrics.Run(
        query_ids=[query for query in queries for _ in order],
        doc_ids=[f"{query}-{doc}" for query in queries for doc in order],
        scores=np.zeros(len(queries) * len(order)),
        positions=np.tile(np.arange(1, len(order) + 1), len(queries)),
    )
    rng = random.Random(17)
    gold = [f"{query}-{rng.choice(sorted(order))}" for query in queries]
    judged = metrics.Judgments(query_ids=queries, doc_ids=gold, grades=[1] * len(queries))
    found = metrics.evaluate(run, judged, ["nDCG@10"], metrics.Conventions(tie=tie))
    values: np.ndarray = found.values["nDCG@10"]
    return values


@pytest.mark.parametrize("tie", ["trec", "docid_asc", "expected"])
def test_a_constant_model_scores_at_chance_whatever_the_order(tie: str) -> None:
    """T9. Gold-first candidates are worth nothing under equal scores. Oracle: 20 documents, one
    relevant, all orders alike: the mean of 1/log2(1+rank) over 20 ranks, 0 beyond ten."""
    documents = [f"{number:02d}" for number in range(20)]
    chance = sum(1 / np.log2(1 + rank) for rank in range(1, 11)) / 20
    reverse = documents[::-1]
    np.testing.assert_array_equal(_constant(documents, tie), _constant(reverse, tie))
    tolerance = 1e-12 if tie == "expected" else 0.08  # three standard errors of 200 queries
    assert _constant(documents, tie).mean() == pytest.approx(chance, abs=tolerance)

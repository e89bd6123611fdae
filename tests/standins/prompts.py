"""The literal prompts of the decoder rerankers, as their authors' code writes them.

Source of each: the comment of the model's file in configs/models. Lengths are a stand-in's.
"""

from __future__ import annotations

from typing import Any

from rerank.models.prompt_decoder import PromptDecoderParams

JUDGE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
BODY = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
ANSWER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"

RECIPES: dict[str, dict[str, Any]] = {
    "qwen3": {
        "prompt": (JUDGE, BODY, ANSWER),
        "instruction": WEB_SEARCH,
        "positive_token": "yes",
        "negative_token": "no",
    },
    "seqcls": {
        "prompt": (JUDGE, BODY, ANSWER),
        "instruction": WEB_SEARCH,
        "model_class": "sequence_classification",
        "readout": "classifier",
    },
    "mxbai": {
        "prompt": (
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
            "assistant.<|im_end|>\n<|im_start|>user\n",
            "query: {query}",
            "\n",
            "document: {document}",
            "\n",
            "You are a search relevance expert who evaluates how well documents match search "
            "queries. For each query-document pair, carefully analyze the semantic relationship "
            "between them, then provide your binary relevance judgment (0 for not relevant, 1 for "
            "relevant).\nRelevance:",
            "<|im_end|>\n<|im_start|>assistant\n",
        ),
        "query_cap": 0.75,
        "document_cap": 1.0,
        "length_counts": "texts",
        "positive_token": "1",
        "negative_token": "0",
    },
    "bge_gemma": {
        "prompt": (
            "A: {query}",
            "\n",
            "B: {document}",
            "\n",
            "Given a query A and a passage B, determine whether the passage contains an answer to "
            "the query by providing a prediction of either 'Yes' or 'No'.",
        ),
        "special_tokens": "tokenizer",
        "query_cap": 0.75,
        "document_cap": 1.0,
        "length_counts": "flag_embedding",
        "readout": "token",
        "positive_token": "Yes",
    },
    "zerank": {
        "prompt": (
            "<|im_start|>system\n{query}<|im_end|>\n<|im_start|>user\n{document}<|im_end|>\n"
            "<|im_start|>assistant\n",
        ),
        "readout": "token",
        "positive_token": "Yes",
    },
    "ctxl": {
        "prompt": (
            "Check whether a given document contains information helpful to answer the query.\n"
            "<Document> {document}\n<Query> {query} ??",
        ),
        "special_tokens": "tokenizer",
        "readout": "token_id",
        "token_id": 0,
    },
    "nemotron": {
        "prompt": ("question:{query} \n \n passage:{document}",),
        "special_tokens": "tokenizer",
        "model_class": "sequence_classification",
        "readout": "classifier",
        "pooling": "mean",
        "attention_direction": "bidirectional",
        "pad_token": "<|end_of_text|>",
    },
    "lighton_pw": {
        "messages": ("query: {query}", "document: {document}"),
        "positive_token": "Yes",
        "negative_token": "No",
    },
}


def params(recipe: str, **changes: Any) -> PromptDecoderParams:
    """The recipe with some settings changed."""
    return PromptDecoderParams(**{**RECIPES[recipe], **changes})

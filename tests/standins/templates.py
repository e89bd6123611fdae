"""Chat templates of the stand-ins, as the models' repositories keep them.

Each renders messages of the roles query and document, and system where a prompt is given: the
layout that sentence-transformers calls flat.
"""

from __future__ import annotations

JUDGE = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".'
)
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
CONTENT = (
    "{%- set query = messages | selectattr('role', 'eq', 'query') | map(attribute='content')"
    " | first -%}"
    "{%- set document = messages | selectattr('role', 'eq', 'document')"
    " | map(attribute='content') | first -%}"
    "{%- set instruction = messages | selectattr('role', 'eq', 'system')"
    " | map(attribute='content') | first | default('" + INSTRUCTION + "') -%}"
)
END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
# One line break more than the text needs, as in the model's own file: jinja drops the last one.
QWEN3 = (
    CONTENT
    + "<|im_start|>system\n"
    + JUDGE
    + "<|im_end|>\n<|im_start|>user\n<Instruct>: {{ instruction }}\n<Query>: {{ query }}\n"
    + "<Document>: {{ document }}"
    + END
    + "\n"
)
# The text is a stand-in's own: the real template must be read from the model's files.
QWEN3_5 = (
    CONTENT
    + "<|im_start|>user\nQuery: {{ query }}\n\nDocument: {{ document }}\n\n"
    + "Is the document relevant to the query? Answer Yes or No.<|im_end|>\n"
    + "<|im_start|>assistant\n<think>\n\n</think>\n\n\n"
)
CHAT_TEMPLATES = {"qwen3": QWEN3, "qwen3_5": QWEN3_5}
# zerank-2 puts the query where a system message stands; no instruction, no thinking block.
ZERANK = (
    "{%- set query = messages | selectattr('role', 'eq', 'query') | map(attribute='content')"
    " | first -%}"
    "{%- set document = messages | selectattr('role', 'eq', 'document')"
    " | map(attribute='content') | first -%}"
    "<|im_start|>system\n{{ query }}<|im_end|>\n<|im_start|>user\n{{ document }}<|im_end|>\n"
    "{%- if add_generation_prompt %}{{ '\n<|im_start|>assistant\n' }}{%- endif %}"
)

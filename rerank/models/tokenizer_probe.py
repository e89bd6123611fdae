"""Twenty texts whose token ids tell one tokenizer from another, whatever its files are called."""

from __future__ import annotations

# Korean, English, Japanese, Chinese, emoji, conjoining jamo and combining accents, compatibility
# forms, tabs, line ends, runs of spaces, and the special tokens of common models written as text.
# The digest of their ids is stored with results: never change a text, its case or its order.
PROBE_TEXTS = (
    "한국의 수도는 어디인가요?",
    "필터는 석 달마다 교체해야 합니다.",
    "서울특별시 강남구 테헤란로 123, 2층 (역삼동)",
    "\u1112\u1161\u11ab\u1100\u1173\u11af NFD",
    "What is the capital of France?",
    "Don't re-enter the e-mail address twice; it's case-sensitive.",
    "THE QUICK BROWN FOX JUMPS",
    "café nai\u0308ve Zu\u0308rich",
    "東京の水は名物ではない。",
    "北京是中华人民共和国的首都。",
    "😀👍🏽👩‍👩‍👧 reset 🙂",
    "tab\tseparated\tvalues",
    "two  spaces   three ",
    " leading and trailing \n",
    "line one\nline two\r\n\nline four",
    "3.14159, 1,000,000 and 2024-02-29T23:59:59Z",
    "https://example.com/a_b?c=d&e=%20#f",
    "ｗｉｄｅ ① ﬁ Ⅷ ㎏",
    "[CLS] [SEP] [PAD] [MASK] <s> </s> <pad> <unk> <mask>",
    "<|endoftext|> <|im_start|> <|im_end|> <bos> <eos> <start_of_turn>",
)

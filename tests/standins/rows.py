"""The row set on which a recipe's token ids and scores are compared with its reference."""

from __future__ import annotations

LONG = " ".join(
    (
        "필터 교체 주기는 석 달이다.",
        "Replace the filter every three months, or whenever the blue lamp is lit.",
        "The lamp is reset by holding the button for 5 seconds; it's in the manual (p. 12).",
    )
    * 5
)
NFD = "\u1112\u1161\u11ab\u1100\u1173\u11af"  # "한글" in conjoining jamo

# (name, query, document)
ROWS: tuple[tuple[str, str, str], ...] = (
    ("short", "filter replacement", "Replace the filter every three months."),
    ("korean", "필터 교체 주기", "필터는 석 달마다 교체한다."),
    ("empty_document", "filter", ""),
    ("empty_query", "", "replace the filter"),
    ("long_document", "필터 교체 주기?", LONG),
    ("long_query", LONG, "석 달"),
    ("both_long", LONG, LONG),
    (
        "special_tokens",
        "<|im_end|> filter </s> <s>",
        "a <|im_start|>system\nb <|endoftext|> <think> <bos> <pad> <|end_of_text|> </think>",
    ),
    ("special_last", "filter", "replace<|endoftext|>"),
    ("cjk", "東京の水", "水は東京の名物ではない。"),
    ("emoji", "reset 😀", "😀😀 reset 👩🏽‍🔧 🙂"),
    ("nfd", NFD, NFD + " 필터 caf\u0065\u0301"),
    ("marks", "फ़िल्टर", "हिन्दी में फ़िल्टर बदलें"),
    ("line_breaks", "filter\n", "\nreplace\n\n\tthe  filter \n"),
    ("question", "How do I reset the filter?", "?\nHold the button."),
    ("sentence", "Reset the filter.", "Hold the button.\n"),
    ("spaces", " filter  reset ", "  hold  the button   "),
)

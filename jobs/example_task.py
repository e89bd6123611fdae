"""The example that `rerank init` writes: a made-up library, in Korean and in English.

Written for this purpose, the labels too (provenance: synthetic); nothing was copied.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A tiny task. documents: id -> (title, text); queries: id -> text; grades: 0 to 2."""

    language: str
    documents: dict[str, tuple[str, str]]
    queries: dict[str, str]
    grades: dict[str, dict[str, int]]


KOREAN = Example(
    language="ko",
    documents={
        "ko-hours": (
            "이용 시간",
            "가람도서관은 화요일부터 일요일까지 오전 9시에 문을 열고 오후 9시에 닫습니다. "
            "월요일은 쉽니다.",
        ),
        "ko-hours-old": (
            "이용 시간 (2019년 안내)",
            "2019년까지는 월요일에도 열었으며 저녁 6시에 문을 닫았습니다.",
        ),
        "ko-loans": (
            "대출 권수와 기간",
            "회원은 책을 한 번에 다섯 권까지 14일 동안 빌릴 수 있습니다. 예약이 없으면 한 번 "
            "연장됩니다.",
        ),
        "ko-fees": (
            "연체료",
            "반납이 늦으면 한 권에 하루 100원의 연체료가 붙고, 연체 중에는 새 책을 빌릴 수 "
            "없습니다.",
        ),
        "ko-card": (
            "회원증 발급",
            "신분증을 가지고 1층 안내 데스크에 오시면 회원증을 바로 만들어 드립니다. 재발급 비용은 "
            "2,000원입니다.",
        ),
        "ko-rooms": (
            "세미나실 예약",
            "세미나실은 누리집에서 사흘 전까지 예약하며, 하루에 두 시간까지 쓸 수 있습니다.",
        ),
        "ko-parking": (
            "주차",
            "지하 주차장은 두 시간까지 무료입니다. 그 뒤에는 10분에 500원입니다.",
        ),
        "ko-ebooks": (
            "전자책",
            "전자책은 앱에서 세 권까지 7일 동안 빌릴 수 있고, 기한이 지나면 저절로 반납됩니다.",
        ),
    },
    queries={
        "ko-q1": "월요일에 도서관 문 여나요?",
        "ko-q2": "책은 몇 권까지 빌릴 수 있어요?",
        "ko-q3": "반납이 늦으면 얼마를 내야 하나요",
        "ko-q4": "회원증을 잃어버렸는데 다시 만들려면?",
        "ko-q5": "전자책도 연체료가 있나요?",
    },
    grades={
        "ko-q1": {"ko-hours": 2, "ko-hours-old": 0},
        "ko-q2": {"ko-loans": 2, "ko-ebooks": 1, "ko-fees": 0},
        "ko-q3": {"ko-fees": 2, "ko-loans": 0, "ko-parking": 0},
        "ko-q4": {"ko-card": 2, "ko-fees": 0},
        "ko-q5": {"ko-ebooks": 2, "ko-fees": 1, "ko-loans": 0},
    },
)

ENGLISH = Example(
    language="en",
    documents={
        "en-hours": (
            "Opening hours",
            "Garam Library opens at 9 in the morning and closes at 9 in the evening, Tuesday to "
            "Sunday. It is closed on Mondays.",
        ),
        "en-hours-old": (
            "Opening hours (2019)",
            "Until 2019 the library was open on Mondays too and closed at 6.",
        ),
        "en-loans": (
            "How much, how long",
            "Members borrow up to five books at once for 14 days. A loan is renewed once if nobody "
            "has reserved the book.",
        ),
        "en-fees": (
            "Late fees",
            "A late book costs 100 won a day. Nobody can borrow while a fee is open.",
        ),
        "en-card": (
            "Getting a card",
            "Bring an identity card to the desk on the first floor and you get your library card "
            "at once. A lost card is replaced for 2,000 won.",
        ),
        "en-rooms": (
            "Seminar rooms",
            "Seminar rooms are booked on the web site three days ahead, for up to two hours a day.",
        ),
        "en-parking": (
            "Parking",
            "The garage under the building is free for two hours; then 10 minutes cost 500 won.",
        ),
        "en-ebooks": (
            "E-books",
            "Three e-books at once can be borrowed in the app for 7 days; they return themselves.",
        ),
    },
    queries={
        "en-q1": "Is the library open on Mondays?",
        "en-q2": "how many books can I borrow",
        "en-q3": "What does it cost to bring a book back late?",
        "en-q4": "I lost my library card",
        "en-q5": "are there late fees for e-books",
    },
    grades={
        "en-q1": {"en-hours": 2, "en-hours-old": 0},
        "en-q2": {"en-loans": 2, "en-ebooks": 1, "en-fees": 0},
        "en-q3": {"en-fees": 2, "en-loans": 0, "en-parking": 0},
        "en-q4": {"en-card": 2, "en-fees": 0},
        "en-q5": {"en-ebooks": 2, "en-fees": 1, "en-loans": 0},
    },
)

EXAMPLES = {example.language: example for example in (KOREAN, ENGLISH)}

README = """\
# {name}

**An example, written by `rerank init`; the labels are synthetic.** The library and its rules are \
made up. Replace the rows by your own and keep the layout.

- `corpus.jsonl`: `_id`, `title` (may be empty), `text`; one document a line. A model reads \
`title + " " + text`.
- `queries.jsonl`: `_id`, `text`; optional `weight` (traffic) and `metadata` (attributes for \
slices).
- `judgments.jsonl`: `query_id`, `doc_id`, `grade` (a whole number; 1 and more is relevant, 0 was \
looked at and is not), optional `provenance` (human, derived, synthetic, translated) and \
`attributes`. TREC or BEIR qrels do as well: name the file with `qrels:` in ../{name}.yaml.

Texts are kept byte for byte. `rerank check {name}` says what is missing, doubled or odd.
"""

"""Which windows a listwise model ranks, and what order it said: lists of numbers, no model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TOP_WINDOWS = ("clipped", "full")


@dataclass(frozen=True)
class Permutation:
    """The order of a window, best first, as places 0 to n-1 in it.

    missing: places that the model did not name, which keep their old order behind the others;
    ignored: numbers that it named twice or that are no place of the window.
    """

    order: tuple[int, ...]
    missing: int = 0
    ignored: int = 0

    @property
    def fallback(self) -> bool:
        """Was nothing of the answer usable, so that the order is the old one?"""
        return self.missing == len(self.order)

    @property
    def repaired(self) -> bool:
        """Is it the model's order only in part?"""
        return not self.fallback and bool(self.missing or self.ignored)


def windows(
    documents: int, size: int, stride: int, *, passes: int = 1, top: str = "clipped"
) -> list[tuple[int, int]]:
    """(start, end) of every window in the order in which they are ranked, from the bottom up.

    A window of the whole list where that is shorter than `size`; none for fewer than two documents.
    top: how the last window of a pass meets the top of the list where the strides do not end there:
    clipped keeps its lower end (rank_llm), full its size (LightOn).
    """
    if documents < 2:
        return []
    size = min(size, documents)
    bounds, end = [], documents
    while end > size:
        bounds.append((end - size, end))
        end -= stride
    bounds.append((0, size if top == "full" else end))
    return [(start, end) for start, end in bounds if end - start > 1] * passes


def _odd_digits() -> dict[int, str]:
    """Code points of digits in other shapes, each with its plain digit, as rank_llm maps them."""
    zeros = (0x2080, 0xFF10, 0x1F100)  # subscripts, full width, with full stop or comma
    ones = (0x2460, 0x2776)  # in white and black circles, which begin at one
    superscripts = (0x2070, 0xB9, 0xB2, 0xB3, *range(0x2074, 0x207A))
    found = {zero + digit: str(digit) for zero in zeros for digit in range(10)}
    found |= {one + digit - 1: str(digit) for one in ones for digit in range(1, 10)}
    return found | {code: str(digit) for digit, code in enumerate(superscripts)}


ODD_DIGITS = _odd_digits()


def lenient(answer: str, size: int) -> Permutation:
    """Every run of digits after the last </think> is an identifier; the first mention counts.

    As rank_llm's `receive_permutation`: one run that is no number spoils the whole answer.
    """
    answer = answer.split("</think>")[-1].translate(ODD_DIGITS)
    runs = "".join(letter if letter.isdigit() else " " for letter in answer).split()
    try:
        named = [int(run) - 1 for run in runs]
    except ValueError:  # a digit in a shape that has no value, such as U+278A
        return _unusable(size)
    order = list(dict.fromkeys(place for place in named if 0 <= place < size))
    missing = [place for place in range(size) if place not in order]
    return Permutation((*order, *missing), len(missing), len(named) - len(order))


def strict(answer: str, size: int) -> Permutation:
    """[a] > [b] > ... with every identifier once, anywhere in the answer; else the old order.

    As LightOn's wrapper in mteb.
    """
    found = re.search(r"\s*>\s*".join([r"\[(\d+)\]"] * size), answer)
    order = tuple(int(number) - 1 for number in found.groups()) if found else ()
    return Permutation(order) if sorted(order) == list(range(size)) else _unusable(size)


def _unusable(size: int) -> Permutation:
    return Permutation(tuple(range(size)), missing=size)


def reordered(order: Sequence[int], start: int, ranked: Sequence[int]) -> list[int]:
    """`order` with the part from `start` on in the order of `ranked`, places in that part."""
    part = order[start : start + len(ranked)]
    return [*order[:start], *(part[place] for place in ranked), *order[start + len(part) :]]


PARSERS: dict[str, Callable[[str, int], Permutation]] = {"rank_llm": lenient, "strict": strict}

"""A tiny HTML and SVG builder that escapes by default, so that escaping cannot be forgotten.

Whatever is not `Markup` is text. Only `element`, `join` and constants of this package make Markup.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from rerank.reporting.visible import visible

VOID = frozenset({"br", "hr", "meta"})  # elements without an end tag


class Markup(str):
    """HTML that is placed as it is."""

    __slots__ = ()


Content = str | None  # a str that is not Markup is escaped, None is nothing
Attribute = str | int | float | bool | None


def escape(text: str) -> Markup:
    """Text as HTML; Markup is left alone."""
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text), quote=True))


def join(parts: Iterable[Content], between: str = "") -> Markup:
    """The parts one after the other, each escaped unless it is Markup."""
    glue = escape(between)
    return Markup(glue.join(escape(part) for part in parts if part is not None))


def element(tag: str, *children: Content, **attributes: Attribute) -> Markup:
    """One element. `class_` is class, `stroke_width` is stroke-width; None and False are left out.

    >>> element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    pairs = "".join(
        _attribute(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in VOID:
        return Markup(f"<{tag}{pairs}>")
    return Markup(f"<{tag}{pairs}>{join(children)}</{tag}>")


def _attribute(name: str, value: Attribute) -> str:
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(visible(text), quote=True)}"'


def paragraph(*children: Content, class_: str | None = None) -> Markup:
    return element("p", *children, class_=class_)


def bullets(items: Iterable[Content], class_: str | None = None) -> Markup | None:
    """A list of the items, or nothing where there are none."""
    entries = [element("li", item) for item in items]
    return element("ul", *entries, class_=class_) if entries else None


def chip(text: str, tone: str = "") -> Markup:
    """A small label beside a name."""
    return element("span", text, class_=f"chip {tone}".strip())


def details(summary: str, *children: Content, open_: bool = False) -> Markup:
    """What a reader unfolds."""
    body = element("div", *children, class_="unfolded")
    return element("details", element("summary", summary), body, open=open_)


def spoken(text: str) -> Markup:
    """Text from data with its writing direction kept to itself, and Korean marked as such."""
    korean = any("\uac00" <= letter <= "\ud7a3" for letter in text)
    return element("bdi", text, lang="ko" if korean else None)

"""HTML that is safe by its type: text becomes markup in one place only, and there it is escaped.

Rules:
- `element` takes text, numbers and markup. Text is escaped, cut where it is longer than anyone reads, and characters
  that show nothing or turn the line round are spelled out. What is markup already stays as it is.
- Names of elements and attributes are written in the code, never taken from data. Scripts, styles and handlers of
  events cannot be written at all; an address leads to this site or to a place on the page.
- `trusted` takes markup that another library made and escaped. It is the only other way in.
"""

import html
import re
from collections.abc import Iterable
from typing import Final, TypeAlias, Union

TEXT_LENGTH_MAX: Final = 500
"""Longest text that is shown in one piece: some lines on a screen. A verdict may hold any text, up to a megabyte."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_FORBIDDEN_ELEMENTS = frozenset({"script", "style", "iframe", "object", "embed", "base", "form"})
_VOID_ELEMENTS = frozenset({"br", "hr", "link", "meta"})
_LOCAL_ADDRESS = re.compile(r"(/(?![/\\])|#)[A-Za-z0-9/#?=&%._-]*")


class Html:
    """A piece of markup. Made by `element` and `trusted` only."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source


Content: TypeAlias = Union[Html, str, int, Iterable["Content"], None]  # noqa: UP007  a name in quotes has no |
Attribute: TypeAlias = str | int | bool | None


def element(name: str, /, *content: Content, **attributes: Attribute) -> Html:
    """An element. `class_` is the attribute class, `aria_label` is aria-label; True is an attribute without value,
    None and False leave it out.
    """
    if not _NAME.fullmatch(name) or name in _FORBIDDEN_ELEMENTS:
        raise ValueError(f"expected an element that shows something, got {name!r}")
    opened = "".join((name, *(_attribute(key.rstrip("_").replace("_", "-"), at) for key, at in attributes.items())))
    if name in _VOID_ELEMENTS:
        return Html(f"<{opened}>")
    return Html(f"<{opened}>{_source(content)}</{name}>")


def joined(*content: Content) -> Html:
    """Several pieces, one after the other."""
    return Html(_source(content))


def document(head: Html, body: Html) -> bytes:
    """A whole page in English."""
    page = element("html", element("head", head), body, lang="en")
    return f"<!doctype html>\n{page.source}\n".encode()


def trusted(source: str) -> Html:
    """Markup that a library made. Requires that it escaped all text."""
    return Html(source)


def plain(text: str) -> str:
    """Text as it is shown: whole lines that anyone can read, without characters that hide or turn others."""
    if len(text) > TEXT_LENGTH_MAX:
        text = f"{text[:TEXT_LENGTH_MAX]}…"
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or character == "\xa0":
        return character
    return " " if character in "\n\t" else f"\\u{ord(character):04x}"


def _source(content: Content) -> str:
    if isinstance(content, Html):
        return content.source
    if content is None:
        return ""
    if isinstance(content, str | int):
        return html.escape(plain(str(content)))
    return "".join(map(_source, content))


def _attribute(name: str, value: Attribute) -> str:
    if not _NAME.fullmatch(name) or name == "style" or name.startswith("on"):
        raise ValueError(f"expected an attribute that runs nothing, got {name!r}")
    if value is None or value is False:
        return ""
    if name in {"href", "src"} and not (isinstance(value, str) and _LOCAL_ADDRESS.fullmatch(value)):
        raise ValueError(f"expected an address on this site, got {value!r}")
    return f" {name}" if value is True else f' {name}="{html.escape(plain(str(value)))}"'

"""The runbooks as pages: from docs/runbooks, served by the exporter itself, so that they work without the internet.

Text is CommonMark with tables; markup inside it is shown, not used. A link to another runbook (`Name.md`) leads to its
page; one to a file that is not served here stays text.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from http import HTTPStatus
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dashboards.site import Response, not_found
from dashboards.web.frame import page
from dashboards.web.markup import element, trusted

RUNBOOKS = Path(__file__).parent / "runbooks"
INDEX = "README"
"""The file that lists the others."""

HTML = "text/html; charset=utf-8"

_RUNBOOK = re.compile(r"(?:\./)?([A-Za-z0-9]+)\.md(#[A-Za-z0-9-]*)?")
_HERE = re.compile(r"#[A-Za-z0-9-]+|https?://.+")


def runbook_names() -> list[str]:
    return sorted({path.stem for path in RUNBOOKS.glob("*.md")} - {INDEX})


def runbook_index() -> Response:
    """The list of all runbooks."""
    return _page(INDEX, "Runbooks", here="/runbooks/")


def runbook_page(name: str) -> Response:
    """A runbook; what is in no list of files is not found."""
    return _page(name, f"Runbook {name}", here="") if name in runbook_names() else not_found()


def _page(name: str, title: str, here: str) -> Response:
    body = element("article", trusted(_rendered(name)), class_="card prose")
    return Response(HTTPStatus.OK, page(title, body, here=here), HTML)


@cache
def _rendered(name: str) -> str:
    return render_markdown((RUNBOOKS / f"{name}.md").read_text(encoding="utf-8"))


def render_markdown(text: str) -> str:
    """HTML of a text. No markup of the text itself gets through, and no style attributes."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    for name, rule in (("table_open", _table), ("table_close", _table_end), ("fence", _code), ("code_block", _code)):
        reader.add_render_rule(name, rule)
    tokens = reader.parse(text)
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[at + 1].content))
        elif token.attrs.pop("style", None) == "text-align:right":
            token.attrSet("class", "number")
        token.children = list(_links(token.children)) if token.children else token.children
    return str(reader.renderer.render(tokens, reader.options, {}))


def _table(*_: object) -> str:
    """A table scrolls by itself, as those of the status page do."""
    return '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>\n'


def _table_end(*_: object) -> str:
    return "</table></div>\n"


def _code(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    """So does a block of code."""
    return element("pre", element("code", trusted(escape(tokens[at].content))), tabindex="0").source + "\n"


def _links(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens of a line, with links that lead somewhere from here; other links lose their address."""
    open_links: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            href = _address(str(token.attrs.get("href", "")))
            open_links.append(href is not None)
            if href is None:
                continue
            token.attrSet("href", href)
        elif token.type == "link_close" and not open_links.pop():
            continue
        yield token


def _address(href: str) -> str | None:
    if match := _RUNBOOK.fullmatch(href):
        return f"/runbooks/{'' if match[1] == INDEX else match[1]}{match[2] or ''}"
    return href if _HERE.fullmatch(href) else None


def _anchor(title: str) -> str:
    """The id of a heading, as other renderers of Markdown name it."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))

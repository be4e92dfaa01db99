"""Tables that scroll in their own place, so that the page never moves sideways, and that a screen reader can follow."""

from collections.abc import Sequence

from dashboards.web.markup import Content, Html, element, joined

ROWS_MAX = 20
"""Rows of a table; further ones are counted. Who wants all of them asks the topic or Prometheus."""


def table(
    label: str,
    caption: Content,
    headers: Sequence[Content],
    rows: Sequence[Sequence[Content]],
    *,
    numbers: frozenset[int] = frozenset(),
    count: int = 0,
) -> Html:
    """A table whose first column names its rows, of which ROWS_MAX are shown. `label` names the place it scrolls in;
    `numbers` are the columns to be set to the right; `count` is how many rows there are if not all are given.
    """
    head = element(
        "tr", (element("th", text, scope="col", class_=_side(at, numbers)) for at, text in enumerate(headers))
    )
    body = (element("tr", _cells(row, numbers)) for row in rows[:ROWS_MAX])
    whole = captioned(caption, element("thead", head), element("tbody", body))
    return joined(scrolling(label, whole), _more(max(count, len(rows))))


def captioned(caption: Content, *parts: Html, class_: str | None = None) -> Html:
    """A table with its caption, which stays in sight while the table scrolls."""
    return element("table", element("caption", element("span", caption)), *parts, class_=class_)


def scrolling(label: str, content: Html) -> Html:
    """A place that scrolls sideways by itself; it can be reached with the keyboard."""
    return element("div", content, class_="scroll", tabindex="0", role="group", aria_label=label)


def _more(count: int) -> Html | None:
    """What to say below a table of which not all rows are shown."""
    return element("p", f"… and {count - ROWS_MAX:,} more", class_="more") if count > ROWS_MAX else None


def _cells(row: Sequence[Content], numbers: frozenset[int]) -> list[Html]:
    first = element("th", row[0], scope="row", class_=_side(0, numbers))
    return [first, *(element("td", cell, class_=_side(at + 1, numbers)) for at, cell in enumerate(row[1:]))]


def _side(column: int, numbers: frozenset[int]) -> str | None:
    return "number" if column in numbers else None

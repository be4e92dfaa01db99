"""What all pages have in common: the head, the way round, a skip link, landmarks."""

from dashboards.web.markup import Content, Html, document, element, joined

_PAGES = (("/", "Status"), ("/runbooks/", "Runbooks"), ("/metrics", "Metrics"), ("/status.json", "status.json"))


def page(title: str, *main: Content, here: str, footer: Content = None, refresh_s: int | None = None) -> bytes:
    """A whole page. `here` is the address of the entry of the navigation that it belongs to."""
    head = joined(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="refresh", content=refresh_s) if refresh_s else None,
        element("title", f"{title} · quorumscope"),
        element("link", rel="stylesheet", href="/style.css"),
        element("link", rel="icon", href="/icon.svg", type="image/svg+xml"),
    )
    body = element(
        "body",
        element("a", "Skip to the content", class_="skip", href="#main"),
        element("header", element("div", _brand(), _navigation(here), class_="wide bar")),
        element("main", *main, id="main", class_="wide", tabindex="-1"),
        element("footer", element("div", footer, class_="wide")) if footer else None,
    )
    return document(head, body)


def link(href: str, *content: Content, class_: str | None = None) -> Html:
    return element("a", *content, href=href, class_=class_)


def runbook_link(name: str) -> Html:
    return link(f"/runbooks/{name}", "Runbook: ", element("span", name, class_="name"))


def finding_title(title: str, runbook: str) -> Html:
    """The heading of a kind of finding, and beside it what to do about it."""
    return element("div", element("h3", title), runbook_link(runbook), class_="title")


def fact(title: str, *content: Content) -> Html:
    """A line of a list of facts."""
    return element("div", element("dt", title), element("dd", *content))


def _brand() -> Html:
    return element("p", "quorumscope", class_="brand")


def _navigation(here: str) -> Html:
    entries = (
        element("li", element("a", text, href=href, aria_current="page" if href == here else None))
        for href, text in _PAGES
    )
    return element("nav", element("ul", entries), aria_label="Pages")

"""A small web server for metrics, health and pages: reads only, answers from memory, and tells nothing about itself."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

REQUEST_SECONDS_MAX = 10.0
"""How long a client may take to send its request, or to take the answer: a slow one must not hold a thread for ever."""

GZIP_BYTES_MIN = 4096
"""Smaller answers are sent as they are: packing them would cost more than it saves."""

_HEADERS = {
    # Nothing but what this server itself sends is ever loaded or run, and no other page may show these pages inside it.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Request(NamedTuple):
    """What was asked for. The path is without its query, decoded."""

    path: str
    query: dict[str, list[str]]
    accept: str


class Response(NamedTuple):
    """What is answered."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


Answer = Callable[[Request], Response]


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class SiteError(Exception):
    """The server cannot listen where it should; the message is one sentence."""


def text_response(status: int, text: str) -> Response:
    return Response(status, f"{text}\n".encode(), "text/plain; charset=utf-8")


def not_found() -> Response:
    return text_response(HTTPStatus.NOT_FOUND, "There is no such page.")


@contextmanager
def serving(address: Address, answers: Callable[[Address], Answer]) -> Iterator[Address]:
    """Serve until the end of the block. The address, as which answers are made and which is given, has the real port:
    0 stands for any that is free.
    """
    try:
        server = ThreadingHTTPServer((address.host, address.port), BaseHTTPRequestHandler)
    except (OSError, OverflowError) as error:
        raise SiteError(
            f"cannot listen on {address.host}:{address.port} ({error}): choose another --listen HOST:PORT"
        ) from None
    real = Address(address.host, server.server_address[1])
    server.RequestHandlerClass = _handler(answers(real))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="site", daemon=True).start()
    try:
        yield real
    finally:
        server.shutdown()
        server.server_close()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS_MAX
        protocol_version = "HTTP/1.1"

        def version_string(self) -> str:
            return "quorumscope"

        def log_message(self, *_: object) -> None:
            """Say nothing: Prometheus asks every few seconds."""

        def do_GET(self) -> None:
            self._send(self._answer(), with_body=True)

        def do_HEAD(self) -> None:
            self._send(self._answer(), with_body=False)

        def _answer(self) -> Response:
            parts = urlsplit(self.path)
            request = Request(unquote(parts.path), parse_qs(parts.query), self.headers.get("Accept", ""))
            try:
                return answer(request)
            except Exception:  # noqa: BLE001  a page that fails must not take the metrics with it
                return text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "This page failed; the others may work.")

        def _send(self, response: Response, *, with_body: bool) -> None:
            body, packed = response.body, False
            if len(body) >= GZIP_BYTES_MIN and "gzip" in self.headers.get("Accept-Encoding", ""):
                body, packed = gzip.compress(body, compresslevel=1), True
            self.send_response(response.status)
            for name, value in (*_HEADERS.items(), *response.headers):
                self.send_header(name, value)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(body)))
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    return Handler

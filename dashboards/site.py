"""A small web server for metrics, health and pages: reads only, answers from memory, and tells nothing about itself."""

import gzip
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

REQUEST_SECONDS_MAX = 10.0
"""How long a client may take to send its request, or to take the answer: a slow one must not hold a thread for ever."""

STOP_SECONDS = 0.1
"""How soon the server sees that it is to stop."""

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
        server = _Server(address)
    except (OSError, OverflowError, UnicodeError) as error:
        raise SiteError(
            f"cannot listen on {address.host}:{address.port} ({error}): choose another --listen HOST:PORT"
        ) from None
    real = Address(address.host, server.server_address[1])
    server.answer = answers(real)
    threading.Thread(target=server.serve_forever, args=(STOP_SECONDS,), name="site", daemon=True).start()
    try:
        yield real
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    """A thread for each client. `answer` is set before it serves."""

    daemon_threads = True
    answer: Answer

    def __init__(self, address: Address) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        """Bind, and ask nobody for the name of this host, as the library would: a name server may be slow."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes before it has its answer is nothing to tell of."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS_MAX
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body of an answer waits 40 ms for the client's word about its head
    server: _Server

    def version_string(self) -> str:
        return "quorumscope"

    def log_message(self, *_: object) -> None:
        """Say nothing: Prometheus asks every few seconds."""

    def do_GET(self) -> None:
        self._send(self._answer(), with_body=True)

    def do_HEAD(self) -> None:
        self._send(self._answer(), with_body=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses is answered as shortly as all else, and with the same headers."""
        del message, explain  # they repeat what the client sent
        refusal = text_response(code, f"{HTTPStatus(code).phrase}.")
        self._send(refusal._replace(headers=(("Connection", "close"),)), with_body=self.command != "HEAD")

    def _answer(self) -> Response:
        try:
            parts = urlsplit(self.path)
            request = Request(unquote(parts.path), parse_qs(parts.query))
        except ValueError:
            return text_response(HTTPStatus.BAD_REQUEST, "This is no address of a page.")
        try:
            return self.server.answer(request)
        except Exception as error:  # noqa: BLE001  a page that fails must not take the metrics with it
            print(f"the page {parts.path[:100]!r} failed: {error!r}", file=sys.stderr, flush=True)
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

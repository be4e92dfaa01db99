"""The web server: reads only, tells nothing about itself, and no request, however odd, stops it."""

import gzip
import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboards import site
from dashboards.site import Address, Request, Response, SiteError, not_found, serving, text_response

DEADLINE_S = 10
LARGE = b"0123456789abcdef" * 1000
HUGE = bytes(8 << 20)
"""More than the buffers of a connection hold: who does not read it keeps its thread waiting."""


class Pages:
    """Pages of all kinds, and whoever waits for one of them."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.together = threading.Barrier(3)

    def __call__(self, request: Request) -> Response:
        match request.path:
            case "/":
                return text_response(200, "here")
            case "/large":
                return Response(200, LARGE, "text/plain", (("X-Of-Page", "yes"),))
            case "/huge":
                return Response(200, HUGE, "application/octet-stream")
            case "/fails":
                raise ZeroDivisionError("a secret of the page")
            case "/wait":
                self.asked.set()
                self.go_on.wait(DEADLINE_S)
                return Response(200, HUGE, "application/octet-stream")
            case "/together":
                self.together.wait(DEADLINE_S)
                return text_response(200, "all three")
            case "/echo" | "/ec/ho ÿ":
                return text_response(200, f"{request.path} {request.query}")
        return not_found()


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages()


@pytest.fixture(scope="module")
def address(pages: Pages) -> Iterator[Address]:
    with serving(Address("127.0.0.1", 0), lambda _: pages) as real:
        yield real


class Got:
    """An answer as a client reads it."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = dict(answer.getheaders())
        self.body = answer.read()


def ask(address: Address, path: str, method: str = "GET", **headers: str) -> Got:
    client = http.client.HTTPConnection(address.host, address.port, timeout=DEADLINE_S)
    try:
        client.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Got(client.getresponse())
    finally:
        client.close()


def send(address: Address, sent: bytes) -> bytes:
    """Send any bytes and no more; gives all that is answered until the server closes."""
    with socket.create_connection((address.host, address.port), timeout=DEADLINE_S) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))
        except ConnectionError:  # refused before all of it was read
            return b""


def status_of(answer: bytes) -> int:
    """0 without one: what does not tell its version is taken for HTTP/0.9, which has none."""
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else 0


def assert_lives(address: Address) -> None:
    assert ask(address, "/").body == b"here\n"


def wait_until_all_are_served() -> None:
    deadline = time.monotonic() + DEADLINE_S
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_head_tells_what_get_would_send(address: Address) -> None:
    for path in ("/", "/large", "/nowhere", "/fails"):
        got, told = ask(address, path), ask(address, path, "HEAD")
        assert got.body
        assert told.body == b""
        assert told.status == got.status
        for name in ("Content-Length", "Content-Type", "Content-Security-Policy"):
            assert told.headers[name] == got.headers[name]
        assert int(got.headers["Content-Length"]) == len(got.body)


def test_large_answers_are_packed_for_those_who_can_unpack_them(address: Address) -> None:
    packed = ask(address, "/large", Accept_Encoding="br, gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.body) < len(LARGE)
    assert gzip.decompress(packed.body) == LARGE
    plain = ask(address, "/large", Accept_Encoding="br")
    assert "Content-Encoding" not in plain.headers
    assert plain.body == LARGE
    assert "Content-Encoding" not in ask(address, "/", Accept_Encoding="gzip").headers


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 200), ("/nowhere", "GET", 404), ("/fails", "GET", 500), ("/", "POST", 501), ("/", "<b>", 501)],
)
def test_every_answer_forbids_what_our_pages_do_not_need_and_tells_nothing_of_the_server(
    address: Address, path: str, method: str, status: int
) -> None:
    got = ask(address, path, method)
    assert got.status == status
    policy = dict(part.strip().split(" ", 1) for part in got.headers["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert got.headers["Cache-Control"] == "no-store"
    assert got.headers["Server"] == "quorumscope"
    assert got.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert not re.search(rb"python|secret|Traceback|<", got.body, re.IGNORECASE)


def test_a_page_has_its_own_headers_too(address: Address) -> None:
    assert ask(address, "/large").headers["X-Of-Page"] == "yes"


def test_a_page_gets_its_path_decoded_and_its_query_apart(address: Address) -> None:
    assert ask(address, "/echo?a=1&a=%20&b#part").body == b"/echo {'a': ['1', ' ']}\n"
    assert ask(address, "/ec%2Fho%20%C3%BF").body.decode() == "/ec/ho ÿ {}\n"


def test_a_page_that_fails_leaves_its_connection_and_the_others_as_they_are(address: Address) -> None:
    client = http.client.HTTPConnection(address.host, address.port, timeout=DEADLINE_S)
    try:
        for path, status in (("/fails", 500), ("/", 200), ("/nowhere", 404), ("/fails", 500), ("/large", 200)):
            client.request("GET", path)
            answer = client.getresponse()
            answer.read()
            assert answer.status == status
    finally:
        client.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_only_reading_is_answered(address: Address, method: str) -> None:
    got = ask(address, "/", method)
    assert got.status == 501
    assert got.headers["Connection"] == "close"
    assert got.body == b"Not Implemented.\n"


ODD = {
    "a very long path": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    "a long path": (b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\n\r\n", 404),
    "escapes that are none": (b"GET /%zz%f%%C3%28 HTTP/1.1\r\n\r\n", 404),
    "an address that is none": (b"GET http://[::1 HTTP/1.1\r\n\r\n", 400),
    "an address of somebody else": (b"GET http://example.invalid/ HTTP/1.1\r\n\r\n", 200),
    "two slashes": (b"GET //example.invalid/ HTTP/1.1\r\n\r\n", 404),
    "dots": (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
    "a path of bytes": (b"GET /\xff\x00\x1b[2J HTTP/1.1\r\n\r\n", 404),
    "many arguments": (b"GET /?" + b"a=1&" * 15_000 + b" HTTP/1.1\r\n\r\n", 200),
    "a long header": (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", 431),
    "a header that is none": (b"GET / HTTP/1.1\r\nno colon here\r\n: nameless\r\n\r\n", 200),
    "a header of bytes": (b"GET / HTTP/1.1\r\nAccept: \xff\xfe\r\nAccept-Encoding: \x00\r\n\r\n", 200),
    "a length below nothing": (b"GET / HTTP/1.1\r\nContent-Length: -1\r\nConnection: close\r\n\r\n", 200),
    "no version": (b"GET /\r\n\r\n", 0),
    "a version that is none": (b"GET / HTTP/one.one\r\n\r\n", 0),
    "a version of the future": (b"GET / HTTP/9.1\r\n\r\n", 0),
    "too many words": (b"GET / / HTTP/1.1\r\n\r\n", 400),
    "one word": (b"GET\r\n\r\n", 0),
    "an empty line": (b"\r\n\r\n", 0),
    "nothing": (b"", 0),
    "no request": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 0),
    "half a request": (b"GET / HTTP/1.1\r\nHost: a", 200),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_requests_are_answered_or_dropped_and_the_next_one_works(
    address: Address, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sent, status = ODD[name]
    answer = send(address, sent)
    assert status_of(answer) == status
    assert b"<" not in answer
    assert_lives(address)
    wait_until_all_are_served()
    assert capfd.readouterr() == ("", "")


@settings(max_examples=40, deadline=None)
@given(
    st.binary(max_size=80)
    | st.builds(
        lambda method, path, header: method + b" " + path + b" HTTP/1.1\r\n" + header + b"\r\n\r\n",
        st.sampled_from([b"GET", b"HEAD", b"POST"]),
        st.binary(max_size=40).map(lambda raw: b"/" + raw.replace(b"\n", b"")),
        st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")),
    )
)
def test_no_bytes_stop_the_server(address: Address, sent: bytes) -> None:
    answer = send(address, sent)
    assert not answer.startswith(b"HTTP/1.1 5") or answer.startswith((b"HTTP/1.1 501", b"HTTP/1.1 505"))
    assert_lives(address)


def test_several_requests_in_one_go_are_answered_in_their_order(address: Address) -> None:
    answer = send(address, b"GET / HTTP/1.1\r\n\r\nGET /nowhere HTTP/1.1\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"404"]


def test_a_client_that_goes_before_it_has_its_answer_is_not_told_of(
    address: Address, pages: Pages, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection((address.host, address.port), timeout=DEADLINE_S) as client:
        client.sendall(b"GET /wait HTTP/1.1\r\n\r\n")
        assert pages.asked.wait(DEADLINE_S)
        # Closed with a reset: the server's write fails, and not only at the end of what the buffers take.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pages.go_on.set()
    wait_until_all_are_served()
    assert_lives(address)
    assert capfd.readouterr() == ("", "")


def test_what_fails_in_the_server_itself_is_told(
    address: Address, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(site, "_HEADERS", None)
    assert send(address, b"GET / HTTP/1.1\r\n\r\n") == b""
    monkeypatch.undo()
    wait_until_all_are_served()
    assert_lives(address)
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("sent", [b"GET / HT", b"GET /huge HTTP/1.1\r\n\r\n"], ids=["to send", "to read"])
def test_a_slow_client_keeps_nobody_waiting_and_is_let_go(
    address: Address, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(site._Handler, "timeout", 0.15)
    with socket.create_connection((address.host, address.port), timeout=DEADLINE_S) as slow:
        slow.sendall(sent)
        assert_lives(address)
        wait_until_all_are_served()


def test_clients_are_served_at_the_same_time(address: Address) -> None:
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(address, "/together").status)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert statuses == [200, 200, 200]


def test_a_port_that_is_in_use_is_one_sentence(address: Address) -> None:
    words = rf"cannot listen on 127\.0\.0\.1:{address.port} \(.*in use.*\): choose another --listen HOST:PORT"
    with pytest.raises(SiteError, match=words), serving(address, lambda _: Pages()):
        pass


@pytest.mark.parametrize(
    "wrong", [Address("127.0.0.1", 70_000), Address("no.such.host.invalid", 0), Address("a" * 70, 0), Address(".", 0)]
)
def test_an_address_that_cannot_be_is_one_sentence(wrong: Address) -> None:
    with pytest.raises(SiteError, match=r"^cannot listen on .*:\d+ \(.+\): choose"), serving(wrong, lambda _: Pages()):
        pass


def test_the_port_is_free_again_after_its_time_and_answers_are_made_for_the_real_one() -> None:
    made: list[Address] = []

    def answers(real: Address) -> Pages:
        made.append(real)
        return Pages()

    with serving(Address("127.0.0.1", 0), answers) as first:
        assert_lives(first)
    with serving(first, answers) as second:
        assert_lives(second)
    assert made == [first, second]
    assert first == second
    assert first.port > 0
    with pytest.raises(ConnectionRefusedError):
        ask(second, "/")


def test_an_address_of_ip_version_six_has_brackets_in_its_url() -> None:
    assert Address("::1", 9464).url == "http://[::1]:9464"
    assert Address("127.0.0.1", 9464).url == "http://127.0.0.1:9464"


def test_it_serves_ip_version_six() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(Address("::1", 0), lambda _: Pages()) as address:
        assert_lives(address)

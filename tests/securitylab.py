"""A broker that is closed to all but its users, with a certificate of an authority of our own."""

import contextlib
import html
import re
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

import msgspec
import trustme
import yaml
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from state.connection import Connection
from state.fold import Topic
from streaming.broker import Broker
from streaming.brokersettings import NODE_NAME, Certificate, Login, Secure
from streaming.topics import PREFIX_DEFAULT, Setup, create_topics
from tests.commandlab import quorumscope

PAGES_MAX = 40
"""Of Spark's pages; it has one for each job and each batch."""
NOT_VISITED = ("/kill/", "/static/", "sort=", "threadDump", "heapHistogram", "/logPage")
"""What does something, is the same for all, or shows in another order what was shown."""

MONITOR = Login("monitor", "m0nitorsOwnPassword")
PEER = Login("peer", "p33rsOwnPassword")
READER = Login("reader", "r3adersOwnPassword")
CANARY = Login("canary", "c4narysOwnPassword")
ROLES = tuple(
    word
    for role, login in (("peer", PEER), ("monitor", MONITOR), ("reader", READER), ("canary", CANARY))
    for word in (f"--{role}", login.username)
)

TOPICS = SEGMENTS, VERDICTS, MATRIX, REJECTED = tuple(
    f"{PREFIX_DEFAULT}.{topic}" for topic in (Topic.SEGMENTS, Topic.VERDICTS, Topic.MATRIX, Topic.REJECTED)
)


def certificate(authority: trustme.CA) -> Certificate:
    """A node's certificate, its key in the form that Kafka reads."""
    issued = authority.issue_cert("127.0.0.1", common_name=NODE_NAME)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return Certificate(
        "".join(part.bytes().decode() for part in issued.cert_chain_pems),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        authority.cert_pem.bytes().decode(),
    )


class Place(NamedTuple):
    """A closed broker with the topics and the rights of a deployment, and a folder for Kafka files."""

    broker: Broker
    authority: trustme.CA
    folder: Path

    @property
    def owner_file(self) -> Path:
        return kafka_file(self.folder / "owner", self.broker.owner)

    def file(self, login: Login) -> Path:
        return kafka_file(self.folder / login.username, self.broker.connection(login))


@contextmanager
def closed_place(folder: Path) -> Iterator[Place]:
    authority = trustme.CA()
    with Broker(Secure(certificate(authority), (MONITOR, PEER, READER, CANARY))) as broker:
        create_topics(broker.owner, Setup(create_time=True))
        place = Place(broker, authority, folder)
        done = quorumscope("acls", *ROLES, "--kafka", place.owner_file, "--create")
        assert done.returncode == 0, done.stdout + done.stderr
        yield place


def kafka_file(folder: Path, connection: Connection) -> Path:
    """The connection as an operator writes it down: a Kafka file, with each secret in a file beside it."""
    folder.mkdir(exist_ok=True)
    tree: dict[str, object] = {"bootstrap": connection.bootstrap, "protocol": connection.protocol}
    if connection.sasl:
        (folder / "password").write_text(connection.sasl.password + "\n")
        sasl = {"mechanism": connection.sasl.mechanism, "username": connection.sasl.username}
        tree["sasl"] = sasl | {"password_file": str(folder / "password")}
    if connection.tls:
        texts = {name: getattr(connection.tls, name) for name in ("ca", "certificate", "key")}
        for name, text in texts.items():
            (folder / f"{name}.pem").write_text(text or "")
        tree["tls"] = {f"{name}_file": str(folder / f"{name}.pem") for name, text in texts.items() if text}
    path = folder / "kafka.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def shown_by_processes() -> Iterator[tuple[str, bytes]]:
    """The command lines and environments of all processes that may be looked at, as `ps` shows them."""
    for path in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
            yield str(path), path.read_bytes()


def shown_by_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All files below a folder; those packed in archives too."""
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(OSError):  # a temporary file that was renamed meanwhile
            if not path.is_file():
                continue
            yield str(path), path.read_bytes()
            if path.suffix == ".zip":
                with zipfile.ZipFile(path) as archive:
                    yield from ((f"{path}/{name}", archive.read(name)) for name in archive.namelist())


def shown_by_pages(url: str) -> Iterator[tuple[str, bytes]]:
    """The pages of Spark, from link to link, and what it tells programs."""
    (application,) = msgspec.json.decode(_page(f"{url}/api/v1/applications"))
    told = ("environment", "sql?details=true&planDescription=true", "jobs", "stages?details=true", "allexecutors")
    waiting = [f"{url}/api/v1/applications/{application['id']}/{name}" for name in told]
    waiting += [f"{url}/{name}/" for name in ("SQL", "StreamingQuery", "environment", "jobs", "stages", "executors")]
    seen: set[str] = set()
    while waiting and len(seen) < PAGES_MAX:
        address = waiting.pop(0)
        if address in seen or any(part in address for part in NOT_VISITED):
            continue
        seen.add(address)
        page = _page(address)
        yield address, page
        links = (
            urljoin(address, html.unescape(link))
            for link in re.findall(r'href="([^"#]+)', page.decode(errors="replace"))
        )
        waiting += [link for link in links if link.startswith(url)]


def _page(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return error.read()

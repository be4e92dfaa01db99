"""The certificate authorities that this machine trusts, in the form that Java reads.

A Java runtime brings its own list. Where the machine trusts one more (a company's proxy, say), Python and curl know
it and Java does not; then Java is handed the machine's list in a key store of the simple old format, JKS.
"""

import ssl
from hashlib import sha1
from pathlib import Path
from struct import pack

JKS_MAGIC = 0xFEEDFEED
JKS_VERSION = 2
JKS_CERTIFICATE_ENTRY = 2
PASSWORD = "changeit"  # noqa: S105 - Java's customary one; the list is public and holds no secret


def write_truststore(path: Path) -> bool:
    """Write the machine's authorities as a key store; False, and no file, if Python knows of none."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return False
    path.write_bytes(encode_jks(certificates))
    return True


def java_options(path: Path) -> list[str]:
    """What tells a JVM to trust the authorities in this key store, and no others."""
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    ]


def encode_jks(certificates: list[bytes]) -> bytes:
    """A JKS key store of trusted certificates (each in DER)."""
    entries = [_entry(f"authority-{number}", der) for number, der in enumerate(certificates)]
    body = pack(">III", JKS_MAGIC, JKS_VERSION, len(entries)) + b"".join(entries)
    # The format's own check value, against damage; it is no signature.
    check = sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return body + check.digest()


def _entry(alias: str, der: bytes) -> bytes:
    created_ms = 0  # nobody asks when; a fixed one keeps the bytes a function of the list
    return (
        pack(">I", JKS_CERTIFICATE_ENTRY)
        + _text(alias)
        + pack(">Q", created_ms)
        + _text("X.509")
        + pack(">I", len(der))
        + der
    )


def _text(value: str) -> bytes:
    encoded = value.encode("ascii")
    return pack(">H", len(encoded)) + encoded

"""The file that tells how to reach Kafka: YAML, with secrets in files of their own.

bootstrap: broker-1:9093,broker-2:9093
protocol: SASL_SSL                       # PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
sasl: {mechanism: SCRAM-SHA-512, username: monitor, password_file: /run/secrets/kafka-password}
tls: {ca_file: /etc/kafka/ca.pem, certificate_file: …, key_file: …, key_password_file: …}
"""

from pathlib import Path

import msgspec
import yaml

from state.config import ConfigError
from state.connection import Connection, Mechanism, Protocol, Sasl, Tls


class SaslFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mechanism: Mechanism
    username: str
    password_file: str


class TlsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password_file: str | None = None


class KafkaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bootstrap: str
    protocol: Protocol = "PLAINTEXT"
    sasl: SaslFile | None = None
    tls: TlsFile | None = None


def read_connection(path: Path) -> Connection:
    """The connection that a file describes; ConfigError, one sentence, if it or a secret cannot be read."""
    try:
        file = msgspec.convert(yaml.safe_load(_read(path, "the Kafka file")), KafkaFile)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    if file.protocol.startswith("SASL") and file.sasl is None:
        raise ConfigError(f"{path}: at `sasl`: expected mechanism, username and password_file for {file.protocol}")
    sasl = tls = None
    if file.sasl is not None:
        password = _read(Path(file.sasl.password_file), "`sasl.password_file`").strip()
        sasl = Sasl(file.sasl.mechanism, file.sasl.username, password)
    if file.tls is not None:
        names = ("ca_file", "certificate_file", "key_file", "key_password_file")
        parts = [_read_optional(getattr(file.tls, name), f"`tls.{name}`") for name in names]
        tls = Tls(parts[0], parts[1], parts[2], parts[3].strip() if parts[3] else None)
    return Connection(file.bootstrap, file.protocol, sasl, tls)


def _read_optional(path: str | None, what: str) -> str | None:
    return None if path is None else _read(Path(path), what)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{what} {path} cannot be read: {reason}") from None

"""How to reach Kafka: one set of settings, spelled for librdkafka and for Java clients alike.

Secrets come as text, read from files by the command line; nothing here opens a file. The text form of a connection
shows no secret.
"""

from typing import Literal

import msgspec

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class Sasl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user name and password."""

    mechanism: Mechanism
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Sasl(mechanism={self.mechanism!r}, username={self.username!r}, password=***)"


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates and keys as PEM text. A client certificate needs its key (PKCS #8)."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None

    def __repr__(self) -> str:
        return f"Tls(ca={'…' if self.ca else None}, certificate={'…' if self.certificate else None}, key=***)"


class Connection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Kafka cluster and how to log in to it."""

    bootstrap: str
    protocol: Protocol = "PLAINTEXT"
    sasl: Sasl | None = None
    tls: Tls | None = None

    def librdkafka(self) -> dict[str, str]:
        """Settings for confluent-kafka."""
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.sasl:
            settings |= {
                "sasl.mechanism": self.sasl.mechanism,
                "sasl.username": self.sasl.username,
                "sasl.password": self.sasl.password,
            }
        if self.tls:
            pem = {
                "ssl.ca.pem": self.tls.ca,
                "ssl.certificate.pem": self.tls.certificate,
                "ssl.key.pem": self.tls.key,
                "ssl.key.password": self.tls.key_password,
            }
            settings |= {name: text for name, text in pem.items() if text}
        return settings

    def java(self) -> dict[str, str]:
        """Settings for Kafka's Java clients, which Spark's source and sink are."""
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.sasl:
            module = _LOGIN_MODULES[self.sasl.mechanism]
            user, password = _quoted(self.sasl.username), _quoted(self.sasl.password)
            settings |= {
                "sasl.mechanism": self.sasl.mechanism,
                "sasl.jaas.config": f"{module} required username={user} password={password};",
            }
        if self.tls and self.tls.ca:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.tls.ca}
        if self.tls and self.tls.certificate and self.tls.key:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.tls.certificate,
                "ssl.keystore.key": self.tls.key,
            }
            if self.tls.key_password:
                settings["ssl.key.password"] = self.tls.key_password
        return settings


def _quoted(text: str) -> str:
    """A string of a JAAS configuration: a password with a quote must not end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

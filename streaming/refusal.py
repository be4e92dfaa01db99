"""Why Kafka and a client of ours do not come together, where both are there: a certificate, or a password.

Kafka's client says «certificate verify failed» and no more; so the certificate is looked at once more, by Python, which
tells what is wrong with it.
"""

import socket
import ssl

from confluent_kafka import KafkaError

from state.connection import Connection

LOOK_SECONDS_MAX = 3.0
"""A broker that has just shown its certificate to one client shows it to the next at once."""

_SSL = KafkaError._SSL  # noqa: SLF001  the library's own name for it
_AUTHENTICATION = KafkaError._AUTHENTICATION  # noqa: SLF001
REFUSALS = {_SSL, _AUTHENTICATION}
"""Errors that do not pass by waiting."""


def explain_refusal(connection: Connection, error: KafkaError) -> str:
    """One sentence: what is refused, and which setting to look at. Never holds a secret."""
    if error.code() == _AUTHENTICATION:
        user = f"the user {connection.sasl.username!r}" if connection.sasl else "a client without a user"
        return (
            f"Kafka at {connection.bootstrap} refuses {user}: check `sasl.username`, `sasl.mechanism` and what stands "
            "in `sasl.password_file`"
        )
    fault = certificate_fault(connection)
    if fault is not None:
        return (
            f"the certificate of Kafka at {connection.bootstrap} is refused ({fault}): check `tls.ca_file`, and that "
            "`bootstrap` has the host name that the certificate is for"
        )
    return f"no TLS connection to Kafka at {connection.bootstrap} ({error.str()}): check `protocol` and `tls`"


def certificate_fault(connection: Connection) -> str | None:
    """What is wrong with the certificate of the first broker that is named, in OpenSSL's words; None if nothing is."""
    host, _, port = connection.bootstrap.partition(",")[0].rpartition(":")
    authority = connection.tls.ca if connection.tls else None
    host = host.strip("[] ")
    try:
        context = ssl.create_default_context(cadata=authority)
        with (
            socket.create_connection((host, int(port)), LOOK_SECONDS_MAX) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message.rstrip(".")
    except (OSError, ValueError):
        return None

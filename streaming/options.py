"""Options that several commands share, and reading the files they name."""

from pathlib import Path
from typing import Annotated

import typer

from state.config import Config, ConfigError, parse_config, parse_duration_ms
from state.connection import Connection
from streaming.kafkafile import read_connection

Bootstrap = Annotated[
    str | None,
    typer.Option(envvar="QUORUMSCOPE_BOOTSTRAP", help="Kafka's address, HOST:PORT; for a plain connection."),
]
KafkaFile = Annotated[
    Path | None,
    typer.Option("--kafka", envvar="QUORUMSCOPE_KAFKA", help="YAML file with Kafka's address, SASL and TLS settings."),
]
Swarms = Annotated[
    Path, typer.Option("--swarms", envvar="QUORUMSCOPE_SWARMS", help="YAML file with the swarms and their rosters.")
]
Prefix = Annotated[str, typer.Option(envvar="QUORUMSCOPE_PREFIX", help="What the names of the topics begin with.")]


def connection_of(bootstrap: str | None, kafka: Path | None) -> Connection:
    """The connection that the options describe."""
    if (bootstrap is None) == (kafka is None):
        raise ConfigError("give Kafka's address with --bootstrap HOST:PORT, or a file of settings with --kafka FILE")
    return read_connection(kafka) if kafka else Connection(bootstrap=bootstrap or "")


def config_of(swarms: Path) -> Config:
    """The configuration in a file; ConfigError names the file."""
    try:
        return parse_config(swarms.read_text(encoding="utf-8"))
    except ConfigError as error:
        raise ConfigError(f"{swarms}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{swarms} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{swarms} cannot be read: it is not UTF-8 text") from None


def duration_ms(text: str, option: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def query_names(text: str) -> tuple[str, ...]:
    from streaming.queries import QUERIES

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in QUERIES:
            raise ConfigError(f"--queries: expected some of {', '.join(QUERIES)}, got {name!r}")
    # Each reads what one before it writes, so with --available-now this is the order in which they run.
    return tuple(name for name in QUERIES if name in names)


def spark_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--conf: expected NAME=VALUE, got {text!r}")
    return name, value

"""The command `status`: how a checkpoint stands, and what a start would do."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from streaming.options import Bootstrap, KafkaFile, Prefix, Swarms, config_of, connection_of
from streaming.topics import PREFIX_DEFAULT

REFUSED, NO_KAFKA = 1, 3
"""Exit codes: a start would be refused or fail; Kafka could not be asked."""


def status(
    swarms: Swarms,
    checkpoint: Annotated[Path, typer.Option(help="Directory of a job's state.")],
    *,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Tell how a checkpoint stands: batches, lag, and what a start would do; 1 if it would not go on."""
    from streaming.status import look, words

    found = look(checkpoint, config_of(swarms), connection_of(bootstrap, kafka), prefix)
    for line in [msgspec.json.encode(found).decode()] if as_json else words(found):
        typer.echo(line)
    if not found.can_start:
        sys.exit(NO_KAFKA if found.kafka else REFUSED)

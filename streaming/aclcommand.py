"""The command about access control lists."""

import sys
from typing import Annotated

import typer

from state.config import ConfigError
from streaming.options import Bootstrap, KafkaFile, Prefix, connection_of
from streaming.terminal import say
from streaming.topics import PREFIX_DEFAULT


def acls(
    *,
    peer: Annotated[list[str], typer.Option("--peer", help="Who a peer logs in as; can be repeated.")],
    monitor: Annotated[str, typer.Option(help="Who `quorumscope run` logs in as; nobody else.")],
    reader: Annotated[
        list[str] | None,
        typer.Option("--reader", help="Who the exporter and other readers log in as; can be repeated."),
    ] = None,
    canary: Annotated[
        list[str] | None, typer.Option("--canary", help="Who `quorumscope canary` logs in as; can be repeated.")
    ] = None,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    create: Annotated[bool, typer.Option("--create", help="Write the rules that are missing.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the rules as lines of kafka-acls.sh, and end.")] = False,
) -> None:
    """Write who may do what on the topics, or check it. It needs the rights of Kafka's administrator."""
    from streaming.acls import check_acls, command_lines, create_acls, identities, rules

    try:
        wanted = rules(prefix, identities(peer, monitor, reader or (), canary or ()))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if show:
        typer.echo("\n".join(command_lines(wanted)))
        return
    connection = connection_of(bootstrap, kafka)
    if create:
        say(f"wrote {create_acls(connection, wanted)} rules")
    problems = check_acls(connection, wanted)
    if problems:
        typer.echo("\n".join(problems))
        sys.exit(1)
    say(f"the rights on the topics of {prefix} are as they should be")

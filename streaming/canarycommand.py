"""The command `canary`: has a test peer lie, and waits for the verdict about it."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Annotated, NamedTuple

import typer

from state.config import ConfigError, Swarm
from state.connection import Connection
from state.evidence import check_evidence, find_evidence
from state.fold import Topic
from state.verdict import AnyVerdict, Fork
from streaming.options import Bootstrap, KafkaFile, Prefix, Swarms, config_of, connection_of, duration_ms
from streaming.terminal import say
from streaming.topics import PREFIX_DEFAULT
from streaming.verdicts import VerdictReader

NO_VERDICT = 1
"""The exit code when nothing was found."""


class Told(NamedTuple):
    """A lie that was told."""

    peer: str
    author: str
    ids: frozenset[str]


Tell = Callable[[Swarm, Mapping[str, int], int, Connection, str], Told | None]
"""Has the peer of a swarm with the fewest branches publish two stories, at this time on a topic; None if none can."""


def canary_command(is_canary: Callable[[Swarm], bool], tell: Tell) -> Callable[..., None]:
    """The command, with what tells lies."""

    def canary(
        swarms: Swarms,
        bootstrap: Bootstrap = None,
        kafka: KafkaFile = None,
        prefix: Prefix = PREFIX_DEFAULT,
        timeout: Annotated[str, typer.Option(help="How long to wait for the verdict.")] = "180s",
    ) -> None:
        """Have a test peer sign two versions of its log, and wait until the monitor accuses it."""
        config, connection = config_of(swarms), connection_of(bootstrap, kafka)
        timeout_s = duration_ms(timeout, "--timeout") / 1000
        swarm = next(filter(is_canary, reversed(config.swarms)), None)
        if swarm is None:
            raise ConfigError(f"{swarms} has no swarm of canaries: add what `quorumscope swarm canary` prints")
        with closing(VerdictReader(connection, prefix)) as reader:
            branches = _branches(reader.read_to_end(), swarm)
            started = time.monotonic()
            told = tell(swarm, branches, time.time_ns() // 1_000_000, connection, f"{prefix}.{Topic.SEGMENTS}")
            if told is None:
                raise ConfigError(
                    f"all keys of {swarm.name} have lied as often as they can: "
                    "add the next set, which `quorumscope swarm canary --keys NUMBER` prints"
                )
            first, second = sorted(told.ids)
            say(f"{told.peer} of {swarm.name} signed two segments with index 1: {first[:12]} and {second[:12]}")
            found = _wait_for(reader, told, started + timeout_s)
            if found is None:
                say(
                    f"no verdict about it on {prefix}.{Topic.VERDICTS} after {timeout}: look whether the job runs, "
                    "whether it has this swarm in its file, and how far it is behind"
                )
                sys.exit(NO_VERDICT)
            say(
                f"found {time.monotonic() - started:.1f} s later: {told.peer} has {len(found.branches)} branches by now"
            )
            encoded = find_evidence([found], told.author)
        assert encoded is not None  # a fork is evidence by itself
        say(f"the evidence was checked offline: {check_evidence(encoded, config).sentence()}")

    return canary


def _branches(verdicts: Mapping[str, AnyVerdict], swarm: Swarm) -> Mapping[str, int]:
    """How many branches each peer of a swarm has, as far as the monitor has found."""
    counts: Counter[str] = Counter()
    for verdict in verdicts.values():
        if isinstance(verdict, Fork) and verdict.swarm == swarm.id:
            counts[verdict.author] += len(verdict.branches)
    return counts


def _wait_for(reader: VerdictReader, told: Told, deadline: float) -> Fork | None:
    """The verdict that tells of both segments."""
    while time.monotonic() < deadline:
        for update in reader.poll(0.2):
            verdict = update.verdict
            if isinstance(verdict, Fork) and told.ids <= {branch.id for branch in verdict.branches}:
                return verdict
    return None

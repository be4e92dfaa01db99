"""Evidence, not opinion: whatever the columns fold calls known or accepted becomes a file that checks out offline.

The horizon is longer than these runs, so the fold and `state.history`, which has none, must agree in every number.
"""

from functools import cache
from typing import NamedTuple

import pytest

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state.config import Config, Rule, Swarm
from state.history import History, Standing, quorum
from state.proof import check_proof
from state.prove import make_accepted, make_known
from state.segment import Segment, judge
from state.verdict import Accepted, Known, decode_verdict
from tests.loglab import Copy
from tests.matrixlab import run_columns

NAMES = (
    "honest",
    "lying-peer",
    "lying-bridge",
    "partition-and-heal",
    "whole-story",
    "epochs",
    "seed-example",
    "ref-to-nothing",
    "withheld-story",
)
SETTINGS = Settings(peers=6, duration_ms=30_000, rules=("majority", "everyone", 2))
MAKERS = {Accepted: make_accepted, Known: make_known}


class Story(NamedTuple):
    """A scenario that was played, what the columns fold says of it, and the history of the same segments."""

    config: Config
    history: History
    verdicts: list[Accepted | Known]

    @property
    def swarm(self) -> Swarm:
        return self.config.swarms[0]


@cache
def story(name: str) -> Story:
    simulation = SCENARIOS[name].run(SETTINGS)
    config = simulation.config
    judged = [(judge(record.value, config.authors), record.time_ms) for record in simulation.records]
    copies = [Copy(segment, time_ms) for segment, time_ms in judged if isinstance(segment, Segment)]
    found = run_columns(config, [copies], deep=False)
    decoded = map(decode_verdict, (value for _, value in sorted(found.verdicts.items())))
    verdicts = [verdict for verdict in decoded if isinstance(verdict, Accepted | Known)]
    return Story(config, History(config.swarms[0].key, copies), verdicts)


@pytest.mark.parametrize("name", NAMES)
def test_the_fold_and_the_history_agree_on_all_that_is_known_and_accepted(name: str) -> None:
    told = story(name)
    expected = {}
    for noop, segment in told.history.segments.items():
        standing = Standing(told.history, noop)
        epoch = told.swarm.epoch_at(told.history.times_ms[noop])
        assert epoch is not None
        for rule in epoch.thresholds:
            for kind, firsts in ((Accepted, standing.endorsed_by), (Known, standing.covered_by)):
                counted = quorum(firsts, segment.head.author, epoch.members, rule)
                if counted is not None:
                    times = [first.time_ms for first in counted.values()]
                    observers = tuple(key for key in epoch.members if key in counted)
                    spread = (rule.k, rule.n, epoch.start_ms, observers, max(times), sum(times))
                    expected[kind, noop, rule.name] = spread
    assert {(type(v), bytes.fromhex(v.id), v.rule): spread_of(told, v) for v in told.verdicts} == expected
    assert {kind for kind, _, _ in expected} == {Accepted, Known}


def observers_of(told: Story, verdict: Accepted | Known) -> tuple[bytes, ...]:
    """The peers whose bits are set, the first bit being the least key's of the epoch's roster."""
    (epoch,) = (epoch for epoch in told.swarm.epochs if epoch.start_ms == verdict.epoch_ms)
    bits = f"{int(verdict.observers, 16):0{len(epoch.members)}b}"
    return tuple(key for key, bit in zip(epoch.members, bits, strict=True) if bit == "1")


def spread_of(told: Story, verdict: Accepted | Known) -> tuple[object, ...]:
    reached_ms = verdict.accepted_ms if isinstance(verdict, Accepted) else verdict.known_ms
    return verdict.k, verdict.n, verdict.epoch_ms, observers_of(told, verdict), reached_ms, verdict.times_ms


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_or_accepted_becomes_a_proof_that_checks_out_and_names_the_same_observers(name: str) -> None:
    told = story(name)
    for verdict in told.verdicts:
        noop = bytes.fromhex(verdict.id)
        encoded = MAKERS[type(verdict)](told.history, told.swarm, verdict.rule, noop)
        proved = check_proof(encoded, told.config)
        assert proved.accepted == isinstance(verdict, Accepted)
        assert proved.segment == told.history.segments[noop].ref
        assert proved.epoch.start_ms == verdict.epoch_ms
        assert proved.rule == Rule(verdict.rule, verdict.k, verdict.n)
        assert proved.observers == observers_of(told, verdict)
        if isinstance(verdict, Accepted):
            assert proved.rule.tolerates == verdict.tolerates

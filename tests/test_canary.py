"""The canary: its peers lie when they are told to, as often as they can, and the command waits for the accusation."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from producers.canary import LIES_MAX, PEERS, SETS, Lie, canary_swarm, tell_lie
from producers.swarmfile import config_yaml
from state.config import Config, parse_config
from state.connection import Connection
from state.evidence import check_evidence, find_evidence
from state.fold import Arrival, Arrivals, Topic
from state.limits import BRANCHES_MAX
from state.segment import Segment, judge
from state.verdict import AnyVerdict, Fork, Limit, decode_verdict
from streaming.broker import Broker
from streaming.plain import PlainHost
from streaming.queries import QUERIES
from streaming.topics import Setup, create_topics
from tests.commandlab import quorumscope, run_here, sentence
from tests.joblab import Deployment
from tests.simlab import simulated
from tests.topiclab import compacted, read_topic

CONFIG = Config((canary_swarm(1),))


def with_canary() -> Config:
    return Config((*simulated("honest").config.swarms, *CONFIG.swarms))


def test_every_set_of_keys_is_a_swarm_of_its_own_and_stays_what_it_is() -> None:
    swarms = [canary_swarm(number) for number in range(1, SETS + 1)]
    keys = [key for swarm in swarms for epoch in swarm.epochs for key in epoch.roster.values()]
    assert len({swarm.id for swarm in swarms}) == len({swarm.name for swarm in swarms}) == SETS
    assert len(set(keys)) == len(keys) == SETS * PEERS
    # Files of swarms in the field hold this one: another id would be another swarm to them.
    assert swarms[0].id == "6bc4177040bccc4dae22b05aef2048a423a5cabd5deb60fcecf745e1e20db633"
    for number in (0, SETS + 1):
        with pytest.raises(ValueError, match=f"from 1 to {SETS}, got {number}"):
            canary_swarm(number)


def told(lies: Iterable[Lie]) -> list[AnyVerdict]:
    """What the monitor says of these lies, all of them in one batch."""
    records = [record for lie in lies for record in lie.records]
    arrivals = []
    for record in records:
        segment = judge(record.value, CONFIG.authors)
        assert isinstance(segment, Segment)
        arrivals.append(Arrival(segment, record.time_ms))
    said = PlainHost(QUERIES["segments"], CONFIG).absorb(Arrivals(arrivals, []), records[-1].time_ms)
    return [decode_verdict(one) for one in compacted(m for m in said if m.topic == Topic.VERDICTS).values()]


def test_peers_take_turns_until_all_have_lied_as_often_as_they_can_which_is_no_limit_yet() -> None:
    branches, lies = Counter[str](), []
    while lie := tell_lie(CONFIG.swarms[0], branches, 1_800_000_000_000 + len(lies)):
        branches[lie.author] += len(lie.ids)
        assert max(branches.values()) - min(branches[author.hex()] for author in CONFIG.swarms[0].authors) <= len(
            lie.ids
        )
        lies.append(lie)
    assert len(lies) == PEERS * LIES_MAX
    verdicts = told(lie for lie in lies if lie.peer == lies[0].peer)
    assert not [one for one in verdicts if isinstance(one, Limit)]
    (fork,) = [one for one in verdicts if isinstance(one, Fork)]
    assert len(fork.branches) == branches[fork.author] == BRANCHES_MAX


def test_each_lie_is_evidence_by_itself() -> None:
    lie = tell_lie(CONFIG.swarms[0], {}, 1_800_000_000_000)
    assert lie is not None
    evidence = find_evidence(told([lie]), lie.author)
    assert evidence is not None
    assert check_evidence(evidence, CONFIG).peer == lie.peer


def test_only_a_swarm_of_canaries_lies() -> None:
    (swarm,) = simulated("honest").config.swarms
    with pytest.raises(ValueError, match="expected a swarm of canaries"):
        tell_lie(swarm, {}, 0)


def test_what_the_command_prints_can_be_put_at_the_end_of_a_file_of_swarms(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "swarms.yaml"
    done = run_here(monkeypatch, capfd, "swarm", "canary")
    assert (done.returncode, done.stderr) == (0, "")
    file.write_text(config_yaml(simulated("honest").config) + done.stdout)
    assert parse_config(file.read_text()) == with_canary()
    third = run_here(monkeypatch, capfd, "swarm", "canary", "--keys", "3").stdout
    assert yaml.safe_load(third)[0]["name"] == "canary-3"


def test_without_a_swarm_of_canaries_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "swarms.yaml"
    file.write_text(config_yaml(simulated("honest").config))
    done = run_here(monkeypatch, capfd, "canary", "--swarms", file, "--bootstrap", "127.0.0.1:1")
    assert "has no swarm of canaries: add what `quorumscope swarm canary` prints" in sentence(done, 2)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_running_job_accuses_the_canary_and_again_with_the_next_lie(broker: Broker, tmp_path: Path) -> None:
    place = Deployment(Connection(bootstrap=broker.bootstrap), "canary-live", with_canary(), tmp_path, live=True)
    options = ("--swarms", place.swarms, "--bootstrap", broker.bootstrap, "--prefix", place.prefix)
    job = place.start()
    for _ in range(2):
        done = quorumscope("canary", *options)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert "the evidence was checked offline: canary-" in done.stdout
    job.stop()
    forks = [one for one in map(decode_verdict, place.verdicts().values()) if isinstance(one, Fork)]
    assert len({fork.author for fork in forks}) == 2  # the one that has lied less lies next


@pytest.mark.kafka
def test_when_nobody_watches_it_says_what_to_look_at_and_ends_with_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, connection = tmp_path / "swarms.yaml", Connection(bootstrap=broker.bootstrap)
    file.write_text(config_yaml(CONFIG))
    create_topics(connection, Setup(prefix="canary-alone"))
    options = ("--swarms", file, "--bootstrap", broker.bootstrap, "--prefix", "canary-alone")
    done = run_here(monkeypatch, capfd, "canary", *options, "--timeout", "2s")
    assert done.returncode == 1
    assert "no verdict about it on canary-alone.verdicts after 2s: look whether the job runs" in done.stdout
    assert len(read_topic(connection, "canary-alone.segments")) == 2

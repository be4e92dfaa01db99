"""What all folds find in every scenario is its truth, by plain search over what was published; no Spark, no broker."""

from collections.abc import Sequence

import msgspec
import pytest

from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.swarm import START_MS, Settings
from state.config import Config
from state.verdict import Missing, OneWay, Silent, Split
from tests.simlab import SHAPES, simulated
from tests.topiclab import Spot, Written, differences, fold_alone
from tests.truthlab import Found

LOSSY = SHAPES[3]


def written(records: Sequence[Record]) -> list[Written]:
    return [Written(Spot(0, at), *record, {}) for at, record in enumerate(records)]


def found_in(simulation: Simulation) -> Found:
    return Found(simulation, fold_alone(simulation.config, written(simulation.records)))


@pytest.mark.parametrize("settings", [Settings(seed=2), Settings(seed=26), LOSSY])
@pytest.mark.parametrize("name", SCENARIOS)
def test_known_beliefs_splits_and_silences_are_what_a_search_finds(name: str, settings: Settings) -> None:
    assert found_in(simulated(name, settings)).problems() == []


@pytest.mark.parametrize("name", ["whole-story", "withheld-story", "ref-to-nothing", "epochs"])
def test_the_number_of_blocks_does_not_show_in_any_verdict(name: str) -> None:
    """Three blocks for eight peers, and more blocks than peers: some of them have nothing to tell."""
    simulation = simulated(name)
    whole = fold_alone(simulation.config, written(simulation.records))
    for blocks in (3, 11):
        swarms = tuple(msgspec.structs.replace(swarm, blocks=blocks) for swarm in simulation.config.swarms)
        assert differences(fold_alone(Config(swarms), written(simulation.records)), whole) == {}


def without(simulation: Simulation, since_ms: int, until_ms: int) -> Simulation:
    """The run as it would be read if the topic had lost the records of a time."""
    kept = [r for r in simulation.records if not since_ms <= r.time_ms - START_MS < until_ms]
    assert len(kept) < len(simulation.records)
    return simulation._replace(records=kept)


@pytest.mark.parametrize(("since_ms", "until_ms"), [(20_000, 20_300), (20_000, 21_000)])
def test_honest_peers_whose_records_are_lost_are_missed_and_not_accused(since_ms: int, until_ms: int) -> None:
    """SPEC: DESIGN, columns: a withheld noop can delay acceptance, and never darken honest peers."""
    simulation = without(simulated("honest"), since_ms, until_ms)
    found = found_in(simulation)
    assert found.of(Missing)
    assert (found.of(Split), found.of(OneWay)) == ([], [])
    assert len(found.of(Silent)) == 1


def test_a_lost_record_of_an_honest_peer_in_a_small_swarm_does_not_make_it_deaf() -> None:
    simulation = simulated("ref-to-nothing", Settings(peers=3, duration_ms=20_000))
    (swarm,) = simulation.config.swarms
    inventor = swarm.author("peer-3")
    assert inventor is not None
    assert [verdict.author for verdict in found_in(simulation).of(OneWay)] == [inventor.hex()]


def test_when_a_whole_swarm_stops_the_sides_of_an_open_split_stay_as_they_were() -> None:
    simulation = simulated("lying-bridge")
    last = simulation.records[-1]
    later = simulation._replace(records=[*simulation.records, last._replace(time_ms=last.time_ms + 60_000)])
    (split,), (before,) = found_in(later).of(Split), found_in(simulation).of(Split)
    assert split.sides == before.sides

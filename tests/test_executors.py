"""Many executors: a cluster of two, each a process of its own, and a swarm whose columns are spread over them."""

from pathlib import Path

import pytest

from producers.scenarios import SCENARIOS
from producers.sinks import publish_fast
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.connection import Connection
from streaming.broker import Broker
from streaming.topics import Setup, create_topics
from tests.commandlab import quorumscope
from tests.topiclab import compacted, differences, fold_alone, read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_two_executors_and_four_blocks_find_the_same_bytes_as_one_process(broker: Broker, tmp_path: Path) -> None:
    simulation = SCENARIOS["lying-bridge"].run(Settings(blocks=4, duration_ms=40_000))
    connection = Connection(bootstrap=broker.bootstrap)
    create_topics(connection, Setup(prefix="cluster", partitions=3, create_time=True))
    publish_fast(simulation.records, connection.librdkafka(), "cluster.segments")
    (tmp_path / "swarms.yaml").write_text(config_yaml(simulation.config))
    done = quorumscope(
        "run",
        *("--swarms", tmp_path / "swarms.yaml", "--checkpoint", tmp_path / "checkpoint"),
        *("--bootstrap", broker.bootstrap, "--prefix", "cluster"),
        *("--master", "local-cluster[2,1,1024]", "--shuffle-partitions", "4"),
        *("--available-now", "--offsets-max", "150"),
        timeout_s=240,
    )
    assert done.returncode == 0, done.stderr
    got = compacted(read_topic(connection, "cluster.verdicts"))
    want = fold_alone(simulation.config, read_topic(connection, "cluster.segments"))
    assert differences(got, want) == {}
    assert any(key.startswith(b"split/") for key in got)

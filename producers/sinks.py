"""Where a simulation goes: a file, or a Kafka topic, in real time or as fast as it can be written.

A file has one JSON object a line, {time_ms, key, value}, with keys and values in base64, and two files beside it:
`FILE.truth.json`, the ground truth, and `FILE.swarms.yaml`, the configuration that it is judged by.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from producers.simulation import GroundTruth, Record, Simulation
from producers.swarmfile import config_yaml
from state.config import parse_config

MESSAGE_BYTES_MAX: Final = 4 << 20
"""Above the limit of a record, so that what is too large reaches the broker, as an attacker's would."""
DELIVERY_MS_MAX: Final = 30_000
"""How long a record may take to be acknowledged before the broker is said to be out of reach."""
CONNECT_S_MAX: Final = 10.0
"""How long the broker may take to answer at all; it is asked before anything is sent."""
STOP_CHECK_S: Final = 0.1
"""How often a sink that waits for the next record looks whether it has to stop."""
POLL_S_MIN: Final = 0.001
"""librdkafka waits for whole milliseconds: for less it would not wait at all, and a core would be spent on asking."""

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # librdkafka reports what a SinkError says again; who wants it can listen


class SinkError(RuntimeError):
    """A simulation could not be written or read; the message is one sentence."""


class _Line(msgspec.Struct):
    time_ms: int
    key: bytes
    value: bytes | None


def write_file(simulation: Simulation, path: Path) -> None:
    """Write the records, and the truth and the configuration beside them."""
    with path.open("wb") as file:
        for record in simulation.records:
            file.write(msgspec.json.encode(_Line(*record)) + b"\n")
    write_truth(simulation, path)


def write_truth(simulation: Simulation, path: Path) -> None:
    """Write the truth and the configuration beside `path`, where the records are or would be."""
    truth = msgspec.json.format(msgspec.json.encode(simulation.truth), indent=2)
    truth_path(path).write_bytes(truth + b"\n")
    swarms_path(path).write_text(config_yaml(simulation.config), encoding="utf-8")


def read_file(path: Path) -> Simulation:
    """Read back what `write_file` wrote."""
    try:
        config = parse_config(swarms_path(path).read_text(encoding="utf-8"))
        truth = msgspec.json.decode(truth_path(path).read_bytes(), type=GroundTruth)
        return Simulation(config, list(read_records(path)), truth)
    except (OSError, msgspec.MsgspecError) as error:
        raise SinkError(f"the simulation {path} cannot be read: {error}") from None


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, one by one."""
    decoder = msgspec.json.Decoder(_Line)
    with path.open("rb") as file:
        for text in file:
            line = decoder.decode(text)
            yield Record(line.time_ms, line.key, line.value)


def truth_path(path: Path) -> Path:
    return path.with_name(path.name + ".truth.json")


def swarms_path(path: Path) -> Path:
    return path.with_name(path.name + ".swarms.yaml")


def publish_fast(records: Iterable[Record], settings: Mapping[str, Any], topic: str) -> int:
    """Write records to Kafka as fast as it takes them, with their virtual times; gives how many were written.

    `settings` are librdkafka's; the topic should keep the time of creation (CreateTime).
    """
    sink = _KafkaSink(settings, topic)
    for record in records:
        sink.write(record, time_ms=record.time_ms)
    return sink.flush()


def publish_live(
    records: Iterable[Record],
    settings: Mapping[str, Any],
    topic: str,
    *,
    speed: float = 1.0,
    stop: Callable[[], bool] = lambda: False,
    on_record: Callable[[Record], None] = lambda _: None,
) -> int:
    """Write records to Kafka when their time comes, `speed` times as fast as virtual time; gives how many were written.

    The times of the records are the broker's. It ends early, with all that was sent written, when `stop` says so.
    """
    if speed <= 0:
        raise ValueError(f"speed: want more than 0, got {speed}")
    sink = _KafkaSink(settings, topic)
    started_s = time.monotonic()
    first_ms: int | None = None
    for record in records:
        first_ms = record.time_ms if first_ms is None else first_ms
        due_s = started_s + (record.time_ms - first_ms) / 1000 / speed
        if not _wait_until(due_s, sink, stop):
            break
        sink.write(record)
        on_record(record)
    return sink.flush()


class _KafkaSink:
    """An idempotent producer for one topic. Errors of delivery surface at the next call, as one sentence."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        from confluent_kafka import KafkaException, Producer

        self.topic = topic
        self.delivered = 0
        self._error: str | None = None
        defaults = {
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "message.timeout.ms": DELIVERY_MS_MAX,
            "linger.ms": 5,
        }
        try:
            self._producer = Producer({**defaults, **settings}, logger=_LOG)
            topics = self._producer.list_topics(topic, timeout=CONNECT_S_MAX).topics
        except KafkaException as error:
            raise SinkError(
                f"Kafka cannot be reached: {error.args[0].str()}; check the address of the broker"
            ) from None
        if topics[topic].error is not None:
            raise SinkError(f"the topic {topic} cannot be written: {topics[topic].error.str()}")

    def write(self, record: Record, time_ms: int | None = None) -> None:
        from confluent_kafka import KafkaException

        times = {} if time_ms is None else {"timestamp": time_ms}
        while True:
            self._raise_if_failed()
            try:
                self._producer.produce(self.topic, record.value, record.key, on_delivery=self._delivered, **times)
            except KafkaException as error:
                self._error = error.args[0].str()
            except BufferError:  # the queue is full: wait until the broker has taken some of it
                self._producer.poll(STOP_CHECK_S)
            else:
                break
        self._producer.poll(0)

    def poll(self, timeout_s: float) -> None:
        """Wait a while and let deliveries be told."""
        self._producer.poll(timeout_s)
        self._raise_if_failed()

    def flush(self) -> int:
        """Wait until all is written; gives how many records that are."""
        self._producer.flush()
        self._raise_if_failed()
        return self.delivered

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.delivered += 1
        else:
            self._error = self._error or error.str()

    def _raise_if_failed(self) -> None:
        if self._error is not None:
            raise SinkError(f"a record could not be written to the topic {self.topic}: {self._error}")


def _wait_until(due_s: float, sink: _KafkaSink, stop: Callable[[], bool]) -> bool:
    """Wait for a moment of the monotonic clock; False if there is a reason to stop before."""
    while not stop():
        left_s = due_s - time.monotonic()
        if left_s <= 0:
            return True
        if left_s < POLL_S_MIN:
            time.sleep(left_s)
        else:
            sink.poll(min(left_s, STOP_CHECK_S))
    return False

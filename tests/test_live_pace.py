"""A live run keeps pace at a thousand records a second without spending a core on waiting."""

import time

from producers.simulation import Record
from producers.sinks import publish_live

MOCK_BROKER = {"test.mock.num.brokers": 1}
"""librdkafka's own broker, in this process: enough to take records."""


def test_a_thousand_records_a_second_go_out_in_time_and_cost_a_part_of_a_core() -> None:
    records = [Record(number, b"%d" % (number % 50), bytes(1_500)) for number in range(2_000)]
    late_s: list[float] = []
    started_s: list[float] = []

    def on_record(record: Record) -> None:
        now_s = time.monotonic()
        started_s.append(now_s)
        late_s.append(now_s - started_s[0] - record.time_ms / 1000)

    spent_s = time.process_time()
    assert publish_live(records, MOCK_BROKER, "any", on_record=on_record) == len(records)
    spent_s = time.process_time() - spent_s
    assert sorted(late_s)[len(late_s) // 2] < 0.5
    assert min(late_s) > -0.1
    assert spent_s < 0.7 * 2.0

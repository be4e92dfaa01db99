"""What a Spark worker process makes once and keeps: the configuration, and a client that looks ahead in partitions."""

import json
from functools import cache

import msgspec

from state.config import Config
from streaming.clock import NO_TIME
from streaming.ingest import NextTime
from streaming.peek import Peeker


@cache
def worker_config(config_json: str) -> Config:
    return msgspec.json.decode(config_json, type=Config)


@cache
def next_times(kafka_json: str, topic: str) -> NextTime:
    """Asks the broker for the time of the next record; without an answer there may be more of the same time."""
    peeker = Peeker(json.loads(kafka_json), topic)

    def next_time(partition: int, offset: int, time_ms: int) -> int:
        end = peeker.end(partition)
        if end is not None and offset + 1 >= end:
            return NO_TIME
        next_ms = peeker.time_at(partition, offset + 1)
        return time_ms if next_ms is None else max(time_ms, next_ms)

    return next_time

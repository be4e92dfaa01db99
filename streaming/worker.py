"""What a Spark worker process makes once and keeps: the configuration, and a client that looks ahead in partitions."""

import gc
import json
from functools import cache

import msgspec

from state.config import Config
from streaming.clock import NO_TIME
from streaming.ingest import NextTime
from streaming.peek import Peeker

COLLECT_AFTER = (50_000, 20, 100)
"""How seldom Python looks for cycles of objects. By default it does after each 700 new ones: that was a quarter of the
time of folds that keep many, and what they drop hardly ever has a cycle."""


@cache
def worker_config(config_json: str) -> Config:
    """The configuration; the first thing that a worker of ours asks for."""
    gc.set_threshold(*COLLECT_AFTER)
    return msgspec.json.decode(config_json, type=Config)


@cache
def next_times(kafka_json: str, topic: str, ends_json: str = "{}") -> NextTime:
    """Asks the broker for the time of the next record; without an answer there may be more of the same time.

    `ends_json` says where a range ends, partition by partition: there a partition is at its end.
    """
    peeker = Peeker(json.loads(kafka_json), topic)
    ends = {int(partition): end for partition, end in json.loads(ends_json).items()}

    def next_time(partition: int, offset: int, time_ms: int) -> int:
        end = ends[partition] if partition in ends else peeker.end(partition)
        if end is not None and offset + 1 >= end:
            return NO_TIME
        next_ms = peeker.time_at(partition, offset + 1)
        return time_ms if next_ms is None else max(time_ms, next_ms)

    return next_time

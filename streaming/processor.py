"""The adapter between Spark's `transformWithState` and the fold host: the only place that knows Spark's state API."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from state.fold import Fold, Outcome, Tally
from state.folds import make_folds
from streaming.clock import NO_TIME, Reading, clock_of, newest_of
from streaming.host import KeyHost, Stored

OUTPUT_COLUMNS = (
    "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>, "
    "tally string, amount bigint"
)
"""A row is a message (topic, key, value, headers) or a tally (tally, amount)."""

_STORED_COLUMNS = "version int, lineage binary, blob binary, error string, archive_entries bigint, archive_bytes bigint"


class _MapStore:
    """Spark's map state as the store of an archive."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: bytes) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else bytes(value[0])

    def put(self, name: bytes, value: bytes) -> None:
        self._state.updateValue((name,), (value,))

    def remove(self, name: bytes) -> None:
        self._state.removeKey((name,))


class FoldProcessor(StatefulProcessor):  # type: ignore[misc]  # Spark brings no types
    """Hosts every fold of a query: a key is (fold, key of the fold)."""

    def __init__(self, config_json: str, fold_names: tuple[str, ...], prefix: str) -> None:
        self._config_json = config_json
        self._fold_names = fold_names
        self._prefix = prefix

    def init(self, handle: StatefulProcessorHandle) -> None:
        from streaming.worker import worker_config

        config = worker_config(self._config_json)
        self._digest = config.digest
        self._folds: dict[str, Fold] = make_folds(self._fold_names, config)
        # Only of folds whose keys are all visited in each batch is it known how much they keep.
        self._counted = {name for name, fold in self._folds.items() if any(True for _ in fold.all_keys())}
        self._stored = handle.getValueState("stored", _STORED_COLUMNS)
        self._archive = handle.getMapState("archive", "name binary", "value binary")
        # Apart from the blob, because it changes in every batch, and the blob of a key without events does not.
        self._newest = handle.getValueState("newest", "newest_ms bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        name, fold_key = key[0], bytes(key[1])
        payloads, readings = [], []
        for row in rows:
            if row.payload is None:
                readings.append(Reading(row.partition, row.newest_ms, row.unread_ms))
            else:
                payloads.append(bytes(row.payload))
        row = self._stored.get()
        stored = Stored(row[0], bytes(row[1]), bytes(row[2]), *row[3:]) if row else None
        visit = KeyHost(self._folds[name], fold_key, self._digest).visit(
            stored,
            _MapStore(self._archive),
            payloads,
            clock_of(readings, self._advance(readings)),
        )
        if visit.stored is not None:
            self._stored.update(tuple(visit.stored))
        kept = visit.stored or stored
        yield from self._rows(visit.outcome, kept.levels() if kept and name in self._counted else [])

    def close(self) -> None:
        pass

    def _advance(self, readings: list[Reading]) -> int:
        """The newest time ever read, which is kept."""
        if not readings:
            return NO_TIME
        kept = self._newest.get()
        before_ms = NO_TIME if kept is None else kept[0]
        newest_ms = newest_of(readings, before_ms)
        if newest_ms != before_ms:
            self._newest.update((newest_ms,))
        return newest_ms

    def _rows(self, outcome: Outcome, levels: list[Tally]) -> Iterator[Row]:
        for message in outcome.messages:
            headers = [Row(key=name, value=value) for name, value in message.headers] or None
            topic = f"{self._prefix}.{message.topic}"
            yield Row(topic=topic, key=message.key, value=message.value, headers=headers, tally=None, amount=0)
        for tally in outcome.tallies + levels:
            if tally.amount:
                yield Row(topic=None, key=None, value=None, headers=None, tally=tally.name, amount=tally.amount)

"""Hears of the progress of all queries of a session, and adds it up by query."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from streaming.progress import Totals


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]  # Spark brings no types
    """Called by Spark, in a thread of its own, after each batch, now and then while a query waits, and at its end."""

    def __init__(self, totals: Mapping[str, Totals]) -> None:
        self._totals = totals
        self._names: dict[Any, str] = {}
        """By the id of a run: events of waiting and of the end tell no name."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        if event.name in self._totals:
            self._names[event.runId] = event.name
            self._totals[event.name].is_active = True
            self._totals[event.name].note_idle()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.name in self._totals:
            self._totals[event.progress.name].add(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        if event.runId in self._names:
            self._totals[self._names[event.runId]].note_idle()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId in self._names:
            self._totals[self._names[event.runId]].is_active = False

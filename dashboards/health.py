"""How the exporter itself is: whether what it shows is what stands on the topics."""

from typing import NamedTuple

from dashboards.probes import Readiness

BEHIND_RECORDS_MAX = 50_000
"""Unread records with which the exporter still counts as caught up: some seconds of work."""


class Health(NamedTuple):
    """The state of the exporter at one moment."""

    caught_up: bool
    """Whether it has read the topics to their ends once."""
    reachable: bool
    """Whether Kafka answered when it was last asked."""
    lag_records: dict[str, int]
    """By topic, unread records."""
    last_verdict_ms: int
    """Record time of the newest verdict; 0 if there is none."""
    now_ms: int

    @property
    def is_ready(self) -> bool:
        return self.caught_up and self.reachable and all(lag <= BEHIND_RECORDS_MAX for lag in self.lag_records.values())

    @property
    def last_verdict_age_s(self) -> float | None:
        """None if there is no verdict yet."""
        return max(self.now_ms - self.last_verdict_ms, 0) / 1000 if self.last_verdict_ms else None

    def readiness(self) -> Readiness:
        """For whoever watches over processes."""
        facts = self._asdict() | {"last_verdict_age_seconds": self.last_verdict_age_s}
        return Readiness(self.is_ready, self.sentence(), facts)

    def sentence(self) -> str:
        """In words, what is wrong, or that nothing is."""
        if not self.caught_up:
            return "reading the topics"
        if not self.reachable:
            return "Kafka does not answer: what is shown is what was read before"
        behind = {topic: lag for topic, lag in self.lag_records.items() if lag > BEHIND_RECORDS_MAX}
        if behind:
            return "behind: " + ", ".join(
                f"{lag:,} records of {topic} are not read yet" for topic, lag in behind.items()
            )
        age_s = self.last_verdict_age_s
        return "ready; no verdict yet" if age_s is None else f"ready; the newest verdict is {age_s:.1f} s old"

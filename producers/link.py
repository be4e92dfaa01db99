"""A link between two simulated peers: late, uneven and lossy, yet what comes through is never without its past.

Rules:
- A peer's log is all that it holds, in the order in which it came to hold it: so every prefix is closed under past.
- A message is a stretch of the sender's log and the place where it starts. The receiver takes it only if it goes on
  from what it has of that log already; so what it has is always a prefix, all or nothing.
- The receiver acknowledges how much it has. What is not acknowledged in time is sent again, from there.
- A link that is cut, or whose far end is offline, loses everything; after that the same rule mends it.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

from producers.virtual_time import Action, VirtualTime
from state.segment import Segment

RETRY_MS = 400
"""How long an acknowledgement may take: some round trips of a usual link."""


class End(Protocol):
    """What a link needs to know of the peer at its end."""

    is_online: bool
    log: list[Segment]

    def take(self, segments: Sequence[Segment]) -> None: ...


class Quality(NamedTuple):
    """How good a link is; `loss` is the chance that a message is lost."""

    latency_ms: int = 40
    jitter_ms: int = 30
    loss: float = 0.05


class _Flow:
    """One direction of a link: how much of the sender's log was sent, received and acknowledged."""

    def __init__(self) -> None:
        self.sent = self.received = self.acknowledged = 0


class Link:
    """Carries the logs of two peers to each other."""

    def __init__(self, time: VirtualTime, chance: Random, ends: tuple[End, End], quality: Quality) -> None:
        self.is_up = True
        self.ends = list(ends)
        self._time = time
        self._chance = chance
        self._quality = quality
        self._flows = (_Flow(), _Flow())
        for sender in (0, 1):
            time.after(chance.randrange(RETRY_MS), lambda sender=sender: self._retry(sender))  # type: ignore[misc]

    def push(self, end: End) -> None:
        """Send what is new in the log of `end`, one of the two ends, to the other."""
        self._send(self.ends.index(end))

    def hand_over(self, end: End, successor: End) -> None:
        """Let another peer stand at the place of `end`, with a log that begins as that of `end` does."""
        self.ends[self.ends.index(end)] = successor

    def restart(self) -> None:
        """Forget what was told, as when an end starts anew with another log; messages under way are lost."""
        self._flows = (_Flow(), _Flow())

    def _send(self, sender: int) -> None:
        flow, log = self._flows[sender], self.ends[sender].log
        start, stretch = flow.sent, log[flow.sent :]
        if stretch and self.ends[sender].is_online:
            flow.sent = len(log)
            self._transmit(lambda: self._arrive(sender, flow, start, stretch))

    def _arrive(self, sender: int, flow: _Flow, start: int, stretch: list[Segment]) -> None:
        receiver = self.ends[1 - sender]
        if not receiver.is_online or flow is not self._flows[sender] or start > flow.received:
            return
        fresh = stretch[flow.received - start :]
        flow.received += len(fresh)
        received = flow.received
        self._transmit(lambda: self._acknowledge(flow, received))
        if fresh:
            receiver.take(fresh)

    @staticmethod
    def _acknowledge(flow: _Flow, received: int) -> None:
        flow.acknowledged = max(flow.acknowledged, received)

    def _retry(self, sender: int) -> None:
        flow = self._flows[sender]
        if flow.acknowledged < len(self.ends[sender].log):
            flow.sent = flow.acknowledged
            self._send(sender)
        self._time.after(RETRY_MS, lambda: self._retry(sender))

    def _transmit(self, arrival: Action) -> None:
        quality = self._quality
        delay_ms = quality.latency_ms + self._chance.randint(0, quality.jitter_ms)
        if self.is_up and self._chance.random() >= quality.loss:
            self._time.after(delay_ms, lambda: arrival() if self.is_up else None)

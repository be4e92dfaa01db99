"""The splits fold: judges who hears whom, tick by tick, from the reports of all blocks of columns.

Key: a swarm. Events: reports from `.matrix`, cut down to sheets. `state.flow` has the rules of one tick,
`state.episodes` those of what lasts.

- A tick is judged when every block has reported it and the tick before it, which the reports name, was judged. So ticks
  are judged in their order, each once, in whatever order, how often and in how many blocks they are reported.
- Reports of a tick that is not later than the newest one judged were seen before, and are ignored.
- Sheets of other ticks wait in the archive; the blob says where. When a tick is judged or dropped they are deleted, and
  their places are used again.
- If too many ticks wait, the oldest one with all its reports is judged without the one before it, a gap; if there is
  none, the newest is dropped. Both are counted: then what is found depends on the order of the reports.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import msgspec

from state.config import Config, Epoch, Swarm
from state.episodes import Chronicle, Episodes
from state.flow import Sheet, draw_picture, make_sheet
from state.fold import Archive, Arrivals, Message, Outcome, Tally, Topic
from state.verdict import encode_verdict

WAITING_TICKS_MAX = 1024
"""Ticks that wait. Reports are spread over partitions, which are read at about one pace: in the midst of a replay of n
ticks some √n wait for one that stands in another partition, and a million ticks are months."""

CHUNK_BYTES = 64 << 10
"""A place of the archive. Small sheets fill one in part; a block of a large swarm needs some."""

TickKey: TypeAlias = tuple[int, int]
"""A tick's time and the number of blocks that report it: reports by another number of blocks do not add up."""


class Waiting(msgspec.Struct, array_like=True):
    """A tick that cannot be judged yet."""

    before_ms: int
    held: dict[int, list[int]] = {}
    """The blocks that have reported it, with the places of their sheets in the archive."""


class SplitsState(msgspec.Struct, array_like=True):
    """The blob of a swarm."""

    judged_ms: int = 0
    """The newest tick that was judged."""
    waiting: dict[TickKey, Waiting] = {}
    episodes: Episodes = msgspec.field(default_factory=Episodes)


_states = msgspec.msgpack.Decoder(SplitsState)
_sheets = msgspec.msgpack.Decoder(Sheet)
_encoder = msgspec.msgpack.Encoder()


class SplitsFold:
    """Routes reports to their swarm, cut down to what a split needs."""

    name = "splits"
    version = 1
    tallies = ("ticks_judged", "reports_dropped", "tick_gaps")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._swarms = {swarm.key: swarm for swarm in config.swarms}

    def all_keys(self) -> Iterable[bytes]:
        return sorted(self._swarms)

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        for report in arrivals.reports:
            swarm = self._swarms.get(report.swarm)
            if swarm is not None:
                yield swarm.key, _encoder.encode(make_sheet(report, _epoch_at(swarm, report.tick_ms)))

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> "SwarmSplits":
        state = SplitsState() if blob is None else _states.decode(blob)
        return SwarmSplits(self._swarms[key], self._config.digest, state, archive)


class SwarmSplits:
    """The splits of one swarm."""

    def __init__(self, swarm: Swarm, config: str, state: SplitsState, archive: Archive) -> None:
        self._swarm = swarm
        self._chronicle = Chronicle(swarm.id, config, state.episodes)
        self._store = SheetStore(state.waiting, archive)
        self._counts = dict.fromkeys(SplitsFold.tallies, 0)
        self.state = state

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        """Judge all ticks that can be judged; of several verdicts of one key the last one counts."""
        del clock_ms  # blocks report a tick when their clock has passed it
        self._counts = dict.fromkeys(SplitsFold.tallies, 0)
        for payload in payloads:
            sheet = _sheets.decode(payload)
            if sheet.tick_ms > self.state.judged_ms:
                self._store.add(sheet)
        found = {message.key: message for message in self._judge_all()}
        self._store.flush()
        return Outcome(list(found.values()), [Tally(name, amount) for name, amount in self._counts.items()])

    def pack(self) -> bytes:
        return _encoder.encode(self.state)

    def check_invariants(self) -> list[str]:
        state = self.state
        problems = self._chronicle.problems(state.judged_ms)
        problems += [
            f"tick {tick_ms} waits, and is judged" for tick_ms, _ in state.waiting if tick_ms <= state.judged_ms
        ]
        problems += [f"tick {key[0]} waits, and could be judged" for key in state.waiting if self._is_next(key)]
        if len(state.waiting) > WAITING_TICKS_MAX:
            problems.append(f"{len(state.waiting)} ticks wait, and at most {WAITING_TICKS_MAX} may")
        places = [place for one in state.waiting.values() for held in one.held.values() for place in held]
        if len(set(places)) < len(places):
            problems.append("two sheets stand in one place of the archive")
        return problems

    def audit(self, names: Iterable[bytes]) -> Iterator[str]:
        del names  # the blob names all sheets
        yield from self.check_invariants()
        yield from self._store.problems()

    def _judge_all(self) -> Iterator[Message]:
        yield from self._judge_chain()
        waiting = self.state.waiting
        while len(waiting) > WAITING_TICKS_MAX:
            complete = [key for key, one in waiting.items() if _is_complete(key, one)]
            if complete:
                self._counts["tick_gaps"] += 1
                yield from self._judge(min(complete))
                yield from self._judge_chain()
            else:
                self._drop(max(waiting))

    def _judge_chain(self) -> Iterator[Message]:
        """Judge the ticks that follow the newest one judged; each names an earlier one, so one pass is enough."""
        for key in sorted(self.state.waiting):
            if self._is_next(key):
                yield from self._judge(key)
        for key in [one for one in self.state.waiting if one[0] <= self.state.judged_ms]:
            self._drop(key)

    def _judge(self, key: TickKey) -> Iterator[Message]:
        epoch = _epoch_at(self._swarm, key[0])
        picture = draw_picture(self._store.take(key), epoch)
        self.state.judged_ms = picture.tick_ms
        self._counts["ticks_judged"] += 1
        for verdict in self._chronicle.tell(picture, epoch):
            yield Message(Topic.VERDICTS, verdict.key.encode(), encode_verdict(verdict))

    def _drop(self, key: TickKey) -> None:
        self._counts["reports_dropped"] += len(self.state.waiting[key].held)
        self._store.drop(key)

    def _is_next(self, key: TickKey) -> bool:
        one = self.state.waiting[key]
        return _is_complete(key, one) and one.before_ms <= self.state.judged_ms < key[0]


class SheetStore:
    """The sheets of waiting ticks: those of this batch in memory, the others in places of the archive."""

    def __init__(self, waiting: dict[TickKey, Waiting], archive: Archive) -> None:
        self._waiting = waiting
        self._archive = archive
        self._new: dict[TickKey, dict[int, Sheet]] = {}
        used = {place for one in waiting.values() for held in one.held.values() for place in held}
        self._places = max(used, default=-1) + 1
        self._free = [place for place in range(self._places) if place not in used]
        heapify(self._free)

    def add(self, sheet: Sheet) -> None:
        """Keep a sheet, unless it is held already."""
        key = (sheet.tick_ms, sheet.blocks)
        one = self._waiting.setdefault(key, Waiting(sheet.before_ms))
        if sheet.block not in one.held:
            one.held[sheet.block] = []
            self._new.setdefault(key, {})[sheet.block] = sheet

    def take(self, key: TickKey) -> list[Sheet]:
        """The sheets of a tick, which does not wait any more."""
        stored = [places for places in self._waiting[key].held.values() if places]
        sheets = [*self._new.get(key, {}).values(), *map(self._read, stored)]
        self.drop(key)
        return sheets

    def drop(self, key: TickKey) -> None:
        self._new.pop(key, None)
        for places in self._waiting.pop(key).held.values():
            for place in places:
                self._archive.pop(_name(place), None)
                heappush(self._free, place)

    def problems(self) -> Iterator[str]:
        """What is wrong with the sheets, all of which this reads."""
        for key, one in self._waiting.items():
            for block, places in one.held.items():
                sheet = self._read(places)
                if (sheet.tick_ms, sheet.blocks, sheet.block) != (*key, block):
                    yield f"the sheet of block {block} at tick {key[0]} is another one"

    def flush(self) -> None:
        """Write the new sheets to the archive."""
        for key, sheets in self._new.items():
            for block, sheet in sheets.items():
                self._waiting[key].held[block] = list(self._write(_encoder.encode(sheet)))
        self._new.clear()

    def _read(self, places: list[int]) -> Sheet:
        return _sheets.decode(b"".join(self._archive[_name(place)] for place in places))

    def _write(self, encoded: bytes) -> Iterator[int]:
        for at in range(0, len(encoded), CHUNK_BYTES):
            place = heappop(self._free) if self._free else self._places
            self._places = max(self._places, place + 1)
            self._archive[_name(place)] = encoded[at : at + CHUNK_BYTES]
            yield place


def _is_complete(key: TickKey, one: Waiting) -> bool:
    return len(one.held) == key[1]


def _epoch_at(swarm: Swarm, tick_ms: int) -> Epoch:
    """Before the first epoch nobody counts, so no tick is reported; the first one's rules do for any that is."""
    return swarm.epoch_at(tick_ms) or swarm.epochs[0]


def _name(place: int) -> bytes:
    return b"sheet/%d" % place

"""The fold host: runs any fold, key by key, on a state of one blob and one archive.

What it guarantees to a fold: see `state.fold`. What it guarantees to an operator:
- A fold's own bug (an exception) quarantines that one key: a verdict says so, its input goes to the dead letters from
  then on, and the query goes on.
- A blob of another version is refused with a message that says how to replay.
- A machine is kept unpacked between batches, and used again only if the stored state is the one it left behind; a
  miss costs time and never changes a result.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from state.fold import Fold, Machine, Message, Outcome, Tally, Topic
from state.verdict import Quarantine, encode_verdict, key_of
from streaming.archive import BufferedArchive, Store, StoreError

INVARIANT_TALLY = "invariant_violations"
QUARANTINE_TALLY = "quarantined"
REOPENED_TALLY = "reopened"
"""Machines that had to be unpacked again: after a restart, or because another worker had the key before."""
HOST_TALLIES = (INVARIANT_TALLY, QUARANTINE_TALLY, REOPENED_TALLY)
LEVELS = ("state_rows", "state_bytes", "state_blob_bytes_max")
"""How much is kept for keys: added up over those that a batch visits, but for the last one, which is the largest."""
_CACHED_MAX = 4096
"""Unpacked machines a worker keeps: all keys of a large swarm, and not more memory than they need."""


class BlobVersionError(Exception):
    """The checkpoint was written by another version of a fold."""


class Stored(NamedTuple):
    """What is stored for a key. `lineage` names everything ever written for it; `error` is set in quarantine."""

    version: int
    lineage: bytes
    blob: bytes
    error: str
    archive_entries: int
    archive_bytes: int

    def levels(self) -> list[Tally]:
        """How much is kept for the key: not counts of what happened, but how things stand."""
        rows, size = 1 + self.archive_entries, len(self.blob) + self.archive_bytes
        return [Tally(name, level) for name, level in zip(LEVELS, (rows, size, len(self.blob)), strict=True)]


class _Cached(NamedTuple):
    lineage: bytes
    config: str
    machine: Machine
    archive: BufferedArchive


_cache: dict[tuple[str, bytes], _Cached] = {}


class Visit(NamedTuple):
    """What one visit to a key gives: rows to write, and the state to store (None: it has not changed)."""

    outcome: Outcome
    stored: Stored | None


class KeyHost:
    """Hosts one key of one fold."""

    def __init__(self, fold: Fold, key: bytes, config: str) -> None:
        self._fold = fold
        self._key = key
        self._config = config

    def visit(self, stored: Stored | None, store: Store, payloads: list[bytes], clock_ms: int) -> Visit:
        """Absorb the events of a batch. Nothing is written to `store` unless all went well."""
        if stored is not None and stored.version != self._fold.version:
            raise BlobVersionError(
                f"the checkpoint holds version {stored.version} of the fold '{self._fold.name}', this program reads "
                f"version {self._fold.version}: start with a new checkpoint directory, and the topic is read again"
            )
        if stored is not None and stored.error:
            return Visit(Outcome(list(self._dead_letters(payloads)), []), None)
        try:
            return self._absorb(stored, store, payloads, clock_ms)
        except StoreError:
            raise  # Spark tries the batch again; to quarantine the key would blame the fold for it
        except Exception as error:  # noqa: BLE001  whatever a fold's bug raises, the other keys go on
            return self._quarantine(stored, payloads, f"{type(error).__name__}: {error}"[:1000])

    def _absorb(self, stored: Stored | None, store: Store, payloads: list[bytes], clock_ms: int) -> Visit:
        lineage = stored.lineage if stored else b""
        cached = self._recall(lineage, store)
        machine, archive = cached or self._open(stored, store)
        outcome = machine.absorb(payloads, clock_ms)
        if stored is not None and cached is None:
            outcome.tallies.append(Tally(REOPENED_TALLY, 1))
        if not payloads and not outcome.messages:
            # Only the clock has moved. The next batch brings a later one, so there is nothing to store. A key that was
            # never stored has no lineage to know it by: another run in this worker would take its clock for its own.
            if stored is not None:
                self._remember(lineage, machine, archive)
            return Visit(outcome, None)
        problems = machine.check_invariants()
        if problems:
            outcome.tallies.append(Tally(INVARIANT_TALLY, len(problems)))
        blob = machine.pack()
        lineage = blake2b(lineage + archive.digest() + blob, digest_size=16).digest()
        growth = archive.growth()
        archive.flush()
        self._remember(lineage, machine, archive)
        entries = (stored.archive_entries if stored else 0) + growth.entries
        size = (stored.archive_bytes if stored else 0) + growth.bytes
        return Visit(outcome, Stored(self._fold.version, lineage, blob, "", entries, size))

    def _recall(self, lineage: bytes, store: Store) -> tuple[Machine, BufferedArchive] | None:
        """The machine as this worker left it, if nobody else has changed its state since."""
        cached = _cache.pop((self._fold.name, self._key), None)
        if cached is None or cached.lineage != lineage or cached.config != self._config:
            return None
        cached.archive.bind(store)
        return cached.machine, cached.archive

    def _open(self, stored: Stored | None, store: Store) -> tuple[Machine, BufferedArchive]:
        archive = BufferedArchive()
        archive.bind(store)
        return self._fold.open(self._key, stored.blob if stored else None, archive), archive

    def _remember(self, lineage: bytes, machine: Machine, archive: BufferedArchive) -> None:
        if len(_cache) >= _CACHED_MAX:
            _cache.clear()
        _cache[self._fold.name, self._key] = _Cached(lineage, self._config, machine, archive)

    def _quarantine(self, stored: Stored | None, payloads: list[bytes], error: str) -> Visit:
        key = key_of(Quarantine, self._fold.name, self._key.hex())
        verdict = Quarantine(
            key=key, swarm="", config=self._config, fold=self._fold.name, fold_key=self._key.hex(), error=error
        )
        messages = [*self._dead_letters(payloads), Message(Topic.VERDICTS, key.encode(), encode_verdict(verdict))]
        before = stored or Stored(self._fold.version, b"", b"", "", 0, 0)
        return Visit(Outcome(messages, [Tally(QUARANTINE_TALLY, 1)]), before._replace(error=error))

    def _dead_letters(self, payloads: list[bytes]) -> Iterator[Message]:
        """The input of a quarantined key, kept as it came: packed events, named by fold, key and content."""
        name, key = self._fold.name, self._key.hex()
        headers = (("reason", b"quarantined"), ("fold", name.encode()), ("fold_key", key.encode()))
        for payload in payloads:
            digest = blake2b(payload, digest_size=16).hexdigest()
            yield Message(Topic.REJECTED, f"quarantined/{name}/{key}/{digest}".encode(), payload, headers)

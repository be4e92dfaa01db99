"""The configuration: which swarms are watched, and who their peers are, epoch by epoch.

One YAML file. A wrong one is told in one sentence: the path of the wrong value, what was expected, what was got.

    swarms:
      - id: 64 hex digits, made by `quorumscope swarm new`
        name: orders
        grace: 30s                        # how long a missing segment may take before a verdict says so
        horizon: 5m                       # how long a noop is looked at: what it entangles, who has it, who accepts it
        blocks: 0                         # blocks of columns; 0 is one for each 256 peers
        clock: {counters: 1024, hashes: 2}    # the size of the Bloom clocks that its peers put into updates
        since: 2026-03-01T00:00:00Z       # only where what was published before is gone: nothing of that is missing
        epochs:
          - start: 2026-01-01T00:00:00Z
            rules: [majority, everyone, 3]    # how many peers make a noop known or accepted: a name, or a number
            split_after: 30s              # how old a noop may be that others do not have before they count as parted
            roster:
              alice: 64 hex digits, an Ed25519 public key
              bob: …
"""

import re
from collections.abc import Hashable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import yaml

from state.bloom import DEFAULT_PARAMETERS, Parameters
from state.limits import ROSTER_MAX
from state.segment import Authors
from state.signing import is_fit_key

GRACE_DEFAULT = "30s"
HORIZON_DEFAULT = "5m"
SPLIT_AFTER_DEFAULT = "30s"
TICKS = 5
"""Ticks in a `split_after`: a split shows two of them after it could be seen first."""
SPLIT_AFTER_MS_MIN = 50
HORIZON_MS_MAX = 20 * 86_400_000
"""Times within a horizon are kept as 32-bit milliseconds, which reach 24 days either way."""
BLOCKS_MAX = 64
BLOCK_PEERS = 256
"""Columns of a block when the operator does not say: one executor's share of a large swarm."""
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME_WANTED = "a time with its zone, such as 2026-01-01T00:00:00Z"
_WORDS = {
    r"^Object contains unknown field (`.*`)$": r"expected only known fields, got \1",
    r"^Object missing required field (`.*`)$": r"expected a field \1, got none",
    r"^Invalid RFC3339 encoded datetime$": f"expected {_TIME_WANTED}, got other text",
    r"^Expected `datetime`,": f"expected {_TIME_WANTED},",
}
"""msgspec's messages that do not say what was expected and got, or say it in Python's words."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""Names become metric labels and words on a command line, so they are short and plain."""


class ConfigError(ValueError):
    """The operator's file is wrong; the message is one sentence for the operator."""


class Rule(NamedTuple):
    """How many peers of a roster of `n` make a noop known, or accepted."""

    name: str
    k: int
    n: int

    @property
    def tolerates(self) -> int:
        """How many peers can lie, the author included, before two conflicting ops can both be accepted.

        SPEC: DESIGN, columns: that takes at least 2k − n peers that signed forks.
        """
        return max(0, 2 * self.k - self.n - 1)


class Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A stretch of time with one roster and one set of rules; it lasts until the next epoch starts."""

    start: datetime
    roster: dict[str, str]
    rules: tuple[str | int, ...] = ("majority",)
    split_after: str = SPLIT_AFTER_DEFAULT

    def __post_init__(self) -> None:
        """Times are kept in one zone: two files that say the same must have the same digest."""
        if self.start.tzinfo is not None:
            msgspec.structs.force_setattr(self, "start", _in_utc(self.start))

    @cached_property
    def start_ms(self) -> int:
        return round(self.start.timestamp() * 1000)

    @cached_property
    def split_after_ms(self) -> int:
        return parse_duration_ms(self.split_after)

    @cached_property
    def tick_ms(self) -> int:
        return self.split_after_ms // TICKS

    @cached_property
    def members(self) -> tuple[bytes, ...]:
        """The keys of the roster, sorted: the order of the bits in a verdict's `observers`."""
        return tuple(sorted(bytes.fromhex(key) for key in self.roster.values()))

    @cached_property
    def thresholds(self) -> tuple[Rule, ...]:
        n = len(self.roster)
        named = {"majority": n // 2 + 1, "everyone": n}
        return tuple(Rule(str(rule), named[rule] if isinstance(rule, str) else rule, n) for rule in self.rules)

    def rule(self, name: str) -> Rule | None:
        return next((rule for rule in self.thresholds if rule.name == name), None)


class ClockSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a swarm's Bloom clocks."""

    counters: int = DEFAULT_PARAMETERS.counters
    hashes: int = DEFAULT_PARAMETERS.hashes


class Swarm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One replicated database and the peers that share it."""

    id: str
    name: str
    epochs: tuple[Epoch, ...]
    grace: str = GRACE_DEFAULT
    horizon: str = HORIZON_DEFAULT
    blocks: int = 0
    clock: ClockSize | msgspec.UnsetType = msgspec.UNSET
    """The default is left out of the digest: files from before there were clocks keep theirs."""
    since: datetime | msgspec.UnsetType = msgspec.UNSET
    """From when on all that was published is there; not set, that is the beginning (docs/adr/0014-since.md)."""

    def __post_init__(self) -> None:
        """Times are kept in one zone: two files that say the same must have the same digest."""
        if isinstance(self.since, datetime) and self.since.tzinfo is not None:
            msgspec.structs.force_setattr(self, "since", _in_utc(self.since))

    @cached_property
    def key(self) -> bytes:
        return bytes.fromhex(self.id)

    @cached_property
    def grace_ms(self) -> int:
        return parse_duration_ms(self.grace)

    @cached_property
    def horizon_ms(self) -> int:
        return parse_duration_ms(self.horizon)

    @cached_property
    def since_ms(self) -> int | None:
        return round(self.since.timestamp() * 1000) if isinstance(self.since, datetime) else None

    @cached_property
    def clock_parameters(self) -> Parameters:
        size = ClockSize() if isinstance(self.clock, msgspec.UnsetType) else self.clock
        return Parameters(size.counters, size.hashes)

    @cached_property
    def blocks_count(self) -> int:
        return self.blocks or -(-len(self.authors) // BLOCK_PEERS)

    def epoch_at(self, time_ms: int) -> Epoch | None:
        """The epoch of a record time; None before the first one starts."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.start_ms <= time_ms), None)

    @cached_property
    def authors(self) -> dict[bytes, str]:
        """Every key that has ever been in the roster, with its newest name."""
        return {bytes.fromhex(key): name for epoch in self.epochs for name, key in epoch.roster.items()}

    def author(self, name: str) -> bytes | None:
        """The key of the peer with this name, the newest if it had several; hex digits of a known key do too."""
        for epoch in reversed(self.epochs):
            if name in epoch.roster:
                return bytes.fromhex(epoch.roster[name])
        return next((key for key in self.authors if key.hex() == name), None)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """All that a verdict depends on besides the segments."""

    swarms: tuple[Swarm, ...]

    @cached_property
    def digest(self) -> str:
        """Names this configuration in verdicts: two files that say the same have the same digest.

        The number of blocks is left out: it says how work is spread, and no verdict depends on it.
        """
        swarms = tuple(
            msgspec.structs.replace(swarm, blocks=0, clock=msgspec.UNSET if swarm.clock == ClockSize() else swarm.clock)
            for swarm in self.swarms
        )
        return sha256(msgspec.json.encode(Config(swarms), order="sorted")).hexdigest()

    @cached_property
    def authors(self) -> Authors:
        return {swarm.key: frozenset(swarm.authors) for swarm in self.swarms}

    def swarm(self, name: str) -> Swarm | None:
        """The swarm with this name or id."""
        return next((swarm for swarm in self.swarms if name in (swarm.name, swarm.id)), None)


def parse_config(text: str) -> Config:
    """Read a configuration; raises ConfigError with one sentence if anything about it is wrong."""
    try:
        tree = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  the loader is a safe one
    except RecursionError:
        raise ConfigError("the file is not YAML that can be read: its values are nested too deeply") from None
    except Exception as error:  # noqa: BLE001  PyYAML raises many kinds for values that do not fit their tag
        raise ConfigError(f"the file is not YAML that can be read: {' '.join(str(error).split())}") from None
    try:
        config = msgspec.convert(tree, Config, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(_as_sentence(str(error))) from None
    for problem in _problems(config):
        raise ConfigError(problem)
    return config


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration such as 500ms, 30s, 5m, 2h or 1d; raises ValueError for anything else."""
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if match is None:
        raise ValueError(f"expected a duration such as 500ms, 30s or 5m, got {text!r}")
    return int(match[1]) * _UNITS_MS[match[2]]


def is_hex_key(text: str) -> bool:
    """Whether this is 32 bytes in lower-case hex digits: one spelling only, so that names compare as text."""
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("expected a time from year 1 to 9999 in UTC, got one beyond") from None


def _problems(config: Config) -> Iterator[str]:
    if not config.swarms:
        yield "at `swarms`: expected at least one swarm, got none"
    for field in ("id", "name"):
        values = [getattr(swarm, field) for swarm in config.swarms]
        for at, value in enumerate(values):
            if value in values[:at]:
                yield f"at `swarms[{at}].{field}`: expected each {field} once, got {value!r} a second time"
    for at, swarm in enumerate(config.swarms):
        yield from _swarm_problems(swarm, f"swarms[{at}]")


def _swarm_problems(swarm: Swarm, path: str) -> Iterator[str]:
    if not is_hex_key(swarm.id):
        yield f"at `{path}.id`: expected 64 lower-case hex digits (see `quorumscope swarm new`), got {swarm.id!r}"
    if not is_name(swarm.name):
        yield f"at `{path}.name`: expected a name of letters, digits, '.', '_' and '-', got {swarm.name!r}"
    horizon_ms = HORIZON_MS_MAX
    for field in ("grace", "horizon"):
        try:
            parse_duration_ms(getattr(swarm, field))
        except ValueError as error:
            yield f"at `{path}.{field}`: {error}"
        else:
            horizon_ms = swarm.horizon_ms if field == "horizon" else horizon_ms
    if not 1 <= horizon_ms <= HORIZON_MS_MAX:
        yield f"at `{path}.horizon`: expected 1ms to {HORIZON_MS_MAX // 86_400_000}d, got {swarm.horizon}"
    if not 0 <= swarm.blocks <= BLOCKS_MAX:
        yield f"at `{path}.blocks`: expected 0 to {BLOCKS_MAX}, got {swarm.blocks}"
    problem = swarm.clock_parameters.problem()
    if problem:
        yield f"at `{path}.clock`: {problem}"
    yield from _since_problems(swarm.since, f"{path}.since")
    if not swarm.epochs:
        yield f"at `{path}.epochs`: expected at least one epoch, got none"
    for at, epoch in enumerate(swarm.epochs):
        if epoch.start.tzinfo is None:
            got = epoch.start.isoformat()
            yield f"at `{path}.epochs[{at}].start`: expected {_TIME_WANTED}, got {got} without a zone"
        elif at and epoch.start <= swarm.epochs[at - 1].start:
            got = epoch.start.isoformat()
            yield f"at `{path}.epochs[{at}].start`: expected a later start than that of the epoch before it, got {got}"
        yield from _roster_problems(epoch.roster, f"{path}.epochs[{at}].roster")
        yield from _rules_problems(epoch, f"{path}.epochs[{at}].rules")
        yield from _split_after_problems(epoch, horizon_ms, f"{path}.epochs[{at}].split_after")


def _since_problems(since: datetime | msgspec.UnsetType, path: str) -> Iterator[str]:
    if isinstance(since, datetime) and since.tzinfo is None:
        yield f"at `{path}`: expected {_TIME_WANTED}, got {since.isoformat()} without a zone"


def _rules_problems(epoch: Epoch, path: str) -> Iterator[str]:
    n = len(epoch.roster)
    for at, rule in enumerate(epoch.rules):
        if not (rule in ("majority", "everyone") if isinstance(rule, str) else 1 <= rule <= n):
            yield f"at `{path}[{at}]`: expected majority, everyone or a number of peers from 1 to {n}, got {rule!r}"
        if rule in epoch.rules[:at]:
            yield f"at `{path}[{at}]`: expected each rule once, got {rule!r} a second time"


def _split_after_problems(epoch: Epoch, horizon_ms: int, path: str) -> Iterator[str]:
    try:
        split_after_ms = parse_duration_ms(epoch.split_after)
    except ValueError as error:
        yield f"at `{path}`: {error}"
        return
    if not SPLIT_AFTER_MS_MIN <= split_after_ms <= horizon_ms:
        got = epoch.split_after
        yield f"at `{path}`: expected {SPLIT_AFTER_MS_MIN}ms or more, and not more than the horizon, got {got}"


def _roster_problems(roster: dict[str, str], path: str) -> Iterator[str]:
    if not 1 <= len(roster) <= ROSTER_MAX:
        yield f"at `{path}`: expected 1 to {ROSTER_MAX} peers, got {len(roster)}"
    holders: dict[str, str] = {}
    for name, key in roster.items():
        if not is_name(name):
            yield f"at `{path}`: expected names of letters, digits, '.', '_' and '-', got {name!r}"
        if not is_hex_key(key):
            yield f"at `{path}.{name}`: expected a public key of 64 lower-case hex digits, got {key!r}"
        elif not is_fit_key(bytes.fromhex(key)):
            yield f"at `{path}.{name}`: expected an Ed25519 public key, got a value that is none or of small order"
        if key in holders:
            yield f"at `{path}.{name}`: expected a key of its own, got the key of {holders[key]}"
        holders[key] = name


def _as_sentence(message: str) -> str:
    """Turn «Expected X, got Y - at `$.path`» round: operators read the place first."""
    what, _, place = message.partition(" - at `")
    path = place.removesuffix("`").removeprefix("key` in `").removeprefix("$").removeprefix(".")
    for pattern, words in _WORDS.items():
        what = re.sub(pattern, words, what)
    return f"at {f'`{path}`' if path else 'the top level'}: {what[0].lower()}{what[1:]}"


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {line}: expected a plain key, got a list or a mapping")
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                raise yaml.YAMLError(f"line {line}: expected each key once, got {key!r} a second time")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _construct_time(loader: _StrictLoader, node: yaml.ScalarNode) -> datetime | str:
    """Times keep their zone; a bare date, or a day of no calendar, is left as text, which the type check then names."""
    try:
        value = yaml.SafeLoader.construct_yaml_timestamp(loader, node)
    except (ValueError, AttributeError):
        return str(node.value)
    return value if isinstance(value, datetime) and value.tzinfo else str(node.value)


_StrictLoader.add_constructor("tag:yaml.org,2002:timestamp", _construct_time)

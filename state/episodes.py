"""What lasts: when a split, a silence, a one-way link or a stretch that cannot be judged opens, changes and ends.

- Ticks come one after another, each once. A condition that holds at two in a row opens an episode, named by the first
  of them; one that does not hold at two in a row ends it at the first of them. So what flaps opens and ends nothing.
- Between two ticks that follow each other nobody was active: nothing is known of that time, and episodes go on.
- A tick at which nothing can be told of who hears whom opens, changes and ends no split and no one-way link; it stands
  between the ticks before and after it, so these are not two in a row.
- What an episode says is what held when it opened, but for a split: its sides and suspects are those of now, once two
  ticks that show a split, one after the other, say the same of them; its last contact is the newest ever found. When it
  has ended, they stay as they were last.
- A peer that turns from `hears` to `heard` ends one episode and opens another.
- A verdict is given when what it says has changed, and not at other ticks.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from state.config import Epoch
from state.flow import Parting, Picture
from state.verdict import Episode, OneWay, Silent, Split, Suspect, Undecidable, key_of

LINK_SPLIT_AFTERS = 2
"""A peer is suspected as the lost link of a split if it was last heard at most this many `split_after` before: a split
opens one `split_after` and a tick after the last contact, and the link falls silent with that."""

F = TypeVar("F")
_SWARM = b""
"""The subject of what is said of a whole swarm; otherwise it is an author."""


class Spell(msgspec.Struct, Generic[F], array_like=True):
    """A condition that held at one tick, or an open episode."""

    opened_ms: int
    fact: F
    is_open: bool = False
    over_ms: int = 0
    """The newest tick, if it did not hold there; 0 if it did."""
    last: F | None = None
    """What was found at the newest tick at which it held."""


class Change(NamedTuple, Generic[F]):
    """An episode that has opened, says something else, or has ended."""

    subject: bytes
    fact: F
    opened_ms: int
    ended_ms: int | None


class SplitFact(msgspec.Struct, frozen=True, array_like=True):
    opening: list[list[bytes]]
    sides: list[list[bytes]]
    last_contact_ms: int
    suspects: list[tuple[bytes, str]]


class Episodes(msgspec.Struct, array_like=True):
    """All spells of one swarm, by subject; ended ones are forgotten."""

    split: dict[bytes, Spell[SplitFact]] = {}
    hears: dict[bytes, Spell[None]] = {}
    heard: dict[bytes, Spell[None]] = {}
    silent: dict[bytes, Spell[int]] = {}
    """With the time of the newest noop."""
    undecidable: dict[bytes, Spell[tuple[int, int]]] = {}
    """With the noop interval and `split_after`."""


Renew = Callable[[F, F | None, F], F]
"""What an episode says from now on: given what it said, what the tick before found, and what this one finds."""


def advance(
    spells: dict[bytes, Spell[F]],
    tick_ms: int,
    holding: Mapping[bytes, F],
    renew: "Renew[F]" = lambda held, _before, _now: held,
) -> Iterator[Change[F]]:
    """Go on to a tick at which the condition holds for these subjects; `renew` says what an episode says from now on.

    Requires that `tick_ms` is later than at the last call.
    """
    for subject in sorted({*spells, *holding}):
        if subject in holding:
            change = _hold(spells, subject, holding[subject], tick_ms, renew)
        else:
            change = _lapse(spells, subject, tick_ms)
        if change is not None:
            yield change


def interrupt(spells: dict[bytes, Spell[F]]) -> None:
    """Go on to a tick that does not tell: what had begun to open or to end has to begin again."""
    for subject, spell in list(spells.items()):
        spell.over_ms = 0
        if not spell.is_open:
            del spells[subject]


def _hold(spells: dict[bytes, Spell[F]], subject: bytes, fact: F, tick_ms: int, renew: "Renew[F]") -> Change[F] | None:
    spell = spells.get(subject)
    if spell is None:
        spells[subject] = Spell(tick_ms, fact, last=fact)
        return None
    renewed = renew(spell.fact, spell.last, fact)
    is_news = not spell.is_open or renewed != spell.fact
    spell.fact, spell.last, spell.is_open, spell.over_ms = renewed, fact, True, 0
    return Change(subject, renewed, spell.opened_ms, None) if is_news else None


def _lapse(spells: dict[bytes, Spell[F]], subject: bytes, tick_ms: int) -> Change[F] | None:
    spell = spells[subject]
    if spell.is_open and not spell.over_ms:
        spell.over_ms = tick_ms
        return None
    del spells[subject]
    return Change(subject, spell.fact, spell.opened_ms, spell.over_ms) if spell.is_open else None


class Chronicle:
    """Tells the episodes of one swarm as verdicts."""

    def __init__(self, swarm: str, config: str, episodes: Episodes) -> None:
        self._about = {"swarm": swarm, "config": config}
        self.episodes = episodes

    def tell(self, picture: Picture, epoch: Epoch) -> Iterator[Episode]:
        """The verdicts that change at this tick."""
        yield from self._tell_silent(picture)
        yield from self._tell_undecidable(picture, epoch)
        if picture.flow is None:
            interrupt(self.episodes.split)
            interrupt(self.episodes.hears)
            interrupt(self.episodes.heard)
            return
        for direction, authors in (("hears", picture.flow.hears), ("heard", picture.flow.heard)):
            yield from self._tell_one_way(picture, direction, authors)
        yield from self._tell_split(picture, picture.flow.parting, epoch)

    def problems(self, judged_ms: int) -> list[str]:
        """What is wrong with the spells after the tick `judged_ms`."""
        problems = []
        for name in Episodes.__struct_fields__:
            for subject, spell in getattr(self.episodes, name).items():
                problems += [f"{name} {subject.hex()[:8]}: {problem}" for problem in _spell_problems(spell, judged_ms)]
        hears, heard = self.episodes.hears, self.episodes.heard
        for author in sorted(hears.keys() & heard.keys()):
            if not (hears[author].over_ms or heard[author].over_ms):
                problems.append(f"one_way {author.hex()[:8]}: hears and is heard at once")
        for spell in self.episodes.split.values():
            problems += [f"split: {problem}" for problem in _sides_problems(spell.fact)]
        return problems

    def _tell_silent(self, picture: Picture) -> Iterator[Episode]:
        for change in advance(self.episodes.silent, picture.tick_ms, picture.silent):
            author = change.subject.hex()
            yield Silent(**self._facts(Silent, picture, change, author), author=author, since_ms=change.fact)

    def _tell_undecidable(self, picture: Picture, epoch: Epoch) -> Iterator[Episode]:
        holding = {} if picture.interval_ms is None else {_SWARM: (picture.interval_ms, epoch.split_after_ms)}
        for change in advance(self.episodes.undecidable, picture.tick_ms, holding):
            facts = self._facts(Undecidable, picture, change)
            yield Undecidable(**facts, interval_ms=change.fact[0], split_after_ms=change.fact[1])

    def _tell_one_way(self, picture: Picture, direction: str, authors: list[bytes]) -> Iterator[Episode]:
        spells: dict[bytes, Spell[None]] = getattr(self.episodes, direction)
        for change in advance(spells, picture.tick_ms, dict.fromkeys(authors)):
            author = change.subject.hex()
            yield OneWay(**self._facts(OneWay, picture, change, author), author=author, direction=direction)

    def _tell_split(self, picture: Picture, parting: Parting | None, epoch: Epoch) -> Iterator[Episode]:
        running = self.episodes.split.get(_SWARM)
        opened_ms = running.opened_ms if running else picture.tick_ms
        since_ms = opened_ms - LINK_SPLIT_AFTERS * epoch.split_after_ms
        holding = {} if parting is None else {_SWARM: _split_fact(parting, since_ms)}
        for change in advance(self.episodes.split, picture.tick_ms, holding, _renew_split):
            fact = change.fact
            yield Split(
                **self._facts(Split, picture, change),
                sides_opening=_in_hex(fact.opening),
                sides=_in_hex(fact.sides),
                last_contact_ms=fact.last_contact_ms,
                suspects=tuple(Suspect(author.hex(), why) for author, why in fact.suspects),
            )

    def _facts(self, kind: type[Episode], picture: Picture, change: Change[Any], *subject: str) -> dict[str, Any]:
        """What every episode says."""
        return self._about | {
            "key": key_of(kind, self._about["swarm"], *subject, change.opened_ms),
            "opened_ms": change.opened_ms,
            "ended_ms": change.ended_ms,
            "updated_ms": picture.tick_ms,
        }


def _split_fact(parting: Parting, since_ms: int) -> SplitFact:
    """What a split says at one tick; silent peers are suspects if they were heard at `since_ms` or later."""
    silent = {(author, "silent") for author, newest_ms in parting.links.items() if newest_ms >= since_ms}
    return SplitFact(parting.sides, parting.sides, parting.last_contact_ms, sorted({*parting.suspects, *silent}))


def _renew_split(held: SplitFact, before: SplitFact | None, now: SplitFact) -> SplitFact:
    last_contact_ms = max(held.last_contact_ms, now.last_contact_ms)
    is_settled = before is not None and (before.sides, before.suspects) == (now.sides, now.suspects)
    shown = now if is_settled else held
    return SplitFact(held.opening, shown.sides, last_contact_ms, shown.suspects)


def _in_hex(sides: list[list[bytes]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(author.hex() for author in side) for side in sides)


def _spell_problems(spell: Spell[Any], judged_ms: int) -> Iterator[str]:
    if spell.over_ms not in {0, judged_ms}:
        yield f"begins to end at {spell.over_ms}, and the newest tick is {judged_ms}"
    if not spell.is_open and (spell.over_ms or spell.opened_ms != judged_ms):
        yield f"begins to open at {spell.opened_ms}, and the newest tick is {judged_ms}"
    if spell.is_open and spell.opened_ms >= judged_ms:
        yield f"is open since {spell.opened_ms}, and the newest tick is {judged_ms}"


def _sides_problems(fact: SplitFact) -> Iterator[str]:
    for sides in (fact.opening, fact.sides):
        peers = [author for side in sides for author in side]
        if len(sides) < 2 or not all(sides):
            yield f"has {len(sides)} sides, of {[len(side) for side in sides]} peers"
        if len(set(peers)) < len(peers):
            yield "has a peer on two sides"
        if sides[1:] and len(sides[0]) < max(map(len, sides)):
            yield "has a side that is larger than the main one"

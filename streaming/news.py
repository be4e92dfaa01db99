"""What is news in a stream of verdicts, and in which words: a line for each change, none for a repetition.

Verdicts of noops that come to be known or accepted are no news: there are thousands, and they are counted. Beliefs
change with each peer that hears of a branch, so they are told together, once they have settled.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from state.config import Config
from state.grid import branch_letter
from state.verdict import AnyVerdict, Belief, Episode, Equivocation, Fork, Quarantine, Split, Spread, Verdict
from state.words import describe

SETTLED_SECONDS = 2.0
"""Beliefs that have not changed for this long are told: a branch takes about a second from peer to peer."""


class Tone(Enum):
    STORY = "story"
    NOTE = "note"
    ALARM = "alarm"
    RELIEF = "relief"


class Item(NamedTuple):
    """A line of news, and when it came, in seconds from the start."""

    at_s: float
    text: str
    tone: Tone


_ALARMING: tuple[type[Verdict], ...] = (Fork, Equivocation, Split, Quarantine)


def tone_of(verdict: AnyVerdict) -> Tone:
    if isinstance(verdict, Episode) and verdict.ended_ms is not None:
        return Tone.RELIEF
    return Tone.ALARM if isinstance(verdict, _ALARMING) else Tone.NOTE


class News:
    """Collects lines: of the story, and of verdicts as they come."""

    def __init__(self, config: Config) -> None:
        self.items: list[Item] = []
        self._config = config
        self._told: dict[str, str] = {}
        self._beliefs: dict[tuple[str, str], dict[str, Belief]] = {}
        """By swarm and author, and by branch."""
        self._unsettled: dict[tuple[str, str], float] = {}
        """Whose beliefs have changed, and when they last did."""

    def add_story(self, text: str, now_s: float) -> None:
        self.items.append(Item(now_s, text, Tone.STORY))

    def add(self, key: str, verdict: AnyVerdict | None, now_s: float) -> None:
        """Take in a verdict, or None where the one under the key is withdrawn."""
        if verdict is None:
            text = self._told.pop(key, None)
            if text is not None:
                self.items.append(Item(now_s, f"withdrawn: {text}", Tone.RELIEF))
        elif isinstance(verdict, Belief):
            about = (verdict.swarm, verdict.author)
            self._beliefs.setdefault(about, {})[verdict.branch] = verdict
            self._unsettled[about] = now_s
        elif not isinstance(verdict, Spread):
            self._tell(key, describe(verdict, self._config), tone_of(verdict), now_s)

    def settle(self, now_s: float) -> None:
        """Tell the beliefs that have not changed for a while."""
        for about, changed_s in list(self._unsettled.items()):
            if now_s - changed_s >= SETTLED_SECONDS:
                del self._unsettled[about]
                beliefs = list(self._beliefs[about].values())
                if any(len(belief.believers) > 1 for belief in beliefs):
                    self._tell("/".join(about), describe_beliefs(beliefs, self._config), Tone.NOTE, now_s)

    def _tell(self, key: str, text: str, tone: Tone, now_s: float) -> None:
        if self._told.get(key) != text:
            self._told[key] = text
            self.items.append(Item(now_s, text, tone))


def describe_beliefs(beliefs: list[Belief], config: Config) -> str:
    """Who believes which branch of a peer's log. Requires beliefs about one author, at least one."""
    swarm = config.swarm(beliefs[0].swarm)
    names = {author.hex(): name for author, name in swarm.authors.items()} if swarm else {}
    author = names.get(beliefs[0].author, beliefs[0].author[:16])
    believed = [
        sorted(names.get(one.author, one.author[:16]) for one in belief.believers if one.author != belief.author)
        for belief in sorted(beliefs, key=lambda belief: belief.branch)
    ]
    if len(believed) > 1 and all(who == believed[0] for who in believed):
        stories = f"{'both' if len(believed) == 2 else 'all'} stories of {author}"
        if len(believed[0]) == len(names) - 1:
            return f"everyone else holds {stories}"
        return f"{_listed(believed[0], 'hold')} {stories}"
    return "; ".join(_believers(author, believed))


def _believers(author: str, believed: list[list[str]]) -> Iterator[str]:
    for at, who in enumerate(believed):
        yield f"{_listed(who, 'believe')} {author} {branch_letter(at)}"


def _listed(names: list[str], verb: str) -> str:
    return f"{', '.join(names) or 'nobody else'} {verb}{'' if len(names) > 1 else 's'}"

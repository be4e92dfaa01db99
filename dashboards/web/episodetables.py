"""What lasts, and what lasted: splits, silences, one-way links, and times of which nothing can be said."""

from collections.abc import Iterator

from dashboards.web.frame import runbook_link
from dashboards.web.markup import Content, Html, element, joined
from dashboards.web.problems import KINDS, listed
from dashboards.web.snapshot import AnyEpisode, SwarmSnapshot
from dashboards.web.tables import ROWS_MAX, table
from dashboards.web.timewords import lasting, moment
from state.config import Config
from state.verdict import Split, kind_of
from state.words import describe

SIDES_MAX = 8
"""Sides of a split that are listed; further ones are counted."""

_TITLES = {"split": "Split", "silent": "Silent peer", "one_way": "One-way link", "undecidable": "Undecidable"}


def open_episodes(swarm: SwarmSnapshot, config: Config, now_ms: int) -> Html | None:
    """What lasts now, the oldest first; None if nothing does."""
    if not swarm.open:
        return None
    rows = [
        (
            _TITLES[kind_of(episode)],
            _words(swarm, config, episode),
            moment(episode.opened_ms),
            lasting(now_ms - episode.opened_ms),
            runbook_link(KINDS[kind_of(episode)].runbook),
        )
        for episode in swarm.open[:ROWS_MAX]
    ]
    label = f"Open episodes of swarm {swarm.swarm.name}"
    headers = ("Kind", "What", "Seen since", "For", "What to do")
    return table(label, "What lasts, as of the newest tick.", headers, rows, count=len(swarm.open))


def ended_episodes(swarm: SwarmSnapshot, config: Config) -> Html | None:
    """What is over, the newest first; None if nothing is known of any."""
    rows = [
        (
            _TITLES[kind_of(episode)],
            _words(swarm, config, episode),
            moment(episode.opened_ms),
            moment(episode.ended_ms),
            lasting(episode.ended_ms - episode.opened_ms),
        )
        for episode in swarm.ended[:ROWS_MAX]
        if episode.ended_ms is not None
    ]
    label = f"Ended episodes of swarm {swarm.swarm.name}"
    headers = ("Kind", "What", "Seen since", "Until", "For")
    return table(label, "What is over, the newest first.", headers, rows, count=len(swarm.ended)) if rows else None


def _words(swarm: SwarmSnapshot, config: Config, episode: AnyEpisode) -> Content:
    return joined(_split_words(swarm, episode)) if isinstance(episode, Split) else describe(episode, config)


def _split_words(swarm: SwarmSnapshot, split: Split) -> Iterator[Html]:
    """Each side by itself: one sentence with a thousand names would tell nothing."""
    for at, side in enumerate(split.sides[:SIDES_MAX]):
        title = "main side" if at == 0 else f"side {at + 1}"
        yield element("div", f"{title} ({len(side):,}): {listed(sorted(map(swarm.name, side)))}")
    if len(split.sides) > SIDES_MAX:
        yield element("div", f"… and {len(split.sides) - SIDES_MAX:,} more sides")
    if split.suspects:
        suspects = [f"{swarm.name(one.author)} ({one.why.replace('_', ' ')})" for one in split.suspects]
        yield element("div", f"between them: {listed(suspects)}")
    contact = moment(split.last_contact_ms) if split.last_contact_ms else "none that is known"
    yield element("div", "last contact: ", contact)

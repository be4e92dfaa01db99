"""Replicas for people: how many are in step, which ones are not, and what each of those lacks."""

from dashboards.replicas import is_contradicted
from dashboards.web.frame import fact, finding_title
from dashboards.web.markup import Html, element
from dashboards.web.problems import KINDS, listed
from dashboards.web.snapshot import SwarmSnapshot
from dashboards.web.tables import table
from dashboards.web.timewords import moment
from state.config import Config
from state.verdict import Replica
from state.words import describe

_CAPTION = (
    "Replicas that are not in step, by what their peers last said of them; those that contradict themselves first, "
    "then diverged ones, those ahead, and those behind."
)
_HEADERS = ("Peer", "What was found", "Since")


def replica_section(swarm: SwarmSnapshot, config: Config) -> Html | None:
    """The replicas of a swarm; None if it shares no entities."""
    standings = swarm.replicas
    if not standings.replicas:
        return None
    rows = [(swarm.name(one.author), _what(one, config), moment(one.since_ms)) for one in standings.worst]
    label = f"Replicas of swarm {swarm.swarm.name} that are not in step"
    return element(
        "section",
        finding_title("Replicas", KINDS["diverged"].runbook),
        _counts(swarm),
        _unseen(swarm),
        table(label, _CAPTION, _HEADERS, rows, count=standings.apart) if rows else None,
    )


def _counts(swarm: SwarmSnapshot) -> Html:
    standings = swarm.replicas
    counts = {
        "Entities": standings.entities,
        "In step": standings.count("in_step"),
        "Behind": standings.count("behind"),
        "Ahead": standings.count("ahead"),
        "Diverged": standings.count("diverged"),
    }
    return element("dl", (fact(title, f"{count:,}") for title, count in counts.items()), class_="facts")


def _unseen(swarm: SwarmSnapshot) -> Html | None:
    """What to say of peers that named more entities than are looked at."""
    full = [name for author, name in swarm.peers.items() if swarm.replicas.by_author[author].is_full]
    if not full:
        return None
    return element("p", f"Not all entities of {listed(full)} are looked at: there are too many.", class_="more")


def _what(replica: Replica, config: Config) -> Html:
    words = describe(replica, config)
    return element("strong", words) if is_contradicted(replica) else element("span", words)

"""Forks for people: which peer, where its log has two versions, who holds which, and how to check it oneself."""

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from dashboards.web.evidencefile import evidence_name, evidence_path
from dashboards.web.frame import finding_title, link
from dashboards.web.markup import Content, Html, element, joined
from dashboards.web.problems import KINDS, listed
from dashboards.web.snapshot import SwarmSnapshot
from dashboards.web.tables import table
from dashboards.web.timewords import moment
from state.grid import node_letters
from state.head import decode_head
from state.verdict import Belief, Equivocation, Fork, Signed

ID_DIGITS = 12
"""Digits of an id that are shown: enough to tell two apart and to find it again."""

PEERS_MAX = 20
"""Peers whose forks are shown in full."""


class ForkedPeer(NamedTuple):
    """A peer whose log has two versions somewhere."""

    author: str
    name: str
    is_member: bool
    """Whether its key is in the roster now."""
    forks: list[Fork]
    equivocations: list[Equivocation]

    @property
    def first_index(self) -> int | None:
        """The least index at which two versions stand, as far as is known."""
        return self.equivocations[0].index if self.equivocations else None


def forked_peers(swarm: SwarmSnapshot) -> list[ForkedPeer]:
    """In the order of their names."""
    forks: dict[str, list[Fork]] = defaultdict(list)
    for fork in swarm.of(Fork):
        forks[fork.verdict.author].append(fork.verdict)
    doubles: dict[str, list[Equivocation]] = defaultdict(list)
    for double in swarm.of(Equivocation):
        doubles[double.verdict.author].append(double.verdict)
    authors = sorted({*forks, *doubles}, key=lambda author: (swarm.name(author), author))
    return [
        ForkedPeer(author, swarm.name(author), author in swarm.peers, forks[author], doubles[author])
        for author in authors
    ]


def fork_section(swarm: SwarmSnapshot) -> Html | None:
    """All forked peers of a swarm; None if there are none."""
    peers = forked_peers(swarm)
    if not peers:
        return None
    more = f"… and {len(peers) - PEERS_MAX:,} more peers" if len(peers) > PEERS_MAX else None
    return element(
        "section",
        finding_title("Forks", KINDS["fork"].runbook),
        element(
            "p",
            "An honest peer signs one version of its log. Two versions are a lie, a restored backup, or one key used "
            "in two places; the signatures prove that there are two, and do not tell which it is.",
        ),
        (_peer(swarm, peer) for peer in peers[:PEERS_MAX]),
        element("p", more, class_="more") if more else None,
    )


def _peer(swarm: SwarmSnapshot, peer: ForkedPeer) -> Html:
    where = f" signed two different segments with index {peer.first_index}" if peer.equivocations else " forked its log"
    rows = list(_rows(swarm, peer))
    caption = "The branches of its log, and who holds which; letters are those of the matrix."
    headers = ("Branch", "At index", "Begins with", "On the topic since", "Held by")
    return element(
        "article",
        element("h4", peer.name, where),
        None if peer.is_member else element("p", "Its key is not in the roster now."),
        table(f"Branches of {peer.name}", caption, headers, rows, numbers=frozenset({1})) if rows else None,
        _evidence(swarm, peer),
        class_="fork",
    )


def _rows(swarm: SwarmSnapshot, peer: ForkedPeer) -> Iterator[tuple[Content, ...]]:
    nodes = swarm.grid.nodes if swarm.grid else []
    letters = {node.branch.hex(): letter for node, letter in zip(nodes, node_letters(nodes), strict=True)}
    beliefs = {one.verdict.branch: one.verdict for one in swarm.of(Belief) if one.verdict.author == peer.author}
    for fork in peer.forks:
        for branch in fork.branches:
            name = f"{peer.name}/{letters[branch.id]}" if branch.id in letters else peer.name
            index = signed_index(branch)
            shown_id = element("code", branch.id[:ID_DIGITS])
            held = _holders(swarm, peer, beliefs.get(branch.id))
            yield name, "unknown" if index is None else f"{index:,}", shown_id, moment(branch.seen_ms), held
        if fork.more:
            yield "further branches", "", "", "", "not listed: there are more than 64"


def _holders(swarm: SwarmSnapshot, peer: ForkedPeer, belief: Belief | None) -> str:
    holders = {one.author for one in belief.believers if one.author != peer.author} if belief else set()
    if not holders:
        return "nobody else"
    if holders >= set(swarm.peers) - {peer.author}:
        return f"everyone else ({len(holders):,})"
    return listed(sorted(swarm.name(author) for author in holders))


def _evidence(swarm: SwarmSnapshot, peer: ForkedPeer) -> Html | None:
    path = evidence_path(swarm.swarm, peer.author)
    if path is None:
        return element("p", "This key was never in the roster, so there is no evidence file.")
    command = f"quorumscope verify {evidence_name(swarm.swarm, peer.author)} --swarms swarms.yaml"
    return joined(
        element("p", link(path, f"Download the evidence about {peer.name}", class_="button")),
        element("p", "Check it anywhere, offline, with your own file of swarms:"),
        element("pre", element("code", command), tabindex="0"),
    )


def signed_index(signed: Signed) -> int | None:
    """The index in a signed head; None if the verdict holds something else there."""
    try:
        return decode_head(bytes.fromhex(signed.head)).index
    except (ValueError, struct.error):
        return None

"""Who hears whom at one tick: the sides of a swarm, who is linked one way only, and who may stand between the sides.

SPEC: DESIGN, splits. At a tick τ:
- A node is active if its newest noop is within `split_after` of τ. A peer none of whose nodes is active is silent.
- An active node that has not been there for a whole `split_after` is waking, and not in the graph yet: others had no
  time to hear of it. So a healthy swarm is not split when it wakes from a pause.
- Knowledge flows from Y to X if X is fresh on Y. A component is a largest set of nodes with a path from each to each.
- The main side is the component with the most unforked peers, at a tie the one with the smallest key. Components
  with no path to or from it are the other sides, unless forked peers are all they are made of.
- An unforked peer with a path from the main side and none back `hears`, one with a path to it only is `heard`.
- If `split_after` is under three median noop intervals, nothing of this can be told.
- Suspects: `forked`, a peer with branches on two sides; `withheld`, a peer on one side whose unpublished noops are
  named on another; `silent`, a peer whose newest noop is covered on two sides; `one_way`, a peer linked to two sides.

A *sheet* is what all this needs of a report. It is made where reports are read, so that the rest never travels.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.config import Epoch
from state.report import AGE_MAX, Report, unpack_cells

INTERVALS_MIN = 3
"""Noop intervals in a `split_after`: with fewer, a peer that just has nothing to say looks like one that is cut off."""

BitSet: TypeAlias = int
"""A set of nodes; bit n is node n. One operation on a set of 4,096 costs about a tenth of a microsecond."""
Bools: TypeAlias = NDArray[np.bool_]


class Roll(msgspec.Struct, frozen=True, array_like=True):
    """Who is there, by status; waking nodes count as neither."""

    members: list[tuple[bytes, bool]]
    """The nodes of the graph, sorted by author: the author, and whether it forked."""
    silent: list[tuple[bytes, int]]
    """The nodes of silent peers: the author, and the time of the node's newest noop."""


class Sheet(msgspec.Struct, frozen=True, array_like=True):
    """What a report says of the graph. Nodes are positions in the members or the silent nodes of the roll."""

    tick_ms: int
    before_ms: int
    block: int
    blocks: int
    roll: Roll | None
    """All blocks have the same one, so only block 0 brings it."""
    members: list[int]
    """The members that this block tells of."""
    fresh: bytes
    """Bits, a row for each of these: the members that hear it."""
    contacts: bytes
    """Of the cells that are not fresh, as in the report; nobody asks for the others."""
    silent: list[int]
    """The silent nodes that this block tells of, and that have a noop."""
    covered: bytes
    """Bits, a row for each of these: the members that cover its newest noop."""
    intervals_ms: list[int]
    """Those of unforked peers that have one."""
    withheld: list[tuple[bytes, list[int]]]
    """Authors of noops that nobody published, with the members that name such noops."""


class Parting(NamedTuple):
    """How a split looks at a tick."""

    sides: list[list[bytes]]
    """The unforked peers of each side, sorted; the main side comes first."""
    last_contact_ms: int
    """The newest time of a noop that is covered across the border of the main side, to within a tick; 0 if unknown."""
    suspects: list[tuple[bytes, str]]
    links: dict[bytes, int]
    """Silent peers that two sides cover, with the time of the newest noop: suspects, if that was not long ago."""


class Flow(NamedTuple):
    """Who hears whom, told from the main side."""

    hears: list[bytes]
    heard: list[bytes]
    parting: Parting | None
    """None if there is one side only."""


class Picture(NamedTuple):
    """All that is judged at one tick."""

    tick_ms: int
    silent: dict[bytes, int]
    """Silent peers, with the time of their newest noop."""
    interval_ms: int | None
    """The median noop interval, if it is too long to tell who hears whom."""
    flow: Flow | None
    """None if it cannot be told, or no unforked peer is in the graph: then nothing is known of it."""


class Graph(NamedTuple):
    """Of each node, the nodes that hear it, and the nodes that it hears."""

    hearers: list[BitSet]
    sources: list[BitSet]


class Sides(NamedTuple):
    main: BitSet
    others: list[BitSet]
    hears: BitSet
    heard: BitSet


def make_sheet(report: Report, epoch: Epoch) -> Sheet:
    """Cut a report down to what the graph needs."""
    nodes, edge_ms = report.nodes, report.tick_ms - epoch.split_after_ms
    present = {node.author for node in nodes if node.newest_ms > edge_ms}
    members = [at for at, node in enumerate(nodes) if node.since_ms <= edge_ms < node.newest_ms]
    silent = [at for at, node in enumerate(nodes) if node.author not in present]
    roll = Roll(
        [(nodes[at].author, nodes[at].forked) for at in members],
        [(nodes[at].author, nodes[at].newest_ms) for at in silent],
    )
    places = {at: place for place, at in enumerate(members)}
    member_rows = _rows(report.columns, members)
    # Everyone covers all that a peer has said that has said nothing: it was no link.
    silent_rows = {row: at for row, at in _rows(report.columns, silent).items() if nodes[silent[at]].index > 0}
    cells = unpack_cells(report)
    fresh = cells.fresh[np.ix_(list(member_rows), members)]
    contacts = cells.contacts[np.ix_(list(member_rows), members)]
    intervals = zip(report.columns, report.intervals_ms, strict=True)
    return Sheet(
        tick_ms=report.tick_ms,
        before_ms=report.before_ms,
        block=report.block,
        blocks=report.blocks,
        roll=None if report.block else roll,
        members=list(member_rows.values()),
        fresh=np.packbits(fresh).tobytes(),
        contacts=contacts[~fresh].tobytes(),
        silent=list(silent_rows.values()),
        covered=np.packbits(cells.lags[np.ix_(list(silent_rows), members)] == 0).tobytes(),
        intervals_ms=[ms for at, ms in intervals if ms > 0 and not nodes[at].forked],
        withheld=[(author, [places[at] for at in by if at in places]) for author, by in report.withheld],
    )


def draw_picture(sheets: Sequence[Sheet], epoch: Epoch) -> Picture:
    """Judge a tick. Requires the sheets of all blocks."""
    roll = next(sheet.roll for sheet in sheets if sheet.roll is not None)
    silent: dict[bytes, int] = {}
    for author, newest_ms in roll.silent:
        silent[author] = max(newest_ms, silent.get(author, 0))
    tick_ms = sheets[0].tick_ms
    interval_ms = _median(sorted(ms for sheet in sheets for ms in sheet.intervals_ms))
    if epoch.split_after_ms < INTERVALS_MIN * interval_ms:
        return Picture(tick_ms, silent, interval_ms, None)
    if all(forked for _, forked in roll.members):
        return Picture(tick_ms, silent, None, None)
    return Picture(tick_ms, silent, None, _flow(sheets, roll, epoch))


def make_graph(fresh: Bools) -> Graph:
    """The graph of a square matrix: the row of a node tells who hears it."""
    return Graph(
        *([_bit_set(row) for row in np.packbits(side, axis=1, bitorder="little")] for side in (fresh, fresh.T))
    )


def components(graph: Graph) -> list[BitSet]:
    """The strongly connected components.

    Each node is entered once on the way forward and once on the way back, so no graph costs more than twice its
    nodes in operations on sets: at most some 40 ms for 4,096.
    """
    found, left = [], (1 << len(graph.hearers)) - 1
    for node in reversed(_finished(graph.hearers)):
        if left >> node & 1:
            component = reach(graph.sources, 1 << node, left)
            found.append(component)
            left &= ~component
    return found


def reach(links: list[BitSet], start: BitSet, within: BitSet = -1) -> BitSet:
    """The nodes that links lead to from `start`, itself included, by way of nodes of `within` only."""
    reached = ahead = start
    while ahead:
        linked = 0
        for node in nodes_of(ahead):
            linked |= links[node]
        ahead = linked & within & ~reached
        reached |= ahead
    return reached


def find_sides(graph: Graph, unforked: BitSet) -> Sides:
    """The sides as sets of nodes, and the unforked nodes linked one way. Requires an unforked node."""
    found = sorted((one for one in components(graph) if one & unforked), key=lambda one: _lowest(one & unforked))
    main = max(found, key=lambda one: (one & unforked).bit_count())
    after, before = reach(graph.hearers, main), reach(graph.sources, main)
    others = [one for one in found if not one & (after | before)]
    return Sides(main, others, after & ~main & unforked, before & ~main & unforked)


def nodes_of(nodes: BitSet) -> list[int]:
    """The members of a set, ascending."""
    encoded = nodes.to_bytes((nodes.bit_length() + 7) // 8, "little")
    found: list[int] = np.flatnonzero(np.unpackbits(np.frombuffer(encoded, np.uint8), bitorder="little")).tolist()
    return found


def _flow(sheets: Sequence[Sheet], roll: Roll, epoch: Epoch) -> Flow:
    fresh = _gather([(sheet.members, sheet.fresh) for sheet in sheets], len(roll.members), len(roll.members))
    graph = make_graph(fresh)
    unforked = _bit_set(np.packbits([not forked for _, forked in roll.members], bitorder="little"))
    sides = find_sides(graph, unforked)
    hears, heard = (_authors(nodes, roll) for nodes in (sides.hears, sides.heard))
    if not sides.others:
        return Flow(hears, heard, None)
    side_of = np.full(len(roll.members), -1)
    for number, side in enumerate([sides.main, *sides.others]):
        side_of[nodes_of(side)] = number
    stands = _stands(roll, side_of)
    suspects = {
        *((author, "forked") for author, those in stands.items() if len(those) > 1),
        *((author, "withheld") for author in _withholders(sheets, stands, side_of)),
        *((author, "one_way") for author in _authors(_between(graph, sides), roll)),
    }
    parting = Parting(
        [_authors(side & unforked, roll) for side in (sides.main, *sides.others)],
        _last_contact_ms(sheets, fresh, np.where([forked for _, forked in roll.members], -1, side_of), epoch.tick_ms),
        sorted(suspects),
        _links(sheets, roll, side_of),
    )
    return Flow(hears, heard, parting)


def _stands(roll: Roll, side_of: NDArray[np.int_]) -> dict[bytes, set[int]]:
    """The sides that an author has nodes on; several only if it forked."""
    stands: dict[bytes, set[int]] = {}
    for (author, _), side in zip(roll.members, side_of.tolist(), strict=True):
        if side >= 0:
            stands.setdefault(author, set()).add(side)
    return stands


def _withholders(sheets: Sequence[Sheet], stands: dict[bytes, set[int]], side_of: NDArray[np.int_]) -> Iterator[bytes]:
    for author, named_by in (one for sheet in sheets for one in sheet.withheld):
        named_on = {*side_of[named_by].tolist()} - {-1}
        stands_on = stands.get(author, set())
        if named_on and stands_on and len(named_on | stands_on) > 1:
            yield author


def _between(graph: Graph, sides: Sides) -> BitSet:
    """Unforked nodes linked one way to the main side and to another."""
    parted = 0
    for side in sides.others:
        parted |= side
    return (sides.hears | sides.heard) & (reach(graph.hearers, parted) | reach(graph.sources, parted))


def _links(sheets: Sequence[Sheet], roll: Roll, side_of: NDArray[np.int_]) -> dict[bytes, int]:
    covered = _gather([(sheet.silent, sheet.covered) for sheet in sheets], len(roll.silent), len(roll.members))
    links: dict[bytes, int] = {}
    for (author, newest_ms), row in zip(roll.silent, covered, strict=True):
        if len({*side_of[row].tolist()} - {-1}) > 1:
            links[author] = max(newest_ms, links.get(author, 0))
    return links


def _last_contact_ms(sheets: Sequence[Sheet], fresh: Bools, side_of: NDArray[np.int_], step_ms: int) -> int:
    """Only the border of the main side counts: two other sides may be linked one way, and have contact all the time."""
    ages = np.full(fresh.shape, AGE_MAX, np.uint8)
    for sheet in sheets:
        rows = np.full((len(sheet.members), len(side_of)), AGE_MAX, np.uint8)
        rows[~fresh[sheet.members]] = np.frombuffer(sheet.contacts, np.uint8)
        ages[sheet.members] = rows
    main, others = np.flatnonzero(side_of == 0), np.flatnonzero(side_of > 0)
    age = min(int(ages[np.ix_(main, others)].min()), int(ages[np.ix_(others, main)].min()))
    return 0 if age == AGE_MAX else sheets[0].tick_ms - age * step_ms


def _gather(parts: list[tuple[list[int], bytes]], height: int, width: int) -> Bools:
    """The matrix whose rows came in parts, each with the places of its rows."""
    whole = np.zeros((height, width), bool)
    for places, bits in parts:
        shape = (len(places), width)
        cells = np.unpackbits(np.frombuffer(bits, np.uint8), count=shape[0] * shape[1])
        whole[places] = cells.reshape(shape)
    return whole


def _finished(links: list[BitSet]) -> list[int]:
    """All nodes, in the order in which a search in depth leaves them."""
    order: list[int] = []
    path: list[int] = []
    left = (1 << len(links)) - 1
    while left or path:
        ahead = links[path[-1]] & left if path else left
        if ahead:
            path.append(_lowest(ahead))
            left ^= 1 << path[-1]
        else:
            order.append(path.pop())
    return order


def _rows(columns: list[int], nodes: list[int]) -> dict[int, int]:
    """The rows of a report that tell of these nodes, each with the place of its node among them."""
    places = {node: place for place, node in enumerate(nodes)}
    return {row: places[node] for row, node in enumerate(columns) if node in places}


def _authors(nodes: BitSet, roll: Roll) -> list[bytes]:
    return [roll.members[at][0] for at in nodes_of(nodes)]


def _bit_set(packed: NDArray[np.uint8]) -> BitSet:
    return int.from_bytes(packed.tobytes(), "little")


def _lowest(nodes: BitSet) -> int:
    return (nodes & -nodes).bit_length() - 1


def _median(ascending: list[int]) -> int:
    """The lower one of two in the middle, so that it is an interval that was seen; 0 if there is none."""
    return ascending[(len(ascending) - 1) // 2] if ascending else 0

r"""Versions of an entity: sets of events with all that they build on, each with its stamp and its digest.

The digest is a Merkle root over the events in the order that the default join strategy gives (SPEC: seed 002, resolving
a fork in a feed; docs/adr/0012-version-digests.md). A *run* is a sequence of elements at rising positions:
- An event, and after it what it guards, level by level. The events of one level, each with all that it guards, make a
  group of branches: sorted by the id of their first event, each with a sub-tree of its own, which is a run again. The
  root over the branches is one element of the run.
- Only the last level, if it has one event alone, is no group: the run goes on with that event. So a chain is one run,
  and after a fork that is joined it goes on with the join.

        a ─ b ─┬─ c ───── d ─┬─ f ─ g        run:  a  b  {c d | e}  f  g
               └─ e ─────────┘

Runs and groups are radix trees (`state.radix`), by position and by id: a new event, or a fork in the middle of a run,
makes anew some log n hashes for each fork around it. The positions in a run have no gaps. Versions share what they have
in common, and are put together without looking at what only one of them has.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from hashlib import sha256
from typing import NamedTuple

from state.bloom import Clock
from state.events import Event
from state.limits import NESTING_MAX
from state.radix import Comparing, Leaf, Tree, cut, get, leaves, put

_VERSION_TAG = b"quorumscope.version.v1\0"


class NestingError(Exception):
    """An event stands within more forks than are allowed."""


class Version:
    """A set of events of one entity that is closed under parents."""

    __slots__ = ("_root", "_tree", "stamp")

    def __init__(self, root: Event, tree: Tree, stamp: Clock) -> None:
        self._root = root
        self._tree = tree
        self.stamp = stamp

    @classmethod
    def empty(cls, root: Event, zero: Clock) -> "Version":
        """The version without events. The beginning stands in each tree, so that none is without a leaf."""
        return cls(root, _event_leaf(root), zero)

    @property
    def size(self) -> int:
        """How many events it has."""
        return self._tree.size - 1

    @property
    def digest(self) -> bytes:
        return sha256(_VERSION_TAG + self._tree.digest).digest()

    def __contains__(self, event: Event) -> bool:
        return _find(self._tree, self._root, event) is not None

    def after(self, event: Event, stamp: Clock) -> "Version":
        """The version with one more event, and another stamp. Requires that it has the parents and not the event.

        Raises NestingError if an event then stands within more than NESTING_MAX forks. Whether one does follows from
        the set of events, and in a part of the set none stands within more: so `join` raises nothing.
        """
        tree = self._with(event)
        if tree.nesting > NESTING_MAX:
            raise NestingError(f"want at most {NESTING_MAX} forks around an event, got {tree.nesting}")
        return Version(self._root, tree, stamp)

    def join(self, other: "Version") -> "Version":
        """The version with the events of both, and the merge of their stamps."""
        if self.size < other.size:
            return other.join(self)
        tree = _union(self._tree, other._tree)  # noqa: SLF001  this class's own
        return self if tree.size == self._tree.size else Version(self._root, tree, self.stamp.merge(other.stamp))

    def events(self) -> Iterator[Event]:
        """All events in the order of the default join strategy; each comes after those that it builds on."""
        return (event for event in _events(self._tree) if event is not self._root)

    def _with(self, event: Event) -> Tree:
        around = _around(self._tree, self._root, event.guard)
        tree = _place(around.pop().run, event)
        for run, first in reversed(around):
            group = _group(get(run, first.position))
            tree = put(run, _group_leaf(first.position, put(group, _member_leaf(_key(first), tree))))
        return tree


class Difference(NamedTuple):
    """The events that only one of two versions has, and how many hashes are exchanged to find them."""

    only_one: list[Event]
    only_other: list[Event]
    hashes: int


def differences(one: Version, other: Version) -> Difference:
    """What two versions of one entity differ in: O(d log n) hashes for d events."""
    comparing = Comparing()
    found = Difference([], [], 0)
    if one is not other:
        # The runs that are still to be compared, each pair with one first event.
        pairs: list[tuple[Tree, Tree]] = [(one._tree, other._tree)]  # noqa: SLF001  this module's own
        while pairs:
            pairs += _compare_runs(*pairs.pop(), comparing, found)
    return found._replace(hashes=comparing.hashes)


# Leaves. Their hashes cover their keys, and the first byte tells what they are.


def _event_leaf(event: Event) -> Leaf:
    return Leaf(event.position, event, sha256(b"\x00" + event.position.to_bytes(8) + event.id).digest())


def _group_leaf(position: int, group: Tree) -> Leaf:
    digest = sha256(b"\x02" + position.to_bytes(8) + group.digest).digest()
    return Leaf(position, group, digest, group.size, group.nesting + 1)


def _member_leaf(key: int, run: Tree) -> Leaf:
    """A branch in a group. `key` is the id of its first event, as a number."""
    return Leaf(key, run, sha256(b"\x03" + key.to_bytes(32) + run.digest).digest(), run.size, run.nesting)


def _key(first: Event) -> int:
    return int.from_bytes(first.id)


def _group(leaf: Leaf | None) -> Tree:
    assert leaf is not None
    assert type(leaf.value) is not Event
    tree: Tree = leaf.value
    return tree


# Finding and placing an event.


class _Around(NamedTuple):
    """A run, and the event of a group in it under which the search goes on; in the last one, the event itself."""

    run: Tree
    first: Event


def _find(tree: Tree, root: Event, event: Event) -> list[_Around] | None:
    """The runs around an event, from the outermost in; None if it is not there."""
    around: list[_Around] = []
    run, start = tree, root
    while not _stands(run, event):
        first = _first_outside(run, start, event)
        leaf = get(run, first.position)
        if leaf is None or type(leaf.value) is Event:
            return None
        member = get(leaf.value, _key(first))
        if member is None:
            return None
        around.append(_Around(run, first))
        run, start = member.value, first
    return [*around, _Around(run, event)]


def _around(tree: Tree, root: Event, event: Event) -> list[_Around]:
    """The runs around an event that is there."""
    found = _find(tree, root, event)
    assert found is not None
    return found


def _stands(run: Tree, event: Event) -> bool:
    leaf = get(run, event.position)
    return leaf is not None and leaf.value is event


def _first_outside(run: Tree, start: Event, event: Event) -> Event:
    """The highest guard above an event, or the event, that does not stand in a run that begins with `start`."""

    def outside(guard: Event) -> bool:
        return guard.depth > start.depth and not _stands(run, guard)

    while True:
        if outside(event.jump):
            event = event.jump
        elif outside(event.guard):
            event = event.guard
        else:
            return event


def _place(run: Tree, event: Event) -> Tree:
    """A run with one more event, whose guard stands in it."""
    position = event.position
    if event.level:
        before = get(run, position - 1)
        assert before is not None
        if type(before.value) is Event:
            # The level before was the last one, and the run went on with it: now it is a group of one branch.
            run = _enclose(run, before.value)
            return put(run, _event_leaf(event))
    here = get(run, position)
    if here is None:
        return put(run, _event_leaf(event))
    if type(here.value) is Event:
        run = _enclose(run, here.value)
        here = get(run, position)
    group = put(_group(here), _member_leaf(_key(event), _event_leaf(event)))
    return put(run, _group_leaf(position, group))


def _enclose(run: Tree, first: Event) -> Tree:
    """A run whose part from `first` on has become a branch of its own, in a group at the same position."""
    below, branch = cut(run, first.position)
    assert below is not None
    assert branch is not None
    return put(below, _group_leaf(first.position, _member_leaf(_key(first), branch)))


# Putting together, listing and comparing.


def _union(one: Tree, other: Tree) -> Tree:
    """Two runs with one first event, put together."""
    changed: list[Leaf] = []
    whole = one
    for ours, theirs in Comparing().differing(one, other):
        if type(ours) is not Leaf or type(theirs) is not Leaf:
            # From here on only one of them goes on.
            whole = one if theirs is None else other
            break
        if _is_group(ours) and _is_group(theirs):
            changed.append(_group_leaf(ours.key, _union_of_groups(ours.value, theirs.value)))
            continue
        # At most one of them has further levels, and what goes on as a single branch becomes one of the group.
        changed.append(_group_leaf(ours.key, _union_of_groups(_as_group(one, ours), _as_group(other, theirs))))
        whole = one if _is_group(ours) else _without_branch(other, theirs)
        break
    return reduce(put, changed, whole)


def _union_of_groups(one: Tree, other: Tree) -> Tree:
    if one.size < other.size:
        one, other = other, one
    whole = one
    for ours, theirs in Comparing().differing(one, other):
        if type(ours) is Leaf and type(theirs) is Leaf:
            whole = put(whole, _member_leaf(ours.key, _union(ours.value, theirs.value)))
        elif ours is None:
            whole = reduce(put, leaves(theirs), whole)
    return whole


def _without_branch(run: Tree, leaf: Leaf) -> Tree:
    """A run, without what goes on from a place in it as a single branch."""
    if _is_group(leaf):
        return run
    below, _ = cut(run, leaf.key)
    assert below is not None
    return below


def _events(run: Tree | None) -> Iterator[Event]:
    stack = [leaves(run)]
    while stack:
        leaf = next(stack[-1], None)
        if leaf is None:
            stack.pop()
        elif type(leaf.value) is Event:
            yield leaf.value
        else:
            # A group's leaves are runs, and the leaves of these are events or groups again.
            stack.append(leaves(leaf.value))


def _compare_runs(one: Tree, other: Tree, comparing: Comparing, found: Difference) -> Iterable[tuple[Tree, Tree]]:
    """Note what two runs with one first event differ in; gives the branches that are to be compared in turn."""
    for ours, theirs in comparing.differing(one, other):
        if type(ours) is not Leaf or type(theirs) is not Leaf:
            found.only_one.extend(_events(ours))
            found.only_other.extend(_events(theirs))
        elif _is_group(ours) and _is_group(theirs):
            yield from _compare_groups(ours.value, theirs.value, comparing, found)
        else:
            # From here on at least one of them goes on with a single branch: as a group of one it compares with any.
            yield from _compare_groups(_as_group(one, ours), _as_group(other, theirs), comparing, found)
            for run, leaf, only in ((one, ours, found.only_one), (other, theirs, found.only_other)):
                if _is_group(leaf):
                    only.extend(_events(cut(run, leaf.key + 1)[1]))
            return


def _compare_groups(one: Tree, other: Tree, comparing: Comparing, found: Difference) -> Iterable[tuple[Tree, Tree]]:
    for ours, theirs in comparing.differing(one, other):
        if type(ours) is Leaf and type(theirs) is Leaf:
            yield ours.value, theirs.value
        else:
            found.only_one.extend(_events(ours))
            found.only_other.extend(_events(theirs))


def _is_group(leaf: Leaf) -> bool:
    return type(leaf.value) is not Event


def _as_group(run: Tree, leaf: Leaf) -> Tree:
    """The group at a place in a run; if the run goes on with a single branch there, a group of that one."""
    if _is_group(leaf):
        return _group(leaf)
    branch = cut(run, leaf.key)[1]
    assert branch is not None
    return _member_leaf(_key(leaf.value), branch)

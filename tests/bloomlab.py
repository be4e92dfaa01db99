"""A swarm that sends messages at random, stamped with Bloom clocks, and with vector clocks to tell the truth.

This is the experiment by which Kshemkalyani and Misra judge Bloom clocks (The Bloom Clock for Causality Testing, 2020).

- There are n processes. One after another, picked at random, takes a turn: it sends a message to another one, picked
  too; with a given probability it does something by itself; it receives the oldest message that waits for it, if any.
  Each of these is an event. An event's parents are the one before it in its process and, if it receives, the sending.
- A run has n² + 10 n events. The first 10 n are left out, so that the processes have heard of each other; of the rest
  every n/10-th is looked at. All pairs of these are compared.
- z is after y in truth if the vector clock of z has counted y. A pair *looks* before or equal if no counter of y's
  stamp is above that of z's.

A run is a matrix with a stamp for each row. The tests hold it against `state.bloom`, clock by clock.
"""

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import lgamma
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.bloom import Parameters, indices

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]
NOBODY = -1
"""The parent of a process's first event: the last row of each matrix, which stays zero."""


class Setup(NamedTuple):
    """A run: how many processes, how often they do something by themselves, and the seed of its chance."""

    processes: int
    internal: float = 0.0
    seed: int = 6

    @property
    def warm_up(self) -> int:
        return 10 * self.processes

    @property
    def events(self) -> int:
        return self.processes**2 + self.warm_up


@dataclass(frozen=True)
class History:
    """The events of a run in the order of their happening: who made each, and its two parents."""

    setup: Setup
    authors: list[int]
    parents: list[tuple[int, int]]

    @cached_property
    def looked_at(self) -> NDArray[np.intp]:
        """The events whose stamps are compared: about 1,000 with a hundred processes, ten for each process."""
        return np.arange(self.setup.warm_up, len(self.parents), max(self.setup.processes // 10, 1))

    @cached_property
    def ids(self) -> list[bytes]:
        return [sha256(b"%d event %d" % (self.setup.seed, number)).digest() for number in range(len(self.parents))]

    @cached_property
    def vectors(self) -> NDArray[np.int32]:
        """The vector clocks of the events that are looked at."""
        clocks = np.zeros((len(self.parents) + 1, self.setup.processes), np.int32)
        for event, (own, heard) in enumerate(self.parents):
            np.maximum(clocks[own], clocks[heard], out=clocks[event])
            clocks[event, self.authors[event]] += 1
        return clocks[self.looked_at]

    @cached_property
    def before(self) -> Flags:
        """Whether event y (row) is in the past of event z (column), in truth."""
        authors = np.asarray(self.authors)[self.looked_at]
        own = self.vectors[np.arange(len(authors)), authors]
        known = own[:, None] <= self.vectors[:, authors].T
        np.fill_diagonal(known, val=False)
        return known

    def stamps(self, parameters: Parameters) -> NDArray[np.uint16]:
        """The stamps of the events that are looked at, one in each row."""
        clocks = np.zeros((len(self.parents) + 1, parameters.counters), np.uint16)
        for event, (own, heard) in enumerate(self.parents):
            stamp = np.maximum(clocks[own], clocks[heard], out=clocks[event])
            for index in indices(self.ids[event], parameters):
                stamp[index] += 1
        return clocks[self.looked_at]


def simulate(setup: Setup) -> History:
    chance = Random(setup.seed)
    newest = [NOBODY] * setup.processes
    waiting: list[deque[int]] = [deque() for _ in range(setup.processes)]
    authors: list[int] = []
    parents: list[tuple[int, int]] = []

    def happen(process: int, heard: int = NOBODY) -> int:
        parents.append((newest[process], heard))
        authors.append(process)
        newest[process] = len(parents) - 1
        return newest[process]

    while len(parents) < setup.events:
        process = chance.randrange(setup.processes)
        other = chance.randrange(setup.processes - 1)
        waiting[other + (other >= process)].append(happen(process))
        if chance.random() < setup.internal:
            happen(process)
        if waiting[process]:
            happen(process, waiting[process].popleft())
    return History(setup, authors[: setup.events], parents[: setup.events])


class Outcome(NamedTuple):
    """How often the stamps were right about some pairs; positive means that a pair looks before or equal."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @property
    def accuracy(self) -> float:
        return (self.true_positives + self.true_negatives) / sum(self)

    @property
    def precision(self) -> float:
        return self.true_positives / (self.true_positives + self.false_positives)

    @property
    def false_positive_rate(self) -> float:
        return self.false_positives / (self.false_positives + self.true_negatives)


@dataclass(frozen=True)
class Comparisons:
    """All pairs of the events that are looked at, by stamps of some parameters. Rows are y, columns are z."""

    history: History
    parameters: Parameters

    @cached_property
    def stamps(self) -> NDArray[np.uint16]:
        return self.history.stamps(self.parameters)

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        return self.stamps.sum(axis=1, dtype=np.int64)

    @cached_property
    def looks_before(self) -> Flags:
        return np.stack([(one <= self.stamps).all(axis=1) for one in self.stamps])

    @cached_property
    def all_pairs(self) -> Flags:
        return ~np.eye(len(self.stamps), dtype=bool)

    @cached_property
    def later_pairs(self) -> Flags:
        """Pairs with y before z in real time: an observer who saw both come knows that z is not before y."""
        return np.triu(self.all_pairs)

    def outcome(self, pairs: Flags) -> Outcome:
        looks, before = self.looks_before[pairs], self.history.before[pairs]
        counts = (looks & before, looks & ~before, ~looks & before, ~looks & ~before)
        return Outcome(*(int(flags.sum()) for flags in counts))

    @cached_property
    def ramabaja(self) -> Numbers:
        """(1 − (1 − 1/N)^|z|)^|y|: that each increment of y falls on a counter that z has raised."""
        untouched = np.exp(self.totals * np.log1p(-1 / self.parameters.counters))
        return np.exp(self.totals[:, None] * np.log1p(-untouched)[None, :])

    @cached_property
    def misra(self) -> Numbers:
        """The product over the counters of P(Binomial(|z|, 1/N) ≥ y[i]).

        Counters of one height have the same factor: so it is a product of how many of each height y has with the
        logarithms of the tails for z.
        """
        sums, which = np.unique(self.totals, return_inverse=True)
        heights = int(self.stamps.max()) + 1
        histogram = np.stack([np.bincount(one, minlength=heights) for one in self.stamps])
        tails = binomial_tails(sums, 1 / self.parameters.counters, heights)
        return np.exp(histogram @ np.log(tails).T)[:, which]


def binomial_tails(trials: NDArray[np.int64], chance: float, heights: int) -> Numbers:
    """P(Binomial(trials, chance) ≥ height), for each number of trials (row) and each height below `heights` (column).

    Summed from the far end, so that small tails keep their digits; what is left out there is below 10⁻³⁰⁰ of the rest.
    """
    mean = chance * float(trials.max())
    top = heights + int(2 * mean + 40 * np.sqrt(mean)) + 100
    log_factorials = np.array([lgamma(number + 1) for number in range(int(trials.max()) + 1)])
    hits = np.minimum(np.arange(top), trials[:, None])
    missed = trials[:, None] - hits
    log_ways = log_factorials[trials][:, None] - log_factorials[hits] - log_factorials[missed]
    mass = np.exp(log_ways + hits * np.log(chance) + missed * np.log1p(-chance))
    mass[np.arange(top) > trials[:, None]] = 0.0
    tails = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1][:, :heights]
    return np.clip(tails, np.finfo(float).tiny, 1.0)

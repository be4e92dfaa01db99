"""The samples of replicas: how those of each peer stand, and which peers publish updates that cannot be right.

Entities have no labels: peers name them. A swarm that shares none has no series of its peers.
"""

from collections import Counter
from collections.abc import Iterator

from dashboards.findings import WHYS
from dashboards.replicas import STATES
from dashboards.watch import OTHER, SwarmWatch
from state.metric import Sample
from state.verdict import BadUpdate

PLACES_LIMIT = "entities"
"""The limit of this store, named as one of those that verdicts name."""


def replica_samples(watch: SwarmWatch) -> Iterator[Sample]:
    """Those of a swarm: of each peer of the roster now how its replicas stand, then the bad updates of all peers."""
    swarm, replicas = watch.swarm.name, watch.replicas
    yield Sample("entities", (swarm,), replicas.entities)
    members = watch.peers if replicas.entities else {}
    for author, name in members.items():
        standing, labels = replicas.standing(author), (swarm, name)
        for state in STATES:
            yield Sample("replicas", (*labels, state), standing.states[state])
        yield Sample("replicas_contradicted", labels, standing.contradicted)
        yield Sample("replica_lacks_events_max", labels, standing.lacks_max)
        if standing.diverged_since_ms is not None:
            yield Sample("replica_diverged_since_timestamp_seconds", labels, standing.diverged_since_ms / 1000)
        if standing.is_full:
            yield Sample("limits_exceeded", (*labels, PLACES_LIMIT), 1)
    counts = Counter({(name, why): 0 for name in members.values() for why in WHYS})
    for author in watch.findings.authors(BadUpdate):
        for found in watch.findings.of(BadUpdate, author):
            why = found.verdict.why
            counts[watch.name(author), why if why in WHYS else OTHER] += 1
    yield from (Sample("bad_updates_total", (swarm, *labels), count) for labels, count in counts.items())

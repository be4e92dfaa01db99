"""The metrics of the exporter: names, labels, and help that says what each cannot tell. `samples` fills them."""

from state.metric import by_name, counter, gauge, histogram

_SWARM = ("swarm",)
_PEER = ("swarm", "peer")
_RULE = ("swarm", "rule")
_PAIR = ("swarm", "observer", "author")


_EXPORTER = (
    gauge("exporter_info", ("version", "url"), "1. `url` is where the exporter's pages are reached."),
    gauge(
        "exporter_last_verdict_timestamp_seconds",
        (),
        "Record time of the newest verdict that was read. An old one can mean a stalled pipeline, or a quiet swarm.",
    ),
    gauge(
        "exporter_lag_records",
        ("topic",),
        "Records of a topic, `verdicts` or `matrix`, that the exporter has not read: what it shows is that much old. "
        "Stands still while Kafka does not answer.",
    ),
    gauge(
        "exporter_kafka_up",
        (),
        "1 if Kafka answered when the exporter last asked it, 0 if not: then what is shown is what was read before.",
    ),
    gauge(
        "exporter_unreadable_records",
        ("topic",),
        "Records on a topic that are no verdicts or reports, among those read since the exporter's start; skipped.",
    ),
    gauge(
        "exporter_foreign_records",
        ("topic",),
        "Records about swarms or peers that the exporter's configuration does not have, since its start; skipped.",
    ),
)
_SWARMS = (
    gauge("swarm_info", ("swarm", "swarm_id", "config"), "1. The swarm's id, and the digest of the configuration."),
    gauge("peers", _SWARM, "Peers of the roster now."),
    gauge("peers_active", _SWARM, "Peers that published within `split_after` of the newest tick."),
    gauge("rule_threshold_peers", _RULE, "How many peers make a segment known or accepted by a rule."),
    gauge(
        "rule_tolerated_liars",
        _RULE,
        "Liars, the author included, with whom two conflicting segments still cannot both be accepted. It is a bound "
        "that the rule gives, not a number of liars that were found.",
    ),
    gauge(
        "matrix_tick_timestamp_seconds",
        _SWARM,
        "The newest tick that all blocks have reported. Stands still while nobody is active.",
    ),
    gauge("split_sides", _SWARM, "Sides of the swarm: 1 if it is not split. Two ticks late, to open and to close."),
    gauge("split_opened_timestamp_seconds", _SWARM, "The tick at which the open split was first seen."),
    gauge(
        "undecidable",
        _SWARM,
        "1 while segments are too rare to tell a split from a pause: `split_after` is under three median intervals.",
    ),
    counter("episodes_total", ("swarm", "kind"), "Episodes that ever opened: split, silent, one_way, undecidable."),
    counter(
        "known_segments_total",
        _RULE,
        "Positions of logs (author and index) known by a rule. Branches of a fork that share an index count once.",
    ),
    counter(
        "accepted_segments_total",
        _RULE,
        "Positions of logs (author and index) accepted by a rule. What is not accepted yet, or never, is not in it.",
    ),
    histogram(
        "known_latency_seconds",
        _RULE,
        "From the record of a segment to that of the observer that made it known. Only of segments that became known.",
    ),
    histogram(
        "acceptance_latency_seconds",
        _RULE,
        "From the record of a segment to that of the observer that made it accepted, by Kafka's times: without the "
        "monitor's own delay, and only of segments that were accepted. No sum, because a late record can lower it.",
    ),
    gauge("last_accepted_timestamp_seconds", _RULE, "When a segment was last accepted by a rule."),
    gauge(
        "verdict_delay_seconds",
        _SWARM,
        "Of the newest acceptance: from the record that made it to the verdict's record. The monitor's own part.",
    ),
)
_FINDINGS = (
    counter(
        "forks_total",
        _PEER,
        "Points where a peer's log forks, up to 256. A lie, a restored backup, or one key in two places: it cannot "
        "tell which.",
    ),
    gauge("last_fork_timestamp_seconds", _PEER, "Record time of the newest version that contradicts a peer's own log."),
    gauge(
        "fork_info",
        ("swarm", "peer", "index", "evidence"),
        "1 for each peer whose log forks: where two of its versions stand, and the address of the evidence file.",
    ),
    gauge("fork_branches", _PEER, "Branches of a forked peer's log."),
    gauge(
        "branch_believers",
        ("swarm", "peer", "branch"),
        "Peers that hold a branch, its author included. To hold a branch is not to endorse it.",
    ),
    gauge(
        "lie_undetected_seconds",
        _PEER,
        "From the record of the second version to the verdict, for the newest fork. After Kafka has compacted the "
        "topic and the exporter was started anew it may be told too long.",
    ),
    gauge("missing_segments", _PEER, "Segments that others build on and nobody published, up to 256."),
    gauge("missing_disputed_segments", _PEER, "Those of them in whose place another version stands."),
    gauge("missing_oldest_timestamp_seconds", _PEER, "Since when the oldest of them is missing."),
    counter("bad_index_segments_total", _PEER, "Segments whose index does not follow that of their previous one."),
    gauge(
        "clock_ahead_seconds",
        _PEER,
        "The most that a peer's clock was ever ahead of record time, if that is far; not what it is now.",
    ),
    gauge(
        "clock_behind_seconds",
        _PEER,
        "The least that a peer's clock was ever behind record time, if that is far. A slow network looks the same.",
    ),
    gauge("clock_skew_changed_timestamp_seconds", _PEER, "When either of these last changed."),
    gauge("limits_exceeded", ("swarm", "peer", "limit"), "1 for a limit that a peer went over, for ever."),
    gauge("quarantined_keys", ("fold",), "Keys of a fold that stand still because of a bug in it. Must not be there."),
)
_REPLICAS = (
    gauge(
        "entities",
        _SWARM,
        "Entities of which the replica of some peer is known. Where it is 0, there are no series of replicas.",
    ),
    gauge(
        "replicas",
        ("swarm", "peer", "state"),
        "Replicas of entities at a peer, by how they stand to all that was published: in_step, behind, ahead or "
        "diverged. Told by what the peer last said of each; what it has heard since, it cannot tell.",
    ),
    gauge(
        "replicas_contradicted",
        _PEER,
        "Those of a peer's diverged replicas whose digest is not that of the events that they claim to have. A damaged "
        "store, a fault in its software and a lie look the same.",
    ),
    gauge("replica_lacks_events_max", _PEER, "The most published events that a replica of a peer does not have."),
    gauge(
        "replica_diverged_since_timestamp_seconds",
        _PEER,
        "Since when the oldest divergence of a peer's replicas lasts: record time of the first event that it lacks. "
        "Replicas that are contradicted are left out.",
    ),
    counter(
        "bad_updates_total",
        ("swarm", "peer", "why"),
        "Entities of which a peer published an update that cannot be right, up to 256 for each reason: malformed, "
        "parameters, stamp or digest. Further ones of one entity and reason count no more.",
    ),
)
_PEERS = (
    gauge("peer_silent", _PEER, "1 for a peer that has published nothing for `split_after`. It cannot tell why."),
    gauge("peer_silent_since_timestamp_seconds", _PEER, "Record time of a silent peer's newest segment."),
    gauge(
        "peer_one_way",
        ("swarm", "peer", "direction"),
        "1 while knowledge flows one way only between a peer and the main side: it `hears` or it is `heard`.",
    ),
    gauge(
        "split_side",
        _PEER,
        "While the swarm is split: 1 for the main side, 2 and so on for others, 0 for none. Else 1, or 0 if silent.",
    ),
    gauge("split_suspect", ("swarm", "peer", "why"), "1 for a peer that may stand between the sides of an open split."),
    gauge("peer_index", _PEER, "Index of a peer's newest segment at the newest tick; of its longest branch."),
    gauge("peer_last_segment_timestamp_seconds", _PEER, "Record time of a peer's newest segment."),
    gauge("peer_lag_segments_max", _PEER, "The most that a peer misses of any active author, up to 255 segments."),
    gauge("peer_stale_authors", _PEER, "Active authors on whom a peer is not fresh. 0 for peers that are silent."),
    gauge("peer_stale_observers", _PEER, "Active peers that are not fresh on a peer. 0 for peers that are silent."),
    gauge("peer_accepted_index", ("swarm", "peer", "rule"), "The newest index of a peer's log that is accepted."),
)
_PAIRS = (
    gauge(
        "pair_lag_segments",
        _PAIR,
        "Segments of an author that an observer does not have, up to 255. A branch of a forked peer has a letter. Of a "
        "large roster only the worst pairs.",
    ),
    gauge(
        "pair_unseen_seconds",
        _PAIR,
        "Age of the oldest segment of an author that an observer does not have, in whole ticks. The same pairs.",
    ),
)

METRICS = by_name((*_EXPORTER, *_SWARMS, *_FINDINGS, *_REPLICAS, *_PEERS, *_PAIRS))
"""In the order in which the budget of series is spent."""

"""Every limit of the system, with its reason. Going over one has a named outcome that is counted."""

from typing import Final

RECORD_BYTES_MAX: Final = 1 << 20
"""A Kafka record's value. What brokers allow as they come, so that no cluster needs large settings for it."""

OP_BYTES_MAX: Final = 64 << 10
"""One op. Sixteen of the largest fit a record; larger things belong in a blob store, with their hash in an op."""

OPS_MAX: Final = 4096
"""Ops of one segment: with ops of 120 bytes that is half a record, and one check covers them all."""

ROSTER_MAX: Final = 4096
"""Peers of one epoch: the matrix has the square of this many cells."""

BRANCHES_MAX: Final = 64
"""Branches of one author's log. An honest log has one; a liar needs two; more only cost the monitor memory."""

UNRESOLVED_MAX: Final = 1024
"""Segments of one author whose `previous` is not held where it should stand. A gap makes one; they stand in the
blob of the shard (about 80 bytes each), which is rewritten in every batch."""

CLAIMS_MAX: Final = 4096
"""Refs of one peer, within one shard, to noops that nobody has published. While one partition is read ahead of
another an honest peer has some hundreds; a peer that invents noops must not fill the state."""

WAITING_MAX: Final = 1_000
"""Segments of one author that a peer keeps while a part of their past is not there. More are dropped: they can be
asked for again, and a peer that invents a past fills its own places only."""

REFERRERS_MAX: Final = 16
"""Referrers that a `missing` verdict names: enough to ask around, small enough for a record."""

SPAN_SEGMENTS_MAX: Final = 4096
"""Heads kept for one span of 64 indexes: what 64 branches can fill. Larger chunks would be slow to rewrite."""

SPAN_RUNS_MAX: Final = 1024
"""Separate stretches of indexes in one author's log. An honest log has one, or a few where segments were lost."""

CLOCK_SKEW_MS_MAX: Final = 300_000
"""How far a peer's own clock may be from record time before a verdict says so: what TLS and Kerberos tolerate."""

BLOB_BYTES_TARGET: Final = 256 << 10
"""A key's blob is read and written whole in each batch, at 30 to 80 ms a MB: beyond this, open spans are spilled."""

BLOB_BYTES_MAX: Final = 1 << 20
"""What a key's blob should never exceed: such a key costs a batch a tenth of a second by itself. Operators are warned
before; nothing is refused."""

INDEX_MAX: Final = (1 << 31) - 2
"""An index that the matrix can hold: two thousand million noops of one author, 68 years of one a second."""

LIVE_MAX: Final = 65_536
"""Noops of one author that are looked at at the same time. At one a second that is eighteen hours; an author that
floods fills its own places only, and what it publishes beyond them is left out."""

GAPS_MAX: Final = 256
"""Noops that nobody published and that the noops of one peer name, within a block. An honest peer has one for each
segment that was lost; a peer that invents noops must not fill the state."""

OLD_REFS_MAX: Final = 256
"""Noops beyond their horizon that one noop can name; further ones count as not held. Each may cost a read of the
archive, 0.3 ms. A peer that was away for long names one for each peer that went on without it."""

ENTITY_BYTES_MAX: Final = 64
"""An entity's name: a hash in hex digits fits. It stands in every update of the entity, and in verdicts."""

PARENTS_MAX: Final = 256
"""Events that one update builds on. As many branches can be joined at once; more are joined in steps."""

EVENTS_MAX: Final = 65_536
"""Events of one entity. They are held in memory while the entity is worked on, at about a kilobyte each; what has a
longer life is better made of several entities."""

NESTING_MAX: Final = 128
"""Forks of an entity's history that stand within each other. Each makes an update dearer by some hashes; replicas that
join what they see never come near it."""

PENDING_MAX: Final = 1_024
"""Updates of one author, within one shard, that build on events which nobody has published. A replica that invents
parents must not fill the state."""

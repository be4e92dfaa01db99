"""Load for benchmarks: repeatable, of the asked shape, and right wherever it says that it is."""

import pytest

from producers.load import deep_fork, load, matrix_load
from producers.swarm import START_MS
from state.head import HEAD_BYTES, decode_head, head_id
from state.segment import Reason, Segment, decode_refs, encode_refs, judge


def test_load_is_valid_repeatable_and_of_the_asked_shape() -> None:
    made = [load(3, 10, segments=100, ops_per_segment=7, refs_per_segment=4) for _ in range(2)]
    records = list(made[0].records)
    assert records == list(made[1].records)
    segments = [judge(record.value, made[0].config.authors) for record in records]
    newest: dict[bytes, bytes] = {}
    for segment in segments:
        assert isinstance(segment, Segment)
        assert segment.head.previous == newest.get(segment.head.author, bytes(32))
        assert {ref.id for ref in decode_refs(segment.refs)} <= set(newest.values())
        newest[segment.head.author] = segment.id
        assert [len(op) for op in segment.ops] == [120] * 7
    assert len(newest) == 10
    last = segments[-1]
    assert isinstance(last, Segment)
    assert len(decode_refs(last.refs)) == 4


def test_a_deep_fork_is_a_chain_and_a_second_first_segment() -> None:
    config, records = deep_fork(segments=50)
    segments = [judge(record.value, config.authors) for record in records]
    indexes = [segment.head.index for segment in segments if isinstance(segment, Segment)]
    assert indexes == [*range(1, 51), 1]
    assert segments[0] != segments[-1]


@pytest.mark.parametrize(("peers", "refs"), [(40, 5), (10, 9), (3, 0)])
def test_a_matrix_load_is_a_right_graph_of_chains_and_newest_noops(peers: int, refs: int) -> None:
    made = matrix_load(3, peers, 600, refs, step_ms=7)
    assert [time_ms for _, time_ms in made.noops] == [START_MS + 7 * turn for turn in range(600)]
    newest: dict[bytes, Segment] = {}
    entangled: dict[tuple[bytes, bytes], int] = {}
    counts = []
    for segment, time_ms in made.noops:
        head, before = segment.head, newest.get(segment.head.author)
        assert (head.index, head.previous) == ((before.head.index + 1, before.id) if before else (1, bytes(32)))
        assert (head.time_ms, head.swarm) == (time_ms, made.config.swarms[0].key)
        found = decode_refs(segment.refs)
        assert encode_refs(found) == segment.refs
        for ref in found:
            assert ref.author != head.author
            assert ref == newest[ref.author].ref
            assert ref.index > entangled.get((head.author, ref.author), 0)
            entangled[head.author, ref.author] = ref.index
        counts.append(len({ref.author for ref in found}))
        newest[head.author] = segment
    assert newest.keys() == made.config.swarms[0].authors.keys()
    assert max(counts) == refs
    assert sum(counts) >= 0.7 * 600 * refs


def test_a_matrix_load_has_right_ids_and_hashes_and_nothing_but_the_signature_is_made_up() -> None:
    made = matrix_load(1, 5, 50, 3)
    for segment, _ in made.noops:
        assert len(segment.head_bytes) == HEAD_BYTES
        assert decode_head(segment.head_bytes) == segment.head
        assert head_id(segment.head_bytes) == segment.id
        assert judge(segment.encode(), made.config.authors) is Reason.BAD_SIGNATURE
    trusting = pytest.MonkeyPatch()
    with trusting.context() as patch:
        patch.setattr("state.segment.is_head_signed", lambda *_: True)
        for segment, _ in made.noops:
            judged = judge(segment.encode(), made.config.authors)
            assert isinstance(judged, Segment)
            assert judged._replace(ops=()) == segment


def test_a_matrix_load_is_repeatable_and_another_seed_gives_another() -> None:
    assert matrix_load(1, 9, 100, 4) == matrix_load(1, 9, 100, 4)
    ids = [{segment.id for segment, _ in matrix_load(seed, 9, 100, 4).noops} for seed in (1, 2)]
    assert ids[0].isdisjoint(ids[1])


@pytest.mark.parametrize("refs", [-1, 5])
def test_more_refs_than_there_are_others_are_refused(refs: int) -> None:
    with pytest.raises(ValueError, match=f"refs: want 0 to 4, got {refs}"):
        matrix_load(1, 5, 10, refs)

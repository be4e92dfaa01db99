"""The upgrade path: what an earlier build kept in a checkpoint is read by this one, unless the fold's version differs.

A failure here means that a fold keeps something else than before. Then its version must go up, so that checkpoints of
before are refused in words, and the file is made anew: `python -m tests.statelab`.
"""

import pytest

from state.folds import FOLDS
from streaming.fsck import audit_key
from streaming.queries import QUERIES
from tests.statelab import RUNS, Kept, folds_of, read, said_by, said_without_a_stop


def of(name: str) -> list[Kept]:
    return [one for one in read() if one.run == name]


@pytest.mark.parametrize("name", RUNS)
def test_the_file_has_states_of_each_fold_in_the_version_that_it_has_now(name: str) -> None:
    now = {(query, fold, made.version) for query in QUERIES for fold, made in folds_of(name, query).items()}
    kept = {(one.query, one.fold, one.version) for one in of(name)}
    assert kept == now - {("matrix", "rejected", version) for _, _, version in now}, "nothing is rejected there"
    assert {fold for _, fold, _ in kept} == FOLDS.keys()


@pytest.mark.parametrize("name", RUNS)
def test_what_an_earlier_build_kept_is_sound(name: str) -> None:
    for one in of(name):
        audit = audit_key(folds_of(name, one.query)[one.fold], one.key, one.stored(), dict(one.archive))
        assert audit.problems == [], (one.fold, one.key)


@pytest.mark.parametrize(
    ("name", "folds"), [("whole-story", ("logs", "columns", "splits")), ("diverging-replicas", ("clocks",))]
)
def test_who_goes_on_with_it_says_what_one_says_who_never_stopped(name: str, folds: tuple[str, ...]) -> None:
    kept = of(name)
    said = said_by(name, kept)
    assert said == said_without_a_stop(name)
    for fold in folds:
        assert said != said_by(name, [one for one in kept if one.fold != fold]), f"what {fold} keeps must matter"

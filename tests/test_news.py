"""What is news among thousands of verdicts, and in which words."""

from state.verdict import Missing, decode_verdict, encode_verdict
from streaming.news import News, Tone
from tests.storylab import watched


def lines(second: float, tone: Tone | None = None) -> list[str]:
    items = watched("whole-story").scene_at(second).news.items
    return [item.text for item in items if tone is None or item.tone is tone]


def test_the_whole_story_is_some_lines_and_none_is_told_twice() -> None:
    told = lines(60)
    assert len(told) < 25
    assert len(told) == len(set(told))
    assert not any("known" in line or "accepted" in line for line in told)


def test_lies_and_the_split_are_alarms_and_its_end_is_a_relief() -> None:
    alarms = lines(60, Tone.ALARM)
    assert [line.split(" segment")[0] for line in alarms[:4]] == [
        *("peer-2 forked its log after", "peer-2 signed two"),
        *("peer-5 forked its log after", "peer-5 signed two"),
    ]
    assert [line.split(":")[0] for line in alarms[4:]] == ["the swarm is split"]
    (relief,) = lines(60, Tone.RELIEF)
    assert relief.startswith("the swarm was split for 1")


def test_beliefs_are_told_together_when_they_have_settled() -> None:
    beliefs = [line for line in lines(60, Tone.NOTE) if "silent" not in line]
    assert beliefs[0] == "everyone else holds both stories of peer-2"
    near, far = "peer-1, peer-3, peer-4 believe peer-5", "peer-6, peer-7, peer-8 believe peer-5"
    assert beliefs[1] in {f"{near} a; {far} b", f"{far} a; {near} b"}
    assert beliefs[2:] == ["peer-1, peer-3, peer-4, peer-6, peer-7, peer-8 hold both stories of peer-5"]


def test_the_letters_of_beliefs_are_those_of_the_matrix() -> None:
    story = watched("whole-story")
    matrix = story.scene_at(38).matrix
    assert matrix is not None
    branches = [
        node.branch.hex() for node in matrix.nodes if node.forked and story.swarm.authors[node.author] == "peer-5"
    ]
    (fork,) = [fork for fork in story.simulation.truth.forks if fork.branches[0] in branches]
    assert branches == fork.branches


def test_what_is_withdrawn_is_told_once_and_only_if_it_was_told() -> None:
    config = watched("whole-story").simulation.config
    news = News(config)
    verdict = Missing(
        key="missing/x", swarm="", config="", author="aa", index=3, id="bb", since_ms=0, disputed=False, referrers=()
    )
    news.add("missing/x", decode_verdict(encode_verdict(verdict)), 1.0)
    news.add("missing/x", None, 2.0)
    news.add("missing/x", None, 3.0)
    news.add("missing/y", None, 3.0)
    told, withdrawn = news.items
    assert withdrawn == (2.0, f"withdrawn: {told.text}", Tone.RELIEF)

"""The whole core as one state machine: whatever peers, links and crashes do, live, replayed and searched say the same.

A failure is printed as the steps that lead to it, with a line that repeats it (`@reproduce_failure`).
"""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.modellab import PARTITIONS, Model

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "60"))
"""How many stories are tried: `MODEL_EXAMPLES=5000 pytest tests/test_model.py` tries more."""
STEPS = 40
FACES_MAX = 5
SEGMENTS_MAX = 30
"""The search looks at each with each: more would take longer than they tell."""

numbers = st.integers(0, 10_000)
kinds = st.lists(st.sampled_from(["data", "change", "change", "state", "by clock", "lie"]), max_size=3)
partitions = st.integers(0, PARTITIONS - 1)
sizes = st.lists(st.integers(0, 4), min_size=PARTITIONS, max_size=PARTITIONS)


class Story(RuleBasedStateMachine):
    """Each rule is a thing that can happen; a number stands for one of those that there are."""

    @initialize()
    def begin(self) -> None:
        self.model = Model()

    @precondition(lambda self: len(self.model.made) < SEGMENTS_MAX)
    @rule(who=numbers, kinds=kinds, is_published=st.booleans(), partition=partitions)
    def sign(self, who: int, kinds: list[str], partition: int, *, is_published: bool) -> None:
        model = self.model
        model.sign(model.faces[who % len(model.faces)], kinds)
        if is_published:
            model.publish(model.made[-1], partition)

    @precondition(lambda self: len(self.model.made) < SEGMENTS_MAX)
    @rule(rounds=st.integers(1, 3), kinds=kinds, step_ms=st.sampled_from([10, 400, 2_000]))
    def work(self, rounds: int, kinds: list[str], step_ms: int) -> None:
        """Everyone signs and publishes, and hears of what was published so far."""
        for _ in range(rounds):
            self.model.work(kinds, step_ms)

    @precondition(lambda self: self.model.made)
    @rule(which=numbers, partition=partitions)
    def publish_late_or_again(self, which: int, partition: int) -> None:
        self.model.publish(self.model.made[which % len(self.model.made)], partition)

    @precondition(lambda self: self.model.made)
    @rule(who=numbers, which=numbers, count=st.integers(1, 5))
    def hear(self, who: int, which: int, count: int) -> None:
        model = self.model
        face = model.faces[who % len(model.faces)]
        for segment in model.made[which % len(model.made) :][:count]:
            face.hear(segment)

    @precondition(lambda self: self.model.made)
    @rule(who=numbers)
    def hear_everything(self, who: int) -> None:
        for segment in self.model.made:
            self.model.faces[who % len(self.model.faces)].hear(segment)

    @precondition(lambda self: len(self.model.faces) < FACES_MAX)
    @rule(who=numbers)
    def tell_two_stories(self, who: int) -> None:
        self.model.split(self.model.faces[who % len(self.model.faces)])

    @rule(ms=st.sampled_from([100, 1_500, 20_000, 400_000]))
    def let_time_pass(self, ms: int) -> None:
        self.model.now_ms += ms

    @rule(sizes=sizes, stores=st.sampled_from([True, True, True, False]))
    def read_a_batch(self, sizes: list[int], *, stores: bool) -> None:
        """Now and then it crashes before the batch is stored, and what it said is said again."""
        self.model.monitor.batch(sizes, stores=stores)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert list(self.model.problems()) == []


TestStory = Story.TestCase
TestStory.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    phases=(
        Phase.reuse,
        Phase.generate,
    ),  # to make a failure smaller takes minutes, and its steps can be read as they are
    suppress_health_check=list(HealthCheck),
)

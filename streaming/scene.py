"""What a demo has to show: numbers that change, and news that stay. Its clock is set by who looks on."""

from state.config import Config, Swarm
from state.grid import Grid
from state.verdict import Accepted, AnyVerdict, Equivocation, Fork, Known, Split
from streaming.acceptance import Acceptance
from streaming.news import News
from streaming.progress import Totals
from streaming.verdicts import Update


class Scene:
    """The state of a story that is being watched. Times are milliseconds since 1970, as those of records are."""

    def __init__(self, config: Config, records: int) -> None:
        self.config = config
        self.swarm: Swarm = config.swarms[0]
        self.started_ms = 0
        self.now_ms = 0
        self.records = records
        self.published = 0
        self.segments = Totals()
        self.ticks = Totals()
        self.matrix: Grid | None = None
        self.acceptance = Acceptance()
        self.news = News(config)
        self.liars: set[str] = set()
        """The names of the peers that are proved to have signed two versions."""
        self.split: Split | None = None
        """The newest one."""
        self.found_after_ms: dict[str, int] = {}
        """By liar, from the moment its second version was on the topic to the verdict."""

    def start(self, now_ms: int) -> None:
        """The story begins now."""
        self.started_ms = self.now_ms = now_ms

    @property
    def elapsed_s(self) -> float:
        return self.story_s(self.now_ms)

    def story_s(self, time_ms: int) -> float:
        """A moment, in seconds from the start."""
        return (time_ms - self.started_ms) / 1000

    def tell(self, text: str) -> None:
        """Something happens in the story."""
        self.news.add_story(text, self.elapsed_s)

    def add(self, update: Update) -> None:
        """Take in a verdict that has come, or come again."""
        self.news.add(update.key, update.verdict, self.elapsed_s)
        if update.verdict is not None:
            self._note(update.verdict)

    def _note(self, verdict: AnyVerdict) -> None:
        if isinstance(verdict, Known | Accepted):
            self.acceptance.add(verdict, self.now_ms)
        elif isinstance(verdict, Equivocation):
            self.liars.add(self._name(verdict.author))
        elif isinstance(verdict, Fork):
            seen_ms = sorted(branch.seen_ms for branch in verdict.branches)[1]
            self.found_after_ms.setdefault(self._name(verdict.author), self.now_ms - seen_ms)
        elif isinstance(verdict, Split) and (self.split is None or verdict.opened_ms >= self.split.opened_ms):
            self.split = verdict

    def _name(self, author: str) -> str:
        return self.swarm.authors[bytes.fromhex(author)]

"""`quorumscope run` as a process of its own, on topics of its own: started, watched by its files, killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from producers.simulation import Record
from producers.sinks import publish_fast
from producers.swarmfile import config_yaml
from state.config import Config
from state.connection import Connection
from streaming.lock import working
from streaming.topics import Setup, create_topics
from tests.commandlab import command
from tests.topiclab import compacted, read_topic

START_SECONDS_MAX = 180.0


class Deployment:
    """Topics, a file of swarms and a checkpoint directory."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        config: Config,
        folder: Path,
        partitions: int = 3,
        *,
        live: bool = False,
    ) -> None:
        """Record times are those that the test writes, or else, if it is live, the broker's."""
        self.connection = connection
        self.prefix = prefix
        self.config = config
        self.checkpoint = folder / f"checkpoint-{prefix}"
        self.swarms = folder / f"{prefix}.yaml"
        self.swarms.write_text(config_yaml(config))
        create_topics(connection, Setup(prefix=prefix, partitions=partitions, create_time=not live))

    def topic(self, suffix: str) -> str:
        return f"{self.prefix}.{suffix}"

    def publish(self, records: Iterable[Record]) -> int:
        return publish_fast(records, self.connection.librdkafka(), self.topic("segments"))

    def arguments(self, *more: str | Path) -> list[str | Path]:
        """Of options given twice the last one counts."""
        options: dict[str, str | Path] = {
            "--swarms": self.swarms,
            "--checkpoint": self.checkpoint,
            "--bootstrap": self.connection.bootstrap,
            "--prefix": self.prefix,
            "--master": "local[2]",
        }
        parts = [part for option in options.items() for part in option]
        return ["run", *parts, *more]

    def start(self, *more: str | Path) -> "Job":
        return Job(self, self.arguments(*more))

    def verdicts(self) -> dict[bytes, bytes]:
        return compacted(read_topic(self.connection, self.topic("verdicts")))

    def newest(self, what: str, query: str = "segments") -> int:
        """The newest batch that was planned (`offsets`) or has ended (`commits`); −1 if there is none."""
        folder = self.checkpoint / query / what
        names = [path.name for path in folder.iterdir()] if folder.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)


class Job:
    """A job that runs in a process group of its own."""

    def __init__(self, deployment: Deployment, arguments: list[str | Path]) -> None:
        self.deployment = deployment
        self.process = subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    @property
    def jvm(self) -> int | None:
        """The process id of its JVM, once it has one."""
        return working(self.deployment.checkpoint)

    def wait_for(
        self, condition: Callable[[], bool], seconds: float = START_SECONDS_MAX, pause_s: float = 0.01
    ) -> None:
        """Wait until something is so; the job must not end before."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(pause_s)

    def wait_past(self, batch: int) -> None:
        """Wait until a batch after this one has ended."""
        self.wait_for(lambda: self.deployment.newest("commits") > batch)

    def kill(self, *, whole: bool = True) -> None:
        """End it as a crash would: the whole group, or Python alone, whose JVM then lives on for some seconds."""
        (os.killpg if whole else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def stop(self, seconds: float = 60) -> tuple[str, str]:
        """End it in order; what it had to say."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, (out, err)
        return out, err

"""One account for all trials, printed at the end of a run; `make soak` keeps it in docs/reliability.md."""

from collections.abc import Iterator
from typing import Any

import pytest

from streaming.broker import Broker
from tests.faults.faultlab import Outcome, Trials
from tests.faults.report import keep, table

OUTCOMES = pytest.StashKey[list[Outcome]]()


@pytest.fixture(scope="session")
def trials(
    request: pytest.FixtureRequest, broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trials]:
    found = Trials(spark, broker, tmp_path_factory.mktemp("calm"))
    request.config.stash[OUTCOMES] = found.outcomes
    yield found
    keep(found.outcomes)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash.get(OUTCOMES, [])
    if outcomes:
        terminalreporter.section("faults")
        for line in table(outcomes):
            terminalreporter.write_line(line)

"""One cluster for all tests of the chart; each test has a namespace of its own."""

from collections.abc import Callable, Iterator

import pytest

from tests.k8s.cluster import Cluster, started_cluster
from tests.k8s.helmlab import Release

TIMES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> list[str]:
    """Sentences about how long things took, told at the end of the run."""
    return request.config.stash.setdefault(TIMES, [])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, times: list[str]) -> Iterator[Cluster]:
    with started_cluster(tmp_path_factory.mktemp("cluster")) as started:
        times.extend(f"{what}: ready after {seconds:.1f} s" for what, seconds in started.ready_s.items())
        yield started


@pytest.fixture
def release(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Release:
    """A release that is not installed yet, in a namespace that admits restricted pods alone."""
    return Release(cluster, cluster.new_namespace(_name(request)), tmp_path_factory.mktemp("helm"))


@pytest.fixture
def tell(times: list[str], request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keep a sentence about what was measured."""
    return lambda sentence: times.append(f"{request.node.name}: {sentence}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section("measured")
    for line in config.stash.get(TIMES, []):
        terminalreporter.write_line(line)


def _name(request: pytest.FixtureRequest) -> str:
    """A namespace's name from a test's: what Kubernetes allows of it."""
    plain = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_").lower())
    return plain[:60].strip("-")

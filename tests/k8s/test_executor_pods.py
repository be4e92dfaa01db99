"""The whole chart at work, with Spark's executors as pods: a real broker, a real driver that asks a real API server.

The test is the kubelet (see kubelet.py): what the pods say is really started. So this shows that the rights suffice,
that Spark's own pods are admitted, that driver and executors find and know each other, that the probes follow, that a
lost executor is made anew, that `helm test` passes and what Prometheus reads tells of it, and that nothing is left.
"""

import re
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.sinks import publish_fast
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.config import Config, parse_config
from state.connection import Connection
from streaming.broker import Broker
from tests.k8s.api import Thing, wait_until
from tests.k8s.cluster import Cluster
from tests.k8s.helmlab import Done, Release
from tests.k8s.image import lay_out
from tests.k8s.kubelet import Kubelet
from tests.k8s.podprocess import PodProcess, used
from tests.k8s.valueslab import SPARKS_VERBS, kubernetes
from tests.topiclab import compacted, differences, fold_alone, read_topic

PREFIX = "watch"
EXECUTORS = 2
WORK_SECONDS_MAX = 180.0
COMPONENT = "app.kubernetes.io/component"

CANARYS_FORK = re.compile(r'^quorumscope_forks_total\{[^}]*swarm="canary"[^}]*\} [1-9]', re.MULTILINE)

Tell = Callable[[str], None]


@pytest.fixture(scope="module")
def kubelet(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    folder = tmp_path_factory.mktemp("kubelet")
    with Kubelet(cluster, folder, "hands", lay_out(folder), verbatim={"pod.yaml"}) as playing:
        yield playing


class Watch:
    """A release that is at work."""

    def __init__(self, release: Release, kubelet: Kubelet, broker: Broker, before: set[Thing]) -> None:
        self.release = release
        self.kubelet = kubelet
        self.connection = Connection(bootstrap=broker.bootstrap)
        self.before = before

    @property
    def config(self) -> Config:
        """What the release judges by: the operator's swarms, and the canary's."""
        text = self.release.get("configmaps", "watch-quorumscope-swarms")["data"]["swarms.yaml"]
        return parse_config(text)

    def put(self, verb: str, simulation: Simulation, offsets_max: int) -> Done:
        """Install or upgrade, and wait until driver and exporter say that they are ready."""
        values = kubernetes(
            kafka={"bootstrap": self.connection.bootstrap, "prefix": PREFIX},
            swarms={"file": config_yaml(simulation.config)},
            driver={"memory": "1g", "offsetsMax": offsets_max, "trigger": "0 seconds"},
            executors={"instances": EXECUTORS, "memory": "768m"},
        )
        done = self.release.put(verb, values, "--timeout", f"{WORK_SECONDS_MAX:.0f}s")
        assert done.code == 0, f"{done.err}\n{self.story()}"
        return done

    @property
    def driver(self) -> PodProcess:
        (found,) = self.kubelet.running(**{COMPONENT: "driver"})
        return found

    def executors(self) -> list[PodProcess]:
        return self.kubelet.running(**{COMPONENT: "executor"})

    def batches(self) -> int:
        """How many batches of the first query have ended."""
        folder = self.kubelet.claims / self.release.namespace
        return sum(path.name.isdigit() for path in folder.glob("*/**/segments/commits/*"))

    def publish(self, records: Sequence[Record]) -> None:
        publish_fast(records, self.connection.librdkafka(), f"{PREFIX}.segments")

    def differences(self) -> dict[bytes, tuple[bytes | None, bytes | None]]:
        """Between the verdicts and those of one process without Spark that reads the same topic."""
        got = compacted(read_topic(self.connection, f"{PREFIX}.verdicts"))
        return differences(got, fold_alone(self.config, read_topic(self.connection, f"{PREFIX}.segments")))

    def wait_for_verdicts(self) -> float:
        """Wait until all are there; how long that took."""
        began = time.monotonic()
        wait_until(lambda: self.differences() == {}, WORK_SECONDS_MAX, self.story)
        return time.monotonic() - began

    def story(self) -> str:
        return f"{self.kubelet.story()}\n{self.release.story()}"


def test_executors_are_pods_and_when_one_is_lost_the_job_goes_on(
    cluster: Cluster, broker: Broker, kubelet: Kubelet, tmp_path: Path, tell: Tell
) -> None:
    simulation = SCENARIOS["lying-bridge"].run(Settings(blocks=4, duration_ms=40_000))
    release = Release(cluster, cluster.new_namespace("executor-pods", real=True), tmp_path)
    watch = Watch(release, kubelet, broker, cluster.api.inventory())

    install(watch, simulation, tell)
    half = len(simulation.records) // 2
    watch.publish(simulation.records[:half])
    tell(f"{half} segments: all verdicts after {watch.wait_for_verdicts():.1f} s")
    lose_an_executor(watch, tell)
    watch.publish(simulation.records[half:])
    tell(
        f"{len(simulation.records) - half} more, an executor lost: all verdicts after {watch.wait_for_verdicts():.1f} s"
    )
    verdicts = compacted(read_topic(watch.connection, f"{PREFIX}.verdicts"))
    assert any(key.startswith(b"fork/") for key in verdicts)
    pass_helm_test(watch, tell)
    uninstall(watch, tell)
    compare_rights(watch, tell)


def install(watch: Watch, simulation: Simulation, tell: Tell) -> None:
    """The hook Job really makes the topics, and `helm install` waits until driver and exporter are ready."""
    done = watch.put("install", simulation, 100)
    assert "Warning" not in done.err, done.err
    tell(f"helm install until driver and exporter were ready: {done.seconds:.1f} s")
    (topics,) = watch.kubelet.started(**{COMPONENT: "topics"})
    assert topics.process.poll() == 0
    wait_until(lambda: len(watch.executors()) == EXECUTORS, WORK_SECONDS_MAX, watch.story)
    owners = [
        (owner["kind"], owner["name"]) for pod in watch.executors() for owner in pod.pod["metadata"]["ownerReferences"]
    ]
    assert owners == [("Pod", watch.driver.name)] * EXECUTORS


def lose_an_executor(watch: Watch, tell: Tell) -> None:
    """As a node that fails would: its processes end at once, and its pod is said to have failed."""
    victim, survivor = watch.executors()
    batches = watch.batches()
    assert batches > 0
    began = time.monotonic()
    victim.signal(signal.SIGKILL)
    victim.process.wait(10)
    wait_until(lambda: len(watch.executors()) == EXECUTORS, WORK_SECONDS_MAX, watch.story)
    replaced = watch.executors()
    assert survivor in replaced
    assert victim not in replaced
    tell(f"a lost executor's pod was made anew after {time.monotonic() - began:.1f} s")


def pass_helm_test(watch: Watch, tell: Tell) -> None:
    """A test peer lies, and the monitor accuses it."""
    done = watch.release.helm("test", watch.release.name, "--timeout", "180s")
    (canary,) = watch.kubelet.started(**{COMPONENT: "canary"})
    assert done.code == 0, f"{done.err}\n{canary.log_end()}\n{watch.story()}"
    tell(f"helm test: {done.seconds:.1f} s; it said: {' / '.join(canary.log_end().splitlines())}")
    wait_until(lambda: CANARYS_FORK.search(metrics_behind(watch, "watch-quorumscope-exporter")), 30, watch.story)


def metrics_behind(watch: Watch, service: str) -> str:
    """What Prometheus would scrape: from the pod that the service's endpoint names."""
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{watch.release.namespace}/endpointslices"
    (found,) = watch.release.cluster.api.items(slices, labelSelector=f"kubernetes.io/service-name={service}")
    (endpoint,) = found["endpoints"]
    assert endpoint["conditions"]["ready"]
    (port,) = found["ports"]
    with urllib.request.urlopen(
        f"http://{used(endpoint['addresses'][0])}:{port['port']}/metrics", timeout=10
    ) as answer:
        return str(answer.read().decode())


def uninstall(watch: Watch, tell: Tell) -> None:
    """What stays is the volume with the state.

    Helm takes the driver's rights before the driver has ended, so it cannot remove its executors: they belong to its
    pod, and Kubernetes does.
    """
    driver, executors = watch.driver, watch.executors()
    done = watch.release.uninstall()
    left = watch.release.left_of(watch.before)
    assert left == {Thing("persistentvolumeclaims", watch.release.namespace, "watch-quorumscope-checkpoint")}
    assert driver.process.wait(10) == 0, driver.log_end()
    assert all(pod.process.poll() is not None for pod in executors)
    tell(f"helm uninstall, and all is gone: {done.seconds:.1f} s")


def compare_rights(watch: Watch, tell: Tell) -> None:
    """By the API server's own log: nothing that Spark asked for was refused, and nothing is granted in vain.

    The one right that is not used here is for a driver that ends and still has its rights: when it is replaced.
    """
    asked = watch.release.cluster.requests_of(watch.release.namespace, "watch-quorumscope-driver")
    refused = [(one["verb"], one["requestURI"]) for one in asked if one["responseStatus"]["code"] == 403]
    assert refused == []
    used = Counter((one["objectRef"]["resource"], one["verb"]) for one in asked if "objectRef" in one)
    tell(f"what Spark asked the API server for: {dict(used)}")
    assert {resource for resource, _ in used} == {"pods"}
    assert {verb for _, verb in used} == SPARKS_VERBS - {"deletecollection"}

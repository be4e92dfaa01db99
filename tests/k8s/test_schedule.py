"""Where the pods of a release go, on nodes that kwok plays: scheduled, spread, and kept when nodes are drained."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.k8s.api import wait_until
from tests.k8s.cluster import Cluster
from tests.k8s.helmlab import Release
from tests.k8s.valueslab import local

COMPONENT = "app.kubernetes.io/component"


def test_pods_are_scheduled_and_ready_with_the_priority_that_was_said(
    release: Release, tell: Callable[[str], None]
) -> None:
    done = release.install(local(priorityClass={"create": True, "value": 1234}))
    tell(f"helm install until all is ready: {done.seconds:.1f} s")
    for component in ("driver", "exporter"):
        (pod,) = release.pods(**{COMPONENT: component})
        ready = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
        assert ready["PodScheduled"] == ready["Ready"] == "True"
        assert pod["spec"]["nodeName"].startswith("played-")
        assert pod["spec"]["priority"] == 1234


def test_replicas_go_to_different_nodes(release: Release) -> None:
    release.install(local(exporter={"replicas": 3}))
    assert len({pod["spec"]["nodeName"] for pod in release.pods(**{COMPONENT: "exporter"})}) == 3


def test_a_drain_may_take_one_exporter_at_a_time_and_the_driver(release: Release) -> None:
    """The driver is one, and what it kept is on the volume: it must not hold a drain up."""
    release.install(local(exporter={"replicas": 2}))

    def allowed() -> int:
        budget = release.get("poddisruptionbudgets", "watch-quorumscope-exporter", "apis/policy/v1")
        return int(budget.get("status", {}).get("disruptionsAllowed", 0))

    wait_until(lambda: allowed() == 1, 30)
    first, second = (pod["metadata"]["name"] for pod in release.pods(**{COMPONENT: "exporter"}))
    with cordoned(release.cluster):
        assert evict(release, first) == 201
        assert evict(release, second) == 429  # its replacement waits for a node
    wait_until(lambda: allowed() == 1, 30)
    assert evict(release, second) == 201
    (driver,) = release.pods(**{COMPONENT: "driver"})
    assert evict(release, driver["metadata"]["name"]) == 201


def evict(release: Release, name: str) -> int:
    """The status of the answer to what `kubectl drain` does with a pod."""
    path = f"/api/v1/namespaces/{release.namespace}/pods/{name}/eviction"
    meta = {"name": name, "namespace": release.namespace}
    return release.cluster.api.ask(
        "POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    ).status


@contextmanager
def cordoned(cluster: Cluster) -> Iterator[None]:
    """No node takes new pods meanwhile."""
    nodes = [f"/api/v1/nodes/{node['metadata']['name']}" for node in cluster.api.items("/api/v1/nodes")]
    for node in nodes:
        cluster.api.patch(node, {"spec": {"unschedulable": True}})
    yield
    for node in nodes:
        cluster.api.patch(node, {"spec": {"unschedulable": None}})

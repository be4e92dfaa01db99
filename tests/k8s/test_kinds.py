"""A cluster that knows the kinds of Prometheus's operator and of Strimzi's: the chart makes objects of them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.k8s.api import wait_until
from tests.k8s.cluster import Cluster
from tests.k8s.helmlab import Release
from tests.k8s.valueslab import local

PROMETHEUS, STRIMZI = "/apis/monitoring.coreos.com/v1", "/apis/kafka.strimzi.io/v1"


@pytest.fixture(scope="module", autouse=True)
def kinds(cluster: Cluster) -> Iterator[None]:
    """They are there while these tests run, and not for others, which see that the chart can do without."""
    definitions = str(Path(__file__).with_name("crds.yaml"))
    done = cluster.kubectl("apply", "--filename", definitions)
    assert done.returncode == 0, done.stderr
    for path in (f"{PROMETHEUS}/servicemonitors", f"{PROMETHEUS}/prometheusrules", f"{STRIMZI}/kafkatopics"):
        wait_until(partial(_known, cluster, path), 30)
    yield
    assert cluster.kubectl("delete", "--filename", definitions).returncode == 0


def _known(cluster: Cluster, path: str) -> bool:
    return cluster.api.ask("GET", path).status == 200


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_what_prometheus_and_strimzi_read_is_made(release: Release, kind: str) -> None:
    topics = {"create": "strimzi", "strimzi": {"cluster": "kafka"}}
    release.install(local(metrics={"monitor": kind}, alerts={"rules": "always"}, topics=topics))
    place = f"namespaces/{release.namespace}"
    api = release.cluster.api
    (monitor,) = api.items(f"{PROMETHEUS}/{place}/{kind.lower()}s")
    assert monitor["metadata"]["name"] == "watch-quorumscope-metrics"
    (rules,) = api.items(f"{PROMETHEUS}/{place}/prometheusrules")
    assert rules["spec"]["groups"]
    names = {topic["spec"]["topicName"] for topic in api.items(f"{STRIMZI}/{place}/kafkatopics")}
    assert names == {f"quorumscope.{topic}" for topic in ("segments", "verdicts", "matrix", "rejected")}


def test_by_itself_the_chart_uses_what_the_cluster_knows(release: Release) -> None:
    release.install(local())
    assert {"ServiceMonitor", "PrometheusRule"} <= {one["kind"] for one in release.manifest()}


def test_the_topics_stay_when_the_release_goes(release: Release) -> None:
    """With them, all that peers published would go."""
    release.install(local(topics={"create": "strimzi", "strimzi": {"cluster": "kafka"}}))
    release.uninstall()
    left = release.cluster.api.items(f"{STRIMZI}/namespaces/{release.namespace}/kafkatopics")
    assert len(left) == 4

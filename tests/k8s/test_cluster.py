"""The cluster of these tests itself: what it would refuse is refused, and what should run is said to run."""

import pytest

from tests.k8s.api import Tree, wait_until
from tests.k8s.cluster import Cluster

SAFE = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str, **security: object) -> Tree:
    container = {"name": "one", "image": "nothing", "securityContext": {**SAFE, **security}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"privileged": True, "allowPrivilegeEscalation": True},
        {"runAsNonRoot": None},
        {"allowPrivilegeEscalation": None},
        {"capabilities": {}},
        {"seccompProfile": None},
    ],
    ids=lambda wrong: "-".join(wrong).lower(),
)
def test_a_pod_that_is_not_restricted_is_refused(cluster: Cluster, wrong: Tree) -> None:
    place = cluster.new_namespace(f"refused-{'-'.join(wrong).lower()}")
    answer = cluster.api.ask("POST", f"/api/v1/namespaces/{place}/pods", pod("wrong", **wrong))
    assert answer.status == 403
    assert "violates PodSecurity" in answer.message


def test_a_restricted_pod_is_admitted_scheduled_and_said_to_run(cluster: Cluster) -> None:
    place = cluster.new_namespace("admitted")
    cluster.api.create(f"/api/v1/namespaces/{place}/pods", pod("right"))
    path = f"/api/v1/namespaces/{place}/pods/right"
    found = wait_until(lambda: (one := cluster.api.get(path))["status"]["phase"] == "Running" and one, 30)
    assert found["spec"]["nodeName"].startswith("played-")


def test_a_job_ends_and_what_it_made_goes_with_it(cluster: Cluster) -> None:
    place = cluster.new_namespace("job")
    before = cluster.api.inventory(place)
    spec = pod("unused")["spec"] | {"restartPolicy": "Never"}
    jobs = f"/apis/batch/v1/namespaces/{place}/jobs"
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": {"template": {"spec": spec}}}
    cluster.api.create(jobs, body)
    wait_until(lambda: cluster.api.get(f"{jobs}/once")["status"].get("succeeded") == 1, 30)
    assert len(cluster.api.items(f"/api/v1/namespaces/{place}/pods")) == 1
    policy = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    assert cluster.api.ask("DELETE", f"{jobs}/once", policy).status == 200
    wait_until(lambda: cluster.api.inventory(place) == before, 30)


def test_a_claim_gets_a_volume(cluster: Cluster) -> None:
    place = cluster.new_namespace("claim")
    claims = f"/api/v1/namespaces/{place}/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "20Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "some"}, "spec": spec}
    cluster.api.create(claims, body)
    wait_until(lambda: cluster.api.get(f"{claims}/some")["status"]["phase"] == "Bound", 60)


def test_a_service_account_may_do_nothing_that_was_not_granted(cluster: Cluster) -> None:
    place = cluster.new_namespace("nobody")
    answer = cluster.as_account(place, "default").ask("GET", f"/api/v1/namespaces/{place}/pods")
    assert answer.status == 403
    assert [one["responseStatus"]["code"] for one in cluster.requests_of(place, "default")] == [403]

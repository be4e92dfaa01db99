"""A release from its installation to its end, on a real API server: helm install, upgrade, rollback, uninstall."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.k8s.api import Thing, Tree
from tests.k8s.cluster import Cluster
from tests.k8s.helmlab import Release
from tests.k8s.valueslab import MODES, kubernetes, local

COMPONENT = "app.kubernetes.io/component"
NAME = "watch-quorumscope"

Tell = Callable[[str], None]


def components(release: Release) -> Counter[str]:
    """How many pods of each component there are, and all of them are well."""
    pods = release.pods(**{"app.kubernetes.io/part-of": "quorumscope"})
    assert {pod["status"]["phase"] for pod in pods} <= {"Running", "Succeeded"}, release.story()
    return Counter(pod["metadata"]["labels"][COMPONENT] for pod in pods)


def arguments(release: Release) -> list[str]:
    """Of the driver that runs."""
    (pod,) = release.pods(**{COMPONENT: "driver"})
    return list(pod["spec"]["containers"][0]["args"])


def secret(release: Release) -> str:
    return str(release.get("secrets", f"{NAME}-spark")["data"]["secret"])


def claim(release: Release, name: str = "checkpoint") -> Thing:
    return Thing("persistentvolumeclaims", release.namespace, f"{NAME}-{name}")


@pytest.mark.parametrize("mode", MODES)
def test_every_pod_of_a_release_is_admitted_as_restricted(release: Release, mode: str, tell: Tell) -> None:
    values = MODES[mode](replay={"enabled": True, "into": "again"}, exporter={"replicas": 2})
    done = release.install(values)
    tell(f"helm install: {done.seconds:.1f} s")
    assert "Warning" not in done.err, done.err  # the API server warns of what `restricted` would refuse
    assert components(release) == {"driver": 1, "exporter": 2, "replay": 1}
    events = release.cluster.api.items(f"/api/v1/namespaces/{release.namespace}/events")
    started = {one["involvedObject"]["name"] for one in events if one["reason"] == "SuccessfulCreate"}
    assert f"{NAME}-topics" in started  # the hook Job, which has gone
    assert not [one["message"] for one in events if one["reason"] == "FailedCreate"]
    # kwok runs nothing, so `helm test` has nothing to wait for: its pod is only shown to be admitted.
    (canary,) = (hook for hook in release.hooks() if hook["kind"] == "Pod")
    release.cluster.api.create(f"/api/v1/namespaces/{release.namespace}/pods?dryRun=All", canary)


def test_a_pod_that_would_not_be_restricted_does_not_come_up(release: Release) -> None:
    """So the admission of the others means something."""
    done = release.put(
        "install", local(extraVolumes=[{"name": "far", "nfs": {"server": "nowhere", "path": "/"}}]), "--timeout", "5s"
    )
    assert done.code != 0
    assert "violates PodSecurity" in release.story()
    assert release.pods(**{COMPONENT: "driver"}) == []


def test_nothing_is_left_of_a_release_but_the_state_and_the_next_one_finds_it(
    cluster: Cluster, release: Release, tell: Tell
) -> None:
    before = cluster.api.inventory()
    values = kubernetes(replay={"enabled": True, "into": "again"}, priorityClass={"create": True})
    release.install(values)
    made = cluster.api.inventory() - before
    volume = release.get("persistentvolumeclaims", claim(release).name)["spec"]["volumeName"]
    tell(f"{len(made)} objects made: {dict(sorted(Counter(one.resource for one in made).items()))}")
    done = release.uninstall()
    tell(f"helm uninstall: {done.seconds:.1f} s")
    assert release.left_of(before) == {claim(release)}
    release.install(values)
    assert release.get("persistentvolumeclaims", claim(release).name)["spec"]["volumeName"] == volume


def test_nothing_at_all_is_left_if_the_state_is_not_to_be_kept(cluster: Cluster, release: Release) -> None:
    before = cluster.api.inventory()
    release.install(local(checkpoint={"keep": False}))
    release.uninstall()
    assert release.left_of(before) == set()


def test_an_upgrade_changes_what_was_said_and_no_more_and_a_rollback_returns(release: Release, tell: Tell) -> None:
    release.install(kubernetes())
    pods, key = pods_by_id(release), secret(release)
    assert "--offsets-max=100000" in arguments(release)

    assert release.put("upgrade", kubernetes()).code == 0
    assert pods_by_id(release) == pods  # nothing was changed, so nothing starts anew

    done = release.put("upgrade", kubernetes(driver={"offsetsMax": 777}))
    assert done.code == 0, done.err
    tell(f"helm upgrade: {done.seconds:.1f} s")
    assert "--offsets-max=777" in arguments(release)
    assert len(pods_by_id(release).keys() - pods.keys()) == 1  # the driver
    assert secret(release) == key

    done = release.helm("rollback", release.name, "--wait", "--timeout", "60s")
    assert done.code == 0, done.err
    assert "--offsets-max=100000" in arguments(release)
    assert secret(release) == key


def test_two_drivers_never_run_on_one_checkpoint(release: Release) -> None:
    """The old one is gone before the new one is made, as the times of both tell."""
    release.install(local())
    kept = release.get("deployments", f"{NAME}-driver", "apis/apps/v1")
    assert kept["spec"]["strategy"] == {"type": "Recreate"}
    hold = {"metadata": {"finalizers": ["test/hold"]}}
    (old,) = release.pods(**{COMPONENT: "driver"})
    path = f"/api/v1/namespaces/{release.namespace}/pods/{old['metadata']['name']}"
    release.cluster.api.patch(path, hold)
    done = release.put("upgrade", local(driver={"offsetsMax": 777}), "--timeout", "5s")
    assert done.code != 0  # the old one does not go
    assert [pod["metadata"]["uid"] for pod in release.pods(**{COMPONENT: "driver"})] == [old["metadata"]["uid"]]
    release.cluster.api.patch(path, {"metadata": {"finalizers": None}})


def test_two_releases_live_in_one_namespace(
    cluster: Cluster, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> None:
    release.install(kubernetes())
    other = Release(cluster, release.namespace, tmp_path_factory.mktemp("other"), "look")
    other.install(kubernetes(kafka={"prefix": "other"}))
    assert components(release) == {"driver": 2, "exporter": 2}
    other.uninstall()
    assert components(release) == {"driver": 1, "exporter": 1}


def pods_by_id(release: Release) -> dict[str, Tree]:
    pods = release.pods(**{"app.kubernetes.io/part-of": "quorumscope"})
    return {pod["metadata"]["uid"]: pod["spec"] for pod in pods}
